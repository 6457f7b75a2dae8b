"""Flat pictures of functions on a torus and a triangle: arrays to one matplotlib figure."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.tri import Triangulation

from chapters.torus.palette import CLASS_COLORS, SHARES, TURN, Painting

TURNS = {0: "0", np.pi: "π", TURN: "2π"}
CORNERS = ((0, 0), (1, 0), (0.5, 0.87))  # of a triangle with sides of length 1


def _panels(n: int, columns: int = 5, side: float = 2.7, right=0.1, gap=0.35, above=0.3):
    """A figure with n square panels in rows, at fixed places: (figure, axes). Lengths in inches.

    right, above: room for a color bar or a legend, and for a title. Nothing is laid out by trial,
    which would take longer than the drawing itself.
    """
    columns = min(columns, n)
    n_rows = -(-n // columns)
    left, below = 0.55, 0.5
    width = left + columns * side + (columns - 1) * gap + right
    height = n_rows * (side + above) + (n_rows - 1) * gap + below
    figure = plt.figure(figsize=(width, height), dpi=100, FigureClass=Painting)
    plt.close(figure)
    axes = []
    for i in range(n):
        row, column = divmod(i, columns)
        x, y = left + column * (side + gap), height - (row + 1) * (side + above) - row * gap
        place = (x / width, y / height, side / width, side / height)
        axes.append(figure.add_axes(place))
    return figure, axes


def _bar(figure: Figure, image, label: str) -> None:
    """A color bar in the room at the right."""
    width, height = figure.get_size_inches()
    low, high = 0.5 / height, 1 - 0.3 / height
    tall = min(high - low, 2.7 / height)
    place = ((width - 0.85) / width, high - tall, 0.15 / width, tall)
    # Few ticks, for each takes long to draw.
    figure.colorbar(
        image, cax=figure.add_axes(place), label=label, ticks=MaxNLocator(4, steps=[1, 2.5, 5, 10])
    )


def _torus_axis(axis, title: str, margin: float = 0.0) -> None:
    """Angles along both sides; a dashed line where the margin repeats what is inside."""
    ends = (-margin, TURN + margin)
    axis.set(xlim=ends, ylim=ends, aspect="equal")
    axis.set_title(title, fontsize=10, y=1)  # a given place: to search for one takes long
    box = axis.get_position()
    others = [each.get_position() for each in axis.figure.axes]
    lowest = not any(o.y0 < box.y0 - 1e-6 and abs(o.x0 - box.x0) < 1e-6 for o in others)
    leftmost = not any(o.x0 < box.x0 - 1e-6 for o in others)
    axis.set_xticks(list(TURNS), TURNS.values() if lowest else [""] * len(TURNS), fontsize=9)
    axis.set_yticks(list(TURNS), TURNS.values() if leftmost else [""] * len(TURNS), fontsize=9)
    axis.set_xlabel("first word's angle θ1" if lowest else "", fontsize=9)
    axis.set_ylabel("second word's angle θ2" if leftmost else "", fontsize=9)
    axis.spines[:].set_visible(True)
    if margin:
        square = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]) * TURN
        axis.plot(*square.T, color="black", linewidth=0.8, linestyle="--")


def _wrapped(values, n_more: int = 0):
    """A map [n, n, …] that closes on itself: place 0 comes back at the end, at 2π.

    n_more: rows and columns of the other side to add along each edge.
    """
    return np.pad(values, [(n_more, n_more + 1)] * 2 + [(0, 0)] * (values.ndim - 2), mode="wrap")


def _show(axis, values, title: str, margin: float = 0.0, **style):
    """One map [n of θ2, n of θ1, …] as pixels, repeated over the margin (in radians)."""
    step = TURN / len(values)
    n_more = round(margin / step)
    low, high = (-n_more - 0.5) * step, TURN + (n_more + 0.5) * step
    image = axis.imshow(
        _wrapped(values, n_more),
        origin="lower",
        extent=(low, high, low, high),
        interpolation="bilinear",
        **style,
    )
    _torus_axis(axis, title, n_more * step)
    return image


def _dots(axis, dots, margin: float = 0.0) -> None:
    """dots: (θ1, θ2, classes), in the color of their class with a black rim; the margin too."""
    if dots is None:
        return
    theta1, theta2, classes = (np.asarray(each) for each in dots)
    turns = TURN * np.array([(right, up) for right in (-1, 0, 1) for up in (-1, 0, 1)])
    at = (np.stack([theta1, theta2], axis=1)[None] + turns[:, None]).reshape(-1, 2)
    near = (np.abs(at - np.pi) <= np.pi + margin).all(axis=1)
    colors = CLASS_COLORS[np.tile(classes, len(turns))[near]]
    inside = ((at >= 0) & (at < TURN)).all(axis=1)[near]  # the others are copies: paler
    shown = np.where(inside, 1.0, 0.35)
    axis.scatter(*at[near].T, s=34, c=colors, edgecolors="black", linewidths=1, alpha=shown)


def tinted(classes, strengths):
    """Colors [*at, 3] of the classes, paler for a smaller strength (0: white, 1: full)."""
    strengths = np.asarray(strengths)[..., None]
    return 1 - strengths * (1 - CLASS_COLORS[np.asarray(classes)])


def class_maps(
    classes,
    strengths,
    titles: list[str],
    dots=None,
    margin: float = 0.0,
    n_classes: int = 0,
    words=None,
) -> Figure:
    """Maps of the torus side by side: the class as color, its probability as intensity.

    classes, strengths: [map, n of θ2, n of θ1], classes from 0 and probabilities 0 to 1.
    dots: (θ1, θ2, class) of pairs of words, drawn on each. margin: radians beyond the square, where
    the other side comes back in. n_classes: how many the legend names; 0 leaves it out. words: the
    angle of each word, to write w0, w1, … above and beside the last map.
    """
    above = 0.3 if words is None else 0.55
    figure, axes = _panels(
        len(titles), right=(1.15 if words is not None else 0.9) if n_classes else 0.1, above=above
    )
    for axis, each, strength, title in zip(axes, classes, strengths, titles, strict=True):
        _show(axis, tinted(each, strength), title, margin)
        _dots(axis, dots, margin)
        if words is not None:
            _name_words(axis, np.asarray(words), beside=axis is axes[-1])
    _class_legend(figure, n_classes)
    return figure


def _name_words(axis, angles, beside: bool) -> None:
    """w0, w1, … above a map and, if asked, at its right; close neighbors stand in two rows."""
    axis.set_title(axis.get_title(), fontsize=10, pad=20, y=1)
    style = {"textcoords": "offset points", "fontsize": 9, "ha": "center", "va": "center"}
    top, before, out = axis.get_xlim()[1], -np.inf, 6
    for word in np.argsort(angles):
        out = 14 if out == 6 and angles[word] - before < 0.5 else 6
        before = angles[word]
        axis.annotate(f"w{word}", (before, top), (0, out), **style)
        if beside:
            axis.annotate(f"w{word}", (top, before), (out + 2, 0), **style)


def _class_legend(figure: Figure, n_classes: int) -> None:
    handles = [
        plt.Line2D([], [], marker="s", linestyle="", color=CLASS_COLORS[i], label=str(i))
        for i in range(n_classes)
    ]
    if handles:
        figure.legend(
            handles=handles, title="next token", loc="center right", frameon=False, fontsize=9
        )


def torus_maps(
    values,
    titles: list[str],
    label: str,
    limits: tuple[float, float] | None = None,
    dots=None,
    zeros=None,
) -> Figure:
    """Maps of numbers [map, n of θ2, n of θ1] side by side on one color scale.

    limits: the scale's ends, the smallest and the largest number if not given. dots: (θ1, θ2,
    class) of pairs of words, drawn on each. zeros: for each map a list of other maps, to draw where
    each is zero: the score under an attention, which is too steep for a smooth line of its own.
    """
    values = [np.asarray(each) for each in values]
    low, high = limits or (min(each.min() for each in values), max(each.max() for each in values))
    figure, axes = _panels(len(titles), right=1.0)
    for i, (axis, each, title) in enumerate(zip(axes, values, titles, strict=True)):
        image = _show(axis, each, title, cmap="cividis", vmin=low, vmax=high)
        for other in [] if zeros is None else zeros[i]:
            _frontier(axis, np.asarray(other))
        _dots(axis, dots)
    _bar(figure, image, label)
    return figure


def _frontier(axis, values, color="black") -> None:
    """The line where a map [n of θ2, n of θ1] of numbers is zero."""
    angles = np.arange(len(values) + 1) * TURN / len(values)
    axis.contour(angles, angles, _wrapped(values), levels=[0], colors=color, linewidths=1.5)


def color_maps(colors, titles: list[str], columns: int = 4, n_classes: int = 0) -> Figure:
    """Maps of colors [map, n of θ2, n of θ1, 3] as they are. ValueError outside 0 to 1.

    Turn vectors into colors before, and say how: see `offset_colors`. n_classes: how many classes
    the legend names, for maps made by `tinted`; 0 leaves it out.
    """
    colors = np.asarray(colors)
    if not (np.isfinite(colors).all() and colors.min() >= 0 and colors.max() <= 1):
        raise ValueError(
            f"colors must lie in 0 … 1, got {colors.min():.3g} to {colors.max():.3g}: "
            "scale them, or clip them and say so"
        )
    figure, axes = _panels(len(titles), columns, side=2.2, right=1.0 if n_classes else 0.1)
    for axis, each, title in zip(axes, colors, titles, strict=True):
        _show(axis, each, title)
    _class_legend(figure, n_classes)
    return figure


def offset_colors(vectors, reach: float):
    """Vectors [*at, 3] as colors: zero is mid-gray, ± reach the ends; ValueError beyond them."""
    vectors = np.asarray(vectors)
    if not np.abs(vectors).max() <= reach:
        raise ValueError(f"an entry is {np.abs(vectors).max():.3g}: make reach at least as large")
    return 0.5 + vectors / (2 * reach)


def triangles(values, shares, titles: list[str]) -> Figure:
    """Accuracies over triangles of heads: values [triangle, point], shares [point, 3] (`simplex`).

    A white cross marks the center, where the heads have equal shares.
    """
    values, shares = np.asarray(values), np.asarray(shares)
    x, y = shares[:, 1] + shares[:, 2] / 2, shares[:, 2] * np.sqrt(3) / 2
    mesh = Triangulation(x, y)
    figure, axes = _panels(len(titles), 6, side=1.7 if len(titles) > 4 else 2.3, right=1.0, gap=0.1)
    for axis, each, title in zip(axes, values, titles, strict=True):
        image = axis.tripcolor(mesh, each, shading="gouraud", cmap="cividis", vmin=0, vmax=1)
        axis.plot(0.5, np.sqrt(3) / 6, "+", color="white", markersize=7)
        for head, (at, place) in enumerate(zip(CORNERS, ("top", "top", "bottom"), strict=True)):
            axis.text(*at, f"head {head}", ha="center", va=place, fontsize=9)
        axis.set_title(title, fontsize=9, y=1)
        axis.set(aspect="equal", xlim=(-0.15, 1.15), ylim=(-0.15, 1.0))
        axis.axis("off")
    _bar(figure, image, "accuracy")
    return figure


def save_frontier(frames, titles: list[str], path: Path, per_second: int = 12) -> None:
    """Write maps of scores [frame, n of θ2, n of θ1] as a moving picture (GIF), in turn, for ever.

    Dark where the score is above 0 and the head looks at the first word; a line where it is 0.
    """
    frames = np.asarray(frames)
    figure, (axis,) = _panels(1)

    def draw(i):
        axis.clear()
        _show(axis, 1 / (1 + np.exp(-frames[i])), titles[i], cmap=SHARES, vmin=0, vmax=1)
        _frontier(axis, frames[i], "#E69F00")

    moving = FuncAnimation(figure, draw, frames=len(frames))
    moving.save(path, writer=PillowWriter(fps=per_second), dpi=80)
