"""Answers that are functions, compared with a reference on a few inputs."""

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted


def against(
    reference: Callable, trials: list[tuple], mistakes: dict[str, Callable] | None = None
) -> Callable:
    """A check (see `grade`) of a function: it must return what the reference does on every trial.

    An answer that returns None or ... on the first trial is not attempted. mistakes: {what to say:
    a function that many write instead of the reference}.
    """

    def check(answer: Callable) -> None:
        for i, arguments in enumerate(trials):
            returned = False
            try:
                given, returned = answer(*arguments), True
            finally:
                if not returned:  # the error itself follows
                    print(f"an error for the arguments {_short(arguments)}")
            if i == 0:
                attempted(given)
            if given is None:
                raise NotYet(f"For the arguments {_short(arguments)}: nothing was returned")
            if problem := _difference(given, reference(*arguments)):
                for said, mistake in (mistakes or {}).items():
                    if not _difference(given, mistake(*arguments)):
                        raise NotYet(said)
                raise NotYet(f"For the arguments {_short(arguments)}: {problem}")

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


def read_numbers(answer, *shape: int, name: str = "", infinite: bool = False) -> Tensor:
    """An answer as float numbers of this shape. Raises NotYet, which begins with the name.

    answer: a number, list, array or tensor. infinite: -inf and inf may be among its numbers.
    """
    size = " by ".join(map(str, shape)) + " numbers" if shape else "one number"
    wanted = f"{name}: {size}, please; yours" if name else f"{size}, please; yours"
    try:
        given = torch.as_tensor(answer).detach().float()
    except (TypeError, ValueError, RuntimeError):
        raise NotYet(f"{wanted} is {answer!r}.") from None
    if given.shape != shape:
        raise NotYet(f"{wanted} has the shape {list(given.shape)}.")
    if given.isnan().any() or not (infinite or given.isfinite().all()):
        raise NotYet(f"{wanted} has {'NaN' if given.isnan().any() else 'an infinity'}.")
    return given


def read_guesses(answer, names: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
    """(name, number) one by one of an answer {name: guess}; not attempted while all are ... ."""
    names = list(names)
    if not isinstance(answer, dict) or set(answer) != set(names):
        raise NotYet(f"A dict with the keys {', '.join(names)} is wanted, got {answer!r}.")
    if all(each is ... for each in answer.values()):
        raise NotAttempted
    for name in names:
        yield name, read_numbers(answer[name], name=name)


def near(answer, truth: dict, within: float) -> None:
    """A check (see `grade`) of guesses {name: one number} that must lie so near to the truth."""
    for name, guess in read_guesses(answer, truth):
        if abs(guess - truth[name]) > within:
            raise NotYet(f"{name}: {'more' if guess < truth[name] else 'less'} than {guess:.2f}.")


def compared(given, expected: Tensor, mistakes: dict[str, Tensor], within: float = 1e-4) -> float:
    """The largest difference of what was given from what is expected, where it is small.

    mistakes: {what to say: what comes out with it}. Raises NotAttempted if nothing was given, and
    NotYet of another shape or of other numbers, with what to say of a known mistake.
    """
    attempted(given)
    if not isinstance(given, Tensor) or given.shape != expected.shape:
        shape = tuple(given.shape) if isinstance(given, Tensor) else given
        raise NotYet(f"A tensor of shape {tuple(expected.shape)} is wanted, got {shape!r}.")
    gaps = (given - expected).abs()
    if gaps.max() <= within:
        return gaps.max().item()
    for said, mistake in mistakes.items():
        if mistake.shape == given.shape and torch.allclose(
            given, mistake, atol=within, equal_nan=True
        ):
            raise NotYet(said)
    worst = gaps.nan_to_num(torch.inf)
    at = tuple((worst == worst.max()).nonzero()[0].tolist())
    raise NotYet(f"The entry {list(at)} should be {expected[at]:.3f}; yours is {given[at]:.3f}.")


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Normal random numbers, the same for the same seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def where_to_look(tokens):
    """[query][key], True at the keys that follow an earlier copy of the query's token."""
    at = range(len(tokens))
    rows = [[1 <= key <= query and tokens[key - 1] == tokens[query] for key in at] for query in at]
    return torch.tensor(rows)
