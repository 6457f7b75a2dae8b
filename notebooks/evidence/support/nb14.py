"""Evidence of notebook 14: maps of numbers, vectors as colors, shares moved, a rule for heads."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from chapters.torus.palette import TURN
from chapters.torus.torus_maps import Map, frontier, map_panels, name_angles, show_map, show_rimmed


def angle_colors(n: int):
    """Colors [n of θ2, n of θ1, 3] without a seam: θ1 is the hue; θ2 makes it pale, light, dark."""
    theta1, theta2 = np.meshgrid(*[(np.arange(n) + 0.5) * TURN / n] * 2)
    hue = np.cos(theta1[..., None] - TURN * np.arange(3) / 3)
    return 0.52 + (0.23 + 0.11 * np.cos(theta2))[..., None] * hue + 0.14 * np.sin(theta2)[..., None]


def offset_colors(vectors: Float[np.ndarray, "*at 3"], reach: float):
    """Vectors as colors: zero is mid-gray, ± reach the ends; ValueError beyond them."""
    vectors = np.asarray(vectors)
    if not np.abs(vectors).max() <= reach:
        raise ValueError(f"an entry is {np.abs(vectors).max():.3g}: make reach at least as large")
    return 0.5 + vectors / (2 * reach)


def number_maps(
    values: Sequence[Map], titles: Sequence[str], label: str,
    limits: tuple[float, float] | None = None, dots=None, zeros=None,
) -> Figure:  # fmt: skip
    """Maps of numbers side by side on one color scale.

    limits: the scale's ends, the smallest and the largest number if not given. dots: see
    `color_maps`. zeros: for each map a list of other maps, to draw where each is zero: the score
    under an attention, which is too steep for a smooth line of its own.
    """
    values = [np.asarray(each) for each in values]
    low, high = limits or (np.min(values), np.max(values))
    figure, axes = map_panels(titles, 5)
    for i, (axis, each) in enumerate(zip(axes, values, strict=True)):
        image = show_map(axis, each, cmap="cividis", vmin=low, vmax=high)
        for other in zeros[i] if zeros is not None else ():
            frontier(axis, other, "black", 1.5)
        name_angles(axis)
        show_rimmed(axis, dots)
    figure.colorbar(image, ax=axes, label=label, shrink=0.8)
    return figure


def moved_elsewhere(
    shares: Float[Tensor, "net head pair"], moved: Float[Tensor, "net head pair"], seed: int = 0
) -> Float[Tensor, "net head pair"]:
    """As many other shares of each network, drawn at random, moved as far as those in `moved` are.

    Each goes toward 1/2 and perhaps past it, the only way that is open to a share near 0 or 1: a
    fair control of a change that `moved` makes at chosen places. Raises ValueError where a network
    has more than half of its shares moved, or one moved by more than 1/2.
    """
    far = (moved - shares).abs().flatten(1)
    here, before = far > 0, shares.flatten(1)
    if (most := here.double().mean(dim=1).max()) > 0.5 or far.max() > 0.5:
        raise ValueError(
            f"a network has {most:.0%} of its shares moved, one of them by {far.max():.2f}; there "
            "is room elsewhere for at most half of them, by at most 0.5: choose fewer places"
        )
    draw = torch.Generator().manual_seed(seed)
    shuffled = torch.rand(2, *far.shape, generator=draw)
    start, goal = (shuffled + torch.stack([here, ~here])).argsort(descending=True)  # these first
    far = torch.zeros_like(far).scatter(1, goal, far.gather(1, start))
    return torch.where(before < 0.5, before + far, before - far).view_as(shares)


def pair_scores(
    words: Float[Tensor, "net word 3"],
    positions: Float[Tensor, "net 2 3"],
    W: Float[Tensor, "net head 3 3"],
) -> Float[Tensor, "net head first second"]:
    """Each head's score x2 W (x1 - x2)ᵀ of all pairs of words; W is W_Q W_Kᵀ / √d_head."""
    x1, x2 = words + positions[:, :1], words + positions[:, 1:]
    queries = x2[:, None] @ W
    return x1[:, None] @ queries.mT - (queries * x2[:, None]).sum(dim=-1)[:, :, None]


@torch.enable_grad()
def heads_for_rule(
    rule: Bool[Tensor, "word word"], words: Float[Tensor, "net word 3"], n_heads: int, seed: int,
    free: bool = False, apart: bool = False, steps: int = 600,
) -> Float[Tensor, "net head first second"]:  # fmt: skip
    """Scores of heads trained to give a first word more than 1/2 of attention where a rule says so.

    rule: [first, second]. The attention of all heads is added up. words: stay where they are,
    unless free, which trains others, in all three dimensions. apart: train W_Q and W_K, not W.
    """
    draw = torch.Generator().manual_seed(seed)
    n_nets, at = len(words), torch.get_default_dtype()
    positions, W, keys, others = (
        torch.randn(n_nets, *shape, generator=draw).to(at)
        for shape in ((2, 3), (n_heads, 3, 3), (n_heads, 3, 3), words.shape[1:])
    )
    words = others if free else words.to(at)
    W = W / 3**0.5 if apart else W / 3
    trained = [positions, W] + [keys] * apart + [words] * free
    optimizer = torch.optim.Adam([each.requires_grad_() for each in trained], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps + 1):
        scores = pair_scores(words, positions, W @ keys.mT / 3**0.5 if apart else W)
        if step == steps:
            return scores.detach()
        given = scores.sigmoid().sum(dim=1)
        wanted = rule.to(at).expand_as(given)
        loss = F.binary_cross_entropy_with_logits(8 * (given - 0.5), wanted, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def pairs_by_rule(
    scores: Float[Tensor, "net head first second"], rule: Bool[Tensor, "first second"]
) -> Int[Tensor, " net"]:
    """How many pairs get more than 1/2 of attention exactly where the rule says so."""
    return ((scores.sigmoid().sum(dim=1) > 0.5) == rule).sum(dim=(1, 2))


def full_turns(arrows: Float[Tensor, "head second 2"]) -> Int[Tensor, " head"]:
    """How often the arrow (g0, g1) of a line turns around while the second word goes once around.

    arrows: of second words all around, in small steps. A turn clockwise counts as -1. An arrow that
    jumps by more than a quarter turn has flipped, as all of d_head 1 do: that is no turn.
    """
    angle = torch.atan2(arrows[..., 1], arrows[..., 0])
    step = (angle.roll(-1, dims=-1) - angle + torch.pi).remainder(TURN) - torch.pi
    step = torch.where(step.abs() > TURN / 4, 0.0, step)
    return (step.sum(dim=-1) / TURN).round().long()
