"""Maps of colors over the torus, in rows."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.panels import TITLE, panels
from chapters.torus.figures import CLASS_COLORS, Map, Painting, show_map


def painting(titles: Sequence[str], columns: int, width: float, height: float):
    """A painting with a panel for each title, at most so many in a row, and the panels' axes.

    width, height: of a panel, in inches.
    """
    columns = min(columns, len(titles))
    n_rows = -(-len(titles) // columns)
    size = (width * columns + 1, height * n_rows + 0.2)
    figure, axes = panels(n_rows, columns, *size, title="", figure_class=Painting)
    for axis in axes.flat[len(titles) :]:
        axis.remove()
    axes = axes.flat[: len(titles)]
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title, **TITLE)
    return figure, axes


def color_maps(
    colors: Sequence[Map], titles: Sequence[str], columns: int = 5, dots=None, theta=None
) -> Figure:
    """Maps of colors as they are, such as `tinted` gives them, in rows.

    dots: (θ1, θ2, class) of pairs of words, drawn on each with a black rim. theta: the angle of
    each word, to write their names along the edges.
    """
    figure, axes = painting(titles, columns, 2.5, 3)
    for axis, each in zip(axes, colors, strict=True):
        show_map(axis, each, theta)
        axis.set(xlabel="first word", ylabel="second word")
        if dots is not None:
            look = {"c": CLASS_COLORS[np.asarray(dots[2])], "edgecolors": "black", "s": 34}
            axis.scatter(*dots[:2], **look)
    return figure
