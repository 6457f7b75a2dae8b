"""What attention makes of the torus of word pairs: colors that are mixed, a surface that bends."""

import math
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from chapters.nb14_attention_polynomial.lines import frontier
from chapters.torus import networks as torus
from chapters.torus.figures import draw_map
from chapters.torus.networks import TorusNets
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    TURN,
    Painting,
    Shaded,
    asker,
    letter_color,
    painted,
)
from chapters.torus.render import camera, lit, look, pearl, rendered

LEFT = 0.012
VIEW = (15, 180)  # elevation and azimuth in degrees


def streams(net: TorusNets, strength: float = 1, n: int = 120) -> Float[Tensor, "n n 3"]:
    """Where one network's heads, times a strength, bring each place of the torus."""
    heads = torus.attend(net, *torus.on_grid(n))
    return (strength * heads.out.sum(dim=1) + heads.residual)[0].view(n, n, 3)


def of_facts(net: TorusNets, strength: float = 1) -> Float[Tensor, "pair 3"]:
    """The stream of each pair of one network's words, with the heads times a strength."""
    heads = torus.attend(net, *torus.pairs(net))
    return (strength * heads.out.sum(dim=1) + heads.residual)[0]


def carried(net: TorusNets, head: int, theta, title: str, n: int = 240) -> Figure:
    """The mixture of two words that one head carries, as colors: hard attention, then soft.

    Colors: a vector's three numbers, shifted so that gray is zero, are red, green and blue.
    theta: the angle of each word.
    """
    figure = plt.figure(figsize=(9, 3.75), dpi=100, FigureClass=Shaded)
    plt.close(figure)
    figure.text(LEFT, 0.95, title, fontsize=12.5, va="center")
    reach = 1.3 * torus.RADIUS * torus.PLANE.norm(dim=0).max().item()
    figure.dotted = 0, 0.28  # the wheel has more shades than a picture of 256 colors
    wheel(figure.add_axes((0.0, 0.13, 0.28, 0.66)), theta, reach)
    for i, kind in enumerate(("hard", "soft")):
        heads = torus.attend(net, *torus.on_grid(n), hard=kind == "hard")
        axis = figure.add_axes((0.335 + 0.345 * i, 0.115, 0.31, 0.747))
        colors = 0.5 + heads.word_part[0, head] / (2 * reach)
        draw_map(axis, colors.view(n, n, 3).clamp(0, 1).numpy())
        frontier(axis, heads.scores[0, head].view(n, n), INK, 0.8)
        on_edges(axis, theta)
        axis.set_ylabel("" if i else "second word")
        axis.set_title(f"{kind} attention", fontsize=11, y=0.99)
    return figure


def hard_and_soft(net: TorusNets, facts, title: str) -> Figure:
    """The network's map as it is, and if each head looks at one word only; lost facts are ringed.

    facts: [pair].
    """
    figure = plt.figure(figsize=(7.4, 4.07), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.text(LEFT, 0.965, title, fontsize=12.5, va="center")
    theta = torus.angles(net)[0]
    for i, kind in enumerate(("soft", "hard")):
        said = torus.logits(net, *torus.pairs(net), hard=kind == "hard")[0].argmax(dim=-1)
        lost = [NAMES[k // 5] + NAMES[k % 5] for k in (said != facts).nonzero().flatten().tolist()]
        axis = figure.add_axes((0.07 + 0.5 * i, 0.105, 0.42, 0.764))
        draw_map(
            axis,
            painted(asker(net, hard=kind == "hard")),
            theta,
            facts,
            110,
            wrong=lost,
            cross=False,
        )
        on_edges(axis, theta)
        axis.set_title(
            f"{kind}: {len(facts) - len(lost)} of {len(facts)} facts", fontsize=11, y=0.99
        )
    return figure


def on_edges(axis, theta) -> None:
    """The words' letters along the edges of a map."""
    theta, letters = np.asarray(theta), list(NAMES[: len(theta)])
    axis.set_xticks(theta, letters, fontsize=11, weight="bold")
    axis.set_yticks(theta, letters, fontsize=11, weight="bold")
    axis.tick_params(length=3, color=PALE)
    axis.set_xlabel("first word", fontsize=10, labelpad=2)
    axis.set_ylabel("second word", fontsize=10, labelpad=2)


def wheel(axis, theta, reach: float) -> None:
    """The words' circle and what lies inside, each point in the color of its vector."""
    x, y = np.meshgrid(*[np.linspace(-1.3, 1.3, 400)] * 2)
    vectors = torus.RADIUS * np.stack([x, y], -1) @ torus.PLANE.numpy()
    picture = np.concatenate([0.5 + vectors / (2 * reach), (x**2 + y**2 <= 1)[..., None]], -1)
    axis.imshow(picture.clip(0, 1), origin="lower", extent=(-1.3, 1.3) * 2)
    for k, angle in enumerate(theta):
        at = math.cos(angle), math.sin(angle)
        axis.scatter(*at, s=220, fc="white", ec=INK, lw=1.2, zorder=4)
        look = {"weight": "bold", "ha": "center", "va": "center_baseline", "zorder": 5}
        axis.text(*at, NAMES[k], fontsize=11, **look)
    axis.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    axis.axis("off")
    axis.set_title("the color of a word:\nits place on the circle", fontsize=11)
    axis.text(0, -1.36, "inside: mixtures", fontsize=11, ha="center", va="center")


def unfolding(net: TorusNets, facts, strengths, title: str, view=VIEW, n: int = 80) -> Figure:
    """A film strip: the torus of pairs after the heads, whose outputs count more and more.

    facts: [pair]. strengths: of the heads, one a picture. view: elevation and azimuth in degrees.
    Each picture is drawn to fit.
    """
    frames = {}
    for strength in strengths:
        at = of_facts(net, strength)
        known = int(((at @ net.W_U[0]).argmax(dim=-1) == torch.as_tensor(facts)).sum())
        name = f"heads × {strength:g}\n{known} of {len(facts)} facts"
        colors = painted(asker(net, strength), 360)
        frames[name] = partial(in_square, streams(net, strength, n), at, colors, facts, view)
    return _strip(frames, title)


def onto_globe(net: TorusNets, facts, powers, title: str, view=VIEW, n: int = 80) -> Figure:
    """A film strip: the bent torus, all of whose points move along their ray onto one globe.

    powers: a point at distance r from zero is drawn at r to this power; 1: as it is; 0: laid on
    the globe itself, which is drawn from both sides with its borders.
    """
    points, at, colors = streams(net, 1, n), of_facts(net), painted(asker(net), 360)
    behind, frames = (-view[0], view[1] + 180), {}
    for power in powers:
        there = [each * each.norm(dim=-1, keepdim=True) ** (power - 1) for each in (points, at)]
        if power:
            name = {1: "as it is"}.get(power, f"distances\nto the power {power:g}")
            frames[name] = partial(in_square, *there, colors, facts, view)
        else:
            frames["all on one globe"] = partial(on_globe, *there, net.W_U[0], facts, view)
            frames["the same, from behind"] = partial(on_globe, *there, net.W_U[0], facts, behind)
    return _strip(frames, title)


def bent_in_space(net: TorusNets, facts, title: str, view=VIEW, n: int = 120) -> Figure:
    """The torus of pairs after the heads, in the colors of its cells, with the facts as pearls."""
    image, labels, reach = in_space(
        streams(net, 1, n), of_facts(net), painted(asker(net), 600), facts, view, 740, 480
    )
    figure = plt.figure(figsize=(7.4, 5.1), dpi=100, FigureClass=Shaded)
    plt.close(figure)
    axis = figure.add_axes((0, 0, 1, 48 / 51))
    axis.imshow(image, extent=(-reach, reach, -reach * 48 / 74, reach * 48 / 74))
    axis.axis("off")
    for x, y, fact in labels:
        axis.text(x, y, NAMES[fact], color=letter_color(fact), fontsize=10, weight="bold",
                  ha="center", va="center_baseline")  # fmt: skip
    figure.text(LEFT, 0.97, title, fontsize=12.5, va="center")
    return figure


def in_space(points, pearls, colors, facts, view, width: int, height: int):
    """A lit picture of a closed surface with pearls a little over it, drawn to fit.

    Returns (picture, seen pearls as x, y, class, half the width in units of the picture).
    """
    points, pearls = np.asarray(points, float), np.asarray(pearls, float)
    low, high = points.min(axis=(0, 1)), points.max(axis=(0, 1))
    eyes, closed = camera(*view), np.pad(points, ((0, 1), (0, 1), (0, 0)), mode="wrap")
    size = np.linalg.norm(high - low)
    closed, pearls = (closed - (low + high) / 2) / size, (pearls - (low + high) / 2) / size
    across, up = (np.abs(closed @ eyes[k]).max() for k in (0, 1))
    reach = 1.12 * max(across, up * width / height)
    if np.allclose(closed[:, 0], closed[:, 1]):  # no surface but a ring: the second word alone
        closed = thickened(closed[:, 0], 0.02 * reach)
    pearls = pearls + 0.03 * reach * eyes[2]
    image, labels = rendered(closed, np.asarray(colors), eyes, width, height, reach,
                             (pearls, np.asarray(facts)))  # fmt: skip
    return image, labels, reach


def on_globe(points, pearls, W_U, facts, view, side: int):
    """A lit globe [side, side, 3] of the cells of W_U [3, word], pale where no surface lies on it.

    points [n, n, 3], pearls [pair, 3]: of the surface and of the facts, at distance 1 from zero.
    """
    closed = np.pad(np.asarray(points, float), ((0, 1), (0, 1), (0, 0)), mode="wrap")
    eyes, scale, wide = camera(*view), side / 1.12, 2 * side  # drawn twice as large, then halved
    x, y = np.meshgrid(*[(np.arange(wide) + 0.5 - side) / scale] * 2)
    normal = np.stack([x, -y, np.sqrt(np.clip(1 - x**2 - y**2, 0, None))], -1)
    cell = (normal @ eyes @ np.asarray(W_U, float)).argmax(-1)
    colors, reached = CLASS_COLORS[cell], look(closed, eyes, scale, (wide, wide)).depth > 0
    colors = np.where(reached[..., None], colors, 1 - 0.35 * (1 - colors))
    for by in ((2, 0), (-2, 0), (0, 2), (0, -2)):
        colors[cell != np.roll(cell, by, (0, 1))] = 0.13  # a border
    depth = np.where(x**2 + y**2 < 1, normal[..., 2], -np.inf)
    image = np.where(np.isfinite(depth)[..., None], lit(colors, normal), 1.0)
    for at, fact in zip(np.asarray(pearls, float) @ eyes.T, np.asarray(facts), strict=True):
        if at[2] > 0:
            pearl(image, depth, at + [0, 0, 0.1], scale, CLASS_COLORS[fact], 1.12 / 27)
    return image.reshape(side, 2, side, 2, 3).mean(axis=(1, 3))


def in_square(points, pearls, colors, facts, view, side: int):
    """The picture of `in_space`, as wide as it is high."""
    return in_space(points, pearls, colors, facts, view, side, side)[0]


def thickened(ring, radius: float, n: int = 12):
    """A thin tube [place, n + 1, 3] around a closed line of points [place, 3]."""
    along = np.gradient(np.concatenate([ring[-2:-1], ring, ring[1:2]]), axis=0)[1:-1]
    side = np.cross(along, np.cross(along, ring - ring.mean(axis=0)) + 1e-9)
    up = np.cross(along, side)
    side, up = (each / np.linalg.norm(each, axis=-1, keepdims=True) for each in (side, up))
    turn = np.linspace(0, TURN, n + 1)[:, None]
    return ring[:, None] + radius * (np.cos(turn) * side[:, None] + np.sin(turn) * up[:, None])


def _strip(frames, title):
    """frames: {name: a function of a picture's side in pixels, which gives it [side, side, 3]}."""
    wide = 10 / len(frames)
    tall = wide + 0.85
    figure = plt.figure(figsize=(10, tall), dpi=100, FigureClass=Shaded)
    plt.close(figure)
    figure.text(LEFT, 1 - 0.2 / tall, title, fontsize=12.5, va="center")
    for i, (name, draw) in enumerate(frames.items()):
        axis = figure.add_axes((i / len(frames), 0, 1 / len(frames), wide / tall))
        axis.imshow(draw(round(100 * wide)))
        axis.axis("off")
        axis.set_title(name, fontsize=10.5, y=0.99)
    return figure
