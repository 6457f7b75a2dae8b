"""Heads as a team: what each knows, mixtures of them as hills, and heads that come in turn."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from aot_helpers.studies import torus
from aot_helpers.studies.torus import TorusNets
from aot_helpers.studies.torus_colors import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    SHARES,
    Painting,
    Shaded,
    asker,
    painted,
)
from aot_helpers.studies.torus_division import needed
from aot_helpers.studies.torus_figures import dot, draw_map
from aot_helpers.studies.torus_render import lit

TALL = np.sqrt(3) / 2  # height of a triangle of width 1


def alone(net: TorusNets, facts, title: str, owners=None) -> Figure:
    """The map of a network, and what each head says alone, without the residual.

    facts: [pair]. A large dot with its letter: a fact that is known; a small one: it is not.
    owners: the head [pair] that owns each fact; then the next words of a head's own are named.
    """
    shares = [torch.ones(3), *torch.eye(3)]
    names = ["the whole network", *(f"head {h} alone" for h in range(3))]
    if owners is not None:
        for h in range(3):
            own = sorted({NAMES[fact] for fact in torch.as_tensor(facts)[owners == h].tolist()})
            names[h + 1] = f"owner of {', '.join(own)}\n{names[h + 1]}"
    kept = [True, False, False, False]
    return _maps(net, facts, shares, kept, names, title)


def stages(net: TorusNets, facts, title: str) -> Figure:
    """The map of a network with none of its heads, the first, the first two, and all.

    facts: [pair]. Dots as in `alone`.
    """
    names = ["no head", "head 0", "heads 0 and 1", "heads 0, 1 and 2"]
    shares = [torch.zeros(3), *torch.ones(3, 3).tril()]
    return _maps(net, facts, shares, [True] * 4, names, title)


def without(net: TorusNets, facts, head: int, others, title: str) -> Figure:
    """What a head says alone, the map of its network without it, and what others say alone.

    facts: [pair]. others: numbers of heads. Dots as in `alone`; black rings: facts that are lost.
    """
    names = [f"head {head} alone", f"without head {head}", *(f"head {h} alone" for h in others)]
    only = torch.eye(3)
    shares = [only[head], 1 - only[head], *only[list(others)]]
    kept = [False, True] + [False] * len(others)
    return _maps(net, facts, shares, kept, names, title, needed(net, facts[None])[0, head])


def coverage(found: dict, title: str) -> Figure:
    """A dot for each network: the facts its heads cover alone, beside what chance would cover.

    found: {kind of network: (covered, covered by lot)}, each [net], shares of the facts.
    """
    figure, axis = plt.subplots(figsize=(9, 4.6), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.085, 0.125, 0.7, 0.89)
    figure.text(0.012, 0.953, title, fontsize=12.5, va="center")
    axis.plot([0.4, 1], [0.4, 1], color=PALE, lw=1.4, ls="--")
    axis.axhline(1, color=PALE, lw=1.4)
    axis.text(0.455, 0.985, "all facts", color=PALE, fontsize=10.5, va="top")
    axis.text(0.47, 0.432, "as by lot", color=PALE, fontsize=10.5, rotation=27)
    for k, (name, (covers, lot)) in enumerate(found.items()):
        color = CLASS_COLORS[[0, 3, 2][k]]
        covers, lot = np.asarray(covers), np.asarray(lot)
        axis.scatter(lot, covers, s=26, color=color, alpha=0.45, lw=0)
        axis.scatter(lot.mean(), covers.mean(), s=150, color=color, ec="white", lw=2, zorder=5)
        figure.text(0.72, 0.66 - 0.17 * k, f"{name}:\n{covers.mean():.2f}, by lot {lot.mean():.2f}",
                    color=color, fontsize=11, va="center")  # fmt: skip
    figure.text(0.72, 0.12, "small: a network\nlarge: their mean", color=PALE, fontsize=10)
    axis.set(xlim=(0.44, 1.0), ylim=(0.42, 1.03))
    axis.set_xlabel("share of the facts that the heads would cover by lot", fontsize=10.5)
    axis.set_ylabel("share that they cover", fontsize=10.5)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def hills(rows: dict, title: str, n: int = 148) -> Figure:
    """Hills over the triangle of mixtures of three heads, seen from above; without the residual.

    rows: {name: (network, facts [pair])}, a row of hills each: one for all facts, and one for the
    facts with each next word, in its color. The darker, the more facts are known. Outlined: the
    top; the dot in its middle says how many facts it knows. At the corners: what one head knows
    alone, bold for three quarters or more. n: width of a triangle in pixels.
    """
    shares, inside = _triangle(2 * n)
    wide, tall = 1000, 92 + 198 * len(rows)
    figure = plt.figure(figsize=(wide / 100, tall / 100), dpi=100, FigureClass=Shaded)
    plt.close(figure)
    figure.text(0.012, 1 - 18 / tall, title, fontsize=12.5, va="center")
    said = (
        "Darker: more of the facts. Outlined: the top, which may reach a corner; the dot in its "
        "middle says how many facts it knows.\nFine lines: where a fact is won or lost, white "
        "facing the light, gray in shade. Bold: a head alone knows \u00be or more."
    )
    figure.text(0.012, 1 - 31 / tall, said, fontsize=9.5, color=PALE, va="top", linespacing=1.3)
    for r, (name, (net, facts)) in enumerate(rows.items()):
        low = tall - 90 - 198 * r - 180
        figure.text(0.012, (low + 110) / tall, name, fontsize=11, rotation=90, va="center")
        mixed = torch.cat([torch.from_numpy(shares).view(-1, 3), torch.eye(3)]).float()
        known = torus.is_correct_with_shares(net, facts[None], mixed, residual=False)[0].float()
        for k in range(-1, 5):
            some = known if k < 0 else known[:, facts == k]
            counts, of = some.sum(dim=-1).numpy(), some.shape[1]
            box = (38 + 161 * (k + 1)) / wide, low / tall, 160 / wide, 180 / tall
            axis = figure.add_axes(box, xlim=(-80, 80), ylim=(0, 180))
            axis.axis("off")
            places = counts[:-3].reshape(inside.shape)
            _hill(axis, places, inside, of, SHARES if k < 0 else _shades(k), n)
            _corners(axis, counts[-3:], of, n)
            if not r:
                name = "all facts" if k < 0 else f"next word {NAMES[k]}"
                axis.set_title(name, fontsize=11, y=0.99)
    return figure


def corners(found: dict, title: str) -> Figure:
    """How much heads cover of the words that have a corner, and of the others: areas.

    found: {kind of network: (answers [net, head, pair], whether the pair's word has a corner
    [net, pair])}. The two columns of a panel hold all facts: as wide as there are such facts, and
    filled as far as they are covered; dark: known to two heads or more. So the filled area is what
    is covered in all.
    """
    figure = plt.figure(figsize=(10, 3.6), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.text(0.012, 0.945, title, fontsize=12.5, va="center")
    light, dark = "#D9C3E6", "#7B3F99"
    for i, (name, (answers, in_corner)) in enumerate(found.items()):
        axis = figure.add_axes((0.03 + 0.333 * i, 0.15, 0.29, 0.63), xlim=(0, 1), ylim=(0, 1))
        n_know, wide = answers.sum(dim=1), in_corner.float().mean().item()
        for left, width, of in ((0, wide, in_corner), (wide, 1 - wide, ~in_corner)):
            for least, color in ((1, light), (2, dark)):
                tall = (n_know[of] >= least).float().mean().item()
                axis.bar(left, tall, width, align="edge", color=color, ec="white", lw=1.2)
                ink = "white" if least == 2 else INK
                axis.text(left + width / 2, tall - 0.02, f"{tall:.2f}", fontsize=9, color=ink,
                          ha="center", va="top")  # fmt: skip
        axis.text(0, -0.04, "word has a corner", fontsize=10, va="top")
        axis.text(1, -0.04, "has none", fontsize=10, va="top", ha="right")
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set(visible=True, color=PALE)
        covered = answers.any(dim=1).float().mean()
        axis.set_title(f"{name}: {covered:.2f} covered", fontsize=11, y=1.01)
    said = "Across: all facts. Filled: known to at least one head alone; dark: to two or more."
    figure.text(0.03, 0.03, said, fontsize=9.5, color=PALE, va="center")
    return figure


def courses(curves: dict, title: str) -> Figure:
    """Mean accuracy of networks while they learn, each curve with its name and last value.

    curves: {name: (steps, accuracy [time])}.
    """
    figure, axis = plt.subplots(figsize=(9, 3.6), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.075, 0.15, 0.64, 0.87)
    figure.text(0.012, 0.94, title, fontsize=12.5, va="center")
    for k, (name, (steps, accuracy)) in enumerate(curves.items()):
        color, end = CLASS_COLORS[[0, 2, 3][k]], float(accuracy[-1])
        axis.plot(steps, np.asarray(accuracy), color=color, lw=2.2)
        figure.text(0.66, 0.78 - 0.2 * k, f"{name}:\n{25 * end:.1f} of 25 facts", color=color,
                    fontsize=11, va="center")  # fmt: skip
    axis.set(ylim=(0.2, 1.02), xlim=(0, steps[-1]))
    axis.set_xlabel("training step", fontsize=10.5)
    axis.set_ylabel("share of the facts known", fontsize=10.5)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _maps(net, facts, shares, residuals, names, title, ringed=()):
    wide = 9.8 / len(names)  # of a map and the gap to the next, in inches
    side, tall = wide - 0.2, wide + 0.8
    figure = plt.figure(figsize=(10, tall), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.text(0.012, 1 - 0.2 / tall, title, fontsize=12.5, va="center")
    theta, facts = torus.angles(net)[0].numpy(), torch.as_tensor(facts)
    places = [(theta[k // 5], theta[k % 5]) for k in range(len(facts))]
    each = zip(shares, residuals, names, strict=True)
    for i, (counts, residual, name) in enumerate(each):
        said = torus.logits(net, *torus.pairs(net), counts.to(net.W_U), residual)[0].argmax(dim=-1)
        known = (said == facts).tolist()
        axis = figure.add_axes((0.03 + wide / 10 * i, 0.23 / tall, side / 10, side / tall))
        draw_map(axis, painted(asker(net, counts, residual), cells=260))
        for k, fact in enumerate(facts.tolist()):
            dot(axis, places[k], fact, 120 if known[k] else 24, letter=known[k])
        for k in np.flatnonzero(ringed):
            axis.scatter(*places[k], s=270, fc="none", ec="black", lw=2.2, zorder=7, clip_on=False)
        letters = list(NAMES[: len(theta)])
        axis.set_xticks(theta, letters, fontsize=10)
        axis.set_yticks(theta, [""] * len(theta) if i else letters, fontsize=10)
        axis.tick_params(length=3, color=PALE)
        axis.set_title(f"{name}: {sum(known)} of 25", fontsize=11, y=0.99)
    return figure


def _shades(word):
    return LinearSegmentedColormap.from_list("word", ["#FFFFFF", CLASS_COLORS[word]])


def _triangle(n):
    """Shares [row, column, 3] of a triangle n pixels wide, its top first, and which lie in it."""
    up, right = np.meshgrid((np.arange(round(n * TALL))[::-1] + 0.5) / (n * TALL),
                            (np.arange(n) + 0.5) / n, indexing="ij")  # fmt: skip
    shares = np.stack([1 - right - up / 2, right - up / 2, up], -1)
    inside = shares.min(axis=-1) >= 0
    shares = np.clip(shares, 0, None)
    return shares / shares.sum(axis=-1, keepdims=True), inside


def _hill(axis, counts, inside, of, colors, n):
    """A hill of counts [row, column] above a triangle, lit, from above, with a dot on its top."""
    heights = counts / max(of, 1)
    for way in (0, 1) * 4:
        heights = _softened(heights, way)
    slopes = np.stack([*np.gradient(heights)[::-1], np.full_like(heights, 7 / n)], -1)
    normals = slopes * [-1, 1, 1] / np.linalg.norm(slopes, axis=-1, keepdims=True)
    image = lit(colors(0.06 + 0.94 * heights)[..., :3], normals)
    image = np.concatenate([image, inside[..., None]], -1)
    low, tall = 34, n * TALL
    axis.imshow(image, extent=(-n / 2, n / 2, low, low + tall), interpolation="antialiased")
    edge = np.array([[-n / 2, low], [n / 2, low], [0, low + tall], [-n / 2, low]])
    axis.plot(*edge.T, color=PALE, lw=0.8)
    top = (counts == counts[inside].max()) & inside
    x, y = _middle(top)
    rows, columns = (np.arange(-1, size + 1) + 0.5 for size in top.shape)
    places = (columns / top.shape[1] - 0.5) * n, low + (1 - rows / top.shape[0]) * tall
    axis.contour(*places, np.pad(top, 1), [0.5], colors=INK, linewidths=1.6)
    look = {"boxstyle": "circle,pad=0.25", "fc": "white", "ec": INK, "lw": 1}
    axis.text((x - 0.5) * n, low + (1 - y) * tall, f"{counts[inside].max():.0f}", fontsize=9,
              ha="center", va="center_baseline", bbox=look)  # fmt: skip


def _softened(heights, axis):
    """Each height mixed with its neighbors' along an axis, so that light falls softly on steps."""
    wide = np.pad(heights, [(int(k == axis),) * 2 for k in (0, 1)], mode="edge")
    before, after = (np.delete(wide, drop, axis) for drop in ([-1, -2], [0, 1]))
    return (before + 2 * heights + after) / 4


def _corners(axis, known, of, n):
    """What each head knows alone, beside its corner."""
    places = [(-n / 2, 15, "left"), (n / 2, 15, "right"), (0, 34 + n * TALL + 10, "center")]
    for h, (x, y, side) in enumerate(places):
        is_high = known[h] >= 0.75 * of - 1e-6
        look = {"weight": "bold"} if is_high else {"color": PALE}
        said = f"head {h}: {known[h]:.0f}/{of}" if h == 2 else f"head {h}:\n{known[h]:.0f}/{of}"
        axis.text(x, y, said, fontsize=9.5, ha=side, va="center", **look)


def _middle(region):
    """(x, y), each 0 to 1, of the place of a region [row, column] that lies deepest inside it."""
    depth, left = np.zeros(region.shape, int), np.pad(region, 1)
    while left.any():
        depth += left[1:-1, 1:-1]
        around = [np.roll(left, step, axis) for axis in (0, 1) for step in (-1, 1)]
        left = left & np.all(around, axis=0)
    y, x = np.unravel_index(depth.argmax(), depth.shape)
    return (x + 0.5) / region.shape[1], (y + 0.5) / region.shape[0]
