"""Checks of exercises that try an answer out: right answers, near misses and nonsense."""

import functools
import math
import sys

import pytest

from answers import graded
from aot_helpers.teaching.exercises import write
from chapters.nb00_start_here.exercises import CHECKS, PAGES

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
