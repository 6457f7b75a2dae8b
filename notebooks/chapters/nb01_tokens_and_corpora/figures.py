"""A figure of notebook 01: one text cut into pieces in several ways."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.plots import SMALL, shown


def pieces(rows: dict[str, list[str]], title: str = "") -> Figure:
    """A text cut in several ways: {name: its pieces} as rows of boxes, as wide as their letters."""
    widths = [[len(shown(piece)) + 0.8 for piece in row] for row in rows.values()]
    size = (0.088 * max(map(sum, widths)) + 2, 0.4 * len(rows) + 0.6)
    figure, axis = plt.subplots(figsize=size, layout="constrained")
    plt.close(figure)  # the notebook shows the returned figure once, not twice
    grays = ["#DDE1E6", "#F0F2F4"]  # neighbors differ
    for y, (row, wide) in enumerate(zip(rows.values(), widths, strict=True)):
        left, look = np.cumsum([0, *wide[:-1]]), {"edgecolor": "white", "height": 0.75}
        axis.barh([y] * len(row), wide, left=left, color=grays * len(row), **look)
        for piece, x, width in zip(row, left, wide, strict=True):
            look = {"ha": "center", "va": "center", "family": "monospace", "size": SMALL}
            axis.text(x + width / 2, y, shown(piece), **look)
    axis.set_yticks(range(len(rows)), [f"{name}: {len(row)}" for name, row in rows.items()])
    axis.set(title=title, xticks=[], ylim=(len(rows) - 0.5, -0.5))
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.tick_params(length=0)
    return figure
