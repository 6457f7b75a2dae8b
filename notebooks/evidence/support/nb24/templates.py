"""Evidence of notebook 24: stories in which someone is given something, and groups of prompts."""

import random
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.text.stories import CONSONANTS, PRONOUNS, VOWELS
from aot_helpers.text.tokenization import Tokenizer

STORY = "{A} lived near the {place} with two friends. Then {A} met {B}. {S} gave a {thing} to"
PLACES = ("river", "sea", "forest", "mill", "bridge", "tower", "garden", "school")
THINGS = ("red kite", "blue lamp", "new map", "small drum", "golden key", "heavy book")


class Group(NamedTuple):
    """Prompts of one form, so that a position means the same in all of them.

    The indirect object (io) is the name that comes once, the subject (s) the one that comes twice
    (and gives, or is given something). `other` is the same text with three other names.
    """

    tokens: Int[Tensor, "prompt pos"]
    other: Int[Tensor, "prompt pos"]
    io: Int[Tensor, " prompt"]  # its token, the first one of a longer name
    s: Int[Tensor, " prompt"]
    io_at: int
    s1_at: int
    s2_at: int


def story_prompts(model: Model, hero_gives: bool, n: int = 96, seed: int = 0) -> list[Group]:
    """Stories up to "gave a … to", with two invented names; in the model's own stories B gives.

    The tokens compared are the first pieces of the names, which differ.
    """
    rng, rows, length = random.Random(seed), [], None
    while len(rows) < n:
        A, B, C, D, E = (_name(model.tokenizer, rng) for _ in range(5))
        first = [model.tokenizer.encode(" " + name)[0].item() for name in (A, B)]
        more = dict(place=rng.choice(PLACES), thing=rng.choice(THINGS))
        S, IO = (A, B) if hero_gives else (B, A)
        texts = [STORY.format(A=A, B=B, S=S, **more), STORY.format(A=C, B=D, S=E, **more)]
        lengths = {len(model.tokenizer.encode(text)) for text in texts}
        length = length or max(lengths)
        pair = [first[1], first[0]] if hero_gives else first
        if first[0] != first[1] and lengths == {length} and len({A, B, C, D, E}) == 5:
            rows.append((texts, *pair))
    texts, io, s = zip(*rows, strict=True)
    return [as_group(model, list(texts), torch.tensor(io), torch.tensor(s))]


def _name(tokenizer: Tokenizer, rng: random.Random) -> str:
    """A name as the stories have them, of four pieces, with a space before it and without."""
    while True:
        pairs = [rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(3)]
        first = pairs[0] + rng.choice(CONSONANTS) + rng.choice(list(PRONOUNS))
        name = first.title() + " " + (pairs[1] + pairs[2]).title() + rng.choice("nrls")
        if {len(tokenizer.encode(space + name)) for space in ("", " ")} == {4}:
            return name


def as_group(model: Model, texts: list[list[str]], io: Tensor, s: Tensor) -> Group:
    """Texts and the same with other names as tokens, and where the names stand."""
    tokens, other = (
        torch.stack([model.tokenizer.encode(text, bos=True) for text in each])
        for each in zip(*texts, strict=True)
    )
    places = [(tokens == name[:, None]) for name in (io, s)]
    io_at, s_at = (where.all(dim=0).nonzero()[:, 0].tolist() for where in places)
    return Group(tokens, other, io, s, io_at[-1], s_at[0], s_at[-1])
