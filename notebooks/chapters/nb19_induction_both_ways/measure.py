"""Notebook 19: the heads that attend most to a place."""

from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Head

HIGH = 0.3  # of its attention: what we call a high score, or a neighbor head


def highest(scores: Float[Tensor, "layer head"]) -> Head:
    """The head with the highest score."""
    return Head(*divmod(int(scores.argmax()), scores.shape[1]))


def high_heads(scores: Float[Tensor, "layer head"], least: float = HIGH) -> list[Head]:
    """The heads whose score is `least` or more."""
    return [Head(*place) for place in (scores >= least).nonzero().tolist()]
