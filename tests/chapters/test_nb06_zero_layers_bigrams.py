"""Notebook 06: tables of pairs, a model of two matrices, its exercises and drawings."""

import math

import pytest
import torch

from aot_helpers.text.corpora import Corpus
from aot_helpers.text.planted import P_TAIL, write_planted
from aot_helpers.text.tokenization import words as words_of
from chapters.nb06_zero_layers_bigrams import figures
from chapters.nb06_zero_layers_bigrams import measure as bigrams
from chapters.nb06_zero_layers_bigrams.markov import markov_chain
from figure_checks import check_figures


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_letters_are_the_space_vowels_and_consonants_of_the_text():
    signs, stream = bigrams.letters_of("stories")
    assert signs[:6] == " aeiou" and list(signs[6:]) == sorted(signs[6:])
    assert set(stream.tolist()) == set(range(len(signs)))
    assert not ((stream[:-1] == 0) & (stream[1:] == 0)).any()  # never two spaces


def test_pairs_are_counted_by_present_and_next():
    pairs = bigrams.count_pairs(torch.tensor([0, 1, 1, 0, 1]), d_vocab=3)
    assert pairs.tolist() == [[0, 2, 0], [1, 1, 0], [0, 0, 0]]


def test_a_trained_product_comes_near_the_entropy_and_a_narrow_one_less():
    chain = markov_chain(12, seed=0)
    stream = chain.sample(20_000)
    full, narrow = (bigrams.train_pairs(stream, 12, d, steps=300) for d in (12, 1))
    assert [each.shape for each in narrow] == [(12, 1), (1, 12)]
    off = [chain.expected_loss(W_E @ W_U) - chain.entropy for W_E, W_U in (full, narrow)]
    assert 0 <= off[0] < 0.05 and off[1] > off[0] + 0.1
    again = bigrams.train_pairs(stream, 12, 12, steps=300)
    assert torch.equal(full[0], again[0]) and not full[0].requires_grad


def test_the_packages_model_has_the_rows_of_the_product_as_logits():
    W_E, W_U = torch.randn(7, 3), torch.randn(3, 7)
    tokens = torch.randint(7, (2, 10))
    model = bigrams.as_model(W_E, W_U)
    assert torch.allclose(model(tokens), (W_E @ W_U)[tokens], atol=1e-5)


def test_correlation_ignores_what_is_added_to_a_row_and_pairs_left_out():
    table, keep = torch.randn(6, 6), torch.rand(6, 6) > 0.3
    keep = bigrams.kept(keep.float(), least=1)
    assert not keep[0].any() and (keep.sum(dim=1) != 1).all()
    other = 3 * table + torch.randn(6, 1)
    other[~keep] = 99.0
    assert bigrams.correlation(table, other, keep) == pytest.approx(1, abs=1e-6)
    assert bigrams.centered(table, keep).sum() == pytest.approx(0, abs=1e-5)


def test_the_true_table_agrees_with_its_chain_and_a_blind_one_does_not():
    chain = markov_chain(12, seed=0)
    true = chain.P.clamp(min=1e-9).log() + torch.randn(12, 1)
    assert bigrams.against_chain(true, chain, 20_000) == pytest.approx((0, 1), abs=1e-4)
    blind = chain.stationary.clamp(min=1e-9).log().expand(12, -1)
    above, alike = bigrams.against_chain(blind, chain, 20_000)
    assert above == pytest.approx(chain.unigram_entropy - chain.entropy, abs=1e-4) and alike < 0.5
    often = bigrams.often_enough(chain, 20_000)
    assert (20_000 * chain.stationary[:, None] * chain.P)[often].min() >= 10
    assert often.sum() > bigrams.often_enough(chain, 2_000).sum() > 0


def test_a_line_between_two_groups_of_points_survives_any_invertible_matrix():
    points = torch.tensor([[0.0, 0.0], [1.0, 0.2], [0.5, 1.0], [3.0, 3.0], [4.0, 2.0]])
    inside = torch.tensor([True, True, True, False, False])
    for matrix in (torch.eye(2), torch.tensor([[1.0, 4.0], [0.3, -2.0]])):
        moved = points @ matrix
        *normal, offset = bigrams.line_between(moved, inside)
        assert ((moved @ torch.tensor(normal) > offset) == inside).all()
    cross = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert bigrams.line_between(cross, torch.tensor([True, True, False, False])) is None


def test_the_words_of_a_planted_corpus_are_charged_by_what_decides_them():
    texts, truth = write_planted(40, seed=3)
    words = words_of(texts)
    corpus = Corpus("planted", "test", texts, "generated", "none", synthetic=True, truth=truth)
    equal = bigrams.as_model(torch.zeros(words.d_vocab, 2), torch.zeros(2, words.d_vocab), 200)
    paid = bigrams.paid_by_kind({"equal": equal}, words, corpus)
    kinds = [kind for row in truth.kinds for kind in row]
    tails = sum(text.split().count(tail) for text in texts for tail in P_TAIL)
    assert len(paid["bigram"]) == kinds.count("bigram") + tails > tails > 0
    assert len(paid["free"]) == kinds.count("free") - tails
    for kind in ("bug", "skip-trigram", "copy", "repeat"):
        assert len(paid[kind]) == kinds.count(kind) > 0
        assert torch.allclose(paid[kind][:, 0], torch.tensor(words.d_vocab).float().log())
        assert paid[kind][:, 1].mean() == pytest.approx(truth.floor(kind), abs=1e-5)


def price(word):
    """What a word costs a letter."""
    return {"friends": 0.8, "nestheds": 0.7}.get(word, 0.9)


NOUNS = {"no layers": math.log(2), "knows the verb": 0.325}
ANSWERS = [
    ("06.1", lambda P: (P @ P).log() + torch.arange(len(P))[:, None], "solved"),
    ("06.1", lambda P: P @ P, "not yet"),
    ("06.1", lambda P: (P @ P).T.log(), "not yet"),
    ("06.1", lambda P: (P @ P).log()[0], "not yet"),
    ("06.1", lambda P: None, "not attempted"),
    ("06.2", "nestheds", "solved"),
    ("06.2", "theseds", "not yet"),  # too dear
    ("06.2", "enedees", "not yet"),  # known
    ("06.2", "sees", "not yet"),
    ("06.2", "deneden", "not yet"),
    ("06.2", 7, "not yet"),
    ("06.2", ..., "not attempted"),
    ("06.3", NOUNS, "solved"),
    ("06.3", NOUNS | {"knows the verb": 0.105}, "not yet"),
    ("06.3", dict.fromkeys(NOUNS, ...), "not attempted"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(verdict, number, answer, expected):
    given = {"cost": price, "signs": " dehnst", "known": {"enedees"}} if number == "06.2" else {}
    assert verdict(number, answer, **given) == expected


def test_figures_can_be_read():
    signs = " aeioubt"
    tables = {"counted": torch.rand(8, 8).softmax(-1), "learned": torch.rand(8, 8).softmax(-1)}
    tables["counted"][1, 2] = 0
    check_figures(
        figures.table_maps(tables, signs, "title"),
        figures.table_strip(tables, signs, ["b ", "ta"], "title"),
        figures.pairs(*tables.values(), signs, ["b ", "ta"], "title"),
        figures.against_truth(*tables.values(), tables["counted"] > 0.1, "title"),
        figures.letter_plane(torch.randn(8, 2), signs, "title"),
    )


def test_a_line_is_drawn_only_between_letters_that_it_parts():
    rows = torch.randn(8, 2) + torch.tensor([[9.0, 0.0]] * 6 + [[0.0, 0.0]] * 2)
    assert len(figures.letter_plane(rows, " aeioubt", "title").axes[0].lines) == 1
    rows[0], rows[6] = rows[6].clone(), rows[0].clone()
    assert not figures.letter_plane(rows, " aeioubt", "title").axes[0].lines
