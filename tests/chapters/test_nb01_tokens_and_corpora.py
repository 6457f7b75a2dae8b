"""Notebook 01: vocabularies of several sizes, names that go on, and the exercises."""

import math

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.text import batches, tokenization
from chapters.nb01_tokens_and_corpora import exercises, figures, measure
from figure_checks import check_figures

TEXTS = ["the cat saw the dog. the dog saw the cat. " * 3, "a bird sang to a cat. " * 4]
TOKENIZER = tokenization.train_bpe(TEXTS, 300)
TOKENS = TOKENIZER.encode_many(TEXTS)


def test_pair_counts_are_those_of_a_plain_loop():
    counts = batches.pair_counts([torch.tensor([5, 6, 5, 6, 7]), torch.tensor([6, 5])], 10)
    expected = torch.zeros(10, 10, dtype=torch.long)
    for a, b in [(0, 5), (5, 6), (6, 5), (5, 6), (6, 7), (0, 6), (6, 5)]:
        expected[a, b] += 1
    assert torch.equal(counts, expected)


def test_a_smaller_vocabulary_is_the_larger_one_stopped_earlier():
    for size in (257, 265, TOKENIZER.d_vocab):
        stopped, anew = measure.first_merges(TOKENIZER, size), tokenization.train_bpe(TEXTS, size)
        assert stopped.d_vocab == size and measure.merges(stopped) == measure.merges(anew)
        for text in TEXTS:
            assert torch.equal(stopped.encode(text), anew.encode(text))
            assert stopped.decode(stopped.encode(text)) == text
    assert measure.merges(TOKENIZER)[0] in zip("".join(TEXTS), "".join(TEXTS)[1:], strict=False)


@pytest.mark.parametrize("size", [256, 301])
def test_a_size_that_the_vocabulary_never_had_is_an_error(size):
    with pytest.raises(ValueError, match=rf"from 257 to {TOKENIZER.d_vocab}, got {size}"):
        measure.first_merges(TOKENIZER, size)


def _mean_of_ratios(losses, strings):
    return (losses / torch.tensor([float(len(each)) for each in strings])).mean()


def cost(before, name):
    """Nats per token of a name after a text."""
    stories = load_checkpoint("stories-2l")
    ids = stories.tokenizer.encode(f"{before} {name}", bos=True)
    n = len(stories.tokenizer.encode(" " + name)) - 1
    with torch.no_grad():
        log_p = stories(ids[None, :-1])[0].log_softmax(dim=-1)
    return -log_p[range(len(ids) - 1), ids[1:]][-n:].mean()


GIVEN = {
    "01.2": lambda: {"tokenizer": TOKENIZER},
    "01.4": lambda: {
        "name": "Duro Semin",
        "cost": cost,
        "tokenizer": load_checkpoint("stories-2l").tokenizer,
    },
}
ANSWERS = [
    *(("01.1", wrong, message) for message, wrong in exercises.WRONG_MERGES.items()),
    ("01.1", lambda p, q: p, "For the arguments"),
    ("01.2", ..., "not attempted"),
    ("01.2", "the cat", "no more than letters"),
    ("01.2", 3, "A text is wanted"),
    ("01.2", "日本", "6 tokens for 2 letters"),
    ("01.2", "日", "3 tokens for 1 letter:"),
    ("01.3", lambda losses, strings: losses.mean(), "per token"),
    ("01.3", lambda losses, strings: losses.sum(), "whole text"),
    ("01.3", _mean_of_ratios, "short tokens count too much"),
    ("01.3", lambda x, s: x.sum() / len("".join(s).replace(" ", "")), "leave out the spaces"),
    ("01.3", lambda x, s: x.sum() / len("".join(s)) / math.log(2), "bits"),
    ("01.4", ..., "not attempted"),
    ("01.4", "Duro", "letters of Duro Semin in their order"),
    ("01.4", "DURO SEMIN", "Without capitals"),
    ("01.4", "Durosemin", "both have 'em' 'in' side by side"),
    ("01.4", "D u r o S e m i n", "solved"),
]


def test_a_name_that_begins_the_text_goes_on_after_its_own_initial_only(stories):
    people = [("Duro Semin", "Mila Golun"), ("Busa Mobis", "Tosa Lenir")]
    assert measure.goes_on(stories, people, own=True) > 0.8
    assert measure.goes_on(stories, people, own=False) < 0.2


def test_the_figures_can_be_read():
    cut = TOKENIZER.token_strings(TOKENS[0][:20])
    check_figures(
        figures.pieces({"": {"BPE": cut}, "b": {"BPE": cut[:9]}}, "title"),
        figures.costs((257, 512), (2.1, 2.3), (2.1, 0.8), 0.2, "title"),
    )
