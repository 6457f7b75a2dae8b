"""Answers that are functions, compared with a reference on a few inputs."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor


def against(
    reference: Callable, trials: list[tuple], mistakes: dict[str, Callable] | None = None
) -> Callable:
    """A check (see `grade`) of a function: it must return what the reference does on every trial.

    An answer that returns None or ... on the first trial is not attempted. mistakes: {what to say:
    a function that many write instead of the reference}.
    """

    def check(answer: Callable) -> str | None:
        for i, arguments in enumerate(trials):
            returned = False
            try:
                given, returned = answer(*arguments), True
            finally:
                if not returned:  # the error itself follows
                    print(f"an error for the arguments {_short(arguments)}")
            if (given is None or given is ...) and i == 0:
                return None
            if given is None:
                return f"For the arguments {_short(arguments)}: nothing was returned"
            problem = _difference(given, reference(*arguments))
            if problem:
                for said, mistake in (mistakes or {}).items():
                    if not _difference(given, mistake(*arguments)):
                        return said
                return f"For the arguments {_short(arguments)}: {problem}"
        return ""

    return check


def _difference(given, expected) -> str:
    if isinstance(expected, str | list | bool | int) and not isinstance(given, Tensor):
        return "" if given == expected else f"expected {expected!r}, got {given!r}"
    given, expected = torch.as_tensor(given), torch.as_tensor(expected)
    if expected.dtype == torch.bool and given.dtype != torch.bool:
        return f"expected True and False, got {given.dtype}"
    if given.shape != expected.shape:
        return f"expected shape {tuple(expected.shape)}, got {tuple(given.shape)}"
    if not torch.allclose(given.double(), expected.double(), atol=1e-5):
        return f"expected\n{expected}\ngot\n{given}"
    return ""


def _short(arguments: tuple) -> str:
    shown = [
        f"tensor of shape {tuple(a.shape)}" if isinstance(a, Tensor) else repr(a) for a in arguments
    ]
    return ", ".join(shown)


def read_numbers(answer, *shape: int, infinite: bool = False) -> tuple[Tensor | None, str]:
    """An answer as float numbers of this shape, and what is wrong with it ("" if nothing is).

    answer: a number, list, array or tensor. infinite: -inf and inf may be among its numbers.
    """
    size = " by ".join(map(str, shape)) + " numbers" if shape else "one number"
    try:
        given = torch.as_tensor(answer).detach().float()
    except (TypeError, ValueError, RuntimeError):
        return None, f"{size}, please; yours is {answer!r}."
    if given.shape != shape:
        return None, f"{size}, please; yours has the shape {list(given.shape)}."
    if given.isnan().any() or not (infinite or given.isfinite().all()):
        return None, f"{size}, please; yours has {'NaN' if given.isnan().any() else 'an infinity'}."
    return given, ""


def guesses_problem(answer, names: Iterable[str]) -> str | None:
    """What is wrong with an answer {name: guess}: "" if nothing is, None if it is not attempted."""
    if not isinstance(answer, dict) or set(answer) != set(names):
        return f"A dict with the keys {', '.join(names)} is wanted, got {answer!r}."
    return None if all(each is ... for each in answer.values()) else ""


def near(answer, truth: dict, within: float) -> str | None:
    """A check (see `grade`) of guesses {name: one number} that must lie so near to the truth."""
    if (problem := guesses_problem(answer, truth)) != "":
        return problem
    for name, guess in answer.items():
        guess, problem = read_numbers(guess)
        if problem:
            return f"{name}: {problem}"
        if abs(guess - truth[name]) > within:
            return f"{name}: {'more' if guess < truth[name] else 'less'} than {guess:.2f}."
    return ""


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Normal random numbers, the same for the same seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def where_to_look(tokens):
    """[query][key], True at the keys that follow an earlier copy of the query's token."""
    at = range(len(tokens))
    rows = [[1 <= key <= query and tokens[key - 1] == tokens[query] for key in at] for query in at]
    return torch.tensor(rows)
