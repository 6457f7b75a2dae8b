"""Write the requirements files from the dependency lists in pyproject.toml.

requirements.txt is the complete set, requirements-tours.txt the part of it that reads and runs the
tours, and binder/requirements.txt that part without torch. docs/book/requirements.txt has what the
book needs besides. Pins that are already there stay as long as pyproject.toml allows them;
`--upgrade` takes the newest versions instead. Needs uv; `make pins` installs it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# The complete tested set, for Python {}. Made from pyproject.toml by `make pins`; do not edit.
# The CUDA packages that torch brings along on Linux are left out on purpose: torch itself pins
# them, and a CPU build of torch does without. For the CPU build see docs/install.md.
"""
TOURS_HEADER = """\
# Of requirements.txt what JupyterLab and the tours need. Made by `make pins`; do not edit.
"""
BINDER_HEADER = """\
# ../requirements-tours.txt without torch (see postBuild). Made by `make pins`; do not edit.
"""
BOOK_HEADER = """\
# What `make book` needs besides ../../requirements.txt. Made by `make pins`; do not edit.
"""
NAME = re.compile(r"[\w.-]+")
CUDA = re.compile(r"(nvidia|cuda|triton)\b")


def resolve(kept: Path, extras: list[str], oldest: str, options: list[str]) -> list[str]:
    """One line `name==version ; marker` for every package, for all platforms and Pythons.

    kept: a requirements file, whose pins stay where they can. oldest: the first Python.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "requirements.txt"
        if kept.exists():
            shutil.copy(kept, output)  # uv keeps the pins it finds there
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml"]
        command += [f"--extra={extra}" for extra in extras]
        command += ["--universal", "--python-version", oldest, "--no-annotate", "--no-header"]
        command += ["--quiet", "--output-file", str(output), *options]
        subprocess.run(command, cwd=ROOT, check=True)
        return [line for line in output.read_text().splitlines() if not CUDA.match(line)]


def write(name: str, header: str, pins: list[str]) -> None:
    """A requirements file, and a line that says so."""
    (ROOT / name).write_text(header + "\n".join(pins) + "\n")
    print(f"{len(pins)} pins written to {name}")


def main() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    first, end = re.search(r'^requires-python = ">=3\.(\d+),<3\.(\d+)"', text, re.M).groups()
    oldest, fixed = f"3.{first}", ["--constraint", "requirements.txt", *sys.argv[1:]]
    pins = resolve(ROOT / "requirements.txt", ["tours", "dev"], oldest, sys.argv[1:])
    write("requirements.txt", HEADER.format(f"{oldest} to 3.{int(end) - 1}"), pins)
    tours = resolve(ROOT / "requirements-tours.txt", ["tours"], oldest, fixed)
    write("requirements-tours.txt", TOURS_HEADER, tours)
    no_torch = [line for line in tours if NAME.match(line)[0] != "torch"]
    write("binder/requirements.txt", BINDER_HEADER, no_torch)
    book = "docs/book/requirements.txt"
    every = resolve(ROOT / book, ["tours", "dev", "book"], "3.11", fixed)
    known = {NAME.match(line)[0] for line in pins}
    write(book, BOOK_HEADER, [line for line in every if NAME.match(line)[0] not in known])


if __name__ == "__main__":
    main()
