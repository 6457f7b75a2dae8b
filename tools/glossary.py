"""The glossary: the terms of the tours, each with its meaning and the tour that defines it."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import here  # noqa: F401
from aot_helpers.base.files import DATA, tomllib


@dataclass(frozen=True)
class Term:
    """One entry of data/glossary.toml, whose head says what each field holds."""

    name: str
    meaning: str
    notebook: str
    also: list[str] | tuple[str, ...] = ()
    formula: str = ""
    ordinary: bool = False

    @cached_property
    def pattern(self) -> re.Pattern:
        """What matches each use of the term in prose: any of its spellings, one or several."""
        words = sorted((self.name, *self.also), key=len, reverse=True)
        spaced = [re.escape(word).replace(r"\ ", r"\s+") for word in words]
        return re.compile(rf"(?<![\w-])(?:{'|'.join(spaced)})s?(?![\w-])", re.IGNORECASE)


def load_glossary(path: Path | None = None) -> dict[str, Term]:
    """{name: term}, in the order of the file: data/glossary.toml, unless another path is given."""
    entries = tomllib.loads((path or DATA / "glossary.toml").read_text(encoding="utf-8"))["term"]
    return {entry["name"]: Term(**entry) for entry in entries}
