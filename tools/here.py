"""Imported by every tool before the package: puts this project and its chapters on the path first.

Raises ImportError if another copy of the package is imported already: what a tool measures would
be written below that one.
"""

import sys
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
