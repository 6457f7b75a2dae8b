"""Notebook 10: texts with names, which head does what, the terms of a score."""

import random
from collections import defaultdict

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model, all_heads
from aot_helpers.reading.circuits import qk_circuit
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.paths import check_additive
from aot_helpers.text.corpora import load_corpus

BIAS = ("position", "position")  # the relative bias, as a term of the scores


def induction_score(pattern: Float[Tensor, "batch query key"]) -> float:
    """The mean attention of a head to what followed, on segments written twice after BOS."""
    length = (pattern.shape[-1] - 1) // 2
    query = torch.arange(length + 1, 2 * length + 1)
    return pattern[:, query, query - length + 1].mean().item()


def encoded(tokenizer, text: str) -> Int[Tensor, "1 pos"]:
    """BOS and the tokens of a text."""
    return torch.cat([torch.tensor([tokenizer.bos]), tokenizer.encode(text)])[None]


def name_sentences(
    tokenizer, n_pairs: int, seed: int
) -> list[tuple[Int[Tensor, "sentence pos"], Int[Tensor, " sentence"], Int[Tensor, " sentence"]]]:
    """Sentences about two people whose surnames begin with the same token, up to that token.

    "Fiza Peril met Riso Polar near the river. In the evening Riso P", and the same with Fiza: for
    each length the tokens, and the positions where the own and the other's surname go on. The names
    are made up as those of the stories are, and none of the surnames stands in the training texts.
    """
    read = "\n".join(load_corpus("stories", quiet=True).texts)
    rng = random.Random(seed)
    by_length, made = defaultdict(list), 0  # {tokens: [(row, own, other)]}
    hard, vowels = "bdfgklmnprstvz", "aeiou"

    def drawn(*letters: str) -> str:
        return "".join(map(rng.choice, letters)).title()

    while made < n_pairs:
        given = [drawn(hard, vowels, hard, "ao") for _ in range(2)]
        initial = rng.choice(hard)
        family = [drawn(initial, vowels, hard, vowels, "lnrsv") for _ in range(2)]
        (A, *rest), (A_too, *rest_too) = (tokenizer.encode(f" {n}").tolist() for n in family)
        x, y = (tokenizer.encode(f" {name}").tolist()[-1] for name in given)
        if A_too != A or not rest or not rest_too or rest[0] == rest_too[0] or x == y:
            continue  # there is no choice, or nothing to choose by
        if any(name in read for name in family):
            continue
        told = f"{given[0]} {family[0]} met {given[1]} {family[1]} near the river. In the evening"
        for own, other, name in ((rest, rest_too, given[0]), (rest_too, rest, given[1])):
            start = encoded(tokenizer, f"{told} {name}")
            row = [*start[0].tolist(), A]
            pairs = list(zip(row, row[1:], strict=False))
            at_own, at_other = (pairs.index((A, each[0])) + 1 for each in (own, other))
            by_length[len(row)].append((row, at_own, at_other))
        made += 1
    return [tuple(map(torch.tensor, zip(*same, strict=True))) for same in by_length.values()]


def roles(model: Model, tokens: Int[Tensor, "batch pos"]) -> tuple[int, int, list[int]]:
    """The heads of layer 0 that attend most one back and two back, and layer 1's induction heads.

    tokens: random segments written twice; an induction head has a score of 0.4 or more on them.
    """
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
    one, two = (
        int(cache["L0.pattern"].diagonal(-back, dim1=2, dim2=3).mean(dim=(0, 2)).argmax())
        for back in (1, 2)
    )
    heads = range(cache["L1.pattern"].shape[1])
    return one, two, [h for h in heads if induction_score(cache["L1.pattern"][:, h]) >= 0.4]


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
