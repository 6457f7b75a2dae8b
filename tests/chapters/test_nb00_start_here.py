"""Notebook 00: what two names cost, with heads and without; its pages, exercises and drawings."""

import math

import numpy as np
import pytest
import torch

from answers import folded_solutions
from aot_helpers.base import results
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from chapters.nb00_start_here import figures, measure, view
from chapters.nb00_start_here.exercises import copy_rule, induction_score
from figure_checks import check_figures

FRIEND = "Grace Hopper"


def test_losses_of_mentions_are_those_of_their_own_tokens(stories):
    text = measure.sentence("Ada Lovelace", FRIEND)
    tokens = measure.encode(stories, text)
    strings = stories.tokenizer.token_strings(tokens)
    places = measure.mentions(stories, tokens, "Ada Lovelace")
    assert ["".join(strings[i] for i in place) for place in places] == [" Ada Lovelace"] * 2
    log_p = stories(tokens[None])[0].log_softmax(dim=-1)
    expected = [-log_p[place[1:] - 1, tokens[place[1:]]].mean() for place in places]
    measured = measure.mention_losses(stories, ["Ada Lovelace"], FRIEND)
    assert torch.allclose(torch.cat(measured), torch.stack(expected), atol=1e-5)


def test_another_name_in_the_first_place_is_read_there(stories):
    names = measure.made_up_names(3, seed=1)
    once, again = measure.mention_losses(stories, names, FRIEND, earlier=names[1:] + names[:1])
    assert torch.equal(once, again)  # there is only one mention
    assert not torch.allclose(again, measure.mention_losses(stories, names, FRIEND)[1])


def test_second_mentions_are_of_the_pieces_after_the_first(stories):
    names = measure.made_up_names(3, seed=1)
    found = measure.second_mentions(stories, names, FRIEND)
    pieces = [stories.tokenizer.encode(" " + name)[1:].tolist() for name in names]
    assert [token for _, token, _ in found] == sum(pieces, [])
    before, _, choice = found[4]
    assert choice == stories(torch.tensor([before]))[0, -1].argmax()


def test_a_brace_spans_a_mention_and_says_its_mean(stories):
    tokens = measure.encode(stories, measure.sentence("Ada Lovelace", FRIEND))
    losses = measure.losses(stories, tokens)
    strings = stories.tokenizer.token_strings(tokens[1:])
    log_p = stories(tokens[None])[0, :-1].log_softmax(dim=-1)
    costs = -log_p.gather(1, tokens[1:, None])[:, 0]
    for start, end, said in view.braces(stories, tokens, losses, "Ada Lovelace"):
        assert "".join(strings[start : end + 1]) == " Ada Lovelace"
        assert f"{costs[start : end + 1].mean():.1f} nats" in said


def test_only_the_chosen_tokens_of_second_mentions_are_counted(stories):
    names = measure.made_up_names(2, seed=1)
    found = measure.second_mentions(stories, names, FRIEND)
    right = [choice == token for _, token, choice in found]
    chosen = [i % 2 == 0 for i in range(len(found))]
    some = measure.right_where(chosen, stories, names, FRIEND, [])
    assert some == sum(right[::2]) and 0 < some < sum(right)
    without = measure.right_where(chosen, stories, names, FRIEND, [Head(1, 0), Head(1, 2)])
    assert without < some


def test_names_and_texts_that_do_not_fit_are_refused(stories):
    for name, friend, said in (
        (7, "Bo", "got 7"),
        ("x" * 41, "Bo", "2 to 40"),
        ("Bo", "Bob", "part"),
    ):
        with pytest.raises(ValueError, match=said):
            measure.sentence(name, friend)
    with pytest.raises(ValueError, match="model sees 128"):
        measure.encode(stories, "name " * 200)
    with pytest.raises(ValueError, match="'Ada' must occur 2 times"):
        measure.mentions(stories, measure.encode(stories, "No name"), "Ada")


@pytest.mark.parametrize(
    "name", ["Ada Lovelace", "Ελένη Νικολάου", "Maximiliane von Weißenfels", "王小明 Wang"]
)
def test_the_drawings_take_any_name(stories, name):
    tokens = measure.encode(stories, measure.sentence(name, FRIEND))
    some, loss = stories.tokenizer.token_strings(tokens), measure.losses(stories, tokens)
    first, second = measure.mentions(stories, tokens, name)
    _, cache = stories.run_with_cache(tokens[None])
    patterns = torch.cat([cache["L0.pattern"][0], cache["L1.pattern"][0]])
    heads = [f"L{layer}H{head}" for layer in (0, 1) for head in range(4)]
    brace = (int(first[0]) - 1, int(first[-1]) - 1, "first")
    found = results.read("pretrained/00-smollm2")
    check_figures(
        figures.shaded({"": (some[1:], loss)}, "title", math.log(1024), "", [brace]),
        figures.eight_patterns(patterns, heads, second, first, some, "title"),
        figures.arrows(patterns[4], some, first, second, "title"),
        figures.two_heads([0.1, 0.9], [0.7, 0.2], some[first[0] :][:4], "title"),
        figures.real_model(found["induction"], found["removed"], "title"),
    )
    data = view.to_point_at(stories, tokens, {"none": [], "L0H3": [Head(0, 3)]})
    page = figures.to_point_at(data, "L1H0", int(second[0]), 7.0, "title")
    assert page.data["runs"][0]["loss"] == pytest.approx(loss.tolist(), abs=0.006)
    chances = stories(tokens[None])[0].softmax(dim=-1).topk(3).values.tolist()
    for row, said in zip(chances, page.data["runs"][0]["expected"], strict=True):
        few = [p == "<0.01" for _, p in said]
        assert few == [p < 0.005 for p in row] and "0.00" not in [p for _, p in said]
    assert "http" not in page.html(still=False)


def test_a_letter_stands_across_its_bytes_unless_the_figures_lack_it():
    tokens = [" ", "‹ce›", "‹98›", "y", "‹e7›", "‹8e›", "‹8b›"]  # Θ and 王 in UTF-8
    lacking = [("‹e7›", 1, 1), ("‹8e›", 1, 1), ("‹8b›", 1, 1)]
    assert figures.letters(tokens) == [(" ", 1, 1), ("Θ", 1, 2), ("Θ", 2, 2), ("y", 1, 1), *lacking]
    assert figures.in_words(tokens, lacking=True)[1:] == ["Θ₁", "Θ₂", "y", "王₁", "王₂", "王₃"]
    assert "".join(figures.in_a_row(tokens, lacking=True)) == " Θ₂y王₂₃"
    (line,) = figures.sentences(tokens, torch.arange(7.0))
    assert [(piece.text, piece.n_tokens, piece.loss) for piece in line[:4]] == [
        (" ", 1, 0),
        ("Θ", 2, 1),
        ("", 0, 2),
        ("y", 1, 3),
    ]


def test_a_brace_goes_on_in_the_next_line_and_is_named_once():
    brace = (6, 9, "first mention")  # of ten tokens of ten letters, eight of them in the first line
    figure = figures.shaded({"": (10 * ["0123456789"], torch.ones(10))}, "title", 7.0, "", [brace])
    (axis, *_) = figure.axes
    assert [len(line.get_xdata()) for line in axis.lines] == [4, 4]
    assert sum(text.get_text() == "first mention" for text in axis.texts) == 1


def paired(pattern, query, key):
    return pattern[query, key].mean()


def second(length):
    """The positions of a second copy."""
    return torch.arange(length + 1, 2 * length + 1)


def better_rule(tokens):
    return folded_solutions("00")["better_rule"](tokens)


GIVEN = {
    "00.3": lambda: {"model": load_checkpoint("stories-2l"), "names": ("Ada", FRIEND)},
    "00.4": lambda: {
        "model": load_checkpoint("stories-2l"),
        "names": measure.made_up_names(8, seed=0),
        "friend": FRIEND,
    },
}
ANSWERS = [
    ("00.1", lambda tokens: [*tokens, -1][tokens.index(tokens[-1]) + 1], "the first earlier place"),
    ("00.1", lambda tokens: np.zeros(3), "got a numpy array"),
    ("00.2", lambda pattern, n: n * induction_score(pattern, n), "This is the sum"),
    ("00.2", lambda pattern, n: induction_score(pattern.T, n), "yours are exchanged"),
    ("00.2", lambda pattern, n: "high", "got the text 'high'"),
    ("00.2", lambda pattern, n: pattern.diagonal(-(n - 1)).mean(), "first two entries"),
    ("00.2", lambda pattern, n: pattern.diagonal(-n).mean(), "leads to the twin itself"),
    ("00.2", lambda pattern, n: pattern.diagonal(-n)[1:].mean(), "on the twin itself"),
    ("00.2", lambda p, n: paired(p, second(n)[:, None], second(n) - n + 1), "in pairs"),
    ("00.2", lambda p, n: paired(p, second(n)[:-1], second(n)[:-1] - n + 1), "last row"),
    ("00.2", lambda p, n: paired(p, second(n), second(n) - 1), "token just before"),
    ("00.3", "Quentin Wolf. Quentin Fox.", "solved"),
    ("00.3", "Zyx told Zyx about Zyx", "not yet"),
    ("00.3", "Ada met Bo. Ada", "is in it"),
    ("00.3", "word " * 80, "at most 60"),
    ("00.3", 5, "A text is wanted"),
    ("00.4", lambda tokens: ..., "not attempted"),
    ("00.4", copy_rule, "not yet"),
    ("00.4", better_rule, "without L0H0, which attends two back"),
]
