"""Drawings of notebook 19: a text written twice with its attention, and maps of heads."""

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import (
    KEY,
    PALE,
    QUERY,
    SHADES,
    SHARE,
    arrow,
    canvas,
    headline,
    say,
    word,
)
from aot_helpers.showing.forms import shown

STEP = 1.12  # inches from token to token


@dataclass(frozen=True)
class Copies:
    """A text written twice, as drawn: the first copy above, the second below it.

    query: the token that attends, a place in the second copy. shares: its attention to each token
    of the first copy; None draws question marks at the places in `asked`. neighbors: heads of layer
    0, {head: (step, its attention from the query that far, the same from the query's copy)}.
    """

    name: str
    first: list[str]
    second: list[str]
    query: int
    shares: Float[Tensor, " first"] | None = None
    asked: tuple[int, ...] = ()
    neighbors: dict[str, tuple[int, float, float]] = field(default_factory=dict)


def two_copies(panels: list[Copies], title: str) -> Figure:
    """Each text in two rows, with arrows from the token that attends to those it attends to."""
    width = max(len(each.first) for each in panels) * STEP + 0.3
    heights = [3.05 if each.neighbors else 2.05 for each in panels]
    figure, axis = canvas(width, sum(heights) + 0.45)
    top = sum(heights) - 0.2
    for panel, height in zip(panels, heights, strict=True):
        say(axis, 0.15, top, panel.name, PALE, ha="left", size=10)
        _rows(axis, panel, top - (0.97 if panel.neighbors else 0.42))
        top -= height
    return headline(figure, title)


def _rows(axis, panel, top):
    below, box = top - 0.98, {"width": 1.02, "height": 0.4, "size": 9.5}
    x = [0.15 + STEP * (i + 0.5) for i in range(len(panel.first))]
    shares = np.zeros(len(x)) if panel.shares is None else np.asarray(panel.shares)
    start = (x[panel.query], below + 0.22)
    for i, (text, share) in enumerate(zip(panel.first, shares.tolist(), strict=True)):
        color = KEY if share >= 0.1 or i in panel.asked else "0.6"
        color = "white" if share > 0.45 else color
        word(axis, x[i], top, shown(text), color, fill=SHADES(share), **box)
        if share >= 0.1:
            say(axis, x[i] + 0.11, top - 0.36, f"{share:.2f}", SHARE, size=9.5, ha="left")
            arrow(axis, start, (x[i], top - 0.23), SHARE, width=0.8 + share)
        if i in panel.asked:
            arrow(axis, start, (x[i], top - 0.23), "0.6", width=0.9)
            middle = (x[panel.query] + x[i]) / 2 + 0.12
            say(axis, middle, (below + top) / 2, "?", QUERY, size=12, weight="bold")
    for i, text in enumerate(panel.second):
        word(axis, x[i], below, shown(text), QUERY if i == panel.query else "0.6", **box)
    for head, (step, *found) in panel.neighbors.items():
        for share, y, up, color in zip(found, (below, top), (-1, 1), (QUERY, KEY), strict=True):
            here, there = x[panel.query] + 0.15 * step, x[panel.query + step]
            bend = f"arc3,rad={-0.45 * up * step / abs(step):g}"
            look = {"arrowstyle": "-|>", "connectionstyle": bend, "color": color, "lw": 1.6}
            edge = y + 0.22 * up
            axis.annotate("", (there, edge), (here, edge), arrowprops=look)
            middle = x[panel.query] + 0.72 * step
            say(axis, middle, y + 0.58 * up, f"{head} {share:.2f}", color, size=9.5)


def head_maps(rows: dict[str, dict[str, Float[Tensor, "layer head"]]], title: str) -> Figure:
    """Layer × head maps of attention, {row of panels: {panel: scores}}; a number from 0.10 on."""
    return forms.grids(
        rows, title, number=".2f", least=0.095, row_names="L{}", column_names="{}",
        cell=(0.37, 0.29), note="columns: heads, rows: layers; a number from 0.10 on",
    )  # fmt: skip
