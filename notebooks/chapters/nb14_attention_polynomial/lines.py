"""A head's score as straight lines, one for each second word, and as a product of two waves."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets
from chapters.torus.palette import TURN


def lines(
    coefficients: Float[Tensor, " 11"], theta2: Float[Tensor, "*at"]
) -> Float[Tensor, "*at 3"]:
    """g0, g1, h of each second word: the head's score is g0 cos θ1 + g1 sin θ1 + h.

    coefficients: of one head, see `torus.coefficients`. theta2: in radians. The score is zero where
    g0 x + g1 y + h = 0: a straight line in the plane of the circle.
    """
    one, c1, s1, c2, s2, same, turned, plus, plus_sin, twice, twice_sin = coefficients
    cos, sin = theta2.cos(), theta2.sin()
    g0 = c1 + (same + plus) * cos + (turned + plus_sin) * sin
    g1 = s1 + (same - plus) * sin + (plus_sin - turned) * cos
    h = one + c2 * cos + s2 * sin + twice * (2 * theta2).cos() + twice_sin * (2 * theta2).sin()
    return torch.stack([g0, g1, h], dim=-1)


def cuts(g0: float, g1: float, h: float) -> list[float]:
    """The angles between which g0 cos θ + g1 sin θ + h is above 0: begin and end, or none.

    The end may be less than the begin: then what lies between goes over the edge of the map.
    """
    size, middle = math.hypot(g0, g1), math.atan2(g1, g0)
    if abs(h) >= size:
        return []
    half = math.acos(-h / size)
    return [(middle + side * half) % TURN for side in (-1, 1)]


class Product(NamedTuple):
    """A head of d_head 1: its score is [A cos(θ2-φ) + s] [B cos(θ1-ψ) - B cos(θ2-ψ) + t]."""

    A: Tensor
    phi: Tensor
    s: Tensor
    B: Tensor
    psi: Tensor
    t: Tensor

    def of(self, net: int, head: int) -> "Product":
        """The six numbers of one head, of six tensors [net, head]."""
        return Product(*(each[net, head] for each in self))

    def factors(self, theta1: Tensor, theta2: Tensor) -> tuple[Tensor, Tensor]:
        """The query, a wave of θ2, and the first key less the second, waves of θ1 and θ2.

        theta1, theta2: angles in radians that broadcast with the six numbers.
        """
        query = self.A * (theta2 - self.phi).cos() + self.s
        keys = self.B * ((theta1 - self.psi).cos() - (theta2 - self.psi).cos()) + self.t
        return torch.broadcast_tensors(query, keys)

    def lines(self, theta2: Float[Tensor, "*at"]) -> Float[Tensor, "*at 3"]:
        """g0, g1, h of each second word, as in `lines`."""
        query = self.A * (theta2 - self.phi).cos() + self.s
        g0, g1 = query * self.B * self.psi.cos(), query * self.B * self.psi.sin()
        return torch.stack([g0, g1, query * (self.t - self.B * (theta2 - self.psi).cos())], dim=-1)


def product_of(nets: TorusNets) -> Product:
    """The six numbers [net, head] of heads with d_head 1. Raises ValueError for other heads."""
    if nets.W_Q.shape[-1] != 1:
        raise ValueError(f"need heads with d_head 1, got {nets.W_Q.shape[-1]}")
    plane = torus.RADIUS * torus.PLANE.to(nets.W_Q.dtype).T
    Q, K = nets.W_Q[..., 0], nets.W_K[..., 0]  # [net, head, 3]
    q, k = Q @ plane, K @ plane
    p1, p2 = nets.W_pos[:, None].unbind(dim=2)
    A, B = q.norm(dim=-1), k.norm(dim=-1)
    phi, psi = (torch.atan2(w[..., 1], w[..., 0]) for w in (q, k))
    return Product(A, phi, (Q * p2).sum(-1), B, psi, (K * (p1 - p2)).sum(-1))
