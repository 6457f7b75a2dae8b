"""Drawings of notebook 19: two copies of a text, maps of heads, what a head's Q and K read."""

from dataclasses import dataclass

import ipywidgets
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import (
    INK,
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
from aot_helpers.showing.widgets import Explorer

STEP = 1.12  # inches from token to token


@dataclass(frozen=True)
class Copies:
    """A text written twice, as drawn: the first copy above, the second below it.

    query: the token that looks, a place in the second copy. shares: its attention to each token of
    the first copy; None draws question marks at the places in `asked`.
    """

    name: str
    first: list[str]
    second: list[str]
    query: int
    shares: Float[Tensor, " first"] | None = None
    asked: tuple[int, ...] = ()


def two_copies(panels: list[Copies], title: str) -> Figure:
    """Each text in two rows, with arrows from the token that looks to those it looks at."""
    width = max(len(each.first) for each in panels) * STEP + 0.3
    height = 2.05 * len(panels) + 0.45
    figure, axis = canvas(width, height)
    for i, panel in enumerate(panels):
        top = height - 0.65 - 2.05 * i
        say(axis, 0.15, top, panel.name, PALE, ha="left", size=10)
        _rows(axis, panel, top - 0.42)
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


def film(frames: list[Copies], label: str, start: int, *, title: str) -> Explorer:
    """`two_copies`, with a slider for the token that is hidden."""
    slider = ipywidgets.IntSlider(value=start, min=0, max=len(frames) - 1, description=label)
    return Explorer(
        lambda hidden: two_copies([frames[hidden]], title),
        "where the query of the hidden token looks, wherever it is hidden",
        hidden=slider,
    )


def head_maps(rows: dict[str, dict[str, Float[Tensor, "layer head"]]], title: str) -> Figure:
    """Layer × head maps of attention, {row of panels: {panel: scores}}; a number from 0.10 on."""
    return forms.grids(
        rows, title, number=".2f", least=0.095, row_names="L{}", column_names="{}",
        cell=(0.37, 0.29), note="columns: heads, rows: layers; a number from 0.10 on",
    )  # fmt: skip


@dataclass(frozen=True)
class Composition:
    """What a head reads: {writer: (share of its attention lost without it in Q, in K)}.

    notes: what stands above the query and below the key, such as the same without all writers.
    places: where the query and the key are made.
    """

    reader: str
    writers: dict[str, tuple[float, float]]
    notes: tuple[str, str]
    places: tuple[str, str]


def composition(panels: dict[str, Composition], title: str) -> Figure:
    """Writers left and right of the head that reads them, its query above it, its key below.

    The number on an arrow is the share of the reader's attention that is lost when it is cut.
    """
    side, height, level = 5.0, 3.95, 1.75
    figure, axis = canvas(side * len(panels) + 0.1, height)
    for i, (name, panel) in enumerate(panels.items()):
        middle = 0.1 + side * (i + 0.5)
        say(axis, middle - 2.3, height - 0.55, name, PALE, ha="left", size=10)
        word(axis, middle, level, panel.reader, INK, width=0.95, height=0.38, size=10.5)
        for k, (port, color) in enumerate((("query", QUERY), ("key", KEY))):
            up = 1 - 2 * k
            text = f"{port} at {panel.places[k]}"
            word(axis, middle, level + 0.85 * up, text, color, width=2.3, height=0.34, size=9.5)
            arrow(axis, (middle, level + 0.66 * up), (middle, level + 0.22 * up), color)
            say(axis, middle, level + 1.2 * up, panel.notes[k], color, size=9.5)
            for sign, (writer, lost) in zip((-1, 1), panel.writers.items(), strict=False):
                x = middle + 1.85 * sign
                word(axis, x, level, writer, INK, width=1.05, height=0.52, size=9.5)
                start = (x, level + 0.29 * up)
                _path(axis, start, (middle + 1.18 * sign, level + 0.85 * up), lost[k], color)
    note = "on an arrow: the share of the head's attention that is lost when it alone is cut"
    say(axis, 0.3, 0.16, note, PALE, ha="left", size=9)
    return headline(figure, title)


def _path(axis, start, end, share, color):
    much = max(share, 0)
    look = {"width": 0.5 + 3.0 * much, "alpha": 0.35 + 0.65 * min(much, 1)}
    arrow(axis, start, end, color if much >= 0.1 else "0.75", **look)
    x, y = (a + 0.42 * (b - a) for a, b in zip(start, end, strict=True))
    box = {"fc": "white", "ec": "none", "pad": 0.8}
    say(axis, x, y, f"{share:.2f}", color if much >= 0.1 else PALE, size=9.5, bbox=box)
