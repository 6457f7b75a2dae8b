"""Evidence of notebook 17: what a head follows, by words at other places and others at the same."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.text.tokenization import Tokenizer
from chapters.nb17_attention_maps.measure import AFTER, ORDERS, single_pieces


@torch.no_grad()
def _toward_four(
    model: Model, tokens: Int[Tensor, "noun order pos"], what: str
) -> list[Float[Tensor, "noun order head query place"]]:
    """For each layer, the patterns or scores of AFTER's words over the four, a noun at a time."""
    found = []
    for orders in tokens:
        _, cache = model.run_with_cache(orders)
        layers = [cache[f"L{i}.{what}"] for i in range(model.config.n_layers)]
        found.append([each[:, :, 5:, 1:5].double() for each in layers])
    return [torch.stack(layer) for layer in zip(*found, strict=True)]


def seen_places(
    model: Model, tokens: Int[Tensor, "noun order pos"]
) -> Float[Tensor, "head order place"]:
    """How AFTER's words divide what they give to the four words, by place: mean over nouns."""
    four = torch.cat(_toward_four(model, tokens, "pattern"), dim=2)
    shares = (four / four.sum(dim=-1, keepdim=True).clamp(min=1e-30)).mean(dim=3)
    return shares.mean(dim=0).transpose(0, 1)


def place_table(
    seen: Float[Tensor, "order place"], word: int = 1
) -> Float[Tensor, "stands_at looked_at"]:
    """Where one of FOUR stands (rows) and which place is looked at: mean over the orders."""
    stands = torch.tensor([order.index(word) for order in ORDERS])
    return torch.stack([seen[stands == place].mean(dim=0) for place in range(4)])


def word_or_place(table: Float[Tensor, "stands_at looked_at"], home: int = 1) -> float:
    """From -1, only the home place is looked at, to 1, only the word; the word away from home."""
    away = [place for place in range(4) if place != home]
    word, place = table.diagonal()[away].mean(), table[away, home].mean()
    return ((word - place) / (word + place)).item()


def word_among_others(
    table: Float[Tensor, "stands_at looked_at"],
) -> tuple[Float[Tensor, " place"], Float[Tensor, " place"]]:
    """What the word gets at each place, and what the other words get there on average."""
    others = (table.sum(dim=0) - table.diagonal()) / (len(table) - 1)
    return table.diagonal(), others


def made_to_follow(what: str) -> Float[Tensor, "order place"]:
    """Attention that follows the "word" (the noun), or the "place" (the second), by 0.7 of it."""
    seen = torch.full((len(ORDERS), 4), 0.1, dtype=torch.double)
    for row, order in zip(seen, ORDERS, strict=True):
        row[order.index(1) if what == "word" else 1] = 0.7
    return seen


def left_by_word_and_distance(
    model: Model, tokens: Int[Tensor, "noun order pos"]
) -> Float[Tensor, " layer"]:
    """The share of a layer's scores that a part for the word and one for the distance leave.

    For each noun and head, over queries × ORDERS × places: first, for each query, the scores less
    the mean of each word and of each place; then how much the places' means, from one place to the
    next, differ from those of the next query, one place on. Of all variance, the larger share.
    """
    orders, shares = torch.tensor(ORDERS), []
    for scores in _toward_four(model, tokens, "scores"):
        scores = scores.permute(0, 2, 3, 1, 4)  # [noun, head, query, order, place]
        scores = scores - scores.mean(dim=(3, 4), keepdim=True)
        by_place = scores.mean(dim=3, keepdim=True)
        left = scores - by_place
        for word in range(4):  # each stands equally often at every place
            stands = (orders == word).double()
            mean = (scores * stands).sum(dim=(3, 4), keepdim=True) / stands.sum()
            left = left - mean * stands
        steps = by_place[..., 0, :].diff(dim=-1)  # [noun, head, query, step]
        other = (steps[:, :, 1:, 1:] - steps[:, :, :-1, :-1]) * math.sqrt(len(ORDERS))
        parts = left.square().sum(dim=(2, 3, 4)), other.square().sum(dim=(2, 3))
        shares.append((torch.stack(parts) / scores.square().sum(dim=(2, 3, 4))).max())
    return torch.stack(shares)


def at_second_place(model: Model, tokenizer: Tokenizer, words) -> Float[Tensor, "head word"]:
    """What AFTER's words give to the second word of "This … is", of all they give to words."""
    this, is_ = single_pieces(tokenizer, ("This", "is"))
    after, bos = single_pieces(tokenizer, AFTER), tokenizer.bos
    second = single_pieces(tokenizer, words)
    rows = [torch.tensor([bos, this, word, is_, *after.tolist()]) for word in second]
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.stack(rows))
    patterns = [cache[f"L{i}.pattern"].double() for i in range(model.config.n_layers)]
    seen = torch.cat(patterns, dim=1)[:, :, 4:, 1:]
    return (seen[..., 1] / seen.sum(dim=-1).clamp(min=1e-30)).mean(dim=2).T


def chance_of_more(some: Float[Tensor, " n"], others: Float[Tensor, " m"]) -> float:
    """The chance that one of the first is larger than one of the others; ties count half."""
    pairs = some[:, None] - others
    return ((pairs > 0).double() + 0.5 * (pairs == 0).double()).mean().item()
