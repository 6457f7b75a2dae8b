"""Notebook 19: repeated random tokens with one hidden, and the heads that look for it (S1, part 2).

A sequence of random tokens comes twice or three times; one token of the second copy is hidden. A
model that sees both sides can find it: the tokens around it stood elsewhere, too.
"""

import re
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from aot_helpers.base.errors import check_whole, unknown_name
from aot_helpers.models.protocol import Edits, Model
from aot_helpers.reading.heads import HeadScores, head_scores

KINDS = ("in order", "shuffled", "three times")  # S1, section 2.3 and its Fig. 6
TRIALS = 50  # S1, sections 2.2 and 2.3


@dataclass(frozen=True)
class Hidden:
    """Texts with one token hidden in each.

    tokens: [text, pos] as they are; seen: as the model sees them; at: [text], where the hidden
    token stands. length: of one copy, where the texts are copies; else 0. ids: the tokens that
    random texts are drawn from.
    """

    tokens: Int[Tensor, "text pos"]
    seen: Int[Tensor, "text pos"]
    at: Int[Tensor, " text"]
    length: int = 0
    ids: Int[Tensor, " id"] | None = None

    @property
    def answers(self) -> Int[Tensor, " text"]:
        """The hidden tokens."""
        return self.tokens.gather(1, self.at[:, None])[:, 0]


def hide(
    tokens: Int[Tensor, "text pos"], at: Int[Tensor, " text"], mask: int, length: int = 0, ids=None
) -> Hidden:
    """The texts with the token `mask` at position `at` of each.

    Raises ValueError for texts shorter than two tokens: nothing is left to guess from.
    """
    if tokens.shape[1] < 2:
        raise ValueError(
            f"texts of {tokens.shape[1]} token: with one hidden nothing is left to guess from; "
            "give texts of two tokens or more"
        )
    return Hidden(tokens, tokens.scatter(1, at[:, None], mask), at, length, ids=ids)


def repeats(
    kind: str,
    length: int,
    mask: int,
    bos: int = 0,
    n_texts: int = TRIALS,
    seed: int = 0,
    ids: Int[Tensor, " id"] | None = None,
) -> Hidden:
    """BOS, `length` different random tokens, and the same again, one of them hidden (S1, 2.3).

    kind: "in order"; "shuffled", where the second copy is in an order of its own; "three times".
    ids: what is drawn; None: all below mask, but for bos. The hidden token is neither the first nor
    the last of the second copy. Raises ValueError for an unknown kind and for too few ids.
    """
    if kind not in KINDS:
        raise unknown_name("kind of repeats", kind, KINDS)
    check_whole("length", length, 3, unit=" of tokens")
    if ids is None:
        ids = torch.tensor([token for token in range(mask) if token != bos])
    if len(ids) < length:
        raise ValueError(f"{length} different tokens cannot be drawn from {len(ids)}: shorten")
    generator = torch.Generator().manual_seed(seed)

    def order(n):
        return torch.stack([torch.randperm(n, generator=generator) for _ in range(n_texts)])

    first = ids[order(len(ids))[:, :length]]
    second = first.gather(1, order(length)) if kind == "shuffled" else first
    copies = [first, second, first] if kind == "three times" else [first, second]
    tokens = torch.cat([torch.full((n_texts, 1), bos), *copies], dim=1)
    at = torch.randint(length + 2, 2 * length, (n_texts,), generator=generator)
    return hide(tokens, at, mask, length, ids)


def whole_words(tokenizer, texts: list[str], longest: int = 6) -> Int[Tensor, " id"]:
    """The tokens that are a space and a word of 3 to `longest` lower-case letters: for drawings.

    Pieces that no text has as a word of its own are left out.
    """
    words = set(re.findall(rf"\b[a-z]{{3,{longest}}}\b", " ".join(texts)))
    strings = tokenizer.token_strings(torch.arange(tokenizer.d_vocab))
    return torch.tensor([each[:1] == " " and each[1:] in words for each in strings]).nonzero()[:, 0]


def eight_words(tokenizer, texts: list[str], mask: int, seed: int = 0) -> Hidden:
    """Eight words of these texts, twice, for drawings; the fifth of the second copy is hidden."""
    words = whole_words(tokenizer, texts)
    drawn = repeats("in order", 8, mask, tokenizer.bos, 8, seed + 4, words)
    return hide(drawn.tokens, torch.full((8,), 13), mask, 8)


def in_copy(hidden: Hidden, copy: int) -> Bool[Tensor, "text pos"]:
    """True at the positions of a copy, counted from 0."""
    at = torch.arange(hidden.tokens.shape[1])
    begin = 1 + copy * hidden.length
    return ((at >= begin) & (at < begin + hidden.length)).expand_as(hidden.tokens)


def with_random_tokens(hidden: Hidden, where: Bool[Tensor, "text pos"], seed: int = 0) -> Hidden:
    """The same, but tokens that the text has nowhere else are seen where `where` is True.

    `tokens` stay, so that places are still those of the copies.
    """
    generator = torch.Generator().manual_seed(seed + 7919)
    seen = hidden.seen.clone()
    for row in range(len(seen)):
        free = hidden.ids[~torch.isin(hidden.ids, hidden.tokens[row])]
        if len(free) < (n := int(where[row].sum())):
            raise ValueError(f"{n} other tokens are needed, {len(free)} are left: shorten")
        seen[row, where[row]] = free[torch.randperm(len(free), generator=generator)[:n]]
    return replace(hidden, seen=seen)


def other_copy(hidden: Hidden, copy: int = 0, seed: int = 0) -> Hidden:
    """A control: one copy (0: the first) is replaced by other random tokens."""
    return with_random_tokens(hidden, in_copy(hidden, copy), seed)


def _instance(hidden: Hidden, of: Tensor, copy: int) -> Int[Tensor, " text"]:
    """Where, in the first (0) or third (2) copy, the tokens stand that stand at `of`."""
    begin = 1 + copy * hidden.length
    there = hidden.tokens[:, begin : begin + hidden.length]
    asked = hidden.tokens.gather(1, of[:, None])
    return begin + (there == asked).int().argmax(dim=1)


# Where the hidden token's query may look: the positions of one key for each text (S1, Fig. 6).
PLACES = {
    "earlier instance": lambda hidden: _instance(hidden, hidden.at, 0),
    "token before it": lambda hidden: _instance(hidden, hidden.at, 0) - 1,
    "token after it": lambda hidden: _instance(hidden, hidden.at, 0) + 1,
    "later instance": lambda hidden: _instance(hidden, hidden.at, 2),
    "after the neighbor before": lambda hidden: _instance(hidden, hidden.at - 1, 0) + 1,
    "before the neighbor after": lambda hidden: _instance(hidden, hidden.at + 1, 0) - 1,
}


def keys_at(hidden: Hidden, place: str) -> Bool[Tensor, "text query key"]:
    """True at the key of a place, for the query of the hidden token alone.

    Raises ValueError for an unknown place, and for a later instance where there is no third copy.
    """
    if place not in PLACES:
        raise unknown_name("place", place, PLACES)
    n_texts, n_pos = hidden.tokens.shape
    if place == "later instance" and n_pos < 1 + 3 * hidden.length:
        raise ValueError("a later instance needs three copies: make them with 'three times'")
    keys = torch.zeros(n_texts, n_pos, n_pos, dtype=torch.bool)
    keys[torch.arange(n_texts), hidden.at, PLACES[place](hidden)] = True
    return keys


def induction_map(model: Model, hidden: Hidden, place: str = "earlier instance") -> HeadScores:
    """Mean attention of every head from the hidden token to a place, and its null (S1, Fig. 7)."""
    return head_scores(model, hidden.seen, keys_at(hidden, place))


@torch.no_grad()
def logits_of(model: Model, hidden: Hidden, edits: Edits | None = None) -> Tensor:
    """Logits at every position. Raises ValueError for a model that cannot guess a hidden token."""
    if model.config.causal:
        raise ValueError("a causal model does not see what follows the hidden token: load a masked")
    if model.W_U is None:
        raise ValueError(
            "this model has no masked-language head: its attention can be shown (induction_map), "
            "but it cannot guess; load a BertForMaskedLM, such as 'bert'"
        )
    return model(hidden.seen, edits=edits)


def hidden_accuracy(model: Model, hidden: Hidden, edits: Edits | None = None) -> float:
    """The share of hidden tokens that have the largest logit."""
    logits = logits_of(model, hidden, edits)[torch.arange(len(hidden.at)), hidden.at]
    return (logits.argmax(dim=-1) == hidden.answers).float().mean().item()
