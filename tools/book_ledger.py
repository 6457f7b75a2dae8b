"""The ledger as a page of the book: every claim with its rules, numbers by model and cells.

All of it is read from data/claims and data/results/claims by aot_helpers.teaching; the page is
plain HTML, and a short script in docs/book/_static/book.js filters its rows.
"""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

import here  # noqa: F401
from aot_helpers.teaching.ledger import (
    PUBLISHED,
    Entry,
    measured,
    read_ledger,
    tested_in,
    weights_of,
)
from aot_helpers.teaching.rules import RULES, Claim, as_numbers, load_claims
from book_pages import anchor

WHEN = {"before": "before its values", "after": "after its values"}
PAPERS = r"[A-Z]\w+(?: et al\.| \d{4}|, \w+ and \w+)* \d{4}"  # "Olsson et al. 2022"
GOOD, BAD = ("confirmed", "holds"), ("refuted", "fails", "control failed")


@dataclass(frozen=True)
class Row:
    """One claim of the ledger, as the page filters it."""

    claim: Claim
    entry: Entry  # {} where it was not measured
    sources: tuple[str, ...]

    @property
    def verdict(self) -> str:
        return self.entry.get("verdict", "not measured")

    @property
    def when(self) -> str:
        """Whether its rule was set before its values were known; "" without a rule."""
        return ("before" if self.claim.before else "after") if self.claim.holds else ""


def source_names(readme: str) -> dict[str, str]:
    """What the short names of data/claims/README.md stand for: {"S3": "VISIT", …}."""
    return dict(re.findall(r"(S\d): ([^;|]+?)\s*(?=;|\|)", readme))


def sources_of(claim: Claim) -> tuple[str, ...]:
    """Whom a claim's source names, first who says it: ("ours", "S3"), ("Olsson et al. 2022",)."""
    found = re.findall(rf"\bours\b|\bS\d\b|{PAPERS}", claim.source)
    return tuple(dict.fromkeys(found)) or ("others",)


def rows() -> list[Row]:
    """All declared claims, with what is published of each."""
    declared, entries = load_claims(), {}
    for notebook in sorted({id[:2] for id in declared}):
        entries |= read_ledger(PUBLISHED, notebook)
    return [Row(one, entries.get(id, {}), sources_of(one)) for id, one in declared.items()]


def counts(every: list[Row]) -> dict[str, int]:
    """How many claims and findings there are, with which verdict, and declared when."""
    findings = [row for row in every if row.claim.kind == "finding"]
    found = {"claims": len(every), "findings": len(findings)}
    for verdict in sorted({row.verdict for row in findings}):
        found[f"findings: {verdict}"] = sum(row.verdict == verdict for row in findings)
    for when, said in WHEN.items():
        found[f"rule set {said}"] = sum(row.when == when for row in findings)
    return found


def short(number: float) -> str:
    """A number to four significant digits."""
    return f"{number:.4g}".replace("-", "−")


def numbers_table(claim: Claim, entry: Entry) -> str:
    """What was measured, a line for each group and model of its values and its control."""
    lines = []
    for what, names in ("values", entry.get("of")), ("control", entry.get("control_of")):
        given = entry.get(what)
        for group, numbers in ({} if given is None else as_numbers(claim.id, given)).items():
            known = names.get(group) if isinstance(names, dict) else names
            by_run: dict[str, list[str]] = {}
            for name, number in zip(known or [""] * len(numbers), numbers, strict=True):
                run, _, rest = name.partition(" ")
                shown = f"<i>{escape(rest)}</i> {short(number)}" if rest else short(number)
                by_run.setdefault(run, []).append(shown)
            for run, shown in by_run.items():
                of = f"{what}{f': {group}' if group else ''}"
                lines.append(f"<tr><td>{escape(of)}<td>{escape(run)}<td>{', '.join(shown)}")
    head = f"<thead><tr><th>what<th>model<th>{escape(claim.unit) or 'value'}</thead>"
    return f"<table>{head}<tbody>{''.join(lines)}</tbody></table>" if lines else ""


def plural(n: int, what: str) -> str:
    """Such as "1 claim" and "2 claims"."""
    return f"{n} {what}{'s' * (n != 1)}"


def details(row: Row, stems: dict[str, str]) -> str:
    """All that is known of a claim, as the page shows it when its line is opened."""
    one, entry = row.claim, row.entry
    said = {"source": one.source, "the source reports": one.reports, "models": one.models}
    said |= {rule: getattr(one, rule) for rule in RULES} | {"its control must have": one.control}
    said |= {"rule set": WHEN.get(row.when, ""), "why": one.why, "history": one.history}
    if one.kind == "finding" and entry:
        said["rests on"] = tested_in(entry)
    lines = [f"<dt>{name}<dd>{escape(text)}" for name, text in said.items() if text]
    if entry:
        page = f"notebooks/evidence/{stems[one.id[:2]]}.html"
        cell = f'<a href="{page}#{anchor(one.id)}">the evidence’s cell</a>'
        lines.append(f"<dt>{escape(row.verdict)}<dd>{escape(measured(one, entry))}; {cell}")
        lines.append(numbers_table(one, entry))
        if weights := weights_of([entry]):
            hashes = ", ".join(f"{escape(run)} {sha}…" for run, sha in weights.items())
            lines.append(f"<details><summary>weights (sha256)</summary>{hashes}</details>")
    return f"<dl>{''.join(lines)}</dl>"


def tone(verdict: str) -> str:
    """The class of a verdict's color: good, bad, or half."""
    return "good" if verdict in GOOD else "bad" if verdict in BAD else "half"


def line(row: Row, stems: dict[str, str]) -> str:
    """One claim: a line that opens."""
    one, data = row.claim, {"notebook": row.claim.id[:2], "source": "|".join(row.sources)}
    data |= {"kind": one.kind, "verdict": row.verdict, "rule": row.when}
    marks = " ".join(f'data-{name}="{escape(value, True)}"' for name, value in data.items())
    verdict = f'<span class="verdict {tone(row.verdict)}">{escape(row.verdict)}</span>'
    said = f"<b>{one.id}</b> {escape(one.says)} {verdict}"
    link = f'<a class="permalink" href="#{anchor(one.id)}" aria-label="link to {one.id}">#</a>'
    return (
        f'<details class="claim" id="{anchor(one.id)}" {marks}>'
        f"<summary>{said}</summary>{link}{details(row, stems)}</details>"
    )


def source_tables(every: list[Row], names: dict[str, str]) -> str:
    """For each source a table of what it says, what it reports, and what came of it."""
    by_source: dict[str, list[Row]] = {}
    for row in every:
        if row.sources[0] != "ours":
            by_source.setdefault(row.sources[0], []).append(row)
    parts = []
    for source, said in sorted(by_source.items(), key=lambda pair: (pair[0] not in names, pair[0])):
        count: dict[str, int] = {}
        for row in said:
            count[row.verdict] = count.get(row.verdict, 0) + 1
        told = ", ".join(f"{v} {n}" for v, n in sorted(count.items(), key=lambda each: -each[1]))
        lines = [
            f'<tr><td><a href="#{anchor(row.claim.id)}">{row.claim.id}</a> '
            f"{escape(row.claim.says)}<td>{escape(row.claim.reports or '–')}"
            f'<td><span class="verdict {tone(row.verdict)}">{escape(row.verdict)}</span>'
            for row in said
        ]
        title = f"{source}: {names[source]}" if source in names else source
        head = "<thead><tr><th>claim<th>the source reports<th>verdict</thead>"
        parts.append(
            f"<details class='source'><summary><b>{escape(title)}</b>"
            f"<br>{plural(len(said), 'claim')}: {told}</summary>"
            f"<table>{head}<tbody>{''.join(lines)}</tbody></table></details>"
        )
    return "".join(parts)


def filters(every: list[Row], names: dict[str, str], titles: dict[str, str]) -> str:
    """The choices above the list: one for each thing that a claim can be sought by."""
    sources = dict.fromkeys(source for row in every for source in row.sources)
    offered = {
        "notebook": {row.claim.id[:2]: titles[row.claim.id[:2]] for row in every},
        "source": {s: f"{s}: {names[s]}" if s in names else s for s in sorted(sources)},
        "kind": {row.claim.kind: row.claim.kind for row in every},
        "verdict": {v: v for v in sorted({row.verdict for row in every})},
        "rule": {when: f"set {said}" for when, said in WHEN.items()},
    }
    parts = [
        f'<label>{name} <select name="{name}"><option value="">all</option>'
        + "".join(
            f'<option value="{escape(v, True)}">{escape(said)}</option>'
            for v, said in choices.items()
        )
        + "</select></label>"
        for name, choices in offered.items()
    ]
    search = '<label>words <input type="search" name="words"></label>'
    return (
        f'<form id="filters" aria-label="filter the claims">{search}{"".join(parts)}'
        f'<button type="reset">all claims</button></form>'
        f'<p id="shown" aria-live="polite">{len(every)} claims</p>'
    )


def counted(found: dict[str, int]) -> str:
    """The counts as a table."""
    lines = "".join(f"<tr><td>{escape(name)}<td>{n}" for name, n in found.items())
    return f"<table class='counts'><tbody>{lines}</tbody></table>"


def ledger_page(root: Path, stems: dict[str, str], titles: dict[str, str]) -> str:
    """The whole page as Markdown: sources on top, counts, filters, all claims.

    stems, titles: of the notebooks by number, {"10": "10_induction_heads"}.
    """
    every = rows()
    names = source_names((root / "data" / "claims" / "README.md").read_text("utf-8"))
    body = f"""\
<section class="ledger"><h2>What became of the sources’ claims</h2>
{source_tables(every, names)}
<h2>How many</h2>
<details><summary>counts over all claims</summary>{counted(counts(every))}</details>
<h2>All claims</h2>
{filters(every, names, titles)}
<div id="claims">{"".join(line(row, stems) for row in every)}</div></section>"""
    body = re.sub(r"\n\s*\n", "\n", body)
    apart = r"\s*(?=<(?:d[dt]|t[dhr]|summary|details|option|a class)\b)"  # for the search
    body = re.sub(apart, "\n", body)
    return f"""\
# The ledger

Every claim of these notebooks, with the rule that judges it and every number that was measured.
The rules stand apart from the measurements. A claim whose rule came after its values *holds* or
*fails*; only one that was declared before is *confirmed* or *refuted*.

```{{raw}} html
{body}
```
"""
