"""Notebook 12: pieces of text, their losses, and stories whose friend is called by words."""

import itertools
import random
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Model
from aot_helpers.text.batches import token_stream
from aot_helpers.text.corpora import load_corpus

LENGTH = 127  # tokens of text in a piece, after BOS
WORDS = """
tower harbour island garden hills mill sea forest market school river bridge winter night day
evening afternoon morning kite key bell drum lamp book clock flute boat map rain snow wind sun
fog thunder bread soup apples cheese honey fish
""".split()  # of the stories, each of them one token after a space  # noqa: SIM905
Texts = Int[Tensor, "text pos"]
Losses = Float[Tensor, "text next"]


def cut(texts: list[Int[Tensor, " _"]], n: int, bos: int) -> Int[Tensor, "n 128"]:
    """N disjoint pieces of a line of texts, cut anywhere: BOS and 127 tokens each.

    Raises ValueError where the texts are too short for that.
    """
    line = token_stream(texts, bos)
    if not 1 <= n <= len(line) // LENGTH:
        raise ValueError(f"n must be 1 to {len(line) // LENGTH}, the pieces there are; got {n}")
    return F.pad(line[: n * LENGTH].view(n, LENGTH), (1, 0), value=bos)


@torch.no_grad()
def losses_of(model: Model, texts: Texts, edits: Edits | None = None, at_once: int = 25) -> Losses:
    """Loss (nats) of every next token, so many texts at a time.

    Entry t of a row is the loss of the token with t tokens of text (and BOS) before it.
    """
    return torch.cat([next_token_losses(model(t, edits=edits), t) for t in texts.split(at_once)])


class Cast(NamedTuple):
    """Stories with two people each, and where a name that was read before goes on.

    hero, friend: [text, query, key], True at the keys that followed the query's token in earlier
    mentions of that person.
    """

    tokens: Int[Tensor, "text pos"]
    hero: Bool[Tensor, "text query key"]
    friend: Bool[Tensor, "text query key"]


def cast(tokenizer, renamed: bool = False, n_texts: int = 60) -> Cast:
    """The beginnings of unread stories: BOS and up to 127 tokens, filled up with BOS.

    renamed: the friend, who never opens a story, is called by three words that stand nowhere else
    in it.
    """
    found = load_corpus("stories", "test", quiet=True)
    rng, rows, follows = random.Random(0), [], []
    for text, (hero, friend) in zip(found.texts, found.truth.names, strict=True):
        if text.startswith(friend) or set(hero.split()) & set(friend.split()):
            continue
        words = rng.sample([word for word in WORDS if word not in text], 3)
        name = " ".join(words) if renamed else friend
        tokens = tokenizer.encode(text.replace(friend, name), bos=True)[: LENGTH + 1]
        rows.append(F.pad(tokens, (0, LENGTH + 1 - len(tokens)), value=tokenizer.bos))
        people = [tokenizer.encode(f" {who}").tolist() for who in (hero, name)]
        follows.append(torch.stack([_goes_on(rows[-1].tolist(), who) for who in people]))
        if len(rows) == n_texts:
            break
    return Cast(torch.stack(rows), *torch.stack(follows, dim=1))


def _goes_on(text: list[int], name: list[int]) -> Bool[Tensor, "query key"]:
    """True where a query inside a later mention of the name meets what followed in earlier ones."""
    follows = torch.zeros(len(text), len(text), dtype=torch.bool)
    starts = [i for i in range(len(text)) if text[i : i + len(name)] == name]
    for i, j in itertools.combinations(starts, 2):
        for k in range(len(name) - 1):
            follows[j + k, i + k + 1] = True
    return follows
