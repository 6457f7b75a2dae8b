"""Drawings of notebook 23: how active neurons are in many texts."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.diagrams import QUERY
from aot_helpers.showing.forms import panels


def active_neurons(hidden, names: Sequence[str], title: str, marked: Sequence[str] = ()) -> Figure:
    """How active some neurons are in each passage: activations [neuron, passage], by size."""
    size = np.abs(np.asarray(hidden))
    figure, ((axis,),) = panels(1, 1, 8.4, 0.2 * len(names) + 0.5, title=title)
    image = axis.imshow(size, cmap="magma", aspect="auto", vmax=np.quantile(size, 0.995))
    figure.colorbar(image, ax=axis, extend="max", label="activation, by size")
    axis.set_yticks(range(len(names)), names)
    for label in axis.get_yticklabels():
        if label.get_text() in marked:
            label.set(color=QUERY, weight="bold")
    axis.set_xticks([])
    axis.set_xlabel(f"{size.shape[1]} passages, each at its last token")
    return figure
