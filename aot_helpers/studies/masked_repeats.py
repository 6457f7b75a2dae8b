"""Notebook 19: repeated random tokens with one hidden, and the heads that look for it (S1, part 2).

A sequence of random tokens comes twice or three times; one token of the second copy is hidden. A
model that sees both sides can find it: the tokens around it stood elsewhere, too.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
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
    token stands. length: of one copy, where the texts are copies; else 0. start: of the first.
    """

    tokens: Int[Tensor, "text pos"]
    seen: Int[Tensor, "text pos"]
    at: Int[Tensor, " text"]
    length: int = 0
    start: int = 1

    @property
    def answers(self) -> Int[Tensor, " text"]:
        """The hidden tokens."""
        return self.tokens.gather(1, self.at[:, None])[:, 0]


def hide(
    tokens: Int[Tensor, "text pos"], at: Int[Tensor, " text"], mask: int, length: int = 0
) -> Hidden:
    """The texts with the token `mask` at position `at` of each."""
    return Hidden(tokens, tokens.scatter(1, at[:, None], mask), at, length)


def repeats(
    kind: str, length: int, mask: int, bos: int = 0, n_texts: int = TRIALS, seed: int = 0
) -> Hidden:
    """BOS, `length` different random tokens, and the same again, one of them hidden (S1, 2.3).

    kind: "in order"; "shuffled", where the second copy is in an order of its own; "three times".
    The ids below mask, but for bos, are drawn. The hidden token is neither the first nor the last
    of the second copy. Raises ValueError for an unknown kind and for too few ids.
    """
    if kind not in KINDS:
        raise unknown_name("kind of repeats", kind, KINDS)
    check_whole("length", length, 3, unit=" of tokens")
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
    return hide(tokens, at, mask, length)


def _instance(hidden: Hidden, of: Tensor, copy: int) -> Int[Tensor, " text"]:
    """Where, in the first (0) or third (2) copy, the tokens stand that stand at `of`."""
    begin = hidden.start + copy * hidden.length
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
    if place == "later instance" and n_pos < hidden.start + 3 * hidden.length:
        raise ValueError("a later instance needs three copies: make them with 'three times'")
    keys = torch.zeros(n_texts, n_pos, n_pos, dtype=torch.bool)
    keys[torch.arange(n_texts), hidden.at, PLACES[place](hidden)] = True
    return keys


def induction_map(model: Model, hidden: Hidden, place: str = "earlier instance") -> HeadScores:
    """Mean attention of every head from the hidden token to a place, and its null (S1, Fig. 7)."""
    return head_scores(model, hidden.seen, keys_at(hidden, place))


@torch.no_grad()
def hidden_losses(
    model: Model, hidden: Hidden, edits: Edits | None = None
) -> Float[Tensor, " text"]:
    """What each hidden token costs, in nats."""
    logits = model(hidden.seen, edits=edits)
    return F.cross_entropy(
        logits[torch.arange(len(hidden.at)), hidden.at], hidden.answers, reduction="none"
    )


@torch.no_grad()
def hidden_accuracy(model: Model, hidden: Hidden, edits: Edits | None = None) -> float:
    """The share of hidden tokens that have the largest logit."""
    logits = model(hidden.seen, edits=edits)[torch.arange(len(hidden.at)), hidden.at]
    return (logits.argmax(dim=-1) == hidden.answers).float().mean().item()


def nested(
    texts: Int[Tensor, "text pos"], sizes: list[int], mask: int, seed: int = 0
) -> list[Hidden]:
    """The same hidden token of each text in windows of several sizes, the smaller in the larger.

    The token stands at random in the smallest window, which begins every larger one. Raises
    ValueError for sizes that do not grow or are longer than the texts.
    """
    n_texts, n_pos = texts.shape
    if sizes != sorted(set(sizes)) or sizes[0] < 2 or sizes[-1] > n_pos:
        raise ValueError(f"sizes must grow from 2 or more to at most {n_pos}, got {sizes}")
    generator = torch.Generator().manual_seed(seed)
    at = torch.randint(1, sizes[0], (n_texts,), generator=generator)
    return [hide(texts[:, :size], at, mask) for size in sizes]


@torch.no_grad()
def mean_over_all(model: Model, hidden: Hidden) -> Float[Tensor, " text"]:
    """S1's own loss of each text: the mean over all positions, of which all but one are visible."""
    logits = model(hidden.seen)
    losses = F.cross_entropy(logits.flatten(0, 1), hidden.tokens.flatten(), reduction="none")
    return losses.view_as(hidden.tokens).mean(dim=1)
