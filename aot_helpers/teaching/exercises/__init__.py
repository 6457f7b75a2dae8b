"""The notebooks' exercises: an answer is tried out, and what is still wrong is said."""

import importlib
import pkgutil

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
    own; while it is blank or wrong, it is the package's: the entry of PAGES, beside CHECKS.
    One more line says which. Raises ValueError for an unknown number.
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
        measured = checks[number](*answer, **given)
        said, right = f"solved ({measured})" if measured else "solved", True
    except NotAttempted:
        said, tried = "not attempted", False
    except NotYet as problem:
        said = f"not yet. {problem}"
    print(f"exercise {number}: {said}")
    if tried:
        try:
            progress.keep(number, right)
        except (OSError, ValueError) as problem:  # the answer is judged all the same
            print(f"(your progress is not kept: {problem})")
    return right


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
