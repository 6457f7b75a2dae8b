"""A network small enough to draw whole: words on a circle, pairs of words on a torus.

Source: S2, "Visualizing small Attention-only Transformers". Two positions, three dimensions, one
layer of heads; layer norm stands right after the word embedding. The token that follows a pair is
read off the second position. Many networks are computed side by side, in a first axis `net`.
"""

import math
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_whole

MOST_WORDS = 12  # as many classes can still be told apart by color
RADIUS = math.sqrt(3)  # the length of a vector of three numbers with mean 0 and variance 1
# u and v, at right angles to each other and to (1, 1, 1): the plane of vectors with mean 0.
PLANE = torch.tensor([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]], dtype=torch.float64)
PLANE = PLANE / PLANE.norm(dim=1, keepdim=True)
HEAD_WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")


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

    def first_heads(self, n: int) -> "TorusNets":
        """The same networks with only their first n heads."""
        heads = {name: getattr(self, name)[:, :n] for name in HEAD_WEIGHTS}
        return replace(self, **heads)

    def qk(self) -> Float[Tensor, "net head 3 3"]:
        """The QK circuit W_Q W_Kᵀ / √d_head of every head."""
        return self.W_Q @ self.W_K.transpose(-1, -2) / math.sqrt(self.W_Q.shape[-1])

    def tensors(self) -> dict[str, Tensor]:
        """{name: weights}."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def double(self) -> "TorusNets":
        """The same weights in double precision."""
        return TorusNets(**{name: W.double() for name, W in self.tensors().items()})


def init_nets(seeds: list[int], d_vocab: int = 5, n_heads: int = 3, d_head: int = 3) -> TorusNets:
    """Untrained networks, one per seed; a seed's network does not depend on the others.

    Raises ValueError for no seeds, fewer than 2 or more than 12 words, and sizes below 1.
    """
    if not seeds:
        raise ValueError("seeds is empty: give at least one, for example [0]")
    check_whole("d_vocab", d_vocab, 2, MOST_WORDS)
    check_whole("n_heads", n_heads, 1)
    check_whole("d_head", d_head, 1)
    # The scores are small, so that at first a head attends to both words alike.
    shapes = {  # name: (shape, standard deviation)
        "W_E": ((d_vocab, 3), 1.0),
        "W_pos": ((2, 3), 1.0),
        "W_Q": ((n_heads, 3, d_head), 1 / 3),
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


@dataclass(frozen=True)
class Attended:
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
    a1: Float[Tensor, "net head #pair"] | None = None,
) -> Attended:
    """What the heads do with pairs of points of the circle, for example `circle` of any two angles.

    The score of a head is ℓ = (e2 + p2) W_Q W_Kᵀ (e1 + p1 - e2 - p2)ᵀ / √d_head, and a1 is its
    sigmoid: the softmax over two keys. a1: other attention weights to put in their place.
    """
    p1, p2 = nets.W_pos[:, None, 0], nets.W_pos[:, None, 1]
    e1, e2 = first.to(p1.dtype).expand(len(p1), -1, -1), second.to(p1.dtype).expand(len(p1), -1, -1)
    scores = torch.einsum("npi,nhij,npj->nhp", e2 + p2, nets.qk(), e1 + p1 - e2 - p2)
    a1 = scores.sigmoid() if a1 is None else a1.to(scores.dtype)
    weight = a1[..., None]
    position_part = weight * p1[:, None] + (1 - weight) * p2[:, None]
    word_part = weight * e1[:, None] + (1 - weight) * e2[:, None]
    out = (position_part + word_part) @ nets.W_V @ nets.W_O
    return Attended(scores, a1, position_part, word_part, out, e2 + p2)


def logits(
    nets: TorusNets,
    first: Float[Tensor, "#net pair 3"],
    second: Float[Tensor, "#net pair 3"],
    factors: Float[Tensor, " head"] | None = None,
    residual: bool = True,
    a1: Float[Tensor, "net head #pair"] | None = None,
) -> Float[Tensor, "net pair d_vocab"]:
    """Logits of each next token, (Σ factor · out + residual) W_U.

    factors: how much of each head's output counts, None for all of it. residual: whether e2 + p2
    counts. a1: see `attend`.
    """
    heads = attend(nets, first, second, a1)
    out = heads.out if factors is None else factors[:, None, None] * heads.out
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
