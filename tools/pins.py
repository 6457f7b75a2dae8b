"""Write requirements.txt and binder/requirements.txt from the dependency list in pyproject.toml.

Pins that are already in requirements.txt stay as long as pyproject.toml allows them;
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
CUDA = re.compile(r"(nvidia|cuda|triton)\b")


def resolve(options: list[str]) -> list[str]:
    """One line `name==version ; marker` for every package, for all platforms and Pythons."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "requirements.txt"
        if (ROOT / "requirements.txt").exists():
            shutil.copy(ROOT / "requirements.txt", output)  # uv keeps the pins it finds there
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--extra", "dev"]
        command += ["--universal", "--python-version", "3.10", "--no-annotate", "--no-header"]
        command += ["--quiet", "--output-file", str(output), *options]
        subprocess.run(command, cwd=ROOT, check=True)
        return output.read_text().splitlines()


def main() -> None:
    pins = [line for line in resolve(sys.argv[1:]) if not CUDA.match(line)]
    body = "\n".join(pins) + "\n"
    (ROOT / "requirements.txt").write_text(HEADER + body)
    (ROOT / "binder" / "requirements.txt").write_text(BINDER_HEADER + body)
    print(f"{len(pins)} pins written to requirements.txt and binder/requirements.txt")


if __name__ == "__main__":
    main()
