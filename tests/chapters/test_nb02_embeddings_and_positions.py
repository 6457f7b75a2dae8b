"""Notebook 02: words of a kind, how tokens are used, its pages and drawings."""

from itertools import combinations

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from chapters.nb02_embeddings_and_positions import figures, measure
from chapters.nb02_embeddings_and_positions.exercises import order_gap
from figure_checks import check_figures

pytestmark = pytest.mark.usefixtures("seeded")


def test_the_kinds_are_words_of_one_token_each(stories):
    tokenizer = stories.tokenizer
    words = [word for group in measure.kinds().values() for word in group]
    assert len(words) == len(set(words)) >= 40
    assert all(len(tokenizer.encode(" " + word)) == 1 for word in words)


def test_cosines_are_pytorchs():
    rows, others = torch.randn(5, 7), torch.randn(3, 7)
    expected = torch.cosine_similarity(rows[:, None], others[None], dim=-1)
    assert torch.allclose(measure.cosines(rows, others), expected, atol=1e-6)


PAIRED = "kite boat, lamp kite, map clock, drum boat, bell key, flute drum, book clock"
PAIRS = [tuple(pair.split()) for pair in PAIRED.split(", ")]


def most_alike():
    """The seven pairs of things with the most similar rows, which is another list."""
    short = load_checkpoint("stories-0l")
    things = sorted({thing for pair in PAIRS for thing in pair})
    at = [int(short.tokenizer.encode(" " + thing)[0]) for thing in things]
    alike = measure.cosines(short.W_E[at], short.W_E[at])
    ranked = sorted(combinations(range(10), 2), key=lambda pair: -alike[pair])
    return [(things[i], things[j]) for i, j in ranked[:7]]


def both_ways():
    """A model that knows distances alone, and sees both sides."""
    model = measure.random_model("relative", 4, causal=False)
    for layer in model.blocks:
        layer.attn.b_rel[:, 12:] = layer.attn.b_rel[:, 1:12].flip(1)
    return {"model": model, "tokens": torch.tensor([[0, 1, 2, 0, 3]])}


GIVEN = {"02.1": lambda: {"model": load_checkpoint("stories-0l")}, "02.4": both_ways}
ANSWERS = [
    ("02.1", ..., "not attempted"),
    ("02.1", PAIRS, "solved"),
    ("02.1", [(f" {b}", a) for a, b in PAIRS], "solved"),
    ("02.1", PAIRS[:6], "7 pairs, please; yours are 6"),
    ("02.1", [*PAIRS[:6], ("boat", "kite")], "the same pair"),
    ("02.1", [*PAIRS[:6], ("kite", "kite")], "most similar to itself"),
    ("02.1", [*PAIRS[:6], ("kite", "dog")], "'dog' is none"),
    ("02.1", [*PAIRS[:6], ("kite", "key")], "6 of your 7 pairs"),
    ("02.1", most_alike(), "most similar rows"),
    ("02.1", "kite boat", "A list of pairs"),
    ("02.2", lambda f, t, o: (f(t[:, o]) - f(t)).abs().max().item(), "not yet"),
    ("02.2", lambda f, t, o: (f(t[:, o]) - f(t)[:, o]).abs(), "not yet"),
    ("02.2", lambda f, t, o: 2 * order_gap(f, t, o), "not yet"),
    ("02.3", {1: [0, 1], 2: [0, 1, 2, 3]}, "solved"),
    ("02.3", {1: [0, 1, 2], 2: [0, 1, 2, 3]}, "does it see their order?"),
    ("02.3", {1: [0], 2: [0, 1, 2, 3]}, "can that go unnoticed?"),
    ("02.3", {1: [0, 1], 2: [0, 1]}, "who reads it in layer 2?"),
    ("02.3", {1: [0, 1, 2, 3], 2: [0, 1, 2, 3]}, "wrong about 2 of the 4 positions"),
    ("02.3", {1: [0, 1], 2: ...}, "not attempted"),
    ("02.3", [0, 1], "not yet"),
    ("02.3", {1: ..., 2: ...}, "not attempted"),
    ("02.4", ..., "not attempted"),
    ("02.4", [4, 3, 2, 1, 0], "solved"),
    ("02.4", [0, 1, 2, 3, 4], "order in which they stand"),
    ("02.4", [0, 4, 2, 3, 1], "Positions 0 and 1 were 1 apart, and now they are 4 apart"),
    ("02.4", [0, 1], "Each of the positions 0 to 4"),
]


def test_figures_can_be_read():
    groups, points = {"place": ["sea", "mill"], "food": ["soup"]}, torch.randn(3, 2)
    words, order, logits = ["a", "b", "c"], [2, 1, 0], torch.randn(3, 12)
    maps = {"rows": torch.eye(3)}
    one, other = torch.rand(2, 5, 5)
    pairs = {"rows": (one, other, "next"), "columns": (other, one, "previous")}
    texts = {"same": (logits, logits[order]), "not": (logits, logits[order] + 1)}
    check_figures(
        figures.word_map({"a": points, "b": 3 * points}, groups, ["soup"], "title", ["x", "y"]),
        figures.cosine_map(maps, words, [{"c", "a"}], "title", "dot"),
        figures.pairs_of_tokens(pairs, {"a, b": (0, 3), "a, c": (1, 4)}, "title"),
        figures.biases(torch.tensor([[0.4, 5.6, -1.0], [3.0, 0.0, 1.0]]), "title"),
        figures.reordered(texts, words, order, "title"),
    )
