"""Evidence of notebook 13: directions over a sphere, and maps of which one part is held."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets
from chapters.torus.winding import Points, carry_with


def sphere(n: int) -> Float[Tensor, "n 3"]:
    """Unit vectors evenly over the sphere: equal steps of height, each a golden angle further."""
    height = 1 - (2 * torch.arange(n, dtype=torch.float64) + 1) / n
    turn, out = torch.arange(n) * math.pi * (3 - math.sqrt(5)), (1 - height**2).sqrt()
    return torch.stack([out * turn.cos(), out * turn.sin(), height], dim=1)


def look_and_carry(nets: TorusNets, look: Points, carry: Points) -> Float[Tensor, "net pair word"]:
    """Logits if the heads take their shares from one pair of points and carry another."""
    return carry_with(nets, torus.attend(nets, *look).a1, carry)


def three_maps(nets: TorusNets, held: int, n: int = 40) -> list[Int[Tensor, "net n n"]]:
    """Winners if both vary, only where the heads look, only what they carry.

    held: the pair of words at which the other one stays.
    """
    vary, fixed = torus.on_grid(n), tuple(each[:, held : held + 1] for each in torus.pairs(nets))
    return [_winners(nets, *way, n) for way in ((vary, vary), (vary, fixed), (fixed, vary))]


def _winners(nets, look, carry, n):
    return look_and_carry(nets, look, carry).argmax(dim=-1).view(-1, n, n)


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
