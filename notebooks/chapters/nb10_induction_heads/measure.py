"""Notebook 10: the paths between two heads, two places to attend to, the terms of a score."""

import itertools
import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Head, Model, all_heads
from aot_helpers.reading.circuits import qk_circuit
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.interventions import cut_path
from aot_helpers.reading.paths import check_additive


def score_lost_by_path(
    model: Model, tokens: Int[Tensor, "batch pos"], reader: Head
) -> Float[Tensor, "writer route"]:
    """The share of a reader's induction score that is lost without one path into it.

    A path is what one head of the layer before wrote, as read by the reader's query, key or value
    (framework paper, "Three Kinds of Composition"); its mean is put in its place. tokens: a
    segment twice, after BOS.
    """
    whole = edited_score(model, tokens, reader, {})
    lost = torch.zeros(model.config.n_heads, 3)
    for head, route in itertools.product(range(model.config.n_heads), range(3)):
        writer = Head(reader.layer - 1, head)
        edits = cut_path(model, tokens, writer, reader, "QKV"[route], replace="mean")
        lost[head, route] = 1 - edited_score(model, tokens, reader, edits) / whole
    return lost


def edited_score(model: Model, tokens: Int[Tensor, "batch pos"], head: Head, edits: Edits) -> float:
    """A head's induction score while activations are edited."""
    with torch.no_grad():
        pattern = model.run_with_cache(tokens, edits=edits)[1][f"L{head.layer}.pattern"]
    return _score(pattern[:, head.head])


def score_with_keys(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    head: Head,
    keys: Float[Tensor, "batch pos head d_head"],
) -> float:
    """A head's induction score when all heads of its layer have these keys."""
    return edited_score(model, tokens, head, {f"L{head.layer}.k": lambda _: keys})


def _score(pattern: Float[Tensor, "batch query key"]) -> float:
    length = (pattern.shape[-1] - 1) // 2
    query = torch.arange(length + 1, 2 * length + 1)
    return pattern[:, query, query - length + 1].mean().item()


def lost_by_part(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    reader: Head,
    cache: dict[str, Tensor],
    part: Float[Tensor, "batch pos d_model"],
) -> float:
    """The share of a reader's induction score that is lost when its keys do not read a part.

    part: a summand of the residual stream before the reader's layer, in the run that filled the
    cache. What varies in it is taken off before the layer norm, if there is one; its mean over
    texts and positions stays. For models with layer norm and MLPs, too.
    """
    layer, number = reader
    norm, b_K = model.attention_norm(layer), model.biases(layer).b_K[number]
    with torch.no_grad():
        left = cache[f"L{layer}.resid_pre"] - (part - part.mean(dim=(0, 1)))
        keys = cache[f"L{layer}.k"].clone()
        keys[:, :, number] = norm(left) @ model.head_weights(reader).W_K + b_K
    left = score_with_keys(model, tokens, reader, keys)
    return 1 - left / _score(cache[f"L{layer}.pattern"][:, number])


def lost_by_parts(
    model: Model, tokens: Int[Tensor, "batch pos"], reader: Head, cache: dict[str, Tensor]
) -> Float[Tensor, "layer part"]:
    """`lost_by_part` of every head and MLP before the reader: a row a layer, the MLP last."""
    parts = [
        [
            *(head_output(model, cache, Head(layer, h)) for h in range(model.config.n_heads)),
            cache[f"L{layer}.mlp_out"],
        ]
        for layer in range(reader.layer)
    ]
    return torch.tensor(
        [[lost_by_part(model, tokens, reader, cache, part) for part in row] for row in parts]
    )


def constant_scores(
    written: Float[Tensor, "text pos d_model"],
    W_Q: Float[Tensor, "d_model d_head"],
    k: Float[Tensor, "text pos d_head"],
) -> Float[Tensor, "text pos"]:
    """What the mean of what was written, read by all queries, adds to the score of each key."""
    constant = written.mean(dim=(0, 1)) @ W_Q  # [d_head]
    return k @ constant / math.sqrt(len(constant))


def query_terms(
    model: Model, cache: dict[str, Tensor], reader: Head
) -> dict[str, tuple[float, float]]:
    """The scores of the right place and of BOS as sums over what a query of layer 1 is made from.

    Means over the queries of the second copy; cache: of a run on a segment twice, after BOS. The
    constant of layer 0 is its mean over texts and positions. The terms add up to the score.
    """
    W_Q, k = model.head_weights(reader).W_Q, cache["L1.k"][:, :, reader.head]
    written, n_pos = cache["L0.attn_out"], k.shape[1]
    constant = written.mean(dim=(0, 1))
    bias = model.blocks[1].attn.relative_bias(n_pos)[reader.head].detach()
    read = {
        "embedding": cache["embed"],
        "layer 0, what varies": written - constant,
        "layer 0, its constant": constant.expand_as(written),
    }
    scores = {
        part: x @ W_Q @ k.transpose(1, 2) / math.sqrt(k.shape[-1]) for part, x in read.items()
    } | {"relative bias": bias.expand(len(k), -1, -1)}
    length = (n_pos - 1) // 2
    query = torch.arange(length + 1, 2 * length + 1)
    right = query - length + 1
    return {
        part: (each[:, query, right].mean().item(), each[:, query, 0].mean().item())
        for part, each in scores.items()
    }


def two_places(
    d_vocab: int, n: int, bos: int = 0
) -> tuple[Int[Tensor, "text pos"], Bool[Tensor, "text pos"], Bool[Tensor, "text pos"]]:
    """Texts "… x A b … y A c … x A" of different random tokens, and where b and c stand.

    Half of the texts have the two places in the other order.
    """
    draws = torch.stack([torch.randperm(d_vocab - 1)[:23] for _ in range(n)])
    draws = (1 + bos + draws) % d_vocab  # any token but BOS
    x, y, A, b, c = draws[:, :5].split(1, dim=1)
    gaps = draws[:, 5:].split(6, dim=1)
    both, one = torch.cat([x, A, b], dim=1), torch.cat([y, A, c], dim=1)
    swap = (torch.arange(n) % 2 == 1)[:, None]
    first, second = torch.where(swap, one, both), torch.where(swap, both, one)
    start = torch.full((n, 1), bos)
    tokens = torch.cat([start, gaps[0], first, gaps[1], second, gaps[2], x, A], dim=1)
    return tokens, tokens == b, tokens == c


def attention_to_places(
    model: Model, heads: list[int], text: tuple, edits: Edits | None = None
) -> Float[Tensor, "head 3"]:
    """Attention of the last query of layer 1 to b, to c (see `two_places`) and to BOS."""
    tokens, *places = text
    with torch.no_grad():
        last = model.run_with_cache(tokens, edits=edits)[1]["L1.pattern"][:, heads, -1]
    at = [(last * place[:, None]).sum(dim=-1).mean(dim=0) for place in places]
    return torch.stack([*at, last[..., 0].mean(dim=0)], dim=1)


def score_terms(
    model: Model, tokens: Int[Tensor, "batch pos"], head: Head
) -> dict[tuple[str, str], Float[Tensor, "batch query key"]]:
    """A head's scores as a sum over (what the query came from, what the key came from).

    The components are "embed", "position" (W_pos, if any) and the heads of earlier layers, "L0H0"
    …; b_rel is ("position", "position"). The terms add up to the scores before the mask. Framework
    paper, "Path Expansion of Attention Scores". Raises ValueError for models with layer norm, MLPs
    or smeared keys and for a head that does not exist.
    """
    check_additive(model)
    if model.config.smeared_keys:
        raise ValueError(
            "smeared_keys = True: keys come from two positions each, so that no terms add up to "
            "the scores of this model: take one with smeared_keys=False"
        )
    qk = qk_circuit(model, head)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        n_batch, n_pos = tokens.shape
        parts = {"embed": cache["embed"]}
        if hasattr(model, "W_pos"):
            parts["position"] = model.W_pos[:n_pos].expand(n_batch, -1, -1)
        for writer in all_heads(model)[: head.layer * model.config.n_heads]:
            parts[str(writer)] = head_output(model, cache, writer)
        terms = {
            (query, key): (x @ qk.A) @ (y @ qk.B.T).transpose(1, 2)
            for query, x in parts.items()
            for key, y in parts.items()
        }
        if model.config.positions == "relative":
            bias = model.blocks[head.layer].attn.relative_bias(n_pos)[head.head]
            terms["position", "position"] = bias.expand(n_batch, -1, -1)
    return terms
