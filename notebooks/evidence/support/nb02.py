"""Evidence of notebook 02: who notices a shuffled past; heads that look back by their bias."""

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.reading.heads import head_scores

TWELVE = torch.arange(12)[None]  # twelve different tokens


def change_of_last_logits(model: AttentionOnlyTransformer) -> float:
    """Largest change of the last position's logits when the eleven tokens before are shuffled."""
    before = torch.randperm(11)
    while torch.equal(before, torch.arange(11)):  # a shuffle that changes nothing is no test
        before = torch.randperm(11)
    order = torch.cat([before, torch.tensor([11])])
    return (model(TWELVE[:, order]) - model(TWELVE))[0, -1].abs().max().item()


def one_back_by_part(name: str, batch: Int[Tensor, "batch pos"]) -> tuple[float, float, str]:
    """Attention one back of the head that attends there most, by bias, by tokens, and its name.

    name: a checkpoint with relative biases. A softmax of the bias as if all tokens were alike, and
    a softmax of the scores with the bias taken off.
    """
    model = load_checkpoint(name).requires_grad_(False)
    scores = head_scores(model, batch, "previous").scores
    layer, head = divmod(int(scores.argmax()), model.config.n_heads)
    _, cache = model.run_with_cache(batch)
    bias = model.blocks[layer].attn.relative_bias(batch.shape[1])[head]
    tokens_alone = cache[f"L{layer}.scores"][:, head] - bias
    future = torch.ones_like(bias, dtype=torch.bool).triu(1)
    parts = (part.masked_fill(future, -torch.inf).softmax(-1) for part in (bias, tokens_alone))
    by_bias, by_tokens = (part.diagonal(-1, -2, -1).mean().item() for part in parts)
    return by_bias, by_tokens, f"L{layer}H{head}"
