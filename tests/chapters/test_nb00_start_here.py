"""Notebook 00: what two names cost, with heads and without; its pages, exercises and drawings."""

import math

import pytest
import torch

from aot_helpers.base import results
from aot_helpers.models.protocol import Head
from chapters.nb00_start_here import figures as first_look_drawings
from chapters.nb00_start_here import measure as first_look
from figure_checks import check_figures

FRIEND = "Grace Hopper"


@pytest.fixture
def model(stories):
    return stories


def test_losses_of_mentions_are_those_of_their_own_tokens(model):
    text = first_look.sentence("Ada Lovelace", FRIEND)
    tokens = first_look.encode(model, text)
    strings = model.tokenizer.token_strings(tokens)
    places = first_look.mentions(model, tokens, "Ada Lovelace")
    assert ["".join(strings[i] for i in place) for place in places] == [" Ada Lovelace"] * 2
    log_p = model(tokens[None])[0].log_softmax(dim=-1)
    expected = [-log_p[place[1:] - 1, tokens[place[1:]]].mean() for place in places]
    measured = first_look.mention_losses(model, ["Ada Lovelace"], FRIEND)
    assert torch.allclose(torch.cat(measured), torch.stack(expected), atol=1e-5)


def test_another_name_in_the_first_place_is_read_there(model):
    names = first_look.made_up_names(3, seed=1)
    once, again = first_look.mention_losses(model, names, FRIEND, earlier=names[1:] + names[:1])
    assert torch.equal(once, again)  # there is only one mention
    assert not torch.allclose(again, first_look.mention_losses(model, names, FRIEND)[1])


def test_nothing_is_lost_without_no_head_and_most_without_the_induction_heads(model):
    names = first_look.made_up_names(5, seed=2)
    assert first_look.skill_lost(model, [], names, FRIEND) == 0
    assert first_look.skill_lost(model, [Head(1, 0), Head(1, 2)], names, FRIEND) > 0.8


def test_made_up_names_are_drawn_by_their_seed():
    assert first_look.made_up_names(4, seed=3) == first_look.made_up_names(9, seed=3)[:4]
    assert first_look.made_up_names(4, seed=3) != first_look.made_up_names(4, seed=4)


@pytest.mark.parametrize(
    ("name", "friend", "said"),
    [("", "Bo", "got ''"), (7, "Bo", "got 7"), ("x" * 41, "Bo", "2 to 40"), ("Bo", "Bob", "part")],
)
def test_wrong_names_are_named(name, friend, said):
    with pytest.raises(ValueError, match=said):
        first_look.sentence(name, friend)


def test_texts_that_do_not_fit_are_refused(model):
    with pytest.raises(ValueError, match="model sees 128"):
        first_look.encode(model, "name " * 200)
    with pytest.raises(ValueError, match="'Ada' must occur 2 times"):
        first_look.mentions(model, first_look.encode(model, "No name"), "Ada")


def test_results_of_a_pretrained_model_are_of_the_same_questions(model):
    found = first_look.pretrained(model, n_names=3)
    assert found["induction"][1][0] > 0.8 and found["previous"][0][3] > 0.8
    assert found["second"] < 0.2 * found["first"] < found["other"]
    assert found["removed"][2]["lost"] > 0.8 > 0.2 > max(found["removed"][2]["others"])
    shipped = results.read("pretrained/00-smollm2")
    assert shipped.keys() >= found.keys()
    assert len(shipped["induction"]) == 30 and shipped["removed"].keys() == set("1248") | {"16"}


@pytest.mark.parametrize("name", ["Ada Lovelace", "Ελένη Νικολάου", "Maximiliane von Weißenfels"])
def test_the_drawings_take_any_name(model, name):
    tokens = first_look.encode(model, first_look.sentence(name, FRIEND))
    some, loss = model.tokenizer.token_strings(tokens), first_look.losses(model, tokens)
    first, second = first_look.mentions(model, tokens, name)
    patterns = torch.cat(
        [model.run_with_cache(tokens[None])[1][f"L{i}.pattern"][0] for i in (0, 1)]
    )
    heads = [f"L{layer}H{head}" for layer in (0, 1) for head in range(4)]
    brace = (int(first[0]) - 1, int(first[-1]) - 1, "first")
    check_figures(
        first_look_drawings.shaded({"": (some[1:], loss)}, "title", math.log(1024), "", [brace]),
        first_look_drawings.eight_patterns(patterns, heads, second, first, "title"),
        first_look_drawings.arcs(patterns[4], some, first, second, "title"),
        first_look_drawings.circuit(["a", "b", "c"], ("L0H3", 0.9), ("L1H0", 0.9), "title"),
    )
    data = first_look.to_point_at(model, tokens, {"none": [], "L0H3": [Head(0, 3)]})
    view = first_look_drawings.to_point_at(data, "L1H0", int(second[0]), 7.0, "title")
    assert view.data["runs"][0]["loss"] == pytest.approx(loss.tolist(), abs=0.006)
    assert "http" not in view.html(still=False)


# ---- exercises ----


@pytest.mark.parametrize("number", ["00.1", "00.2"])
def test_a_page_is_the_readers_once_it_is_right(check_page, number):
    check_page(number)


def first_place(tokens):
    place = tokens.index(tokens[-1])
    return tokens[place + 1] if place < len(tokens) - 1 else -1


def sum_of(pattern, length):
    query = torch.arange(length + 1, 2 * length + 1)
    return pattern[query, query - length + 1].sum()


def on_the_twin(pattern, length):
    query = torch.arange(length + 1, 2 * length + 1)
    return pattern[query, query - length].mean()


@pytest.mark.parametrize(
    ("number", "answer", "expected"),
    [
        ("00.1", first_place, "not yet"),
        ("00.1", lambda tokens: tokens[-1], "not yet"),
        ("00.2", sum_of, "not yet"),
        ("00.2", on_the_twin, "not yet"),
        ("00.3", "Quentin Wolf. Quentin Fox.", "solved"),
        ("00.3", "Zyx told Zyx about Zyx", "not yet"),
        ("00.3", "Ada met Bo. Ada", "not yet"),
        ("00.3", "word " * 80, "not yet"),
        ("00.3", 5, "not yet"),
        ("00.3", ..., "not attempted"),
    ],
)
def test_an_answer_is_judged(model, verdict, number, answer, expected):
    given = {"model": model, "names": ("Ada", FRIEND)} if number == "00.3" else {}
    assert verdict(number, answer, **given) == expected


def test_a_better_rule_is_as_good_as_the_model(model, verdict, solution):
    given = {"model": model, "names": first_look.made_up_names(8, seed=0), "friend": FRIEND}
    copy_rule, better = solution("00.1", "copy_rule"), solution("00.4", "better_rule")
    better.__globals__["copy_rule"] = copy_rule
    found = [verdict("00.4", each, **given) for each in (lambda tokens: ..., copy_rule, better)]
    assert found == ["not attempted", "not yet", "solved"]
