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

import pictures
from aot_helpers.teaching.ledger import ledger_path
from aot_helpers.teaching.rules import load_claims

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
    pictures.shrink(notebook)
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


def floors(folder: Path) -> tuple[list[Path], list[Path]]:
    """The notebooks of the tour and those of the evidence, by number."""
    return tuple(sorted(each.glob("[0-9]*.ipynb")) for each in (folder, folder / "evidence"))


def key(path: Path) -> str:
    """How a notebook is called: 09_phase_change on the tour, evidence/09_phase_change below it."""
    return f"evidence/{path.stem}" if path.parent.name == "evidence" else path.stem


def declared_before(root: Path) -> list[str]:
    """A paragraph: the rules of how many findings were set before their values were known."""
    claims = load_claims(folder=root / "data" / "claims").values()
    when = [each.declared for each in claims if each.kind == "finding"]
    early = [each for each in when if each.startswith("before")]
    part = sum(bool(re.search(r"but for|\bafter\b", each)) for each in early)
    said = (
        f"Rules set before the values were known: {len(early)} of {len(when)} findings, "
        f"of which {part} in part; the others after."
    )
    return ["", said] if when else []


def notebook_table(folder: Path, record: dict) -> str:
    """The README's table; claim and minutes come from each notebook's metadata.

    A row a number: its tour, where there is one, and its evidence.
    """
    tour, evidence = floors(folder)
    numbers = sorted({path.stem[:2] for path in [*tour, *evidence]})
    lines = ["| Notebook | What it shows | Minutes | Seconds to run |", "|---|---|--:|--:|"]
    for number in numbers:
        pair = [p for floor in (tour, evidence) for p in floor if p.stem.startswith(number)]
        about = nbformat.read(pair[0], as_version=4).metadata.get("aot", {})
        if not {"claim", "minutes"} <= set(about):
            sys.exit(f"{pair[0].name}: its metadata lack aot.claim or aot.minutes")
        names = [pair[0].stem, *("evidence" for _ in pair[1:])]
        links = [f"[{n}](notebooks/{key(p)}.ipynb)" for n, p in zip(names, pair, strict=True)]
        if pair[0] in evidence:
            links.append("evidence")
        seconds = [str(record["notebooks"].get(key(p), {}).get("seconds", "")) for p in pair]
        row = [" · ".join(links), about["claim"], str(about["minutes"]), " · ".join(seconds)]
        lines.append(f"| {' | '.join(row)} |")
    said = {"tour": "the tour", "evidence": "the evidence", "both": "both floors"}
    for floor, total in record.get("totals", {}).items():
        minutes, seconds = divmod(total["seconds"], 60)
        lines += [
            "",
            f"All {total['notebooks']} notebooks of {said[floor]}: {minutes} min {seconds:02} s, "
            f"{total['jobs']} at a time on {record['machine']['cores']} cores.",
        ]
    return "\n".join([*lines, *declared_before(folder.parent)])


def readme_text(root: Path, record: dict) -> str:
    """README.md with a new table of notebooks and the right links."""
    start, end = "<!-- notebooks:start -->", "<!-- notebooks:end -->"
    text = (root / "README.md").read_text(encoding="utf-8")
    before, _, rest = text.partition(start)
    _, found, after = rest.partition(end)
    if not found:
        sys.exit(f"README.md lacks the lines {start} and {end}, between which the table belongs")
    table = notebook_table(root / "notebooks", record)
    return replace_repository(f"{before}{start}\n{table}\n{end}{after}", repository_name(root))


def readme_picture(copies: list[Path]) -> bytes | None:
    """The picture of the one cell that is tagged `readme-picture`, where it has been executed."""
    for copy in copies:
        for cell in nbformat.read(copy, as_version=4).cells:
            if "readme-picture" in cell.metadata.get("tags", []):
                return base64.b64decode(cell.outputs[-1].data["image/png"])
    return None


def claims_file(results: Path, notebook: Path) -> Path:
    """Where a notebook's claims stand: by its floor and number."""
    floor = "evidence" if notebook.parent.name == "evidence" else "tour"
    return ledger_path(results / "claims", notebook.stem[:2], floor)


def publish_figures(notebook: Path, made: Path, kept: Path) -> None:
    """Replace the files that a notebook saved for its readers, by its number: figures/14-….gif."""
    pattern = f"{notebook.stem[:2]}-*"
    for old in kept.glob(pattern):
        old.unlink()
    for new in sorted(made.glob(pattern)):
        kept.mkdir(exist_ok=True)
        shutil.copyfile(new, kept / new.name)


def publish(notebooks: list[Path], results: list[dict], root: Path, totals: dict) -> None:
    """Replace the notebooks by their cleaned copies; renew notebooks.json and the README.

    totals: {floor: {"notebooks", "seconds", "jobs"}} of whole floors that were run.
    """
    path = root / "data" / "results" / "notebooks.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    measured = known.get("notebooks", {})
    for r in results:
        measured[r["notebook"]] = {name: r[name] for name in ("seconds", "peak_mb", "checks")}
    present = {key(each) for floor in floors(root / "notebooks") for each in floor}
    record = {
        "machine": describe_machine(),
        "totals": {**known.get("totals", {}), **totals},
        "notebooks": {name: measured[name] for name in sorted(present & set(measured))},
    }

    # Everything that can fail comes before the first file is replaced.
    readme = readme_text(root, record)
    repository = repository_name(root)
    copies = [root / "runs" / f"{key(each)}.ipynb" for each in notebooks]
    picture = readme_picture(copies)
    cleaned = [clean_copy(copy, repository) for copy in copies]
    for each, text in zip(notebooks, cleaned, strict=True):
        each.write_text(text, encoding="utf-8")
    (root / "README.md").write_text(readme, encoding="utf-8")
    path.parent.mkdir(parents=True, exist_ok=True)
    for each in notebooks:
        made, kept = (claims_file(folder, each) for folder in (root / "runs/results", path.parent))
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.unlink(missing_ok=True)
        if made.exists():
            shutil.copyfile(made, kept)
        if each.parent.name == "evidence":
            publish_figures(each, root / "runs/results/figures", path.parent / "figures")
    if picture is not None:
        (path.parent / "picture.png").write_bytes(picture)
    path.write_text(json.dumps(record, indent=1) + "\n")
