"""What every tool imports before the package: this project and its chapters, first on the path.

Raises ImportError if another copy of the package is imported already: what a tool measures would
be written below that one.
"""

import argparse
import platform
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "notebooks")]

import aot_helpers  # noqa: E402

FOUND = Path(aot_helpers.__file__).resolve().parent.parent
if FOUND != ROOT:
    raise ImportError(
        f"aot_helpers was imported from {FOUND}, but the tools are those of {ROOT}: "
        f"set PYTHONPATH={ROOT}"
    )


def names_of_command(doc: str, known: Iterable[str], arguments: list[str] | None = None) -> list:
    """The names that a command was given, or all that are known; it ends for another name."""
    known = list(known)
    parser = argparse.ArgumentParser(description=doc.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(known)}; none: all")
    names = parser.parse_args(arguments).names
    if unknown := ", ".join(name for name in names if name not in known):
        parser.error(f"unknown: {unknown}; there are {', '.join(known)}")
    return names or known


def versions(*packages: str) -> dict[str, str]:
    """The versions of Python and of packages, as provenance has them."""
    return {"python": platform.python_version(), **{each: version(each) for each in packages}}
