"""Every vector of an attention block in the width of the stream, and many of them read as words.

The lens reads vectors of the stream. What heads hand on before W_O, and their queries and keys,
live elsewhere: `READINGS` says how each is brought back.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_one_of
from aot_helpers.models.protocol import Head, Model, check_head
from aot_helpers.reading.logit_lens import lens, rank, top_tokens


def _through(model: Model, cache: dict, head: Head, name: str) -> Tensor:
    return cache[f"L{head.layer}.{name}"][:, :, head.head] @ model.head_weights(head).W_O


def _padded(model: Model, cache: dict, head: Head, name: str) -> Tensor:
    """A head's own small vector at its place in a vector of zeros (VISIT, footnote 6)."""
    small, d_model = cache[f"L{head.layer}.{name}"][:, :, head.head], model.config.d_model
    start, end = (n * small.shape[-1] for n in (head.head, head.head + 1))
    if end > d_model:
        raise ValueError(
            f"n_heads * d_head = {model.config.n_heads * small.shape[-1]} does not fit d_model = "
            f"{d_model}: read this head's vectors through its matrices"
        )
    return F.pad(small, (start, d_model - end))


def _unturned(model: Model, cache: dict, head: Head, name: str) -> Tensor:
    """Queries or keys before any rotation: with rotary positions, as seen from distance 0."""
    if model.config.positions != "rotary":
        return cache[f"L{head.layer}.{name}"][:, :, head.head]
    W = getattr(model.head_weights(head), f"W_{name.upper()}")
    return cache[f"L{head.layer}.ln1_out"] @ W


def _block_output(model: Model, cache: dict, layer: int) -> Tensor:
    last = layer + 1 == model.config.n_layers
    return cache["final_resid" if last else f"L{layer + 1}.resid_pre"]


# How the cache of a run gives each kind of vector in the stream's width [batch, pos, d_model]:
# functions of (model, cache, head); those of a layer look at the layer of the head alone.
READINGS: dict[str, Callable[[Model, dict, Head], Tensor]] = {
    "residual": lambda m, cache, at: cache[f"L{at.layer}.resid_pre"],
    "attention output": lambda m, cache, at: cache[f"L{at.layer}.attn_out"],
    "MLP output": lambda m, cache, at: cache[f"L{at.layer}.mlp_out"],
    "block output": lambda m, cache, at: _block_output(m, cache, at.layer),
    "head": lambda m, cache, at: _through(m, cache, at, "z"),
    "head without W_O": lambda m, cache, at: _padded(m, cache, at, "z"),
    "value": lambda m, cache, at: _through(m, cache, at, "v"),
    "value without W_O": lambda m, cache, at: _padded(m, cache, at, "v"),
    # q W_Kᵀ, the key that a query asks for
    "query": lambda m, cache, at: _unturned(m, cache, at, "q") @ m.head_weights(at).W_K.T,
    # among zeros, times W_K of all heads side by side, which must be square to take it
    "query, the source's way": lambda m, cache, at: (
        _padded(m, cache, at, "q") @ torch.cat([*m.layer_weights(at.layer).W_K], dim=1)
    ),
    "query without W_K": lambda m, cache, at: _padded(m, cache, at, "q"),
    # k W_Qᵀ, the query that a key answers
    "key": lambda m, cache, at: _unturned(m, cache, at, "k") @ m.head_weights(at).W_Q.T,
    "key without W_Q": lambda m, cache, at: _padded(m, cache, at, "k"),
}


def read(
    model: Model, cache: dict[str, Tensor], reading: str, at: Head
) -> Float[Tensor, "batch pos d_model"]:
    """The vectors of one reading, a key of READINGS, at every position of a run.

    at: the head; for readings of a layer only its layer counts. Raises ValueError for an unknown
    reading, a head that does not exist, MLPs that the model lacks, heads too wide to pad.
    """
    check_one_of("reading", reading, READINGS)
    check_head(model.config, at)
    if reading == "MLP output" and f"L{at.layer}.mlp_out" not in cache:
        raise ValueError("this model has no MLPs: there is no MLP output to read")
    with torch.no_grad():
        return READINGS[reading](model, cache, Head(*at))


class Words(NamedTuple):
    """What some vectors say: the ids of their k highest tokens, and how they like some tokens."""

    ids: Int[Tensor, "*places k"]
    probability: Float[Tensor, "*places asked"]
    rank: Int[Tensor, "*places asked"]


def words(
    model: Model,
    vectors: Float[Tensor, "*places d_model"],
    k: int = 50,
    tokens: Int[Tensor, "*#places asked"] | None = None,
    rows: int = 64,
) -> Words:
    """The readings of many vectors, a few rows at a time: no [places, d_vocab] is ever kept.

    tokens: give their probabilities and ranks in each reading as well. Raises ValueError as `lens`,
    `top_tokens` and `rank` do.
    """
    places = vectors.shape[:-1]
    if tokens is None:
        tokens = torch.empty(*places, 0, dtype=torch.long)
    flat, found = vectors.reshape(-1, vectors.shape[-1]), []
    asked = tokens.expand(*places, tokens.shape[-1]).reshape(len(flat), -1)
    for at in range(0, len(flat), rows):
        logits, some = lens(model, flat[at : at + rows]), asked[at : at + rows]
        whole = logits.logsumexp(dim=-1, keepdim=True) if some.shape[1] else 0
        likes = (logits.gather(-1, some) - whole).exp()
        ranks = [rank(logits, one) for one in some.T]
        ranks = torch.stack(ranks, dim=-1) if ranks else some
        found.append((top_tokens(logits, k), likes, ranks))
    parts = (torch.cat(part) for part in zip(*found, strict=True))
    return Words(*(part.reshape(*places, part.shape[-1]) for part in parts))
