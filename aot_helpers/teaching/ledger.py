"""The ledger: what was measured of each claim and what came of it; a run against the published.

`python -m aot_helpers.teaching.ledger` compares; it exits with 1 where a verdict or value differs.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from aot_helpers.base.errors import check_text, check_whole
from aot_helpers.base.files import DATA, check_writable, read_json, write_atomically
from aot_helpers.teaching.rules import (
    FLOORS,
    RULES,
    SUMMARIES,
    UNJUDGED,
    Claim,
    Term,
    as_numbers,
    load_claims,
)

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = DATA / "results" / "claims"
COUNTS = ("seeds", "texts", "heads")
ROUNDING = 0.01  # the least that a value may move, as a share of its group's largest


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What was measured of one claim, of what, and the verdict; None is what was not given.

    values, control: a list of numbers, or {group: list}; of, control_of: what each number was
    measured on, in the same form: a run and what of it, "stories-2l-seed1@400 L1H3". seeds: how
    many trainings that differ in their seed alone; texts, heads: how many. model: its name, as
    load_checkpoint has it; step: of its checkpoint; length: of a segment, in tokens, or several.
    weights: {run@step: the first digits of the sha256 of its weights}.
    """

    values: list | dict | None = None
    control: list | dict | None = None
    of: list | dict | None = None
    control_of: list | dict | None = None
    model: str | None = None
    step: int | None = None
    length: int | list | None = None
    seeds: int | None = None
    texts: int | None = None
    heads: int | None = None
    weights: dict | None = None
    verdict: str

    def __post_init__(self):
        least = {"step": 0, "length": 1, **dict.fromkeys(COUNTS, 1)}
        for name in (name for name in least if getattr(self, name) is not None):
            given = getattr(self, name)
            for each in given if name == "length" and isinstance(given, list) else [given]:
                check_whole(name, each, least[name])
        if self.model is not None:
            check_text("model", self.model)
            if not self.model.strip():
                raise ValueError(f"model must be the name of a model, got {self.model!r}")

    def measured_on(self) -> str:
        """The model, its step, the length and the counts: "stories-2l, step 400, 5 seeds"."""
        said = [self.model, self.step is not None and f"step {self.step}"]
        if self.length is not None:
            lengths = self.length if isinstance(self.length, list) else [self.length]
            said.append(f"length {', '.join(map(str, lengths))}")
        counts = {name: getattr(self, name) for name in COUNTS}
        said += [f"{n} {name if n != 1 else name[:-1]}" for name, n in counts.items() if n]
        return ", ".join(filter(None, said))


def results_folder() -> Path:
    """Where results go: AOT_RESULTS, else runs/results beside the notebooks' folder."""
    return Path(os.environ.get("AOT_RESULTS", ROOT / "runs" / "results"))


def ledger_path(claims: Path, notebook: str, floor: str) -> Path:
    """The ledger of notebook "NN" on a floor, below a folder such as data/results/claims."""
    if floor not in FLOORS:
        raise ValueError(f"floor must be one of {', '.join(FLOORS)}, got {floor!r}")
    return claims / floor / f"{notebook}.json"


def read_ledger(path: Path) -> dict[str, Entry]:
    """The entries of a ledger by id; {} if there is no such file."""
    entries = read_json(path) if path.is_file() else {}
    return {id: Entry(**entry) for id, entry in entries.items()}


def keep(path: Path, id: str, entry: Entry, declared: dict[str, Claim]) -> None:
    """Write the entry to the ledger, and leave out what is no longer declared."""
    check_writable(path.parent)
    ledger = read_ledger(path) | {id: entry}
    kept = sorted(ledger.keys() & declared, key=lambda id: int(id[3:]))  # 04.9 before 04.10
    given = {id: {k: v for k, v in asdict(ledger[id]).items() if v is not None} for id in kept}
    lines = [f' "{id}": {json.dumps(entry, ensure_ascii=False)}' for id, entry in given.items()]
    write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def measured(one: Claim, entry: Entry) -> str:
    """The ranges of values and control with unit and counts, or why nothing was measured.

    Where a rule asks for a median or a mean, that comes first.
    """
    parts = [one.why] if one.kind in UNJUDGED else []
    for given, said, asked in (
        (entry.values, one.unit, one.terms(*RULES)),
        (entry.control, "in the control", one.terms("control")),
    ):
        if given is not None:
            groups = as_numbers(one.id, given).items()
            parts.append(", ".join(_range(*group, asked) for group in groups) + f" {said}")
    return "; ".join(filter(None, [*parts, entry.measured_on()]))


def _range(group: str, numbers: list[float], asked: list[Term]) -> str:
    ends = " to ".join(dict.fromkeys(f"{end:.3g}" for end in (min(numbers), max(numbers))))
    summaries = dict.fromkeys(t.summary for t in asked if t.group in ("", group))
    middle = [f"{s} {SUMMARIES[s](numbers):.3g}" for s in summaries if s in ("mean", "median")]
    if middle and " to " in ends:
        ends = f"{', '.join(middle)} ({ends})"
    return (f"{group}: " if group else "") + ends


def turned(
    fresh: Path,
    published: Path = PUBLISHED,
    floors: Iterable[str] = FLOORS,
    notebooks: Iterable[str] = (),
) -> list[str]:
    """What a run claims otherwise than published: a line each, and none where all comes out again.

    fresh, published: folders with tour/NN.json and evidence/NN.json. notebooks: "04", …; or all.
    Named are claims that one of the two lacks, verdicts that turned, and values further outside
    the published range of their group than its margin (see `margin`). Of identities, whose rule is
    their tolerance, and of models trained in the notebook (`live`) only the verdict
    counts, and where it `wavers` from machine to machine, only that it is one of those declared.
    """
    declared, lines, names = load_claims(), [], tuple(notebooks)
    for floor in floors:
        old, new = (_of_floor(folder / floor, names) for folder in (published, fresh))
        for id in sorted(old.keys() | new.keys(), key=lambda id: (id[:2], int(id[3:]))):
            if id not in declared:
                said = ["it is not declared in data/claims"]
            elif id not in new:
                said = [f"published as {old[id].verdict}, but this run does not claim it"]
            elif id not in old:
                said = [f"this run finds it {new[id].verdict}, but it is not published"]
            elif {old[id].verdict, new[id].verdict} <= set(declared[id].wavers.split(", ")):
                said = []  # runs of the same code have given both, and the declaration says so
            elif old[id].verdict != new[id].verdict:
                shown = (f"{e.verdict} of {measured(declared[id], e)}" for e in (old[id], new[id]))
                said = ["published as {}; now {}".format(*shown)]
            elif declared[id].kind == "identity" or floor in declared[id].live:
                said = []
            else:
                said = _moved(declared[id], old[id], new[id])
            lines += [f"claim {id} of the {floor}: {each}" for each in said]
    return lines


def _of_floor(folder: Path, notebooks: tuple[str, ...]) -> dict[str, Entry]:
    paths = (path for path in folder.glob("*.json") if not notebooks or path.stem in notebooks)
    return {id: entry for path in paths for id, entry in read_ledger(path).items()}


def _moved(one: Claim, old: Entry, new: Entry) -> list[str]:
    """The groups whose values lie outside the published range by more than the margin."""
    decided = [old.verdict] if old.verdict in RULES else RULES
    said = []
    for what, asked in (("values", one.terms(*decided)), ("control", one.terms("control"))):
        given = getattr(old, what), getattr(new, what)
        before, after = ({} if each is None else as_numbers(one.id, each) for each in given)
        if before.keys() != after.keys():
            said.append(f"its {what} had the groups {list(before)}, now {list(after)}")
        for group in (group for group in before if group in after):
            room, numbers = margin(asked, before, group), (before[group], after[group])
            ends = [(min(each), max(each)) for each in numbers]
            if ends[1][0] < ends[0][0] - room or ends[1][1] > ends[0][1] + room:
                was, now = (_range(group, each, asked) for each in numbers)
                said.append(f"its {what} were {was}; now {now}, and {room:.2g} is its margin")
    return said


def margin(asked: list[Term], numbers: dict[str, list[float]], group: str) -> float:
    """How far a group's values may lie outside their published range.

    The distance between a number that decides and its bound, the smallest of the terms that ask of
    the group: what moves further has eaten up the margin by which the rule held. At least
    ROUNDING of the group's largest value; without end where no rule asks of the group.
    """
    gaps = [abs(t.of(numbers) - t.bound) for t in asked if t.group in ("", group)]
    return max(min(gaps), ROUNDING * max(map(abs, numbers[group]))) if gaps else float("inf")


def main(arguments: list[str] | None = None) -> int:
    """Print what `turned` finds; the exit status."""
    parser = argparse.ArgumentParser(description="Compare a run's claims with the published ones.")
    parser.add_argument(
        "--fresh", type=Path, help="default: claims/ of AOT_RESULTS or runs/results"
    )
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    parser.add_argument("--floor", choices=[*FLOORS, "both"], default="both")
    parser.add_argument("--only", nargs="+", default=[], metavar="NN", help="such as 03 10")
    options = parser.parse_args(arguments)
    floors = FLOORS if options.floor == "both" else [options.floor]
    fresh = options.fresh or results_folder() / "claims"
    lines = turned(fresh, options.published, floors, options.only)
    print("\n".join(lines) or f"the claims in {fresh} come out as published")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
