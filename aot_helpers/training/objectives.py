"""A batch of tokens to a loss: what the model sees, what it is asked, and how wrong it is."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

IGNORE_INDEX = -100  # a target that no loss counts: PyTorch's ignore_index


def next_token(batch: Int[Tensor, "batch pos"]) -> tuple[Tensor, Tensor]:
    """What a causal model sees, and what it is asked: at each token, the one after it."""
    return batch[:, :-1], batch[:, 1:].long()


def masked_token(batch: Int[Tensor, "batch pos"]) -> tuple[Tensor, Tensor]:
    """What a model sees, and what it is asked: only the tokens that are hidden from it.

    batch: as MaskedWindows makes it, the tokens as they are seen and then as they are.
    """
    seen, tokens = batch.chunk(2, dim=1)
    return seen, tokens.masked_fill(seen == tokens, IGNORE_INDEX)


# Objective: batch to (what the model sees [batch, pos], targets [batch, pos] or IGNORE_INDEX).
OBJECTIVES = {"next token": next_token, "masked token": masked_token}


def mean_loss(
    model: nn.Module, batch: Int[Tensor, "batch pos"], objective: str, bf16: bool = False
) -> Float[Tensor, ""]:
    """The mean loss of a batch of token ids (nats). bf16: run the model in half precision."""
    seen, targets = OBJECTIVES[objective](batch)
    with torch.autocast(batch.device.type, torch.bfloat16, enabled=bf16):
        logits = model(seen)
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
