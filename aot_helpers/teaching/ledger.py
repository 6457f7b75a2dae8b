"""The ledger: claims as the evidence makes them, judged, printed, kept, tabled and compared.

`python -m aot_helpers.teaching.ledger` compares a run with what is published, and exits with 1
where a verdict or value differs; with ids, such as 10.5, it prints all that is known of them.
"""

import argparse
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aot_helpers.base.errors import check_whole
from aot_helpers.base.files import DATA, check_writable, read_json, write_atomically
from aot_helpers.teaching import rules
from aot_helpers.teaching.rules import RULES, Claim, Numbers, Term, as_numbers

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = DATA / "results" / "claims"
COUNTS = ("length", "seeds", "texts", "heads")
# Models from outside: what was measured of them holds the hash of their weights.
OUTSIDE = {
    "smollm2": "pretrained/20-smollm2",
    "SmolLM2-135M-Instruct": "pretrained/20-smollm2",
    "minilm": "geometry/minilm",
}
# The verdicts in a tour's words.
PLAIN = {
    "confirmed": "holds",
    "partly": "holds in part",
    "refuted": "fails",
    "control failed": "undecided: the control failed",
}
Entry = dict[str, Any]  # a line of the ledger: verdict and what `claim` was given


def claim(
    id: str,
    values=None,
    control=None,
    *,
    of=None,
    control_of=None,
    length=None,
    seeds=None,
    texts=None,
    heads=None,
) -> None:
    """Judge a declared claim, print its verdict and ranges, and write it to the ledger.

    values and control: a number, list or tensor in the declared unit, or {group: those}; kept to 4
    significant digits. of, control_of: what each number was measured on, as many names as numbers,
    a list for all groups or {group: list}: a run, its step unless that is the last, and what of it,
    "stories-2l-seed1@400 L1H3"; a control with as many numbers as the values takes the values'
    names unless it has its own. length: of the segments in tokens, or several. seeds: how many
    trainings that differ in their seed alone; texts, heads: how many; a finding gives one of the
    three. Raises ValueError for an id that is not declared, names that are not as many as the
    numbers, a count that is not whole, and as rules.judge does.
    """
    here, declared = f"claim {id}", rules.declared_claims(id)
    one = declared[id]
    values, control = (v if v is None else as_numbers(here, v) for v in (values, control))
    verdict = rules.judge(one, values, control)
    if one.kind == "finding" and not (seeds or texts or heads):
        raise ValueError(f"{here} is a finding: say how many seeds, texts or heads it is from")
    of, control_of = (
        _names(f"{here}: of", of, values),
        _names(f"{here}: control_of", control_of, control),
    )
    if of and control and control_of is None and _sizes(values) == _sizes(control):
        control_of = of
    entry = {"values": values, "control": control, "of": of, "control_of": control_of}
    entry = {what: e[""] if e and list(e) == [""] else e for what, e in entry.items()}
    for name, count in zip(COUNTS, (length, seeds, texts, heads), strict=True):
        if count is None:
            continue
        entry[name] = count.tolist() if hasattr(count, "tolist") else count
        for each in entry[name] if isinstance(entry[name], list) else [entry[name]]:
            check_whole(f"{here}: {name}", each, 1)
    entry = {what: e for what, e in entry.items() if e is not None} | {"verdict": verdict}
    keep(results_folder() / "claims", id, entry, declared)
    print(line(one, entry))


def _sizes(numbers: Numbers) -> dict[str, int]:
    return {group: len(each) for group, each in numbers.items()}


def _names(here: str, names, numbers: Numbers | None) -> dict[str, list[str]] | None:
    """The names of some numbers in the numbers' own form: one list serves every group."""
    if names is None:
        return None
    if not isinstance(names, Mapping):
        names = dict.fromkeys(numbers or {}, list(names))
    if _sizes(names) != _sizes(numbers or {}):
        raise ValueError(
            f"{here}: {names} must name {_sizes(numbers or {})} numbers, one name each"
        )
    return {group: [str(each) for each in names[group]] for group in names}


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
    kept = sorted(ledger.keys() & declared, key=_place)
    lines = ",\n".join(f'  "{id}": {json.dumps(ledger[id], ensure_ascii=False)}' for id in kept)
    weights = json.dumps(weights_of(ledger[id] for id in kept))
    text = f'{{\n "weights": {weights},\n "claims": {{\n{lines}\n }}\n}}\n'
    write_atomically(folder / f"{id[:2]}.json", text.encode())


def _place(id: str) -> int:
    """The number of a claim in its notebook: 04.9 comes before 04.10."""
    return int(id[3:])


def weights_of(entries: Iterable[Entry]) -> dict[str, str]:
    """{run: the sha256 of its weights} of every shipped run that the entries were measured on."""
    runs = set()
    for entry in entries:
        for field in ("of", "control_of"):
            names = entry.get(field, [])  # of one group of values, or {group: its names}
            for group in names.values() if isinstance(names, dict) else [names]:
                runs |= {name.split(" ")[0] for name in group}
    return {run: sha256 for run in sorted(runs) if (sha256 := weights_sha256(run))}


def weights_sha256(run: str) -> str | None:
    """The first 12 digits of the sha256 of the weights of "name" or "name@step"; None: not shipped.

    Checkpoints have a step, the last one by default; pretrained models and torus runs have none.
    Raises ValueError for a step that a checkpoint does not have.
    """
    name, _, step = run.partition("@")
    checkpoint = DATA / "checkpoints" / name / "checkpoint.json"
    pretrained = DATA / "pretrained" / name / "provenance.json"
    if name in OUTSIDE:
        sha256 = read_json(DATA / "results" / f"{OUTSIDE[name]}.json")["weights_sha256"]
    elif checkpoint.is_file():
        steps, hashes = (read_json(checkpoint)[key] for key in ("steps", "sha256"))
        if step and step not in steps:
            raise ValueError(f"{name} has no weights of step {step}; there are {', '.join(steps)}")
        sha256 = hashes[steps[step or max(steps, key=int)]]
    elif pretrained.is_file():
        sha256 = read_json(pretrained)["sha256"]["model.safetensors"]
    else:
        sha256 = read_json(DATA / "torus" / "runs.json").get(name, {}).get("sha256", "")
    return sha256[:12] or None


def line(one: Claim, entry: Entry) -> str:
    """What the evidence prints of a claim; the last digits are of the whole entry's sha256."""
    digits = hashlib.sha256(json.dumps(entry).encode()).hexdigest()[:4]
    return f"{one.id} {entry['verdict']}: {one.says} ({measured(one, entry)}) #{digits}"


def measured(one: Claim, entry: Entry) -> str:
    """The ranges of values and control with unit and counts, or why nothing was measured.

    Where a rule asks for a median or a mean, that comes first.
    """
    parts = [one.why] if one.kind in rules.UNJUDGED else []
    for what, terms in _judged(one).items():
        if what in entry:
            ranges = [_range(*each, terms) for each in as_numbers(one.id, entry[what]).items()]
            unit = one.unit if what == "values" else "in the control"
            parts.append(f"{', '.join(ranges)} {unit}")
    counts = [f"length {str(entry['length']).strip('[]')}"] if "length" in entry else []
    for name in COUNTS[1:]:
        if name in entry:
            counts.append(f"{entry[name]} {name if entry[name] != 1 else name[:-1]}")
    return "; ".join(filter(None, [*parts, ", ".join(counts)]))


def _judged(one: Claim) -> dict[str, list[Term]]:
    """What an entry may hold of a claim: the terms of the rules that ask of it."""
    return {"values": one.terms(*RULES), "control": one.terms("control")}


def _range(group: str, numbers: list[float], terms: list[Term]) -> str:
    ends = " to ".join(dict.fromkeys(f"{end:.3g}" for end in (min(numbers), max(numbers))))
    summaries = dict.fromkeys(t.summary for t in terms if t.group in ("", group))
    middle = [
        f"{s} {rules.SUMMARIES[s](numbers):.3g}" for s in summaries if s in ("mean", "median")
    ]
    if middle and " to " in ends:
        ends = f"{', '.join(middle)} ({ends})"
    return (f"{group}: " if group else "") + ends


def claims_table(notebook: str, ranges: bool = False):
    """A Markdown table of the claims of notebook "NN": what was tested, on what, and the verdict.

    As published, in plain words, its findings alone (all claims where it has none), each with a
    link into the evidence; with `ranges`, for the evidence itself, all claims of this run with kind
    and measured ranges. Raises ValueError where there are none.
    """
    from IPython.display import Markdown

    folder = results_folder() / "claims" if ranges else PUBLISHED
    entries, declared = read_ledger(folder, notebook), rules.load_claims(notebook)
    if not entries:
        raise ValueError(f"notebook {notebook} has no claims in {folder}: run its evidence first")
    if ranges:
        head, rows = ["", "claim", "kind", "measured", "verdict"], []
        for id, entry in entries.items():
            one, verdict = declared[id], entry["verdict"]
            kind = one.kind + ", rule set before" * one.before
            rows.append([id, one.says, kind, measured(one, entry), verdict])
    else:
        head, rows = ["tested", "in", "result"], []
        (path,) = (ROOT / "notebooks" / "evidence").glob(f"{notebook}_*.ipynb")
        findings = {id: e for id, e in entries.items() if declared[id].kind == "finding"}
        for id, entry in (findings or entries).items():
            result = PLAIN.get(entry["verdict"], entry["verdict"])
            rows.append([declared[id].says, tested_in(entry), f"[{result}](evidence/{path.name})"])
    lines = [head, ["---"] * len(head), *rows]
    lines = (" | ".join(cell.replace("|", "∣") for cell in row) for row in lines)
    return Markdown("\n".join(f"| {each} |" for each in lines))


def tested_in(entry: Entry) -> str:
    """How many models and texts a claim rests on: "5 models, 40 texts"."""
    shipped = {run.split("@")[0] for run in weights_of([{"of": entry.get("of", [])}])}
    counts = {"model": max(len(shipped), entry.get("seeds", 0)), "text": entry.get("texts", 0)}
    counts = counts if any(counts.values()) else {"head": entry.get("heads", 0)}
    return ", ".join(f"{n:,} {what}{'s' * (n != 1)}" for what, n in counts.items() if n)


def differences(fresh: Path, published: Path = PUBLISHED) -> list[str]:
    """What a run claims otherwise than published: a line each, and none where all comes out again.

    fresh, published: folders of ledgers. Named are claims that one of the two lacks, verdicts that
    turned, and values further outside the published range of their group than its margin. Of
    identities, whose rule is their tolerance, only the verdict counts.
    """
    declared, lines = rules.load_claims(), []
    notebooks = {path.stem for folder in (fresh, published) for path in folder.glob("*.json")}
    for notebook in sorted(notebooks):
        old, new = (read_ledger(folder, notebook) for folder in (published, fresh))
        for id in sorted(old.keys() | new.keys(), key=_place):
            if id not in declared:
                changes = ["it is not declared in data/claims"]
            elif id not in new or id not in old:
                changes = [f"it is {'published' if id in old else 'found by this run'} alone"]
            elif old[id]["verdict"] != new[id]["verdict"]:
                was, now = (
                    f"{e['verdict']}, {measured(declared[id], e)}" for e in (old[id], new[id])
                )
                changes = [f"published as {was}; this run finds it {now}"]
            else:
                changes = _changed_values(declared[id], old[id], new[id])
            lines += [f"claim {id}: {each}" for each in changes]
    return lines


def _changed_values(one: Claim, old: Entry, new: Entry) -> list[str]:
    """The groups whose values lie outside the published range by more than the margin."""
    changes = []
    for what, terms in _judged(one).items():
        was, now = (as_numbers(one.id, e[what]) if what in e else {} for e in (old, new))
        if was.keys() != now.keys():
            changes.append(f"its {what} had the groups {list(was)}, now {list(now)}")
            continue
        for group in was if one.kind != "identity" else ():
            room, before, after = margin(one, terms, was, group), was[group], now[group]
            if min(after) < min(before) - room or max(after) > max(before) + room:
                before, after = (_range(group, each, terms) for each in (before, after))
                changes.append(f"its {what} were {before}; now {after}; {room:.2g} is allowed")
    return changes


def margin(one: Claim, terms: list[Term], numbers: Numbers, group: str) -> float:
    """How far a group's values may lie outside their published range.

    The distance between a number that decides and its bound, the smallest of the terms that ask of
    the group: what moves further has eaten up the margin by which the rule held. At least the
    claim's tolerance, a fraction of the group's largest value; without end where no rule asks of
    it.
    """
    gaps = [abs(t.of(numbers) - t.bound) for t in terms if t.group in ("", group)]
    return max(min(gaps), one.tolerance * max(map(abs, numbers[group]))) if gaps else float("inf")


def describe(id: str) -> str:
    """All that is known of a claim: what is declared, what was measured, and of which weights.

    Raises ValueError for a claim that is not declared.
    """
    declared = rules.declared_claims(id)
    entry = read_ledger(PUBLISHED, id[:2]).get(id, {})
    known = asdict(declared[id]) | entry | {"weights": weights_of([entry])}
    return "\n".join(f"{name}: {each}" for name, each in known.items() if each not in ("", None))


def main(arguments: list[str] | None = None) -> int:
    """Print what `differences` finds, or what is known of some claims; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("ids", nargs="*", metavar="NN.k", help="claims to describe, such as 10.5")
    ids = parser.parse_args(arguments).ids
    if ids:
        print("\n\n".join(map(describe, ids)))
        return 0
    fresh = results_folder() / "claims"
    lines = differences(fresh)
    print("\n".join(lines) or f"the claims in {fresh} come out as published")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
