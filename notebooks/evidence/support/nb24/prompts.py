"""Evidence of notebook 24: groups of prompts with two names, of people, of scholars, of stories."""

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import target_token
from aot_helpers.text.stories import CONSONANTS, PRONOUNS, VOWELS
from aot_helpers.text.tokenization import Tokenizer
from chapters.nb24_who_says_mary.measure import NAMES

_SCHOLARS = "Euler Gauss Laplace Bernoulli Bessel Wigner Kronecker Risch"  # of docstrings
SCHOLARS = tuple(_SCHOLARS.split())
# {A} and {B} in this order; then S, one of them, gives something to the other.
TEMPLATES = (
    "When {A} and {B} went to the store, {S} gave a drink to",
    "After {A} and {B} came home, {S} handed the keys to",
    "Then {A} and {B} had a long talk, and {S} gave a book to",
    "While {A} and {B} were at the office, {S} sent a letter to",
    "Yesterday {A} and {B} met at the station. {S} showed the map to",
    "Once {A} and {B} had found a ring, {S} offered it to",
)
# The same, but S, who comes twice, is given something, and the other one gives.
RECEIVED = (
    "When {A} and {B} went to the store, {S} was given a drink by",
    "After {A} and {B} came home, {S} got the keys from",
    "Then {A} and {B} had a long talk, and {S} was lent a book by",
)
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


def as_group(model: Model, texts: list[list[str]], io: Tensor, s: Tensor) -> Group:
    """Texts and the same with other names as tokens, and where the names stand."""
    tokens, other = (
        torch.stack([model.tokenizer.encode(text, bos=True) for text in each])
        for each in zip(*texts, strict=True)
    )
    places = [(tokens == name[:, None]) for name in (io, s)]
    io_at, s_at = (where.all(dim=0).nonzero()[:, 0].tolist() for where in places)
    return Group(tokens, other, io, s, io_at[-1], s_at[0], s_at[-1])


def single_names(tokenizer: Tokenizer) -> list[str]:
    """Names of one token of this vocabulary, with a space: people, or else scholars."""
    for names in (NAMES, SCHOLARS):
        single = [name for name in names if len(tokenizer.encode(" " + name)) == 1]
        if len(single) >= 5:
            return single
    raise ValueError("this vocabulary has fewer than 5 of our names as one token: give your own")


def name_prompts(
    model: Model, names: Sequence[str], n: int = 8, seed: int = 0, templates=TEMPLATES
) -> list[Group]:
    """N prompts of each template and order of the names (who gives came first, or second).

    Raises ValueError for a name of several tokens and for fewer than 5 names.
    """
    tokens_of = {name: target_token(model, " " + name) for name in names}
    rng, groups = random.Random(seed), []
    if len(tokens_of) < 5:
        raise ValueError(f"5 different names or more are needed, 3 of them for `other`: {names}")
    for template in templates:
        for first_gives in (False, True):
            draws = [rng.sample(sorted(tokens_of), 5) for _ in range(n)]
            texts, pairs = [], []
            for A, B, C, D, E in draws:
                S, IO = (A, B) if first_gives else (B, A)
                texts.append([template.format(A=A, B=B, S=S), template.format(A=C, B=D, S=E)])
                pairs.append([tokens_of[IO], tokens_of[S]])
            io, s = torch.tensor(pairs).T
            groups.append(as_group(model, texts, io, s))
    return groups


def in_two_sentences(model: Model, seed: int = 0) -> tuple[list[Group], list[Group]]:
    """Prompts of TEMPLATES; and the same names and roles, prompt by prompt, in other sentences."""
    names, shifted = single_names(model.tokenizer), TEMPLATES[1:] + TEMPLATES[:1]
    groups = name_prompts(model, names, seed=seed)
    return groups, name_prompts(model, names, seed=seed, templates=shifted)


def halves(groups: list[Group]) -> tuple[list[Group], list[Group]]:
    """The first half of each group's prompts, and the second."""
    n = len(groups[0].tokens) // 2
    return tuple([subset(g, at) for g in groups] for at in (slice(n), slice(n, None)))


def subset(group: Group, at: slice) -> Group:
    """Some prompts of a group."""
    return Group(*(part[at] for part in group[:4]), *group[4:])


def name_ids(model: Model) -> Int[Tensor, " name"]:
    """The tokens of the names, with a space."""
    encode = model.tokenizer.encode
    return torch.tensor([int(encode(" " + name)[0]) for name in single_names(model.tokenizer)])


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
