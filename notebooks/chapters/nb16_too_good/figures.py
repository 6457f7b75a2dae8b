"""Drawings of notebook 16: two losses that disagree, two softmaxes, what a loss is worth."""

import pandas as pd
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.showing import plots
from aot_helpers.showing.diagrams import INK

# Two colors of this notebook alone: the report's loss, and the usual one.
REPORT, USUAL = "#C2255C", "#137177"


def learning(panels: dict[str, dict[str, tuple]], *, title: str, **more) -> Figure:
    """Curves of models A and B over training: {panel: {"A": (steps, numbers)}}."""
    said = "training step", more.pop("y_label", "nats on unread stories")
    look = {"A": REPORT, "B": USUAL}
    return plots.lines(panels, title, *said, colors=look, marker="", **more)


def sliding(
    logits: Float[Tensor, "pos token"],
    words: list[str],
    by: float,
    losses: dict[str, tuple[list, list]],
    *,
    title: str,
) -> Figure:
    """One token's logits slide up at all positions; what two losses say to that.

    words: of the columns of logits; the first one slides. losses: {name: (slides, loss, as a
    multiple of the loss without a slide)}.
    """
    figure, axes = plots.panels(1, 2, 9.0, 3.3, title=title)
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
    left.set_title(f"in one text, the logits of “{words[0]}” slide up", **plots.TITLE)
    left.set(xlabel="position in the text", ylabel="logit", xlim=(-0.5, len(logits) + 3))
    left.set_xticks(range(0, len(logits), 3))
    for (name, (slides, loss)), hue in zip(losses.items(), (REPORT, USUAL), strict=True):
        right.plot(slides, loss, color=hue, lw=2)
        right.text(slides[-1] + 0.2, loss[-1], name, color=hue, weight="bold", va="center")
    right.axvline(0, color="0.6", lw=1, ls="--", zorder=0)
    right.set_title("what the two losses say", **plots.TITLE)
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
    figure = plots.grids(
        shares,
        title,
        number=".2f",
        row_names="position {}",
        column_names=words,
        cell=(0.66, 0.5),
    )
    for axis, (_, color) in zip(figure.axes, panels.values(), strict=True):
        axis.title.set(color=color, weight="bold")
        for pos, token in enumerate(targets):
            frame = {"fill": False, "ec": INK, "lw": 2.4, "clip_on": False, "zorder": 5}
            axis.add_patch(Rectangle((token, pos), 1, 1, **frame))
    return figure


def after_longer(table: pd.DataFrame, *, title: str) -> Figure:
    """Costs of A, of A with constants and of B by kind of texts and steps; table: of `longer`."""
    panels = {"leave out": {}, "choose": {}, "together": {}}
    for (texts, steps, model), some in table.groupby(["texts", "steps", "model"], sort=False):
        for part, rows in panels.items():
            rows.setdefault(f"{texts}, {steps:,} steps", {})[model] = some[part].tolist()
    colors = {"A": REPORT, "A with constants": "#E39BB8", "B": USUAL}
    return plots.dots(panels, title, "nats", colors=colors, apart=True, width=10)


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
    figure = plots.dots(rows, title, unit, colors=colors, levels={aim: "the students’ aim"})
    (axis,) = figure.axes
    axis.set(xscale="log", xlim=(5e-7, 2e-2))
    axis.set_xticks(
        [1e-6, 1e-5, 1e-4, 1e-3, 1e-2], ["0.000001", "0.00001", "0.0001", "0.001", "0.01"]
    )
    return figure
