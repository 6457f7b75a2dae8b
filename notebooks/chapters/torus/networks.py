"""A network small enough to draw whole: words on a circle, pairs of words on a torus.

Source: S2, "Visualizing small Attention-only Transformers". Two positions, three dimensions, one
layer of heads; layer norm stands right after the word embedding. The token that follows a pair is
read off the second position. Many networks are computed side by side, in a first axis `net`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_whole

MOST_WORDS = 12  # as many classes can still be told apart by color
RADIUS = math.sqrt(3)  # the length of a vector of three numbers with mean 0 and variance 1
# u and v, at right angles to each other and to (1, 1, 1): the plane of vectors with mean 0.
PLANE = torch.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]], dtype=torch.float64)
PLANE = PLANE / PLANE.norm(dim=1, keepdim=True)


@dataclass(frozen=True)
class TorusNets:
    """The weights of networks of one shape: an attention-only layer on two positions, d_model 3."""

    W_E: Float[Tensor, "net d_vocab 3"]
    W_pos: Float[Tensor, "net 2 3"]
    W_Q: Float[Tensor, "net head 3 d_head"]
    W_K: Float[Tensor, "net head 3 d_head"]
    W_V: Float[Tensor, "net head 3 d_head"]
    W_O: Float[Tensor, "net head d_head 3"]
    W_U: Float[Tensor, "net 3 d_vocab"]

    def __getitem__(self, net: int) -> "TorusNets":
        """One network, still with a first axis of length 1."""
        n_nets = len(self.W_E)
        if not 0 <= net < n_nets:
            raise ValueError(f"there is no network {net}: they are 0 … {n_nets - 1}")
        return TorusNets(**{name: W[net : net + 1] for name, W in self.tensors().items()})

    def heads(self, first: int, last: int) -> "TorusNets":
        """The same networks with only the heads from `first` up to but not including `last`."""
        n_heads = self.W_Q.shape[1]
        if not 0 <= first < last <= n_heads:
            raise ValueError(f"need 0 <= first < last <= {n_heads} heads, got {first} and {last}")
        kept = self.tensors()
        for name in ("W_Q", "W_K", "W_V", "W_O"):
            kept[name] = kept[name][:, first:last]
        return TorusNets(**kept)

    def qk(self) -> Float[Tensor, "net head 3 3"]:
        """The QK circuit W_Q W_Kᵀ / √d_head of every head."""
        return self.W_Q @ self.W_K.transpose(-1, -2) / math.sqrt(self.W_Q.shape[-1])

    def tensors(self) -> dict[str, Tensor]:
        """{name: weights}."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def double(self) -> "TorusNets":
        """The same weights in double precision."""
        return TorusNets(**{name: W.double() for name, W in self.tensors().items()})


def new_nets(seeds: list[int], d_vocab: int = 5, n_heads: int = 3, d_head: int = 3) -> TorusNets:
    """Untrained networks, one per seed; a seed's network does not depend on the others.

    Raises ValueError for no seeds, fewer than 2 or more than 12 words, and sizes below 1.
    """
    if not seeds:
        raise ValueError("seeds is empty: give at least one, for example [0]")
    check_whole("d_vocab", d_vocab, 2, MOST_WORDS)
    check_whole("n_heads", n_heads, 1)
    check_whole("d_head", d_head, 1)
    shapes = {  # name: (shape, standard deviation)
        "W_E": ((d_vocab, 3), 1.0),
        "W_pos": ((2, 3), 1.0),
        "W_Q": ((n_heads, 3, d_head), 1 / 3),  # small scores: no head begins with its mind made up
        "W_K": ((n_heads, 3, d_head), 1 / 3),
        "W_V": ((n_heads, 3, d_head), 1 / math.sqrt(3)),
        "W_O": ((n_heads, d_head, 3), 1 / math.sqrt(d_head * n_heads)),
        "W_U": ((3, d_vocab), 1 / math.sqrt(3)),
    }
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]
    return TorusNets(
        **{
            name: torch.stack([scale * torch.randn(shape, generator=draw) for draw in draws])
            for name, (shape, scale) in shapes.items()
        }
    )


def words(nets: TorusNets) -> Float[Tensor, "net d_vocab 3"]:
    """What each word puts into the stream: layer norm of its row of W_E, without gain or bias.

    Mean 0 and variance 1 over three numbers: a circle of radius √3. Raises ValueError for a row
    of three equal numbers, which has no direction left.
    """
    centered = nets.W_E - nets.W_E.mean(dim=-1, keepdim=True)
    length = centered.norm(dim=-1, keepdim=True)
    if (length < 1e-12).any():
        raise ValueError("a row of W_E has three equal numbers: layer norm leaves it no direction")
    return RADIUS * centered / length


def circle(angle: Float[Tensor, "*at"]) -> Float[Tensor, "*at 3"]:
    """The point √3 (cos θ u + sin θ v) of the words' circle at an angle in radians."""
    plane = PLANE.to(angle.dtype)
    return RADIUS * (angle.cos()[..., None] * plane[0] + angle.sin()[..., None] * plane[1])


def angles(nets: TorusNets) -> Float[Tensor, "net d_vocab"]:
    """The angle of each word on the circle, in radians, 0 to 2π."""
    across, up = (words(nets) @ PLANE.to(nets.W_E.dtype).T).unbind(dim=-1)
    return torch.atan2(up, across).remainder(2 * math.pi)


class Attended(NamedTuple):
    """What the heads do with pairs of words, seen from the second position."""

    scores: Float[Tensor, "net head pair"]  # ℓ: the first position's score less the second's
    a1: Float[Tensor, "net head pair"]  # attention to the first position; the second gets 1 - a1
    position_part: Float[Tensor, "net head pair 3"]  # a1 p1 + (1 - a1) p2
    word_part: Float[Tensor, "net head pair 3"]  # a1 e1 + (1 - a1) e2
    out: Float[Tensor, "net head pair 3"]  # (position part + word part) W_V W_O
    residual: Float[Tensor, "net pair 3"]  # e2 + p2, which the heads' outputs are added to


def attend(
    nets: TorusNets,
    first: Float[Tensor, "#net pair 3"],
    second: Float[Tensor, "#net pair 3"],
    hard: bool = False,
) -> Attended:
    """Run the heads on pairs of points of the circle, for example `circle` of any two angles.

    The score of a head is ℓ = (e2 + p2) W_Q W_Kᵀ (e1 + p1 - e2 - p2)ᵀ / √d_head, and a1 is its
    sigmoid: the softmax over two keys. hard: the larger score takes all, a1 is 0 or 1.
    """
    p1, p2 = nets.W_pos[:, None, 0], nets.W_pos[:, None, 1]
    e1, e2 = first.to(p1.dtype).expand(len(p1), -1, -1), second.to(p1.dtype).expand(len(p1), -1, -1)
    scores = torch.einsum("npi,nhij,npj->nhp", e2 + p2, nets.qk(), e1 + p1 - e2 - p2)
    a1 = (scores > 0).to(scores.dtype) if hard else scores.sigmoid()
    share = a1[..., None]
    position_part = share * p1[:, None] + (1 - share) * p2[:, None]
    word_part = share * e1[:, None] + (1 - share) * e2[:, None]
    out = (position_part + word_part) @ nets.W_V @ nets.W_O
    return Attended(scores, a1, position_part, word_part, out, e2 + p2)


def logits(
    nets: TorusNets,
    first: Float[Tensor, "#net pair 3"],
    second: Float[Tensor, "#net pair 3"],
    shares: Float[Tensor, " head"] | None = None,
    residual: bool = True,
    hard: bool = False,
) -> Float[Tensor, "net pair d_vocab"]:
    """(Σ share · out + residual) W_U: a number for each next token.

    shares: how much of each head's output counts, None for all of it. residual: whether e2 + p2
    counts; the trained networks have it, and so have all maps unless it is switched off.
    """
    heads = attend(nets, first, second, hard)
    out = heads.out if shares is None else shares[:, None, None] * heads.out
    stream = out.sum(dim=1) + heads.residual if residual else out.sum(dim=1)
    return stream @ nets.W_U


def pairs(nets: TorusNets) -> tuple[Float[Tensor, "net pair 3"], Float[Tensor, "net pair 3"]]:
    """(first words, second words) of all d_vocab² pairs; pair d_vocab · i + j is (i, j)."""
    points = words(nets)
    n = points.shape[1]
    return points.repeat_interleave(n, dim=1), points.repeat(1, n, 1)


def is_correct(
    logits: Float[Tensor, "*nets pair d_vocab"], targets: Int[Tensor, "*#nets pair"]
) -> Bool[Tensor, "*nets pair"]:
    """True where the target has the largest logit. ValueError for logits that are not finite."""
    if not torch.isfinite(logits).all():
        raise ValueError(
            "a logit is not finite: the weights have grown too large, train more gently"
        )
    return logits.argmax(dim=-1) == targets


def grid(n: int) -> tuple[Float[Tensor, "n n"], Float[Tensor, "n n"]]:
    """(θ1, θ2) of n × n places of the torus, in radians: θ1 grows along a row, θ2 along a column.

    Places 0, 2π/n, … so that the grid closes on itself. Raises ValueError for n < 2.
    """
    if n < 2:
        raise ValueError(f"a map needs at least 2 places along each angle, got {n}")
    turn = torch.arange(n, dtype=torch.float64) * 2 * math.pi / n
    return turn.expand(n, n), turn[:, None].expand(n, n)


def on_grid(n: int) -> tuple[Float[Tensor, "1 pair 3"], Float[Tensor, "1 pair 3"]]:
    """(first, second) points of the circle at all n² places of `grid`, row by row."""
    return tuple(circle(theta.flatten())[None] for theta in grid(n))


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
