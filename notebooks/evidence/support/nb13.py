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
