"""Errors that name the wrong value and the nearest right ones."""

import difflib
from collections.abc import Iterable


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ValueError:
    """A ValueError: which name is unknown, which names are near, which exist."""
    known = sorted(known)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return ValueError(
        f"no {kind} is called {name!r}; {hint}there are: {', '.join(known) or 'none'}"
    )
