"""A rival of the topic head: one of seven nouns, or else the first word; on other openings."""

from itertools import combinations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from chapters.nb17_attention_maps.measure import NOUNS, OPENINGS, Maps

FIRST, N_LIKED = 3, 7  # the first row that counts; how many nouns a rule names


def looked_at(maps: list[Maps], head: int) -> Int[Tensor, "noun opening row"]:
    """The number of the word that gets most, from every row; prompts in the order of `openings`."""
    most = torch.stack([each.words[head].argmax(dim=-1) for each in maps])
    return most.view(len(NOUNS), len(OPENINGS), -1)


def nouns_in(maps: list[Maps]) -> Int[Tensor, "noun opening row"]:
    """Which of NOUNS each word is; -1 for any other."""
    number = {noun: i for i, noun in enumerate(NOUNS)}
    rows = torch.tensor([[number.get(word, -1) for word in each.text.words] for each in maps])
    return rows.view(len(NOUNS), len(OPENINGS), -1)


def rule_hits(
    most: Int[Tensor, "noun opening row"], nouns: Int[Tensor, "noun opening row"], liked: list[int]
) -> Float[Tensor, " opening"]:
    """How often, in each opening, the last of the liked nouns gets most, or else the first word."""
    row = torch.arange(most.shape[-1])
    last = torch.where(torch.isin(nouns, torch.tensor(liked)), row, 0).cummax(dim=-1).values
    return (most == last)[..., FIRST:].double().mean(dim=(0, 2))


def over_halves(
    most: Int[Tensor, "noun opening row"],
    nouns: Int[Tensor, "noun opening row"],
    by_lot: torch.Generator | None = None,
) -> Float[Tensor, "way rule"]:
    """Hits on one half of the openings, for all ways to choose on the other: rival, topic, first.

    by_lot: draw the seven nouns instead of taking those that are looked at most as the topic.
    """
    on_topic = (most == 1)[..., FIRST:].double().mean(dim=2)  # the second word: [noun, opening]
    first, found = rule_hits(most, nouns, []), []
    for half in combinations(range(len(OPENINGS)), len(OPENINGS) // 2):
        chosen = torch.tensor(half)
        other = torch.tensor([i for i in range(len(OPENINGS)) if i not in half])
        order = on_topic[:, chosen].mean(dim=1).argsort(descending=True)
        if by_lot is not None:
            order = torch.randperm(len(NOUNS), generator=by_lot)
        rival = rule_hits(most, nouns, order[:N_LIKED].tolist())
        found.append([rival[other].mean(), on_topic[:, other].mean(), first[other].mean()])
    return torch.tensor(found, dtype=torch.double)
