"""Evidence of notebook 14: maps of numbers, vectors as colors, and shares moved elsewhere."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
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
