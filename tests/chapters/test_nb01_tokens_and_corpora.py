"""Notebook 01: two rules, how often they are right, what they lose, and the exercises on them."""

import math

import pytest
import torch

from aot_helpers.text import tokenization
from chapters.nb01_tokens_and_corpora import figures, measure
from figure_checks import check_figures

TEXTS = ["the cat saw the dog. the dog saw the cat. " * 3, "a bird sang to a cat. " * 4]
TOKENIZER = tokenization.train_bpe(TEXTS, 300)
TOKENS = TOKENIZER.encode_many(TEXTS)


def test_pair_counts_are_those_of_a_plain_loop():
    counts = measure.pair_counts([torch.tensor([5, 6, 5, 6, 7]), torch.tensor([6, 5])], 10)
    expected = torch.zeros(10, 10, dtype=torch.long)
    for a, b in [(0, 5), (5, 6), (6, 5), (5, 6), (6, 7), (0, 6), (6, 5)]:
        expected[a, b] += 1
    assert torch.equal(counts, expected)


def test_the_last_guess_is_found_by_searching_backwards():
    for tokens in TOKENS:
        listed, guesses = tokens.tolist(), measure.last_guess(tokens)
        for i, guess in enumerate(guesses.tolist()):
            earlier = [j for j in range(i) if listed[j] == listed[i]]
            assert guess == (listed[earlier[-1] + 1] if earlier else -1)
        assert torch.equal(measure.last_match(tokens), guesses == tokens[1:])


def test_shares_lie_between_nothing_and_all_and_only_excludes_the_table():
    shares = measure.measure(TEXTS * 5, TEXTS * 5, 300)
    assert all(0 <= each <= 1 for values in shares.values() for each in values)
    for values, only in zip(shares["last match"], shares["last match only"], strict=True):
        assert only <= values
    given = measure.against_chance({"a": shares}, "last match only")
    for into, rule in (("values", "last match only"), ("control", "last match only, shuffled")):
        pairs = zip(shares[rule], shares["favorite only"], strict=True)
        assert given[into] == {"a": [share - least for share, least in pairs]}
    assert len(given["of"]["a"]) == measure.N_GROUPS


def test_losses_of_simple_models():
    losses = measure.simple_losses(TOKENIZER, TEXTS, TOKENS)
    assert losses["all tokens equal"] == pytest.approx(math.log(TOKENIZER.d_vocab))
    counts = measure.pair_counts(TOKENS, TOKENIZER.d_vocab, TOKENIZER.bos) + 0.1
    p = counts / counts.sum(dim=1, keepdim=True)
    each = [
        -p[a, b].log()
        for t in TOKENS
        for a, b in zip([TOKENIZER.bos, *t.tolist()[:-1]], t.tolist(), strict=True)
    ]
    assert losses["one token back"] == pytest.approx(float(sum(each)) / len(each), rel=1e-4)
    assert (
        losses["one token back + last match"] < losses["one token back"]
    )  # everything comes again


PER_LETTER = {
    size: sum(map(len, TOKENIZER.encode_many(TEXTS))) / sum(map(len, TEXTS)) for size in (512, 4096)
}


@pytest.mark.parametrize(
    ("number", "answer", "expected"),
    [
        ("01.2", (2.4 * PER_LETTER[512], 3.9 * PER_LETTER[4096]), "solved"),
        ("01.2", (2.4, 3.9), "not yet"),
        ("01.2", (2.4 * PER_LETTER[512], 0.1), "not yet"),
        ("01.2", "x", "not yet"),
        ("01.2", ..., "not attempted"),
        ("01.3", lambda tokens: [-1] * len(tokens), "not yet"),
        ("01.3", lambda tokens: None, "not attempted"),
    ],
)
def test_an_answer_is_judged(verdict, number, answer, expected):
    given = {
        "01.2": {"bpe": {512: TOKENIZER, 4096: TOKENIZER}, "texts": TEXTS},
        "01.3": {"texts": TOKENS},
    }
    assert verdict(number, answer, **given[number]) == expected


def test_the_folded_solutions_are_right(verdict, solution):
    assert verdict("01.1", solution("01.1", "merge")) == "solved"
    assert verdict("01.3", solution("01.3", "match_of_two"), texts=TOKENS) == "solved"


def test_the_figures_can_be_read():
    passage = measure.passage(TEXTS, TEXTS[0], 300, 20)
    check_figures(
        figures.colored({"a": passage}, "title"), figures.pieces({"BPE": passage[0]}, "title")
    )
