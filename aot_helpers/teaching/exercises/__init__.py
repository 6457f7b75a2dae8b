"""The notebooks' exercises: an answer is tried out, and what is still wrong is named."""

import dis
import functools
import html
import importlib
import pkgutil
import traceback
from dataclasses import dataclass

from torch import Tensor

from aot_helpers.base.errors import unknown_name
from aot_helpers.teaching import progress


class NotYet(Exception):
    """Raised by a check: what is still wrong with an answer."""


class NotAttempted(Exception):
    """Raised by a check of an answer that is still blank."""


COLORS = {"✓": "#2f8f5b", "✗": "#d08a20"}  # as in progress.LOOKS


@dataclass(frozen=True)
class Verdict:
    """What is printed of an answer that was tried: its sign, in a notebook with a color."""

    sign: str
    text: str

    def __repr__(self):
        return f"{self.sign} {self.text}"

    def _repr_html_(self):
        look = f"border-left:4px solid {COLORS[self.sign]};padding-left:8px;white-space:pre-wrap"
        sign = f'<b style="color:{COLORS[self.sign]}">{self.sign}</b>'
        return f'<div style="{look}">{sign} {html.escape(self.text)}</div>'


def attempted(answer):
    """The answer, or what its function returned. Raises NotAttempted where that is None or ... ."""
    if answer is None or answer is ...:
        raise NotAttempted
    return answer


def grade(number: str, *answer, **given) -> None:
    """Try an answer out; show "not attempted", "✗ … not yet" and why, or "✓ … solved (what)".

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
    right, tried, watched = False, True, [_watched(part) for part in answer]
    try:
        if any(part is ... for part in answer):
            raise NotAttempted
        measured = checks[number](*watched, **given)
        verdict, right = f"solved ({measured})" if measured else "solved", True
    except NotAttempted:
        verdict, tried = "not attempted", any(getattr(part, "forgot", False) for part in watched)
        if tried:
            verdict = "not yet. Nothing was returned: is a `return` missing?"
    except NotYet as problem:
        verdict = f"not yet. {problem}"
    except (Exception, SystemExit) as error:
        place, of_reader = _line_of(answer, error), getattr(error, "of_reader", None)
        if place is None and not any(map(callable, answer)) and "not callable" in str(error):
            verdict = f"not yet. A function is wanted, got {answer[0]!r}"
        elif place is None and of_reader is None:  # not the reader's code, but ours
            raise
        else:
            verdict = f"not yet. Your code raised {type(error).__name__}: {error}"
            verdict += f" (in `{place}`)" if place else ""
            verdict += f", for the arguments {of_reader}" if of_reader is not None else ""
    _show(f"exercise {number}: {verdict}", right, tried)
    if tried:
        try:
            if progress.keep(number, right):
                print("(aot.progress() shows a box for every exercise)")
        except (OSError, ValueError) as problem:  # the answer is judged all the same
            print(f"(your progress is not kept: {problem})")
    return right


def _show(text: str, right: bool, tried: bool) -> None:
    """Print a verdict, or show it in color where a notebook is running; a blank answer has none."""
    if not tried:
        print(text)
        return
    from IPython.display import display  # which prints it where no notebook is running

    display(Verdict("✓" if right else "✗", text))


def short(*arguments) -> str:
    """How arguments are named in a line: tensors by their shapes, models and the like by type."""
    shown = []
    for each in arguments:
        plain = isinstance(each, str | int | float | list | tuple | dict | None)
        shown.append(repr(each) if plain else type(each).__name__)
        if isinstance(each, Tensor):
            shown[-1] = f"tensor of shape {tuple(each.shape)}"
    return ", ".join(each if len(each) <= 80 else f"{each[:77]}..." for each in shown)


def _watched(part):
    """The reader's function, which raises what is wrong however it is called.

    It is marked whether it returned nothing, and an error, for which arguments it came; a list that
    it changes and does not return is NotYet.
    """
    if not callable(part) or isinstance(part, type):
        return part

    @functools.wraps(part, updated=())
    def call(*arguments, **named):
        lists = [(each, each.copy()) for each in arguments if isinstance(each, list)]
        try:
            result = part(*arguments, **named)
        except (Exception, SystemExit) as error:
            error.of_reader = ", ".join(
                [*map(short, arguments), *(f"{name}={short(each)}" for name, each in named.items())]
            )
            raise
        changed = (now for now, before in lists if [*map(id, now)] != [*map(id, before)])
        if any(now is not result for now in changed):  # what is returned may be the changed list
            raise NotYet("Your code changes the list that it is given: make a new one.")
        call.forgot = result is None and not _is_blank(part)
        return result

    return call


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
