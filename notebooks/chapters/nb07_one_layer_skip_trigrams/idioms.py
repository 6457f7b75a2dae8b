"""Notebook 07: does "keep" raise "bay" after "in" in a pretrained model, too?"""

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Model

VERB, RIGHT = "keep", {"in": "mind", "at": "bay"}
STARTS = ("We should", "They will", "You must", "I want to")
OBJECTS = ("them", "it", "the enemy", "this")
OTHER_VERBS = ("find", "see", "put", "leave", "bring", "send", "meet", "show")
# Nouns that follow one preposition and are no idiom with "keep": controls after the other one. Of
# love, risk and stake the values were known when the list was made, of the others not.
NOUNS = {
    "in": ("love", "vain", "advance", "debt", "doubt", "theory", "public", "general"),
    "at": ("risk", "stake", "random", "dawn", "noon", "war", "once", "last"),
}


def log_probs(
    model: Model, verb: str, preposition: str, nouns: list[str]
) -> Float[Tensor, "text noun"]:
    """The log-probability of each noun after 16 texts such as "We should VERB them PREPOSITION"."""
    encode, rows = model.tokenizer.encode, []
    ids = [encode(f" {noun}", bos=False) for noun in nouns]
    if long := [noun for noun, each in zip(nouns, ids, strict=True) if len(each) > 1]:
        raise ValueError(f"{long} are not single tokens of this model: take other nouns")
    for text in (f"{start} {verb} {thing} {preposition}" for start in STARTS for thing in OBJECTS):
        rows.append(model(encode(text, bos=True)[None])[0, -1].log_softmax(dim=-1))
    return torch.stack(rows)[:, torch.cat(ids)]


def pretrained(model: Model, name: str = "") -> dict:
    """What the entry 07 of `make data WHAT=pretrained` writes: for each preposition, by noun.

    p: mean probability after "keep"; raised: how much larger its mean log-probability is than after
    eight other verbs (nats).
    """
    found = {}
    for preposition in RIGHT:
        other = next(each for each in RIGHT if each != preposition)
        nouns = [RIGHT[preposition], RIGHT[other], *NOUNS[other]]
        kept = log_probs(model, VERB, preposition, nouns)
        others = [log_probs(model, verb, preposition, nouns).mean(dim=0) for verb in OTHER_VERBS]
        raised = kept.mean(dim=0) - torch.stack(others).mean(dim=0)
        found[preposition] = {
            noun: {"p": float(f"{p:.4g}"), "raised": round(more, 4)}
            for noun, p, more in zip(
                nouns, kept.exp().mean(dim=0).tolist(), raised.tolist(), strict=True
            )
        }
    return {"texts": len(STARTS) * len(OBJECTS), "verbs": OTHER_VERBS, "after": found}
