"""The exercises of all chapters: the tables of answers in test_nb*.py, and every blank page.

ANSWERS has rows of an exercise, an answer (a tuple: several), and a part of what is said of it.
GIVEN has {exercise: a function that makes what its tour gives to the check}.
"""

import functools
import importlib
import inspect
import math
import pkgutil
import re
from pathlib import Path

import pytest
import torch

import chapters
from answers import NOTEBOOKS, folded_solutions, graded
from aot_helpers.teaching.exercises import write

TABLES = [
    importlib.import_module(path.stem) for path in sorted(Path(__file__).parent.glob("test_nb*.py"))
]
ANSWERS = sorted(
    (row for each in TABLES for row in getattr(each, "ANSWERS", [])), key=lambda row: row[0]
)
GIVEN = {number: make for each in TABLES for number, make in getattr(each, "GIVEN", {}).items()}
EXERCISES = [
    importlib.import_module(f"chapters.{each.name}.exercises")
    for each in pkgutil.iter_modules(chapters.__path__)
    if each.name.startswith("nb")
]
CHECKS = {number: check for each in EXERCISES for number, check in each.CHECKS.items()}
PAGES = {n: page for each in EXERCISES for n, page in getattr(each, "PAGES", {}).items()}
every_page = pytest.mark.parametrize("number", PAGES)


@functools.cache
def given_to(number):
    return GIVEN.get(number, dict)()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


# An answer's own name may hold its address in memory, which parallel test runs do not share.
@pytest.mark.parametrize(
    ("number", "answer", "said"), ANSWERS, ids=[f"{number}-{said}" for number, _, said in ANSWERS]
)
def test_an_answer_is_told_what_it_is_worth(number, answer, said):
    answers = answer if isinstance(answer, tuple) else (answer,)
    found = re.sub(r"\s+", " ", graded(number, *answers, **given_to(number)))
    is_verdict = said in ("solved", "not attempted")
    assert found.startswith(said) if is_verdict else said in found, found


@every_page
def test_a_page_is_the_readers_once_it_is_right(number, capsys):
    """Blank or wrong it is the package's; the folded solution solves it, and so does our own."""

    def blank(*_): ...

    package, given = PAGES[number], given_to(number)
    assert write(number, blank, **given) is package
    assert "not attempted" in capsys.readouterr().out
    assert write(number, lambda *_, **__: 3, **given) is package
    assert graded(number, package, **given).startswith("solved")
    own = folded_solutions(number[:2])[package.__name__]
    assert write(number, own, **given) is own
    assert f"exercise {number}: solved" in capsys.readouterr().out


def test_every_exercise_has_a_folded_solution():
    notebooks = "".join(path.read_text("utf-8") for path in NOTEBOOKS.glob("**/[0-9]*.ipynb"))
    tasks = re.split(r"\*\*(?:Exercise )?(\d\d\.\d)\b", notebooks)[1:]
    solved = ["<summary>Solution" in text for text in tasks[1::2]]
    assert {number for number, so in zip(tasks[::2], solved, strict=True) if so} == CHECKS.keys()


CHANGED = {  # what becomes of the tensors of a right answer: what is said of it
    "numpy": (lambda x: x.detach().numpy(), "torch tensor is wanted, yours is a numpy array"),
    "list": (lambda x: x.tolist(), "torch tensor is wanted, yours is a list|in one tensor"),
    "text": (lambda x: "high", "torch tensor is wanted, yours is the text 'high'"),
    "bool": (lambda x: x > 0.3, "tensor of (floats|numbers) is wanted, yours has torch.bool"),
    "NaN": (lambda x: x * math.nan, "[nN]a[nN]"),
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
    for number in PAGES:
        alone = len(inspect.signature(CHECKS[number]).parameters) == 1
        if alone or number == "10.2":
            n_axes.clear()
            answer = with_tensors(
                PAGES[number], lambda x: n_axes.append(getattr(x, "ndim", 0)) or x
            )
            graded(number, answer, **given_to(number))
            found += [number] * (max(n_axes, default=0) > 0)
    return found


@pytest.mark.parametrize("kind", CHANGED)
def test_what_is_no_tensor_of_the_right_kind_is_named(kind):
    (change, said), numbers = CHANGED[kind], pages_of_tensors()
    assert len(numbers) > 12 and {"03.2", "10.1", "10.2"} < set(numbers)
    told = {
        number: graded(number, with_tensors(PAGES[number], change), **given_to(number))
        for number in numbers
    }
    right = {number for number, found in told.items() if re.search(f"^not yet.*({said})", found)}
    assert {number: told[number] for number in told.keys() - right} == {}
