"""Checks of exercises that try an answer out: right answers, near misses and nonsense."""

import functools
import pkgutil
import sys

import pytest

import chapters
from answers import graded
from aot_helpers.teaching.exercises import Verdict, grade, write
from chapters.nb00_start_here.exercises import CHECKS, PAGES

CHAPTERS = [each.name for each in pkgutil.iter_modules(chapters.__path__)]


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


def test_an_answer_that_changes_its_arguments_leaves_the_next_try_alone():
    graded("00.1", clears)
    assert graded("00.1", PAGES["00.1"]).startswith("solved")


def test_an_error_is_told_after_the_verdict_with_its_arguments(capsys):
    grade("00.1", lambda tokens: tokens[7])
    (said,) = capsys.readouterr().out.splitlines()
    assert said.startswith("✗ exercise 00.1: not yet. Your code raised IndexError")
    assert said.endswith("for the arguments [3, 5, 9, 3, 7, 3]")


def test_solved_and_not_yet_differ_at_a_glance_and_a_blank_answer_has_no_sign(capsys):
    for answer in (PAGES["00.1"], lambda tokens: -1, ...):
        grade("00.1", answer)
    assert [line[:16] for line in capsys.readouterr().out.splitlines()] == [
        "✓ exercise 00.1:",
        "✗ exercise 00.1:",
        "exercise 00.1: n",
    ]
    right, wrong = (Verdict(sign, "a < b")._repr_html_() for sign in "✓✗")
    assert "a &lt; b" in right and "#2f8f5b" in right and "#2f8f5b" not in wrong
