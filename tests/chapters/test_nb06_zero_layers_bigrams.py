"""Notebook 06: letters and what follows them, its exercises and drawings."""

import pytest
import torch

from chapters.nb06_zero_layers_bigrams import exercises, figures
from chapters.nb06_zero_layers_bigrams import measure as bigrams
from evidence.support.nb06 import markov_chain
from figure_checks import check_figures

pytestmark = pytest.mark.usefixtures("seeded")


def test_letters_are_the_space_vowels_and_consonants_of_a_text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The cat -- it's a CAT!", encoding="utf-8")
    letters = bigrams.letters_of(str(path)).tolist()
    assert "".join(bigrams.SIGNS[i] for i in letters).strip() == "the cat it s a cat"
    assert len(set(bigrams.SIGNS)) == len(bigrams.SIGNS) == 27


def test_pairs_are_counted_by_present_and_next():
    pairs = bigrams.count_pairs(torch.tensor([0, 1, 1, 0, 1]), d_vocab=3)
    assert pairs.tolist() == [[0, 2, 0], [1, 1, 0], [0, 0, 0]]


def test_longer_contexts_lose_what_a_chain_and_its_square_say():
    chain = markov_chain(8, seed=0)
    read, unread = (chain.sample(40_000, seed=i) for i in (1, 2))
    none, one, two = bigrams.context_losses(read, unread, 8, most=2)
    assert none == pytest.approx(chain.unigram_entropy, abs=0.03)
    assert one == pytest.approx(chain.entropy, abs=0.03) and two == pytest.approx(one, abs=0.03)
    pairs = torch.stack([read[::2], read[1::2]]).T.tolist()  # the second decides, with the first
    text = torch.tensor([each for a, b in pairs for each in (a, b, (a + b) % 8)])
    _, one, two = bigrams.context_losses(text, text, 8, most=2)
    assert two < one - 0.3


def test_a_line_between_two_groups_of_points_survives_any_invertible_matrix():
    points = torch.tensor([[0.0, 0.0], [1.0, 0.2], [0.5, 1.0], [3.0, 3.0], [4.0, 2.0]])
    inside = torch.tensor([True, True, True, False, False])
    for matrix in (torch.eye(2), torch.tensor([[1.0, 4.0], [0.3, -2.0]])):
        moved = points @ matrix
        *normal, offset = bigrams.line_between(moved, inside)
        assert ((moved @ torch.tensor(normal) > offset) == inside).all()
    cross = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    assert bigrams.line_between(cross, torch.tensor([True, True, False, False])) is None


def price(word):
    """What a word costs a letter."""
    return {"whether": 0.8, "nestheds": 0.7}.get(word, 0.9)


def parts(share):
    """P(next | present) and the frequency of each sign."""
    frequency = share.sum(dim=1)
    return share / frequency[:, None], frequency


def lift(share):
    P, frequency = parts(share)
    return (P / frequency).clamp(min=1e-9).log()


def unclamped(share):
    P, frequency = parts(share)
    return share * (P / frequency).log()


def against_the_present(share):
    P, frequency = parts(share)
    return share * (P / frequency[:, None]).clamp(min=1e-9).log()


def one_number(at, toward, by):
    """W_E [n, 1] with 1 at some signs, W_U [1, n] with `by` at others."""
    W_E, W_U = torch.zeros(len(SIGNS), 1), torch.zeros(1, len(SIGNS))
    W_E[[SIGNS.index(sign) for sign in at]] = 1
    W_U[0, [SIGNS.index(sign) for sign in toward]] = by
    return W_E, W_U


SIGNS = bigrams.SIGNS
CONSONANTS = SIGNS[6:]
EXCEPTION, RULE = one_number("q", "u", 7), one_number(CONSONANTS, "aeiou", 2)
GIVEN = {
    "06.2": lambda: {"signs": SIGNS},
    "06.4": lambda: {"cost": price, "signs": " dehnst", "known": {"enedees"}},
}
ANSWERS = [
    ("06.1", lambda share: exercises.saved(share.double()), "solved"),
    ("06.1", lift, "How often is that"),
    ("06.1", lambda share: parts(share)[0] * lift(share), "rare letter"),
    ("06.1", lambda share: -exercises.saved(share), "sign is turned"),
    ("06.1", unclamped, "nan"),
    ("06.1", against_the_present, "*next* letter"),
    ("06.1", lambda share: exercises.saved(share)[0], "not yet"),
    ("06.1", lambda share: None, "not attempted"),
    ("06.2", (EXCEPTION, RULE), "solved"),
    ("06.2", (one_number("q", "u", 3), RULE), "0.9 is wanted"),
    ("06.2", (one_number("u", "q", 7), RULE), "Turned round"),
    ("06.2", (one_number(SIGNS, "u", 7), RULE), "Which letters should use"),
    ("06.2", (EXCEPTION, one_number(CONSONANTS, "aeiou", 1)), "5 times are wanted"),
    ("06.2", (EXCEPTION, one_number(CONSONANTS[1:], "aeiou", 2)), "after 'b'"),
    ("06.2", (EXCEPTION, one_number(SIGNS, "aeiou", 2)), "all signs should be equally likely"),
    ("06.2", (one_number("", "", 0), one_number("", "", 0)), "not attempted"),
    ("06.3", [[1.0], [2.0], [3.0]], "solved"),
    ("06.3", [[1.0, 0.1], [0.1, 1.0], [3.0, 3.0]], "solved"),
    ("06.3", [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], "3 of the 3"),
    ("06.3", [[1.0], [1.0], [1.0]], "equally likely"),
    ("06.3", [1.0, 2.0, 3.0], "Three rows"),
    ("06.3", "ABC", "Three rows of numbers"),
    ("06.3", torch.eye(3).tolist(), "not attempted"),
    ("06.4", "nestheds", "solved"),
    ("06.4", "theseds", "not yet"),  # too dear
    ("06.4", "enedees", "a word of the text"),
    ("06.4", "sees", "4 letters"),
    ("06.4", "deneden", "comes twice"),
    ("06.4", 7, "not yet"),
    ("06.4", ..., "not attempted"),
]


def test_figures_can_be_read():
    signs = " aeioubt"
    tables = {"counted": torch.rand(8, 8).softmax(-1), "learned": torch.rand(8, 8).softmax(-1)}
    saves, kept = torch.rand(8, 8) * 0.01 + 0.0005, torch.rand(8, 8) > 0.5
    groups = {"some": saves > 0.005, "others": saves <= 0.005}
    check_figures(
        figures.table_maps(tables, signs, "title"),
        figures.table_maps(tables, signs, "title", ["b ", "ta"]),
        figures.kept_and_not(saves, kept, groups, signs, ["b ", "ta"], "title"),
        figures.letter_plane(torch.randn(8, 2), signs, "title"),
    )


def test_a_row_says_how_many_of_its_pairs_are_kept():
    saves, some = torch.full((3, 3), 0.004).double(), torch.eye(3).bool()
    kept = torch.tensor([[1, 1, 0], [0, 0, 0], [0, 0, 0]]).bool()
    rows = {"same": some, "other": ~some}
    figure = figures.kept_and_not(saves, kept, rows, "ab ", ["aa", "ab"], "title")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["other:\n17% of 6 kept", "same:\n33% of 3 kept"]


def test_a_line_is_drawn_only_between_letters_that_it_parts():
    rows = torch.randn(8, 2) + torch.tensor([[9.0, 0.0]] * 6 + [[0.0, 0.0]] * 2)
    assert len(figures.letter_plane(rows, " aeioubt", "title").axes[0].lines) == 1
    rows[0], rows[6] = rows[6].clone(), rows[0].clone()
    assert not figures.letter_plane(rows, " aeioubt", "title").axes[0].lines
