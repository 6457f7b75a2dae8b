"""Notebook 01: vocabularies of several sizes, and whether a name goes on."""

import json

import torch
from tokenizers import Tokenizer as Backend

from aot_helpers.models.protocol import Model
from aot_helpers.text import stories, tokenization


def merges(tokenizer: tokenization.Tokenizer) -> list[tuple[str, str]]:
    """The merges of a byte-level BPE in the order in which it learned them, a space as a space."""
    learned = json.loads(tokenizer.backend.to_str())["model"]["merges"]
    pairs = (each if isinstance(each, list) else each.split(" ") for each in learned)
    return [tuple(piece.replace("Ġ", " ") for piece in pair) for pair in pairs]


def first_merges(tokenizer: tokenization.Tokenizer, d_vocab: int) -> tokenization.Tokenizer:
    """A byte-level BPE as it was when its vocabulary had grown to d_vocab tokens.

    Raises ValueError where it never had as many, or began with more.
    """
    saved = json.loads(tokenizer.backend.to_str())
    model = saved["model"]
    least = tokenizer.d_vocab - len(model["merges"])
    if not least <= d_vocab <= tokenizer.d_vocab:
        raise ValueError(
            f"d_vocab must be from {least} to {tokenizer.d_vocab}, got {d_vocab}: learn it anew"
        )
    model["merges"] = model["merges"][: d_vocab - least]
    model["vocab"] = {piece: i for piece, i in model["vocab"].items() if i < d_vocab}
    backend = Backend.from_str(json.dumps(saved))
    return tokenization.Tokenizer(
        backend, "BPE", tokenizer.source, bos=tokenizer.bos, pad=tokenizer.pad
    )


@torch.no_grad()
def goes_on(model: Model, people: list[tuple[str, str]], own: bool) -> float:
    """The mean probability that a name which began the text goes on as it did.

    people: (who begins the text, whom it tells). The text ends in an initial after a space: that of
    the first name, or, if not own, the next letter that begins neither name.
    """
    initials, found = stories.CONSONANTS.upper(), []
    for name, friend in people:
        _, goes = model.tokenizer.encode(" " + name)[:2]  # the initial, and what follows it
        at = initials.index(name[0])
        others = [each for each in initials[at:] + initials[:at] if each not in name + friend]
        initial = name[0] if own else others[0]
        text = f"{name} told {friend} about the red kite. Then {initial}"
        logits = model(model.tokenizer.encode(text, bos=True)[None])[0, -1]
        found.append(logits.softmax(dim=-1)[goes].item())
    return sum(found) / len(found)
