"""The logit lens: any vector that lives in the stream, read as words.

LL(x) = softmax(ln_final(x) W_U) (nostalgebraist 2020; VISIT, section 2.3). What heads hand on
before W_O, and their queries and keys, live elsewhere: `READINGS` says how each is brought back.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.errors import unknown_name
from aot_helpers.models.protocol import Head, Model, check_head


def lens(
    model: Model, vectors: Float[Tensor, "*places d_model"], norm: bool = True
) -> Float[Tensor, "*places d_vocab"]:
    """Logits that the model would give if each vector were its last stream: ln_final(x) W_U.

    norm: False leaves the final norm out. Raises ValueError for vectors of another width, for
    vectors that are not finite and for a model without an unembedding.
    """
    W_U, d_model = model.W_U, model.config.d_model
    if W_U is None:
        raise ValueError("this model has no W_U (a BERT without its head): the lens needs one")
    if vectors.shape[-1] != d_model:
        raise ValueError(
            f"vectors of width {vectors.shape[-1]} are not in the stream, whose d_model is "
            f"{d_model}: READINGS brings values, queries and keys there"
        )
    if not torch.isfinite(vectors).all():
        raise ValueError("vectors must be finite: leave out or mend NaN and infinity first")
    with torch.no_grad():
        return (model.final_norm()(vectors) if norm else vectors) @ W_U


def top_tokens(logits: Float[Tensor, "*places d_vocab"], k: int) -> Int[Tensor, "*places k"]:
    """The ids of the k tokens with the largest logits, the largest first."""
    if not 1 <= k <= logits.shape[-1]:
        raise ValueError(f"k must be 1 to d_vocab = {logits.shape[-1]}, got {k}")
    return logits.topk(k, dim=-1).indices


def intersection(
    a: Float[Tensor, "*places d_vocab"], b: Float[Tensor, "*places d_vocab"], k: int = 50
) -> Float[Tensor, "*places"]:
    """I_k: the share of tokens that two readings have in common among their k highest.

    VISIT, equation 3. Two readings that have nothing to do with each other, and prefer no words,
    share k / d_vocab of them; real readings prefer frequent words, so compare with readings of
    other prompts as well. Raises ValueError for a k that the vocabulary does not have.
    """
    return overlap(top_tokens(a, k), top_tokens(b, k))


def overlap(a: Int[Tensor, "*#places k"], b: Int[Tensor, "*#places k"]) -> Float[Tensor, "*places"]:
    """The share of ids that two lists of k have in common: `intersection` of lists made before."""
    return (a[..., :, None] == b[..., None, :]).any(dim=-1).float().mean(dim=-1)


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


def target_token(model: Model, text: str) -> int:
    """The id of a text that is one token of the model, such as " Oslo".

    Raises ValueError for a text of several tokens, which no single reading can rank, and for a
    model without a tokenizer.
    """
    if model.tokenizer is None:
        raise ValueError("this model has no tokenizer: give the token's id instead of its text")
    ids = model.tokenizer.encode(text)
    if len(ids) != 1:
        pieces = " + ".join(map(repr, model.tokenizer.token_strings(ids)))
        raise ValueError(
            f"{text!r} is {len(ids)} tokens, {pieces}: a reading ranks one; give the first, or a "
            "word that is one token (most are so only with a space before them)"
        )
    return int(ids[0])


def rank(
    logits: Float[Tensor, "*places d_vocab"], token: Int[Tensor, "*places"] | int
) -> Int[Tensor, "*places"]:
    """How many tokens have a larger logit than this one; 0 is the top. Equal ones do not count.

    Raises ValueError for a token that is not in the vocabulary.
    """
    token = _check_token(logits, token)
    return (logits > logits.gather(-1, token[..., None])).sum(dim=-1)


def probability(
    logits: Float[Tensor, "*places d_vocab"], token: Int[Tensor, "*places"] | int
) -> Float[Tensor, "*places"]:
    """The probability of a token: softmax of the logits. ValueError as in `rank`."""
    token = _check_token(logits, token)
    return logits.log_softmax(dim=-1).gather(-1, token[..., None])[..., 0].exp()


def _check_token(logits: Tensor, token: Tensor | int) -> Tensor:
    token, last = torch.as_tensor(token, device=logits.device), logits.shape[-1] - 1
    if token.numel() and not 0 <= int(token.min()) <= int(token.max()) <= last:
        bad = int(token.max()) if int(token.max()) > last else int(token.min())
        raise ValueError(f"there is no token {bad}: ids are 0 … {last}")
    return token.expand(logits.shape[:-1])


class Reading(NamedTuple):
    """One kind of vector: how a run's cache gives it in the stream's width, and for what."""

    of: str  # "layer" or "head"
    what: str
    vectors: Callable[[Model, dict, Head], Float[Tensor, "batch pos d_model"]]


def _block_output(model: Model, cache: dict, layer: int) -> Tensor:
    last = layer + 1 == model.config.n_layers
    return cache["final_resid" if last else f"L{layer + 1}.resid_pre"]


def _through(model: Model, cache: dict, head: Head, name: str) -> Tensor:
    return cache[f"L{head.layer}.{name}"][:, :, head.head] @ model.head_weights(head).W_O


def _padded(model: Model, cache: dict, head: Head, name: str) -> Tensor:
    """A head's own small vector at its place in a vector of zeros (VISIT, footnote 6)."""
    small = cache[f"L{head.layer}.{name}"][:, :, head.head]
    start = head.head * small.shape[-1]
    if start + small.shape[-1] > model.config.d_model:
        raise ValueError(
            f"n_heads * d_head = {model.config.n_heads * small.shape[-1]} does not fit d_model = "
            f"{model.config.d_model}: read this head's vectors through its matrices"
        )
    padded = small.new_zeros(*small.shape[:-1], model.config.d_model)
    padded[..., start : start + small.shape[-1]] = small
    return padded


def _unturned(model: Model, cache: dict, head: Head, name: str) -> Tensor:
    """Queries or keys before any rotation: with rotary positions, as seen from distance 0."""
    if model.config.positions != "rotary":
        return cache[f"L{head.layer}.{name}"][:, :, head.head]
    W = getattr(model.head_weights(head), f"W_{name.upper()}")
    return cache[f"L{head.layer}.ln1_out"] @ W


def _side_by_side(model: Model, layer: int) -> Tensor:
    """W_K of all heads [d_model, n_heads * d_head], which must be square to take a padded query."""
    return torch.cat(list(model.layer_weights(layer).W_K), dim=1)


READINGS: dict[str, Reading] = {
    "residual": Reading(
        "layer", "what the layer reads", lambda m, c, at: c[f"L{at.layer}.resid_pre"]
    ),
    "attention output": Reading(
        "layer", "what its heads add", lambda m, c, at: c[f"L{at.layer}.attn_out"]
    ),
    "MLP output": Reading("layer", "what its MLP adds", lambda m, c, at: c[f"L{at.layer}.mlp_out"]),
    "block output": Reading(
        "layer", "what the layer leaves", lambda m, c, at: _block_output(m, c, at.layer)
    ),
    "head": Reading(
        "head", "z W_O", lambda m, c, at: _through(m, c, at, "z")
    ),
    "head without W_O": Reading(
        "head", "z among zeros", lambda m, c, at: _padded(m, c, at, "z")
    ),
    "value": Reading(
        "head", "v W_O", lambda m, c, at: _through(m, c, at, "v")
    ),
    "value without W_O": Reading(
        "head", "v among zeros", lambda m, c, at: _padded(m, c, at, "v")
    ),
    "query": Reading(
        "head", "q W_Kᵀ, the key it asks for",
        lambda m, c, at: _unturned(m, c, at, "q") @ m.head_weights(at).W_K.T,
    ),
    "query, the source's way": Reading(
        "head", "q among zeros, times W_K of all heads",
        lambda m, c, at: _padded(m, c, at, "q") @ _side_by_side(m, at.layer),
    ),
    "query without W_K": Reading(
        "head", "q among zeros", lambda m, c, at: _padded(m, c, at, "q")
    ),
    "key": Reading(
        "head", "k W_Qᵀ, the query it answers",
        lambda m, c, at: _unturned(m, c, at, "k") @ m.head_weights(at).W_Q.T,
    ),
    "key without W_Q": Reading(
        "head", "k among zeros", lambda m, c, at: _padded(m, c, at, "k")
    ),
}  # fmt: skip


class MLPValues(NamedTuple):
    """What the strongest neurons of an MLP wrote, and which they are."""

    vectors: Float[Tensor, "batch pos n d_model"]
    neurons: Int[Tensor, "batch pos n"]


def strongest_values(model: Model, cache: dict[str, Tensor], layer: int, n: int = 1) -> MLPValues:
    """The n neurons of a layer that write most at each position, the largest vector first.

    A neuron writes its value, a row of `mlp_values`, times its activation. Raises ValueError for a
    model without MLPs and an n that its MLP does not have.
    """
    values = model.mlp_values(layer)
    if not 1 <= n <= len(values):
        raise ValueError(f"n must be 1 to d_mlp = {len(values)}, got {n}")
    active = cache[f"L{layer}.mlp_hidden"]
    chosen = (active.abs() * values.norm(dim=-1)).topk(n, dim=-1).indices
    return MLPValues(active.gather(-1, chosen)[..., None] * values[chosen], chosen)


def read(
    model: Model, cache: dict[str, Tensor], reading: str, at: Head
) -> Float[Tensor, "batch pos d_model"]:
    """The vectors of one reading, a key of READINGS, at every position of a run.

    at: the head; for readings of a layer only its layer counts. Raises ValueError for an unknown
    reading, a head that does not exist, MLPs that the model lacks, heads too wide to pad.
    """
    if reading not in READINGS:
        raise unknown_name("reading", reading, READINGS)
    check_head(model.config, at)
    if reading == "MLP output" and f"L{at.layer}.mlp_out" not in cache:
        raise ValueError("this model has no MLPs: there is no MLP output to read")
    with torch.no_grad():
        return READINGS[reading].vectors(model, cache, Head(*at))
