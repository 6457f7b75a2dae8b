"""The notebooks' exercises: an answer is tried out, and what is still wrong is said."""

import importlib

from aot_helpers.base.errors import unknown_name


class Solved(str):
    """What a check returns of a right answer if it has measured something worth seeing."""


def grade(number: str, *answer, **given) -> None:
    """Try an answer out; print "not attempted", "not yet" and why, or "solved" and a number.

    An exercise is an entry of CHECKS in the module of its notebook (nb09: "09.1" …), a function of
    the answer and of what the notebook gives: it returns None if nothing was attempted, "" or a
    Solved text if the answer is right, and else what is still wrong. Raises ValueError for an
    unknown number.
    """
    try:
        checks = importlib.import_module(f"{__name__}.nb{number[:2]}").CHECKS
    except ModuleNotFoundError:
        checks = {}
    if number not in checks:
        raise unknown_name("exercise", number, checks)
    missing = any(part is ... for part in answer)
    problem = None if missing else checks[number](*answer, **given)
    if isinstance(problem, Solved):
        said = f"solved ({problem})"
    else:
        said = {None: "not attempted", "": "solved"}.get(problem, f"not yet. {problem}")
    print(f"exercise {number}: {said}")
