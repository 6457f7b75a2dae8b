"""Where heads attend: as straight lines through the words' circle, and how many are needed."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch
from torch import Tensor

from aot_helpers.showing import forms
from chapters.nb14_attention_polynomial.lines import cuts, lines
from chapters.torus import networks as torus
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    SHARES,
    TURN,
    Painting,
    letter_color,
)
from chapters.torus.torus_maps import dot, frontier, show_map

LINE = "#B22222"  # of the one second word of a picture
MARKS = [  # of the cut where the dark side begins, and where it ends
    {"marker": "D", "s": 30, "fc": fill, "ec": edge, "lw": 1.2, "zorder": 7, "clip_on": False}
    for fill, edge in ((LINE, "white"), ("white", LINE))
]
ARROW = {"arrowstyle": "-|>,head_length=5,head_width=3", "mutation_scale": 1, "lw": 1.8}
EDGE = 1.38  # as far as lines are drawn in the plane of the circle
HOLE = 0.72  # the inner radius of a shaded ring


def rows_and_lines(
    coefficients: Float[Tensor, " 11"], theta: Float[Tensor, " word"], title: str
) -> Figure:
    """A head's map with a row for each word that may come second, beside the rows' straight lines.

    theta: the angle of each word. A dot: the head is undecided.
    """
    figure, axes = forms.panels(
        1, 2, 10, 4.5, title=title, figure_class=Painting,
        note="Discs: first words; squares: lines of second words.",
    )  # fmt: skip
    rows, plane = axes[0]
    _attention(rows, torus.polynomial(coefficients, *torus.grid(200)), theta)
    drawn = lines(coefficients, theta).tolist()
    for k, angle in enumerate(theta.tolist()):
        rows.axhline(angle, color="white", lw=3.6)
        rows.axhline(angle, color=CLASS_COLORS[k], lw=2.2)
        for at in cuts(*drawn[k]):
            dot(rows, (at, angle), k, 52, letter=False)
    _lines_of_words(plane, drawn, theta)
    return figure


def tried(
    theta: Float[Tensor, " word"], tries: Mapping[str, Sequence[float]], title: str
) -> Figure:
    """The words' circle and a straight line, whose arrow points to the words that it selects.

    tries: {what to write above: the line's g0, g1 and h}.
    """
    figure, axes = forms.panels(1, len(tries), 8.4, 3, title=title, figure_class=Painting)
    for axis, (name, line) in zip(axes[0], tries.items(), strict=True):
        _plane(axis)
        _straight(axis, line, LINE, at=0.5)
        _words(axis, theta, 170)
        axis.set_title(name, **forms.TITLE)
    return figure


def sweeping(
    coefficients: Float[Tensor, " 11"], theta: Float[Tensor, " word"], seconds: Sequence[float],
    title: str,
) -> Figure:  # fmt: skip
    """A film strip: the line of each second word, what it leaves of the circle, and that row's map.

    seconds: angles of the second word, in radians. A diamond marks each cut, here and in the map:
    filled where the dark side begins (on a walk to the right in the map), open where it ends.
    """
    n_columns = -(-len(seconds) // 2)
    figure, axes = forms.panels(
        2, n_columns + 1, 9.4, 4.5, title=title, width_ratios=[1] * n_columns + [2],
        figure_class=Painting,
    )  # fmt: skip
    figure.sharpness = 1  # a page holds it twice
    rows = figure.add_subplot(axes[0, 0].get_gridspec()[:, -1])
    _attention(rows, torus.polynomial(coefficients, *torus.grid(200)), theta)
    for axis in axes[:, -1]:
        axis.remove()
    for axis in axes[:, :-1].flat:
        axis.axis("off")
    right = TURN + 0.2
    for i, (axis, second) in enumerate(zip(axes[:, :-1].flat, seconds, strict=False)):
        line = lines(coefficients, torch.as_tensor(second)).tolist()
        _ring_of_row(axis, line, theta)
        axis.set_title(f"{i + 1}: {math.degrees(second):.0f}°", **forms.TITLE)
        rows.axhline(second, color="white", lw=2.4)
        rows.axhline(second, color=INK, lw=1)
        for at, mark in zip(cuts(*line), MARKS, strict=False):
            axis.scatter(math.cos(at), math.sin(at), **mark)
            rows.scatter(at, second, **mark)
        near = i and second - seconds[i - 1] < 0.3 and right < TURN + 0.5
        right = TURN + (0.6 if near else 0.2)  # close numbers stand beside each other
        rows.text(right, second, f"{i + 1}", fontsize=9, ha="center", va="center",
                  bbox={"boxstyle": "circle,pad=0.12", "fc": "white", "ec": INK})  # fmt: skip
    return figure


def each_word(
    heads: Mapping[str, Float[Tensor, "word 3"]], theta: Float[Tensor, " word"], title: str
) -> Figure:
    """The words' circle for each head, with the straight line of each second word.

    heads: {what to write above: g0, g1 and h of each second word}. theta: the angle of each word.
    """
    figure, axes = forms.panels(
        1, len(heads), 10, 4, title=title, figure_class=Painting,
        note="Discs: first words; squares: lines of second words.",
    )  # fmt: skip
    for axis, (name, drawn) in zip(axes[0], heads.items(), strict=True):
        _lines_of_words(axis, drawn.tolist(), theta)
        axis.set_title(name, **forms.TITLE)
    return figure


def reached(
    kinds: Mapping[str, Int[Tensor, " start"]], limit: int, title: str, control: str = ""
) -> Figure:
    """How many of 25 pairs are right after each training, a dot for each.

    kinds: {what was trained: right pairs}. limit: a number to mark. control: of kinds, in gray.
    """
    figure, axes = forms.panels(1, 1, 8.6, 2.5, title=title)
    axis = axes[0, 0]
    for y, (name, right) in enumerate(kinds.items()):
        color = PALE if name == control else INK
        for x, n in enumerate(torch.bincount(right).tolist()):
            up = y + 0.36 - 0.1 * (torch.arange(n) // 7)
            along = x + 0.11 * (torch.arange(n) % 7 - 3)
            axis.scatter(along, up, s=11, color=color, lw=0)
    axis.axvline(limit + 0.5, color=LINE, lw=1.4, ls="--", zorder=0)
    axis.annotate(
        f"limit of one head: {limit}", (limit + 0.42, 1), (0, 2), color=LINE, ha="right", size=10,
        xycoords=axis.get_xaxis_transform(), textcoords="offset points",
    )  # fmt: skip
    axis.set(yticks=range(len(kinds)), yticklabels=list(kinds), ylim=(len(kinds) - 0.5, -0.5))
    low = min(int(right.min()) for right in kinds.values())
    axis.set(xticks=range(low, 26), xlim=(low - 0.6, 25.6))
    axis.set_xlabel("pairs right, of 25 (a dot for each of 50 starts)")
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    return figure


def _attention(axis, score, theta=None) -> None:
    """A head's attention to the first word over the torus, with its frontier."""
    show_map(axis, score.sigmoid(), theta, cmap=SHARES, vmin=0, vmax=1)
    frontier(axis, score)


def _plane(axis) -> None:
    """The plane of the words' circle, of radius 1 in the picture."""
    axis.add_patch(Circle((0, 0), 1, fc="none", ec=INK, lw=1.5, zorder=3))
    axis.set(xlim=(-1.45, 1.45), ylim=(-1.45, 1.45), aspect="equal")
    axis.axis("off")


def _words(axis, theta, size: float, letter: bool = True) -> None:
    """The words as dots on their circle."""
    for k, angle in enumerate(theta):
        dot(axis, (math.cos(angle), math.sin(angle)), k, size, letter)


def _ring_of_row(axis, line, theta) -> None:
    """The circle of first words, cut by the straight line of one second word.

    line: (g0, g1, h). A ring of the circle is shaded as the row of the map: purple where the head
    attends to the first word. There the arrow points, too.
    """
    x, y = np.meshgrid(*[np.linspace(-1.45, 1.45, 120)] * 2)
    picture = SHARES(1 / (1 + np.exp(-(line[0] * x + line[1] * y + line[2]))))
    out = np.hypot(x, y)
    picture[..., 3] = ((out - HOLE) / 0.04).clip(0, 1) * (out <= 1)
    axis.imshow(picture, origin="lower", extent=(-1.45, 1.45) * 2, interpolation="bilinear")
    _plane(axis)
    _straight(axis, line, LINE, at=0.5)
    _words(axis, theta, 70, letter=False)


def _straight(axis, line, color, name: str = "", at: float | None = None, avoid=((9, 9),)) -> bool:
    """Draw g0 x + g1 y + h = 0 as far as the picture goes; False if it is outside.

    name: of a word, written at its end. An arrow points to the side where the sum is above 0, `at`
    a part of the way along the line, or where it is farthest from the points [point, 2] to avoid.
    """
    *g, h = line
    size = math.hypot(*g)
    up = np.array(g) / size
    foot, along = -h / size * up, np.array([-up[1], up[0]])
    steps = np.linspace(-2, 2, 801)[:, None]
    points = foot + steps * along
    points = points[(np.abs(points) <= EDGE).all(axis=1)]
    if len(points) < 2:
        return False
    axis.plot(*points.T, color=color, lw=2.2, zorder=4)
    tails = np.array([points[int(part * (len(points) - 1))] for part in (0.2, 0.3, 0.4, 0.6, 0.8)])
    room = np.linalg.norm((tails + 0.11 * up)[:, None] - np.asarray(avoid), axis=-1).min(axis=1)
    tail = tails[room.argmax()] if at is None else points[int(at * (len(points) - 1))]
    tip = tail + (0.22 if at is None else 0.42) * up
    axis.add_patch(FancyArrowPatch(tail, tip, color=color, zorder=4, shrinkA=0, **ARROW))
    if name:
        axis.text(*points[-1], name, fontsize=10, weight="bold", ha="center", va="center",
                  color=letter_color(NAMES.index(name)), zorder=7,
                  bbox={"boxstyle": "square,pad=0.25", "fc": color, "ec": "white"})  # fmt: skip
    return True


def _lines_of_words(axis, drawn, theta):
    """Each second word's line with its arrow, cut by the circle; drawn: (g0, g1, h) of each."""
    _plane(axis)
    _words(axis, theta, 190)
    places = [*theta.tolist(), *(at for line in drawn for at in cuts(*line))]
    avoid = np.stack([np.cos(places), np.sin(places)], axis=1)
    outside = []
    for k, line in enumerate(drawn):
        if not _straight(axis, line, CLASS_COLORS[k], NAMES[k], avoid=avoid):
            outside.append(NAMES[k])
        for at in cuts(*line):
            dot(axis, (math.cos(at), math.sin(at)), k, 52, letter=False)
    if outside:
        axis.set_title(f"line of {', '.join(outside)}: off the picture", **forms.TITLE)
