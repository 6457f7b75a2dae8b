"""Notebook 04: what the embedding and each head have written, and what it adds to a logit."""

from collections.abc import Iterable
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.interventions import ablate


def pieces(model: Model, cache: dict) -> dict[str, Float[Tensor, "batch pos d"]]:
    """What the embedding and each head have written to the stream: {name: [batch, pos, d_model]}.

    They add up to the final stream (framework paper, "Residual stream"). The direct path has the
    positions, if they are added to the stream; a model with MLPs has these and the output biases of
    its layers of heads as well.
    """
    c = model.config
    found = {"direct path": cache["embed"] + cache.get("pos_embed", 0)}
    for i in range(c.n_layers):
        heads = {f"L{i}H{h}": head_output(model, cache, Head(i, h)) for h in range(c.n_heads)}
        found |= heads
        if c.d_mlp:
            found[f"L{i} bias"] = cache[f"L{i}.attn_out"] - sum(heads.values())
            found[f"L{i} MLP"] = cache[f"L{i}.mlp_out"]
    return found


def direct_logit_attribution(
    model: Model, cache: dict, tokens: Int[Tensor, " pos"]
) -> dict[str, Float[Tensor, " pos-1"]]:
    """What each piece adds to the logit of the token that comes, above its mean over all tokens.

    For a model without norms, and the cache of any run of it, such as one with heads ablated. The
    softmax ignores a constant, so each piece's mean is taken off.
    """
    columns = (model.W_U - model.W_U.mean(dim=1, keepdim=True))[:, tokens[1:]].T
    written = pieces(model, cache)
    return {name: (row[0, :-1] * columns).sum(dim=-1) for name, row in written.items()}


def repeated_endings(
    texts: Int[Tensor, "text pos"], strings: list[str]
) -> tuple[Int[Tensor, " ending"], Bool[Tensor, "text pos-1"]]:
    """The endings of surnames in the stories, and where one comes again after the same piece.

    strings: of all tokens. An ending is one of five vowels and one of four consonants; the piece
    before it begins a word.
    """
    endings = [strings.index(vowel + consonant) for vowel in "aeiou" for consonant in "nrls"]
    begins = [string.startswith(" ") for string in strings]
    chosen = torch.zeros(len(texts), texts.shape[1] - 1, dtype=torch.bool)
    for i, text in enumerate(texts.tolist()):
        read = set()
        for place, pair in enumerate(pairwise(text)):
            chosen[i, place] = pair in read and begins[pair[0]] and pair[1] in endings
            read.add(pair)
    return torch.tensor(endings), chosen


def by_layer(terms: dict[str, float], alone: str) -> dict[str, float]:
    """The terms of a model with MLPs, the heads of a layer as one, but for the head `alone`."""
    sums = {}
    for name, number in terms.items():
        layer = name[1:2]
        part = name
        if name[2:3] == "H" and name != alone:
            part = (
                f"other heads of layer {layer}" if layer == alone[1] else f"heads of layer {layer}"
            )
        part = "biases" if "bias" in name else part
        part = f"MLP of layer {layer}" if "MLP" in name else part
        sums[part] = sums.get(part, 0.0) + number
    return sums


def total_effects(
    model: Model, tokens: Int[Tensor, " pos"], place: int, groups: Iterable[str]
) -> dict[str, float]:
    """By how much the logit of the token after `place`, above the mean, falls without some heads.

    groups: names such as "L1H0 and L1H3", of heads that are zero-ablated at once.
    """
    clean, found = model(tokens[None])[0, place], {}
    for names in groups:
        heads = [Head.parse(name) for name in names.split(" and ")]
        lost = clean - model(tokens[None], edits=ablate(model, heads))[0, place]
        found[names] = (lost[tokens[place + 1]] - lost.mean()).item()
    return found
