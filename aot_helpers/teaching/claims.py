"""Claims, judged by rules that stand apart from what is measured, and the ledger of verdicts."""

import difflib
import json
import math
import os
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from aot_helpers.base.files import DATA, check_writable, read_json, write_atomically

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
RULES = ("confirmed", "refuted")
NEEDS = {  # kind of claim: what it must have besides statement, source and holds_for
    "finding": (*RULES, "control", "declared", "unit"),  # without a control it is none
    "identity": (*RULES, "unit"),  # true by algebra
    "construction": (*RULES, "unit"),  # true because we built it so
    "open": ("why",),  # cannot be tested here
}
FLOORS = {"tour": "claims/tour", "evidence": "claims"}
COUNTS = ("seeds", "texts", "heads")
SIGNS = {"<=": float.__le__, ">=": float.__ge__, "<": float.__lt__, ">": float.__gt__}
ENDS = ("min", "max")
AFTER = {"confirmed": "holds", "partly": "holds in part", "refuted": "fails"}  # nobody foretold it
SUMMARIES = {"min": min, "max": max, "mean": statistics.fmean, "median": statistics.median}
TERM = re.compile(
    r"(min|max|mean|median)(?: ([^<>]*[^<> ]))? (<=|>=|<|>) (-?\d+(?:\.\d+)?(?:e-?\d+)?)"
)


@dataclass(frozen=True)
class Claim:
    """One entry of claims.toml, all text; that file says at its top what each field holds."""

    id: str
    kind: str
    statement: str = ""
    source: str = ""
    holds_for: str = ""
    declared: str = ""
    confirmed: str = ""
    refuted: str = ""
    control: str = ""
    unit: str = ""
    source_value: str = ""
    why: str = ""

    def __post_init__(self):
        needs = ("statement", "source", "holds_for", *NEEDS.get(self.kind, ()))
        missing = ", ".join(name for name in needs if not getattr(self, name))
        rules = _terms(self.confirmed, self.refuted, self.control)
        bad = [term for term in rules if not TERM.fullmatch(term)]
        when = re.match(r"(before|after)\b", self.declared or "before")
        problems = {
            "its id must be NN.k, such as 04.2": not re.fullmatch(r"\d\d\.[1-9]\d*", self.id),
            f"kind must be one of {', '.join(NEEDS)}, got {self.kind!r}": self.kind not in NEEDS,
            f"a claim of kind {self.kind} needs {missing}": missing,
            "an open claim has no rules": self.kind == "open" and rules,
            f"declared must begin with before or after, got {self.declared!r}": not when,
            f"its unit has {len(self.unit)} characters; keep to 30": len(self.unit) > 30,
            f"{bad} must be 'min|max|mean|median [name] <=|>=|<|> number'": bad,
        }
        for problem in (problem for problem, found in problems.items() if found):
            raise ValueError(f"claim {self.id} of claims.toml: {problem}")


def load_claims(path: Path | None = None) -> dict[str, Claim]:
    """All declared claims by id, from data/claims.toml. Raises ValueError for an invalid one."""
    entries = tomllib.loads((path or DATA / "claims.toml").read_text(encoding="utf-8"))
    known = [field.name for field in fields(Claim)][1:]
    for id, entry in entries.items():
        if bad := [name for name in entry if name not in known or type(entry[name]) is not str]:
            raise ValueError(f"claim {id} of claims.toml: {bad} must be texts among {known}")
    return {id: Claim(id, **{"kind": "", **entry}) for id, entry in entries.items()}


def judge(declared: Claim, values, control=None) -> str:
    """The verdict on values and control: numbers, or {group: numbers} with the same groups.

    Values without groups may have a control with groups: several controls of the same values.
    "confirmed", "refuted" or between them "partly"; "control failed" where the control breaks
    its rule; "not testable here" for an open claim. Raises ValueError where both rules hold,
    something is missing or not finite, a rule names a group that is not there, or no rule asks
    of a group (one without a name asks of all).
    """
    here = f"claim {declared.id}"
    wanted = {"values": declared.kind != "open", "control values": bool(declared.control)}
    for (what, is_wanted), given in zip(wanted.items(), (values, control), strict=True):
        if (given is None) == is_wanted:
            says = "needs" if is_wanted else "takes no"
            raise ValueError(f"{here} {says} {what}: so data/claims.toml declares it")
    if declared.kind == "open":
        return "not testable here"
    values = _numbers(here, values)
    named = {TERM.fullmatch(term)[2] for term in _terms(declared.confirmed, declared.refuted)}
    if None not in named and (left := values.keys() - named):
        raise ValueError(f"{here} measures {sorted(left)}, of which no rule asks: mend its rules")
    held = {rule: _holds(here, getattr(declared, rule), values) for rule in RULES}
    if all(held.values()):
        raise ValueError(f"{here} is confirmed and refuted at once by {values}: mend its rules")
    if declared.control:
        control = _numbers(here, control)
        if values.keys() not in ({""}, control.keys()):
            raise ValueError(f"{here} has {list(values)}, its control {list(control)}: give both")
        if not _holds(here, declared.control, control):
            return "control failed"
    return next((rule for rule in RULES if held[rule]), "partly")


def claim(
    id: str,
    values=None,
    control=None,
    *,
    says=None,
    seeds=None,
    texts=None,
    heads=None,
    floor="tour",
) -> None:
    """Judge a declared claim, print its verdict in one sentence, and write it to the ledger.

    values and control: a number, list or tensor in the declared unit, or {group: those}; kept to 4
    significant digits. says: the sentence a tour prints, with {value} and {control} in the places
    of the numbers that decide, else the statement with both; the evidence prints all ranges.
    seeds, texts, heads: how many were measured. floor: "tour" or "evidence", where a finding must
    give one of these counts. Raises ValueError for an id that is not declared, and as judge does.
    """
    given = (n.tolist() if hasattr(n, "tolist") else n for n in (seeds, texts, heads))
    declared, counts = load_claims(), dict(zip(COUNTS, given, strict=True))
    if bad := [n for n in counts.values() if n is not None and (type(n) is not int or n < 1)]:
        raise ValueError(f"claim {id}: seeds, texts and heads must be whole, 1 or more, got {bad}")
    if id not in declared:
        near = ", ".join(difflib.get_close_matches(id, declared, cutoff=0)) or "none"
        raise ValueError(f"claim {id!r} is not in data/claims.toml (nearest: {near}): declare it")
    one = declared[id]
    if floor == "evidence" and one.kind == "finding" and not any(counts.values()):
        raise ValueError(f"claim {id} is a finding: say how many seeds, texts or heads it is from")
    path = _ledger(results_folder(), id[:2], floor)
    numbers = [v if v is None else _numbers(f"claim {id}", v) for v in (values, control)]
    verdict = judge(one, *numbers)
    values, control = [n[""] if n and list(n) == [""] else n for n in numbers]
    entry = {"values": values, "control": control, **counts, "verdict": verdict}
    _keep(path, id, entry, declared)
    if floor == "tour":
        print(f"Claim {id} {verdict_word(one, verdict)}: {_sentence(one, entry, says)}")
    else:
        print(f"{id} {verdict}: {one.statement} ({_measured(one, entry)})")


def verdict_word(one: Claim, verdict: str) -> str:
    """What a tour calls a verdict: a rule that was set after its values were known only holds."""
    return verdict if one.declared.startswith("before") else AFTER.get(verdict, verdict)


def _sentence(one: Claim, entry: dict, says: str | None) -> str:
    """The claim with the two numbers that decide: those of the first terms of its rules."""
    numbers, asked = {}, {"value": (one.confirmed, "values"), "control": (one.control, "control")}
    for name, (rule, measured) in asked.items():
        if rule:
            summary, group, *_ = TERM.fullmatch(_terms(rule)[0]).groups()
            groups = _numbers(one.id, entry[measured])
            number = SUMMARIES[summary](groups[group] if group else sum(groups.values(), []))
            numbers[name] = f"{number:.2g}" if abs(number) < 100 else f"{number:.0f}"
    if says:
        return says.format(**numbers)
    said = [f"{numbers['value']} {one.unit}"] if one.confirmed else [one.why]
    said += [f"control: {numbers['control']}"] if one.control else []
    return f"{one.statement} ({'; '.join(said)})"


def _keep(path: Path, id: str, entry: dict, declared: dict[str, Claim]) -> None:
    """Write the entry to the ledger, and leave out what is no longer declared."""
    check_writable(path.parent)
    ledger = (read_json(path) if path.is_file() else {}) | {id: entry}
    kept = sorted(ledger.keys() & declared, key=lambda id: int(id[3:]))  # 04.9 before 04.10
    lines = [f' "{key}": {json.dumps(ledger[key], ensure_ascii=False)}' for key in kept]
    write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


def claims_table(notebook: str, floor: str = "tour"):
    """A Markdown table of the claims that notebook "NN" has made: what was measured, verdict.

    A tour's ids link to the evidence, and its verdicts say so where that has more seeds or judges
    otherwise: as you ran it, or else as published. Raises ValueError where no claim was made yet.
    """
    from IPython.display import Markdown

    declared, path = load_claims(), _ledger(results_folder(), notebook, floor)
    if not path.is_file():
        raise ValueError(f"notebook {notebook} has no claims in {path}: run its cells first")
    places = (_ledger(each, notebook, "evidence") for each in (results_folder(), DATA / "results"))
    evidence = next((read_json(p) for p in places if floor == "tour" and p.is_file()), {})
    link = next((ROOT / "notebooks" / "evidence").glob(f"{notebook}_*.ipynb"), None)
    rows = ["| | claim | kind | measured | verdict |", "|---|---|---|---|---|"]
    for id, entry in read_json(path).items():
        one, proof, verdict = declared[id], evidence.get(id, entry), entry["verdict"]
        word = verdict_word if floor == "tour" else lambda one, verdict: verdict
        more = proof["verdict"] != verdict or (proof["seeds"] or 1) > (entry["seeds"] or 1)
        verdict = word(one, verdict)
        if more:
            verdict += f"; evidence: {word(one, proof['verdict'])}, {_counts(proof)}".rstrip(", ")
        shown = f"[{id}](evidence/{link.name})" if link and floor == "tour" else id
        kind = one.kind + ", rule set after" * one.declared.startswith("after")
        cells = (shown, one.statement, kind, _measured(one, entry), verdict)
        rows.append(f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |")
    return Markdown("\n".join(rows))


def published(id: str) -> dict:
    """What the published evidence has measured of a claim: its entry of the ledger."""
    return read_json(_ledger(DATA / "results", id[:2], "evidence"))[id]


def check(name: str, value: float, equals=None, tol=0.0, at_least=None, at_most=None) -> None:
    """Assert a measured value and print it with what was expected.

    Give equals (with tol), at_least or at_most. NaN never passes. Raises AssertionError.
    """
    value, parts, passed = float(value), [], True
    if equals is not None:
        parts.append(f"{equals:.4g} ± {tol:.2g}" if tol else f"{equals:.4g}")
        passed &= abs(value - equals) <= tol
    if at_least is not None:
        parts.append(f"≥ {at_least:.4g}")
        passed &= value >= at_least
    if at_most is not None:
        parts.append(f"≤ {at_most:.4g}")
        passed &= value <= at_most
    bounds = [bound for bound in (equals, tol, at_least, at_most) if bound is not None]
    if not parts or not all(map(math.isfinite, bounds)):
        raise ValueError(f"check {name!r} could not fail: give finite equals, at_least or at_most")
    line = f"{name}: {value:.4g} (expected {' and '.join(parts)})"
    if not passed:
        raise AssertionError(f"check failed: {line}")
    print(f"check passed: {line}")


def results_folder() -> Path:
    """Where results go: AOT_RESULTS, else runs/results beside the notebooks' folder."""
    return Path(os.environ.get("AOT_RESULTS", ROOT / "runs" / "results"))


def _ledger(results: Path, notebook: str, floor: str) -> Path:
    if floor not in FLOORS:
        raise ValueError(f"floor must be one of {', '.join(FLOORS)}, got {floor!r}")
    return results / FLOORS[floor] / f"{notebook}.json"


def _terms(*rules: str) -> list[str]:
    return [term for rule in rules if rule for term in rule.split(" and ")]


def _flat(values) -> list[float]:
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, (str, bytes, bool, Mapping)):
        raise TypeError("not numbers")
    if isinstance(values, Iterable):
        return [number for each in values for number in _flat(each)]
    return [float(f"{values:.4g}")]


def _numbers(here: str, values) -> dict[str, list[float]]:
    """{group: numbers}; what has no groups is one group named ""."""
    groups = values if isinstance(values, Mapping) else {"": values}
    try:
        numbers = {str(name): _flat(each) for name, each in groups.items()}
    except (TypeError, ValueError):  # texts, truth values, groups in groups, None
        numbers = {}
    finite = all(n and all(map(math.isfinite, n)) for n in numbers.values() or [[]])
    if not finite or len(numbers) < len(groups):
        raise ValueError(f"{here} has {values}: each group needs a name of its own, finite numbers")
    return numbers


def _holds(here: str, rule: str, numbers: dict[str, list[float]]) -> bool:
    holds = []
    for summary, name, sign, bound in (TERM.fullmatch(term).groups() for term in _terms(rule)):
        if name and name not in numbers:
            raise ValueError(f"{here} has a rule on {name!r}; measured are {list(numbers)}")
        group = numbers[name] if name else sum(numbers.values(), [])
        holds.append(SIGNS[sign](float(SUMMARIES[summary](group)), float(bound)))
    return all(holds)


def _measured(one: Claim, entry: dict) -> str:
    """The ranges of values and control with unit and counts, or why nothing was measured.

    Where a rule asks for a median or a mean, that comes first.
    """
    parts = [one.why] if one.kind == "open" else []
    rules = _terms(one.confirmed, one.refuted), _terms(one.control)
    for each, said, asked in zip(
        (entry["values"], entry["control"]), (one.unit, "in the control"), rules, strict=True
    ):
        if each is not None:
            groups = _numbers(one.id, each).items()
            ranges = [_range(name, numbers, asked) for name, numbers in groups]
            parts.append(", ".join(ranges) + f" {said}")
    return "; ".join(filter(None, [*parts, _counts(entry)]))


def _range(name: str, numbers: list[float], asked: list[str]) -> str:
    ends = " to ".join(dict.fromkeys(f"{end:.3g}" for end in (min(numbers), max(numbers))))
    terms = [TERM.fullmatch(term).groups() for term in asked]
    wanted = dict.fromkeys(s for s, of, *_ in terms if of in (None, name) and s not in ENDS)
    if wanted and " to " in ends:
        middle = ", ".join(f"{each} {SUMMARIES[each](numbers):.3g}" for each in wanted)
        ends = f"{middle} ({ends})"
    return (f"{name}: " if name else "") + ends


def _counts(entry: dict) -> str:
    return ", ".join(f"{entry[n]} {n if entry[n] > 1 else n[:-1]}" for n in COUNTS if entry[n])
