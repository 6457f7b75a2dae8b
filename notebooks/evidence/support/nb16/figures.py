"""Drawings of evidence 16: faults that cost, all their combinations, word pieces, a sweep."""

import pandas
from matplotlib.figure import Figure

from aot_helpers.showing import plots
from aot_helpers.showing.diagrams import KEY, QUERY, VALUE
from aot_helpers.showing.texts import tint
from chapters.nb16_too_good.figures import REPORT, USUAL
from evidence.support.nb16.results import ON_REVIEWS

LENGTH_COLORS = {20: KEY, 50: QUERY, 80: VALUE}  # of rows of so many tokens; paler: slower
LOSSES = {"softmax over time": REPORT, "usual softmax": USUAL}  # of the figure of word pieces
TICKS = [4, 5, 6, 8, 10, 15, 20, 30]  # of a logarithmic axis of nats


def costs(rows: dict, found: dict, *, title: str, note: str = "") -> Figure:
    """Held-out losses of set-ups on rows, beside the baselines, on a logarithmic axis of nats.

    rows: {row: {"as trained": losses}}; found: what `make data WHAT=autopsy` measured.
    """
    unit = "held-out cross-entropy of the next token (nats, log scale)"
    levels = {nats: "\n" * (name == "uniform") + name for nats, name in _baselines(found).items()}
    figure = plots.dots(rows, title, unit, colors={"as trained": REPORT}, note=note, levels=levels)
    (axis,) = figure.axes
    axis.set_xscale("log")
    axis.set_xticks(TICKS, TICKS)
    axis.set_xticks([], minor=True)
    return figure


def all_combinations(found: dict, *, title: str) -> Figure:
    """The held-out loss of all combinations of faults, over how many there are."""
    wrong, usual = "softmax over positions", "softmax over the vocabulary"
    colors = {wrong: REPORT, usual: USUAL}
    ladder = [one for name, one in found["runs"].items() if name.startswith("ladder |")]
    table = pandas.DataFrame(
        {"faults": frozenset(one["faults"]), "loss": one["held out"]["loss"]} for one in ladder
    )
    groups = {name: ([], []) for name in colors}
    for faults, loss in table.groupby("faults", sort=False)["loss"].mean().items():
        group = groups[wrong if "loss over time" in faults else usual]
        group[0].append(len(faults))
        group[1].append(loss)
    figure = plots.points(
        groups,
        title,
        "faults of five",
        "held-out loss (nats, log scale)",
        colors=colors,
        levels=_baselines(found),
        y_log=True,
    )
    (axis,) = figure.axes
    axis.set_xticks(range(len(ON_REVIEWS) + 1))
    axis.set_yticks(TICKS, TICKS)
    axis.set_yticks([], minor=True)
    return figure


def _baselines(found: dict) -> dict[float, str]:
    """What the three baselines cost on reviews, with their names."""
    counted = found["counting"]["imdb imdb-2l 20"]
    names = {"bigram": "bigram", "unigram": "unigram", "chance": "uniform"}
    return {counted[what]: name for what, name in names.items()}


def sweep_map(table: pandas.DataFrame, chance: float, *, title: str) -> Figure:
    """Each trial of the sweep: the loss that it reports, and what it knows.

    table: its trials; chance: the held-out loss of knowing nothing, in nats.
    """
    panels, colors = {"with the faults": {}, "without": {}}, {}
    for (length, rate), some in table.groupby(["max_length", "learning_rate"]):
        name = f"{length} tokens, rate {rate:g}"
        colors[name] = tint(LENGTH_COLORS[length], 1.0 if rate >= 1e-3 else 0.45)
        for mended, panel in zip((False, True), panels.values(), strict=True):
            trials = some[some.mended == mended]
            panel[name] = trials["own loss, last"].to_numpy(), trials["loss"].to_numpy()
    figure = plots.points(
        panels,
        title,
        "the loss that a trial reports",
        "held-out loss (nats)",
        colors=colors,
        levels={chance: "knowing nothing"},
        shared=False,
    )
    for axis in figure.axes:
        axis.set_ylim(table["loss"].min() - 0.1, chance + 0.3)
    return figure
