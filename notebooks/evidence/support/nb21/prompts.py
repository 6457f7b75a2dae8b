"""Gifts and capitals: prompts for models from outside, each with a rival for its answer."""

import torch

from aot_helpers.models.protocol import Model
from chapters.nb21_information_flow.measure import Prompt

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
