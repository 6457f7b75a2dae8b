"""The declared claims of data/claims, and the rules that judge what is measured."""

import difflib
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

from aot_helpers.base.files import DATA, tomllib

RULES = ("holds", "fails")
NEEDS = {  # kind of claim: what it must have besides says and source
    "finding": (*RULES, "control", "models", "unit"),  # without a control it is none
    "identity": (*RULES, "unit"),  # true by algebra
    "construction": (*RULES, "unit"),  # true because we built it so
    "open": ("why",),  # cannot be tested here
    "withdrawn": ("why",),  # was judged once and no longer is; it stays in sight
}
UNJUDGED = {"open": "not testable here", "withdrawn": "withdrawn"}  # what stands as verdict
# What a claim is called whose first rule is met, neither, or the second; the stronger words are for
# rules that were set before any value was known, and have not changed since.
WORDS = {False: ("holds", "holds in part", "fails"), True: ("confirmed", "partly", "refuted")}
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
        values = numbers[self.group] if self.group else sum(numbers.values(), [])
        return float(SUMMARIES[self.summary](values))


@dataclass(frozen=True)
class Claim:
    """One entry of data/claims/NN.toml; data/claims/README.md says what each field holds."""

    id: str
    says: str = ""
    source: str = ""
    reports: str = ""
    models: str = ""
    kind: str = "finding"
    before: bool = False
    holds: str = ""
    fails: str = ""
    control: str = ""
    unit: str = ""
    tolerance: float = 0.01
    why: str = ""
    history: str = ""

    def __post_init__(self):
        here, rules = f"claim {self.id} of data/claims", (*RULES, "control")
        if self.kind not in NEEDS:
            raise ValueError(f"{here}: kind must be one of {', '.join(NEEDS)}, got {self.kind!r}")
        needed = ("says", "source", *NEEDS[self.kind])
        if missing := [name for name in needed if not getattr(self, name)]:
            raise ValueError(f"{here}: a claim of kind {self.kind} needs {', '.join(missing)}")
        if self.terms(*rules) and self.kind in UNJUDGED:
            raise ValueError(f"{here}: a claim of kind {self.kind} has no rules")

    def terms(self, *rules: str) -> list[Term]:
        """The terms of some rules: "holds", "fails", "control". Raises ValueError for no term."""
        text = " and ".join(filter(None, (getattr(self, rule) for rule in rules)))
        terms = []
        for term in text.split(" and ") if text else []:
            if not (part := TERM.fullmatch(term)):
                wanted = "must be 'min|max|mean|median [group] <=|>=|<|> number'"
                raise ValueError(f"claim {self.id} of data/claims: {term!r} {wanted}")
            terms.append(Term(part[1], part[2] or "", part[3], float(part[4])))
        return terms


def load_claims(notebook: str | None = None, folder: Path | None = None) -> dict[str, Claim]:
    """The declared claims by id: those of notebook "NN", or all; {} where it declares none.

    Read anew at each call, in 3 ms: a kernel judges by what stands in data/claims/NN.toml now.
    Raises ValueError for an invalid one.
    """
    claims, types = {}, {field.name: field.type for field in fields(Claim)[1:]}
    for path in sorted((folder or DATA / "claims").glob(f"{notebook or '*'}.toml")):
        try:
            entries = tomllib.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is no TOML in UTF-8 ({error}): mend it") from None
        for id, entry in entries.items():
            if not re.fullmatch(rf"{path.stem}\.[1-9]\d*", id):
                raise ValueError(f"claim {id} of {path.name}: its id must be {path.stem}.k")
            if bad := [name for name in entry if type(entry[name]) is not types.get(name)]:
                raise ValueError(f"claim {id} of data/claims: {bad} must be among {types}")
            claims[id] = Claim(id, **entry)
    return claims


def declared_claims(id: str) -> dict[str, Claim]:
    """The claims of the notebook of an id such as "10.5". Raises ValueError where it is unknown."""
    claims = load_claims(id[:2]) if isinstance(id, str) else {}
    if id not in claims:
        near = difflib.get_close_matches(str(id), load_claims(), cutoff=0)
        problem = f"claim {id!r} is not in data/claims/ (nearest: {', '.join(near) or 'none'})"
        raise ValueError(f"{problem}: declare it, or give an id in quotation marks, such as '10.5'")
    return claims


def judge(declared: Claim, values, control=None) -> str:
    """The verdict on values and control: numbers, or {group: numbers}.

    One of WORDS; "control failed" where the control breaks its rule; "not testable here" and
    "withdrawn" for such kinds. Values without groups may have a control with groups: several
    controls of the same values. Raises ValueError where something is missing, not finite, in groups
    of which no rule asks, or both holds and fails.
    """
    here = f"claim {declared.id}"
    for what, given, wanted in (
        ("values", values, declared.kind not in UNJUDGED),
        ("control values", control, bool(declared.control)),
    ):
        if (given is not None) != wanted:
            needs = "needs" if wanted else "takes no"
            raise ValueError(f"{here} {needs} {what}: so data/claims declares it")
    if declared.kind in UNJUDGED:
        return UNJUDGED[declared.kind]
    values = as_numbers(here, values)
    groups = {term.group for term in declared.terms(*RULES)}
    if groups - {"", *values} or ("" not in groups and values.keys() - groups):
        raise ValueError(f"{here}: its rules ask of {sorted(groups)}, measured are {list(values)}")
    held, failed = (_is_met(declared.terms(rule), values) for rule in RULES)
    if held and failed:
        raise ValueError(f"{here} holds and fails at once by {values}: mend its rules")
    if declared.control:
        control, terms = as_numbers(here, control), declared.terms("control")
        missing = {term.group for term in terms} - {"", *control}
        if values.keys() not in ({""}, control.keys()) or missing:
            raise ValueError(f"{here} has {list(values)}, its control {list(control)}: give both")
        if not _is_met(terms, control):
            return "control failed"
    return WORDS[declared.before][0 if held else 2 if failed else 1]


def _is_met(terms: list[Term], numbers: Numbers) -> bool:
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
