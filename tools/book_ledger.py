"""The ledger as a page of the book: every claim with its rules, numbers by model and cells.

docs/book/ledger.md is filled with data/claims and data/results/claims, as aot_helpers.teaching
reads them; a short script in docs/book/_static/book.js filters its rows.
"""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import jinja2

import here  # noqa: F401
from aot_helpers.teaching import ledger
from aot_helpers.teaching.rules import RULES, Claim, as_numbers, load_claims
from book_pages import anchor

WHEN = {"before": "before its values", "after": "after its values"}
PAPERS = r"[A-Z]\w+(?: et al\.| \d{4}|, \w+ and \w+)* \d{4}"  # "Olsson et al. 2022"
# The classes of the verdicts' colors; all others are "half".
TONES = {"good": ("confirmed", "holds"), "bad": ("refuted", "fails", "control failed")}


@dataclass(frozen=True)
class Row:
    """One claim of the ledger, as the page shows and filters it."""

    claim: Claim
    entry: ledger.Entry  # {} where it was not measured

    @property
    def notebook(self) -> str:
        return self.claim.id[:2]

    @property
    def anchor(self) -> str:
        return anchor(self.claim.id)

    @property
    def verdict(self) -> str:
        return self.entry.get("verdict", "not measured")

    @property
    def tone(self) -> str:
        return next((tone for tone, some in TONES.items() if self.verdict in some), "half")

    @property
    def when(self) -> str:
        """Whether its rule was set before its values were known; "" without a rule."""
        return ("before" if self.claim.before else "after") if self.claim.holds else ""

    @property
    def sources(self) -> tuple[str, ...]:
        """Whom its source names, first who says it: ("ours", "S3"), ("Olsson et al. 2022",)."""
        names = re.findall(rf"\bours\b|\bS\d\b|{PAPERS}", self.claim.source)
        return tuple(dict.fromkeys(names)) or ("others",)

    @property
    def facts(self) -> dict[str, str]:
        """What is declared of it, by what the page calls it."""
        one = self.claim
        facts = {"source": one.source, "the source reports": one.reports, "models": one.models}
        facts |= {rule: getattr(one, rule) for rule in RULES}
        facts |= {"its control must have": one.control, "rule set": WHEN.get(self.when, "")}
        facts |= {"why": one.why, "history": one.history}
        if one.kind == "finding" and self.entry:
            facts["rests on"] = ledger.tested_in(self.entry)
        return {name: text for name, text in facts.items() if text}

    @property
    def measured(self) -> str:
        return ledger.measured(self.claim, self.entry)

    @property
    def numbers(self) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """What was measured: values or control and group, a model, and (of what, number)."""
        lines = []
        for what, names in (
            ("values", self.entry.get("of")),
            ("control", self.entry.get("control_of")),
        ):
            if what not in self.entry:
                continue
            for group, numbers in as_numbers(self.claim.id, self.entry[what]).items():
                known = names.get(group) if isinstance(names, dict) else names
                by_run: dict[str, list[tuple[str, str]]] = {}
                for name, number in zip(known or [""] * len(numbers), numbers, strict=True):
                    run, _, of = name.partition(" ")
                    by_run.setdefault(run, []).append((of, f"{number:.4g}".replace("-", "−")))
                title = f"{what}: {group}" if group else what
                lines += [(title, run, shown) for run, shown in by_run.items()]
        return lines

    @property
    def weights(self) -> str:
        return ", ".join(f"{run} {sha}…" for run, sha in ledger.weights_of([self.entry]).items())


def source_names(readme: str) -> dict[str, str]:
    """What the short names of data/claims/README.md stand for: {"S3": "VISIT", …}."""
    return dict(re.findall(r"(S\d): ([^;|]+?)\s*(?=;|\|)", readme))


def rows() -> list[Row]:
    """All declared claims, with what is published of each."""
    declared, entries = load_claims(), {}
    for notebook in sorted({id[:2] for id in declared}):
        entries |= ledger.read_ledger(ledger.PUBLISHED, notebook)
    return [Row(one, entries.get(id, {})) for id, one in declared.items()]


def counts(every: list[Row]) -> dict[str, int]:
    """How many claims and findings there are, with which verdict, and declared when."""
    findings = [row for row in every if row.claim.kind == "finding"]
    verdicts, whens = (Counter(getattr(r, what) for r in findings) for what in ("verdict", "when"))
    return (
        {"claims": len(every), "findings": len(findings)}
        | {f"findings: {verdict}": n for verdict, n in sorted(verdicts.items())}
        | {f"rule set {text}": whens[when] for when, text in WHEN.items()}
    )


def ledger_page(root: Path, stems: dict[str, str], titles: dict[str, str]) -> str:
    """The whole page as Markdown: sources on top, counts, filters, all claims.

    stems, titles: of the notebooks by number, {"10": "10_induction_heads"}.
    """
    every = rows()
    names = source_names((root / "data" / "claims" / "README.md").read_text("utf-8"))

    def label(source: str) -> str:
        return f"{source}: {names[source]}" if source in names else source

    def verdicts(some: list[Row]) -> str:
        return ", ".join(f"{v} {n}" for v, n in Counter(r.verdict for r in some).most_common())

    by_source: dict[str, list[Row]] = {}
    for row in every:
        if row.sources[0] != "ours":
            by_source.setdefault(row.sources[0], []).append(row)
    filters = {
        "notebook": {row.notebook: titles[row.notebook] for row in every},
        "source": {s: label(s) for s in sorted({s for row in every for s in row.sources})},
        "kind": {row.claim.kind: row.claim.kind for row in every},
        "verdict": {v: v for v in sorted({row.verdict for row in every})},
        "rule": {when: f"set {text}" for when, text in WHEN.items()},
    }
    page = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    ).from_string((root / "docs" / "book" / "ledger.md").read_text("utf-8"))
    return page.render(
        rows=every,
        counts=counts(every),
        by_source=sorted(by_source.items(), key=lambda pair: (pair[0] not in names, pair[0])),
        filters=filters,
        label=label,
        verdicts=verdicts,
        stems=stems,
    )
