"""Drawings of notebook 22: lit neurons, words before and after a norm, a circuit of roles."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing.diagrams import (
    DPI,
    INK,
    KEY,
    PALE,
    QUERY,
    SHARE,
    VALUE,
    arrow,
    canvas,
    headline,
    say,
    word,
)
from aot_helpers.showing.plots import SMALL, shown


def _axes(width: float, height: float, columns: int = 1, left: float = 0.75):
    """Axes side by side, with room for a headline."""
    figure, axes = plt.subplots(1, columns, figsize=(width, height), dpi=DPI, squeeze=False)
    bottom, top = 0.62 / height, 1 - 0.72 / height
    figure.subplots_adjust(left / width, bottom, 1 - 0.2 / width, top, wspace=0.32)
    return figure, axes[0]


def lit(hidden, names: Sequence[str], title: str, marked: Sequence[str] = ()) -> Figure:
    """How active some neurons are in each passage: activations [neuron, passage], by size."""
    size = np.abs(np.asarray(hidden))
    figure, (axis,) = _axes(8.4, 0.2 * len(names) + 1.5)
    image = axis.imshow(size, cmap="magma", aspect="auto", vmax=np.quantile(size, 0.995))
    bar = figure.colorbar(image, ax=axis, pad=0.02, fraction=0.03, extend="max")
    bar.set_label("activation, by size", fontsize=SMALL)
    bar.ax.tick_params(labelsize=SMALL)
    axis.set_yticks(range(len(names)), names, fontsize=SMALL)
    for label in axis.get_yticklabels():
        if label.get_text() in marked:
            label.set(color=QUERY, weight="bold")
    axis.set_xticks([])
    axis.set_xlabel("100 passages, each at its last token")
    return headline(figure, title)


def words_moved(
    panels: Mapping[str, Sequence[tuple[str, float, float, bool]]], title: str
) -> Figure:
    """Mean probabilities before and after a norm: {panel: (token, before, after, is function)}."""
    figure, axes = _axes(4.3 * len(panels), 3.6, len(panels))
    for axis, (name, rows) in zip(axes, panels.items(), strict=True):
        ends = [_spread([row[column] for row in rows]) for column in (1, 2)]
        for (token, before, after, function), left, right in zip(rows, *ends, strict=True):
            color = PALE if function else VALUE
            axis.plot((0, 1), (before, after), color=color, marker="o", ms=4, lw=1.6)
            look = {"va": "center", "fontsize": SMALL, "color": color}
            axis.text(-0.06, left, shown(token), ha="right", **look)
            axis.text(1.06, right, shown(token), ha="left", **look)
        heights = [*sum(ends, []), *(row[column] for row in rows for column in (1, 2))]
        axis.set(yscale="log", xlim=(-0.75, 1.75), ylim=(min(heights) / 1.15, max(heights) * 1.15))
        axis.set_xticks((0, 1), ("before", "after"))
        axis.set_title(name, size=10.5)
    axes[0].set_ylabel("mean probability")
    return headline(figure, title)


def _spread(values: Sequence[float], apart: float = 0.13) -> list[float]:
    """Heights on a log axis for labels that should not lie on each other."""
    order = np.argsort(values)
    heights = np.log10(np.maximum(np.asarray(values, dtype=float), 1e-9))
    room = apart * max(1.0, (heights.max() - heights.min()) / 2)
    for lower, upper in zip(order[:-1], order[1:], strict=True):
        heights[upper] = max(heights[upper], heights[lower] + room)
    heights -= heights.mean() - np.log10(np.maximum(values, 1e-9)).mean()  # up as much as down
    return (10**heights).tolist()


def by_layer(
    panels: Mapping[str, Mapping[str, Sequence[float]]],
    title: str,
    y_label: str,
    line: float | None = None,
    log: bool = False,
) -> Figure:
    """Values of every layer, a line for each name, labeled at its end; `line` is a dashed level."""
    figure, axes = _axes(4.4 * len(panels) + 0.4, 3.2, len(panels))
    for axis, (name, curves) in zip(axes, panels.items(), strict=True):
        colors = (QUERY, PALE, KEY, SHARE)
        for color, (said, values) in zip(colors, curves.items(), strict=False):
            values = np.asarray(values, dtype=float)
            axis.plot(range(len(values)), values, color=color, marker="o", ms=3, lw=1.6, label=said)
        if line is not None:
            axis.axhline(line, color="0.4", lw=1, ls="--")
        axis.set(xlabel="layer", yscale="log" if log else "linear")
        axis.set_title(name, size=10.5)
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0].set_ylabel(y_label)
    _named_above(figure, axes[-1])
    return headline(figure, title)


def costs(rows: Mapping[str, Mapping[str, float]], title: str, x_label: str) -> Figure:
    """{who: {how: number}} as dots on lines."""
    figure, (axis,) = _axes(7.4, 0.45 * len(rows) + 1.6, left=2.6)
    names, colors = list(next(iter(rows.values()))), (QUERY, VALUE, PALE)
    for at, values in enumerate(rows.values()):
        ends = min(values.values()), max(values.values())
        axis.plot(ends, [at, at], color="0.8", lw=2, zorder=1)
        for color, name in zip(colors, names, strict=False):
            label = None if at else name
            axis.scatter(values[name], at, color=color, s=55, zorder=3, label=label)
    axis.axvline(0, color="0.7", lw=0.8, zorder=0)
    axis.set_yticks(range(len(rows)), list(rows), fontsize=10)
    axis.set(ylim=(len(rows) - 0.5, -0.6), xlabel=x_label)
    _named_above(figure, axis)
    return headline(figure, title)


def _named_above(figure, axis):
    """The names of the lines or dots, at the right end of the headline's row."""
    handles, names = axis.get_legend_handles_labels()
    look = {"fontsize": SMALL, "frameon": False, "ncols": len(names), "loc": "upper right"}
    figure.legend(handles, names, bbox_to_anchor=(1, 0.985 - 0.2 / figure.get_figheight()), **look)


def against_reading(adds, rank, names: Sequence[str], title: str) -> Figure:
    """What each head adds, against how high the name stands in its reading: both [layer, head].

    names: heads to name, such as "L2H3".
    """
    figure, (axis,) = _axes(7.2, 3.8)
    adds, rank = np.asarray(adds), np.asarray(rank) + 1
    axis.scatter(rank, adds, s=14, color=PALE, alpha=0.6)
    crowd = 0
    for name in names:
        at = Head.parse(name)
        axis.scatter(rank[at], adds[at], s=40, color=QUERY if adds[at] > 0 else KEY)
        place, right = (rank[at], adds[at]), rank[at] > 3000
        look = {"ha": "right" if right else "left", "fontsize": SMALL}
        away = (-6 if right else 6, 5)
        if abs(adds[at]) < 0.02:  # in the crowd: the labels stand above it, one over the other
            crowd += 1
            away, look["arrowprops"] = (-30, 10 + 14 * crowd), {"arrowstyle": "-", "color": "0.6"}
        axis.annotate(name, place, away, textcoords="offset points", **look)
    axis.axhline(0, color="0.7", lw=0.8)
    axis.axvspan(0.8, 5.5, color=SHARE, alpha=0.12, lw=0)
    axis.set(xscale="log", xlabel="median rank of the name in what the head writes (1: first)")
    axis.set_ylabel("adds, share of the logit difference")
    return headline(figure, title)


def patches(
    falls: Mapping[str, float], others: Mapping[str, Sequence[float]], title: str
) -> Figure:
    """What a logit difference loses, as a share: a head given other outputs, beside other heads.

    falls: {where the output comes from: share}; others: the same of other heads, where measured.
    """
    figure, (axis,) = _axes(7.6, 0.5 * len(falls) + 1.7, left=2.5)
    for at, (way, fall) in enumerate(falls.items()):
        axis.plot((0, fall), (at, at), color=QUERY, lw=2, alpha=0.4, zorder=1)
        axis.scatter(others.get(way, ()), [at] * len(others.get(way, ())), s=26, color=PALE)
        axis.scatter(fall, at, s=70, color=QUERY, zorder=3)
        axis.annotate(
            f"{fall:.2f}", (fall, at), (0, 8), textcoords="offset points",
            ha="center", fontsize=SMALL, color=QUERY,
        )  # fmt: skip
    for level, said in ((0, "nothing lost"), (1, "all lost")):
        axis.axvline(level, color="0.7", lw=0.8, ls="--", zorder=0)
        axis.text(level, -0.72, said, ha="center", va="bottom", fontsize=SMALL, color="0.4")
    axis.set_yticks(range(len(falls)), list(falls), fontsize=10)
    axis.set(ylim=(len(falls) - 0.1, -0.7), xlabel="share of the logit difference that is lost")
    if others:
        said = "gray: five sets of other heads, as large"
        place = {"transform": axis.transAxes, "va": "bottom", "ha": "left"}
        axis.text(0.3, 0.02, said, fontsize=SMALL, color=PALE, **place)
    return headline(figure, title)


def long_and_flat(lengths, entropies, marked: int, title: str) -> Figure:
    """Each neuron of a layer: how long its value is, how flat its reading; one is marked."""
    figure, (axis,) = _axes(6.4, 3.6)
    lengths, entropies = np.asarray(lengths), np.asarray(entropies)
    axis.scatter(lengths, entropies, s=10, color=PALE, alpha=0.6)
    axis.scatter(lengths[marked], entropies[marked], s=55, color=QUERY)
    at, look = (lengths[marked], entropies[marked]), {"fontsize": SMALL, "color": QUERY}
    axis.annotate("the busiest", at, (7, 6), textcoords="offset points", **look)
    axis.set(xlabel="length of the value", ylabel="entropy of its reading (nats)")
    return headline(figure, title)


def weights(value, title: str) -> Figure:
    """The weights of one neuron's value, place by place in the stream, with their rms dashed."""
    figure, (axis,) = _axes(7.4, 2.8)
    value = np.asarray(value)
    axis.vlines(range(len(value)), 0, value, color=VALUE, lw=1)
    for level in (-1, 1):
        axis.axhline(level * np.sqrt(np.mean(value**2)), color="0.5", lw=0.9, ls="--")
    axis.set(xlabel="place in the stream", ylabel="weight")
    return headline(figure, title)


# Where each role of the circuit stands: (x, y), its color, and the role's name in words. Gray
# boxes are found by where their heads look alone.
ROLES = {
    "previous": (2.6, 2.9, PALE, "previous token"),
    "duplicate": (5.2, 3.45, PALE, "duplicate token"),
    "induction": (5.2, 2.35, PALE, "induction"),
    "tells": (7.85, 2.9, QUERY, "say whom to avoid"),
    "suppress": (10.6, 4.15, QUERY, "unsay John"),
    "movers": (10.6, 3.2, VALUE, "name movers"),
    "backup": (10.6, 2.25, SHARE, "step in"),
    "against": (10.6, 1.3, KEY, "negative movers"),
}
FLOWS = (
    ("previous", "induction"), ("induction", "tells"), ("duplicate", "tells"), ("tells", "movers"),
    ("tells", "against"), ("tells", "backup"),
)  # fmt: skip
PATCHED = ("tells", "movers")  # the one arrow along which outputs were held


def circuit(heads: Mapping[str, Sequence[str]], title: str, said: str, most: int = 3) -> Figure:
    """The roles of Wang et al. 2022 as a diagram, with the heads of a model that fill them.

    said: what was tested of it, and what was not; it stands below.
    """
    figure, axis = canvas(10.4, 4.75, 12.4)
    places = {"Mary": 0.75, "John": 2.6, "John again": 5.2, "to": 8.9}
    for (token, x), name in zip(places.items(), ("IO", "S1", "S2", "end"), strict=True):
        word(axis, x, 4.85, token, width=0.35 + 0.14 * len(token), height=0.42, size=10.5)
        say(axis, x, 4.48, name, PALE, size=9)
    for start, end in FLOWS:
        (x0, y0, *_), (x1, y1, *_) = ROLES[start], ROLES[end]
        strong = {"color": INK, "width": 2.2} if (start, end) == PATCHED else {"color": "#B5B5B5"}
        arrow(axis, (x0 + 1.1, y0), (x1 - 1.12, y1), **strong)
    for role, (x, y, color, does) in ROLES.items():
        names = list(heads.get(role, ()))
        text = ", ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "")
        word(axis, x, y, "", color=color, width=2.2, height=0.8)
        say(axis, x, y + 0.18, does, color, size=9.5, weight="bold")
        say(axis, x, y - 0.17, text or "none found", INK if names else PALE, size=9)
    _looks_from_the_end(axis)
    say(axis, 0.1, 0.2, said, PALE, size=9, ha="left")
    return headline(figure, title)


def _looks_from_the_end(axis):
    """Purple lines: the names that heads look at from "to"."""
    look = {"color": SHARE, "alpha": 0.7, "width": 1.5}
    ends = (((5.6, 4.3), (9.47, 4.22)), ((5.6, 4.3), (7.3, 3.33)))
    ends += tuple(((12.0, y), (11.73, y)) for y in (1.3, 3.2))
    for start, end in ends:
        arrow(axis, start, end, **look)
    axis.plot((0.75, 0.75, 12.0, 12.0), (4.3, 0.75, 0.75, 3.2), color=SHARE, lw=1.5, alpha=0.7)
    say(axis, 5.2, 0.55, "purple: where heads look from 'to'", SHARE, size=9.5)
