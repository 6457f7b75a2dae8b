"""Drawings of notebook 19: two copies, who looks where, who feeds a head, what goes with it."""

from dataclasses import dataclass

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import (
    DPI,
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
from aot_helpers.showing.plots import shown
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
    below = top - 0.98
    x = [0.15 + STEP * (i + 0.5) for i in range(len(panel.first))]
    shares = panel.shares if panel.shares is not None else np.zeros(len(x))
    for i, text in enumerate(panel.first):
        share = float(shares[i])
        fill = SHADES(share)
        color = KEY if share >= 0.1 or i in panel.asked else "0.6"
        ink = {"color": color, "fill": fill, "width": 1.02, "height": 0.4, "size": 9.5}
        if share > 0.45:
            ink["color"] = "white"
        word(axis, x[i], top, shown(text), **ink)
        if share >= 0.1:
            say(axis, x[i] + 0.11, top - 0.36, f"{share:.2f}", SHARE, size=9.5, ha="left")
            arrow(
                axis, (x[panel.query], below + 0.22), (x[i], top - 0.23), SHARE, width=0.8 + share
            )
        if i in panel.asked:
            arrow(axis, (x[panel.query], below + 0.22), (x[i], top - 0.23), "0.6", width=0.9)
            middle = (x[panel.query] + x[i]) / 2 + 0.12, (below + top) / 2
            say(axis, *middle, "?", QUERY, size=12, weight="bold")
    for i, text in enumerate(panel.second):
        color = QUERY if i == panel.query else "0.6"
        word(axis, x[i], below, shown(text), color, width=1.02, height=0.4, size=9.5)


def film(frames: list[Copies], label: str, start: int, *, title: str) -> Explorer:
    """`two_copies`, with a slider for the token that is hidden."""
    slider = ipywidgets.IntSlider(value=start, min=0, max=len(frames) - 1, description=label)
    return Explorer(
        lambda hidden: two_copies([frames[hidden]], title),
        "where the query of the hidden token looks, wherever it is hidden",
        hidden=slider,
    )


def head_maps(
    rows: list[dict[str, Float[Tensor, "layer head"]]], title: str, note: str = ""
) -> Figure:
    """Layer × head maps of scores from 0 (white) to 1 (dark), in rows; a number from .10 on."""
    cell, gap, top = 0.29, 0.48, 0.62
    shapes = [[np.asarray(each).shape for each in row.values()] for row in rows]
    wide = [[max(cell * heads, 1.3) for _, heads in row] for row in shapes]
    tall = [cell * max(layers for layers, _ in row) + 0.68 for row in shapes]
    width = max(max(sum(each) + gap * len(each) for each in wide) + 0.15, 5.2)
    height = sum(tall) + top + 0.22
    figure, y = plt.figure(figsize=(width, height), dpi=DPI), height - top
    for row, sizes, widths, room in zip(rows, shapes, wide, tall, strict=True):
        x = gap
        for (name, values), (layers, _), own in zip(row.items(), sizes, widths, strict=True):
            box = [
                x / width,
                (y - 0.2 - cell * layers) / height,
                own / width,
                cell * layers / height,
            ]
            _heads(figure.add_axes(box), np.asarray(values), name)
            x += own + gap
        y -= room
    note = note or "columns: heads, rows: layers; a number from .10 on"
    figure.text(gap / width, 0.16 / height, note, size=9, color=PALE)
    return headline(figure, title)


def _heads(axis, values, name):
    axis.imshow(values, cmap=SHADES, vmin=0, vmax=1, aspect="auto")
    axis.set_xticks(range(values.shape[1]), range(values.shape[1]), size=9)
    axis.set_yticks(range(values.shape[0]), [f"L{i}" for i in range(values.shape[0])], size=9)
    axis.tick_params(length=0)
    axis.spines[:].set(visible=True, color="0.8")
    axis.set_title(name, size=9.5)
    for (row, column), share in np.ndenumerate(values):
        if share >= 0.095:
            color = "white" if share > 0.45 else INK
            text = f"{share:.2f}"[1:] if share < 0.995 else "1"
            axis.text(column, row, text, ha="center", va="center", size=9, color=color)


def steps(profiles: dict[str, Float[Tensor, " step"]], reach: int, title: str) -> Figure:
    """What heads give to the tokens from `reach` places back to `reach` ahead."""
    height = 0.5 * len(profiles) + 1.35
    figure = plt.figure(figsize=(7.6, height), dpi=DPI)
    box = [0.75 / 7.6, 0.72 / height, 6.7 / 7.6, 0.5 * len(profiles) / height]
    axis = figure.add_axes(box)
    values = np.stack([np.asarray(each) for each in profiles.values()])
    axis.imshow(values, cmap=SHADES, vmin=0, vmax=1, aspect="auto")
    axis.set_yticks(range(len(profiles)), list(profiles), size=10)
    places = range(-reach, reach + 1)
    names = [str(-p) if p < 0 else "itself" if p == 0 else str(p) for p in places]
    axis.set_xticks(range(len(names)), names, size=9.5)
    axis.tick_params(length=0)
    axis.spines[:].set(visible=True, color="0.8")
    for (row, column), share in np.ndenumerate(values):
        if share >= 0.045:
            color = "white" if share > 0.45 else INK
            text = f"{share:.2f}"[1:]
            axis.text(column, row, text, ha="center", va="center", size=9.5, color=color)
    axis.set_xlabel("tokens back ←            → tokens ahead", size=9.5, color=PALE)
    return headline(figure, title)


@dataclass(frozen=True)
class Fed:
    """Who feeds a head: {writer: (share of its attention lost without it in Q, in K)}.

    said: what stands above the query and below the key, such as the same without all writers.
    places: where the query and the key are made.
    """

    reader: str
    writers: dict[str, tuple[float, float]]
    said: tuple[str, str]
    places: tuple[str, str]


def fed(panels: dict[str, Fed], title: str) -> Figure:
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
            say(axis, middle, level + 1.2 * up, panel.said[k], color, size=9.5)
            for sign, (writer, lost) in zip((-1, 1), panel.writers.items(), strict=False):
                x = middle + 1.85 * sign
                word(axis, x, level, writer, INK, width=1.05, height=0.52, size=9.5)
                start = (x, level + 0.29 * up)
                _fed_by(axis, start, (middle + 1.18 * sign, level + 0.85 * up), lost[k], color)
    note = "on an arrow: the share of the head's attention that is lost when it alone is cut"
    say(axis, 0.3, 0.16, note, PALE, ha="left", size=9)
    return headline(figure, title)


def _fed_by(axis, start, end, share, color):
    much = max(share, 0)
    look = {"width": 0.5 + 3.0 * much, "alpha": 0.35 + 0.65 * min(much, 1)}
    arrow(axis, start, end, color if much >= 0.1 else "0.75", **look)
    x, y = (a + 0.42 * (b - a) for a, b in zip(start, end, strict=True))
    box = {"fc": "white", "ec": "none", "pad": 0.8}
    say(axis, x, y, f"{share:.2f}", color if much >= 0.1 else PALE, size=9.5, bbox=box)


LOOKS = (SHARE, INK, "#8C564B", "0.65")
TIMES = (INK, SHARE, "0.5", "#8C564B")


def dots(
    found: dict[str, list[float]],
    names: list[str],
    title: str,
    x_label: str,
    looks: tuple[str, ...] = LOOKS,
    limits: tuple[float, float] = (-0.04, 1.04),
) -> Figure:
    """One row per model, with a dot in the color of each thing that it may see."""
    rows = {model: dict(zip(names, values, strict=True)) for model, values in found.items()}
    colors = dict(zip(names, looks, strict=False))
    return forms.dots({"": rows}, title, x_label, colors=colors, x_range=limits, width=7.6)


def contexts(
    curves: dict[str, tuple[list[float], list[tuple[float, float]]]],
    sizes: list[int],
    title: str,
    colors: tuple[str, ...] = (SHARE, PALE),
) -> Figure:
    """{name: (mean loss at each size, its interval)}: what a longer context is worth."""
    figure, axis = plt.subplots(figsize=(7.2, 3.2), dpi=DPI)
    figure.subplots_adjust(0.09, 0.155, 0.7, 0.86)
    for (name, (means, intervals)), color in zip(curves.items(), colors, strict=False):
        low, high = zip(*intervals, strict=True)
        axis.fill_between(sizes, low, high, color=color, alpha=0.18, lw=0)
        axis.plot(sizes, means, "-o", color=color, ms=5)
        axis.text(sizes[-1] + 1.5, means[-1], name, color=color, size=9.5, va="center")
    axis.set_xticks(sizes, sizes)
    axis.set_xlabel("tokens that the model sees", size=9.5)
    axis.set_ylabel("loss of the hidden token (nats)", size=9.5)
    axis.tick_params(labelsize=9.5)
    return headline(figure, title)
