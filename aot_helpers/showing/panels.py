"""What shared figures stand on: panels with room for title, key and note; names beside points."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

from aot_helpers.base.errors import check_shape
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE, VALUE, as_array, typed

SMALL = 9  # points, the least of a label
COLORS = (KEY, QUERY, VALUE, SHARE, PALE, INK, "#C2185B", "#8C6D1F")
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.labelsize": 10,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
}
TITLE = {"loc": "left", "size": 10.5}  # of a panel
HALO = [withStroke(linewidth=2.5, foreground="white")]


class Interval(NamedTuple):
    """A value and its interval; numbers, or arrays of one number for each x."""

    low: float
    value: float
    high: float


def shown(token: str) -> str:
    """A token as a label: leading space as ·, line break as ⏎, the rest as `typed`."""
    return typed(str(token).replace(" ", "·").replace("\n", "⏎"))


def pattern_of(values, tokens: Sequence[str]) -> np.ndarray:
    """Attention [query_pos, key_pos] between these tokens.

    Raises ValueError for another shape and for values outside 0 … 1, which would look like 0 or 1.
    """
    pattern = as_array(values)
    check_shape("attention", pattern.shape, [len(tokens)] * 2, "give one head's, with its tokens")
    if (outside := pattern[(pattern < -0.01) | (pattern > 1.01)]).size:
        raise ValueError(f"attention is from 0 to 1, got {outside[0]:.3g}: grids draws others")
    return pattern


def printable(text: str) -> str:
    """The text, with a replacement character for each character that no font can draw."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def panels(
    n_rows: int,
    n_columns: int,
    width: float,
    height: float,
    *,
    title: str,
    key: Mapping[str, str] | None = None,
    note: str = "",
    sharex: bool | str = False,
    sharey: bool | str = False,
    width_ratios: Sequence[float] | None = None,
    height_ratios: Sequence[float] | None = None,
    figure_class: type[Figure] = Figure,
):
    """A figure, closed and laid out by itself, and its axes [row, column].

    width: of the figure, in inches; height: of all panels with their labels. The title, the key
    {name: color} below it and the note at the foot have room of their own, and break where they
    are too long. figure_class: how the figure is shown. The rest is as in `plt.subplots`.
    """
    ratios = {"width_ratios": width_ratios, "height_ratios": height_ratios}
    look = {"dpi": DPI, "layout": "constrained", "squeeze": False, **ratios}
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            n_rows,
            n_columns,
            figsize=(width, height),
            sharex=sharex,
            sharey=sharey,
            FigureClass=figure_class,
            **look,
        )
    plt.close(figure)  # the notebook shows the returned figure once, not twice
    head = _write(figure, {title: INK}, 0.08, 12, "bold") if title else 0.0
    head = _write(figure, key, head, 10, "bold") if key else head
    above = len(figure.texts)
    foot = _write(figure, {note: PALE}, 0.0, SMALL, "normal") + 0.05 if note else 0.0
    total = head + height + foot
    for i, text in enumerate(figure.texts):  # placed from the top, in inches
        x, y = text.get_position()
        text.set_position((x / width, ((total if i < above else foot) - y) / total))
        text.set_transform(figure.transFigure)  # so that cropping the figure moves the title along
    figure.set_size_inches(width, total)
    figure.get_layout_engine().set(
        rect=(0, foot / total, 1, (height + foot) / total - foot / total)
    )
    return figure, axes


def _write(figure, colors: Mapping[str, str], y: float, size: float, weight: str) -> float:
    """{text: color} one after the other, y inches from the top; where the next line begins."""
    x, line, right = 0.1, 0.0165 * size + 0.04, figure.get_figwidth() - 0.1
    look = {"transform": figure.dpi_scale_trans, "size": size, "weight": weight, "va": "top"}
    for text, color in colors.items():
        said = figure.text(x, y, typed(text), color=color, **look)
        wide = said.get_window_extent().width / figure.dpi
        if x + wide > right and x > 0.1:
            x, y = 0.1, y + line
            said.set_position((x, y))
        if wide > right - 0.1:
            said.set_text(textwrap.fill(text, int(0.95 * len(text) * (right - 0.1) / wide)))
            y += line * said.get_text().count("\n")
        x += wide + 0.18
    return y + line


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """The same heights, moved as little as makes them `gap` apart."""
    placed = np.array(heights, dtype=float)
    order = np.argsort(placed, kind="stable")
    for _ in range(200):
        for low, high in zip(order[:-1], order[1:], strict=True):
            near = max(gap - (placed[high] - placed[low]), 0) / 2
            placed[low] -= near
            placed[high] += near
    return placed.tolist()


def colors_of(names, colors: Mapping[str, str] | None) -> dict[str, str]:
    """{name: its color}, from COLORS where none is given."""
    names = list(dict.fromkeys(names))
    return {name: (colors or {}).get(name, COLORS[i % len(COLORS)]) for i, name in enumerate(names)}


def dashed_levels(axis, levels: Mapping[float, str] | None, across: bool) -> None:
    """Thin dashed lines at some values, with their names at the end of the line."""
    for at, name in (levels or {}).items():
        (axis.axhline if across else axis.axvline)(at, color="0.6", lw=1, ls="--", zorder=0)
        place, look = ((1, at), (-2, 2)) if across else ((at, 1), (2, -2))
        axis.annotate(
            name,
            place,
            look,
            textcoords="offset points",
            size=SMALL,
            color=PALE,
            zorder=1,
            xycoords=axis.get_yaxis_transform() if across else axis.get_xaxis_transform(),
            ha="right" if across else "left",
            va="bottom" if across else "top",
        )


def name_points(axis, named: Mapping[str, tuple[float, float, str]]) -> None:
    """Write {name: (x, y, color)} beside the points, each where it covers least of axis and names.

    For an axis that is laid out and whose points are drawn by `scatter`.
    """
    dots_at = [axis.transData.transform(each.get_offsets()) for each in axis.collections]
    taken = [Bbox.from_extents(*at - 4, *at + 4) for each in dots_at for at in np.asarray(each)]
    inside = axis.get_window_extent()
    for name, (x, y, color) in named.items():
        tried = []
        for right, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            look = {"ha": {1: "left", 0: "center", -1: "right"}[right], "color": color}
            look["va"] = {1: "bottom", 0: "center", -1: "top"}[up]
            said = axis.annotate(
                name,
                (x, y),
                (6 * right, 5 * up),
                textcoords="offset points",
                size=9.5,
                weight="bold",
                path_effects=HALO,
                **look,
            )
            box = said.get_window_extent()
            shared = (Bbox.intersection(box, other) for other in taken)
            own = Bbox.intersection(box, inside)
            outside = box.width * box.height - (own.width * own.height if own else 0)
            cost = sum(each.width * each.height for each in shared if each) + 3 * outside
            tried.append((cost, len(tried), said, box))
        _, best, _, box = min(tried[:], key=lambda each: each[:2])
        for i, (_, _, said, _) in enumerate(tried):
            if i != best:
                said.remove()
        taken.append(box)
