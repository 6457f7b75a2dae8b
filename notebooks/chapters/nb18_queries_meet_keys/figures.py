"""Drawings of notebook 18: clouds of queries and keys, S1's metrics, maps against a rule."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.showing import forms
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE
from chapters.nb18_queries_meet_keys.measure import map_of, places
from chapters.nb18_queries_meet_keys.shifting import Shifted

SHADES = {
    color: LinearSegmentedColormap.from_list("cloud", ["#F2F2F2", color, "#1A1A1A"])
    for color in (QUERY, KEY)
}
KINDS = {"● queries": QUERY, "■ keys": KEY}  # below a title
NEAREST = {"━ to the nearest key: the argmax key": INK, "- - - to the nearest key: another": "0.5"}
LATER = "darker: later in the text"
# Of a scale c: below 1 it makes keys large, above 1 queries, up to 0.2 and to 5.
LARGER = LinearSegmentedColormap.from_list("larger", [(0, KEY), (1 / 6, "#FFFFFF"), (1, QUERY)])

EVEN = LinearSegmentedColormap.from_list("even", [KEY, "#FFFFFF", QUERY])  # the same for log c
SHOWN = (0.2, 0.4, 1.0, 2.5, 5.0)  # the values of c that are written on axes


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
    figure, axes = forms.panels(1, len(panels), 3.5 * len(panels), 3.5, title=title, key=key)
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
            right = j == pattern[i].argmax()
            look = {"color": INK if right else "0.5", "ls": "-" if right else (0, (4, 3))}
            look["lw"] = 1.7 if j == apart[i].argmin() else 0
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
) -> Figure:
    """Maps of queries (orange, round) and keys (blue, square), {title: (q, k)}.

    pos: positions; later is darker.
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
        _cloud(axis, q, QUERY, "o", dots, pos)
        _cloud(axis, k, KEY, "s", dots * 0.8, pos)
        _bare(axis)
        axis.set_title(name, **forms.TITLE)
    return figure


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


def exchange(film: Shifted, title: str) -> Figure:
    """At each step of a head's shift, which key is the nearest one: a curve for each kind."""
    shares = film.film["shares"]
    curves = {"argmax key": film.film["liked"], "most above average": film.film["above"]}
    curves = {name: (shares, found) for name, found in curves.items()}
    labels = "share of the shift", "share of the queries"
    return forms.lines({"": curves}, title, *labels, y_range=(0, 1), width=7.5)


def scales(
    of_heads: Sequence[float],
    at_random: Sequence[float],
    chosen: Mapping[str, Float[Tensor, "layer head"]],
    title: str,
) -> Figure:
    """S1's metrics: the weighted correlation of heads, and the c that each metric chooses for them.

    of_heads: each head's correlation at its best c; at_random: the same of random vectors.
    """
    figure, axes = forms.panels(
        1, 1 + len(chosen), 12, 2.9, title=title, width_ratios=[1.2, *[1] * len(chosen)],
        note="left: a point is a head, + the median; others: the c that each metric chooses",
    )  # fmt: skip
    axis = axes[0, 0]
    axis.axline((0, 0), slope=1, color=PALE, lw=1.2, zorder=1)
    axis.scatter(at_random, of_heads, color=SHARE, alpha=0.6, lw=0, s=22, zorder=3)
    axis.plot(np.median(at_random), np.median(of_heads), "+", color=INK, ms=13, mew=2.2, zorder=4)
    look = {"color": PALE, "size": forms.SMALL + 1, "path_effects": forms.HALO, "zorder": 5}
    axis.text(0.97, 0.04, "the head is nearer to -1", ha="right", transform=axis.transAxes, **look)
    axis.text(0.03, 0.92, "random vectors are nearer", transform=axis.transAxes, **look)
    limits = -1.05, max(*of_heads, *at_random) + 0.12
    axis.set(xlim=limits, ylim=limits)
    axis.set(xlabel="same lengths, random directions", ylabel="MiniLM's head")
    axis.set_title("weighted correlation at the best c", **forms.TITLE)
    for axis, (name, values) in zip(axes[0, 1:], chosen.items(), strict=True):
        image = axis.imshow(values.numpy(), cmap=EVEN, norm=LogNorm(0.2, 5), aspect="auto")
        axis.set_title(name, **forms.TITLE)
        axis.set(xlabel="head", ylabel="layer" if axis is axes[0, 1] else "")
        axis.set_xticks(range(0, values.shape[1], 2))
        axis.set_yticks(range(values.shape[0]))
    bar = figure.colorbar(image, ax=axes[0, 1:], label="c", aspect=18, fraction=0.03)
    bar.set_ticks(SHOWN, labels=[f"{c:g}" for c in SHOWN], minor=False)
    bar.minorticks_off()
    return figure


def against_rules(
    by_rule: Sequence[tuple[float, str]], by_map: Sequence[float], title: str
) -> Figure:
    """What maps of heads find, against rules without a map: a point is a head, in its rule's color.

    by_rule: (share found, name of the rule) of each head; by_map: the shares of their maps.
    """
    shares, names = zip(*by_rule, strict=True)
    colors = dict(zip(sorted({*names}), (INK, SHARE, KEY, QUERY), strict=False))
    key = {f"● {name}": color for name, color in colors.items()}
    note = "a point is a head, + the median"
    figure, axes = forms.panels(1, 1, 6.4, 4.2, title=title, key=key, note=note)
    axis, look = axes[0, 0], {"size": forms.SMALL + 1, "path_effects": forms.HALO, "zorder": 5}
    axis.axline((0, 0), slope=1, color=PALE, lw=1.2, zorder=1)
    dots = [colors[name] for name in names]
    axis.scatter(shares, by_map, color=dots, alpha=0.75, lw=0, s=30, zorder=3)
    axis.plot(np.median(shares), np.median(by_map), "+", color=INK, ms=15, mew=2.4, zorder=4)
    axis.text(0.03, 0.97, "the map finds more", color=PALE, va="center", **look)
    axis.text(0.97, 0.03, "the rule finds more", color=PALE, ha="right", **look)
    axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
    axis.set(xlabel="share found by the rule", ylabel="share found by the map")
    return figure
