"""Notebook 17: what taking each head away costs, on prompts and on tokens written twice."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.losses import copy_losses
from aot_helpers.models.protocol import Edits, Head, Model, all_heads
from aot_helpers.reading.interventions import ablate
from chapters.nb17_attention_maps.measure import Text


class HeadCost(NamedTuple):
    """What a head of a run gives to BOS on the prompts, and what its ablation costs (nats)."""

    run: str
    head: Head
    on_bos: float
    cost: float


def same_length(texts: list[Text]) -> Int[Tensor, "text pos"]:
    """The texts cut to the length of the shortest."""
    n = min(len(text.tokens) for text in texts)
    return torch.stack([text.tokens[:n] for text in texts])


@torch.no_grad()
def changed_by(model: Model, tokens: Int[Tensor, "text pos"], edits: Edits) -> float:
    """Mean KL (nats per token) from the model's predictions to those with the edits.

    On text that the model itself writes, this is how much the loss is expected to rise.
    """
    whole, edited = (model(tokens, edits=e).log_softmax(dim=-1) for e in ({}, edits))
    return (whole.exp() * (whole - edited)).sum(dim=-1).mean().item()


def prompt_costs(
    model: Model, tokens: Int[Tensor, "text pos"], reference: Int[Tensor, "other at"], by: str
) -> Float[Tensor, " head"]:
    """`changed_by` for each head taken away: by "zero", or by its "mean" over the reference."""
    edits = (ablate(model, [head], by, reference) for head in all_heads(model))
    return torch.tensor([changed_by(model, tokens, each) for each in edits])


def copy_costs(
    model: Model, tokens: Int[Tensor, "text pos"], reference: Int[Tensor, "other at"]
) -> Float[Tensor, "head copy"]:
    """What each head's mean in its place costs (nats per token), on the first and second copy."""
    whole = torch.tensor(copy_losses(model, tokens))
    edits = (ablate(model, [head], "mean", reference) for head in all_heads(model))
    return torch.stack([torch.tensor(copy_losses(model, tokens, each)) for each in edits]) - whole
