"""Check in seconds what editing a notebook can break: make check ONLY="05 12", or check.py 05 12.

Lint; the notebooks' structure, links, terms and the numbers of their prose; that they are stripped.
With prefixes, of those notebooks and their chapters alone. No notebook is run.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from here import ROOT
from which import select

TESTS = [f"tests/test_{name}.py" for name in ("notebooks", "glossary", "tour_numbers")]
PAGES = "tests/test_project.py::test_local_links_lead_somewhere"  # README, CONTRIBUTING, docs
PYTEST = ["pytest", "-q", "-p", "no:nbval"]  # to import nbval takes three seconds


def files(notebook: Path) -> list[Path]:
    """A notebook with its chapter, its support and their tests: what the linter reads of it."""
    number = notebook.name[:2]
    patterns = (
        f"chapters/nb{number}_*",
        f"evidence/support/nb{number}*",
        f"../tests/chapters/test_nb{number}_*.py",
        f"../tests/evidence/test_support_nb{number}*.py",
    )
    folder = ROOT / "notebooks"
    return [notebook, *(path for each in patterns for path in folder.glob(each))]


def commands(prefixes: list[str]) -> dict[str, list]:
    """{what is checked: arguments of Python} of the notebooks that begin so, or of everything."""
    chosen = select(ROOT / "notebooks", prefixes)
    stripped = ["tools/notebooks.py", "--verify", "--collection", "both"]
    if not prefixes:
        tests, paths = [*TESTS, PAGES], [ROOT]
    else:
        names = {path.stem for path in chosen}  # by which the tests are called
        tests = [*TESTS, "-k", " or ".join(sorted(names))]
        paths = {path for each in chosen for path in files(each)}
        stripped += ["--only", *prefixes]
    return {
        "lint": ["ruff", "check", *paths],
        "format": ["ruff", "format", "--check", *paths],
        "structure, links, terms, numbers": [*PYTEST, *tests],
        "stripped": stripped,
    }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("prefixes", nargs="*", metavar="NN", help="such as 05; none: everything")
    asked = commands(parser.parse_args(arguments).prefixes)
    running = {}
    for what, command in asked.items():  # all at once
        module = [] if str(command[0]).endswith(".py") else ["-m"]
        running[what] = subprocess.Popen(
            [sys.executable, *module, *map(str, command)],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    for what, process in running.items():
        said, _ = process.communicate()
        print(f"{what}: {'failed' if process.returncode else 'passed'}")
        print(said if process.returncode else "", end="", flush=True)
    return int(any(process.returncode for process in running.values()))


if __name__ == "__main__":
    sys.exit(main())
