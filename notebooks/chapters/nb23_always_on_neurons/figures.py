"""Drawings of notebook 23: a neuron's activations in many texts, and what its constant does."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, arrow, canvas, headline, say, word
from aot_helpers.showing.plots import name_points, panels, shown


def name_rows(axis, names: Sequence[str], marked: Sequence[str]) -> None:
    """Name the rows of a plot, the first on top, those that are marked in bold."""
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_yticks(range(len(names)), names)
    axis.tick_params(axis="y", length=0)
    for label in axis.get_yticklabels():
        if label.get_text() in marked:
            label.set(color=QUERY, weight="bold")


def zero_and_mean(
    costs: Mapping[str, tuple[float, float]], title: str, marked: Sequence[str] = ()
) -> Figure:
    """Arrows from what zero costs to what the mean costs, {neurons: (zero, mean)}, in nats."""
    figure, axes = panels(1, 1, 8.6, 0.36 * len(costs) + 0.8, title=title)
    axis = axes[0, 0]
    for row, (name, (zero, mean)) in enumerate(costs.items()):
        color = QUERY if name in marked else "0.4"
        look = {"arrowstyle": "-|>", "color": color, "lw": 2, "shrinkA": 0, "shrinkB": 0}
        axis.annotate("", (mean, row), (zero, row), arrowprops=look)
        axis.plot(zero, row, "o", color=color, ms=7)
        for at, side in ((max(zero, mean), 1), (min(zero, mean), -1)):
            axis.annotate(
                f"{at:.2f}",
                (at, row),
                (9 * side, 0),
                textcoords="offset points",
                color=color,
                ha="left" if side > 0 else "right",
                va="center",
                fontsize=10,
                bbox={"fc": "white", "ec": "none", "pad": 1},
            )
    axis.axvline(0, color="0.6", lw=1, zorder=0)
    axis.set(xlabel="cost (nats per token):  ● set to zero   ◀ set to their means")
    axis.set_xlim(-0.06, 1.15 * max(max(each) for each in costs.values()))
    name_rows(axis, list(costs), marked)
    return figure


def reading_and_effect(
    tokens: Sequence[str], reading: Sequence[float], effect: Sequence[float], title: str
) -> Figure:
    """What a constant adds to logits as the lens reads it (across), and all that it does (up)."""
    x, y = np.asarray(reading), np.asarray(effect)
    figure, axes = panels(1, 1, 7.4, 4.3, title=title)
    axis = axes[0, 0]
    axis.axhline(0, color="0.6", lw=1, zorder=0)
    axis.axvline(0, color="0.6", lw=1, zorder=0)
    axis.scatter(x, y, color=QUERY, s=24, alpha=0.75, lw=0)
    axis.set_xlabel("what the constant adds to the logit, read by the lens")
    axis.set_ylabel("how much higher the logit\nis with the constant")
    axis.margins(0.12)
    corners = {"reads as lowered, is raised": (0.01, 0.98, "left", "top")}
    corners["reads as raised, is lowered"] = (0.99, 0.02, "right", "bottom")
    for label, (across, up, ha, va) in corners.items():
        look = {"color": PALE, "fontsize": 10, "ha": ha, "va": va}
        axis.text(across, up, label, transform=axis.transAxes, **look)
    figure.draw_without_rendering()
    named = {0, int(x.argmax()), int(y.argmax()), tokens.index(" the"), tokens.index(" of")}
    name_points(axis, {shown(tokens[i]): (x[i], y[i], QUERY) for i in sorted(named)})
    return figure


def two_readers(lines: Mapping[str, Sequence[str]], title: str) -> Figure:
    """The two ways of a constant to the prediction: {"direct" or "layer": lines beside it}."""
    figure, axis = canvas(8.6, 3.5)
    axis.plot([1.9, 6.35], [1.15, 1.15], color="0.8", lw=9, solid_capstyle="butt", zorder=0)
    arrow(axis, (1.9, 1.15), (6.4, 1.15), PALE, width=2)
    word(axis, 1.15, 1.15, "L28N1095", QUERY, width=1.5)
    word(axis, 4.15, 2.35, "layer 29", INK, width=1.4)
    word(axis, 7.25, 1.15, "unembedding", INK, width=1.7)
    arrow(axis, (3.0, 1.2), (3.55, 2.15), QUERY, width=2.6)
    arrow(axis, (4.75, 2.15), (5.3, 1.25), INK, width=2.6)
    say(axis, 1.15, 0.72, "writes its constant", PALE, size=10)
    for (x, y), ha, which in (((2.85, 2.62), "right", "layer"), ((4.15, 0.75), "center", "direct")):
        for row, line in enumerate(lines[which]):
            weight = "bold" if row == 0 else "normal"
            line = line.replace("-", "−")
            say(axis, x, y - 0.25 * row, line, QUERY if row == 0 else INK, ha=ha, weight=weight)
    return headline(figure, title)


def strips(rows: Mapping[str, Sequence[float]], title: str, marked: Sequence[str] = ()) -> Figure:
    """The activations of neurons, {neuron: one of each text}, a dot each, and their means."""
    figure, axes = panels(1, 1, 8.6, 0.5 * len(rows) + 0.6, title=title)
    axis, draw = axes[0, 0], np.random.default_rng(0)
    axis.axvline(0, color="0.6", lw=1, ls="--", zorder=0)
    for row, (name, values) in enumerate(rows.items()):
        color, values = QUERY if name in marked else "0.5", np.asarray(values)
        height = row + draw.uniform(-0.28, 0.28, len(values))
        axis.scatter(values, height, color=color, s=15, alpha=0.55, lw=0)
        axis.plot([values.mean()] * 2, [row - 0.38, row + 0.38], color=INK, lw=3)
    name_rows(axis, list(rows), marked)
    axis.set_xlabel("activation (a dot: one text; the bar: their mean)")
    return figure


def louder(quiet: Sequence[float], loud: Sequence[float], title: str) -> Figure:
    """How active the neurons of a layer are on average, with a constant (across) and without."""
    figure, axes = panels(1, 1, 6.2, 4.4, title=title)
    axis, ends = axes[0, 0], (0.05, 70)
    axis.plot(ends, ends, color="0.5", lw=1, ls="--", zorder=0)
    axis.scatter(quiet, loud, color=KEY, s=9, alpha=0.45, lw=0)
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axis.set_xlabel("mean size of the activation, with the constant")
    axis.set_ylabel("without the constant")
    look = {"transform": axis.transAxes, "color": PALE, "fontsize": 10}
    axis.text(0.03, 0.95, "louder without it", va="top", **look)
    axis.text(0.97, 0.05, "quieter without it", ha="right", **look)
    ticks = (0.1, 1, 10)
    axis.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axis.set_yticks(ticks, [f"{x:g}" for x in ticks])
    return figure


def turned_down(
    intact: Mapping[float, float], deaf: Mapping[float, float], title: str, factor: float
) -> Figure:
    """What it costs to multiply what a layer's MLP writes, {number: cost}: intact, and deaf."""
    figure, axes = panels(1, 1, 7.6, 3.4, title=title)
    axis = axes[0, 0]
    axis.axhline(0, color="0.6", lw=1, zorder=0)
    axis.axvline(factor, color="0.6", lw=1, ls="--", zorder=0)
    for curve, color in ((intact, PALE), (deaf, QUERY)):
        axis.plot(*zip(*sorted(curve.items()), strict=True), "o-", color=color, lw=2, ms=5)
    look = {"fontsize": 10, "weight": "bold"}
    axis.text(
        0.985, deaf[1.0], "without the constant", color=QUERY, ha="right", va="center", **look
    )
    axis.text(1.31, max(intact.values()), "with it", color=PALE, va="center", **look)
    look = {"fontsize": 10, "color": PALE, "ha": "right", "va": "top"}
    axis.text(factor - 0.008, 0.93 * deaf[1.0], "as loud\nas before", **look)
    axis.set_xlim(0.45, 1.42)
    axis.set_xlabel("what layer 29's MLP writes, multiplied by")
    axis.set_ylabel("cost (nats per token)")
    return figure


def costs(found: Mapping[str, Sequence[float]], title: str, gray: Sequence[str] = ()) -> Figure:
    """Costs as bars, {what is done: one cost, or several, of which the mean}; some of them gray."""
    figure, axes = panels(1, 1, 8.6, 0.42 * len(found) + 0.6, title=title)
    axis = axes[0, 0]
    for row, (name, each) in enumerate(found.items()):
        mean = sum(each) / len(each)
        axis.barh(row, mean, 0.62, color="0.7" if name in gray else QUERY)
        if len(each) > 1:
            axis.plot(each, [row] * len(each), "o", color=INK, ms=4, alpha=0.7)
        axis.text(max(each) + 0.008, row, f"{mean:.2f}", va="center", fontsize=10)
    axis.set_yticks(range(len(found)), list(found))
    axis.set(ylim=(len(found) - 0.5, -0.5), xlabel="cost (nats per token)")
    axis.set_xlim(0, 1.12 * max(max(each) for each in found.values()))
    axis.tick_params(axis="y", length=0)
    return figure
