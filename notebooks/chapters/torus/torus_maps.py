"""Maps of the torus of word pairs: the first word's angle across, the second's up."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from aot_helpers.showing import forms
from chapters.torus.palette import CLASS_COLORS, NAMES, PALE, TURN, Painting, letter_color

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


def color_maps(
    colors: Sequence[Map], titles: Sequence[str], columns: int = 5, n_classes: int = 0,
    dots=None, words=None,
) -> Figure:  # fmt: skip
    """Maps of colors as they are, such as `tinted` gives them.

    n_classes: how many next words are named. dots: (θ1, θ2, class) of pairs of words, drawn on each
    with a black rim. words: the angle of each word, to name w0, w1, … along the edges.
    """
    figure, axes = map_panels(titles, columns, n_classes)
    for axis, each in zip(axes, colors, strict=True):
        show_map(axis, each)
        name_angles(axis, words)
        show_rimmed(axis, dots)
    return figure


def map_panels(titles, columns: int, n_classes: int = 0, side: float = 2.5):
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


def name_angles(axis, words=None) -> None:
    """Angles along both sides, or the names of words where they stand."""
    ticks = TURNS if words is None else {float(at): f"w{i}" for i, at in enumerate(words)}
    axis.set_xticks(list(ticks), ticks.values())
    axis.set_yticks(list(ticks), ticks.values())
    place = axis.get_subplotspec()
    axis.set_xlabel("first word's angle θ1" if place.is_last_row() else "")
    axis.set_ylabel("second word's angle θ2" if place.is_first_col() else "")


def show_rimmed(axis, dots) -> None:
    """dots: (θ1, θ2, classes), in the color of their class with a black rim."""
    if dots is not None:
        theta1, theta2, classes = dots
        colors = CLASS_COLORS[np.asarray(classes)]
        axis.scatter(theta1, theta2, s=34, c=colors, edgecolors="black", linewidths=1)
