"""Figure of notebook 10: the three steps of induction."""

import numpy as np
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE
from aot_helpers.showing.forms import panels

BLUES, GREENS = (
    LinearSegmentedColormap.from_list("tint", ["white", color]) for color in (KEY, VALUE)
)
STEPS = (  # name, its color, what rows and columns are
    ("1  previous-token head", SHARE, "row: position that attends\ncolumn: position attended to"),
    ("2  query meets key", QUERY, "row: I am a (query)\ncolumn: before me stands b (key)"),
    ("3  copying", VALUE, "row: token attended to\ncolumn: token raised"),
)


def three_steps(
    title: str,
    note: Float[Tensor, "query key"] | None = None,
    match: Float[Tensor, "token before"] | None = None,
    copy: Float[Tensor, "token raised"] | None = None,
) -> Figure:
    """Induction in three steps, each a small map; what is not known yet is left open.

    note: where the earlier head looks. match: how well a token's query fits a key before which
    each token stood. copy: what a token raises when it is looked at.
    """
    figure, axes = panels(1, 3, 9.4, 3.2, title=title)
    maps = zip((note, match, copy), (SHADES, BLUES, GREENS), strict=True)
    for i, (axis, (values, colors)) in enumerate(zip(axes[0], maps, strict=True)):
        name, color, said = STEPS[i]
        axis.set(xticks=[], yticks=[], box_aspect=1)
        axis.spines[:].set(visible=True, color="0.75")
        axis.set_title(name, size=11, color=color, weight="bold")
        axis.set_xlabel(said, color=INK)
        middle = {"transform": axis.transAxes, "ha": "center", "va": "center"}
        if values is None:
            axis.text(0.5, 0.5, "?", size=40, color="0.8", **middle)
        else:
            values = np.asarray(values).clip(min=0)
            axis.imshow(values / values.max(), cmap=colors, vmin=0, vmax=1)
        if i:
            axis.text(-0.25, 0.5, "→", size=22, color=PALE, **middle)
    return figure
