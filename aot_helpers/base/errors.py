"""Errors that name the wrong value and the nearest right ones."""

import difflib
import math
from collections.abc import Iterable


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """A ValueError: which name is unknown, which names are near, which exist."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    there = ", ".join(known) or "none"
    return ValueError(f"no {kind} is called {name!r}; {hint}there are: {there}")


def check_text(name: str, text) -> None:
    """Raise ValueError unless it is a string that UTF-8 can write: no half of a surrogate pair."""
    if not isinstance(text, str):
        raise ValueError(f"{name} must be a string, got {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} has half a character, {text[error.start]!r}, at place {error.start}: take it "
            'out, text.encode("utf-8", "ignore").decode() does'
        ) from None


def check_whole(name: str, value, least: int, most: float = math.inf, unit: str = "") -> None:
    """Raise ValueError unless the value is an int (and no bool) from least to most.

    unit: what is counted, such as " of steps".
    """
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        limit = f"from {least} to {most}" if most < math.inf else f">= {least}"
        raise ValueError(f"{name} must be a whole number{unit} {limit}, got {value!r}")


def check_flag(name: str, value) -> None:
    """Raise ValueError unless the value is True or False: "no" would count as true."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {value!r}")


def check_one_of(kind: str, name: str, known: Iterable[str]) -> None:
    """Raise ValueError, an `unknown_name`, unless the name is among those known."""
    if name not in known:
        raise unknown_name(kind, name, known)


def is_number(value) -> bool:
    """True for an int or float that is no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_ids(name: str, ids, n_axes: int | None = None) -> None:
    """Raise ValueError unless it is a tensor of whole numbers, with so many axes if given."""
    is_tensor = hasattr(ids, "is_floating_point")
    if not is_tensor or ids.is_floating_point() or str(ids.dtype) == "torch.bool":
        raise ValueError(
            f"{name} must be token ids, a tensor of whole numbers, got "
            f"{ids.dtype if is_tensor else type(ids).__name__}: torch.tensor(…) makes one of "
            "lists, .long() of other numbers, a tokenizer of text"
        )
    if n_axes is not None and ids.ndim != n_axes:
        remedy = (
            "pass one sequence as tokens[None]" if n_axes == 2 else "take one row, or flatten()"
        )
        raise ValueError(f"{name} must have {n_axes} axes, got {tuple(ids.shape)}: {remedy}")


def check_finite(name: str, values) -> None:
    """Raise ValueError for a tensor with NaN or infinity in it.

    Every comparison with NaN is false, so that it would count as the top of a ranking, and LAPACK
    ends the process over a matrix that has one.
    """
    if not values.isfinite().all():
        raise ValueError(f"{name} must be finite: leave out or mend NaN and infinity first")


def check_shape(name: str, shape: Iterable[int], wanted: Iterable[int], remedy: str) -> None:
    """Raise ValueError unless a tensor has the shape that is wanted.

    remedy: what else fits, or how to make it fit.
    """
    shape, wanted = tuple(shape), tuple(wanted)
    if shape != wanted:
        raise ValueError(f"{name} must have shape {wanted}, got {shape}: {remedy}")


def check_token_ids(ids, d_vocab: int) -> None:
    """Raise ValueError for a tensor that holds another number than the ids of a vocabulary."""
    ids = ids.long()  # in eight bits the size of the vocabulary itself would not fit
    if bad := ids[(ids < 0) | (ids >= d_vocab)].tolist():
        raise ValueError(
            f"there is no token {bad[0]}: ids are 0 … {d_vocab - 1}, d_vocab = {d_vocab}; was the "
            "text encoded with another model's tokenizer?"
        )
