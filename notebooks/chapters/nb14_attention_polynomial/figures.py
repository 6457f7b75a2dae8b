"""Where heads attend: as straight lines through the words' circle, and how many are needed."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch
from torch import Tensor

from aot_helpers.showing.panels import TITLE, panels
from chapters.torus import networks as torus
from chapters.torus.figures import (
    ATTENTION,
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    TURN,
    Painting,
    dot,
    frontier,
    letter_color,
    show_map,
)

Square, Positions = Float[Tensor, "3 3"], Float[Tensor, "2 3"]
LINE = "#B22222"  # of the one second word of a picture
MARKS = [  # of the cut where the dark side begins, and where it ends
    {"marker": "D", "s": 30, "fc": fill, "ec": edge, "lw": 1.2, "zorder": 7, "clip_on": False}
    for fill, edge in ((LINE, "white"), ("white", LINE))
]
ARROW = {"arrowstyle": "-|>,head_length=5,head_width=3", "mutation_scale": 1, "lw": 1.8}
EDGE = 1.38  # as far as lines are drawn in the plane of the circle
HOLE = 0.72  # the inner radius of a shaded ring
SHAPES = "Discs: first words; squares: lines of second words."


def lines(W: Square, p: Positions, theta2: Float[Tensor, " second"]) -> Float[Tensor, "second 3"]:
    """g0, g1, h of second words at some angles: the score is g0 cos θ1 + g1 sin θ1 + h.

    W: a head's W_Q W_Kᵀ / √d_head. p: the two positions. The score is zero where g0 x + g1 y + h is
    0: a straight line in the plane of the circle.
    """
    plane = torus.circle(torch.tensor([0, math.pi / 2], dtype=W.dtype)).T
    x2 = torus.circle(theta2.to(W)) + p[1]
    h = ((x2 @ W) * (p[0] - x2)).sum(dim=-1, keepdim=True)
    return torch.cat([x2 @ W @ plane, h], dim=-1)


def rows_and_lines(W: Square, p: Positions, theta: Float[Tensor, " word"], title: str) -> Figure:
    """A head's map with a row for each word that may come second, beside the rows' straight lines.

    W, p: see `lines`. theta: the angle of each word. A dot: the head is undecided.
    """
    figure, axes = panels(1, 2, 10, 4.5, title=title, note=SHAPES, figure_class=Painting)
    rows, plane = axes[0]
    _attention(rows, W, p, theta)
    drawn = lines(W, p, theta).tolist()
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
    figure, axes = panels(1, len(tries), 8.4, 3, title=title, figure_class=Painting)
    for axis, (name, line) in zip(axes[0], tries.items(), strict=True):
        _plane(axis)
        _straight(axis, line, LINE, at=0.5)
        _words(axis, theta, 170)
        axis.set_title(name, **TITLE)
    return figure


def sweeping(
    W: Square, p: Positions, theta: Float[Tensor, " word"], seconds: Sequence[float], title: str
) -> Figure:
    """A film strip: the line of each second word, what it leaves of the circle, and that row's map.

    W, p: see `lines`. seconds: angles of the second word, in radians. A diamond marks each cut,
    here and in the map: filled where the dark side begins (on a walk to the right in the map), open
    where it ends.
    """
    n_columns = -(-len(seconds) // 2)
    ratios, look = [1] * n_columns + [2], {"title": title, "figure_class": Painting}
    figure, axes = panels(2, n_columns + 1, 9.4, 4.5, width_ratios=ratios, **look)
    figure.sharpness = 1  # a page holds it twice
    rows = figure.add_subplot(axes[0, 0].get_gridspec()[:, -1])
    _attention(rows, W, p, theta)
    for axis in axes[:, -1]:
        axis.remove()
    for axis in axes[:, :-1].flat:
        axis.axis("off")
    number = {"size": 9, "ha": "center", "va": "center"}
    number["bbox"] = {"boxstyle": "circle,pad=0.12", "fc": "white", "ec": INK}
    drawn, right = lines(W, p, torch.tensor(seconds)).tolist(), TURN + 0.2
    for i, (axis, second) in enumerate(zip(axes[:, :-1].flat, seconds, strict=False)):
        _ring_of_row(axis, drawn[i], theta)
        axis.set_title(f"{i + 1}: {math.degrees(second):.0f}°", **TITLE)
        rows.axhline(second, color="white", lw=2.4)
        rows.axhline(second, color=INK, lw=1)
        for at, mark in zip(cuts(*drawn[i]), MARKS, strict=False):
            axis.scatter(math.cos(at), math.sin(at), **mark)
            rows.scatter(at, second, **mark)
        near = i and second - seconds[i - 1] < 0.3 and right < TURN + 0.5
        right = TURN + (0.6 if near else 0.2)  # close numbers stand beside each other
        rows.text(right, second, f"{i + 1}", **number)
    return figure


def each_word(
    heads: Mapping[str, tuple[Square, Positions]], theta: Float[Tensor, " word"], title: str
) -> Figure:
    """The words' circle for each head, with the straight line of each second word.

    heads: {what to write above: W and p, see `lines`}. theta: the angle of each word.
    """
    figure, axes = panels(1, len(heads), 10, 4, title=title, note=SHAPES, figure_class=Painting)
    for axis, (name, head) in zip(axes[0], heads.items(), strict=True):
        _lines_of_words(axis, lines(*head, theta).tolist(), theta)
        axis.set_title(name, **TITLE)
    return figure


def reached(
    kinds: Mapping[str, Int[Tensor, " start"]], limit: int, title: str, control: str = ""
) -> Figure:
    """How many of 25 pairs are right after each training, a dot for each.

    kinds: {what was trained: right pairs}. limit: a number to mark. control: of kinds, in gray.
    """
    figure, axes = panels(1, 1, 8.6, 2.5, title=title)
    axis = axes[0, 0]
    for y, (name, right) in enumerate(kinds.items()):
        color = PALE if name == control else INK
        for x, n in enumerate(torch.bincount(right).tolist()):
            up = y + 0.36 - 0.1 * (torch.arange(n) // 7)
            along = x + 0.11 * (torch.arange(n) % 7 - 3)
            axis.scatter(along, up, s=11, color=color, lw=0)
    axis.axvline(limit + 0.5, color=LINE, lw=1.4, ls="--", zorder=0)
    look = {"transform": axis.get_xaxis_transform(), "ha": "right", "va": "bottom", "size": 10}
    axis.text(limit + 0.42, 1.01, f"limit of one head: {limit}", color=LINE, **look)
    axis.set(yticks=range(len(kinds)), yticklabels=list(kinds), ylim=(len(kinds) - 0.5, -0.5))
    low = min(int(right.min()) for right in kinds.values())
    axis.set(xticks=range(low, 26), xlim=(low - 0.6, 25.6))
    axis.set_xlabel("pairs right, of 25 (a dot for each of 50 starts)")
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    return figure


def cuts(g0: float, g1: float, h: float) -> list[float]:
    """The angles between which g0 cos θ + g1 sin θ + h is above 0: begin and end, or none.

    The end may be less than the begin: then what lies between goes over the edge of the map.
    """
    size, middle = math.hypot(g0, g1), math.atan2(g1, g0)
    if abs(h) >= size:
        return []
    half = math.acos(-h / size)
    return [(middle + side * half) % TURN for side in (-1, 1)]


def _attention(axis, W, p, theta, n: int = 200) -> None:
    """A head's attention to the first word over the torus, with its frontier."""
    turn = torch.arange(n).to(W) * TURN / n
    around = torch.stack([turn.cos(), turn.sin(), torch.ones_like(turn)])
    score = lines(W, p, turn) @ around
    show_map(axis, score.sigmoid(), theta, cmap=ATTENTION, vmin=0, vmax=1)
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
    picture = ATTENTION(1 / (1 + np.exp(-(line[0] * x + line[1] * y + line[2]))))
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
        look = {"size": 10, "weight": "bold", "ha": "center", "va": "center", "zorder": 7}
        look["bbox"] = {"boxstyle": "square,pad=0.25", "fc": color, "ec": "white"}
        axis.text(*points[-1], name, color=letter_color(NAMES.index(name)), **look)
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
        axis.set_title(f"line of {', '.join(outside)}: off the picture", **TITLE)
