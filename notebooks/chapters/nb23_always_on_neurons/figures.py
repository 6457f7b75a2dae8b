"""Drawings of notebook 23: how active neurons are in many texts."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.diagrams import KEY, PALE, QUERY
from aot_helpers.showing.forms import TITLE, panels, shown
from chapters.nb23_always_on_neurons.results import Frequent


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


def from_zero_to_mean(
    costs: Mapping[str, tuple[float, float]], title: str, marked: Sequence[str] = ()
) -> Figure:
    """Arrows from what zero costs to what the mean costs, {neurons: (zero, mean)}, in nats.

    On the logarithmic axis arrows of one length give back the same share of their cost.
    """
    figure, axes = panels(1, 1, 8.6, 0.42 * len(costs) + 0.8, title=title)
    axis = axes[0, 0]
    for row, (name, (zero, mean)) in enumerate(costs.items()):
        color = QUERY if name in marked else "0.35"
        look = {"arrowstyle": "-|>", "color": color, "lw": 2, "shrinkA": 0, "shrinkB": 0}
        axis.annotate("", (mean, row), (zero, row), arrowprops=look)
        axis.plot(zero, row, "o", color=color, ms=6)
        for at, other in ((zero, mean), (mean, zero)):
            side = 1 if at > other else -1
            axis.annotate(
                f"{at:.3f}", (at, row), (9 * side, 0), textcoords="offset points", color=color,
                ha="left" if side > 0 else "right", va="center", fontsize=9.5,
            )  # fmt: skip
    axis.set(xscale="log", xlabel="cost (nats per token): ● set to zero  ▶ set to their mean")
    axis.set_xlim(0.002, 6)
    axis.set_ylim(len(costs) - 0.4, -0.6)
    axis.set_yticks(range(len(costs)), list(costs))
    axis.grid(axis="x", color=PALE, alpha=0.3)
    return figure


def frequent_tokens(
    frequent: Frequent, changes: Mapping[str, str], title: str, named: str
) -> Figure:
    """The mean probability of each token, unchanged (across) and changed (up), {change: panel}.

    named: the token whose point gets its name.
    """
    before = np.asarray(frequent.probability["unchanged"])
    figure, axes = panels(
        1, len(changes), 9.6, 3.8, title=title, sharex=True, sharey=True,
        key={"● the 100 most frequent tokens": QUERY, "● the next 100": KEY},
    )  # fmt: skip
    for axis, change in zip(axes[0], changes, strict=True):
        after = np.asarray(frequent.probability[change])
        axis.set(xscale="log", yscale="log", xlabel="probability, unchanged")
        axis.axline((0.001, 0.001), (0.01, 0.01), color="0.6", lw=1, ls="--", zorder=0)
        for part, color in ((slice(100, None), KEY), (slice(0, 100), QUERY)):
            axis.scatter(before[part], after[part], color=color, s=16, alpha=0.7, lw=0)
        axis.set_title(changes[change], **TITLE)
    axes[0, 0].set_ylabel("probability, changed")
    at = frequent.tokens.index(named)
    for axis, change in zip(axes[0], changes, strict=True):
        axis.annotate(
            shown(named), (before[at], frequent.probability[change][at]), (-60, 14),
            textcoords="offset points", color=QUERY, weight="bold", ha="right", va="center",
            arrowprops={"arrowstyle": "-", "color": QUERY, "lw": 1},
        )  # fmt: skip
    return figure
