"""Checks of exercises that try an answer out: right answers, near misses and nonsense."""

import functools
import importlib
import inspect
import math
import pkgutil
import re
import sys

import numpy as np
import pytest
import torch

import chapters
from answers import graded
from aot_helpers.teaching.exercises import Verdict, grade, write
from chapters.nb00_start_here.exercises import CHECKS, PAGES
from chapters.nb09_phase_change.exercises import SHIFTS

CHAPTERS = [each.name for each in pkgutil.iter_modules(chapters.__path__)]

INF, NAN = math.inf, math.nan


def losses_at(rate):
    """Losses like those of notebook 05: falling, exploding, or NaN."""
    if rate < 0.06:
        return [7.0, 10.5, *[4.0] * 38]
    return [7.0, 70.0 if rate < 100 else NAN, *[50.0 if rate < 100 else NAN] * 38]


GIVEN = {"losses_at": losses_at}
WORSE = "worse than uniform"
ANSWERS = [  # of exercise 05.3, and a part of what is said of it
    ((WORSE, 2.0), "solved"),
    (("nan", 1e30), "solved"),
    ((..., 2.0), "not attempted"),
    (("flat", 2.0), "one of 'nan'"),
    (("nan", 2.0), "first bad loss is 70"),
    ((WORSE, 1e4), "first bad loss is nan"),
    ((WORSE, 0.05), "live with this rate"),
    ((WORSE, -1), "above 0"),
    (("nan", NAN), "has NaN"),
    (("nan", INF), "an infinity"),
    (("nan", "high"), "one number"),
]


@pytest.mark.parametrize(("answer", "said"), ANSWERS, ids=[said for _, said in ANSWERS])
def test_an_answer_is_told_what_it_is_worth(answer, said):
    found = graded("05.3", *answer, **GIVEN)
    kind = said if said in ("solved", "not attempted") else "not yet. "
    assert found.startswith(kind) and said in found


def test_what_a_right_answer_means_is_said():
    found = graded("05.3", WORSE, 2.0, **GIVEN)
    assert found.startswith("solved (") and "ln(vocabulary)" in found


def test_a_page_goes_on_with_the_readers_once_it_is_right(capsys):
    def copy_rule(tokens): ...

    ours = PAGES["00.1"]
    assert write("00.1", copy_rule) is ours
    assert capsys.readouterr().out.endswith("`copy_rule` is the package's version\n")
    yours = functools.partial(ours)
    yours.__name__ = "copy_rule"
    assert write("00.1", yours) is yours
    assert capsys.readouterr().out.endswith("`copy_rule` is yours\n")


def test_an_error_in_a_page_is_told_and_the_packages_goes_on(capsys):
    def copy_rule(tokens):
        return tokens.no_such_thing

    assert write("00.1", copy_rule) is PAGES["00.1"]
    said = capsys.readouterr().out
    assert "not yet. Your code raised AttributeError" in said
    assert "(in `return tokens.no_such_thing`)" in said


def test_an_error_in_a_check_is_no_answer(monkeypatch):
    def broken(answer):
        raise KeyError("ours")

    monkeypatch.setitem(CHECKS, "00.1", broken)
    with pytest.raises(KeyError, match="ours"):
        write("00.1", PAGES["00.1"])


def test_exercises_are_found_beside_their_notebook(tmp_path, monkeypatch):
    chapter = tmp_path / "chapters" / "nb77_a_name"
    chapter.mkdir(parents=True)
    for folder in (chapter, chapter.parent):
        (folder / "__init__.py").touch()
    code = "from aot_helpers.teaching.exercises import NotYet\n\n\ndef check(answer):\n"
    code += "    if answer != 3:\n        raise NotYet('It is 3.')\n\n\nCHECKS = {'77.1': check}\n"
    (chapter / "exercises.py").write_text(code)
    for name in [name for name in sys.modules if name.split(".")[0] == "chapters"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    assert [graded("77.1", n) for n in (3, 4, ...)] == [
        "solved",
        "not yet. It is 3.",
        "not attempted",
    ]
    with pytest.raises(ValueError, match="no exercise is called '77.2'.*77.1"):
        graded("77.2", 3)
    for name in [name for name in sys.modules if name.split(".")[0] == "chapters"]:
        del sys.modules[name]


class Raises:
    def __call__(self, tokens):
        raise KeyError("mine")


def forgets(tokens):
    sum(tokens)


def clears(tokens):
    tokens.clear()
    return -1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Raises(), "not yet. Your code raised KeyError"),
        (functools.partial(len, 1, 2), "not yet. Your code raised TypeError"),
        (lambda: 3, "not yet. Your code raised TypeError"),
        (lambda tokens: sys.exit(), "not yet. Your code raised SystemExit"),
        (print, "not yet. Nothing was returned: is a `return` missing?"),
        (forgets, "not yet. Nothing was returned: is a `return` missing?"),
        (clears, "not yet. Your code changes the list that it is given: make a new one."),
        (3, "not yet. A function is wanted, got 3"),
    ],
    ids=["callable", "partial", "arguments", "exit", "print", "return", "argument", "number"],
)
def test_what_is_wrong_with_an_answer_is_said(answer, said):
    assert graded("00.1", answer).startswith(said)


def page(number):
    """The package's version of what is written in an exercise."""
    (chapter,) = (each for each in CHAPTERS if each.startswith(f"nb{number[:2]}_"))
    return importlib.import_module(f"chapters.{chapter}.exercises").PAGES[number]


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


CUT = {"k": draw(3, 5, 4, 2), "z": draw(3, 5, 2, seed=1), "head": 1}
CUT |= {"W_O": draw(2, 6, seed=2), "W_K": draw(6, 2, seed=3)}
GIVEN_TO = {"10.2": CUT}
CHANGED = {  # what becomes of the tensors of a right answer: what is said of it
    "numpy": (lambda x: x.detach().numpy(), "torch tensor is wanted, yours is a numpy array"),
    "list": (lambda x: x.tolist(), "torch tensor is wanted, yours is a list|in one tensor"),
    "text": (lambda x: "high", "torch tensor is wanted, yours is the text 'high'"),
    "bool": (lambda x: x > 0.3, "tensor of (floats|numbers) is wanted, yours has torch.bool"),
    "NaN": (lambda x: x * NAN, "[nN]a[nN]"),
    "shape": (lambda x: x[None], "shape|logits at all positions"),
}


def with_tensors(answer, change):
    """The same answer, with every tensor that it returns changed."""

    def other(*arguments):
        found = answer(*arguments)
        return tuple(map(change, found)) if isinstance(found, tuple) else change(found)

    return other


@functools.cache
def pages_of_tensors():
    """The numbers of the exercises whose page returns tensors, as far as they take no model."""
    found, n_axes = [], []
    for chapter in (each for each in CHAPTERS if each.startswith("nb")):
        module = importlib.import_module(f"chapters.{chapter}.exercises")
        for number, ours in getattr(module, "PAGES", {}).items():
            alone = len(inspect.signature(module.CHECKS[number]).parameters) == 1
            if alone or number in GIVEN_TO:
                n_axes.clear()
                answer = with_tensors(ours, lambda x: n_axes.append(getattr(x, "ndim", 0)) or x)
                graded(number, answer, **GIVEN_TO.get(number, {}))
                found += [number] * (max(n_axes, default=0) > 0)
    return found


@pytest.mark.parametrize("kind", CHANGED)
def test_what_is_no_tensor_of_the_right_kind_is_named(kind):
    (change, said), numbers = CHANGED[kind], pages_of_tensors()
    assert len(numbers) > 12 and {"03.2", "10.1", "10.2"} < set(numbers)
    told = {
        number: graded(number, with_tensors(page(number), change), **GIVEN_TO.get(number, {}))
        for number in numbers
    }
    right = {number for number, found in told.items() if re.search(f"^not yet.*({said})", found)}
    assert {number: told[number] for number in told.keys() - right} == {}


def paired(pattern, query, key):
    return pattern[query, key].mean()


def cut(k, z, W_O, W_K, head, sign=-1, mean=(0, 1)):
    """The keys of 10.2 with a sign or a mean that is wrong."""
    part, k = z @ W_O @ W_K, k.clone()
    k[:, :, head] += sign * (part - (part.mean(dim=mean) if mean else part.mean()))
    return k


def second(length):
    """The positions of a second copy."""
    return torch.arange(length + 1, 2 * length + 1)


def draws_among_all(model, ids, n, temperature=1.0, top_k=None, seed=0):
    return page("05.4")(model, ids, n, temperature, None, seed)


def draws_at_one(model, ids, n, temperature=1.0, top_k=None, seed=0):
    return page("05.4")(model, ids, n, float(temperature > 0), top_k, seed)


NAMED = [  # likely mistakes, and a part of what is said of them
    ("00.2", lambda p, n: paired(p, second(n)[:, None], second(n) - n + 1), "in pairs"),
    ("00.2", lambda p, n: paired(p, second(n)[:-1], second(n)[:-1] - n + 1), "last row"),
    ("00.2", lambda p, n: paired(p, second(n), second(n) - 1), "token just before"),
    ("02.3", {1: [0, 1, 2], 2: [0, 1, 2, 3]}, "does it see their order?"),
    ("02.3", {1: [0], 2: [0, 1, 2, 3]}, "can that go unnoticed?"),
    ("02.3", {1: [0, 1], 2: [0, 1]}, "who reads it in layer 2?"),
    ("03.2", lambda *given: page("03.2")(*given)[::-1], "The other way round"),
    ("05.4", draws_among_all, "do not depend on top_k"),
    ("05.4", draws_at_one, "do not depend on the temperature"),
    ("06.3", "ABC", "Three rows of numbers"),
    ("09.2", dict.fromkeys(SHIFTS, "copies"), "what came *before* it"),
    ("09.4", lambda tokens, back: [-1] * back + tokens[:-back], "empty for back = 0"),
    ("09.4", lambda tokens, back: [tokens[i - back] for i in range(len(tokens))], "end of the"),
    ("10.2", functools.partial(cut, sign=1), "The sign is wrong"),
    ("10.2", functools.partial(cut, mean=None), "Your mean is one number"),
    ("12.2", lambda p: [d - 1 for d in page("12.2")(p)], "one too small"),
    ("16.2", lambda targets, n: torch.zeros(len(targets), n), "in equal parts"),
    ("00.1", lambda tokens: np.zeros(3), "got a numpy array"),
    ("09.3", lambda *start, **how: [[1, 2], [3]], "A list of numbers is wanted"),
    ("12.2", lambda pattern: ["x"], "A distance for each head is wanted"),
    ("13.2", [1, 2], "Two rows of two letters"),
    ("16.3", [["a"]], "Give the letters"),
    ("16.4", lambda loss_of: torch.zeros(2), "True or False is wanted"),
]


@pytest.mark.parametrize(("number", "answer", "said"), NAMED, ids=lambda value: str(value)[:12])
def test_a_likely_mistake_is_named(number, answer, said):
    found = graded(number, answer, **GIVEN_TO.get(number, {}))
    assert found.startswith("not yet. ") and said in found, found


def test_an_error_is_told_after_the_verdict_with_its_arguments(capsys):
    grade("00.1", lambda tokens: tokens[7])
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("✗ exercise 00.1: not yet. Your code raised IndexError")
    assert said.endswith("for the arguments [3, 5, 9, 3, 7, 3]")


def test_solved_and_not_yet_differ_at_a_glance_and_a_blank_answer_has_no_sign(capsys):
    for answer in (page("00.1"), lambda tokens: -1, ...):
        grade("00.1", answer)
    assert [line[:16] for line in capsys.readouterr().out.splitlines()] == [
        "✓ exercise 00.1:",
        "✗ exercise 00.1:",
        "exercise 00.1: n",
    ]
    right, wrong = (Verdict(sign, "a < b")._repr_html_() for sign in "✓✗")
    assert "a &lt; b" in right and "#2f8f5b" in right and "#2f8f5b" not in wrong
