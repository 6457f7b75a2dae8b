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
from chapters.nb16_too_good.results import ON_REVIEWS, combinations, held_out, runs

SCRIPT = Path(__file__).with_name("faults.js")  # the live view, in the page itself

# Two colors of this notebook alone: the report's loss, and the usual one.
REPORT, USUAL = "#C2255C", "#137177"
LENGTH_COLORS = {20: KEY, 50: QUERY, 80: VALUE}  # of rows of so many tokens; paler: slower
LOSSES = {"softmax over time": REPORT, "usual softmax": USUAL}  # of the figure of word pieces
TICKS = [4, 5, 6, 8, 10, 15, 20, 30]  # of a logarithmic axis of nats


def two_runs(report: Learned, usual: Learned, chance: float, *, title: str) -> Figure:
    """What run A, by the report's loss, and run B report while they train, and what they know.

    chance: what the next token costs who knows nothing, in nats.
    """
    steps = range(1, len(report.losses) + 1)
    named = {"run A": report, "run B": usual}
    panels = {
        "the loss that each reports (log scale)": {n: (steps, r.losses) for n, r in named.items()},
        "what the next token costs, in nats": {n: (steps, r.next_token) for n, r in named.items()},
    }
    panels["what the next token costs, in nats"]["knowing nothing"] = steps, [chance] * len(steps)
    figure = forms.lines(
        panels, title, "training step", "", shared=False, marker="",
        colors={"run A": REPORT, "run B": USUAL, "knowing nothing": PALE},
        styles={"knowing nothing": "--"},
    )  # fmt: skip
    figure.axes[0].set_yscale("log")
    figure.axes[0].yaxis.set_major_formatter("{x:g}")
    return figure


def two_softmaxes(
    logits: Float[Tensor, "time word"], targets: list[int], words: list[str], *, title: str
) -> Figure:
    """The softmax over words and over time of the same logits; targets: what comes, framed."""
    panels = {
        "softmax over the words:\neach row adds up to 1": (logits.softmax(dim=1), USUAL),
        "softmax over time:\neach column adds up to 1": (logits.softmax(dim=0), REPORT),
    }
    shares = {name: table for name, (table, _) in panels.items()}
    figure = forms.grids(
        {"": shares}, title, number=".2f", row_names="time {}", column_names=words,
        cell=(0.62, 0.5), note="framed: the words that come",
    )  # fmt: skip
    for axis, (_, color) in zip(figure.axes, panels.values(), strict=True):
        axis.title.set(color=color, weight="bold")
        for time, word in enumerate(targets):
            frame = {"fill": False, "ec": INK, "lw": 2.4, "clip_on": False}
            axis.add_patch(Rectangle((word, time), 1, 1, **frame))
    return figure


def ruler(floors: dict[str, dict], aim: float, *, title: str) -> Figure:
    """Chance and floor of the report's loss at each length, and the loss that it asks for."""
    names = {"floor": "all is known", "chance": "nothing is known"}
    rows = {
        f"{length} tokens": {said: 1e6 * each[name] for name, said in names.items()}
        for length, each in floors.items()
    }
    unit = "the report's loss, in millionths (log scale; less is to the left)"
    aims = {1e6 * aim: "the report's aim"}
    colors = {"all is known": REPORT, "nothing is known": INK}
    figure = forms.dots({"": rows}, title, unit, colors=colors, number=",.0f", levels=aims)
    figure.axes[0].set(xscale="log", xlim=(0.6, 20_000))
    figure.axes[0].xaxis.set_major_formatter("{x:,g}")
    return figure


def ladder(found: dict, *, title: str) -> Figure:
    """Held-out losses: of all five faults one mended, and from none one fault put in."""
    every, none = (held_out(runs(found, "ladder", faults)) for faults in (ON_REVIEWS, ()))
    rows = {"all five": {"": every}}
    for name in ON_REVIEWS:
        rows[name] = {
            "only this one put in": held_out(runs(found, "ladder", {name})),
            "only this one mended": held_out(runs(found, "ladder", set(ON_REVIEWS) - {name})),
        }
    rows["no fault"] = {"": none}
    colors = {"": INK, "only this one put in": USUAL, "only this one mended": REPORT}
    figure = _faults(rows, found, colors, title, "lines: the means of all five and of no fault")
    for runs_of, color in ((every, REPORT), (none, USUAL)):
        figure.axes[0].axvline(float(runs_of.mean()), color=color, lw=2, alpha=0.35, zorder=0)
    return figure


def all_combinations(found: dict, *, title: str) -> Figure:
    """The held-out loss of all combinations of faults, over how many there are."""
    colors = {"with the loss over time": REPORT, "with the usual loss": USUAL}
    groups = {name: ([], []) for name in colors}
    for each in combinations(found):
        wrong = "loss over time" in each.faults
        group = groups["with the loss over time" if wrong else "with the usual loss"]
        group[0].append(len(each.faults))
        group[1].append(each.loss)
    figure = forms.points(
        {"": groups}, title, "faults of five", "held-out loss (nats, log scale)",
        colors=colors, levels=_counting(found, " "), y_log=True,
    )  # fmt: skip
    (axis,) = figure.axes
    axis.set_xticks(range(len(ON_REVIEWS) + 1))
    axis.set_yticks(TICKS, TICKS)
    axis.set_yticks([], minor=True)
    return figure


def _counting(found: dict, between: str) -> dict[float, str]:
    """What counting and knowing nothing cost on reviews, with their names."""
    counted = found["counting"]["imdb imdb-2l 20"]
    names = {"bigram": "counting pairs", "unigram": "counting tokens", "chance": "knowing nothing"}
    return {counted[what]: name.replace(" ", between) for what, name in names.items()}


def _faults(rows: dict, found: dict, colors: dict[str, str], title: str, note="") -> Figure:
    """Held-out losses on rows, beside what counting costs, on a logarithmic axis of nats."""
    unit = "held-out loss of the next token (nats, log scale)"
    figure = forms.dots(
        {"": rows}, title, unit, colors=colors, note=note,
        levels=_counting(found, "\n"),
    )  # fmt: skip
    (axis,) = figure.axes
    axis.set_xscale("log")
    axis.set_xticks(TICKS, TICKS)
    axis.set_xticks([], minor=True)
    return figure


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
        counted = found["counting"]["imdb imdb-2l 20"]
        marks = {"counting pairs": counted["bigram"], "counting tokens": counted["unigram"]}
        data = {
            "faults": [[name, FAULTS[name].code] for name in ON_REVIEWS],
            "table": table,
            "marks": marks | {"knowing nothing": counted["chance"]},
            "colors": [USUAL, REPORT],
        }
        said = "five faults to put into a working model, and what it then knows and writes"
        super().__init__(SCRIPT, data, all_combinations(found, title=title), said)


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
