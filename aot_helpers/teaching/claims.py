"""Claims as a notebook makes them, judged, printed and kept; their table; checks that stop it."""

import dataclasses
import difflib
import math

from aot_helpers.teaching import ledger
from aot_helpers.teaching.ledger import Entry, ledger_path, measured, read_ledger, results_folder
from aot_helpers.teaching.rules import (
    AFTER,
    Claim,
    as_numbers,
    foretold,
    judge,
    load_claims,
    verdict_word,
)
from aot_helpers.teaching.trace import named, weights_of

__all__ = [  # what notebooks use
    "AFTER", "check", "claim", "claims_table", "judge", "load_claims", "published",
    "results_folder",
]  # fmt: skip


def claim(
    id: str,
    values=None,
    control=None,
    *,
    says=None,
    of=None,
    control_of=None,
    model=None,
    step=None,
    length=None,
    seeds=None,
    texts=None,
    heads=None,
    floor="tour",
) -> None:
    """Judge a declared claim, print its verdict in one sentence, and write it to the ledger.

    values and control: a number, list or tensor in the declared unit, or {group: those}; kept to 4
    significant digits. says: the sentence a tour prints, with {value} and {control} in the places
    of the numbers that decide, else the statement with both; the evidence prints all ranges.
    of, control_of: what each number was measured on, as many names as numbers: the run, its step
    unless that is the last, and what of it: "stories-2l-seed1@400 L1H3"; a list for all groups or
    {group: list}. A control with as many numbers as the values takes the values' names unless it
    has its own. model: the name of what was measured; step: of its checkpoint; length: of a segment
    in tokens, or several. seeds: trainings that differ in their seed alone; texts, heads: how many
    were measured. floor: "tour" or "evidence", where a finding must give one of these counts.
    Raises ValueError for an id that is not declared, names that are not as many as the numbers, a
    step, length or count that is not whole, and as judge does.
    """
    path, declared = ledger_path(results_folder() / "claims", id[:2], floor), load_claims(id[:2])
    if id not in declared:
        near = ", ".join(difflib.get_close_matches(id, load_claims(), cutoff=0)) or "none"
        raise ValueError(f"claim {id!r} is not in data/claims/ (nearest: {near}): declare it")
    one = declared[id]
    numbers = [v if v is None else as_numbers(f"claim {id}", v) for v in (values, control)]
    verdict = judge(one, *numbers)
    of = named(f"claim {id}: of", of, numbers[0] or {})
    if control_of is not None:
        control_of = named(f"claim {id}: control_of", control_of, numbers[1] or {})
    elif of and numbers[1] and _sizes(numbers[0]) == _sizes(numbers[1]):
        control_of = of
    values, control = [n[""] if n and list(n) == [""] else n for n in numbers]
    counts = dict(step=step, length=length, seeds=seeds, texts=texts, heads=heads)
    counts = {name: n.tolist() if hasattr(n, "tolist") else n for name, n in counts.items()}
    try:
        told = dict(of=of, control_of=control_of, model=model)
        entry = Entry(values=values, control=control, **told, **counts, verdict=verdict)
        weights = weights_of(of, control_of, model=model, step=entry.step)
    except ValueError as error:
        raise ValueError(f"claim {id}: {error}") from None
    if floor == "evidence" and one.kind == "finding" and not (seeds or texts or heads):
        raise ValueError(f"claim {id} is a finding: say how many seeds, texts or heads it is from")
    entry = dataclasses.replace(entry, weights=weights or None)
    ledger.keep(path, id, entry, declared)
    if floor == "tour":
        print(f"Claim {id} {verdict_word(one, verdict)}: {_sentence(one, entry, says)}")
    else:
        print(f"{id} {verdict_word(one, verdict)}: {one.statement} ({measured(one, entry)})")


def _sizes(numbers: dict[str, list[float]]) -> dict[str, int]:
    return {group: len(each) for group, each in numbers.items()}


def _sentence(one: Claim, entry: Entry, says: str | None) -> str:
    """The claim with the two numbers that decide: those of the first terms of its rules."""
    numbers = {}
    for name, rule, given in (
        ("value", "confirmed", entry.values),
        ("control", "control", entry.control),
    ):
        for term in one.terms(rule)[:1]:
            number = term.of(as_numbers(one.id, given))
            numbers[name] = f"{number:.2g}" if abs(number) < 100 else f"{number:.0f}"
    if says:
        return says.format(**numbers)
    said = [f"{numbers['value']} {one.unit}"] if one.confirmed else [one.why]
    said += [f"control: {numbers['control']}"] if one.control else []
    return f"{one.statement} ({'; '.join(said)})"


def claims_table(notebook: str, floor: str = "tour"):
    """A Markdown table of the claims that notebook "NN" has made: what was measured, verdict.

    A tour's ids link to the evidence, and its verdicts say so where that has more seeds or judges
    otherwise: as you ran it, or else as published. Raises ValueError where no claim was made yet.
    """
    from IPython.display import Markdown

    fresh = results_folder() / "claims"
    path, declared = ledger_path(fresh, notebook, floor), load_claims(notebook)
    entries, proofs, link = read_ledger(path), {}, None
    if not entries:
        raise ValueError(f"notebook {notebook} has no claims in {path}: run its cells first")
    if floor == "tour":
        places = (ledger_path(each, notebook, "evidence") for each in (fresh, ledger.PUBLISHED))
        proofs = next(filter(None, map(read_ledger, places)), {})
        link = next((ledger.ROOT / "notebooks" / "evidence").glob(f"{notebook}_*.ipynb"), None)
    rows = ["| | claim | kind | measured | verdict |", "|---|---|---|---|---|"]
    for id, entry in entries.items():
        one, proof = declared[id], proofs.get(id, entry)
        verdict = verdict_word(one, entry.verdict)
        if proof.verdict != entry.verdict or (proof.seeds or 1) > (entry.seeds or 1):
            on = proof.measured_on()
            verdict += f"; evidence: {verdict_word(one, proof.verdict)}, {on}".rstrip(", ")
        kind = one.kind + ", rule set after" * one.declared.startswith("after")
        kind += ", in part after" * (one.declared.startswith("before") and not foretold(one))
        shown = f"[{id}](evidence/{link.name})" if link else id
        cells = (shown, one.statement, kind, measured(one, entry), verdict)
        rows.append(f"| {' | '.join(cell.replace('|', '∣') for cell in cells)} |")
    return Markdown("\n".join(rows))


def published(id: str) -> Entry:
    """What the published evidence has measured of a claim: its entry of the ledger."""
    return read_ledger(ledger_path(ledger.PUBLISHED, id[:2], "evidence"))[id]


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
