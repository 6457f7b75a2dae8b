"""Answers that are functions, compared with a reference on a few inputs."""

import copy
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch import Tensor

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted, short


def against(
    reference: Callable,
    trials: list[tuple],
    mistakes: dict[str, Callable] | None = None,
    solved: str | None = None,
) -> Callable:
    """A check (see `grade`) of a function: it must return what the reference does on every trial.

    An answer that returns None or ... on the first trial is not attempted; it works on copies.
    mistakes: {what to say: a function that many write instead of the reference}. solved: what to
    say of a right answer.
    """

    def check(answer: Callable) -> str | None:
        for i, arguments in enumerate(trials):
            given = answer(*copy.deepcopy(arguments))
            if i == 0:
                attempted(given)
            if given is None:
                raise NotYet(f"For the arguments {short(*arguments)}: nothing was returned")
            if problem := _difference(given, reference(*arguments)):
                for message, mistake in (mistakes or {}).items():
                    if not _difference(given, mistake(*arguments)):
                        raise NotYet(message)
                raise NotYet(f"For the arguments {short(*arguments)}: {problem}")
        return solved

    return check


def _difference(given, expected) -> str:
    if isinstance(expected, str | list | bool | int) and not isinstance(given, Tensor):
        if isinstance(given, np.ndarray) and (given.ndim or isinstance(expected, list)):
            return f"expected {expected!r}, got {_kind(given)}"
        return "" if given == expected else f"expected {expected!r}, got {given!r}"
    if isinstance(expected, Tensor) and expected.ndim and not isinstance(given, Tensor):
        return f"a torch tensor is wanted, yours is {_kind(given)}"
    try:
        given, expected = torch.as_tensor(given), torch.as_tensor(expected)
    except (TypeError, ValueError, RuntimeError):  # a text, or rows of unequal lengths
        return f"expected numbers such as {expected!r}, got {_kind(given)}"
    if expected.dtype == torch.bool and given.dtype != torch.bool:
        return f"expected True and False, got {given.dtype}"
    if given.shape != expected.shape:
        return f"expected shape {tuple(expected.shape)}, got {tuple(given.shape)}"
    kind, whole = given.dtype, expected.is_floating_point() and not given.is_floating_point()
    given, expected = given.detach().double(), expected.detach().double()
    if torch.allclose(given, expected, atol=1e-5, equal_nan=True):
        return ""
    if whole and expected.ndim:
        return f"a tensor of floats is wanted, yours has {kind}"
    if not expected.ndim:
        return f"expected {expected:.5g}, got {given:.5g}"
    return _worst(given, expected)


def _kind(given) -> str:
    """What an answer is that is no tensor, and what makes one of it."""
    if isinstance(given, np.ndarray):
        return "a numpy array (torch.from_numpy makes a tensor of it, .tolist() a list)"
    if isinstance(given, list):
        return "a list (torch.tensor or torch.stack makes a tensor of it)"
    if isinstance(given, str | int | float | complex):
        kind = "text" if isinstance(given, str) else "number"
        return f"the {kind} {given!r:.60}"
    return f"a {type(given).__name__}"


def _worst(given: Tensor, expected: Tensor) -> str:
    """The entry that is farthest from what it should be, or the first that is NaN."""
    gaps = (given - expected).abs().nan_to_num(torch.inf)
    at = tuple((gaps == gaps.max()).nonzero()[0].tolist())
    entry = f"the entry {list(at)}" if at else "it"
    worst = f"{entry} should be {expected[at]:.3f}; yours is {given[at]:.3f}"
    if given[at].isnan():
        worst += ", which comes of 0 / 0, inf - inf or a softmax of -inf alone"
    return worst


def check_finite(given: Tensor, begin: str, infinite: bool = False) -> None:
    """Raise NotYet, which begins so, of NaN and, unless it is allowed, of infinity."""
    if given.isnan().any() or not (infinite or given.isfinite().all()):
        raise NotYet(f"{begin} has {'NaN' if given.isnan().any() else 'an infinity'}.")


def read_tensor(answer, *shape: int, name: str = "", infinite: bool = False) -> Tensor:
    """An answer as a tensor of float32 of this shape, without its gradient.

    name: what a problem begins with. infinite: -inf and inf may be among its numbers. Raises
    NotAttempted if nothing was given, and NotYet of no tensor, another shape or kind, and of NaN.
    """
    given = _as_floats(answer, shape, name)
    check_finite(given, f"{name}: yours" if name else "Yours", infinite)
    return given


def _as_floats(answer, shape: tuple[int, ...], name: str = "") -> Tensor:
    begin = f"{name}: a" if name else "A"
    if not isinstance(attempted(answer), Tensor):
        raise NotYet(f"{begin} torch tensor is wanted, yours is {_kind(answer)}.")
    if answer.shape != shape:
        turned = tuple(answer.shape) == shape[::-1]
        problem = f"{begin} tensor of shape {shape} is wanted, got {tuple(answer.shape)}"
        raise NotYet(f"{problem}{': exchange its axes' * turned}.")
    if answer.dtype == torch.bool or answer.is_complex():
        raise NotYet(f"{begin} tensor of numbers is wanted, yours has {answer.dtype}.")
    return answer.detach().float()


def read_tensors(answer, **shapes: tuple[int, ...]) -> list[Tensor]:
    """An answer as tensors of these shapes, by their names. Raises as `read_tensor`."""
    if not isinstance(attempted(answer), tuple | list) or len(answer) != len(shapes):
        wanted = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
        raise NotYet(f"A tuple is wanted: {wanted}.")
    pairs = zip(answer, shapes.items(), strict=True)
    return [read_tensor(each, *shape, name=name) for each, (name, shape) in pairs]


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
    check_finite(given, wanted, infinite)
    return given


def read_text(answer) -> str:
    """An answer that is a text and not empty. Raises NotAttempted and NotYet."""
    if not isinstance(attempted(answer), str) or not answer:
        raise NotYet(f"A text is wanted, in quotation marks; got {answer!r}.")
    return answer


def read_entries(answer, names: Iterable) -> dict:
    """An answer {name: entry} with all of the names. Raises NotAttempted while all are ... ."""
    names = list(names)
    if not isinstance(answer, dict) or set(answer) != set(names):
        listed = ", ".join(map(str, names))
        raise NotYet(f"A dict with the keys {listed} is wanted, got {answer!r}.")
    if all(each is ... for each in answer.values()):
        raise NotAttempted
    return {name: answer[name] for name in names}


def read_guesses(answer, names: Iterable[str]) -> Iterator[tuple[str, Tensor]]:
    """(name, number) one by one of an answer {name: guess}; not attempted while all are ... ."""
    for name, guess in read_entries(answer, names).items():
        yield name, read_numbers(guess, name=name)


def near(answer, truth: dict, within: float) -> None:
    """A check (see `grade`) of guesses {name: one number} that must lie so near to the truth."""
    for name, guess in read_guesses(answer, truth):
        if abs(guess - truth[name]) > within:
            raise NotYet(f"{name}: {'more' if guess < truth[name] else 'less'} than {guess:.2f}.")


def compared(given, expected: Tensor, mistakes: dict[str, Tensor], within: float = 1e-4) -> float:
    """The largest difference of what was given from what is expected, where it is small.

    mistakes: {what to say: what comes out with it}. Raises as `read_tensor`, and NotYet of other
    numbers, with what to say of a known mistake.
    """
    numbers = _as_floats(given, expected.shape).to(expected.dtype)
    gaps = (numbers - expected).abs()
    if gaps.max() <= within:
        return gaps.max().item()
    check_mistakes(numbers, mistakes, within)
    if not given.is_floating_point():
        raise NotYet(f"A tensor of floats is wanted, yours has {given.dtype}.")
    problem = _worst(numbers, expected)
    raise NotYet(f"{problem[0].upper()}{problem[1:]}.")


def check_mistakes(given: Tensor, mistakes: dict[str, Tensor], within: float = 1e-4) -> None:
    """Raise NotYet with what to say of the first mistake that makes what was given.

    mistakes: {what to say: what comes out with it}.
    """
    for message, mistake in mistakes.items():
        if mistake.shape == given.shape and torch.allclose(
            given, mistake.to(given), atol=within, equal_nan=True
        ):
            raise NotYet(message)


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Normal random numbers, the same for the same seed."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
