"""Drawings of notebook 18: clouds of queries and keys, all heads at a glance, a live map."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import DPI, INK, KEY, QUERY, SHARE
from aot_helpers.showing.widgets import Page
from chapters.nb18_queries_meet_keys.measure import head_of, map_of, places, unpacked
from chapters.nb18_queries_meet_keys.texts import TYPES, token_type

SCRIPT = Path(__file__).with_name("points.js")  # the live view, in the page itself

TYPE_COLORS = ("#555555", "#009E73", "#CC79A7", "#E69F00", "#000000")
SHADES = {
    color: LinearSegmentedColormap.from_list("cloud", ["#F2F2F2", color, "#1A1A1A"])
    for color in (QUERY, KEY)
}
KINDS = {"● queries": QUERY, "■ keys": KEY}  # below a title
LATER = "darker: later in the text"
# Of a scale c: below 1 it makes keys large, above 1 queries, up to 0.2 and to 5.
LARGER = LinearSegmentedColormap.from_list("larger", [(0, KEY), (1 / 6, "#FFFFFF"), (1, QUERY)])


def toy(
    panels: Mapping[str, tuple[Float[Tensor, "pos 2"], Float[Tensor, "pos 2"]]],
    tokens: Sequence[str],
    title: str,
    links: str = "attention",
    center: bool = False,
    alike: bool = False,
) -> Figure:
    """Queries (round) and keys (square) of a few tokens, {title: (q, k)}: nouns across, verbs up.

    links: "attention", lines as wide as the share, or "nearest", a dashed line from each query to
    its nearest key. Keys that lie close together are shown larger in an inset. center: mark the
    mean query by a cross. alike: the same axes in all panels, so that what has moved can be seen.
    """
    figure, axes = forms.panels(1, len(panels), 3.5 * len(panels), 3.5, title=title, key=KINDS)
    pairs = [(np.asarray(q), np.asarray(k)) for q, k in panels.values()]
    named = []  # axes, and what is named in each
    for axis, name, (q, k) in zip(axes[0], panels, pairs, strict=True):
        points = np.concatenate([*sum(pairs, ())] if alike else [q, k])
        axis.set(xlabel="noun", ylabel="verb")
        axis.set_title(name, **forms.TITLE)
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
        forms.name_points(axis, names)
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
            look = {"lw": 1.6 if j == apart[i].argmin() else 0, "color": "0.4", "ls": "--"}
        axis.plot(*zip(q[i], k[j], strict=True), zorder=1, **look)
    _cloud(axis, q, QUERY, "o", 60)
    _cloud(axis, k, KEY, "s", 52)
    if center:
        axis.plot(*q.mean(axis=0), "+", color=INK, ms=11, mew=2, zorder=4)
    axis.set(xlim=limits[0], ylim=limits[1])


def clouds(
    panels: Mapping[str, tuple[Float[Tensor, "point 2"], Float[Tensor, "point 2"]]],
    title: str,
    pos: Int[Tensor, " point"] | None = None,
    columns: int = 4,
    side: float = 3.0,
    links: Sequence[tuple[int, int]] = (),
    zoom: Mapping[str, tuple[int, int]] | None = None,
    named: tuple[str, str] = ("query", "key"),
) -> Figure:
    """Maps of queries (orange, round) and keys (blue, square), {title: (q, k)}.

    pos: positions; later is darker. links: (query, key) to be joined by a line. zoom: for the
    panel of a title, a query around which an inset shows the map larger, and a key; what the two
    are is written there as `named` says.
    """
    columns = min(columns, len(panels))
    n_rows, note = -(-len(panels) // columns), "" if pos is None else LATER
    figure, axes = forms.panels(
        n_rows, columns, side * columns, (side + 0.3) * n_rows, title=title, key=KINDS, note=note
    )
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis, (name, (q, k)) in zip(axes.flat, panels.items(), strict=False):
        dots = 9 if len(q) > 300 else 16 if len(q) > 100 else 40
        _map(axis, q, k, dots, pos, links)
        axis.set_title(name, **forms.TITLE)
        if name in (zoom or {}):
            _inset(axis, q, k, 3 * dots, pos, links, zoom[name], named)
    return figure


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
    axis.update_datalim([points.min(axis=0) - (0, 0.5 * np.ptp(points[:, 1]))])
    axis.autoscale_view()
    inset = axis.inset_axes([0.14, 0.01, 0.72, 0.3])
    _map(inset, q, k, dots, pos, links)
    ends, half = (q[pair[0]].tolist(), k[pair[1]].tolist()), 0.05 * np.ptp(points, axis=0).max()
    (x, y), wide = ends[0], 2.4  # as the inset is
    inset.set_aspect("auto")
    inset.set(xlim=(x - wide * half, x + wide * half), ylim=(y - half, y + half))
    higher = int(ends[1][1] > ends[0][1])
    for i, (at, text, color) in enumerate(zip(ends, named, (QUERY, KEY), strict=True)):
        look = {"color": color, "size": forms.SMALL, "path_effects": forms.HALO, "zorder": 6}
        place = {"xytext": (0, 11 if i == higher else -11), "textcoords": "offset points"}
        inset.annotate(text, at, ha="center", va="center", **place, **look)
    axis.indicate_inset_zoom(inset, edgecolor="0.4")


def _cloud(axis, points, color, marker, size, pos=None):
    points = np.asarray(points)
    look = {"s": size, "marker": marker, "linewidths": 0, "zorder": 3}
    if pos is None:
        axis.scatter(*points.T, color=color, alpha=0.75, **look)
    else:
        shade = 0.25 + 0.6 * np.asarray(pos) / max(int(np.max(np.asarray(pos))), 1)
        axis.scatter(*points.T, c=SHADES[color](shade), **look)


def _bare(axis: Axes) -> None:
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
    figure, axes = forms.panels(
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
        _bare(axis)
        if note := notes.get(Head(i, h)):
            axis.spines[:].set(color=INK, linewidth=1.6)
            axis.set_xlabel(note, size=forms.SMALL, weight="bold", labelpad=2)
        if i == 0:
            axis.set_title(f"H{h}", size=forms.SMALL + 1)
        if h == 0:
            axis.set_ylabel(f"layer {i}", size=forms.SMALL + 1)
    return figure


def one_query(result: dict, head: Head, point: int, *, title: str) -> Figure:
    """A head's map with lines from one query: to the keys of its three top scores, the nearest one.

    point: which query of all texts. The lines of top scores are purple, the nearest key's is
    dashed; an inset shows the query's surroundings larger.
    """
    (q, k), (text, pos) = map_of(result, head), places(result)
    first = int((text == text[point]).nonzero()[0, 0])
    top = [first + i for i in unpacked(head_of(result, head)["top"], 3)[point].unique().tolist()]
    tokens = [token for each in result["tokens"] for token in each]
    n_keys = int(pos[point] + 1 if result["causal"] else (text == text[point]).sum())
    nearest = first + int((k[first : first + n_keys] - q[point]).norm(dim=-1).argmin())
    links, named = [(point, key) for key in top], (tokens[point].strip(), tokens[nearest].strip())
    figure = clouds({"": (q, k)}, title, pos, 1, 5.0, links, {"": (point, nearest)}, named)
    (axis,) = figure.axes
    for each in (axis, *axis.child_axes):
        dashed = {"color": INK, "ls": (0, (2, 2)), "lw": 1.5, "zorder": 5}
        each.plot(*zip(q[point], k[nearest], strict=True), **dashed)
        each.plot(*q[point], "o", ms=11, mfc="none", mec=INK, mew=1.6, zorder=5)
    figure.draw_without_rendering()  # so that the places of points are known
    keys = {f"{tokens[key]} ": (*k[key].tolist(), KEY) for key in top}
    forms.name_points(axis, {tokens[point]: (*q[point].tolist(), QUERY)} | keys)
    return figure


class MapView(Page):
    """Maps of a results file's heads in the page: point at a token to see its text and keys.

    heads: those that can be chosen; the first is shown, with the query `point` of all. still: the
    figure for places without scripts. The three keys with the top scores of a query are joined by
    purple lines, the key nearest on the map by a dashed one.
    """

    def __init__(self, result: dict, heads: Sequence[Head], still: Figure, point: int = 0):
        entries = {str(head): head_of(result, head) for head in heads}
        texts = result["tokens"]
        data = {
            "tokens": [[forms.shown(token).replace("·", " ") for token in text] for text in texts],
            "types": [[token_type(token) for token in text] for text in texts],
            "heads": {name: [each["tsne"], each["top"]] for name, each in entries.items()},
            "head": str(heads[0]),
            "causal": result["causal"],
            "kinds": TYPES,
            "colors": TYPE_COLORS,
            "point": point,
        }
        super().__init__(SCRIPT, data, still, f"queries and keys of {heads[0]}, to point at")
