"""What attention makes of the torus of word pairs: colors that are mixed, a surface that bends."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import forms
from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    Painting,
    Shaded,
    painted,
    predictor,
)
from chapters.torus.render import camera, lit, look, pearl
from chapters.torus.surfaces import fitted, show_picture
from chapters.torus.torus_maps import frontier, show_facts, show_map

VIEW = (15, 180)  # elevation and azimuth in degrees
Facts = Int[Tensor, " pair"]


def streams(net: TorusNets, strength: float = 1, n: int = 120) -> Float[Tensor, "n n 3"]:
    """Where one network's heads, times a strength, bring each place of the torus."""
    return _stream(net, torus.on_grid(n), strength).view(n, n, 3)


def of_facts(net: TorusNets, strength: float = 1) -> Float[Tensor, "pair 3"]:
    """The stream of each pair of one network's words, with the heads times a strength."""
    return _stream(net, torus.pairs(net), strength)


def _stream(net, points, strength):
    heads = torus.attend(net, *points)
    return (strength * heads.out.sum(dim=1) + heads.residual)[0]


def mixtures(net: TorusNets, head: int, theta, title: str, n: int = 240) -> Figure:
    """The mixture of two words that one head reads, as colors: hard attention, then soft.

    Colors: a vector's three numbers, shifted so that gray is zero, are red, green and blue.
    theta: the angle of each word.
    """
    figure, axes = forms.panels(1, 3, 9, 3.8, title=title, figure_class=Shaded)
    reach = 1.3 * torus.RADIUS * torus.PLANE.norm(dim=0).max().item()
    _wheel(axes[0, 0], theta, reach)
    for axis, kind in zip(axes[0, 1:], ("hard", "soft"), strict=True):
        heads = torus.attend(net, *torus.on_grid(n), hard=kind == "hard")
        colors = 0.5 + heads.word_part[0, head].view(n, n, 3) / (2 * reach)
        show_map(axis, colors.clamp(0, 1), theta)
        frontier(axis, heads.scores[0, head].view(n, n), INK, 0.8)
        axis.set_title(f"{kind} attention", **forms.TITLE)
    axes[0, 2].set_ylabel("")
    return figure


def hard_and_soft(net: TorusNets, facts: Facts, title: str) -> Figure:
    """The network's map with soft and with hard attention; lost facts are ringed."""
    figure, axes = forms.panels(1, 2, 6.8, 3.9, title=title, figure_class=Painting)
    theta = torus.angles(net)[0]
    for axis, kind in zip(axes[0], ("soft", "hard"), strict=True):
        hard = kind == "hard"
        lost = torus.logits(net, *torus.pairs(net), hard=hard)[0].argmax(dim=-1) != facts
        show_map(axis, painted(predictor(net, hard=hard)), theta, on_grid=False)
        show_facts(axis, theta, facts, size=110)
        rings = torch.cartesian_prod(theta, theta)[lost]
        axis.scatter(*rings.T, s=290, fc="none", ec="black", lw=2.4, zorder=7)
        axis.set_title(f"{kind}: {(~lost).sum()} of {len(facts)} facts", **forms.TITLE)
    axes[0, 1].set_ylabel("")
    return figure


def _wheel(axis, theta, reach: float) -> None:
    """The words' circle and what lies inside, each point in the color of its vector."""
    x, y = np.meshgrid(*[np.linspace(-1.3, 1.3, 400)] * 2)
    vectors = torus.RADIUS * np.stack([x, y], -1) @ torus.PLANE.numpy()
    picture = np.concatenate([0.5 + vectors / (2 * reach), (x**2 + y**2 <= 1)[..., None]], -1)
    axis.imshow(picture.clip(0, 1), origin="lower", extent=(-1.3, 1.3) * 2)
    for k, angle in enumerate(theta):
        look = {"boxstyle": "circle", "fc": "white", "ec": INK, "lw": 1.2}
        axis.text(math.cos(angle), math.sin(angle), NAMES[k], fontsize=11, weight="bold",
                  ha="center", va="center", bbox=look)  # fmt: skip
    axis.axis("off")
    axis.set_title("the color of a word:\nits place on the circle", **forms.TITLE)
    axis.text(0, -1.36, "inside: mixtures", fontsize=11, ha="center", va="center")


def unfolding(
    net: TorusNets, facts: Facts, strengths: Sequence[float], title: str, view=VIEW, n: int = 80
) -> Figure:
    """A film strip: the torus of pairs after the heads, whose outputs count more and more.

    strengths: of the heads, one a picture. view: elevation and azimuth in degrees. Each picture is
    drawn to fit.
    """
    frames, side = {}, _side(len(strengths))
    for strength in strengths:
        at = of_facts(net, strength)
        known = int(((at @ net.W_U[0]).argmax(dim=-1) == facts).sum())
        colors = painted(predictor(net, strength), 360)
        points = streams(net, strength, n)
        image, *_ = fitted(points, colors, view, side, side, (at, facts))
        frames[f"heads × {strength:g}\n{known} of {len(facts)} facts"] = image
    return _strip(frames, title)


def onto_globe(
    net: TorusNets, facts: Facts, powers: Sequence[float], title: str, view=VIEW, n: int = 80
) -> Figure:
    """A film strip: the bent torus, all of whose points move along their ray onto one globe.

    powers: a point at distance r from zero is drawn at r to this power; 1: as it is. Then the
    surface is laid on the globe, which is drawn from both sides with its borders.
    """
    points, at, colors = streams(net, 1, n), of_facts(net), painted(predictor(net), 360)
    frames, side = {}, _side(len(powers) + 2)
    for power in powers:
        name = "as it is" if power == 1 else f"distances\nto the power {power:g}"
        moved, dots = (
            each * each.norm(dim=-1, keepdim=True) ** (power - 1) for each in (points, at)
        )
        frames[name], *_ = fitted(moved, colors, view, side, side, (dots, facts))
    unit = [torch.nn.functional.normalize(each, dim=-1) for each in (points, at)]
    behind = -view[0], view[1] + 180
    for name, angles in {"all on one globe": view, "the same, from behind": behind}.items():
        frames[name] = on_globe(*unit, net.W_U[0], facts, angles, side)
    return _strip(frames, title)


def on_globe(
    points: Float[Tensor, "n n 3"], pearls: Float[Tensor, "pair 3"], W_U: Float[Tensor, "3 word"],
    facts: Facts, view: tuple[float, float], side: int,
) -> Float[np.ndarray, "side side 3"]:  # fmt: skip
    """A lit globe of the cells of W_U, pale where no surface lies on it.

    points, pearls: of the surface and of the facts, at distance 1 from zero.
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


def _side(n: int) -> int:
    """The width in pixels of one of n pictures in a row."""
    return 1000 // n


def _strip(frames, title):
    """frames: {name: picture [side, side, 3]}."""
    figure, axes = forms.panels(
        1, len(frames), 10, 10 / len(frames) + 0.4, title=title, figure_class=Shaded
    )
    for axis, (name, image) in zip(axes[0], frames.items(), strict=True):
        show_picture(axis, image, title=name)
    return figure
