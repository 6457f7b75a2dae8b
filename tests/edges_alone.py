"""A second way to run a model of attention alone with some of its edges: from its weights."""

import torch
from torch import Tensor


@torch.no_grad()
def logits_alone(model, tokens: Tensor, kept: Tensor, rest: Tensor) -> Tensor:
    """The last logits with the edges in kept [layer, head, query, key] alone.

    rest [layer, first position or other, head, d_head]: what dropped edges carry.
    """
    n, x = len(tokens), model.W_E[tokens]
    past = torch.ones(n, n, dtype=torch.bool).tril()
    for layer in range(model.config.n_layers):
        W, bias = model.layer_weights(layer), model.blocks[layer].attn.relative_bias(n)
        q, k, v = (torch.einsum("pd,hde->hpe", x, each) for each in (W.W_Q, W.W_K, W.W_V))
        scores = q @ k.mT / q.shape[-1] ** 0.5 + bias
        pattern = scores.masked_fill(~past, -torch.inf).softmax(dim=-1)
        for head, mask in enumerate(kept[layer]):
            by_key = rest[layer, [0] + [1] * (n - 1), head]
            z = (pattern[head] * mask) @ v[head] + (pattern[head] * ~mask) @ by_key
            x = x + z @ W.W_O[head]
    return x[-1] @ model.W_U
