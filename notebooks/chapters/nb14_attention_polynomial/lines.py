"""A head's score as straight lines, one for each second word."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

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
