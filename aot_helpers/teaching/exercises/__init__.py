"""The notebooks' exercises: an answer is tried out, and what is still wrong is said."""

import copy
import dis
import functools
import importlib
import pkgutil
import traceback

from aot_helpers.base.errors import unknown_name
from aot_helpers.teaching import progress


class NotYet(Exception):
    """Raised by a check: what is still wrong with an answer."""


class NotAttempted(Exception):
    """Raised by a check of an answer that is still blank."""


def attempted(answer):
    """The answer, or what its function returned. Raises NotAttempted where that is None or ... ."""
    if answer is None or answer is ...:
        raise NotAttempted
    return answer


def grade(number: str, *answer, **given) -> None:
    """Try an answer out; print "not attempted", "not yet" and why, or "solved" and a number.

    What was tried or solved is kept in my/progress.json, and `aot.progress()` shows it.
    An exercise is an entry of CHECKS in the module of its notebook ("09.1" …), a function of the
    answer and of what the notebook gives. Of a right answer it returns nothing, or a text: what it
    measured that is worth seeing. It raises NotYet("what is wrong") of a wrong one, NotAttempted
    of a blank one. Raises ValueError for an unknown number.
    """
    _try_out(number, answer, given)


def write(number: str, page, **given):
    """Try a blank page out as `grade` does, and return what the notebook goes on with.

    page: a function or class that the reader fills in. Once it is right, that is the reader's
    own; while it is blank, wrong or raises an error, it is the package's: the entry of PAGES,
    beside CHECKS. One more line says which. Raises ValueError for an unknown number.
    """
    right = _try_out(number, (page,), given)
    whose = "yours" if right else "the package's version"
    print(f"→ from here on, `{page.__name__}` is {whose}")
    return page if right else _module(number).PAGES[number]


def _try_out(number: str, answer: tuple, given: dict) -> bool:
    """Print what an answer is worth and keep it for the reader; whether it is right."""
    checks = getattr(_module(number), "CHECKS", {})
    if number not in checks:
        raise unknown_name("exercise", number, checks)
    right, tried = False, True
    try:
        if any(part is ... for part in answer):
            raise NotAttempted
        measured = checks[number](*map(_watched, answer), **given)
        said, right = f"solved ({measured})" if measured else "solved", True
    except NotAttempted:
        said, tried = "not attempted", False
    except NotYet as problem:
        said = f"not yet. {problem}"
    except (Exception, SystemExit) as error:
        place = _line_of(answer, error)
        if place is None and not any(map(callable, answer)) and "not callable" in str(error):
            said = f"not yet. A function is wanted, got {answer[0]!r}"
        elif place is None and not hasattr(error, "of_reader"):  # not the reader's code, but ours
            raise
        else:
            said = f"not yet. Your code raised {type(error).__name__}: {error}"
            said += f" (in `{place}`)" if place else ""
    print(f"exercise {number}: {said}")
    if tried:
        try:
            if progress.keep(number, right):
                print("(aot.progress() shows a box for every exercise)")
        except (OSError, ValueError) as problem:  # the answer is judged all the same
            print(f"(your progress is not kept: {problem})")
    return right


def _watched(part):
    """The reader's function, which says itself what is wrong however it is called.

    That is no result, and an argument that it changes. What it raises is marked as the reader's.
    """
    if not callable(part) or isinstance(part, type):
        return part

    @functools.wraps(part, updated=())
    def call(*arguments, **named):
        before = [each.clone() if hasattr(each, "clone") else copy.copy(each)
                  if isinstance(each, list | dict) else each for each in arguments]  # fmt: skip
        try:
            found = part(*arguments, **named)
        except (Exception, SystemExit) as error:
            error.of_reader = True
            raise
        for i, (old, new) in enumerate(zip(before, arguments, strict=True), 1):
            if _differs(old, new):
                raise NotYet(f"Your code changes its argument number {i}: make a new one.")
        if found is None and not _is_blank(part):
            raise NotYet("Nothing was returned: is a `return` missing?")
        return found

    return call


def _differs(old, new) -> bool:
    """Whether a list, dict or tensor is another than before."""
    if isinstance(old, list | dict):
        return len(old) != len(new) or any(a is not b for a, b in zip(old, new, strict=True))
    if not hasattr(old, "equal"):
        return False
    return not bool(((old == new) | (old != old)).all())  # NaN is not itself


def _is_blank(function) -> bool:
    """Whether a function still has a `...`, or nothing but a value in it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    steps = {each.opname for each in dis.get_instructions(code)}
    idle = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST"}
    return ... in code.co_consts or steps <= idle


def _line_of(answer: tuple, error: Exception) -> str | None:
    """The last line of the reader's own code that led to the error, or None where none did."""
    files = {part.__code__.co_filename for part in answer if hasattr(part, "__code__")}
    lines = [
        each.line for each in traceback.extract_tb(error.__traceback__) if each.filename in files
    ]
    return lines[-1] if lines else None


def _module(number: str):
    """The exercises of a notebook, chapters/nbNN_…/exercises.py, or None where there are none."""
    try:
        import chapters
    except ModuleNotFoundError:  # the library alone is installed
        return None
    for found in pkgutil.iter_modules(chapters.__path__):
        if found.name.startswith(f"nb{number[:2]}_"):
            return importlib.import_module(f"chapters.{found.name}.exercises")
    return None
