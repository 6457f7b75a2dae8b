"""Notebook 00: what two names cost, with heads and without; its pages, exercises and drawings."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

from aot_helpers.base import results
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.teaching.exercises import grade, write
from chapters.nb00_start_here import exercises as nb00
from chapters.nb00_start_here import figures as first_look_drawings
from chapters.nb00_start_here import measure as first_look

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "00_start_here.ipynb"
FRIEND = "Grace Hopper"


@pytest.fixture(scope="module")
def model():
    return load_checkpoint("stories-2l").requires_grad_(False)


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Quentin Wolf. Quentin Fox.", "solved (' F' costs 6.0 nats more"),
        ("Zyx told Zyx about Zyx", "not yet. At most: "),
        ("Ada met Bo. Ada", "not yet. 'Ada' is in it"),
        ("word " * 80, "not yet. It has"),
        (5, "not yet. A text is wanted"),
        (..., "not attempted"),
    ],
)
def test_a_text_that_misleads(model, capsys, text, said):
    grade("00.3", text, model=model, names=("Ada", FRIEND))
    assert capsys.readouterr().out.startswith(f"exercise 00.3: {said}")


def blank(*arguments):
    """A page nobody has written on."""
    ...


def folded_solutions() -> dict:
    """{name: function} of the notebook's folded solutions that define one."""
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    names = {"torch": torch}
    for block in re.findall(r"```python\n(def .*?)```", prose, re.S):
        exec(block, names)
    return names


@pytest.mark.parametrize("number", nb00.PAGES)
def test_a_page_is_the_packages_until_it_is_right_and_then_the_readers(capsys, number):
    assert write(number, blank) is nb00.PAGES[number]
    said = capsys.readouterr().out
    assert said.startswith(f"exercise {number}: not attempted\n") and "`blank` is the" in said
    assert write(number, lambda *arguments: 3) is nb00.PAGES[number]
    assert f"exercise {number}: not yet. " in capsys.readouterr().out
    own = folded_solutions()[nb00.PAGES[number].__name__]
    assert write(number, own) is own
    said = capsys.readouterr().out
    assert said.startswith(f"exercise {number}: solved (") and "is yours" in said


def first_place(tokens):
    place = tokens.index(tokens[-1])
    return tokens[place + 1] if place < len(tokens) - 1 else -1


def forgets_the_rest(tokens):
    return nb00.copy_rule(tokens) if tokens[-1] in tokens[:-1] else None


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (first_place, "first earlier place"),
        (lambda tokens: tokens[-1], "return the token itself"),
        (forgets_the_rest, "return -1"),
    ],
)
def test_a_rule_that_errs_is_told_how(capsys, answer, said):
    grade("00.1", answer)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("shift", "said"), [(0, "on the twin itself"), (-1, "before the twin"), (None, "take the mean")]
)
def test_a_score_of_something_else_is_named(capsys, shift, said):
    def answer(pattern, length):
        query = torch.arange(length + 1, 2 * length + 1)
        if shift is None:
            return pattern[query, query - length + 1].sum()
        return pattern[query, query - length + shift].mean()

    grade("00.2", answer)
    assert said in capsys.readouterr().out


def test_a_better_rule_is_as_good_as_the_model(model, capsys):
    given = {"model": model, "names": first_look.made_up_names(8, seed=0), "friend": FRIEND}
    grade("00.4", blank, **given)
    grade("00.4", nb00.copy_rule, **given)
    grade("00.4", better_rule(), **given)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "exercise 00.4: not attempted"
    assert lines[1].startswith("exercise 00.4: not yet. So far your rule is right about ")
    assert lines[2].startswith("exercise 00.4: solved (your rule is right about ")


def better_rule():
    """The folded solution, which falls back on the page of 00.1."""
    names = folded_solutions()
    names["better_rule"].__globals__["copy_rule"] = nb00.copy_rule
    return names["better_rule"]


def test_results_of_a_pretrained_model_are_of_the_same_questions(model):
    found = first_look.pretrained(model, n_names=3)
    assert found["induction"][1][0] > 0.8 and found["previous"][0][3] > 0.8
    assert found["second"] < 0.2 * found["first"] < found["other"]
    assert found["removed"][2]["lost"] > 0.8 > 0.2 > max(found["removed"][2]["others"])
    shipped = results.read("pretrained/00-smollm2")
    assert shipped.keys() >= found.keys()
    assert len(shipped["induction"]) == 30 and shipped["removed"].keys() == set("1248") | {"16"}


@pytest.mark.parametrize(
    "name", ["Ada Lovelace", "Bo", "Ελένη Νικολάου", "Maximiliane von Weißenfels"]
)
def test_the_drawings_take_any_name(model, name):
    tokens = first_look.encode(model, first_look.sentence(name, FRIEND))
    strings, loss = model.tokenizer.token_strings, first_look.losses(model, tokens)
    first, second = first_look.mentions(model, tokens, name)
    _, cache = model.run_with_cache(tokens[None])
    heads = [f"L{layer}H{head}" for layer in (0, 1) for head in range(4)]
    patterns = torch.cat([cache["L0.pattern"][0], cache["L1.pattern"][0]])
    brace = (int(first[0]) - 1, int(first[-1]) - 1, "first")
    data = first_look.to_point_at(model, tokens, {"none": [], "L0H3": [Head(0, 3)]})
    some, pattern = strings(tokens), patterns[4]
    pictures = [
        first_look_drawings.shaded({"": (some[1:], loss)}, "title", math.log(1024), "", [brace]),
        first_look_drawings.eight_patterns(patterns, heads, second, first, "title"),
        first_look_drawings.arcs(pattern, some, first, second, "title"),
        first_look_drawings.circuit(["a", "b", "c"], ("L0H3", 0.9), ("L1H0", 0.9), "title"),
    ]
    for figure in pictures:
        sizes = [text.get_fontsize() for axis in figure.axes for text in axis.texts]
        assert min([*sizes, 10]) >= 9
    view = first_look_drawings.to_point_at(data, "L1H0", int(second[0]), 7.0, "title")
    assert view.data["runs"][0]["loss"] == pytest.approx(loss.tolist(), abs=0.006)
    assert "http" not in view.html(still=False)
