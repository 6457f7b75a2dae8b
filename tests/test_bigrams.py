"""Notebook 06: tables of pairs, a model of two matrices, its exercises and drawings."""

import math

import pytest
import torch

from aot_helpers.models.losses import next_token_losses
from aot_helpers.teaching.exercises import grade
from aot_helpers.text.corpora import Corpus
from aot_helpers.text.markov import markov_chain
from aot_helpers.text.planted import P_TAIL, write_planted
from aot_helpers.text.tokenization import words as words_of
from chapters.nb06_zero_layers_bigrams import figures as bigrams_drawings
from chapters.nb06_zero_layers_bigrams import measure as bigrams


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
    with pytest.raises(ValueError, match="steps >= 1 and d_model >= 1, got 0 and 3"):
        bigrams.train_pairs(stream, 12, 3, steps=0)


def test_expected_loss_of_the_true_table_is_the_entropy():
    chain = markov_chain(9, concentration=1.0, seed=1)
    assert chain.expected_loss(chain.P.clamp(min=1e-12).log()) == pytest.approx(
        chain.entropy, abs=1e-5
    )


def test_the_packages_model_has_the_rows_of_the_product_as_logits():
    W_E, W_U = torch.randn(7, 3), torch.randn(3, 7)
    tokens = torch.randint(7, (2, 10))
    model = bigrams.as_model(W_E, W_U)
    assert torch.allclose(model(tokens), (W_E @ W_U)[tokens], atol=1e-5)
    by_hand = -(W_E @ W_U).log_softmax(-1)[tokens[:, :-1], tokens[:, 1:]]
    assert torch.allclose(next_token_losses(model(tokens), tokens), by_hand, atol=1e-5)


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


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda P: (P @ P).log(), "solved"),
        (lambda P: (P @ P).log() + torch.arange(len(P))[:, None], "solved"),
        (lambda P: (P @ P).log() - (P @ P).log().mean(dim=1, keepdim=True), "solved"),
        (lambda P: P @ P, "not yet. These are probabilities. Of which logits"),
        (lambda P: P.log(), "not yet. That is the table of the next sign"),
        (lambda P: 2 * P.log(), "not yet. ln P twice squares each entry"),
        (lambda P: (P @ P).T.log(), "not yet. Turned round"),
        (lambda P: P, "not yet. Row "),
        (lambda P: (P @ P).log()[0], "not yet. For a P of 5 signs: 5 by 5 numbers, please"),
        (lambda P: None, "not attempted"),
    ],
)
def test_two_letters_ahead_up_to_a_number_for_each_row(capsys, answer, said):
    grade("06.1", answer)
    assert capsys.readouterr().out.startswith(f"exercise 06.1: {said}")


def cost(word):
    """The dearer, the more different letters."""
    return len(set(word)) / len(word)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("nestheds", "solved ('nestheds' costs 0.75 nats a letter, 'friends' 1.00)"),
        ("theseds", "not yet. 'theseds' costs 0.71"),
        ("enedees", "not yet. 'enedees' is a word of the text."),
        ("sees", "not yet. It has 4 letters; 7 are wanted."),
        ("deneden", "not yet. 'de' comes twice"),
        ("queen", "not yet. 'q', 'u': the model knows the letters dehnst alone."),
        (7, "not yet. A word is wanted, in quotation marks; got 7."),
        (..., "not attempted"),
    ],
)
def test_a_false_word(capsys, word, said):
    def price(word):
        return 0.6 if word == "friends" else cost(word)

    grade("06.2", word, cost=price if "0.71" in said else cost, signs=" dehnst", known={"enedees"})
    assert capsys.readouterr().out.startswith(f"exercise 06.2: {said}")


NOUNS = {"no layers": math.log(2), "knows the verb": 0.325}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (NOUNS, "solved"),
        (NOUNS | {"no layers": 0.7}, "solved"),
        (NOUNS | {"no layers": 1.0}, "not yet. no layers: the two words have chances 1/2"),
        (NOUNS | {"knows the verb": 0.105}, "not yet. knows the verb: the two words have chances"),
        (NOUNS | {"no layers": "much"}, "not yet. no layers: one number, please"),
        ([0.69, 0.33], "not yet. A dict with the keys no layers, knows the verb"),
        (dict.fromkeys(NOUNS, ...), "not attempted"),
    ],
)
def test_the_price_of_not_looking_back(capsys, answer, said):
    grade("06.3", answer)
    assert capsys.readouterr().out.startswith(f"exercise 06.3: {said}")


def test_drawings_name_what_they_show():
    signs = " aeioubt"
    tables = {"counted": torch.rand(8, 8).softmax(-1), "learned": torch.rand(8, 8).softmax(-1)}
    figure = bigrams_drawings.table_maps(tables, signs, "title")
    labels = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert labels == ["␣", *signs[1:]]
    figure = bigrams_drawings.table_strip(tables, signs, ["b ", "ta"], "title")
    assert [axis.get_title("left") for axis in figure.axes] == list(tables)
    named = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    assert named == [["b → ␣", "t → a"], []]
    assert all(sum(line.get_marker() == "s" for line in axis.lines) == 2 for axis in figure.axes)
    tables["counted"][1, 2] = 0
    figure = bigrams_drawings.pairs(*tables.values(), signs, ["b ", "ta"], "title")
    assert {"b → ␣", "t → a"} <= {text.get_text() for text in figure.axes[0].texts}
    never, seen = (len(dots.get_offsets()) for dots in figure.axes[0].collections[:2])
    assert (never, seen) == (1, 63)
    learnable = tables["counted"] > 0.1
    figure = bigrams_drawings.against_truth(*tables.values(), learnable, "title")
    rare, often = (len(dots.get_offsets()) for dots in figure.axes[0].collections)
    assert (rare, often) == ((~learnable).sum(), learnable.sum())
    figure = bigrams_drawings.letter_plane(torch.randn(8, 2), signs, "title")
    colors = {text.get_text(): text.get_color() for text in figure.axes[0].texts}
    assert colors["a"] == colors["e"] != colors["b"] == colors["t"]
    rows = torch.randn(8, 2) + torch.tensor([[9.0, 0.0]] * 6 + [[0.0, 0.0]] * 2)
    figure = bigrams_drawings.letter_plane(rows, signs, "title")
    legend = [text.get_text() for text in figure.texts]
    assert len(figure.axes[0].lines) == 1 and "parting vowels and ␣" in legend[-1]
    rows[0], rows[6] = rows[6].clone(), rows[0].clone()
    figure = bigrams_drawings.letter_plane(rows, signs, "title")
    assert not figure.axes[0].lines and len(figure.texts) == len(legend) - 1


def test_letters_that_overprint_are_moved_apart():
    rows = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.001, 0.0], [1.0, 1.0], [0.5, 0.9], [0.5, 0.2]])
    texts = bigrams_drawings.letter_plane(rows, " aeiou", "title").axes[0].texts
    places = torch.tensor([text.get_position() for text in texts])
    apart = (places[:, None] - places[None]).abs()
    touching = (apart[..., 0] < 0.02) & (apart[..., 1] < 0.05)
    assert touching.sum() == len(rows)  # each with itself
    assert (places - rows).abs().max() < 0.15 and torch.equal(places[3:], rows[3:])
