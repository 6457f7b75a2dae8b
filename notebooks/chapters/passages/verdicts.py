"""Verdicts model by model, of claims that were made of several: notebooks 22 and 23 share it."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from aot_helpers.teaching.ledger import read_ledger, results_folder
from aot_helpers.teaching.rules import RULES, judge, load_claims


class Verdicts:
    """The verdicts of the claims that an evidence notebook has made, on each of its models.

    models: {model: its name in tables}. alone: {model: numbers of the claims made of it alone}.
    """

    def __init__(
        self, notebook: str, models: Mapping[str, str], alone: Mapping[str, Collection[int]]
    ):
        self.models, self.alone = models, alone
        self.declared = load_claims(notebook)
        self.ledger = read_ledger(results_folder() / "claims", notebook)

    def of(self, id: str, model: str) -> str:
        """The verdict on one model, by the terms of the rules that name it; "" without any."""
        one, entry = self.declared[id], self.ledger[id]

        def own(given):
            return given and {k: v for k, v in given.items() if k.startswith(model)}

        def terms(rule):
            return " and ".join(term for term in rule.split(" and ") if f" {model}" in term)

        values, control = entry.get("values"), entry.get("control")
        if not isinstance(values, dict) or not terms(one.holds):
            return entry["verdict"] if int(id[3:]) in self.alone.get(model, ()) else ""
        rules = {rule: terms(getattr(one, rule)) for rule in (*RULES, "control")}
        return judge(dataclasses.replace(one, **rules), own(values), own(control))

    def by_claim(self) -> str:
        """A table in Markdown: the findings that are of more or fewer models than one."""
        rows = []
        for id in (id for id in self.ledger if self.declared[id].kind == "finding"):
            cells = [self.of(id, model) for model in self.models]
            if sum(map(bool, cells)) != 1:
                rows.append([f"{id} {self.declared[id].says}", *cells])
        return _table(["claim", *self.models.values()], rows)

    def by_figure(self, figures: Iterable[tuple[str, str, str]]) -> str:
        """A table in Markdown: each figure of a source, what it says, and the verdicts on it.

        figures: (figure, what it says, ids of claims with spaces between).
        """
        rows = []
        for figure, says, ids in figures:
            told = (
                "; ".join(f"{id} {said}" for id in ids.split() if (said := self.of(id, model)))
                for model in self.models
            )
            rows.append([figure, says, *(each or "not tested" for each in told), "not run here"])
        return _table(["S3", "says", *self.models.values(), "GPT-2"], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
