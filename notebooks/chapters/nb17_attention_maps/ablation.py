"""Notebook 17: what taking each head away costs, on prompts and on tokens written twice."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.losses import copy_losses
from aot_helpers.models.protocol import Model, all_heads
from aot_helpers.reading.interventions import ablate
from chapters.nb17_attention_maps.measure import Text


def same_length(texts: list[Text]) -> Int[Tensor, "text pos"]:
    """The texts cut to the length of the shortest."""
    n = min(len(text.tokens) for text in texts)
    return torch.stack([text.tokens[:n] for text in texts])


def divergence(
    whole: Float[Tensor, "text pos d_vocab"], edited: Float[Tensor, "text pos d_vocab"]
) -> float:
    """Mean KL (nats per token) from the predictions of the first logits to those of the others.

    On text that the model itself writes, this is how much the loss is expected to rise.
    """
    whole, edited = whole.log_softmax(dim=-1), edited.log_softmax(dim=-1)
    return (whole.exp() * (whole - edited)).sum(dim=-1).mean().item()


@torch.no_grad()
def prompt_costs(
    model: Model, tokens: Int[Tensor, "text pos"], reference: Int[Tensor, "other at"], by: str
) -> Float[Tensor, " head"]:
    """`divergence` for each head taken away: by "zero", or by its "mean" over the reference."""
    whole = model(tokens)
    edits = (ablate(model, [head], by, reference) for head in all_heads(model))
    return torch.tensor([divergence(whole, model(tokens, edits=each)) for each in edits])


def copy_costs(
    model: Model, tokens: Int[Tensor, "text pos"], reference: Int[Tensor, "other at"]
) -> Float[Tensor, "head copy"]:
    """What each head's mean in its place costs (nats per token), on the first and second copy."""
    whole = torch.tensor(copy_losses(model, tokens))
    edits = (ablate(model, [head], "mean", reference) for head in all_heads(model))
    return torch.stack([torch.tensor(copy_losses(model, tokens, each)) for each in edits]) - whole
