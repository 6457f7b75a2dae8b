"""Maps of the torus of word pairs: the first word's angle across, the second's up."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from aot_helpers.showing import forms
from chapters.torus.palette import (
    CLASS_COLORS,
    NAMES,
    PALE,
    TURN,
    Painting,
    letter_color,
)

Map = Float[np.ndarray, "theta2 theta1 *color"]
TURNS = {0: "0", np.pi: "π", TURN: "2π"}


def show_map(axis, values: Map, theta=None, on_grid: bool = True, **look):
    """A map of numbers or of colors as pixels; returns the image.

    theta: the angle of each word, to write their names along the edges. on_grid: whether the values
    are those at the places of `networks.grid`, or those in the middle of cells, as in `painted`.
    look: as in `imshow`.
    """
    values, low, high = np.asarray(values), 0.0, TURN
    if on_grid:  # the first pixel stands around angle 0, and comes back around 2π
        half = TURN / len(values) / 2
        values = np.pad(values, [(0, 1)] * 2 + [(0, 0)] * (values.ndim - 2), mode="wrap")
        low, high = -half, TURN + half
    image = axis.imshow(
        values, origin="lower", extent=(low, high) * 2, interpolation="bilinear", **look
    )
    axis.set(xlim=(0, TURN), ylim=(0, TURN), xticks=[], yticks=[])
    axis.spines[:].set(visible=True, color="#C8C8C8")
    if theta is not None:
        theta, names = np.asarray(theta) % TURN, list(NAMES[: len(theta)])
        axis.set_xticks(theta, names, fontsize=11, weight="bold")
        axis.set_yticks(theta, names, fontsize=11, weight="bold")
        axis.set(xlabel="first word", ylabel="second word")
        axis.tick_params(length=3, color=PALE)
    return image


def frontier(axis, values: Map, color="#E69F00", width: float = 1.8) -> None:
    """The line where a map of numbers is zero; none where it has one sign."""
    values = np.pad(np.asarray(values), (0, 1), mode="wrap")
    if values.min() < 0 < values.max():
        turn = np.linspace(0, TURN, len(values))
        axis.contour(turn, turn, values, levels=[0], colors=color, linewidths=width)


def dot(axis, place, word: int, size: float, letter: bool = True) -> None:
    """A word on an axis: a dot in its color, with its letter."""
    look = {"edgecolors": "white", "linewidths": max(1, size**0.5 / 9), "clip_on": False}
    axis.scatter(*place, s=size, color=CLASS_COLORS[word], zorder=5, **look)
    if letter:
        look = {"fontsize": max(9, 0.65 * size**0.5), "weight": "bold", "zorder": 6}
        look |= {"ha": "center", "va": "center_baseline", "color": letter_color(word)}
        axis.text(*place, NAMES[word], **look)


def show_facts(axis, theta, facts: Int[np.ndarray, " pair"], known=None, size=120) -> None:
    """The facts as dots, with their letters; small and without where known [pair] is false."""
    theta = np.asarray(theta) % TURN
    for i, fact in enumerate(np.asarray(facts)):
        place = theta[i // len(theta)], theta[i % len(theta)]
        large = known is None or bool(known[i])
        dot(axis, place, fact, size if large else 0.2 * size, large)


def tinted(classes: Int[np.ndarray, "*at"], strengths: Float[np.ndarray, "*at"]):
    """Colors [*at, 3] of the classes, paler for a smaller strength (0: white, 1: full)."""
    strengths = np.asarray(strengths)[..., None]
    return 1 - strengths * (1 - CLASS_COLORS[np.asarray(classes)])


def offset_colors(vectors: Float[np.ndarray, "*at 3"], reach: float):
    """Vectors as colors: zero is mid-gray, ± reach the ends; ValueError beyond them."""
    vectors = np.asarray(vectors)
    if not np.abs(vectors).max() <= reach:
        raise ValueError(f"an entry is {np.abs(vectors).max():.3g}: make reach at least as large")
    return 0.5 + vectors / (2 * reach)


def color_maps(
    colors: Sequence[Map], titles: Sequence[str], columns: int = 5, n_classes: int = 0,
    dots=None, words=None,
) -> Figure:  # fmt: skip
    """Maps of colors as they are, such as `tinted` and `offset_colors` give them.

    n_classes: how many next words are named. dots: (θ1, θ2, class) of pairs of words, drawn on each
    with a black rim. words: the angle of each word, to name w0, w1, … along the edges.
    """
    figure, axes = _panels(titles, columns, n_classes)
    for axis, each in zip(axes, colors, strict=True):
        show_map(axis, each)
        _angles(axis, words)
        _rimmed(axis, dots)
    return figure


def number_maps(
    values: Sequence[Map], titles: Sequence[str], label: str,
    limits: tuple[float, float] | None = None, dots=None, zeros=None,
) -> Figure:  # fmt: skip
    """Maps of numbers side by side on one color scale.

    limits: the scale's ends, the smallest and the largest number if not given. dots: see
    `color_maps`. zeros: for each map a list of other maps, to draw where each is zero: the score
    under an attention, which is too steep for a smooth line of its own.
    """
    values = [np.asarray(each) for each in values]
    low, high = limits or (np.min(values), np.max(values))
    figure, axes = _panels(titles, 5)
    for i, (axis, each) in enumerate(zip(axes, values, strict=True)):
        image = show_map(axis, each, cmap="cividis", vmin=low, vmax=high)
        for other in zeros[i] if zeros is not None else ():
            frontier(axis, other, "black", 1.5)
        _angles(axis)
        _rimmed(axis, dots)
    figure.colorbar(image, ax=axes, label=label, shrink=0.8)
    return figure


def triangles(
    values: Sequence[Float[np.ndarray, " point"]],
    shares: Float[np.ndarray, "point 3"],
    titles: Sequence[str],
) -> Figure:
    """Accuracies over triangles of three heads, at shares such as those of `simplex`.

    A white cross marks the center, where the heads have equal shares.
    """
    shares, tall = np.asarray(shares), np.sqrt(3) / 2
    mesh = Triangulation(shares[:, 1] + shares[:, 2] / 2, shares[:, 2] * tall)
    figure, axes = _panels(titles, 6, side=1.9)
    for axis, each in zip(axes, values, strict=True):
        image = axis.tripcolor(mesh, each, shading="gouraud", cmap="cividis", vmin=0, vmax=1)
        axis.plot(0.5, tall / 3, "+", color="white", markersize=7)
        for head, place in enumerate(((0, -0.06), (1, -0.06), (0.5, tall + 0.06))):
            side = "bottom" if head == 2 else "top"
            axis.text(*place, f"head {head}", ha="center", va=side, fontsize=9)
        axis.set(aspect="equal", xlim=(-0.15, 1.15), ylim=(-0.2, 1.1))
        axis.axis("off")
    figure.colorbar(image, ax=axes, label="accuracy", shrink=0.8)
    return figure


def _panels(titles, columns: int, n_classes: int = 0, side: float = 2.5):
    """A figure and one axis for each title, in rows."""
    columns = min(columns, len(titles))
    n_rows = -(-len(titles) // columns)
    key = {f"■ {i}": CLASS_COLORS[i] for i in range(n_classes)}
    figure, axes = forms.panels(
        n_rows, columns, columns * side + 1, n_rows * (side + 0.5) + 0.2,
        title="next word" if key else "", key=key, figure_class=Painting,
    )  # fmt: skip
    for axis in axes.flat[len(titles) :]:
        axis.remove()
    axes = axes.flat[: len(titles)]
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, **forms.TITLE)
    return figure, axes


def _angles(axis, words=None) -> None:
    """Angles along both sides, or the names of words where they stand."""
    ticks = TURNS if words is None else {float(at): f"w{i}" for i, at in enumerate(words)}
    axis.set_xticks(list(ticks), ticks.values())
    axis.set_yticks(list(ticks), ticks.values())
    place = axis.get_subplotspec()
    axis.set_xlabel("first word's angle θ1" if place.is_last_row() else "")
    axis.set_ylabel("second word's angle θ2" if place.is_first_col() else "")


def _rimmed(axis, dots) -> None:
    """dots: (θ1, θ2, classes), in the color of their class with a black rim."""
    if dots is not None:
        theta1, theta2, classes = dots
        colors = CLASS_COLORS[np.asarray(classes)]
        axis.scatter(theta1, theta2, s=34, c=colors, edgecolors="black", linewidths=1)
