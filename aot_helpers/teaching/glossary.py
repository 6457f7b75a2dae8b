"""The glossary: the terms of the tours, each with its meaning and the tour that defines it."""

import re
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

from aot_helpers.base.files import DATA

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

MOST_TERMS, MOST_WORDS = 60, 32  # of the glossary; of a meaning


@dataclass(frozen=True)
class Term:
    """One entry of data/glossary.toml, whose head says what each field holds."""

    name: str = ""
    meaning: str = ""
    notebook: str = ""
    also: tuple[str, ...] = ()
    formula: str = ""
    ordinary: bool = False

    def __post_init__(self):
        texts = ("name", "meaning", "notebook", "formula")
        empty = [field for field in texts[:3] if not getattr(self, field)]
        wrong = [field for field in texts if not isinstance(getattr(self, field), str)]
        sentence = re.fullmatch(r"[A-Z](?:(?![.?!] [A-Z]).)*\.", str(self.meaning))
        spelled = isinstance(self.also, tuple) and all(isinstance(s, str) and s for s in self.also)
        problems = {
            f"give it {', '.join(empty)}": empty,
            f"write {', '.join(wrong)} as text, in quotation marks": wrong,
            f"meaning must be one sentence, from a capital to a period, got {self.meaning!r}": (
                not sentence
            ),
            f"its meaning has {len(str(self.meaning).split())} words; keep to {MOST_WORDS}": (
                len(str(self.meaning).split()) > MOST_WORDS
            ),
            f"notebook must be two digits, such as '03', got {self.notebook!r}": not re.fullmatch(
                r"\d\d", str(self.notebook)
            ),
            f"also must be a list of spellings, got {self.also!r}": not spelled,
            f"formula must be LaTeX without dollar signs, got {self.formula!r}": (
                "$" in str(self.formula)
            ),
            f"ordinary must be true or absent, got {self.ordinary!r}": (
                not isinstance(self.ordinary, bool)
            ),
        }
        for problem in (problem for problem, found in problems.items() if found):
            raise ValueError(f"term {self.name!r} of the glossary: {problem}")

    @cached_property
    def pattern(self) -> re.Pattern:
        """What matches each use of the term in prose: any of its spellings, one or several."""
        words = sorted((self.name, *self.also), key=len, reverse=True)
        spaced = [re.escape(word).replace(r"\ ", r"\s+") for word in words]
        return re.compile(rf"(?<![\w-])(?:{'|'.join(spaced)})s?(?![\w-])", re.IGNORECASE)


def load_glossary(path: Path | None = None) -> dict[str, Term]:
    """{name: term}, in the order of the file: data/glossary.toml, unless another path is given.

    Raises ValueError for a damaged file and for a term that is wrong or there twice.
    """
    path = path or DATA / "glossary.toml"
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no TOML ({error}): mend this line") from None
    entries, known = content.get("term"), {field.name for field in fields(Term)}
    if set(content) != {"term"} or not isinstance(entries, list):
        raise ValueError(f"{path} must hold [[term]] entries alone, got {', '.join(content)}")
    terms, taken = {}, {}
    for entry in entries:
        name = entry.get("name", "")
        if unknown := ", ".join(sorted(set(entry) - known)):
            raise ValueError(f"term {name!r} of the glossary: no field is called {unknown}")
        also = entry.get("also", ())
        term = Term(**{**entry, "also": tuple(also) if isinstance(also, list) else also})
        for spelling in (term.name, *term.also):
            if taken.setdefault(spelling.lower(), name) != name or name in terms:
                other = taken[spelling.lower()]
                raise ValueError(
                    f"term {name!r} of the glossary: {spelling!r} stands under {other!r} already; "
                    "keep one of the two"
                )
        terms[name] = term
    if len(terms) > MOST_TERMS:
        raise ValueError(f"the glossary has {len(terms)} terms; keep to {MOST_TERMS}")
    return terms
