"""Evidence of notebook 24: prompts with two names, of people or of scholars."""

import random
from collections.abc import Sequence

import torch

from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import target_token
from aot_helpers.text.tokenization import Tokenizer
from chapters.nb24_who_says_mary.measure import NAMES
from evidence.support.nb24.templates import Group, as_group

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
