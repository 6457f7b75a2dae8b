"""Activations to head scores and interventions: what a head looks at, what it is needed for."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.model import AttentionOnlyTransformer, Edits
from aot_helpers.train import next_token_losses


def offset_score(
    pattern: Float[Tensor, "batch head query key"], back: int, first_query: int
) -> Float[Tensor, " head"]:
    """Mean attention to the key `back` positions earlier, over the queries from first_query on.

    back = 1 scores a previous-token head. On BOS + a segment twice, back = length - 1 from
    first_query = length + 1 (the second copy only) scores an induction head: it looks at the token
    after the earlier occurrence of the present one (prefix matching, Olsson et al. 2022).
    """
    n_pos = pattern.shape[-1]
    if not 0 <= back <= first_query < n_pos:
        raise ValueError(
            f"need 0 <= back <= first_query < n_pos, got back = {back}, "
            f"first_query = {first_query}, n_pos = {n_pos}: the text is too short for this score"
        )
    query = torch.arange(first_query, n_pos, device=pattern.device)
    return pattern[:, :, query, query - back].mean(dim=(0, 2))


def head_scores(
    model: AttentionOnlyTransformer, tokens: Int[Tensor, "batch pos"], back: int, first_query: int
) -> Float[Tensor, "layer head"]:
    """`offset_score` of every head of the model on these tokens."""
    if model.config.n_layers == 0:
        raise ValueError("a model without layers has no heads: load one with n_layers >= 1")
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
    layers = range(model.config.n_layers)
    return torch.stack([offset_score(cache[f"L{i}.pattern"], back, first_query) for i in layers])


def induction_scores(
    model: AttentionOnlyTransformer, tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "layer head"]:
    """Induction score of every head on BOS + a segment twice, counted in the second copy only."""
    length = repeat_length(tokens)
    return head_scores(model, tokens, length - 1, length + 1)


def repeat_length(tokens: Int[Tensor, "batch pos"]) -> int:
    """The length of the segment in BOS + a segment twice. Raises ValueError for other tokens."""
    length = (tokens.shape[1] - 1) // 2
    if length < 2 or not torch.equal(tokens[:, 1 : length + 1], tokens[:, length + 1 :]):
        raise ValueError("tokens must be BOS, then a segment of at least 2 tokens, twice")
    return length


def zero_heads(model: AttentionOnlyTransformer, heads: list[tuple[int, int]]) -> Edits:
    """Edits that set the output z of the heads [(layer, head), …] to zero: zero ablation."""
    edits, c = {}, model.config
    for layer, head in heads:
        if not (0 <= layer < c.n_layers and 0 <= head < c.n_heads):
            raise ValueError(
                f"there is no head L{layer}H{head}: "
                f"layers 0 … {c.n_layers - 1}, heads 0 … {c.n_heads - 1}"
            )
    for layer in {layer for layer, _ in heads}:
        kept = torch.ones(c.n_heads, 1, device=model.W_E.device)
        kept[[head for at, head in heads if at == layer]] = 0
        edits[f"L{layer}.z"] = lambda z, kept=kept: z * kept
    return edits


def copy_losses(
    model: AttentionOnlyTransformer, tokens: Int[Tensor, "batch pos"], edits: Edits | None = None
) -> tuple[float, float]:
    """Mean loss (nats) on the first and on the second copy of BOS + a segment twice.

    The first token of the second copy is left out: nothing says yet that a repeat has begun.
    """
    length = repeat_length(tokens)
    with torch.no_grad():
        losses = next_token_losses(model(tokens, edits=edits), tokens)
    return losses[:, :length].mean().item(), losses[:, length + 1 :].mean().item()
