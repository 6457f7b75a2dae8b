"""Drawings of notebook 18: clouds of queries and keys, and what their scale and shift decide."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.showing import plots
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE
from chapters.nb18_queries_meet_keys.measure import QueriesKeys, map_of, places

SHADES = {
    color: LinearSegmentedColormap.from_list("cloud", ["#F2F2F2", color, "#1A1A1A"])
    for color in (QUERY, KEY)
}
KINDS = {"● queries": QUERY, "■ keys": KEY}  # below a title
NEAREST = {"━ to the nearest key: the argmax key": INK, "- - - to the nearest key: another": "0.5"}
LATER = "darker: later in the text"


def toy(
    panels: Mapping[str, tuple[Float[Tensor, "pos 2"], Float[Tensor, "pos 2"]]],
    tokens: Sequence[str],
    title: str,
    links: str = "attention",
    center: bool = False,
    alike: bool = False,
) -> Figure:
    """Queries (round) and keys (square) of a few tokens, {title: (q, k)}: nouns across, verbs up.

    links: "attention", lines as wide as the share, or "nearest", a line from each query to its
    nearest key, solid if that is its argmax key. Keys that lie close together are shown larger in
    an inset. center: mark the mean query by a cross. alike: the same axes in all panels, so that
    what has moved can be seen.
    """
    key = KINDS | (NEAREST if links == "nearest" else {})
    figure, axes = plots.panels(1, len(panels), 3.5 * len(panels), 3.5, title=title, key=key)
    pairs = [(np.asarray(q), np.asarray(k)) for q, k in panels.values()]
    named = []  # axes, and what is named in each
    for axis, name, (q, k) in zip(axes[0], panels, pairs, strict=True):
        points = np.concatenate([*sum(pairs, ())] if alike else [q, k])
        axis.set(xlabel="noun", ylabel="verb")
        axis.set_title(name, **plots.TITLE)
        queries = {token: (*at, QUERY) for token, at in zip(tokens, q, strict=True)}
        # With a space, for a token names its query as well.
        keys = {f"{token} ": (*at, KEY) for token, at in zip(tokens, k, strict=True)}
        if center:
            queries["mean query"] = (*q.mean(axis=0), INK)
        if np.ptp(k, axis=0).max() > 0.15 * np.ptp(points, axis=0).max():
            _pairs(axis, q, k, links, center, _around(points, 0.2))
            named.append((axis, queries | keys))
            continue
        (left, right), (low, high) = _around(points, 0.2)
        room = 0.75 * (high - low)  # for the inset below
        _pairs(axis, q, k, links, center, ((left, right), (low - room, high)))
        inset = axis.inset_axes([0.02, 0.02, 0.6, 0.41], xticks=[], yticks=[])  # of the keys alone
        _pairs(inset, q, k, links, center, _around(k, 0.45))
        inset.spines[:].set(visible=True, color="0.4")
        axis.indicate_inset_zoom(inset, edgecolor="0.4")
        named += [(axis, queries), (inset, keys)]
    figure.draw_without_rendering()  # so that the places of points are known
    for axis, names in named:
        plots.name_points(axis, names)
    return figure


def _around(points: Float[np.ndarray, "point 2"], margin: float) -> list[tuple[float, float]]:
    """Limits of both axes, some of the range of the points away from them."""
    low, high = points.min(axis=0), points.max(axis=0)
    return list(zip(low - margin * (high - low), high + margin * (high - low), strict=True))


def _pairs(axis, q, k, links, center, limits):
    """Points of queries and keys within limits, lines between them, a cross at the mean query."""
    pattern = np.exp(q @ k.T) / np.exp(q @ k.T).sum(-1, keepdims=True)
    apart = np.linalg.norm(q[:, None] - k, axis=-1)
    for i, j in np.ndindex(pattern.shape):
        if links == "attention":
            look = {"lw": 4.5 * pattern[i, j], "color": SHARE, "alpha": 0.6}
        else:
            right = j == pattern[i].argmax()
            look = {"color": INK if right else "0.5", "ls": "-" if right else (0, (4, 3))}
            look["lw"] = 1.7 if j == apart[i].argmin() else 0
        axis.plot(*zip(q[i], k[j], strict=True), zorder=1, **look)
    draw_cloud(axis, q, QUERY, "o", 60)
    draw_cloud(axis, k, KEY, "s", 52)
    if center:
        axis.plot(*q.mean(axis=0), "+", color=INK, ms=11, mew=2, zorder=4)
    axis.set(xlim=limits[0], ylim=limits[1])


def draw_cloud(axis: Axes, points, color: str, marker: str, size: float, pos=None) -> None:
    """Points [point, 2] of one kind; with their positions, later is darker."""
    points = np.asarray(points)
    look = {"s": size, "marker": marker, "linewidths": 0, "zorder": 3}
    if pos is None:
        axis.scatter(*points.T, color=color, alpha=0.75, **look)
    else:
        shade = 0.25 + 0.6 * np.asarray(pos) / max(int(np.max(np.asarray(pos))), 1)
        axis.scatter(*points.T, c=SHADES[color](shade), **look)


def bare(axis: Axes) -> None:
    """A map has no ticks, one scale for both directions, and a thin frame."""
    axis.set(xticks=[], yticks=[])
    axis.set_aspect("equal", adjustable="datalim")
    axis.spines[:].set(visible=True, color="0.85")


def at_a_glance(
    result: dict, title: str, method: str = "tsne", notes: Mapping[Head, str] | None = None
) -> Figure:
    """The maps of all heads of a results file, a row for each layer; notes stand below theirs.

    Later in the text is darker, in three steps.
    """
    n_layers, n_heads, notes = result["n_layers"], result["n_heads"], notes or {}
    _, pos = places(result)
    step = (3 * pos / (pos.max() + 1)).long()
    figure, axes = plots.panels(
        n_layers, n_heads, 0.98 * n_heads + 0.5, 1.2 * n_layers, title=title, key=KINDS, note=LATER
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, hspace=0, wspace=0)
    for (i, h), axis in np.ndenumerate(axes):
        q, k = map_of(result, Head(i, h), method)
        # Four plain pixels a point: with soft edges the file would be four times as large.
        kinds = ((q, QUERY), (k, KEY))
        for when, (points, color), x, y in product(range(3), kinds, (0, 1), (0, 1)):
            shade = SHADES[color](0.25 + 0.3 * when)
            (dots,) = axis.plot(*points[step == when].T, ",", color=shade, zorder=3)
            moved = ScaledTranslation(x / DPI, y / DPI, figure.dpi_scale_trans)
            dots.set_transform(axis.transData + moved)
        bare(axis)
        if note := notes.get(Head(i, h)):
            axis.spines[:].set(color=INK, linewidth=1.6)
            axis.set_xlabel(note, size=plots.SMALL, weight="bold", labelpad=2)
        if i == 0:
            axis.set_title(f"H{h}", size=plots.SMALL + 1)
        if h == 0:
            axis.set_ylabel(f"layer {i}", size=plots.SMALL + 1)
    return figure


def at_scales(
    maps: Mapping[str, tuple[Float[Tensor, "point 2"], Float[Tensor, "point 2"]]],
    right: Int[Tensor, " point"],
    v: QueriesKeys,
    title: str,
) -> Figure:
    """Maps of a head at several scales, {name: (q, k)}, and a line from each query to a key.

    right: the place of each query's key; lines are drawn for the first text alone.
    """
    kinds = KINDS | {"— from each query of one text to the key that stands out": SHARE}
    size = 2.45 * len(maps), 3.35
    figure, axes = plots.panels(1, len(maps), *size, title=title, key=kinds, note=LATER)
    for axis, (name, (q, k)) in zip(axes[0], maps.items(), strict=True):
        for i in (v.text == 0).nonzero()[:, 0].tolist():
            ends = torch.stack([q[i], k[right[i]]]).T
            axis.plot(*ends.tolist(), color=SHARE, lw=0.9, alpha=0.8, zorder=2)
        draw_cloud(axis, q, QUERY, "o", 11, v.pos)
        draw_cloud(axis, k, KEY, "s", 9, v.pos)
        bare(axis)
        axis.set_title(name, **plots.TITLE)
    return figure


def choosing(
    scales: Sequence[float],
    found: Mapping[str, Sequence[float]],
    correlation: Sequence[float],
    equal: float,
    title: str,
) -> Figure:
    """Over the scale c: what is found, and the weighted correlation, which should tell it.

    equal: the scale at which queries and keys are equally long, a dotted line.
    """
    figure, axes = plots.panels(1, 2, 10.5, 3.7, title=title)
    left, right = axes[0]
    for (name, shares), (color, ls) in zip(found.items(), ((INK, "--"), (SHARE, "-")), strict=True):
        left.plot(scales, shares, "o", ls=ls, color=color, ms=5, lw=1.8)
        x, y, ha = (0.9, 0.9, "right") if ls == "--" else (1.9, 0.62, "left")
        left.text(x, y, name, color=color, ha=ha, weight="bold", size=plots.SMALL + 1)
    right.plot(scales, correlation, "o-", color=INK, ms=5, lw=1.8)
    right.axhline(0, color="0.8", lw=1, zorder=0)
    look = {"color": PALE, "size": plots.SMALL + 1, "va": "center"}
    left.text(1.03 * equal, 0.1, "queries and keys\nequally long", **look)
    right.text(0.97 * equal, -1, "−1 should be here", ha="right", **look)
    left.set(ylim=(-0.04, 1.04), ylabel="share of the queries")
    left.set_title("the nearest key is the one that stands out", **plots.TITLE)
    right.set(ylim=(-1.12, 1.12), ylabel="correlation")
    right.set_title("weighted correlation of distance and score", **plots.TITLE)
    for axis in (left, right):
        axis.set_xscale("log")
        axis.set_xticks([0.2, 0.4, 1, 2.5, 5], labels=["0.2", "0.4", "1", "2.5", "5"])
        axis.minorticks_off()
        axis.axvline(equal, color=PALE, lw=1.2, ls=":", zorder=0)
        axis.set_xlabel("c: queries times c, keys divided by c")
    return figure
