"""Write the requirements files from the dependency lists in pyproject.toml.

That is requirements.txt and the same for Binder, and docs/book/requirements.txt, which has what the
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
# The tested set, for Python 3.10 to 3.13. Made from pyproject.toml by `make pins`; do not edit.
# The CUDA packages that torch brings along on Linux are left out on purpose: torch itself pins
# them, and a CPU build of torch does without. For the CPU build use binder/requirements.txt.
"""
BINDER_HEADER = """\
# The pins of ../requirements.txt with torch's CPU build. Made by `make pins`; do not edit.
--extra-index-url https://download.pytorch.org/whl/cpu
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


def main() -> None:
    pins = resolve(ROOT / "requirements.txt", ["dev"], "3.10", sys.argv[1:])
    body = "\n".join(pins) + "\n"
    (ROOT / "requirements.txt").write_text(HEADER + body)
    (ROOT / "binder" / "requirements.txt").write_text(BINDER_HEADER + body)
    book, fixed = ROOT / "docs/book/requirements.txt", ["--constraint", "requirements.txt"]
    every = resolve(book, ["dev", "book"], "3.11", [*fixed, *sys.argv[1:]])
    known = {NAME.match(line)[0] for line in pins}
    more = [line for line in every if NAME.match(line)[0] not in known]
    book.write_text(BOOK_HEADER + "\n".join(more) + "\n")
    print(f"{len(pins)} pins written to requirements.txt and binder/, {len(more)} to {book.parent}")


if __name__ == "__main__":
    main()
