"""The plot of notebook 21's evidence: what is left of the logit with some edges alone."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing import plots
from aot_helpers.showing.diagrams import INK, KEY, PALE, SHARE, VALUE
from aot_helpers.showing.plots import Interval

ORDER_COLORS = {
    "coefficient per step": SHARE,
    "norm per step": KEY,
    "share per step": VALUE,
    "random": PALE,
    "smallest first": INK,
}


def curves(
    panels: Mapping[str, tuple[Sequence[float], Mapping[str, np.ndarray]]],
    title: str,
    names: Mapping[str, str],
) -> Figure:
    """What is left of the logit, by the share of edges kept: {panel: (levels, {order: curves})}.

    Each order's curves are [curve, level]: the mean is drawn, and the range of all as a band.
    names: the orders to be drawn, by the words beside their lines, the best first.
    """
    data = {}
    for panel, (levels, orders) in panels.items():
        runs = {names[order]: np.atleast_2d(orders[order]) for order in reversed(names)}
        data[panel] = {
            name: (range(len(levels)), Interval(each.min(0), each.mean(0), each.max(0)))
            for name, each in runs.items()
        }
    look = {
        "colors": {name: ORDER_COLORS[order] for order, name in names.items()},
        "x_ticks": {i: f"{100 * level:g}" for i, level in enumerate(levels)},
        "levels": {1: "", 0: ""},
        "width": 3.6 * len(panels) + 2.1,
    }
    return plots.lines(data, title, "% of the edges that are kept", "of what all edges add", **look)
