"""Put executed copies of the notebooks back in their place: cleaned, linked and listed.

`tools/run_notebooks.py --in-place` calls `publish` once every notebook has succeeded.
"""

import base64
import datetime
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

STRIP = [  # What changes from run to run, or from machine to machine; outputs and counts stay.
    "--keep-output",
    "--keep-count",
    "--keep-id",
    "--extra-keys",
    "metadata.papermill metadata.widgets cell.metadata.papermill cell.metadata.execution "
    "metadata.language_info.version",
]


def strip(paths: list[Path], *options: str) -> int:
    """Call nbstripout on the notebooks; returns its exit status."""
    command = [sys.executable, "-m", "nbstripout", *STRIP, *options, *map(str, paths)]
    return subprocess.run(command).returncode


def repository_name(root: Path) -> str:
    """The owner and name of the repository, from the one place where they stand."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return settings["tool"]["aot"]["repository"]


def replace_repository(text: str, repository: str) -> str:
    """Point links to this project on GitHub, Colab and Binder to `repository`."""
    sites = r"github\.com/|colab\.research\.google\.com/github/|mybinder\.org/v2/gh/"
    return re.sub(rf"({sites})[\w.-]+/attention-only-transformers\b", rf"\g<1>{repository}", text)


def clean_copy(copy: Path, repository: str) -> str:
    """The text of an executed copy as it is committed."""
    notebook = nbformat.read(copy, as_version=4)
    for cell in notebook.cells:
        cell.source = replace_repository(cell.source, repository)
        if cell.metadata.get("tags") == []:  # papermill adds empty lists
            del cell.metadata["tags"]
    # Whatever the author's kernel is called, the reader's is this one.
    notebook.metadata["kernelspec"] = {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    }
    nbformat.write(notebook, copy)
    if strip([copy]) != 0:
        sys.exit(f"nbstripout could not clean {copy}; the notebooks are unchanged")
    return copy.read_text(encoding="utf-8")


def describe_machine() -> dict:
    """What the measured seconds depend on, without the machine's name."""
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
        cpu = match.group(1) if match else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "1"),  # as aot_helpers.setup has it
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "date": datetime.date.today().isoformat(),
    }


def notebook_table(folder: Path, measured: dict) -> str:
    """The README's table; claim and minutes come from each notebook's metadata."""
    lines = ["| Notebook | Claim | Minutes to read | Seconds to run |", "|---|---|--:|--:|"]
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        about = nbformat.read(path, as_version=4).metadata.get("aot", {})
        if not {"claim", "minutes"} <= set(about):
            sys.exit(f"{path.name}: its metadata lack aot.claim or aot.minutes")
        seconds = measured.get(path.stem, {}).get("seconds", "")
        link = f"[{path.stem}](notebooks/{path.name})"
        lines.append(f"| {link} | {about['claim']} | {about['minutes']} | {seconds} |")
    return "\n".join(lines)


def readme_text(root: Path, measured: dict) -> str:
    """README.md with a new table of notebooks and the right links."""
    start, end = "<!-- notebooks:start -->", "<!-- notebooks:end -->"
    text = (root / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(start)
    _, found, after = rest.partition(end)
    if not found:
        sys.exit(f"README.md lacks the lines {start} and {end}, between which the table belongs")
    table = notebook_table(root / "notebooks", measured)
    return replace_repository(f"{before}{start}\n{table}\n{end}{after}", repository_name(root))


def readme_picture(copies: list[Path]) -> bytes | None:
    """The picture of the one cell that is tagged `readme-picture`, where it has been executed."""
    for copy in copies:
        for cell in nbformat.read(copy, as_version=4).cells:
            if "readme-picture" in cell.metadata.get("tags", []):
                return base64.b64decode(cell.outputs[-1].data["image/png"])
    return None


def claims_file(results: Path, notebook: Path) -> Path:
    """Where a notebook's claims stand: by its number."""
    return results / "claims" / f"{notebook.stem[:2]}.json"


def publish_figures(notebook: Path, made: Path, kept: Path) -> None:
    """Replace the files that a notebook saved for its readers, by its number: figures/14-….gif."""
    pattern = f"{notebook.stem[:2]}-*"
    for old in kept.glob(pattern):
        old.unlink()
    for new in sorted(made.glob(pattern)):
        kept.mkdir(exist_ok=True)
        shutil.copyfile(new, kept / new.name)


def publish(notebooks: list[Path], results: list[dict], root: Path) -> None:
    """Replace the notebooks by their cleaned copies; renew notebooks.json and the README."""
    record = root / "data" / "results" / "notebooks.json"
    known = json.loads(record.read_text())["notebooks"] if record.exists() else {}
    for r in results:
        known[r["notebook"]] = {key: r[key] for key in ("seconds", "peak_mb", "checks")}
    present = {path.stem for path in (root / "notebooks").glob("[0-9]*.ipynb")}
    known = {name: known[name] for name in sorted(present & set(known))}

    # Everything that can fail comes before the first file is replaced.
    readme = readme_text(root, known)
    repository = repository_name(root)
    picture = readme_picture([root / "runs" / path.name for path in notebooks])
    cleaned = [clean_copy(root / "runs" / path.name, repository) for path in notebooks]
    for path, text in zip(notebooks, cleaned, strict=True):
        path.write_text(text, encoding="utf-8")
    (root / "README.md").write_text(readme, encoding="utf-8")
    record.parent.mkdir(parents=True, exist_ok=True)
    for path in notebooks:
        made, kept = (
            claims_file(folder, path) for folder in (root / "runs/results", record.parent)
        )
        kept.parent.mkdir(exist_ok=True)
        kept.unlink(missing_ok=True)
        if made.exists():
            shutil.copyfile(made, kept)
        publish_figures(path, root / "runs/results/figures", record.parent / "figures")
    if picture is not None:
        (record.parent / "picture.png").write_bytes(picture)
    text = json.dumps({"machine": describe_machine(), "notebooks": known}, indent=1)
    record.write_text(text + "\n")
