"""What `grade` says of an answer, for the tests of exercises."""

import contextlib
import io

from aot_helpers.teaching.exercises import grade


def graded(number: str, *answer, **given) -> str:
    """ "solved", with a text in parentheses or without, "not attempted", or "not yet. …"."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        grade(number, *answer, **given)
    return out.getvalue().partition(f"exercise {number}: ")[2].strip()
