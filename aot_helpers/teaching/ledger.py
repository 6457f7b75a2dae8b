"""The ledger: what was measured of each claim, of which weights, and what came of it.

`python -m aot_helpers.teaching.ledger` compares a run with what is published, and exits with 1
where a verdict or value differs; with ids, such as 10.5, it prints all that is known of them.
"""

import argparse
import hashlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aot_helpers.base import files
from aot_helpers.base.files import DATA, check_writable, read_json, write_atomically
from aot_helpers.teaching.rules import (
    RULES,
    SUMMARIES,
    UNJUDGED,
    Claim,
    Numbers,
    Term,
    as_numbers,
    declared_claims,
    load_claims,
)

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = DATA / "results" / "claims"
COUNTS = ("length", "seeds", "texts", "heads")
# Models from outside: what was measured of them holds the hash of their weights.
OUTSIDE = {
    "smollm2": "pretrained/20-smollm2",
    "SmolLM2-135M-Instruct": "pretrained/20-smollm2",
    "minilm": "geometry/minilm",
}


Entry = dict[str, Any]  # a line of the ledger: verdict and what `claims.claim` was given


def results_folder() -> Path:
    """Where results go: AOT_RESULTS, else runs/results beside the notebooks' folder."""
    return Path(os.environ.get("AOT_RESULTS", ROOT / "runs" / "results"))


def read_ledger(folder: Path, notebook: str) -> dict[str, Entry]:
    """The entries by id in a folder such as PUBLISHED; {} where notebook "NN" has none."""
    path = folder / f"{notebook}.json"
    kept = read_json(path) if path.is_file() else {"claims": {}}
    if not isinstance(kept.get("claims"), dict):
        raise ValueError(f"{path} is damaged (it has no claims): git checkout -- {path}")
    return kept["claims"]


def keep(folder: Path, id: str, entry: Entry, declared: dict[str, Claim]) -> None:
    """Write the entry to its notebook's ledger, and leave out what is no longer declared."""
    check_writable(folder)
    ledger = read_ledger(folder, id[:2]) | {id: entry}
    kept = sorted(ledger.keys() & declared, key=lambda id: int(id[3:]))  # 04.9 before 04.10
    lines = ",\n".join(f'  "{id}": {json.dumps(ledger[id], ensure_ascii=False)}' for id in kept)
    weights = json.dumps(weights_of({id: ledger[id] for id in kept}))
    text = f'{{\n "weights": {weights},\n "claims": {{\n{lines}\n }}\n}}\n'
    write_atomically(folder / f"{id[:2]}.json", text.encode())


def names_of(entry: Entry, *fields: str) -> list[str]:
    """What the numbers of an entry were measured on, its groups after one another."""
    given = [entry.get(field, []) for field in fields]
    groups = [list(each.values()) if isinstance(each, dict) else [each] for each in given]
    return [name for each in groups for group in each for name in group]


def weights_of(entries: dict[str, Entry]) -> dict[str, str]:
    """{run: the sha256 of its weights} of every shipped run that the entries were measured on."""
    names = [n for entry in entries.values() for n in names_of(entry, "of", "control_of")]
    found = {run: weights_sha256(run) for run in sorted({name.split(" ")[0] for name in names})}
    return {run: sha256 for run, sha256 in found.items() if sha256}


def weights_sha256(run: str) -> str | None:
    """The first 12 digits of the sha256 of the weights of "name" or "name@step"; None: not shipped.

    Checkpoints have a step, the last one by default; pretrained models and torus runs have none.
    Raises ValueError for a step that a checkpoint does not have.
    """
    name, _, step = run.partition("@")
    checkpoint = files.DATA / "checkpoints" / name / "checkpoint.json"
    pretrained = files.DATA / "pretrained" / name / "provenance.json"
    torus = read_json(files.DATA / "torus" / "runs.json")
    if name in OUTSIDE:
        found = read_json(files.DATA / "results" / f"{OUTSIDE[name]}.json")["weights_sha256"]
    elif checkpoint.is_file():
        steps, hashes = (read_json(checkpoint)[key] for key in ("steps", "sha256"))
        if step and step not in steps:
            raise ValueError(f"{name} has no weights of step {step}; there are {', '.join(steps)}")
        found = hashes[steps[step or max(steps, key=int)]]
    elif pretrained.is_file():
        found = read_json(pretrained)["sha256"]["model.safetensors"]
    else:
        found = torus.get(name, {}).get("sha256", "")
    return found[:12] or None


def line(one: Claim, entry: Entry) -> str:
    """What the evidence prints of a claim; the last digits are of the whole entry's sha256."""
    digits = hashlib.sha256(json.dumps(entry).encode()).hexdigest()[:4]
    return f"{one.id} {entry['verdict']}: {one.says} ({measured(one, entry)}) #{digits}"


def measured(one: Claim, entry: Entry) -> str:
    """The ranges of values and control with unit and counts, or why nothing was measured.

    Where a rule asks for a median or a mean, that comes first.
    """
    parts = [one.why] if one.kind in UNJUDGED else []
    for what, unit, rules in (
        ("values", one.unit, RULES),
        ("control", "in the control", ["control"]),
    ):
        if what in entry:
            groups = as_numbers(one.id, entry[what]).items()
            parts.append(", ".join(_range(*g, one.terms(*rules)) for g in groups) + f" {unit}")
    counts = [f"length {str(entry['length']).strip('[]')}"] if "length" in entry else []
    given = {name: entry[name] for name in COUNTS[1:] if name in entry}
    counts += [f"{n} {name if n != 1 else name[:-1]}" for name, n in given.items()]
    return "; ".join(filter(None, [*parts, ", ".join(counts)]))


def _range(group: str, numbers: list[float], asked: list[Term]) -> str:
    ends = " to ".join(dict.fromkeys(f"{end:.3g}" for end in (min(numbers), max(numbers))))
    summaries = dict.fromkeys(t.summary for t in asked if t.group in ("", group))
    middle = [f"{s} {SUMMARIES[s](numbers):.3g}" for s in summaries if s in ("mean", "median")]
    if middle and " to " in ends:
        ends = f"{', '.join(middle)} ({ends})"
    return (f"{group}: " if group else "") + ends


def differences(fresh: Path, published: Path = PUBLISHED, notebooks: list[str] | None = None):
    """What a run claims otherwise than published: a line each, and none where all comes out again.

    fresh, published: folders of ledgers. notebooks: ["04", …], or all. Named are claims that one of
    the two lacks, verdicts that turned, and values further outside the published range of their
    group than its margin. Of identities, whose rule is their tolerance, only the verdict counts.
    """
    declared, lines = load_claims(), []
    every = sorted({path.stem for folder in (fresh, published) for path in folder.glob("*.json")})
    for notebook in notebooks or every:
        old, new = (read_ledger(folder, notebook) for folder in (published, fresh))
        for id in sorted(old.keys() | new.keys(), key=lambda id: int(id[3:])):
            if id not in declared:
                found = ["it is not declared in data/claims"]
            elif id not in new or id not in old:
                found = [f"it is {'published' if id in old else 'found by this run'} alone"]
            elif old[id]["verdict"] != new[id]["verdict"]:
                was, now = (
                    f"{e['verdict']}, {measured(declared[id], e)}" for e in (old[id], new[id])
                )
                found = [f"published as {was}; this run finds it {now}"]
            else:
                found = _moved(declared[id], old[id], new[id])
            lines += [f"claim {id}: {each}" for each in found]
    return lines


def _moved(one: Claim, old: Entry, new: Entry) -> list[str]:
    """The groups whose values lie outside the published range by more than the margin."""
    found = []
    for what, rules in {"values": RULES, "control": ["control"]}.items():
        asked = one.terms(*rules)
        was, now = (as_numbers(one.id, e[what]) if what in e else {} for e in (old, new))
        if was.keys() != now.keys():
            found.append(f"its {what} had the groups {list(was)}, now {list(now)}")
            continue
        for group in was if one.kind != "identity" else ():
            room, before, after = margin(one, asked, was, group), was[group], now[group]
            if min(after) < min(before) - room or max(after) > max(before) + room:
                before, after = (_range(group, each, asked) for each in (before, after))
                found.append(f"its {what} were {before}; now {after}; {room:.2g} is allowed")
    return found


def margin(one: Claim, asked: list[Term], numbers: Numbers, group: str) -> float:
    """How far a group's values may lie outside their published range.

    The distance between a number that decides and its bound, the smallest of the terms that ask of
    the group: what moves further has eaten up the margin by which the rule held. At least the
    claim's tolerance, a share of the group's largest value; without end where no rule asks of it.
    """
    gaps = [abs(t.of(numbers) - t.bound) for t in asked if t.group in ("", group)]
    return max(min(gaps), one.tolerance * max(map(abs, numbers[group]))) if gaps else float("inf")


def describe(id: str) -> str:
    """All that is known of a claim: what is declared, what was measured, and of which weights.

    Raises ValueError for a claim that is not declared.
    """
    declared = declared_claims(id)
    entry = read_ledger(PUBLISHED, id[:2]).get(id, {})
    known = asdict(declared[id]) | entry | {"weights": weights_of({id: entry})}
    return "\n".join(f"{name}: {each}" for name, each in known.items() if each not in ("", None))


def main(arguments: list[str] | None = None) -> int:
    """Print what `differences` finds, or what is known of some claims; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("ids", nargs="*", metavar="NN.k", help="claims to describe, such as 10.5")
    parser.add_argument("--only", nargs="+", metavar="NN", help="notebooks to compare")
    options = parser.parse_args(arguments)
    if options.ids:
        print("\n\n".join(map(describe, options.ids)))
        return 0
    fresh = results_folder() / "claims"
    lines = differences(fresh, PUBLISHED, options.only)
    print("\n".join(lines) or f"the claims in {fresh} come out as published")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
