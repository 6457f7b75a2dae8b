"""Surfaces in space: the torus, what attention makes of it, and the globe that reads it."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    TURN,
    Shaded,
    letter_color,
    painted,
)
from chapters.torus.render import camera, lit, rendered

RING, TUBE = 1.0, 0.52  # radii of the torus in space


def ring(theta1, theta2, tube: float = TUBE):
    """Points [.., 3] of the torus in space: θ1 goes round the ring, θ2 around its tube."""
    out = RING + tube * np.sin(theta2)
    return np.stack([out * np.cos(theta1), out * np.sin(theta1), tube * np.cos(theta2)], -1)


def turns(n_rows: int, n_columns: int):
    """(θ1, θ2) [n_rows, n_columns] from 0 to 2π, both ends included: θ1 across, θ2 down."""
    return np.meshgrid(np.linspace(0, TURN, n_columns), np.linspace(0, TURN, n_rows))


def angle_colors(n: int):
    """Colors [n of θ2, n of θ1, 3] without a seam: θ1 is the hue; θ2 makes it pale, light, dark."""
    theta1, theta2 = np.meshgrid(*[(np.arange(n) + 0.5) * TURN / n] * 2)
    hue = np.cos(theta1[..., None] - TURN * np.arange(3) / 3)
    return 0.52 + (0.23 + 0.11 * np.cos(theta2))[..., None] * hue + 0.14 * np.sin(theta2)[..., None]


def folded(s, t, rolled: float, bent: float):
    """Points [.., 3] of a sheet, s and t from -1/2 to 1/2; rolled, bent: 0 (flat) to 1 (closed)."""
    rolled, bent = max(rolled, 1e-3), max(bent, 1e-3)
    turn, swing, wide = TURN * t * rolled, TURN * s * bent, RING / bent
    out, up = TUBE / rolled * np.sin(turn), TUBE / rolled * (1 - np.cos(turn))
    return np.stack([(wide - out) * np.sin(swing), wide - (wide - out) * np.cos(swing), up], -1)


def gluing(ask: Callable, *, title: str) -> Figure:
    """A film strip: the square map is rolled into a tube, and the tube bent into a ring.

    ask: see `torus_colors.asker`.
    """
    frames = {"the map": (0, 0), "top meets bottom: a tube": (0.62, 0),
              "left meets right: a ring": (1, 0.6), "a torus": (1, 1)}  # fmt: skip
    figure, axes = plt.subplots(
        1, 4, figsize=(10, 2.7), dpi=100, FigureClass=Shaded, width_ratios=(1.3, 1.25, 1.05, 1)
    )
    plt.close(figure)
    figure.subplots_adjust(0.005, 0.0, 0.995, 0.8, wspace=0.02)
    colors, view = painted(ask, cells=420), camera(48, -72)
    s, t = np.meshgrid(np.linspace(-0.5, 0.5, 49), np.linspace(-0.5, 0.5, 37))
    for axis, (name, fold) in zip(axes, frames.items(), strict=True):
        points = centered(folded(s, t, *fold))
        box = axis.get_position()
        width, height = round(1000 * box.width), round(270 * box.height)
        image, _ = rendered(
            points, colors, view, width, height, _reach(points, view, width, height)
        )
        axis.imshow(image)
        axis.axis("off")
        figure.text(box.x0 + box.width / 2, 0.83, name, fontsize=11, ha="center", va="center")
    figure.text(0.012, 0.94, title, fontsize=12.5)
    return figure


def torus_in_space(
    ask: Callable, theta, facts, title: str, named=(), elevation: float = 42, azimuth: float = 42
) -> Figure:
    """The map without edges, with the facts [pair] as pearls; arrows say which word leads where.

    ask: see `torus_colors.asker`. theta: the angle of each word. named: pairs (i, j) whose names
    stand beside their pearls, where these are seen. elevation, azimuth: degrees from which to look.
    """
    theta, facts = np.asarray(theta), np.asarray(facts)
    pairs = ring(theta.repeat(len(theta)), np.tile(theta, len(theta)), TUBE + 0.045)
    view, reach, size = camera(elevation, azimuth), 1.78, (860, 650)
    image, labels = rendered(ring(*turns(33, 65)), painted(ask, cells=560), view, *size, reach,
                             (pairs, facts), shadow=TUBE)  # fmt: skip
    figure, axis = _picture(image, reach)
    for x, y, fact in labels:
        axis.text(x, y, NAMES[fact], color=letter_color(fact), fontsize=10, weight="bold",
                  ha="center", va="center_baseline")  # fmt: skip
    _ways(axis, view)
    look = {"boxstyle": "round,pad=0.2", "fc": "white", "ec": INK, "lw": 0.8}
    for i, j in named:
        k = len(theta) * i + j
        x, y, _ = view @ pairs[k]
        if (x, y, facts[k]) in labels:
            axis.text(x, y + 0.115, f"{NAMES[i]} {NAMES[j]}", fontsize=10, ha="center",
                      va="center", bbox=look)  # fmt: skip
    figure.text(0.012, 0.965, title, fontsize=12.5)
    return figure


def _ways(axis, view):
    """Two white arrows on the torus: how the first word and how the second word moves a pair."""
    edge, dark = ([withStroke(linewidth=wide, foreground=INK)] for wide in (5, 3))
    text = {"fontsize": 11, "weight": "bold", "color": "white", "path_effects": dark, "zorder": 7}
    for name, starts, ends, side, aside in (
        ("first word", (28, 58), (72, 58), "center", (0.0, -0.13)),
        ("second word", (2, 12), (2, 72), "right", (-0.07, 0.0)),
    ):
        x, y, _ = view @ ring(*np.radians(np.linspace(starts, ends, 31)).T, TUBE + 0.01).T
        way = FancyArrowPatch(path=Path(np.stack([x, y], -1)), arrowstyle="-|>", color="white",
                              mutation_scale=14, lw=2.4, path_effects=edge, zorder=6)  # fmt: skip
        axis.add_patch(way)
        axis.text(x[15] + aside[0], y[15] + aside[1], name, ha=side, **text)


def globe(W_U, streams, facts, title: str, side: int = 430) -> Figure:
    """The cells of the unembedding W_U [3, word] on a globe, seen from both sides.

    streams: what the unembedding reads [pair, 3], as dots in the color of their fact [pair].
    Diamonds: the columns of W_U, by direction.
    """
    W_U, facts, at = np.asarray(W_U, float), np.asarray(facts), np.asarray(streams, float)
    at = at / np.linalg.norm(at, axis=1, keepdims=True)
    columns = (W_U / np.linalg.norm(W_U, axis=0)).T
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 5.0), dpi=100, FigureClass=Shaded)
    plt.close(figure)
    figure.subplots_adjust(0.0, 0.0, 1, 0.88, wspace=0.0)
    front = _clear_view(columns, at)
    back = front * np.array([[-1], [1], [-1]])
    x, y = np.meshgrid(*[np.linspace(-1.03, 1.03, 2 * side)] * 2)
    normal = np.stack([x, -y, np.sqrt(np.clip(1 - x**2 - y**2, 0, None))], -1)
    for axis, name, view in zip(axes, ("one side", "the other side"), (front, back), strict=True):
        cell = (normal @ view @ W_U).argmax(-1)
        image = np.where((x**2 + y**2 < 1)[..., None], lit(CLASS_COLORS[cell], normal), 1.0)
        image = image.reshape(side, 2, side, 2, 3).mean(axis=(1, 3))
        axis.imshow(image, extent=(-1.03, 1.03, -1.03, 1.03))
        dots = at @ view.T
        for place, fact in zip(dots, facts, strict=True):
            if place[2] > 0:
                axis.scatter(
                    *place[:2], s=95, color=CLASS_COLORS[fact], ec="white", lw=1.8, zorder=4
                )
                axis.scatter(*place[:2], s=140, fc="none", ec=INK, lw=0.8, zorder=4)
        for k, place in enumerate(columns @ view.T):
            if place[2] > 0.02:
                axis.scatter(*place[:2], s=55, marker="D", fc="white", ec=INK, lw=1.2, zorder=5)
                sides = place[:2] + 0.12 * np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
                gaps = np.linalg.norm(sides[:, None] - dots[:, :2], axis=-1).min(axis=1)
                gaps[np.linalg.norm(sides, axis=1) > 0.92] = -1  # not off the globe
                axis.text(*sides[gaps.argmax()], NAMES[k], fontsize=15, weight="bold", ha="center",
                          va="center", zorder=6, color=letter_color(k))  # fmt: skip
        axis.set_title(name, fontsize=11, color=PALE, style="italic", y=0.97)
        axis.set(xlim=(-1.1, 1.1), ylim=(-1.06, 1.08))
        axis.axis("off")
    figure.text(0.012, 0.955, title, fontsize=12.5)
    return figure


def _clear_view(columns, at):
    """A view from where no column and few dots stand at the rim of the globe."""
    eyes = np.random.default_rng(0).normal(size=(500, 3))
    eyes /= np.linalg.norm(eyes, axis=1, keepdims=True)
    clear = np.abs(columns @ eyes.T).min(axis=0) + np.abs(at @ eyes.T).mean(axis=0)
    eye = eyes[clear.argmax()]
    eye = eye * np.sign((at @ eye).sum())
    right = np.cross([0, 0, 1], eye) / np.linalg.norm(eye[:2])
    return np.stack([right, np.cross(eye, right), eye])


def surfaces(
    points,
    colors,
    titles: list[str],
    elevation: float = 35,
    azimuth: float = -60,
    dots=None,
    stretch: bool = False,
    n_classes: int = 0,
) -> Figure:
    """Closed surfaces [surface, n of θ2, n of θ1, 3] in space, lit, in their colors [.., 3].

    colors: [surface, n, n, 3], on any grid. dots: per surface, points [dot, 3] and their classes,
    as pearls; a ring marks one that the surface hides. elevation, azimuth: degrees from which to
    look. stretch: make the three extents of each equally long, so that flat shapes can be seen.
    n_classes: how many classes of the dots the legend names; 0 leaves it out.
    """
    width, height, beside = 4.2 * len(titles), 4.1, 0.9 if n_classes else 0
    figure = plt.figure(figsize=(width + beside, height), dpi=100, FigureClass=Shaded)
    plt.close(figure)
    view = camera(elevation, azimuth)
    for i, title in enumerate(titles):
        low, high = (end(np.asarray(points[i], float), axis=(0, 1)) for end in (np.min, np.max))
        extent = np.maximum(high - low, 1e-12) if stretch else np.array([(high - low).max()] * 3)
        place = lambda x: (np.asarray(x, float) - (low + high) / 2) / extent * 2  # noqa: B023, E731
        closed = np.pad(place(points[i]), ((0, 1), (0, 1), (0, 0)), mode="wrap")
        reach = 1.06 * _reach(closed, view, 420, 370)
        pearls = None if dots is None else (place(dots[i][0]), np.asarray(dots[i][1]))
        image, seen = rendered(closed, np.asarray(colors[i]), view, 420, 370, reach, pearls)
        axis = figure.add_axes((4.2 * i / (width + beside), 0, 4.2 / (width + beside), 0.9))
        axis.imshow(image, extent=(-reach, reach, -reach * 37 / 42, reach * 37 / 42))
        for at, kind in zip(*pearls, strict=True) if pearls else ():
            x, y, _ = view @ at
            if (x, y, kind) not in seen:
                axis.scatter(x, y, s=60, fc="none", ec=CLASS_COLORS[kind], lw=1.3)
        axis.set_title(title, fontsize=11)
        axis.axis("off")
    for k in range(n_classes):
        axis.text(1.0, 0.8 - 0.09 * k, f"{k}", transform=axis.transAxes, fontsize=10, ha="center",
                  va="center", color=letter_color(k), weight="bold",
                  bbox={"boxstyle": "circle", "fc": CLASS_COLORS[k], "ec": "none"})  # fmt: skip
    return figure


def centered(points):
    """Points [.., 3] moved so that the box around them has its middle at 0."""
    return points - (points.max(axis=(0, 1)) + points.min(axis=(0, 1))) / 2


def _reach(points, view, width, height):
    """Half the width, in units of space, of a picture that holds all points."""
    across, up = np.abs(points @ view[0]).max(), np.abs(points @ view[1]).max()
    return 1.03 * max(across, up * width / height)


def _picture(image, reach):
    """A figure of an image, with room for a title above; the axis is in units of space."""
    height, width = image.shape[:2]
    figure = plt.figure(figsize=(width / 100, height / 100 + 0.3), dpi=100, FigureClass=Shaded)
    plt.close(figure)
    axis = figure.add_axes((0, 0, 1, height / (height + 30)))
    tall = reach * height / width
    axis.imshow(image, extent=(-reach, reach, -tall, tall))
    axis.axis("off")
    return figure, axis
