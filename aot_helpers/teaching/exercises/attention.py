"""Attention with the mistakes that many make, which the checks of notebooks 03 and 04 name."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def flawed_attention(
    x: Float[Tensor, "... pos d_model"],
    W_Q: Float[Tensor, "... d_model d_head"],
    W_K: Float[Tensor, "... d_model d_head"],
    W_V: Float[Tensor, "... d_model d_head"],
    W_O: Float[Tensor, "... d_head d_model"],
    bias: Float[Tensor, "... query_pos key_pos"],
    *,
    root: float | None = None,
    over: int = -1,
    mask: str = "before",
    swap: bool = False,
) -> tuple[Tensor, Tensor]:
    """What each head writes [..., pos, d_model] and its pattern, with one mistake or none.

    root: what the scores are divided by, in place of √d_head. over: the axis of the softmax. mask:
    "before" the softmax as it should be, "after" it, "none", the "past", the token's "own" position
    as well, or scores of "zero". swap: queries and keys change places. Leading axes are broadcast.
    """
    q, k = (x @ W_K, x @ W_Q) if swap else (x @ W_Q, x @ W_K)
    scores = q @ k.mT / (root or math.sqrt(W_Q.shape[-1])) + bias
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(future, 0) if mask == "zero" else scores
    hidden = {"before": future, "past": future.mT, "own": torch.ones_like(future).triu(0)}
    hidden = hidden.get(mask, torch.zeros_like(future))
    pattern = scores.masked_fill(hidden, -math.inf).softmax(dim=over)
    pattern = pattern.masked_fill(future, 0) if mask == "after" else pattern
    return pattern @ (x @ W_V) @ W_O, pattern


def common_flaws(d_model: int, d_head: int) -> dict[str, dict]:
    """What to say of each mistake: the arguments of `flawed_attention` that make it."""
    return {
        "A token attends to later tokens: where is the causal mask?": {"mask": "none"},
        "The mask hides the past and shows the future: use triu(1), not tril.": {"mask": "past"},
        "You mask after the softmax, so the weights of a row no longer add up to 1: "
        "put -inf into the scores instead.": {"mask": "after"},
        "You set later scores to 0, and e^0 is 1: put -inf into the scores.": {"mask": "zero"},
        "The scores are not divided by √d_head.": {"root": 1.0},
        f"You divide by {d_head} = d_head, not by its root.": {"root": float(d_head)},
        f"You divide by √{d_model}; √d_head is √{d_head}.": {"root": math.sqrt(d_model)},
        "Your softmax runs over the queries: for each query, the weights of the keys must add up "
        "to 1 (dim=-1).": {"over": -2},
        "Queries and keys have changed places: rows of scores are queries.": {"swap": True},
    }
