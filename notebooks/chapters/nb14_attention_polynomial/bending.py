"""What attention makes of the torus of word pairs: colors that are mixed, a surface that bends."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import forms
from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets
from chapters.torus.palette import INK, NAMES, TURN, Shaded, Smooth
from chapters.torus.surfaces import fitted, show_picture
from chapters.torus.torus_maps import frontier, offset_colors, show_map

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


def head_maps(net: TorusNets, head: int, theta, title: str, n: int = 200) -> Figure:
    """What a head with hard attention reads and writes, in steps, and the sum of all three heads.

    Above: position part, word part, their sum, and that times W_V W_O. Below: what the two other
    heads write, and the sum of three, hard and soft; there with the zero sets of the scores. Colors
    are a vector's three numbers as red, green, blue. theta: the angle of each word.
    """
    hard, soft = (torus.attend(net, *torus.on_grid(n), hard=hard) for hard in (True, False))
    position, word = hard.position_part[0, head], hard.word_part[0, head]
    first, second = (h for h in range(3) if h != head)
    read = {"position part": position, "+ word part": word, "= what it reads": position + word}
    written = {
        f"times $W_V W_O$: head {head}": hard.out[0, head],
        f"head {first}": hard.out[0, first],
        f"head {second}": hard.out[0, second],
        "sum of three heads": hard.out[0].sum(dim=0),
        "the same, soft": soft.out[0].sum(dim=0),
    }
    figure, axes = forms.panels(
        2, 4, 8.6, 5.3, title=title, figure_class=Smooth,
        note="Gray is zero. The first three maps share one scale of colors, the others another.",
    )  # fmt: skip
    shown = zip(axes.flat, [*read.items(), *written.items()], strict=True)
    for i, (axis, (name, vectors)) in enumerate(shown):
        reach = max(each.abs().max().item() for each in (read if i < 3 else written).values())
        show_map(axis, offset_colors(vectors.reshape(n, n, 3), reach), theta)
        axis.set_title(name, **forms.TITLE)
        axis.tick_params(labelsize=9)
        if i % 4:
            axis.set(ylabel="", yticks=[])
        if i < 4:
            axis.set(xlabel="", xticks=[])
    for score in soft.scores[0]:
        frontier(axis, score.reshape(n, n), INK, 0.9)
    return figure


def unfolding(
    net: TorusNets, facts: Facts, strengths: Sequence[float], title: str, view=VIEW, n: int = 80
) -> Figure:
    """The torus of pairs after the heads, whose outputs count more and more, colored by angles.

    Above in the colors of the first word's angle, below in those of the second's; their wheels
    stand at the left. strengths: of the heads, one a column. view: elevation and azimuth in
    degrees. Each picture is drawn to fit.
    """
    figure, axes = forms.panels(
        2, len(strengths) + 1, 10, 4.9, title=title, figure_class=Shaded,
        note="Each picture is drawn to fit.",
    )  # fmt: skip
    theta, side = torus.angles(net)[0], 190
    hues = _hues(np.arange(180) * TURN / 180)
    across = np.broadcast_to(hues[None], (180, 180, 3))
    colorings = {"first word": across, "second word": across.transpose(1, 0, 2)}
    for row, (name, colors) in zip(axes, colorings.items(), strict=True):
        _wheel(row[0], theta, f"color: {name}")
        for axis, strength in zip(row[1:], strengths, strict=True):
            image, *_ = fitted(streams(net, strength, n), colors, view, side, side)
            show_picture(axis, image)
    for axis, strength in zip(axes[0, 1:], strengths, strict=True):
        known = int(((of_facts(net, strength) @ net.W_U[0]).argmax(dim=-1) == facts).sum())
        axis.set_title(f"heads × {strength:g}\n{known} of {len(facts)} facts", **forms.TITLE)
    return figure


def _hues(angles):
    """A color [.., 3] for each angle, without a seam."""
    return 0.55 + 0.4 * np.cos(np.asarray(angles)[..., None] - TURN * np.arange(3) / 3)


def _wheel(axis, theta, title: str) -> None:
    """The words' circle as a ring in the colors of `_hues`, with the words in their places."""
    x, y = np.meshgrid(*[np.linspace(-1.5, 1.5, 400)] * 2)
    out = np.hypot(x, y)
    ring = np.concatenate([_hues(np.arctan2(y, x)), ((out > 0.62) & (out < 1))[..., None]], -1)
    axis.imshow(ring, origin="lower", extent=(-1.5, 1.5) * 2)
    for name, angle in zip(NAMES, theta.tolist(), strict=False):
        at = 1.22 * math.cos(angle), 1.22 * math.sin(angle)
        axis.text(*at, name, fontsize=10, weight="bold", ha="center", va="center")
    axis.axis("off")
    axis.set_title(title, **forms.TITLE)
