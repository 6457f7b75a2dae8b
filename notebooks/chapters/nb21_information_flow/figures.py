"""Drawings of notebook 21: graphs, live and still, and what is left with only some edges."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE, VALUE, headline
from chapters.nb21_information_flow.flow_graph import Graph, as_data, prune
from chapters.nb21_information_flow.flow_view import FlowView, flow_figure

COLORS = {
    "coefficient per step": SHARE,
    "norm per step": KEY,
    "share per step": VALUE,
    "norm overall": KEY,
    "share overall": VALUE,
    "random": PALE,
    "smallest first": INK,
}


def flow(
    graph: Graph, title: str, by: str = "share", target: int = 0, most: int = 3, least: float = 0.3
) -> Figure:
    """A pruned graph as a picture; see `prune` for by, target, most and least."""
    return flow_figure(as_data(prune(graph, by, target, most, least)), title, by, target)


def flow_view(
    graph: Graph,
    by: str = "share",
    target: int = 0,
    most: int = 3,
    least: float = 0.3,
    title: str | None = None,
) -> FlowView:
    """A graph alive in the page, pruned at first as `flow` prunes it, which is its still.

    title: the still's; None says what is traced.
    """
    title = title or f"What leads to {target_text(graph, target)}"
    still = flow(graph, title, by, target, most, least)
    return FlowView(as_data(graph), still, by, target, most, least)


def target_text(graph: Graph, target: int) -> str:
    """The target's text in quotes, as titles show it."""
    tokenizer = graph.run.model.tokenizer
    return repr(tokenizer.decode([graph.targets[target]])) if tokenizer else f"token {target}"


def curves(
    panels: Mapping[str, tuple[Sequence[float], Mapping[str, np.ndarray]]],
    title: str,
    names: Mapping[str, str],
    x_label: str = "share of the edges that are kept",
) -> Figure:
    """What is left of the logit, by the share of edges kept: {panel: (levels, {order: curves})}.

    Each order's curves are [curve, level]: the mean is drawn, and the range of all as a band.
    names: the orders to be drawn, by the words beside their lines, which stand in the last panel.
    """
    width = 3.6 * len(panels) + 2.1
    figure, axes = plt.subplots(1, len(panels), figsize=(width, 3.7), squeeze=False, sharey=True)
    figure.subplots_adjust(0.62 / width, 0.16, 1 - 1.95 / width, 0.8, wspace=0.08)
    for axis, (panel, (levels, orders)) in zip(axes[0], panels.items(), strict=True):
        x = np.arange(len(levels))
        for order in names:
            values = np.atleast_2d(np.asarray(orders[order], dtype=float))
            color = COLORS[order]
            axis.fill_between(x, values.min(0), values.max(0), color=color, alpha=0.15, lw=0)
            axis.plot(x, values.mean(0), color=color, lw=2.2, marker="o", ms=4)
        axis.axhline(1, color="0.85", lw=1, zorder=0)
        axis.set_xticks(x, [f"{100 * level:g}" for level in levels])
        axis.set_title(panel, size=10.5)
        axis.set_xlabel(x_label.replace("share", "%"))
    axes[0, 0].set_ylabel("of what all edges add")
    ends = {name: np.atleast_2d(orders[name]).mean(0) for name in names}
    _beside(axes[0, -1], ends, names)
    return headline(figure, title)


def _beside(axis, ends, names):
    """The words of each line, right of the last panel, in the order of their areas."""
    order = sorted(names, key=lambda name: -np.nansum(ends[name]))
    for i, name in enumerate(order):
        axis.text(1.04, 0.92 - 0.11 * i, names[name], color=COLORS[name], size=10,
                  transform=axis.transAxes, va="center", weight="bold")  # fmt: skip


def dots(
    rows: Mapping[str, Mapping[str, Sequence[float]]],
    title: str,
    x_label: str,
    colors: Sequence[str] = (QUERY, PALE, KEY, VALUE),
) -> Figure:
    """{row: {series: values}} as dots on lines; the series' names stand at the top, in color."""
    names = next(iter(rows.values()))
    return forms.dots({"": rows}, title, x_label, colors=dict(zip(names, colors, strict=False)))
