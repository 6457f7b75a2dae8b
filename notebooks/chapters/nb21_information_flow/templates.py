"""Prompts for notebook 21, with the token that the model says next and, if any, its rival."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.models.protocol import Model

_NAMES = ("Mary John", "Tom James", "Anna Mark", "Sarah Paul", "Lucy Peter", "Emma David")
_PLACES = ("store ring", "park book", "school drink", "station letter", "garden flower", "bar gift")
_GIVING = "When {a} and {b} went to the {place}, {b} gave a {thing} to"
_CAPITALS = """\
Japan Tokyo
France Paris
Italy Rome
Spain Madrid
England London
Russia Moscow
Egypt Cairo
Austria Vienna"""
_CAPITAL = "The capital of {country} is the city of"


class Prompt(NamedTuple):
    """A text's tokens, the token that comes next, and a rival for its logit (None: the mean)."""

    tokens: Int[Tensor, " pos"]
    target: int
    rival: int | None = None


def copy_prompts(
    model: Model, texts: list[str], n: int = 40, least: int = 12, most: int = 40
) -> list[Prompt]:
    """Beginnings of texts after which the model rightly says a pair's second token again.

    One of each text, `least` to `most` tokens long: the last token stood before, followed by the
    target, which has a letter, and the target is the model's first guess. No pair comes twice.
    Raises ValueError where there are too few.
    """
    found, known = [], set()
    for text in texts:
        tokens = model.tokenizer.encode(text, bos=True)[: most + 1]
        if len(tokens) <= least:
            continue
        with torch.no_grad():
            guesses = model(tokens[None])[0].argmax(dim=-1).tolist()
        row = tokens.tolist()
        pairs = list(zip(row, row[1:], strict=False))
        for p in range(least - 1, len(pairs)):
            said = model.tokenizer.decode(row[p + 1 : p + 2])
            again = pairs[p] in pairs[:p] and pairs[p] not in known
            if again and guesses[p] == row[p + 1] and any(map(str.isalpha, said)):
                known.add(pairs[p])
                found.append(Prompt(tokens[: p + 1], row[p + 1]))
                break
        if len(found) == n:
            return found
    raise ValueError(f"{len(found)} of the texts repeat a pair rightly, {n} are wanted: give more")


def written_prompts(model: Model) -> tuple[list[Prompt], int]:
    """Gifts and capitals that the model answers rightly, and how many were asked.

    The rival of a name is the other name; a capital has the next country's.
    """
    asked = []
    for i, pair in enumerate(_NAMES):
        for names in (pair.split(), pair.split()[::-1]):
            place, thing = _PLACES[i].split()
            text = _GIVING.format(a=names[0], b=names[1], place=place, thing=thing)
            asked.append((text, names))
    capitals = [line.split() for line in _CAPITALS.split("\n")]
    for i, (country, capital) in enumerate(capitals):
        asked.append((_CAPITAL.format(country=country), (capital, capitals[i - 1][1])))
    found = []
    for text, words in asked:
        tokens = model.tokenizer.encode(text)
        ids = [model.tokenizer.encode(f" {word}").tolist() for word in words]
        with torch.no_grad():
            guess = int(model(tokens[None])[0, -1].argmax())
        if len(ids[0]) == len(ids[1]) == 1 and guess == ids[0][0]:
            found.append(Prompt(tokens, ids[0][0], ids[1][0]))
    return found, len(asked)
