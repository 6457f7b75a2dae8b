"""From a claim to its weights and its cell: rule, numbers by run, hashes; counts over the ledger.

`python -m aot_helpers.teaching.trace 10.5` prints one claim; without a number, the counts.
"""

import argparse
import json
import re
import sys

from aot_helpers.base import files
from aot_helpers.base.files import read_json
from aot_helpers.teaching import ledger
from aot_helpers.teaching.ledger import Entry, ledger_path, read_ledger
from aot_helpers.teaching.rules import (
    FLOORS,
    RULES,
    Claim,
    as_numbers,
    foretold,
    judge,
    load_claims,
    verdict_word,
)

NEAR = 0.1  # a verdict that turns when the bounds move by this share has a thin margin
DIGITS = 12  # of a sha256
# Models from outside: the results that were measured of them hold the hash of their weights.
OUTSIDE = {
    "smollm2": "pretrained/20-smollm2",
    "SmolLM2-135M-Instruct": "pretrained/20-smollm2",
    "minilm": "geometry/minilm",
}


def run_of(name: str) -> str:
    """The run that a number's name begins with: "stories-2l@400" of "stories-2l@400 L1H3"."""
    return name.split(" ")[0]


def hash_of(run: str) -> str | None:
    """The first digits of the sha256 of the weights of "name" or "name@step"; None: not kept.

    Checkpoints have a step, the last one by default; pretrained models and torus runs have none. Of
    a model from outside it is the hash of its parameters, as they were read.
    """
    name, _, step = run.partition("@")
    if name in OUTSIDE:
        return read_json(files.DATA / "results" / f"{OUTSIDE[name]}.json")["weights_sha256"][
            :DIGITS
        ]
    checkpoint = files.DATA / "checkpoints" / name / "checkpoint.json"
    pretrained = files.DATA / "pretrained" / name / "provenance.json"
    if checkpoint.is_file():
        manifest = read_json(checkpoint)
        last = max(manifest["steps"], key=int)
        if (step or last) not in manifest["steps"]:
            raise ValueError(f"{name} has no weights of step {step}; there are {manifest['steps']}")
        return manifest["sha256"][manifest["steps"][step or last]][:DIGITS]
    if pretrained.is_file():
        return read_json(pretrained)["sha256"]["model.safetensors"][:DIGITS]
    torus = read_json(files.DATA / "torus" / "runs.json")
    return torus[name]["sha256"][:DIGITS] if name in torus else None


def log_of(run: str) -> str | None:
    """Where the numbers of a run stand whose weights were not kept: its log, below data/results."""
    results, name = files.DATA / "results", run.partition("@")[0]
    group, slash, _ = name.partition(
        "/"
    )  # "sweep/20-4-128", "ladder/2-layers+d_mlp-128/none/seed-0"
    if (results / "training" / f"{name}.json").is_file():
        return f"training/{name}.json"
    if group == "sweep":
        return "sweep.json"
    trained = read_json(results / "autopsy.json")["runs"] if slash else {}
    groups = {each.split(" | ")[0].replace(" ", "-") for each in trained}
    return "autopsy.json" if group in groups else None


def weights_of(*names: list | dict | None, model: str | None = None, step=None) -> dict[str, str]:
    """{run: the hash of its weights} of every shipped run among the names and the model."""
    said = [each for given in names for each in _flat(given)]
    runs = dict.fromkeys(map(run_of, said))
    if model is not None:
        runs[model if step is None else f"{model}@{step}"] = None
    found = {run: hash_of(run) for run in runs}
    return {run: sha256 for run, sha256 in found.items() if sha256}


def named(here: str, names, numbers: dict[str, list[float]]):
    """The names of some numbers in the numbers' own form: one list serves every group.

    Raises ValueError where they are not as many as the numbers.
    """
    if names is None:
        return None
    given = names if isinstance(names, dict) else dict.fromkeys(numbers, list(names))
    wrong = [group for group in numbers if len(given.get(group, ())) != len(numbers[group])]
    if wrong or given.keys() - numbers.keys():
        counts = {group: len(each) for group, each in numbers.items()}
        raise ValueError(f"{here}: {names} must name {counts} numbers, one name each")
    given = {group: [str(each) for each in given[group]] for group in numbers}
    return given[""] if list(given) == [""] else given


def trace(id: str) -> str:
    """All that is known of a claim: rules, what both floors measured by run, weights, cell.

    Raises ValueError for a claim that is not declared.
    """
    declared = load_claims(id[:2])
    if id not in declared:
        raise ValueError(f"claim {id!r} is not in data/claims/: there are {', '.join(declared)}")
    one = declared[id]
    lines = [f"{id} ({one.kind}): {one.statement}", f"source: {one.source}"]
    for field in ("source_value", "holds_for", "declared", *RULES, "control", "why", "history"):
        lines += [f"{field}: {getattr(one, field)}"] if getattr(one, field) else []
    for floor in FLOORS:
        entry = read_ledger(ledger_path(ledger.PUBLISHED, id[:2], floor)).get(id)
        lines += ["", *_of_floor(one, entry, floor)] if entry else []
    return "\n".join(lines)


def _of_floor(one: Claim, entry: Entry, floor: str) -> list[str]:
    lines = [f"{floor}: {verdict_word(one, entry.verdict)}; {entry.measured_on()}".rstrip("; ")]
    for what, given, names in (
        ("values", entry.values, entry.of),
        ("control", entry.control, entry.control_of),
    ):
        for group, numbers in ({} if given is None else as_numbers(one.id, given)).items():
            known = names.get(group) if isinstance(names, dict) else names
            told = zip(known or [""] * len(numbers), numbers, strict=True)
            shown = ", ".join(f"{name} {number:.4g}".strip() for name, number in told)
            lines.append(f"  {what}{f' ({group})' * bool(group)}, {one.unit}: {shown}")
    lines += [f"  weights: {run} sha256 {sha256}…" for run, sha256 in (entry.weights or {}).items()]
    without = {run_of(name) for names in (entry.of, entry.control_of) for name in _flat(names)}
    for run in sorted(without - (entry.weights or {}).keys()):
        log = log_of(run)
        lines += [f"  weights: {run} not kept; its log is data/results/{log}"] if log else []
    return lines + [f"  {each}" for each in cell_of(one.id, floor)]


def cell_of(id: str, floor: str) -> list[str]:
    """Where a notebook of the floor makes the claim: its path and cell number, then the code."""
    folder = ledger.ROOT / "notebooks" / ("evidence" if floor == "evidence" else "")
    for path in sorted(folder.glob(f"{id[:2]}_*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
        for number, source in enumerate(code, 1):
            if re.search(rf'\bclaim\(\s*"{re.escape(id)}"', source):
                where = path.relative_to(ledger.ROOT).as_posix()
                return [f"made in {where}, code cell [{number}]:", *source.splitlines()]
    return []


def thin(one: Claim, entry: Entry) -> bool:
    """Whether the verdict turns when every bound of the claim's rules moves by NEAR, up or down.

    A bound of 0 moves by that share of the numbers' range; a number at its bound is always thin.
    """
    given = entry.values, entry.control
    values, control = (None if each is None else as_numbers(one.id, each) for each in given)
    for rule in (*RULES, "control"):
        numbers = control if rule == "control" else values
        for term in one.terms(rule) if numbers else ():
            if term.group and term.group not in numbers:
                continue  # the rule is newer than this entry
            asked = numbers[term.group] if term.group else sum(numbers.values(), [])
            size = abs(term.bound) or max(asked) - min(asked)
            near = abs(term.of(numbers) - term.bound) <= NEAR * size
            if near and _decides(one, entry, rule, term):
                return True
    return False


def _decides(one: Claim, entry: Entry, rule: str, term) -> bool:
    """Whether the verdict would be another, were this term's answer the opposite."""
    turned = {">=": "<", "<": ">=", "<=": ">", ">": "<="}[term.sign]
    old = " ".join(filter(None, (term.summary, term.group, term.sign)))
    new = old[: -len(term.sign)] + turned
    parts = [part.replace(old, new) if part.startswith(f"{old} ") else part
             for part in getattr(one, rule).split(" and ")]  # fmt: skip
    other = Claim(**{**vars(one), rule: " and ".join(parts)})
    try:
        return judge(other, entry.values, entry.control) != entry.verdict
    except ValueError:  # confirmed and refuted at once
        return True


def counts(floor: str = "evidence") -> dict[str, int]:
    """How many findings there are, with which verdict, declared when, of how many models."""
    declared = load_claims()
    entries = {}
    for path in sorted((ledger.PUBLISHED / floor).glob("*.json")):
        entries |= read_ledger(path)
    findings = {id: declared[id] for id in entries if declared[id].kind == "finding"}
    there = sum(one.kind != "moved" for one in declared.values())
    found = {"claims": there, "findings": len(findings)}
    words = {id: verdict_word(one, entries[id].verdict) for id, one in findings.items()}
    for word in sorted(set(words.values())):
        found[f"findings {word}"] = sum(each == word for each in words.values())
    before = [one for one in findings.values() if one.declared.startswith("before")]
    found["rules set before the values"] = len(before)
    found["of these in part"] = sum(map(in_part, before))
    found["rules set after"] = len(findings) - len(before)
    found["one model"] = sum(models_of(entries[id]) == 1 for id in findings)
    found[f"verdict within {NEAR:.0%} of a bound"] = sum(
        thin(one, entries[id]) for id, one in findings.items()
    )
    found["control once failed"] = sum("control failed" in one.history for one in declared.values())
    found["withdrawn"] = sum(one.kind == "withdrawn" for one in declared.values())
    found["findings whose numbers are named"] = sum(entries[id].of is not None for id in findings)
    return found


def in_part(one: Claim) -> bool:
    """Whether something of a claim that was set before its values has changed since."""
    return one.declared.startswith("before") and not foretold(one)


def models_of(entry: Entry) -> int:
    """How many trained models a claim's values rest on; 0 of texts alone or of untrained ones."""
    names = _flat(entry.of)
    several = [int(each[1]) for name in names if (each := re.match(r"(\d+) models", name))]
    runs = {run_of(name).partition("@")[0] for name in names}
    known = sum(bool(hash_of(run) or log_of(run)) for run in runs)
    return max(sum(several) or known, entry.seeds or 0)


def _flat(names: list | dict | None) -> list[str]:
    groups = names.values() if isinstance(names, dict) else [names or []]
    return [name for each in groups for name in each]


def main(arguments: list[str] | None = None) -> int:
    """Print what is known of the claims that are named, or the counts; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="NN.k", help="such as 10.4; none: the counts")
    for id in parser.parse_args(arguments).ids:
        try:
            print(trace(id), end="\n\n")
        except ValueError as error:
            parser.error(str(error))
    if not parser.parse_args(arguments).ids:
        print("\n".join(f"{n:5d}  {name}" for name, n in counts().items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
