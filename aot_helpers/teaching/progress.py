"""What the reader has tried and solved: kept in my/progress.json, shown as boxes.

`python -m aot_helpers.teaching.progress` prints the boxes of all exercises.
"""

import hashlib
import html
import json
import os
import re
import tempfile
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from aot_helpers.base.errors import check_one_of
from aot_helpers.base.files import write_atomically
from aot_helpers.teaching.ledger import ROOT

BOXES = {"solved": "■", "tried": "◪", "open": "□"}
LOOKS = {  # the same boxes in HTML, drawn, since fonts make them of unequal sizes
    "solved": "color:#2f8f5b;background:#2f8f5b",
    "tried": "color:#d08a20;background:linear-gradient(135deg,transparent 50%,#d08a20 50%)",
    "open": "color:gray",
}
TASK = re.compile(r"\*\*Exercise (\d\d\.\d+) \(([^(),]+), (\d+) minutes\)\.\*\*")
GROUP = ROOT / "docs" / "group"  # the notes of a reading group's sessions
OFF = "off"  # AOT_PROGRESS of runs that no reader does: tests, and tools/notebooks.py


class Exercise(NamedTuple):
    """One exercise of a tour: its number "03.1", its kind such as "write", its minutes, as text."""

    number: str
    kind: str
    minutes: str


@dataclass(frozen=True)
class Progress:
    """The exercises of every tour and what came of them; a notebook shows it as a table."""

    tours: dict[str, list[Exercise]]  # by the tour's title, "03 · How does …"
    status: dict[str, str]  # by the exercise's number: "solved" or "tried"; others are open
    path: Path | None  # None: nothing is kept

    def of(self, exercise: Exercise) -> str:
        """What came of an exercise: "solved", "tried" or "open"."""
        return self.status.get(exercise.number, "open")

    @property
    def summary(self) -> str:
        """How many are solved and tried, and where that is kept."""
        states = [self.of(each) for exercises in self.tours.values() for each in exercises]
        solved = f"{states.count('solved')} of {len(states)} exercises solved"
        where = "nothing is kept: AOT_PROGRESS is off"
        if self.path:
            inside = self.path.is_relative_to(ROOT)
            where = f"in {self.path.relative_to(ROOT).as_posix() if inside else self.path}"
        return f"{solved}, {states.count('tried')} tried ({where})"

    def __str__(self):
        widest = max(map(len, self.tours.values()))
        key = "  ".join(f"{box} {status}" for status, box in BOXES.items())
        lines = [self.summary, key, ""]
        for title, exercises in self.tours.items():
            boxes = " ".join(BOXES[self.of(each)] for each in exercises)
            lines.append(f"{boxes:{2 * widest}} {title}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self):
        rows = []
        for title, exercises in self.tours.items():
            boxes = "".join(
                box_html(self.of(each), f"{each.number} ({each.kind}, {each.minutes} minutes): ")
                for each in exercises
            )
            cell = '<td style="text-align:left'
            rows.append(
                f'<tr>{cell};white-space:nowrap">{boxes}</td>{cell}">{html.escape(title)}</td></tr>'
            )
        key = " &nbsp; ".join(f"{box_html(status)}{status}" for status in BOXES)
        return f"<p>{html.escape(self.summary)}<br>{key}</p><table>{''.join(rows)}</table>"


def box_html(status: str, what: str = "") -> str:
    """A box in HTML; what: shown before its status while the pointer is over it."""
    size = "display:inline-block;width:11px;height:11px;margin-right:5px;border:1px solid"
    return f'<span title="{what}{status}" style="{size};{LOOKS[status]}"></span>'


def progress(session: str = "") -> Progress:
    """The boxes of all exercises: solved, tried or open, by tour.

    session: "1" to "6" of a reading group, for its exercises alone. Raises ValueError where
    my/progress.json is damaged, the notebooks are not there or the session is unknown.
    """
    path = progress_path()
    status = {number: kept["status"] for number, kept in (read(path) if path else {}).items()}
    by_tour = tours(ROOT / "notebooks")
    if session:
        some = set(exercises_of(session))
        by_tour = {tour: [e for e in each if e.number in some] for tour, each in by_tour.items()}
    return Progress({tour: each for tour, each in by_tour.items() if each}, status, path)


def exercises_of(session: str) -> list[str]:
    """The exercises of a session of a reading group, in its room and at home: docs/group."""
    path = GROUP / f"{session}.md"
    check_one_of("session", path.stem, [each.stem for each in GROUP.glob("[0-9].md")])
    marks = re.findall(r"(?m)^@(?:do|home) ([\d., ]+)", path.read_text("utf-8"))
    return sorted(re.findall(r"\d\d\.\d+", " ".join(marks)))


def progress_path() -> Path | None:
    """The reader's file: AOT_PROGRESS, else my/progress.json; None where AOT_PROGRESS is "off"."""
    path = os.environ.get("AOT_PROGRESS") or ROOT / "my" / "progress.json"
    return None if str(path).lower() == OFF else Path(path).expanduser()


def keep(number: str, solved: bool) -> bool:
    """Write down one more try of an exercise; whether it is the first that is solved.

    What was solved once stays solved, and of two notebooks that write at once none loses a try.
    Raises ValueError for a damaged file, OSError where the file cannot be written.
    """
    path = progress_path()
    if path is None:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # Among the temporary files, under a name for each reader: nothing stays beside the file.
    reader = hashlib.sha256(f"{Path.home()} {path.resolve()}".encode()).hexdigest()[:16]
    with FileLock(Path(tempfile.gettempdir()) / f"aot-{reader}.lock", timeout=30):
        kept = read(path)
        old = kept.get(number, {"status": "tried", "tries": 0})
        first = solved and all(each["status"] != "solved" for each in kept.values())
        kept[number] = {
            "status": "solved" if solved else old["status"],
            "tries": old["tries"] + 1,
            "last": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        content = json.dumps(dict(sorted(kept.items())), indent=1)
        write_atomically(path, f"{content}\n".encode())
    return first


def read(path: Path) -> dict[str, dict]:
    """{number: {"status", "tries", "last"}}; {} where the file is not there.

    Raises ValueError for a damaged file.
    """
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        for number, kept in content.items():
            whole = isinstance(kept["tries"], int) and isinstance(kept["last"], str)
            if kept["status"] not in ("solved", "tried") or not whole:
                raise ValueError(f"{number}: {kept}")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}: {error}): mend it, or delete it and all "
            "exercises are open again"
        ) from None
    return content


def tours(folder: Path) -> dict[str, list[Exercise]]:
    """The exercises of each tour in a folder, by its title. Raises ValueError without tours."""
    by_tour = {}
    for path in sorted(folder.glob("[0-9]*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
        title = re.search(r"^# (.+)", prose, flags=re.M)
        by_tour[title[1] if title else path.stem] = [
            Exercise(*task) for task in TASK.findall(prose)
        ]
    if not by_tour:
        raise ValueError(f"there are no tours in {folder}: start from the project's folder")
    return by_tour


if __name__ == "__main__":
    print(progress())
