"""Surfaces in space: the torus, what attention makes of it, and the globe that reads it."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from aot_helpers.showing import forms
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    TURN,
    Shaded,
    Strip,
    letter_color,
    painted,
)
from chapters.torus.render import camera, lit, rendered

RING, TUBE = 1.0, 0.52  # radii of the torus in space


def ring(theta1, theta2, tube: float = TUBE):
    """Points [.., 3] of the torus in space: θ1 goes around the tube, θ2 round the ring."""
    out = RING + tube * np.sin(theta1)
    return np.stack([out * np.cos(theta2), out * np.sin(theta2), tube * np.cos(theta1)], -1)


def turns(n_rows: int, n_columns: int):
    """(θ1, θ2) [n_rows, n_columns] from 0 to 2π, both ends included: θ1 across, θ2 down."""
    return np.meshgrid(np.linspace(0, TURN, n_columns), np.linspace(0, TURN, n_rows))


def folded(s, t, rolled: float, bent: float):
    """Points [.., 3] of a sheet, s and t from -1/2 to 1/2; rolled, bent: 0 (flat) to 1 (closed).

    s runs to the right and is rolled into a tube, t runs up and is bent into a ring.
    """
    rolled, bent = max(rolled, 1e-3), max(bent, 1e-3)
    turn, swing, wide = TURN * s * rolled, TURN * t * bent, RING / bent
    out, up = TUBE / rolled * np.sin(turn), TUBE / rolled * (1 - np.cos(turn))
    across, along = (wide + out) * np.cos(swing) - wide, (wide + out) * np.sin(swing)
    return np.stack([across, along, up], -1)


def gluing(predict: Callable, *, title: str) -> Figure:
    """A film strip: the square map is rolled into a tube, and the tube bent into a ring.

    predict: see `palette.predictor`.
    """
    frames = {"the map": (0, 0), "left meets right: a tube": (0.62, 0),
              "top meets bottom: a ring": (1, 0.6), "a torus": (1, 1)}  # fmt: skip
    figure, axes = forms.panels(1, 4, 10, 2.3, title=title, figure_class=Strip)
    colors, view = painted(predict, cells=420), camera(50, -82)
    s, t = np.meshgrid(np.linspace(-0.5, 0.5, 37), np.linspace(-0.5, 0.5, 49))
    for axis, (name, fold) in zip(axes[0], frames.items(), strict=True):
        points, (width, height) = centered(folded(s, t, *fold)), (270, 210)
        reach = _reach(points, view, width, height)
        image, _ = rendered(points, colors, view, width, height, reach)
        show_picture(axis, image, reach, name)
    return figure


def torus_in_space(
    predict: Callable,
    theta,
    facts,
    title: str,
    named=(),
    elevation: float = 42,
    azimuth: float = 42,
) -> Figure:
    """The map without edges, with the facts [pair] as pearls; arrows say which word leads where.

    predict: see `palette.predictor`. theta: the angle of each word. named: pairs (i, j) whose names
    stand beside their pearls, where these are seen. elevation, azimuth: degrees from which to look.
    """
    theta, facts = np.asarray(theta), np.asarray(facts)
    pairs = ring(theta.repeat(len(theta)), np.tile(theta, len(theta)), TUBE + 0.045)
    view, reach, size = camera(elevation, azimuth), 1.78, (660, 500)
    image, labels = rendered(ring(*turns(65, 33)), painted(predict, cells=560), view, *size, reach,
                             (pairs, facts), shadow=TUBE)  # fmt: skip
    figure, axes = forms.panels(1, 1, 6.2, 4.75, title=title, figure_class=Shaded)
    axis = axes[0, 0]
    show_picture(axis, image, reach, letters=labels)
    _arrows(axis, view)
    look = {"boxstyle": "round,pad=0.2", "fc": "white", "ec": INK, "lw": 0.8}
    for i, j in named:
        k = len(theta) * i + j
        x, y, _ = view @ pairs[k]
        if (x, y, facts[k]) in labels:
            axis.text(x, y + 0.115, f"{NAMES[i]} {NAMES[j]}", fontsize=10, ha="center",
                      va="center", bbox=look)  # fmt: skip
    return figure


def _arrows(axis, view):
    """Two white arrows on the torus: how the first word and how the second word moves a pair."""
    edge, dark = ([withStroke(linewidth=wide, foreground=INK)] for wide in (5, 3))
    text = {"fontsize": 11, "weight": "bold", "color": "white", "path_effects": dark, "zorder": 7}
    for name, starts, ends, side, aside in (
        ("second word", (58, 28), (58, 72), "center", (0.0, -0.13)),
        ("first word", (12, 2), (72, 2), "right", (-0.07, 0.0)),
    ):
        x, y, _ = view @ ring(*np.radians(np.linspace(starts, ends, 31)).T, TUBE + 0.01).T
        way = FancyArrowPatch(path=Path(np.stack([x, y], -1)), arrowstyle="-|>", color="white",
                              mutation_scale=14, lw=2.4, path_effects=edge, zorder=6)  # fmt: skip
        axis.add_patch(way)
        axis.text(x[15] + aside[0], y[15] + aside[1], name, ha=side, **text)


def globe(
    W_U: Float[np.ndarray, "3 word"], streams: Float[np.ndarray, "pair 3"],
    facts: Int[np.ndarray, " pair"], title: str, side: int = 430,
) -> Figure:  # fmt: skip
    """The cells of the unembedding on a globe, seen from both sides.

    streams: what the unembedding reads, as dots in the color of their fact. Diamonds: the columns
    of W_U, by direction.
    """
    W_U, facts, at = np.asarray(W_U, float), np.asarray(facts), np.asarray(streams, float)
    at = at / np.linalg.norm(at, axis=1, keepdims=True)
    columns = (W_U / np.linalg.norm(W_U, axis=0)).T
    figure, axes = forms.panels(1, 2, 9.2, 4.6, title=title, figure_class=Strip)
    front = _clear_view(columns, at)
    back = front * np.array([[-1], [1], [-1]])
    x, y = np.meshgrid(*[np.linspace(-1.03, 1.03, 2 * side)] * 2)
    normal = np.stack([x, -y, np.sqrt(np.clip(1 - x**2 - y**2, 0, None))], -1)
    sides = {"one side": front, "the other side": back}
    for axis, (name, view) in zip(axes[0], sides.items(), strict=True):
        cell = (normal @ view @ W_U).argmax(-1)
        image = np.where((x**2 + y**2 < 1)[..., None], lit(CLASS_COLORS[cell], normal), 1.0)
        show_picture(axis, image.reshape(side, 2, side, 2, 3).mean(axis=(1, 3)), 1.03, name)
        dots, places = at @ view.T, columns @ view.T
        seen = dots[:, 2] > 0
        axis.scatter(*dots[seen, :2].T, s=95, c=CLASS_COLORS[facts[seen]], ec="white", lw=1.8)
        axis.scatter(*dots[seen, :2].T, s=140, fc="none", ec=INK, lw=0.8)
        seen = places[:, 2] > 0.02
        axis.scatter(*places[seen, :2].T, s=55, marker="D", fc="white", ec=INK, lw=1.2)
        for k in np.flatnonzero(seen):
            around = places[k, :2] + 0.12 * np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
            gaps = np.linalg.norm(around[:, None] - dots[:, :2], axis=-1).min(axis=1)
            gaps[np.linalg.norm(around, axis=1) > 0.92] = -1  # not off the globe
            axis.text(*around[gaps.argmax()], NAMES[k], fontsize=15, weight="bold", ha="center",
                      va="center", color=letter_color(k))  # fmt: skip
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


def surface(
    points: Float[np.ndarray, "n n 3"], colors: Float[np.ndarray, "m m 3"], title: str,
    elevation: float = 35, azimuth: float = -60, dots=None, stretch: bool = False,
) -> Figure:  # fmt: skip
    """A closed surface in space, lit, in its colors, which may be on another grid.

    elevation, azimuth: degrees from which to look. dots, stretch: see `fitted`; a dot that is seen
    has the letter of its class.
    """
    width, height = 740, 480
    image, reach, letters = fitted(
        points, colors, (elevation, azimuth), width, height, dots, stretch
    )
    figure, axes = forms.panels(1, 1, 7.4, 4.8, title=title, figure_class=Shaded)
    show_picture(axes[0, 0], image, reach, letters=letters)
    return figure


def fitted(
    points: Float[np.ndarray, "n n 3"], colors: Float[np.ndarray, "m m 3"],
    angles: tuple[float, float], width: int, height: int, dots=None, stretch: bool = False,
):  # fmt: skip
    """A lit picture of a closed surface, drawn to fit: (image, half its width, its seen dots).

    angles: elevation and azimuth, in degrees, from which to look. dots: (points [dot, 3], classes),
    as pearls a little over the surface; (x, y, class) comes back for each that is seen. stretch:
    make the three extents equally long, so that flat shapes can be seen.
    """
    points, view = np.asarray(points, float), camera(*angles)
    low, high = points.min(axis=(0, 1)), points.max(axis=(0, 1))
    size = np.maximum(high - low, 1e-12) if stretch else np.linalg.norm(high - low)
    closed = np.pad(points, ((0, 1), (0, 1), (0, 0)), mode="wrap")
    closed = (closed - (low + high) / 2) / size
    reach = 1.12 * _reach(closed, view, width, height)
    if np.allclose(closed[:, 0], closed[:, 1]):  # no surface but a ring: one angle alone
        closed = thickened(closed[:, 0], 0.02 * reach)
    if dots is not None:
        at = (np.asarray(dots[0], float) - (low + high) / 2) / size + 0.03 * reach * view[2]
        dots = at, np.asarray(dots[1])
    image, seen = rendered(closed, np.asarray(colors), view, width, height, reach, dots)
    return image, reach, seen


def thickened(line: Float[np.ndarray, "place 3"], radius: float, n: int = 12):
    """A thin tube [place, n + 1, 3] around a closed line of points."""
    along = np.gradient(np.concatenate([line[-2:-1], line, line[1:2]]), axis=0)[1:-1]
    side = np.cross(along, np.cross(along, line - line.mean(axis=0)) + 1e-9)
    up = np.cross(along, side)
    side, up = (each / np.linalg.norm(each, axis=-1, keepdims=True) for each in (side, up))
    turn = np.linspace(0, TURN, n + 1)[:, None]
    return line[:, None] + radius * (np.cos(turn) * side[:, None] + np.sin(turn) * up[:, None])


def centered(points: Float[np.ndarray, "*at 3"]):
    """Points moved so that the box around them has its middle at 0."""
    return points - (points.max(axis=(0, 1)) + points.min(axis=(0, 1))) / 2


def show_picture(axis, image, reach: float = 1.0, title: str = "", letters=()) -> None:
    """An image [y, x, 3] without an axis; reach: half its width in units of space.

    letters: (x, y, word) of each letter to write on it.
    """
    tall = reach * image.shape[0] / image.shape[1]
    axis.imshow(image, extent=(-reach, reach, -tall, tall))
    axis.axis("off")
    axis.set_title(title, size=forms.TITLE["size"])
    for x, y, word in letters:
        axis.text(x, y, NAMES[word], color=letter_color(word), fontsize=10, weight="bold",
                  ha="center", va="center_baseline")  # fmt: skip


def _reach(points, view, width, height):
    """Half the width, in units of space, of a picture that holds all points."""
    across, up = np.abs(points @ view[0]).max(), np.abs(points @ view[1]).max()
    return 1.03 * max(across, up * width / height)
