"""Claims as the evidence makes them: judged, printed and kept; and their tables."""

from collections.abc import Mapping

from aot_helpers.base.errors import check_whole
from aot_helpers.teaching import ledger
from aot_helpers.teaching.ledger import Entry, measured, results_folder
from aot_helpers.teaching.rules import Numbers, as_numbers, declared_claims, judge, load_claims

__all__ = ["claim", "claims_table", "judge", "load_claims", "results_folder"]

# The verdicts in a tour's words.
PLAIN = {
    "confirmed": "holds",
    "partly": "holds in part",
    "refuted": "fails",
    "control failed": "undecided: the control failed",
}


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
    numbers, a count that is not whole, and as judge does.
    """
    declared = declared_claims(id)
    one = declared[id]
    numbers = [v if v is None else as_numbers(f"claim {id}", v) for v in (values, control)]
    verdict = judge(one, *numbers)
    if one.kind == "finding" and not (seeds or texts or heads):
        raise ValueError(f"claim {id} is a finding: say how many seeds, texts or heads it is from")
    of = _named(f"claim {id}: of", of, numbers[0] or {})
    if control_of is not None:
        control_of = _named(f"claim {id}: control_of", control_of, numbers[1] or {})
    elif of and numbers[1] and _sizes(numbers[0]) == _sizes(numbers[1]):
        control_of = of
    entry = {"values": numbers[0], "control": numbers[1], "of": of, "control_of": control_of}
    entry = {what: e[""] if e and list(e) == [""] else e for what, e in entry.items()}
    for name, given in zip(ledger.COUNTS, (length, seeds, texts, heads), strict=True):
        given = given.tolist() if hasattr(given, "tolist") else given
        several = given if isinstance(given, list) else [given] * (given is not None)
        entry[name] = given
        for each in several:
            check_whole(f"claim {id}: {name}", each, 1)
    entry = {what: e for what, e in entry.items() if e is not None} | {"verdict": verdict}
    ledger.keep(results_folder() / "claims", id, entry, declared)
    print(ledger.line(one, entry))


def _sizes(numbers: Numbers) -> dict[str, int]:
    return {group: len(each) for group, each in numbers.items()}


def _named(here: str, names, numbers: Numbers):
    """The names of some numbers in the numbers' own form: one list serves every group."""
    if names is None:
        return None
    given = names if isinstance(names, Mapping) else dict.fromkeys(numbers, list(names))
    if {group: len(each) for group, each in given.items()} != _sizes(numbers):
        raise ValueError(f"{here}: {names} must name {_sizes(numbers)} numbers, one name each")
    return {group: [str(each) for each in given[group]] for group in numbers}


def claims_table(notebook: str, ranges: bool = False):
    """A Markdown table of the claims of notebook "NN": what was tested, on what, and the verdict.

    As published, in plain words, its findings alone (all claims where it has none), each with a
    link into the evidence; with `ranges`, for the evidence itself, all claims of this run with kind
    and measured ranges. Raises ValueError where there are none.
    """
    from IPython.display import Markdown

    folder = results_folder() / "claims" if ranges else ledger.PUBLISHED
    entries, declared = ledger.read_ledger(folder, notebook), load_claims(notebook)
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
        (path,) = (ledger.ROOT / "notebooks" / "evidence").glob(f"{notebook}_*.ipynb")
        findings = {id: e for id, e in entries.items() if declared[id].kind == "finding"}
        for id, entry in (findings or entries).items():
            result = PLAIN.get(entry["verdict"], entry["verdict"])
            rows.append([declared[id].says, tested_in(entry), f"[{result}](evidence/{path.name})"])
    lines = [head, ["---"] * len(head), *rows]
    lines = (" | ".join(cell.replace("|", "∣") for cell in row) for row in lines)
    return Markdown("\n".join(f"| {each} |" for each in lines))


def tested_in(entry: Entry) -> str:
    """How many models and texts a claim rests on: "5 models, 40 texts"."""
    names = ledger.names_of(entry, "of")
    shipped = {run.split("@")[0] for run in ledger.weights_of({"": {"of": names}})}
    counts = {"model": max(len(shipped), entry.get("seeds", 0)), "text": entry.get("texts", 0)}
    counts = counts if any(counts.values()) else {"head": entry.get("heads", 0)}
    return ", ".join(f"{n:,} {what}{'s' * (n != 1)}" for what, n in counts.items() if n)
