"""Evidence of notebook 14: maps of numbers, vectors as colors, shares moved, a rule for heads."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.panels import TITLE, panels
from chapters.torus.figures import CLASS_COLORS, TURN, Painting, frontier, show_map
from chapters.torus.networks import PLANE, RADIUS, TorusNets


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


def attention_maps(
    scores: Sequence[Sequence[Float[Tensor, "theta2 theta1"]]], titles: Sequence[str], dots=None
) -> Figure:
    """Heads' attention to the first word over the torus, side by side.

    scores: of each head, or their factors; a line stands where one is zero. (Not in the attention,
    which is too steep for a smooth line.) dots: (θ1, θ2) of pairs of words.
    """
    figure, axes = panels(
        1, len(scores), 2.5 * len(scores) + 1, 3.2, title="", figure_class=Painting
    )
    for axis, factors, title in zip(axes[0], scores, titles, strict=True):
        attention = math.prod(factors).sigmoid()
        image = show_map(axis, attention, cmap="cividis", vmin=0, vmax=1)
        for each in factors:
            frontier(axis, each, "black", 1.5)
        if dots is not None:
            axis.scatter(*dots, s=34, color=CLASS_COLORS[1], edgecolors="black")
        axis.set_title(title, **TITLE)
        axis.set(xlabel="first word's angle θ1", ylabel="second word's angle θ2")
    figure.colorbar(image, ax=axes, label="attention to the first word", shrink=0.8)
    return figure


def surface(
    points: Float[np.ndarray, "n n 3"], title: str, dots=None, elevation=35, azimuth=-60
) -> Figure:
    """The torus of word pairs where a map sends it, in space, in `angle_colors`.

    dots: (points [pair, 3], classes).
    """
    figure = Figure(figsize=(7.4, 4.8), dpi=100, layout="constrained")
    axis = figure.add_subplot(projection="3d", computed_zorder=False)
    closed = np.pad(np.asarray(points), ((0, 1), (0, 1), (0, 0)), mode="wrap")
    colors = angle_colors(len(points))
    axis.plot_surface(
        *closed.T, facecolors=colors.swapaxes(0, 1), rcount=100, ccount=100, shade=False
    )
    if dots is not None:
        axis.scatter(
            *np.asarray(dots[0]).T, c=CLASS_COLORS[dots[1]], ec="white", s=40, depthshade=False
        )
    axis.set(aspect="equal", title=title)
    axis.view_init(elevation, azimuth)
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
    rule: Bool[Tensor, "word word"],
    words: Float[Tensor, "net word 3"],
    n_heads: int,
    seed: int,
    free: bool = False,
    apart: bool = False,
    steps: int = 600,
) -> Float[Tensor, "net head first second"]:
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


# The harmonics of a score as a function of the two angles, in the order of `coefficients`.
HARMONICS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "1": lambda t1, t2: torch.ones_like(t1 + t2),
    "cos θ1": lambda t1, t2: t1.cos(),
    "sin θ1": lambda t1, t2: t1.sin(),
    "cos θ2": lambda t1, t2: t2.cos(),
    "sin θ2": lambda t1, t2: t2.sin(),
    "cos(θ1−θ2)": lambda t1, t2: (t1 - t2).cos(),
    "sin(θ2−θ1)": lambda t1, t2: (t2 - t1).sin(),
    "cos(θ1+θ2)": lambda t1, t2: (t1 + t2).cos(),
    "sin(θ1+θ2)": lambda t1, t2: (t1 + t2).sin(),
    "cos 2θ2": lambda t1, t2: (2 * t2).cos(),
    "sin 2θ2": lambda t1, t2: (2 * t2).sin(),
}


def qk_coefficients(
    qk: Float[Tensor, "3 3"], p1: Float[Tensor, " 3"], p2: Float[Tensor, " 3"]
) -> Float[Tensor, " 11"]:
    """The coefficient of each of HARMONICS in ℓ = (e2 + p2) qk (e1 + p1 - e2 - p2)ᵀ.

    With E = √3 [u v] and M = Eᵀ qk E: the pairs of angles see only M, one position and one word
    only a and b, and two positions k. The last two coefficients are the two before them with the
    other sign: 9 numbers are free.
    """
    E = RADIUS * PLANE.to(qk.dtype).T
    M = E.T @ qk @ E
    alpha, beta = (M[0, 0] + M[1, 1]) / 2, (M[1, 0] - M[0, 1]) / 2
    gamma, delta = (M[0, 0] - M[1, 1]) / 2, (M[1, 0] + M[0, 1]) / 2
    a, b, k = p2 @ qk @ E, E.T @ qk @ (p1 - p2), p2 @ qk @ (p1 - p2)
    ends = torch.stack([alpha, beta, gamma, delta, -gamma, -delta])
    return torch.cat([(k - alpha)[None], a, b - a, ends])


def coefficients(nets: TorusNets) -> Float[Tensor, "net head harmonic"]:
    """`qk_coefficients` of every head, read off its weights."""
    return torch.stack(
        [
            torch.stack([qk_coefficients(head, p1, p2) for head in heads])
            for heads, (p1, p2) in zip(nets.qk(), nets.W_pos, strict=True)
        ]
    )


def polynomial(
    coefficients: Float[Tensor, "*heads 11"],
    theta1: Float[Tensor, "*#at"],
    theta2: Float[Tensor, "*#at"],
) -> Float[Tensor, "*heads_and_at"]:
    """The trigonometric polynomial Σ coefficient · harmonic at the given angles (radians)."""
    theta1, theta2 = torch.broadcast_tensors(theta1, theta2)
    values = torch.stack([harmonic(theta1, theta2) for harmonic in HARMONICS.values()])
    return torch.tensordot(coefficients, values.to(coefficients.dtype), dims=1)


def crossings(values: Float[Tensor, "*lines n"]) -> Int[Tensor, "*lines"]:
    """How often each closed line of values changes its sign, the step from last to first included.

    On a fine grid this counts the simple zeros; two zeros between neighboring places are missed.
    """
    positive = values > 0
    return (positive != positive.roll(1, dims=-1)).sum(dim=-1)
