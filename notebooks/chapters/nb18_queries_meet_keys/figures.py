"""Drawings of notebook 18: clouds of queries and keys, and what their scale and shift decide."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.showing import plots
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE
from aot_helpers.showing.widgets import Page
from chapters.nb18_queries_meet_keys.measure import (
    N_TEXTS,
    SNAKE,
    QueriesKeys,
    head_map,
    head_of,
    positions,
    unpacked,
)

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
) -> Figure:
    """Queries (round) and keys (square) of a few tokens, {title: (q, k)}: nouns across, verbs up.

    A line leads from each query to its nearest key, solid if that is its argmax key; a cross marks
    the mean query. Keys that lie close together are shown larger in an inset.
    """
    size = 3.5 * len(panels), 3.5
    figure, axes = plots.panels(1, len(panels), *size, title=title, key=KINDS | NEAREST)
    named = []  # axes, and what is named in each
    for axis, (name, pair) in zip(axes[0], panels.items(), strict=True):
        q, k = map(np.asarray, pair)
        axis.set(xlabel="noun", ylabel="verb")
        axis.plot(*q.mean(axis=0), "+", color=INK, ms=11, mew=2, zorder=4)
        axis.set_title(name, **plots.TITLE)
        queries = {token: (*at, QUERY) for token, at in zip(tokens, q, strict=True)}
        queries["mean query"] = (*q.mean(axis=0), INK)
        # With a space, for a token names its query as well.
        keys = {f"{token} ": (*at, KEY) for token, at in zip(tokens, k, strict=True)}
        points = np.concatenate([q, k])
        if np.ptp(k, axis=0).max() > 0.15 * np.ptp(points, axis=0).max():
            _nearest_pairs(axis, q, k, _around(points, 0.2))
            named.append((axis, queries | keys))
            continue
        (left, right), (low, high) = _around(points, 0.2)
        room = 0.75 * (high - low)  # for the inset below
        _nearest_pairs(axis, q, k, ((left, right), (low - room, high)))
        inset = axis.inset_axes([0.02, 0.02, 0.6, 0.41], xticks=[], yticks=[])  # of the keys alone
        _nearest_pairs(inset, q, k, _around(k, 0.45))
        inset.spines[:].set(visible=True, color="0.4")
        axis.indicate_inset_zoom(inset, edgecolor="0.4")
        named += [(axis, queries), (inset, keys)]
    figure.draw_without_rendering()  # so that the positions of points are known
    for axis, names in named:
        plots.name_points(axis, names)
    return figure


def _around(points: Float[np.ndarray, "point 2"], margin: float) -> list[tuple[float, float]]:
    """Limits of both axes, some of the range of the points away from them."""
    low, high = points.min(axis=0), points.max(axis=0)
    return list(zip(low - margin * (high - low), high + margin * (high - low), strict=True))


def _nearest_pairs(axis, q, k, limits):
    """Points of queries and keys within limits, a line from each query to its nearest key."""
    nearest = np.linalg.norm(q[:, None] - k, axis=-1).argmin(axis=1)
    for i, j in enumerate(nearest):
        is_argmax = j == (k @ q[i]).argmax()
        look = {"color": INK, "ls": "-"} if is_argmax else {"color": "0.5", "ls": (0, (4, 3))}
        axis.plot(*zip(q[i], k[j], strict=True), lw=1.7, zorder=1, **look)
    draw_cloud(axis, q, QUERY, "o", 60)
    draw_cloud(axis, k, KEY, "s", 52)
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
    _, pos = positions(result)
    step = (3 * pos / (pos.max() + 1)).long()
    figure, axes = plots.panels(
        n_layers, n_heads, 0.98 * n_heads + 0.5, 1.2 * n_layers, title=title, key=KINDS, note=LATER
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, hspace=0, wspace=0)
    for (i, h), axis in np.ndenumerate(axes):
        q, k = head_map(result, Head(i, h), method)
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

    right: which key each query should find; lines are drawn for the first text alone.
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
    looks = (INK, "--"), (SHARE, "-")
    for (name, fractions), (color, ls) in zip(found.items(), looks, strict=True):
        left.plot(scales, fractions, "o", ls=ls, color=color, ms=5, lw=1.8)
        x, y, ha = (0.9, 0.9, "right") if ls == "--" else (1.9, 0.62, "left")
        left.text(x, y, name, color=color, ha=ha, weight="bold", size=plots.SMALL + 1)
    right.plot(scales, correlation, "o-", color=INK, ms=5, lw=1.8)
    right.axhline(0, color="0.8", lw=1, zorder=0)
    look = {"color": PALE, "size": plots.SMALL + 1, "va": "center"}
    left.text(1.03 * equal, 0.1, "queries and keys\nequally long", **look)
    right.text(0.97 * equal, -1, "−1 should be here", ha="right", **look)
    left.set(ylim=(-0.04, 1.04), ylabel="fraction of the queries")
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


def shift_view(result: Mapping, query: int, title: str) -> Page:
    """A live map of SNAKE whose keys a slider moves, while the attention below stays.

    query: of the first text, the one whose attention is shown. Where no script runs, three steps.
    """
    packed = head_of(result, SNAKE)["shift film"]
    text, pos = positions(result)
    data = {name: packed[name] for name in ("shares", "maps", "attention")}
    data |= {"tokens": result["tokens"][0], "pos": pos[text < N_TEXTS].tolist()}
    data |= {"query": query, "head": str(SNAKE)}
    still = shift_steps(result, query, title)
    said = f"queries and keys of {SNAKE}, whose keys are moved while attention stays"
    return Page(Path(__file__).with_name("shift.js"), data, still, said)


def shift_steps(result: Mapping, query: int, title: str) -> Figure:
    """The first, middle and last map of SNAKE as its keys are moved, and one query's attention."""
    film, tokens = head_of(result, SNAKE)["shift film"], result["tokens"][0]
    text, pos = (each.numpy() for each in positions(result))
    later = 0.25 + 0.75 * pos[text < N_TEXTS] / pos[text < N_TEXTS].max()
    attention = unpacked(film["attention"], len(tokens)).numpy() / 255
    key = {"● queries": QUERY, "■ keys (framed: of [CLS])": KEY}
    key["- - - from each query of one text to its nearest key"] = PALE
    key[f"— from the query of {tokens[query]} (circled) to the key that it attends to most"] = SHARE
    figure, axes = plots.panels(2, 3, 9.6, 4.5, title=title, key=key, height_ratios=[4.2, 1])
    last = len(film["maps"]) - 1
    for step, (above, below) in zip((0, last // 2, last), axes.T, strict=True):
        at = unpacked(film["maps"][step], 2).numpy() / 127.5 - 1  # in -1 … 1, queries first
        nearest = _shift_step(above, at, tokens, later, attention[query].argmax(), query)
        moved = f"{100 * film['shares'][step]:.0f}% of the shift"
        above.set_title(f"{moved}\nnearest key of {tokens[query]}: {nearest}", **plots.TITLE)
        below.bar(range(len(tokens)), attention[query], color=SHARE, width=0.8)
        below.set(ylim=(0, 1), yticks=[0, 1])
        high = [i for i, weight in enumerate(attention[query]) if weight >= 0.1]
        below.set_xticks(high, [tokens[i] for i in high])
        below.spines[["top", "right"]].set_visible(False)
        said = f"attention of “{tokens[query]}” to the tokens of its text"
        below.set_xlabel(said, size=9.5, color=PALE)
    return figure


def _shift_step(axis, at, tokens, later, most, query) -> str:
    """One map with the nearest key of each query of the first text; whose key is the query's."""
    n, length = len(later), len(tokens)
    for points, color, marker in ((at[:n], QUERY, "o"), (at[n:], KEY, "s")):
        shades = 1 - later[:, None] * (1 - np.array(to_rgb(color)))
        axis.scatter(*points.T, c=shades, s=16, marker=marker, linewidths=0)
    keys = at[n : n + length]  # of the first text, in which the query stands
    nearest = np.linalg.norm(keys - at[:length, None], axis=-1).argmin(axis=1)
    for i, key in enumerate(nearest):
        axis.plot(*zip(at[i], keys[key], strict=True), color=PALE, lw=0.9, ls=(0, (3, 2)))
    near, name = keys[nearest[query]], tokens[nearest[query]]
    axis.plot(*zip(at[query], near, strict=True), color=INK, lw=1.6, ls=(0, (2, 1)), zorder=4)
    if nearest[query]:  # the key of [CLS] is framed; any other is named
        look = {"xytext": (16, -18), "textcoords": "offset points", "color": KEY, "weight": "bold"}
        arrow = {"arrowstyle": "-", "color": KEY, "lw": 1, "shrinkA": 0, "shrinkB": 2}
        axis.annotate(name, near, arrowprops=arrow, zorder=6, **look)
    axis.plot(*zip(at[query], keys[most], strict=True), color=SHARE, lw=2.4, zorder=3)
    axis.scatter(*at[query], s=90, fc="none", ec=INK, lw=1.6, zorder=5)
    axis.scatter(*keys[0], s=60, marker="s", fc=KEY, ec=INK, lw=1.6, zorder=5)
    axis.set(xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), xticks=[], yticks=[])
    axis.set_aspect("equal")
    axis.spines[:].set(visible=True, color="0.85")
    return name
