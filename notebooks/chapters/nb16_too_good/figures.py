"""Drawings of notebook 16: two losses that disagree, two softmaxes, faults that cost, a sweep."""

from pathlib import Path

import pandas
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, VALUE
from aot_helpers.showing.texts import tint
from aot_helpers.showing.widgets import Page
from chapters.nb16_too_good.report_model import FAULTS, Learned
from chapters.nb16_too_good.results import ON_REVIEWS, combinations

SCRIPT = Path(__file__).with_name("faults.js")  # the live view, in the page itself

# Two colors of this notebook alone: the report's loss, and the usual one.
REPORT, USUAL = "#C2255C", "#137177"
AS_IT_STANDS = {"as trained": REPORT, "calibrated": USUAL}
LENGTH_COLORS = {20: KEY, 50: QUERY, 80: VALUE}  # of rows of so many tokens; paler: slower
LOSSES = {"softmax over time": REPORT, "usual softmax": USUAL}  # of the figure of word pieces
TICKS = [4, 5, 6, 8, 10, 15, 20, 30]  # of a logarithmic axis of nats


def two_runs(
    report: list[Learned], usual: list[Learned], baselines: dict[str, float], *, title: str
) -> Figure:
    """What models A, by the report's loss, and B report while they train, and what they know.

    baselines: {name: what the next token costs one who knows no more, in nats}.
    """
    steps = range(1, len(report[0].losses) + 1)
    named = {"A": report, "B": usual}
    own = {n: (steps, [each.losses for each in some]) for n, some in named.items()}
    known = {n: (steps, [each.next_token for each in some]) for n, some in named.items()}
    known |= {name: (steps, [nats] * len(steps)) for name, nats in baselines.items()}
    panels = {"the loss that training reports (log scale)": own}
    panels["cross-entropy of the next token, in nats"] = known
    figure = forms.lines(
        panels, title, "training step", "", shared=False, marker="", runs=True,
        colors={"A": REPORT, "B": USUAL} | dict.fromkeys(baselines, PALE),
        styles=dict.fromkeys(baselines, "--"),
    )  # fmt: skip
    figure.axes[0].set_yscale("log")
    figure.axes[0].yaxis.set_major_formatter("{x:g}")
    return figure


def two_softmaxes(
    logits: Float[Tensor, "pos token"], targets: list[int], words: list[str], *, title: str
) -> Figure:
    """The softmax along either axis of the same logits; targets: the tokens that come, framed."""
    panels = {
        "along the vocabulary axis:\neach row adds up to 1": (logits.softmax(dim=1), USUAL),
        "along the position axis:\neach column adds up to 1": (logits.softmax(dim=0), REPORT),
    }
    shares = {name: table for name, (table, _) in panels.items()}
    figure = forms.grids(
        {"": shares}, title, number=".2f", row_names="position {}", column_names=words,
        cell=(0.66, 0.5), note="framed: the tokens that come",
    )  # fmt: skip
    for axis, (_, color) in zip(figure.axes, panels.values(), strict=True):
        axis.title.set(color=color, weight="bold")
        for pos, token in enumerate(targets):
            frame = {"fill": False, "ec": INK, "lw": 2.4, "clip_on": False}
            axis.add_patch(Rectangle((token, pos), 1, 1, **frame))
    return figure


def calibration(
    rates: dict[str, tuple[Float[Tensor, " d_vocab"], Float[Tensor, " d_vocab"]]], *, title: str
) -> Figure:
    """Of each token the probability that a model gives it on average, over how often it comes.

    rates: {model: (said, came)}; tokens that never come are left out.
    """
    panels = {name: {"": (came[came > 0], said[came > 0])} for name, (said, came) in rates.items()}
    figure = forms.points(
        panels, title, "share of positions where it comes", "mean probability",
        colors={"": INK}, x_log=True, y_log=True,
        note="each dot is a token; on the dashed line its probability is right on average",
    )  # fmt: skip
    for axis in figure.axes:
        axis.axline((1e-4, 1e-4), (1e-2, 1e-2), color="0.6", lw=1, ls="--", zorder=0)
    return figure


def ruler(floors: dict[str, dict], aim: float, *, title: str) -> Figure:
    """Chance and floor of the report's loss at each length, and the loss that it asks for."""
    names = {"floor": "knowing everything", "chance": "knowing nothing"}
    rows = {
        f"{length} tokens": {said: 1e6 * each[name] for name, said in names.items()}
        for length, each in floors.items()
    }
    unit = "the report's loss, in millionths (log scale; less is to the left)"
    aims = {1e6 * aim: "the report's aim"}
    colors = {"knowing everything": REPORT, "knowing nothing": INK}
    figure = forms.dots({"": rows}, title, unit, colors=colors, number=",.0f", levels=aims)
    figure.axes[0].set(xscale="log", xlim=(0.6, 20_000))
    figure.axes[0].xaxis.set_major_formatter("{x:,g}")
    return figure


def costs(rows: dict, found: dict, *, title: str, note: str = "") -> Figure:
    """Held-out losses of set-ups on rows, beside the baselines, on a logarithmic axis of nats.

    rows: {row: {a series of AS_IT_STANDS: losses}}; found: what `make data WHAT=autopsy` measured.
    """
    unit = "held-out cross-entropy of the next token (nats, log scale)"
    levels = {nats: "\n" * (name == "uniform") + name for nats, name in _baselines(found).items()}
    figure = forms.dots({"": rows}, title, unit, colors=AS_IT_STANDS, note=note, levels=levels)
    (axis,) = figure.axes
    axis.set_xscale("log")
    axis.set_xticks(TICKS, TICKS)
    axis.set_xticks([], minor=True)
    return figure


def all_combinations(found: dict, *, title: str) -> Figure:
    """The held-out loss of all combinations of faults, over how many there are."""
    wrong, usual = "softmax over positions", "softmax over the vocabulary"
    colors = {wrong: REPORT, usual: USUAL}
    groups = {name: ([], []) for name in colors}
    for each in combinations(found):
        group = groups[wrong if "loss over time" in each.faults else usual]
        group[0].append(len(each.faults))
        group[1].append(each.loss)
    figure = forms.points(
        {"": groups}, title, "faults of five", "held-out loss (nats, log scale)",
        colors=colors, levels=_baselines(found), y_log=True,
    )  # fmt: skip
    (axis,) = figure.axes
    axis.set_xticks(range(len(ON_REVIEWS) + 1))
    axis.set_yticks(TICKS, TICKS)
    axis.set_yticks([], minor=True)
    return figure


def by_axis(found: dict, *, title: str) -> Figure:
    """The held-out loss of all combinations of faults; below each, which faults it has.

    Above each other: the same other faults with the right axis of the softmax and with the wrong.
    """
    wrong, *others = ON_REVIEWS
    losses = {frozenset(each.faults): each.loss for each in combinations(found)}
    columns = sorted((s for s in losses if wrong not in s), key=lambda s: losses[s | {wrong}])
    colors = {"softmax over positions": REPORT, "softmax over the vocabulary": USUAL}
    figure, axes = forms.panels(
        2, 1, 8.6, 4.6, title=title, key={f"● {name}": hue for name, hue in colors.items()},
        sharex=True, height_ratios=(3.2, 1), note="black dots: the other faults of a model",
    )  # fmt: skip
    axis, table = axes[:, 0]
    for x, others_of_it in enumerate(columns):
        pair = losses[others_of_it | {wrong}], losses[others_of_it]
        axis.plot([x, x], pair, color="0.85", lw=2, zorder=0)
        axis.scatter([x, x], pair, s=44, color=list(colors.values()))
        inks = [INK if name in others_of_it else "0.9" for name in others]
        table.scatter([x] * len(others), range(len(others)), s=52, color=inks)
    axis.set(yscale="log", ylabel="held-out loss (nats, log scale)")
    axis.set_yticks(TICKS, TICKS)
    axis.set_yticks([], minor=True)
    axis.set_xlim(-0.6, len(columns) + 0.9)  # room for the names of the baselines
    for nats, name in _baselines(found).items():
        axis.axhline(nats, color="0.6", lw=1, ls="--", zorder=0)
        axis.text(
            len(columns) + 0.85, nats, name, size=forms.SMALL, color=PALE, ha="right", va="bottom"
        )
    table.set_yticks(range(len(others)), [FAULTS[name].term for name in others])
    table.set(xticks=[], ylim=(len(others) - 0.4, -0.6))
    table.tick_params(length=0)
    table.spines[:].set_visible(False)
    return figure


def _baselines(found: dict) -> dict[float, str]:
    """What the three baselines cost on reviews, with their names."""
    counted = found["counting"]["imdb imdb-2l 20"]
    names = {"bigram": "bigram", "unigram": "unigram", "chance": "uniform"}
    return {counted[what]: name for what, name in names.items()}


class FaultsView(Page):
    """Checkboxes that put faults into a working model; what it then knows and writes, at once.

    found: the results of `make data WHAT=autopsy`. All combinations were trained beforehand.
    title: of the picture for places without scripts.
    """

    def __init__(self, found: dict, *, title: str):
        table = {}
        for each in combinations(found):
            key = sum(2 ** ON_REVIEWS.index(name) for name in each.faults)
            table[key] = [round(each.loss, 4), round(each.accuracy, 4), each.sample]
        data = {
            "faults": [[FAULTS[name].term, FAULTS[name].code] for name in ON_REVIEWS],
            "table": table,
            "marks": {name: nats for nats, name in _baselines(found).items()},
            "colors": [USUAL, REPORT],
        }
        said = "five faults to put into a working model, and what it then knows and writes"
        super().__init__(SCRIPT, data, by_axis(found, title=title), said)


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
    figure = forms.points(
        panels, title, "the loss that a trial reports", "held-out loss (nats)",
        colors=colors, levels={chance: "knowing nothing"}, shared=False,
    )  # fmt: skip
    for axis in figure.axes:
        axis.set_ylim(table["loss"].min() - 0.1, chance + 0.3)
    return figure
