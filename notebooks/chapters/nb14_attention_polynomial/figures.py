"""Where one head attends: as straight lines through the words' circle, and as a product."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch
from torch import Tensor

from aot_helpers.showing import forms
from chapters.nb14_attention_polynomial.lines import Product, cuts, lines
from chapters.torus import networks as torus
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    SHARES,
    TURN,
    Painting,
    letter_color,
)
from chapters.torus.torus_maps import dot, frontier, show_map

QUERIES, KEYS = (  # gray below zero
    LinearSegmentedColormap.from_list(name, ["#5A5A5A", "#F7F7F7", color])
    for name, color in (("queries", "#D55E00"), ("keys", "#0072B2"))
)
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


def columns_and_conics(
    coefficients: Float[Tensor, " 11"], theta: Float[Tensor, " word"], shown: Sequence[int],
    title: str,
) -> Figure:  # fmt: skip
    """A head's map with a column for some words that come first, beside the columns' conics.

    theta: the angle of each word. shown: the words that come first. A dot: the head is undecided.
    """
    figure, axes = forms.panels(
        1, 2, 10, 4.5, title=title, figure_class=Painting,
        note="Discs: second words. Each curve: the score of one first word is zero.",
    )  # fmt: skip
    columns, plane = axes[0]
    _attention(columns, torus.polynomial(coefficients, *torus.grid(200)), theta)
    x, y = np.meshgrid(*[np.linspace(-EDGE, EDGE, 300)] * 2)
    _plane(plane)
    _words(plane, theta, 190)
    around = torch.arange(3600, dtype=torch.float64) * TURN / 3600
    for k in shown:
        columns.axvline(theta[k], color="white", lw=3.6)
        columns.axvline(theta[k], color=CLASS_COLORS[k], lw=2.2)
        plane.contour(x, y, _score_in_plane(coefficients, theta[k], x, y), levels=[0],
                      colors=[CLASS_COLORS[k]], linewidths=2.2, zorder=2)  # fmt: skip
        dark = torus.polynomial(coefficients, theta[k], around) > 0
        for at in around[dark != dark.roll(1)].tolist():
            dot(columns, (theta[k], at), k, 52, letter=False)
            dot(plane, (math.cos(at), math.sin(at)), k, 52, letter=False)
    return figure


def _score_in_plane(coefficients, first, x, y):
    """The score of one first word and any second point (x, y) of the plane, not of the circle only.

    The waves of 2 θ2 and the constant are quadratic in the point: x² + y² is 1 on the circle.
    """
    one, c1, s1, c2, s2, same, turned, plus, plus_sin, twice, twice_sin = coefficients.tolist()
    cos, sin = math.cos(first), math.sin(first)
    from_words = one + same + c1 * cos + s1 * sin - same * (x * x + y * y)
    across = c2 + (same + plus) * cos + (plus_sin - turned) * sin
    up = s2 + (turned + plus_sin) * cos + (same - plus) * sin
    return from_words + across * x + up * y + twice * (x * x - y * y) + twice_sin * 2 * x * y


def factored(product: Product, theta: Float[Tensor, " word"], title: str) -> Figure:
    """A head of d_head 1: query times difference of keys is the score; and its lines."""
    figure, axes = forms.panels(
        1, 4, 10, 3.1, title=title, note="Orange and blue: above 0; gray: below.",
        figure_class=Painting,
    )  # fmt: skip
    query, keys = product.factors(*torus.grid(160))
    maps = {"the query": (query, QUERIES), "× first key less second": (keys, KEYS)}
    for axis, (name, (values, colors)) in zip(axes[0], maps.items(), strict=False):
        reach = values.abs().max()
        show_map(axis, values, theta, cmap=colors, vmin=-reach, vmax=reach)
        frontier(axis, values)
        axis.set_title(name, **forms.TITLE)
    _attention(axes[0, 2], query * keys, theta, zeros=(query, keys))
    axes[0, 2].set_title("= the score: attention", **forms.TITLE)
    for axis in axes[0, 1:3]:
        axis.set(ylabel="", yticks=[])
    _plane(axes[0, 3])
    axes[0, 3].set_title("a line for each second word", **forms.TITLE)
    for k, line in enumerate(product.lines(theta).tolist()):
        _straight(axes[0, 3], line, CLASS_COLORS[k], NAMES[k])
    return figure


def fans(heads: Mapping[str, Float[Tensor, " 11"]], title: str, n: int = 60) -> Figure:
    """For each head its map, and below the line of every second word, as a chord of the circle.

    heads: {what to write above: coefficients}. n: second words, each in a color, which it has at
    the left of the map, at its two cuts in the map, and as a line below.
    """
    figure, axes = forms.panels(2, len(heads), 9.6, 6.4, title=title, figure_class=Painting)
    seconds = torch.arange(n, dtype=torch.float64) * TURN / n
    colors = _hues(seconds).tolist()
    for (above, below), (name, head) in zip(axes.T, heads.items(), strict=True):
        _attention(above, torus.polynomial(head, *torus.grid(160)))
        above.set_title(name, **forms.TITLE)
        above.set_xlabel("first word θ1")
        _plane(below)
        for line, at, color in zip(lines(head, seconds).tolist(), seconds, colors, strict=True):
            ends = cuts(*line)
            above.scatter([-0.2, *ends], [at] * (1 + len(ends)), s=16, color=color, zorder=6,
                          clip_on=False)  # fmt: skip
            below.plot([math.cos(end) for end in ends], [math.sin(end) for end in ends],
                       color=color, lw=1.3)  # fmt: skip
    axes[0, 0].set_ylabel("second word θ2", labelpad=10)
    return figure


def _hues(angles: Float[Tensor, " place"]) -> Float[Tensor, "place 3"]:
    """A color for each angle in radians, without a seam."""
    return 0.5 + 0.42 * (angles[:, None] - TURN * torch.arange(3) / 3).cos()


def film(product: Product, title: str, n: int = 4) -> Figure:
    """Maps of heads of d_head 1 with their frontiers, in a row, from one head.

    From frame to frame φ goes once around, and t goes up and down by 1.5 B.
    """
    figure, axes = forms.panels(1, n, 10, 3, title=title, figure_class=Painting)
    figure.sharpness = 1  # a page holds it twice
    for k, axis in enumerate(axes.flat):
        turn = k * TURN / n
        lift = 1.5 * math.sin(turn)
        moved = product._replace(phi=product.phi + turn, t=lift * product.B)
        query, keys = moved.factors(*torus.grid(160))
        _attention(axis, query * keys, zeros=(query, keys))
        axis.set_title(f"φ + {math.degrees(turn):.0f}°, t/B = {lift + 0:.1f}", **forms.TITLE)
    _name_angles(axes)
    return figure


def _name_angles(axes) -> None:
    """Names for the axes of maps in rows: below the last row, beside the first column."""
    for axis in axes[-1]:
        axis.set_xlabel("first word θ1")
    for axis in axes[:, 0]:
        axis.set_ylabel("second word θ2")


def _attention(axis, score, theta=None, zeros=()) -> None:
    """A head's attention to the first word over the torus, with its frontier.

    zeros: the factors of the score, if it has any, whose zeros are the frontier.
    """
    show_map(axis, score.sigmoid(), theta, cmap=SHARES, vmin=0, vmax=1)
    for each in zeros or (score,):
        frontier(axis, each)


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
