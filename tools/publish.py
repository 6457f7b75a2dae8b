"""Put executed copies of notebooks back in their place: cleaned, with small pictures, and listed.

`tools/notebooks.py --in-place` calls `publish` once every notebook that it ran has succeeded.
`python tools/publish.py NAME` makes NAME the owner of the repository, in all that names one.
"""

import argparse
import base64
import datetime
import hashlib
import importlib.metadata
import io
import json
import math
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from PIL import Image, ImageChops

import here
from aot_helpers.base.files import write_atomically
from aot_helpers.teaching.rules import load_claims
from chapters.pages.standalone import repository_name
from which import numbered

STRIP = [  # What changes from run to run, or from machine to machine; outputs and counts stay.
    "--keep-output",
    "--keep-count",
    "--keep-id",
    "--extra-keys",
    "metadata.papermill metadata.widgets cell.metadata.papermill cell.metadata.execution "
    "metadata.language_info.version",
    "--keep-metadata-keys",  # JupyterLab writes it beside outputs_hidden
    "cell.metadata.collapsed",
]

MARKS = "<!-- notebooks:start -->\n", "\n<!-- notebooks:end -->"  # around the table in README.md
# With fewer colors, how much a channel of any pixel may change, of 255; and how much more than a
# twentieth of the pixels may not: no bands in soft light.
FARTHEST, SOFT, FEW = 16, 8, 0.05


def strip(paths: list[Path], *options: str) -> int:
    """Call nbstripout on the notebooks; returns its exit status."""
    command = [sys.executable, "-m", "nbstripout", *STRIP, *options, *map(str, paths)]
    return subprocess.run(command).returncode


def replace_repository(text: str, repository: str) -> str:
    """Point links to this project on GitHub, its Pages, Colab and Binder to `repository`."""
    owner, project = repository.split("/")
    sites = r"github\.com[/:]|colab\.research\.google\.com/github/|mybinder\.org/v2/gh/"
    text = re.sub(rf"({sites})[\w.-]+/attention-only-transformers\b", rf"\g<1>{repository}", text)
    pages = rf"https://{owner}.github.io/{project}"
    return re.sub(r"https://[\w-]+\.github\.io/attention-only-transformers\b", pages, text)


def set_owner(root: Path, owner: str) -> list[str]:
    """Make `owner` the owner of the repository everywhere at once; the files that changed.

    That is pyproject.toml, which the book reads, and every link of the pages and the notebooks.
    Raises ValueError for a name that GitHub would not allow.
    """
    if not re.fullmatch(r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,38}", owner):
        raise ValueError(f"owner must be a name on GitHub: letters, digits, hyphens; got {owner!r}")
    settings, repository = root / "pyproject.toml", f"{owner}/attention-only-transformers"
    told, found = re.subn(
        r'(?m)^repository = ".*"$', f'repository = "{repository}"', settings.read_text("utf-8")
    )
    if found != 1:
        raise ValueError(f"{settings} must have one line: repository = …, it has {found}")
    texts = {settings: told}
    pages = [root / name for name in ("README.md", "CONTRIBUTING.md", "CITATION.cff")]
    pages += [*sorted((root / "docs").rglob("*.md")), *numbered(root / "notebooks")]
    pages.append(root / "notebooks" / "group.ipynb")
    for path in (path for path in pages if path.is_file()):
        texts[path] = replace_repository(path.read_text("utf-8"), repository)
    changed = {path: text for path, text in texts.items() if text != path.read_text("utf-8")}
    for path, text in changed.items():
        write_atomically(path, text.encode())
    return [path.relative_to(root).as_posix() for path in changed]


def keep_folded(metadata: dict) -> None:
    """Say that a cell's output is folded as JupyterLab says it, twice: it has nothing to add."""
    metadata.pop("collapsed", None)
    if "outputs_hidden" in metadata.get("jupyter", {}):
        metadata["collapsed"] = metadata["jupyter"]["outputs_hidden"]


def clean_copy(copy: Path, repository: str) -> str:
    """The text of an executed copy as it is committed."""
    notebook = nbformat.read(copy, as_version=4)
    for cell in notebook.cells:
        cell.source = replace_repository(cell.source, repository)
        if cell.metadata.get("tags") == []:  # papermill adds empty lists
            del cell.metadata["tags"]
        keep_folded(cell.metadata)
    # A busy machine cuts what is printed into pieces anywhere, even within a line.
    notebook, _ = CoalesceStreamsPreprocessor().preprocess(notebook, {})
    shrink(notebook)
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


def sha256(path: Path) -> str:
    """The sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def small_picture(png: bytes) -> bytes:
    """A PNG of at most 256 colors: the same size, resolution and, to the eye, the same colors.

    The picture itself comes back where that would not be smaller, where it is not opaque, where a
    channel of some pixel would change by more than FARTHEST or those of many by more than SOFT.
    """
    picture = Image.open(io.BytesIO(png))
    if picture.convert("RGBA").getextrema()[3][0] < 255:
        return png
    full = picture.convert("RGB")
    # Maximum coverage, which no color is far from, however rare.
    few = full.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    change = np.asarray(ImageChops.difference(few.convert("RGB"), full)).max(axis=-1)
    if change.max() > FARTHEST or (change > SOFT).mean() > FEW:
        return png
    buffer = io.BytesIO()
    kept = {name: picture.info[name] for name in ["dpi"] if name in picture.info}
    few.save(buffer, format="png", optimize=True, **kept)
    return min(png, buffer.getvalue(), key=len)


def shrink(notebook: nbformat.NotebookNode) -> None:
    """Replace the pictures among a notebook's outputs by small ones; their metadata stay."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    for data in (out.data for out in outputs if "image/png" in out.get("data", {})):
        png = base64.b64decode(data["image/png"])
        if (less := small_picture(png)) != png:
            data["image/png"] = base64.b64encode(less).decode()


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


def key(path: Path) -> str:
    """How a notebook is called: 09_phase_change on the tour, evidence/09_phase_change below it."""
    return f"evidence/{path.stem}" if path.parent.name == "evidence" else path.stem


def declared_before() -> str:
    """A sentence: the rules of how many findings were set before their values were known."""
    findings = [one for one in load_claims().values() if one.kind == "finding"]
    before = sum(one.before for one in findings)
    return f"Of {len(findings)} findings {before} were declared before they were measured."


def about(path: Path) -> tuple[str, str, int]:
    """A notebook's question, its title; what it shows, its first sentence; minutes."""
    notebook = nbformat.read(path, as_version=4)
    told = notebook.metadata.get("aot", {})
    if not {"shows", "minutes"} <= set(told):
        sys.exit(f"{path.name}: its metadata lack aot.shows or aot.minutes")
    title = re.search(r"^# (?:\d+ · )?(.+)", notebook.cells[0].source, flags=re.M)
    shows = re.split(r"(?<=[.?!]) (?=[A-Z])", told["shows"])[0]
    cells = (title[1] if title else path.stem, shows)
    return *(" ".join(cell.split()).replace("|", "\\|") for cell in cells), told["minutes"]


def notebook_table(folder: Path, measured: dict) -> str:
    """The README's table, a row a number: its tour, or its evidence where it has no tour yet.

    measured: {key: {"seconds", …}} of the notebooks. Under the table stand the minutes that all of
    them run, and how many rules came before the values.
    """
    tours, evidence = numbered(folder, "tours"), numbered(folder, "evidence")
    lines = ["| | question | what it shows | minutes |", "|--:|---|---|--:|"]
    by_number = {path.stem[:2]: path for path in [*evidence, *tours]}
    for number, path in sorted(by_number.items()):
        question, shows, minutes = about(path)
        lines.append(
            f"| {number} | [{question}](notebooks/{key(path)}.ipynb) | {shows} | {minutes} |"
        )
    said = []
    for name, paths in (("tours", tours), ("notebooks of evidence", evidence)):
        seconds = [measured.get(key(path), {}).get("seconds", 0) for path in paths]
        said += [f"{len(paths)} {name} in {math.ceil(sum(seconds) / 60)} min"] if paths else []
    ran = f"One after the other, on one thread, they run: {', '.join(said)}."
    return "\n".join([*lines, "", f"{ran} {declared_before()}"])


def readme_text(root: Path, measured: dict) -> str:
    """README.md with a new table of notebooks and the right links.

    The table stands between the two lines MARKS. Ends the program where they are missing.
    """
    table = notebook_table(root / "notebooks", measured)
    text, found = re.subn(
        rf"(?s)(?<={MARKS[0]}).*(?={MARKS[1]})",
        lambda _: table,
        (root / "README.md").read_text(encoding="utf-8"),
    )
    if not found:
        sys.exit(f"README.md lacks the lines {' and '.join(map(str.strip, MARKS))}")
    return replace_repository(text, repository_name(root))


def claims_file(results: Path, notebook: Path) -> Path | None:
    """Where the claims of an evidence notebook stand; None for a tour, which makes none."""
    folder = results / "claims"
    return folder / f"{notebook.stem[:2]}.json" if notebook.parent.name == "evidence" else None


def publish_figures(notebook: Path, made: Path, kept: Path) -> None:
    """Replace the files that a notebook saved for its readers, by its number: figures/14-….gif."""
    pattern = f"{notebook.stem[:2]}-*"
    new = {each.name: each for each in sorted(made.glob(pattern))}
    for name, each in new.items():
        kept.mkdir(exist_ok=True)
        write_atomically(kept / name, each.read_bytes())
    for old in (each for each in kept.glob(pattern) if each.name not in new):
        old.unlink()


def publish(notebooks: list[Path], results: list[dict], root: Path) -> None:
    """Replace the notebooks that were run by their cleaned copies; renew what is said of them.

    That is notebooks.json, their ledgers and figures, and the README. In the others only links to
    another repository are changed. Ends the program before anything is replaced if a notebook was
    edited while it ran; each file is replaced as a whole or not at all.
    """
    every, repository = numbered(root / "notebooks"), repository_name(root)
    copies = [root / "runs" / f"{key(each)}.ipynb" for each in notebooks]
    new = {each: clean_copy(copy, repository) for each, copy in zip(notebooks, copies, strict=True)}
    edited = [
        path.name
        for path, r in zip(notebooks, results, strict=False)
        if r.get("source_sha256", sha256(path)) != sha256(path)
    ]
    if edited:
        sys.exit(f"{', '.join(edited)}: edited while it ran; nothing is replaced, run it again")

    path = root / "data" / "results" / "notebooks.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    measured = known.get("notebooks", {})
    for r in results:
        measured[r["notebook"]] = {name: r[name] for name in ("seconds", "peak_mb", "checks")}
    present = {key(each) for each in every}
    measured = {name: measured[name] for name in sorted(present & set(measured))}

    # Everything that can fail comes before the first file is replaced.
    readme = readme_text(root, measured)
    for each in every:
        old = each.read_text(encoding="utf-8")
        text = new.get(each) or replace_repository(old, repository)
        if text != old:
            write_atomically(each, text.encode())
    write_atomically(root / "README.md", readme.encode())
    path.parent.mkdir(parents=True, exist_ok=True)
    for each in (each for each in notebooks if each.parent.name == "evidence"):
        made, kept = (claims_file(folder, each) for folder in (root / "runs/results", path.parent))
        kept.parent.mkdir(parents=True, exist_ok=True)
        if made.exists():
            write_atomically(kept, made.read_bytes())
        else:
            kept.unlink(missing_ok=True)
        publish_figures(each, root / "runs/results/figures", path.parent / "figures")
    machine = describe_machine() if results else known.get("machine", {})
    text = json.dumps({"machine": machine, "notebooks": measured}, indent=1) + "\n"
    write_atomically(path, text.encode())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Name the owner of the repository, everywhere.")
    parser.add_argument("owner", help="whose repository it is, such as octocat")
    try:
        print(*set_owner(here.ROOT, parser.parse_args().owner), sep="\n")
    except ValueError as error:
        parser.error(str(error))
