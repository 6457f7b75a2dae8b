"""What the notebooks claim, declared apart from what is measured, and the rules that judge it."""

import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from aot_helpers.base.files import DATA

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

RULES = ("confirmed", "refuted")
FLOORS = ("tour", "evidence")
NEEDS = {  # kind of claim: what it must have besides statement, source and holds_for
    "finding": (*RULES, "control", "declared", "unit"),  # without a control it is none
    "identity": (*RULES, "unit"),  # true by algebra
    "construction": (*RULES, "unit"),  # true because we built it so
    "open": ("why",),  # cannot be tested here
    "withdrawn": ("why",),  # was judged once and no longer is; it stays in sight
    "moved": ("why",),  # has another number now
}
# What `declared` says where something of a claim that was set before has changed since.
CHANGED = re.compile(r"\b(but for|after|since|until|now|changed|for a time|at first|were first)\b")
AFTER = {"confirmed": "holds", "partly": "holds in part", "refuted": "fails"}  # nobody foretold it
# kind: what stands as verdict
UNJUDGED = {"open": "not testable here", "withdrawn": "withdrawn", "moved": "moved"}
SIGNS = {"<=": float.__le__, ">=": float.__ge__, "<": float.__lt__, ">": float.__gt__}
SUMMARIES = {"min": min, "max": max, "mean": statistics.fmean, "median": statistics.median}
TERM = re.compile(
    r"(min|max|mean|median)(?: ([^<>]*[^<> ]))? (<=|>=|<|>) (-?\d+(?:\.\d+)?(?:e-?\d+)?)"
)
Numbers = dict[str, list[float]]  # of each group; what has no groups is one group named ""


class Term(NamedTuple):
    """One term of a rule, such as "min stories >= 0.1"; group is "" where it asks of all values."""

    summary: str
    group: str
    sign: str
    bound: float

    def of(self, numbers: Numbers) -> float:
        """The number that is held against the bound."""
        asked = numbers[self.group] if self.group else sum(numbers.values(), [])
        return float(SUMMARIES[self.summary](asked))


@dataclass(frozen=True)
class Claim:
    """One entry of data/claims/NN.toml, all text; data/claims/README.md says what each holds."""

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
    live: str = ""
    wavers: str = ""
    why: str = ""
    history: str = ""

    def __post_init__(self):
        needs = ("statement", "source", "holds_for", *NEEDS.get(self.kind, ()))
        missing = ", ".join(name for name in needs if not getattr(self, name))
        rules = [term for rule in (*RULES, "control") for term in _split(getattr(self, rule))]
        bad = [term for term in rules if not TERM.fullmatch(term)]
        when = re.match(r"(before|after)\b", self.declared or "before")
        live = self.live in ("", *FLOORS, ", ".join(FLOORS))
        problems = {
            "its id must be NN.k, such as 04.2": not re.fullmatch(r"\d\d\.[1-9]\d*", self.id),
            f"kind must be one of {', '.join(NEEDS)}, got {self.kind!r}": self.kind not in NEEDS,
            f"a claim of kind {self.kind} needs {missing}": missing,
            f"a claim of kind {self.kind} has no rules": self.kind in UNJUDGED and rules,
            f"declared must begin with before or after, got {self.declared!r}": not when,
            f"wavers needs live, and names verdicts, got {self.wavers!r}": bool(self.wavers)
            and not (self.live and set(self.wavers.split(", ")) <= {*RULES, "partly"}),
            f"live must be tour, evidence or 'tour, evidence', got {self.live!r}": not live,
            f"its unit has {len(self.unit)} characters; keep to 30": len(self.unit) > 30,
            f"{bad} must be 'min|max|mean|median [name] <=|>=|<|> number'": bad,
        }
        for problem in (problem for problem, found in problems.items() if found):
            raise ValueError(f"claim {self.id} of data/claims: {problem}")

    def terms(self, *rules: str) -> list[Term]:
        """The terms of its rules: "confirmed", "refuted", "control"."""
        parts = [TERM.fullmatch(term) for rule in rules for term in _split(getattr(self, rule))]
        return [Term(part[1], part[2] or "", part[3], float(part[4])) for part in parts]


def _split(rule: str) -> list[str]:
    return rule.split(" and ") if rule else []


def load_claims(notebook: str | None = None, folder: Path | None = None) -> dict[str, Claim]:
    """The declared claims by id: those of notebook "NN", or all; {} where it declares none.

    Read anew at each call, in 3 ms: a kernel judges by what stands in data/claims/NN.toml now.
    Raises ValueError for an invalid one.
    """
    claims, known = {}, [field.name for field in fields(Claim)][1:]
    for path in sorted((folder or DATA / "claims").glob(f"{notebook or '*'}.toml")):
        for id, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if bad := [name for name in entry if name not in known or type(entry[name]) is not str]:
                raise ValueError(f"claim {id} of data/claims: {bad} must be texts among {known}")
            claims[id] = Claim(id, **{"kind": "", **entry})
            if id[:2] != path.stem:
                raise ValueError(f"claim {id} of data/claims belongs in {id[:2]}.toml: move it")
    return claims


def judge(declared: Claim, values, control=None) -> str:
    """The verdict on values and control: numbers, or {group: numbers} with the same groups.

    Values without groups may have a control with groups: several controls of the same values.
    "confirmed", "refuted" or between them "partly"; "control failed" where the control breaks
    its rule; "not testable here", "withdrawn" and "moved" for such kinds. Raises ValueError where
    both rules hold, something is missing or not finite, a rule names a group that is not there, or
    no rule asks of a group (one without a name asks of all).
    """
    here = f"claim {declared.id}"
    wanted = {"values": declared.kind not in UNJUDGED, "control values": bool(declared.control)}
    for (what, is_wanted), given in zip(wanted.items(), (values, control), strict=True):
        if (given is None) == is_wanted:
            says = "needs" if is_wanted else "takes no"
            raise ValueError(f"{here} {says} {what}: so data/claims declares it")
    if declared.kind in UNJUDGED:
        return UNJUDGED[declared.kind]
    values = as_numbers(here, values)
    asked = {term.group for term in declared.terms(*RULES)}
    if "" not in asked and (left := values.keys() - asked):
        raise ValueError(f"{here} measures {sorted(left)}, of which no rule asks: mend its rules")
    held = {rule: _holds(declared, rule, values) for rule in RULES}
    if all(held.values()):
        raise ValueError(f"{here} is confirmed and refuted at once by {values}: mend its rules")
    if declared.control:
        control = as_numbers(here, control)
        if values.keys() not in ({""}, control.keys()):
            raise ValueError(f"{here} has {list(values)}, its control {list(control)}: give both")
        if not _holds(declared, "control", control):
            return "control failed"
    return next((rule for rule in RULES if held[rule]), "partly")


def _holds(declared: Claim, rule: str, numbers: Numbers) -> bool:
    terms = declared.terms(rule)
    for group in (term.group for term in terms if term.group and term.group not in numbers):
        raise ValueError(
            f"claim {declared.id} has a rule on {group!r}; measured are {list(numbers)}"
        )
    return all(SIGNS[term.sign](term.of(numbers), term.bound) for term in terms)


def as_numbers(here: str, values) -> Numbers:
    """Numbers to 4 significant digits: of a number, list or tensor, or of {group: those}."""
    groups = values if isinstance(values, Mapping) else {"": values}
    try:
        numbers = {str(name): _flat(each) for name, each in groups.items()}
    except (TypeError, ValueError):  # texts, truth values, groups in groups, None
        numbers = {}
    finite = all(n and all(map(math.isfinite, n)) for n in numbers.values() or [[]])
    if not finite or len(numbers) < len(groups):
        raise ValueError(f"{here} has {values}: each group needs a name of its own, finite numbers")
    return numbers


def _flat(values) -> list[float]:
    values = values.tolist() if hasattr(values, "tolist") else values
    if isinstance(values, (str, bytes, bool, Mapping)):
        raise TypeError("not numbers")
    if isinstance(values, Iterable):
        return [number for each in values for number in _flat(each)]
    return [float(f"{values:.4g}")]


def foretold(one: Claim) -> bool:
    """Whether all of a claim, its control too, was set before its values and has not changed."""
    return one.declared.startswith("before") and not CHANGED.search(one.declared)


def verdict_word(one: Claim, verdict: str) -> str:
    """What a verdict is called: a claim that was not foretold only holds, in part, or fails."""
    return verdict if foretold(one) else AFTER.get(verdict, verdict)
