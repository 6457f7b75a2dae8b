"""Activations to numbers: where heads look, what each adds to the logits, what a context is worth.

Edits that change what heads do are in `interventions`.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_one_of, check_shape, check_whole
from aot_helpers.models.losses import repeat_length
from aot_helpers.models.protocol import Head, Model, check_head, check_tokens
from aot_helpers.text.batches import repeated_tokens

LENGTHS = (8, 16, 22, 32, 50, 63)  # of segments, in tokens: what "at any length" is tried at


def keys_back(tokens: Int[Tensor, "batch pos"], back: int) -> Bool[Tensor, "batch query key"]:
    """True at the key `back` positions before the query; the first `back` queries have none."""
    check_tokens(tokens)
    batch, n_pos = tokens.shape
    at = torch.arange(n_pos, device=tokens.device)
    return (at[:, None] - at == back).expand(batch, n_pos, n_pos)


def first_key(tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch query key"]:
    """True at key 0, from query 2 on: for query 1 it would be the previous token as well."""
    keys = torch.zeros_like(keys_back(tokens, 0))
    keys[:, 2:, 0] = True
    return keys


def earlier_copies(tokens: Int[Tensor, "batch pos"]) -> Bool[Tensor, "batch query key"]:
    """True at the keys before the query that hold the query's token."""
    check_tokens(tokens)
    return (tokens[:, :, None] == tokens[:, None, :]).tril(-1)


# Where a head of each kind looks: tokens [batch, pos] to True at its keys [batch, query, key].
# A padding token that stands twice counts as a token that returns: score texts without padding.
HEAD_PATTERNS: dict[str, Callable[[Tensor], Tensor]] = {
    "previous": lambda tokens: keys_back(tokens, 1),
    "current": lambda tokens: keys_back(tokens, 0),
    "first": first_key,
    "duplicate": earlier_copies,
    # One key to the right of an earlier copy, the query itself included: the prefix matching of
    # Olsson et al. 2022. Key 0 follows nothing.
    "induction": lambda tokens: F.pad(earlier_copies(tokens), (1, -1)),
    # One key to the left; the last key precedes nothing.
    "pre-duplicate": lambda tokens: F.pad(earlier_copies(tokens), (-1, 1)),
}


class HeadScores(NamedTuple):
    """Shares of attention (0 to 1): of every head, and of one that looks everywhere alike."""

    scores: Float[Tensor, "layer head"]
    null: float


def _check_keys(targets) -> None:
    if (dtype := getattr(targets, "dtype", type(targets).__name__)) != torch.bool:
        raise ValueError(f"keys to look at must be True or False, got {dtype}")


def pattern_score(
    pattern: Float[Tensor, "batch head query key"],
    targets: Bool[Tensor, "batch query key"],
    first_query: int = 0,
) -> Float[Tensor, " head"]:
    """Mean attention of each head to its targets, over queries >= first_query that have a target.

    targets: True at the keys that count, for instance HEAD_PATTERNS["induction"](tokens). Where
    a query has several, their attention is added. Raises ValueError if no query counts.
    """
    check_whole("first_query", first_query, 0)
    _check_keys(targets)
    counted = targets.any(dim=-1)  # [batch, query]
    counted[:, :first_query] = False
    if not counted.any():
        raise ValueError(
            f"among {targets.shape[1]} tokens no query from position {first_query} on has a key to "
            "look at: no token that returns, or too short; give a longer text or repeated_tokens"
        )
    on_targets = (pattern * targets[:, None]).sum(dim=-1)  # [batch, head, query]
    return on_targets.transpose(1, 2)[counted].mean(dim=0)


def uniform_score(
    targets: Bool[Tensor, "batch query key"], first_query: int = 0, causal: bool = True
) -> float:
    """The `pattern_score` of a head that looks at all allowed keys alike: the null of a score.

    causal: the allowed keys are those up to the query; otherwise all.
    """
    pattern = uniform_pattern(targets.shape[1], causal).to(targets.device)
    return pattern_score(pattern.expand_as(targets)[:, None], targets, first_query).item()


def uniform_pattern(n_pos: int, causal: bool = True) -> Float[Tensor, "query key"]:
    """The pattern of a head that looks at all allowed keys alike."""
    allowed = torch.ones(n_pos, n_pos)
    allowed = allowed.tril() if causal else allowed
    return allowed / allowed.sum(dim=-1, keepdim=True)


def check_has_heads(model: Model) -> None:
    """Raise ValueError for a model without layers."""
    if model.config.n_layers == 0:
        raise ValueError("a model without layers has no heads: load one with n_layers >= 1")


def head_scores(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    behavior: str | Bool[Tensor, "texts query key"],
    first_query: int = 0,
) -> HeadScores:
    """The `pattern_score` of every head for a behavior, a key of HEAD_PATTERNS; and its null.

    The null is what uniform attention over the allowed keys gets on the same queries. Where the
    tokens do not show what a head should look for, as in masked texts, give the keys themselves:
    head_scores(model, masked, HEAD_PATTERNS["duplicate"](tokens)). Raises ValueError for an unknown
    behavior, keys of another shape, a model without layers, and texts where no query counts.
    """
    check_tokens(tokens)
    check_has_heads(model)
    if isinstance(behavior, str):
        check_one_of("behavior", behavior, HEAD_PATTERNS)
        behavior = HEAD_PATTERNS[behavior](tokens)
    else:
        shape = (*tokens.shape, tokens.shape[1])
        _check_keys(behavior)
        check_shape("keys to look at", behavior.shape, shape, "give [batch, query, key]")
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
    patterns = [cache[f"L{i}.pattern"] for i in range(model.config.n_layers)]
    scores = [pattern_score(pattern, behavior, first_query) for pattern in patterns]
    null = uniform_score(behavior, first_query, model.config.causal)
    return HeadScores(torch.stack(scores), null)


def induction_scores(model: Model, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "layer head"]:
    """Induction score of every head on BOS + a segment twice, counted in the second copy only.

    Where several keys follow a copy of the token, attention to any of them counts. Raises
    ValueError for tokens that are not repeated.
    """
    return head_scores(model, tokens, "induction", repeat_length(tokens) + 1).scores


def by_length(
    score: Callable,
    model: Model,
    lengths: Iterable[int] = LENGTHS,
    n_texts: int = 50,
    seed: int = 0,
) -> dict[int, Any]:
    """{length: score(model, n_texts random segments of so many tokens, each written twice)}.

    score: `induction_scores`, `copy_accuracy` or another of (model, tokens); both fall with the
    length in models that copy badly, so a score without its length says little. model: with a
    tokenizer. Raises ValueError for segments that do not fit twice into its context.
    """
    n_ctx, d_vocab = model.config.n_ctx, model.config.d_vocab
    lengths = list(lengths)
    for length in lengths:
        check_whole("length", length, 1, (n_ctx - 1) // 2, " of tokens of a segment written twice")
    if model.tokenizer is None or model.tokenizer.bos is None:
        raise ValueError("by_length begins texts with the tokenizer's BOS: set model.tokenizer")
    texts = {n: repeated_tokens(d_vocab, n, n_texts, model.tokenizer.bos, seed) for n in lengths}
    return {n: score(model, tokens.to(model.W_E.device)) for n, tokens in texts.items()}


def head_output(
    model: Model, cache: dict[str, Tensor], head: Head
) -> Float[Tensor, "batch pos d_model"]:
    """What one head added to the stream, z W_O, in the run that filled the cache.

    A head's share of b_V is in z, b_O belongs to no head: a layer's heads add up to attn_out - b_O.
    """
    layer, number = check_head(model.config, head)
    return cache[f"L{layer}.z"][:, :, number] @ model.head_weights(head).W_O


def others_like(model: Model, heads: list[Head], generator: torch.Generator) -> list[Head]:
    """In each layer of the heads, as many others as there are, drawn at random: a control.

    Never one of the heads; where a layer has too few others, all of them. Raises ValueError for a
    head that does not exist.
    """
    heads, drawn = [check_head(model.config, head) for head in heads], []
    for layer in sorted({head.layer for head in heads}):
        each = [Head(layer, head) for head in range(model.config.n_heads)]
        free = [head for head in each if head not in heads]
        order = torch.randperm(len(free), generator=generator).tolist()
        drawn += [free[i] for i in order[: len(each) - len(free)]]
    return drawn
