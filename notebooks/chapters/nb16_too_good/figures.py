"""Drawings of notebook 16: two losses that disagree, two softmaxes, faults that cost, a sweep."""

import pandas
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import INK, KEY, QUERY, VALUE
from aot_helpers.showing.texts import tint
from chapters.nb16_too_good.results import ON_REVIEWS, combinations

# Two colors of this notebook alone: the report's loss, and the usual one.
REPORT, USUAL = "#C2255C", "#137177"
AS_IT_STANDS = {"as trained": REPORT, "calibrated": USUAL}
LENGTH_COLORS = {20: KEY, 50: QUERY, 80: VALUE}  # of rows of so many tokens; paler: slower
LOSSES = {"softmax over time": REPORT, "usual softmax": USUAL}  # of the figure of word pieces
TICKS = [4, 5, 6, 8, 10, 15, 20, 30]  # of a logarithmic axis of nats


def learning(panels: dict[str, dict[str, tuple]], *, title: str, **more) -> Figure:
    """Curves of models A and B over training: {panel: {"A": (steps, numbers)}}."""
    said = "training step", more.pop("y_label", "nats on unread stories")
    look = {"A": REPORT, "B": USUAL}
    return forms.lines(panels, title, *said, colors=look, marker="", **more)


def sliding(
    logits: Float[Tensor, "pos token"], words: list[str], by: float,
    losses: dict[str, tuple[list, list]], *, title: str,
) -> Figure:  # fmt: skip
    """One token's logits slide up at all positions; what two losses say to that.

    words: of the columns of logits; the first one slides. losses: {name: (slides, loss, as a
    multiple of the loss without a slide)}.
    """
    figure, axes = forms.panels(1, 2, 9.0, 3.3, title=title)
    left, right = axes[0]
    places = range(len(logits))
    for column, word in list(enumerate(words))[::-1]:
        look = {"color": INK if column == 0 else "0.7", "lw": 2}
        left.plot(places, logits[:, column], **look)
        left.text(len(logits) - 0.7, logits[-1, column], word, color=look["color"], va="center")
    left.plot(places, logits[:, 0] + by, color=INK, lw=1.5, ls=(0, (4, 2)))
    middle = len(logits) // 2
    ends = {"xy": (middle, logits[middle, 0] + by), "xytext": (middle, logits[middle, 0])}
    left.annotate("", **ends, arrowprops={"arrowstyle": "-|>", "color": INK, "lw": 1.5})
    left.set_title(f"in one text, the logits of “{words[0]}” slide up", **forms.TITLE)
    left.set(xlabel="position in the text", ylabel="logit", xlim=(-0.5, len(logits) + 3))
    left.set_xticks(range(0, len(logits), 3))
    for (name, (slides, loss)), hue in zip(losses.items(), (REPORT, USUAL), strict=True):
        right.plot(slides, loss, color=hue, lw=2)
        right.text(slides[-1] + 0.2, loss[-1], name, color=hue, weight="bold", va="center")
    right.axvline(0, color="0.6", lw=1, ls="--", zorder=0)
    right.set_title("what the two losses say", **forms.TITLE)
    right.set(xlabel="slide", ylabel="loss, as a multiple of the loss\nwithout a slide")
    right.set(xlim=(slides[0], slides[-1] + 3.6), xticks=[-4, -2, 0, 2, 4])
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
        cell=(0.66, 0.5),
    )  # fmt: skip
    for axis, (_, color) in zip(figure.axes, panels.values(), strict=True):
        axis.title.set(color=color, weight="bold")
        for pos, token in enumerate(targets):
            frame = {"fill": False, "ec": INK, "lw": 2.4, "clip_on": False, "zorder": 5}
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


def ruler(floors: dict[str, dict], aim: float, reported: dict[str, float], *, title: str) -> Figure:
    """Chance and floor of the report's loss at each length, what it prints, and what it asks for.

    reported: {length: the loss that the report prints}, where its code still shows one.
    """
    names = {"floor": "knowing everything", "chance": "knowing nothing"}
    rows = {
        f"{length} tokens": {said: each[name] for name, said in names.items()}
        for length, each in floors.items()
    }
    for length, loss in reported.items():
        rows[f"{length} tokens"]["as reported"] = loss
    unit = "the loss (log scale; less is to the left)"
    colors = {"knowing everything": USUAL, "as reported": REPORT, "knowing nothing": INK}
    figure = forms.dots({"": rows}, title, unit, colors=colors, levels={aim: "the students’ aim"})
    (axis,) = figure.axes
    axis.set(xscale="log", xlim=(5e-7, 2e-2))
    axis.set_xticks(
        [1e-6, 1e-5, 1e-4, 1e-3, 1e-2], ["0.000001", "0.00001", "0.0001", "0.001", "0.01"]
    )
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
    figure = forms.points(
        panels, title, "the loss that a trial reports", "held-out loss (nats)",
        colors=colors, levels={chance: "knowing nothing"}, shared=False,
    )  # fmt: skip
    for axis in figure.axes:
        axis.set_ylim(table["loss"].min() - 0.1, chance + 0.3)
    return figure
