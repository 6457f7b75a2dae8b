"""Drawings of notebook 23: how active neurons are in many texts."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.diagrams import QUERY
from aot_helpers.showing.forms import TITLE, panels


def active_neurons(
    groups: Mapping[str, Mapping[str, Sequence[float]]], title: str, marked: Sequence[str] = ()
) -> Figure:
    """How active neurons are in each passage: {panel: {neuron: activations}}, all on one scale.

    The activations are relative ones (see `always_on.relative`), and the brightest shows 2 or more.
    """
    heights = [len(rows) for rows in groups.values()]
    figure, axes = panels(
        len(groups), 1, 8.6, 0.17 * sum(heights) + 0.3 + 0.3 * len(groups), title=title,
        sharex=True, height_ratios=heights,
    )  # fmt: skip
    for axis, (panel, rows) in zip(axes[:, 0], groups.items(), strict=True):
        sizes = np.asarray(list(rows.values()))
        image = axis.imshow(sizes, cmap="magma", aspect="auto", vmin=0, vmax=2)
        axis.set_title(panel, **TITLE)
        axis.set_yticks(range(len(rows)), list(rows))
        for label in axis.get_yticklabels():
            if label.get_text() in marked:
                label.set(color=QUERY, weight="bold")
        axis.set_xticks([])
    axis.set_xlabel(f"{sizes.shape[1]} passages, each at its last token")
    label = "activation by size\n(1: just among the most active)"
    figure.colorbar(image, ax=axes, extend="max", label=label)
    return figure
