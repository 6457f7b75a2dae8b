"""A batch to what a model sees and what it is asked: next tokens, or tokens hidden from it."""

from jaxtyping import Int
from torch import Tensor

NOT_ASKED = -100  # a target that no loss counts: PyTorch's ignore_index


def next_token(batch: Int[Tensor, "batch pos"]) -> tuple[Tensor, Tensor]:
    """What a causal model sees, and what it is asked: at each token, the one after it."""
    return batch[:, :-1], batch[:, 1:]


def masked_token(batch: Int[Tensor, "batch pos"]) -> tuple[Tensor, Tensor]:
    """What a model sees, and what it is asked: only the tokens that are hidden from it.

    batch: as MaskedWindows makes it, the tokens as they are seen and then as they are.
    """
    seen, tokens = batch.chunk(2, dim=1)
    return seen, tokens.masked_fill(seen == tokens, NOT_ASKED)


# Objective: batch to (what the model sees [batch, pos], targets [batch, pos] or NOT_ASKED).
OBJECTIVES = {"next token": next_token, "masked token": masked_token}
