"""Drawings of notebook 18: clouds of queries and keys, all heads at a glance, a live map."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Int
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import ScaledTranslation
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE, headline
from aot_helpers.showing.plots import SMALL, shown
from aot_helpers.showing.widgets import Page
from chapters.nb18_queries_meet_keys.measure import head_of, map_of, places, unpacked
from chapters.nb18_queries_meet_keys.texts import TYPES, token_type

SCRIPT = Path(__file__).with_name("points.js")  # the live view, in the page itself

TYPE_COLORS = ("#555555", "#009E73", "#CC79A7", "#E69F00", "#000000")
SHADES = {
    color: LinearSegmentedColormap.from_list("cloud", ["#F2F2F2", color, "#1A1A1A"])
    for color in (QUERY, KEY)
}
HALO = [withStroke(linewidth=2.5, foreground="white")]  # so that a label can be read on a line
LATER = "; darker: later in the text"
LARGER = LinearSegmentedColormap.from_list("larger", [KEY, "#FFFFFF", QUERY])  # which c makes large


def toy(
    panels: Mapping[str, tuple[Tensor, Tensor]],
    tokens: Sequence[str],
    title: str,
    columns: Sequence[str] = ("noun", "verb"),
    links: str = "attention",
    center: bool = False,
    alike: bool = False,
) -> Figure:
    """Queries (round) and keys (square) of a few tokens in two named columns, panel by panel.

    panels: {title: (q [pos, 2], k [pos, 2])}. links: "attention", lines as wide as the share, or
    "nearest", a dashed line from each query to its nearest key. Keys that lie close together are
    shown larger in an inset. center: mark the mean query by a cross. alike: the same axes in all
    panels, so that what has moved can be seen.
    """
    width = 3.5 * len(panels)
    figure, axes = plt.subplots(1, len(panels), figsize=(width, 4.0), squeeze=False, dpi=DPI)
    figure.subplots_adjust(0.6 / width, 0.17, 1 - 0.1 / width, 0.83, wspace=0.28)
    every = np.concatenate([np.asarray(each) for pair in panels.values() for each in pair])
    for axis, (title_of_panel, (q, k)) in zip(axes[0], panels.items(), strict=True):
        q, k = np.asarray(q), np.asarray(k)
        points = np.concatenate([q, k])
        axis.update_datalim(every if alike else points)
        axis.margins(0.2)
        axis.autoscale_view()
        axis.set(xlabel=columns[0], ylabel=columns[1])
        axis.set_title(title_of_panel, size=10.5)
        named = [(token, at, QUERY) for token, at in zip(tokens, q, strict=True)]
        keys = [(token, at, KEY) for token, at in zip(tokens, k, strict=True)]
        apart = np.ptp(k, axis=0).max() > 0.15 * np.ptp(points, axis=0).max()
        if not apart:  # room for the inset below
            low, high = axis.get_ylim()
            axis.set_ylim(low - 0.75 * (high - low), high)
        _joined(axis, q, k, links)
        if center:
            _cross(axis, q)
            named.append(("mean query", q.mean(axis=0), INK))
        _names(axis, named + keys if apart else named, others=() if apart else k)
        if apart:
            continue
        inset = axis.inset_axes([0.02, 0.02, 0.6, 0.41])  # of the keys alone
        inset.set(xticks=[], yticks=[])
        inset.spines[:].set(visible=True, color="0.4")
        inset.update_datalim(k)
        inset.margins(0.45)
        inset.autoscale_view()
        inset.set_autoscale_on(False)
        _joined(inset, q, k, links)
        if center:
            _cross(inset, q)
        _names(inset, keys)
        axis.indicate_inset_zoom(inset, edgecolor="0.4")
    _kinds(figure, "")
    return headline(figure, title)


def _joined(axis, q, k, links):
    """Points of queries and keys, and lines between them; the limits of the axis stay."""
    pattern = np.exp(q @ k.T) / np.exp(q @ k.T).sum(-1, keepdims=True)
    apart = np.linalg.norm(q[:, None] - k, axis=-1)
    axis.set_autoscale_on(False)
    for i, j in np.ndindex(pattern.shape):
        if links == "attention":
            look = {"lw": 4.5 * pattern[i, j], "color": SHARE, "alpha": 0.6}
        else:
            look = {"lw": 1.6 if j == apart[i].argmin() else 0, "color": "0.4", "ls": "--"}
        axis.plot(*zip(q[i], k[j], strict=True), zorder=1, **look)
    _cloud(axis, q, QUERY, "o", 60)
    _cloud(axis, k, KEY, "s", 52)


def _cross(axis, q):
    axis.plot(*q.mean(axis=0), "+", color=INK, ms=11, mew=2, zorder=4)


def _names(axis, named, others=()):
    """Write (token, point, color) beside its point, each where it covers least."""
    axis.apply_aspect()
    pixel, (left, bottom, right, top) = DPI / 72, axis.bbox.extents
    taken = [
        (x - 5 * pixel, y - 5 * pixel, x + 5 * pixel, y + 5 * pixel)
        for x, y in axis.transData.transform([*(at for _, at, _ in named), *others])
    ]
    for token, at, color in named:
        x, y = axis.transData.transform(at)
        wide, high = (6.2 * len(token) / 2 + 1) * pixel, 6.5 * pixel
        places = []
        for way, (a, b) in enumerate([(0, 1), (1, 0), (-1, 0), (0, -1), (1, 1), (-1, 1), (1, -1)]):
            center = x + a * (wide + 6 * pixel), y + b * (high + 5 * pixel)
            box = center[0] - wide, center[1] - high, center[0] + wide, center[1] + high
            cost = sum(_overlap(box, each) for each in taken)
            cost += 4 * wide * high - _overlap(box, (left, bottom, right, top))
            places.append((cost, way, center, box))
        _, _, center, box = min(places)
        taken.append(box)
        at = axis.transData.inverted().transform(center)
        look = {"color": color, "size": 10, "zorder": 5, "path_effects": HALO}
        axis.text(*at, token, ha="center", va="center", **look)


def _overlap(one, other):
    """The area that two boxes (left, bottom, right, top) share."""
    wide = min(one[2], other[2]) - max(one[0], other[0])
    high = min(one[3], other[3]) - max(one[1], other[1])
    return max(wide, 0) * max(high, 0)


def clouds(
    panels: Mapping[str, tuple[Tensor, Tensor]],
    title: str,
    pos: Tensor | None = None,
    columns: int = 4,
    side: float = 3.0,
    links: Sequence[tuple[int, int]] = (),
    zoom: Mapping[str, tuple[int, int]] | None = None,
    named: tuple[str, str] = ("query", "key"),
) -> Figure:
    """Maps of queries (orange, round) and keys (blue, square), {title: (q, k)} of [point, 2].

    pos: positions [point]; later is darker. links: (query, key) to be joined by a line. zoom: for
    the panel of a title, a query around which an inset shows the map larger, and a key; what the
    two are is written there as `named` says.
    """
    rows = -(-len(panels) // columns)
    columns = min(columns, len(panels))
    size = (side * columns + 0.2, (side + 0.35) * rows + 0.85)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
    figure.subplots_adjust(0.01, 0.45 / size[1], 0.99, 1 - 0.75 / size[1], 0.05, 0.16)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (name, (q, k)) in zip(axes.flat, panels.items(), strict=False):
        dots = 9 if len(q) > 300 else 16 if len(q) > 100 else 40
        _map(axis, q, k, dots, pos, links)
        axis.set_title(name, size=10.5)
        if name in (zoom or {}):
            _inset(axis, q, k, 3 * dots, pos, links, zoom[name], named)
    _kinds(figure, "" if pos is None else LATER)
    return headline(figure, title)


def at_a_glance(
    result: dict, title: str, method: str = "tsne", notes: Mapping[Head, str] | None = None
) -> Figure:
    """The maps of all heads of a results file, a row for each layer; notes stand below theirs.

    Later in the text is darker, in three steps.
    """
    n_layers, n_heads, notes = result["n_layers"], result["n_heads"], notes or {}
    _, pos = places(result)
    step = (3 * pos / (pos.max() + 1)).long()
    size = (0.98 * n_heads + 0.75, (1.24 if notes else 1.06) * n_layers + 1.05)
    figure, axes = plt.subplots(n_layers, n_heads, figsize=size, squeeze=False)
    figure.subplots_adjust(
        0.65 / size[0], 0.42 / size[1], 0.995, 1 - 0.78 / size[1], 0.06, 0.28 if notes else 0.12
    )
    for (i, h), axis in np.ndenumerate(axes):
        q, k = map_of(result, Head(i, h), method)
        # Four plain pixels a point: with soft edges the file would be four times as large.
        kinds = ((q, QUERY), (k, KEY))
        for when, (points, color), x, y in product(range(3), kinds, (0, 1), (0, 1)):
            shade = SHADES[color](0.25 + 0.3 * when)
            (dots,) = axis.plot(*points[step == when].T, ",", color=shade, zorder=3)
            moved = ScaledTranslation(x / DPI, y / DPI, figure.dpi_scale_trans)
            dots.set_transform(axis.transData + moved)
        _bare(axis)
        if note := notes.get(Head(i, h)):
            axis.spines[:].set(color=INK, linewidth=1.6)
            below = {"transform": axis.transAxes, "ha": "center", "va": "top", "size": SMALL}
            axis.text(0.5, -0.04, note, weight="bold", color=INK, **below)
        if i == 0:
            axis.set_title(f"H{h}", size=SMALL + 1)
        if h == 0:
            axis.set_ylabel(f"layer {i}", size=SMALL + 1)
    _kinds(figure, LATER)
    return headline(figure, title)


def liked_by_scale(
    scales: Sequence[float], curves: Mapping[str, Float[Tensor, "head scale"]], title: str
) -> Figure:
    """Shares of queries whose nearest key is the one of a curve: the median head, the middle half.

    Labels that would cover one another are moved apart.
    """
    figure, axis = plt.subplots(figsize=(8.6, 3.6))
    figure.subplots_adjust(0.08, 0.15, 0.68, 0.88)
    ends = sorted((np.median(np.asarray(v), axis=0)[-1], name) for name, v in curves.items())
    at = {}
    for end, name in reversed(ends):  # from the top
        at[name] = min([end, *(height - 0.08 for height in at.values())])
    for (name, values), color in zip(curves.items(), (INK, "#C2255C", SHARE, PALE), strict=False):
        values = np.asarray(values)
        middle = np.quantile(values, (0.25, 0.75), axis=0)
        axis.fill_between(scales, *middle, color=color, alpha=0.2, lw=0)
        median = np.median(values, axis=0)
        axis.plot(scales, median, color=color, lw=2.6, marker="o", ms=5)
        axis.text(scales[-1] * 1.1, at[name], name, color=color, va="center", size=10)
    axis.set(xscale="log", ylim=(-0.03, 1.03), xlabel="c: queries times c, keys divided by c")
    axis.set_xticks(scales, [f"{c:g}" for c in scales])
    axis.minorticks_off()
    axis.set_ylabel("share of the queries")
    return headline(figure, title)


def exchange(
    panels: Mapping[str, Mapping[str, tuple[float, float]]], title: str, ends: tuple[str, str]
) -> Figure:
    """What the nearest key answers, at two ends: a panel for each {title: {question: (at, at)}}."""
    width = 2.35 * len(panels) + 1.7
    figure, axes = plt.subplots(1, len(panels), figsize=(width, 3.7), squeeze=False, sharey=True)
    figure.subplots_adjust(0.65 / width, 0.13, 1 - 1.6 / width, 0.75, wspace=0.12)
    for axis, (name, questions) in zip(axes[0], panels.items(), strict=True):
        for (question, shares), color in zip(questions.items(), (INK, SHARE), strict=False):
            axis.plot((0, 1), shares, color=color, lw=2.6, marker="o", ms=6)
            for x, share, side in ((-0.08, shares[0], "right"), (1.08, shares[1], "left")):
                said = f"{share:.2f}"
                if x > 0 and axis is axes[0, -1]:
                    said += f" {question}"
                axis.text(x, share, said, color=color, ha=side, va="center", size=10)
        axis.set_title(name, size=10.5)
        axis.set(xlim=(-0.5, 1.5), ylim=(-0.03, 1.05))
        axis.set_xticks((0, 1), ends, size=10)
    axes[0, 0].set_ylabel("share of the queries")
    return headline(figure, title)


def close_pairs(
    panels: Mapping[
        str, tuple[Float[Tensor, " pair"], Float[Tensor, " pair"], Int[Tensor, " pair"]]
    ],
    title: str,
) -> Figure:
    """Close pairs as dots, {title: (distance, dot product, the vector it shares)}.

    Pairs of one vector have one color.
    """
    width = 3.9 * len(panels)
    figure, axes = plt.subplots(1, len(panels), figsize=(width, 3.6), squeeze=False)
    figure.subplots_adjust(0.65 / width, 0.15, 1 - 0.15 / width, 0.8, wspace=0.25)
    for axis, (name, (distance, dots, shared)) in zip(axes[0], panels.items(), strict=True):
        colors = plt.get_cmap("tab10")(np.unique(shared, return_inverse=True)[1] % 10)
        axis.scatter(distance, dots, s=14, c=colors, alpha=0.8, linewidths=0)
        axis.set_title(name, size=10.5)
        axis.set(xlabel="distance", ylabel="dot product")
    return headline(figure, title)


def chosen_scales(panels: Mapping[str, Float[Tensor, "layer head"]], title: str) -> Figure:
    """Layer × head maps of the c that each metric chooses, with the numbers in the cells."""
    n_layers, n_heads = np.asarray(next(iter(panels.values()))).shape
    width, height = 0.56 * n_heads + 1.1, 0.4 * n_layers + 0.75
    size = (width, height * len(panels) + 0.55)
    figure, axes = plt.subplots(len(panels), 1, figsize=size, squeeze=False)
    figure.subplots_adjust(0.9 / width, 0.15 / size[1], 0.99, 1 - 0.95 / size[1], hspace=0.45)
    for axis, (name, values) in zip(axes[:, 0], panels.items(), strict=True):
        values = np.asarray(values)
        axis.imshow(values, cmap=LARGER, norm=LogNorm(0.2, 5), aspect="auto")
        for (i, h), c in np.ndenumerate(values):
            ink = "white" if abs(np.log(c)) > 1.2 else "black"
            axis.text(h, i, f"{round(c, 2):g}", ha="center", va="center", size=SMALL, color=ink)
        axis.set_xticks(range(n_heads), [f"H{h}" for h in range(n_heads)], size=SMALL)
        axis.set_yticks(range(n_layers), [f"layer {i}" for i in range(n_layers)], size=SMALL)
        axis.tick_params(length=0)
        axis.set_title(name, size=10.5)
    return headline(figure, title)


def one_query(result: dict, head: Head, point: int, *, title: str) -> Figure:
    """A head's map with the lines of one query: to its three favorite keys, and the nearest one.

    point: which query of all texts. The favorites' lines are purple, the nearest key's is dashed;
    an inset shows the query's surroundings larger.
    """
    (q, k), (text, pos) = map_of(result, head), places(result)
    top = unpacked(head_of(result, head)["top"], 3)[point]
    first = (text == text[point]).nonzero()[0, 0]
    tokens = [token for each in result["tokens"] for token in each]
    n_keys = pos[point] + 1 if result["causal"] else (text == text[point]).sum()
    of_text = slice(first, first + n_keys)
    nearest = first + (k[of_text] - q[point]).norm(dim=-1).argmin()
    links = [(point, (first + i).item()) for i in top.unique()]
    zoom = {"": (point, int(nearest))}
    figure = clouds(
        {"": (q, k)},
        title,
        pos,
        4,
        5,
        links,
        zoom,
        (tokens[point].strip(), tokens[nearest].strip()),
    )
    axis = figure.axes[0]
    for each in (axis, *axis.child_axes):
        dashed = {"color": INK, "ls": (0, (2, 2)), "lw": 1.5, "zorder": 5}
        each.plot(*zip(q[point], k[nearest], strict=True), **dashed)
        each.plot(*q[point], "o", ms=11, mfc="none", mec=INK, mew=1.6, zorder=5)
    favorites = [(tokens[first + i], k[first + i].numpy(), KEY) for i in top.unique()]
    _names(axis, [(tokens[point], q[point].numpy(), QUERY), *favorites])
    return figure


class MapView(Page):
    """Maps of a results file's heads in the page: point at a token to see its text and keys.

    heads: those that can be chosen; the first is shown, with the query `point` of all. still: the
    figure for places without scripts. The three keys that a query likes most are joined by purple
    lines, the key nearest on the map by a dashed one.
    """

    def __init__(self, result: dict, heads: Sequence[Head], still: Figure, point: int = 0):
        for head in heads:
            head_of(result, head)
        tokens = [[shown(token).replace("·", " ") for token in text] for text in result["tokens"]]
        data = {
            "tokens": tokens,
            "types": [[token_type(token) for token in text] for text in result["tokens"]],
            "heads": {
                str(h): [head_of(result, h)[part] for part in ("tsne", "top")] for h in heads
            },
            "head": str(heads[0]),
            "causal": result["causal"],
            "kinds": TYPES,
            "colors": TYPE_COLORS,
            "point": point,
        }
        super().__init__(
            SCRIPT,
            data,
            still,
            f"queries and keys of {heads[0]}, to point at",
        )


def _map(axis, q, k, dots, pos, links):
    for i, j in links:
        line = zip(q[i].tolist(), k[j].tolist(), strict=True)
        axis.plot(*line, color=SHARE, lw=1.3, alpha=0.7, zorder=2)
    _cloud(axis, q, QUERY, "o", dots, pos)
    _cloud(axis, k, KEY, "s", dots * 0.8, pos)
    _bare(axis)


def _inset(axis, q, k, dots, pos, links, pair, named):
    """A tenth of a map's width around a query, larger, in room made for it below the map."""
    points = np.concatenate([np.asarray(q), np.asarray(k)])
    low = points.min(axis=0) - (0, 0.5 * np.ptp(points[:, 1]))
    axis.update_datalim([low])
    axis.autoscale_view()
    axis.apply_aspect()
    inset = axis.inset_axes([0.14, 0.01, 0.72, 0.3])
    _map(inset, q, k, dots, pos, links)
    half = 0.05 * np.ptp(points, axis=0).max()
    x, y = np.asarray(q)[pair[0]]
    wide = 0.72 / 0.3  # as the inset is, so that no distance is stretched
    inset.set(xlim=(x - wide * half, x + wide * half), ylim=(y - half, y + half), aspect="auto")
    inset.spines[:].set(color="0.4")
    ends = np.asarray(q)[pair[0]], np.asarray(k)[pair[1]]
    higher = int(ends[1][1] > ends[0][1])
    for i, (at, what, color) in enumerate(zip(ends, named, (QUERY, KEY), strict=True)):
        look = {"color": color, "size": SMALL, "ha": "center", "path_effects": HALO, "zorder": 6}
        up = 1 if i == higher else -1
        moved = {"xytext": (0, 11 * up), "textcoords": "offset points", "va": "center"}
        inset.annotate(what, at, **moved, **look)
    axis.indicate_inset_zoom(inset, edgecolor="0.4")


def _cloud(axis, points, color, marker, size, pos=None):
    points = np.asarray(points)
    look = {"s": size, "marker": marker, "linewidths": 0, "zorder": 3}
    if pos is None:
        axis.scatter(*points.T, color=color, alpha=0.75, **look)
    else:
        shade = 0.25 + 0.6 * np.asarray(pos) / max(int(np.max(np.asarray(pos))), 1)
        axis.scatter(*points.T, c=SHADES[color](shade), **look)


def _bare(axis):
    axis.set(xticks=[], yticks=[])
    axis.set_aspect("equal", adjustable="datalim")
    axis.spines[:].set(visible=True, color="0.85")


def _kinds(figure, more):
    """Which color is which, at the bottom of a figure."""
    width, height = figure.get_size_inches()
    parts = (0.12, "● queries", QUERY), (1.1, "■ keys" + more, KEY)
    for x, text, color in parts:
        figure.text(
            x / width, 0.18 / height, text, color=color, size=10, va="center", weight="bold"
        )
