"""A head's circuits to its strongest "source … destination → out"."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_token_ids, check_whole
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.circuits import full_ov, full_qk
from aot_helpers.reading.factored import FactoredMatrix, block_rows


class SkipTrigrams(NamedTuple):
    """The strongest "source … destination → out", sorted by value, which is attention × boost."""

    source: Int[Tensor, " k"]
    destination: Int[Tensor, " k"]
    out: Int[Tensor, " k"]
    value: Float[Tensor, " k"]
    attention: Float[Tensor, " k"]
    boost: Float[Tensor, " k"]


def skip_trigrams(
    model: Model, head: Head, k: int, context: Int[Tensor, " context"]
) -> SkipTrigrams:
    """The k strongest skip-trigrams of one head, straight from its weights: see `top_triples`.

    In layer 0 they are all that the head does, up to positions; in later layers, what it does with
    bare embeddings. With layer norm they hold up to σ and bias (see `folded_weights`). Framework
    paper, "Interpretation as Skip-Trigrams".
    """
    return top_triples(full_qk(model, head), full_ov(model, head), k, context)


def top_triples(
    qk: FactoredMatrix, ov: FactoredMatrix, k: int, context: Int[Tensor, " context"]
) -> SkipTrigrams:
    """The k triples with the largest value = attention × boost > 0; fewer if there are fewer.

    qk: scores, [destination, source]. ov: logits, [source, out]. context: token ids, for example 50
    tokens of a text. attention(destination, source) is what the source would get from the
    destination beside the tokens of the context, e^s / (e^s + Σ e^c) of their scores, positions
    left out. boost(source, out) is the logit above its mean over all outs.
    Exact, without ever holding the whole product. Raises ValueError for a k < 1, factors that do
    not fit together, and an empty context or one with unknown tokens.
    """
    check_whole("k", k, 1)
    n_sources = qk.shape[1]
    if ov.shape[0] != n_sources:
        shapes = f"{qk.shape} and {ov.shape}"
        raise ValueError(f"qk must be [destination, source], ov [source, out], got {shapes}")
    check_token_ids(context, n_sources)
    if len(context) == 0:
        raise ValueError("context must be one or more token ids, got none: give those of a text")

    # attention = sigmoid(score - logsumexp of the context's scores), and a subtraction that is the
    # same along a row is one more rank.
    rival = qk.columns(context).logsumexp(dim=1, keepdim=True)
    looks = (qk + FactoredMatrix(-rival, torch.ones_like(qk.B[:1]))).T  # [source, destination]
    boosts = ov.centered_columns()
    return _strongest(looks, boosts, _largest_values(looks, boosts, k), k)


def _largest_values(
    looks: FactoredMatrix, boosts: FactoredMatrix, k: int
) -> Float[Tensor, " source"]:
    """The largest value of a triple with each source; 0 where it cannot be among the k strongest.

    looks: [source, destination], of which the attention is the sigmoid. boosts: [source, out].
    """
    attention = boosts.A.new_empty(len(boosts.A))
    for start, part in looks.row_blocks():
        attention[start : start + len(part)] = part.amax(dim=1).sigmoid()
    # No boost exceeds the length of its row times the length of the longest column, in a basis
    # where the rows of `right` are orthonormal. So once this limit is below the k-th best source,
    # the sources left cannot matter: k triples are at least as large as any of theirs.
    basis, R = torch.linalg.qr(boosts.B.T)
    limit = attention * (boosts.A @ R.T).norm(dim=1) * basis.norm(dim=1).max()
    best = torch.zeros_like(attention)  # a source that never raises anything stays 0
    for some in limit.argsort(descending=True).split(block_rows(boosts.shape[1])):
        if k <= len(best) and limit[some[0]] < best.topk(k).values[-1]:
            break
        best[some] = attention[some] * boosts.rows(some).amax(dim=1)
    return best


def _strongest(
    looks: FactoredMatrix, boosts: FactoredMatrix, best: Float[Tensor, " source"], k: int
) -> SkipTrigrams:
    """The k strongest triples, source after source, from the one with the largest value on."""
    # In sorted lists of attentions and boosts, the product of the i-th and the j-th (from 1) has
    # i · j - 1 others at least as large, so that only those with i · j <= k are needed.
    n_looks, n_boosts = min(k, looks.shape[1]), min(k, boosts.shape[1])
    pairs = [(i, j) for i in range(n_looks) for j in range(min(n_boosts, k // (i + 1)))]
    i, j = torch.tensor(pairs, device=best.device).T
    found, none = best.new_empty(0), i[:0]
    strongest = SkipTrigrams(none, none, none, found, found, found)
    for source in best.argsort(descending=True)[:k]:
        least = strongest.value[-1] if len(strongest.value) == k else 0.0
        if best[source] <= least:
            break
        look, destination = looks.rows(source[None])[0].topk(n_looks)
        boost, out = boosts.rows(source[None])[0].topk(n_boosts)
        look, boost, destination, out = look.sigmoid()[i], boost[j], destination[i], out[j]
        more = SkipTrigrams(source.expand_as(out), destination, out, look * boost, look, boost)
        strongest = _merged(strongest, more, k)
    return strongest


def _merged(some: SkipTrigrams, more: SkipTrigrams, k: int) -> SkipTrigrams:
    """The k largest of both together, those with a value above 0, in order."""
    both = SkipTrigrams(*(torch.cat(fields) for fields in zip(some, more, strict=True)))
    keep = both.value.topk(min(k, len(both.value))).indices
    keep = keep[both.value[keep] > 0]
    return SkipTrigrams(*(field[keep] for field in both))
