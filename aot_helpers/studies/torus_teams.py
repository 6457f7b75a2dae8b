"""Heads as a team: what each knows, mixtures of them as lit hills, and heads that come in turn."""

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
from aot_helpers.studies.torus_figures import dot, draw_map
from aot_helpers.studies.torus_render import camera, rendered

VIEW = camera(48, -78)
REACH = 1.3  # half the width of a hill's picture
CORNERS = np.array([[-1.0, -0.58], [1.0, -0.58], [0.0, 1.15]])  # of heads 0, 1 and 2


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
    shake = np.random.default_rng(0)
    for k, (name, (covers, lot)) in enumerate(found.items()):
        color = CLASS_COLORS[[0, 3, 2][k]]
        covers, lot = np.asarray(covers), np.asarray(lot)
        wobble = shake.uniform(-0.008, 0.008, len(covers))
        axis.scatter(lot, covers + wobble, s=26, color=color, alpha=0.45, lw=0)
        axis.scatter(lot.mean(), covers.mean(), s=150, color=color, ec="white", lw=2, zorder=5)
        figure.text(0.72, 0.66 - 0.17 * k, f"{name}:\n{covers.mean():.2f}, by lot {lot.mean():.2f}",
                    color=color, fontsize=11, va="center")  # fmt: skip
    figure.text(0.72, 0.12, "small: a network\nlarge: their mean", color=PALE, fontsize=10)
    axis.set(xlim=(0.44, 1.0), ylim=(0.42, 1.03))
    axis.set_xlabel("share of the facts that the heads would cover by lot", fontsize=10.5)
    axis.set_ylabel("share that they cover", fontsize=10.5)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def hills(rows: dict, title: str, n: int = 80) -> Figure:
    """Lit hills over the triangle of mixtures of three heads, without the residual.

    rows: {name: (network, facts [pair])}, a row of hills each: one for all facts, and one for the
    facts with each next word, in its color. Height: share of the facts that are known; edges are
    softened by a step of the mesh. A dot and a number: the most that a mixture knows; in brackets
    the most that a corner knows, one head alone.
    """
    down, across = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij")
    shares = np.stack([1 - down, down * (1 - across), down * across], -1)  # row 0 is a corner
    figure = plt.figure(figsize=(10, 0.8 + 1.95 * len(rows)), dpi=100, FigureClass=Shaded)
    plt.close(figure)
    tall = figure.get_figheight()
    figure.text(0.012, 1 - 0.2 / tall, title, fontsize=12.5, va="center")
    said = "height and color: share of the facts that are known (white: none); dot: the most"
    figure.text(0.988, 1 - 0.2 / tall, said, fontsize=9.5, color=PALE, ha="right", va="center")
    for r, (name, (net, facts)) in enumerate(rows.items()):
        low = tall - 0.6 - 1.95 * (r + 1)
        figure.text(0.012, (low + 0.9) / tall, name, fontsize=11, rotation=90, va="center")
        mixed = torch.from_numpy(shares.reshape(-1, 3)).float()
        known = torus.is_correct_with_shares(net, facts[None], mixed, residual=False)[0].float()
        for k in range(-1, 5):
            some = known if k < 0 else known[:, facts == k]
            counts = some.sum(dim=-1).numpy().reshape(n, n)
            heights = _softened(counts / max(some.shape[1], 1))
            axis = figure.add_axes((0.035 + 0.16 * (k + 1), low / tall, 0.16, 1.62 / tall))
            _hill(axis, shares @ CORNERS, heights, SHARES if k < 0 else _shades(k))
            _peak(axis, shares @ CORNERS, heights, counts == counts.max())
            corner = max(counts[0, 0], counts[-1, 0], counts[-1, -1])
            most = f"{counts.max():.0f} of {some.shape[1]} (corner: {corner:.0f})"
            axis.text(0.5, -0.04, most, fontsize=10, ha="center", transform=axis.transAxes)
            if not r:
                name = "all facts" if k < 0 else f"next word {NAMES[k]}"
                axis.set_title(name, fontsize=11, y=1.07)
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


def _maps(net, facts, shares, residuals, names, title):
    figure = plt.figure(figsize=(10, 3.25), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.text(0.012, 0.94, title, fontsize=12.5, va="center")
    theta, facts = torus.angles(net)[0].numpy(), torch.as_tensor(facts)
    each = zip(shares, residuals, names, strict=True)
    for i, (counts, residual, name) in enumerate(each):
        said = torus.logits(net, *torus.pairs(net), counts.to(net.W_U), residual)[0].argmax(dim=-1)
        known = (said == facts).tolist()
        axis = figure.add_axes((0.03 + 0.245 * i, 0.07, 0.225, 0.692))
        draw_map(axis, painted(asker(net, counts, residual), cells=260))
        for k, fact in enumerate(facts.tolist()):
            place = theta[k // 5], theta[k % 5]
            dot(axis, place, fact, 120 if known[k] else 24, letter=known[k])
        letters = list(NAMES[: len(theta)])
        axis.set_xticks(theta, letters, fontsize=10)
        axis.set_yticks(theta, [""] * len(theta) if i else letters, fontsize=10)
        axis.tick_params(length=3, color=PALE)
        axis.set_title(f"{name}: {sum(known)} of 25", fontsize=11, y=0.99)
    return figure


def _shades(word):
    return LinearSegmentedColormap.from_list("word", ["#FFFFFF", CLASS_COLORS[word]])


def _softened(heights):
    """Each height [n, n] mixed with its neighbors', so that light falls softly on steps."""
    for axis in (0, 1, 0, 1):
        wide = np.pad(heights, [(int(k == axis),) * 2 for k in (0, 1)], mode="edge")
        before, after = (np.delete(wide, drop, axis) for drop in ([-1, -2], [0, 1]))
        heights = (before + 2 * heights + after) / 4
    return heights


def _hill(axis, places, heights, colors):
    """A sheet [n, n] of heights 0 to 1 over a triangle, lit, with its ground and corners."""
    points = np.concatenate([places, 1.1 * heights[..., None] - 0.45], -1)
    shades = colors(0.12 + 0.88 * heights)[..., :3]
    image, _ = rendered(points, shades, VIEW, 170, 172, REACH)
    solid = np.concatenate([image, (image.min(axis=-1, keepdims=True) < 0.999) * 1.0], -1)
    axis.imshow(solid, extent=(-REACH, REACH, -REACH * 172 / 170, REACH * 172 / 170), zorder=2)
    ground = np.concatenate([CORNERS, np.full((3, 1), -0.45)], -1)
    axis.plot(*(ground[[0, 1, 2, 0]] @ VIEW.T)[:, :2].T, color=PALE, lw=0.8, ls=":", zorder=1)
    tops = [heights[0, 0], heights[-1, 0], heights[-1, -1]]
    for h, top in enumerate(tops):
        x, y, _ = VIEW @ (ground[h] * [1.17, 1.17, 1] + [0, 0, 1.1 * top])
        look = {"fontsize": 9, "ha": "center", "va": "center", "color": INK, "zorder": 5}
        look["bbox"] = {"boxstyle": "circle,pad=0.12", "fc": "white", "ec": PALE, "lw": 0.7}
        axis.text(x, y, f"{h}", **look)
    axis.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH))
    axis.axis("off")


def _peak(axis, places, heights, highest):
    """A dot in the middle of the highest places, where highest [n, n] is True, of a sheet."""
    weights = highest * np.linspace(0.01, 1, len(highest))[:, None]  # the first row is one corner
    middle = (weights[..., None] * places).sum((0, 1)) / weights.sum()
    away = np.where(highest, np.linalg.norm(places - middle, axis=-1), np.inf)
    at = np.unravel_index(away.argmin(), away.shape)
    x, y, _ = VIEW @ [*places[at], 1.1 * heights[at] - 0.45]
    axis.scatter(x, y, s=26, fc="white", ec=INK, lw=1.2, zorder=6)
