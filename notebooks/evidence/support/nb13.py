"""Evidence of notebook 13: what winds the boundaries, random networks, capacity."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from chapters.torus import networks as torus
from chapters.torus.networks import HEAD_WEIGHTS, TorusNets

QK, OV = ("W_Q", "W_K"), ("W_V", "W_O")
Points = tuple[Float[Tensor, "#net #pair 3"], Float[Tensor, "#net #pair 3"]]  # two words


def sphere(n: int) -> Float[Tensor, "n 3"]:
    """Unit vectors evenly over the sphere: equal steps of height, each a golden angle further."""
    height = 1 - (2 * torch.arange(n, dtype=torch.float64) + 1) / n
    turn, out = torch.arange(n) * math.pi * (3 - math.sqrt(5)), (1 - height**2).sqrt()
    return torch.stack([out * turn.cos(), out * turn.sin(), height], dim=1)


def look_and_carry(nets: TorusNets, look: Points, carry: Points) -> Float[Tensor, "net pair word"]:
    """Logits if the heads take their attention from one pair of points and carry another."""
    weight = torus.attend(nets, *look).a1[..., None]
    x1, x2 = (e.to(p) + p[:, None] for e, p in zip(carry, nets.W_pos.unbind(1), strict=True))
    heads = (weight * x1[:, None] + (1 - weight) * x2[:, None]) @ nets.W_V @ nets.W_O
    return (heads.sum(dim=1) + x2) @ nets.W_U


def three_maps(nets: TorusNets, held: int, n: int = 40) -> list[Int[Tensor, "net n n"]]:
    """Winners if both vary, only where the heads look, only what they carry.

    held: the pair of words at which the other one stays.
    """
    vary, fixed = torus.on_grid(n), tuple(each[:, held : held + 1] for each in torus.pairs(nets))
    ways = (vary, vary), (vary, fixed), (fixed, vary)
    return [look_and_carry(nets, *way).argmax(dim=-1).view(-1, n, n) for way in ways]


def changes(winners: Int[Tensor, "net n n"]) -> Float[Tensor, " net"]:
    """How often the winner changes on a walk once around: mean of all rows and columns."""
    return sum((winners != winners.roll(1, d)).float().sum(d).mean(dim=-1) for d in (-1, -2)) / 2


def winding(nets: TorusNets, pairs=range(25), n: int = 40) -> Float[Tensor, "3 net"]:
    """`changes` if both vary, only where the heads look, only what they carry.

    Means over the pairs of words, at each of which the other part is held in turn.
    """
    both, *parts = zip(*(three_maps(nets, held, n) for held in pairs), strict=True)
    means = [torch.stack(list(map(changes, maps))).mean(dim=0) for maps in parts]
    return torch.stack([changes(both[0]), *means])  # where both vary, nothing is held


def with_norms_of(
    nets: TorusNets, trained: TorusNets, circuits: list[tuple[str, str]]
) -> TorusNets:
    """The networks with each head's circuits (QK, OV) scaled to the norm of the trained ones."""
    new, old = nets.tensors(), trained.tensors()
    for a, b in circuits:
        size = [(W[a] @ (W[b].mT if b == "W_K" else W[b])).norm(dim=(2, 3)) for W in (old, new)]
        new[a] = new[a] * (size[0] / size[1])[..., None, None]
    return TorusNets(**new)


def random_nets(trained: TorusNets) -> dict[str, TorusNets]:
    """Four kinds of random networks, from "untrained" to random heads among trained parts."""
    n, heads = len(trained.W_E), trained.W_Q.shape[1]
    start = torus.init_nets(range(n), n_heads=heads)
    fresh = torus.init_nets(range(1000, 1000 + n), n_heads=heads).tensors()
    strangers = TorusNets(**{**trained.tensors(), **{name: fresh[name] for name in HEAD_WEIGHTS}})
    return {
        "untrained": start,
        "large random QK": with_norms_of(start, trained, [QK]),
        "large random QK and OV": with_norms_of(start, trained, [QK, OV]),
        "random heads, rest trained": with_norms_of(strangers, trained, [QK, OV]),
    }


def near_edges(nets: TorusNets, n: int = 120) -> Float[Tensor, "2 net"]:
    """Shares of places near a head's edge: of those on a decision boundary, and of all places.

    An edge is where a head's score changes its sign; near: at most one step of the grid away.
    """
    heads = torus.attend(nets, *torus.on_grid(n))
    classes = ((heads.out.sum(dim=1) + heads.residual) @ nets.W_U).argmax(dim=-1).view(-1, 1, n, n)
    edges = _turns(heads.scores.view(len(classes), -1, n, n) > 0).any(dim=1, keepdim=True)
    around = torch.nn.functional.pad(edges.float(), (1, 1, 1, 1), mode="circular")
    near, boundary = torch.nn.functional.max_pool2d(around, 3, 1), _turns(classes).float()
    along = (near * boundary).sum(dim=(1, 2, 3)) / boundary.sum(dim=(1, 2, 3))
    return torch.stack([along, near.mean(dim=(1, 2, 3))])


def _turns(values):
    """Where values [.., n, n] differ from those one step before, along either angle."""
    return (values != values.roll(1, -1)) | (values != values.roll(1, -2))
