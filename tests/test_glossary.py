"""The glossary: its entries, and that no tour and no route uses a term too early."""

import json
import re
from pathlib import Path

import pytest

from glossary import Term, load_glossary
from test_notebooks import ROOT, TOUR

GLOSSARY = load_glossary()
NOT_PROSE = [  # folded text, code, formulas; headings and badges; goals, references, next tours
    (r"<details>.*?</details>|```.*?```|\$\$.*?\$\$", " "),
    (r"`[^`\n]*`|\$[^$\n]*\$", "x"),
    (r"^\*\*You will be able to\*\*:?[^\n]*\n\n?(?:- [^\n]*\n?)*", ""),
    (r"^(?:#|\[!\[|!\[|\*\*(?:Know before|References|Time|Next|See also)\b)[^\n]*$", ""),
]


def paragraphs(notebook: dict) -> list[str]:
    """The prose of a notebook that a reader reads in order, item by item where it is a list."""
    found = []
    for cell in (cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"):
        text = "".join(cell["source"])
        for pattern, instead in NOT_PROSE:
            text = re.sub(pattern, instead, text, flags=re.S | re.M)
        found += [part for part in re.split(r"\n\s*\n|\n(?=- )", text) if part.strip()]
    return found


def not_introduced(
    notebook: dict, number: str, glossary: dict[str, Term], known: set[str] | None = None
) -> set[str]:
    """The terms that a tour uses too early, and those that it should define and does not.

    Terms that are known are free: those that tours of lower numbers define, unless others are
    given. Of all others the first use stands in bold or italics, in the same paragraph at least; or
    beside a link to the tour that defines the term. That tour has it in bold.
    """
    prose, found = paragraphs(notebook), set()
    if known is None:
        known = {name for name, term in glossary.items() if term.notebook < number}
    for name, term in glossary.items():
        if name in known:
            continue
        marked = [
            term.pattern.search(part) for part in re.findall(r"\*\*([^*]+)\*\*", "\n\n".join(prose))
        ]
        if number == term.notebook and not any(marked):
            found.add(name)
        targets = {part: re.findall(r"\]\(([^)]*)\)", part) for part in prose}
        shown = {part: re.sub(r"\]\([^)]*\)", "]", part) for part in prose}
        uses = [part for part in prose if term.pattern.search(shown[part])]
        if uses and not term.ordinary:
            stressed = re.findall(r"\*+([^*]+)\*+", shown[uses[0]])
            linked = any(re.match(rf"{term.notebook}_", each) for each in targets[uses[0]])
            here = any(map(term.pattern.search, stressed))
            if not here and not (linked and number != term.notebook):
                found.add(name)
    return found


@pytest.mark.parametrize("path", TOUR, ids=lambda path: path.stem)
def test_a_tour_introduces_its_terms_before_it_uses_them(path):
    notebook, number = json.loads(path.read_text(encoding="utf-8")), path.name[:2]
    found = not_introduced(notebook, number, GLOSSARY)
    assert found == set(), "put the first use in bold and define it, or link its tour"


def routes() -> list[list[Path]]:
    """The tours of each route that the README offers, in its order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"## Where do you want to go\?\n\n((?:\|.*\n)+)", text)
    linked = [re.findall(r"\]\((notebooks/\d\d_\w+\.ipynb)\)", row) for row in table.splitlines()]
    return [[ROOT / each for each in row] for row in linked if len(row) > 1]


@pytest.mark.parametrize("route", routes(), ids=lambda route: "-".join(p.name[:2] for p in route))
def test_a_route_introduces_its_terms_before_it_uses_them(route):
    """A term is free after the first tour on the route that defines or introduces it."""
    known, found = set(), {}
    for path in route:
        notebook, number = json.loads(path.read_text(encoding="utf-8")), path.name[:2]
        found[number] = not_introduced(notebook, number, GLOSSARY, known)
        prose = "\n\n".join(paragraphs(notebook))
        known |= {
            name
            for name, term in GLOSSARY.items()
            if term.notebook == number or term.pattern.search(prose)
        }
    early = {number: terms for number, terms in found.items() if terms}
    assert early == {}, "say what it is, in bold or italics, or link the tour that defines it"


def test_the_readme_offers_two_routes():
    assert [[path.name[:2] for path in route[:3]] for route in routes()] == [
        ["00", "03", "10"],
        ["00", "03", "04"],
    ]


@pytest.mark.parametrize(
    ("number", "prose", "found"),
    [
        ("03", "The **Voronoi cells** are near. A Voronoi cell is large.", set()),
        ("03", "A Voronoi cell is large. The **Voronoi cells** are near.", set()),
        ("03", "A Voronoi cell is large.\n\nThe **Voronoi cells** are near.", {"Voronoi cell"}),
        ("03", "A *Voronoi\ncell* is large.", {"Voronoi cell"}),
        ("03", "# The Voronoi cell\n\n`Voronoi cell`, $Voronoi cell$", {"Voronoi cell"}),
        ("02", "A *Voronoi cell* is large.", set()),
        ("02", "A [Voronoi cell](03_name.ipynb) is large.", set()),
        ("02", "A Voronoi cell is large ([notebook 01](01_name.ipynb)).", {"Voronoi cell"}),
        ("02", "**You will be able to**\n\n- draw a Voronoi cell\n\nA Voronois cell.", set()),
        ("02", "<details>A Voronoi cell.\n\nLarge.</details> Its Voronoi cell-like form.", set()),
        ("04", "A Voronoi cell is large.", set()),
    ],
)
def test_what_counts_as_an_introduction(number, prose, found):
    glossary = {"Voronoi cell": Term("Voronoi cell", "All that is near.", "03")}
    notebook = {"cells": [{"cell_type": "markdown", "source": [prose]}]}
    assert not_introduced(notebook, number, glossary) == found


def test_every_term_belongs_to_a_tour_and_they_come_in_its_order():
    numbers = [term.notebook for term in GLOSSARY.values()]
    assert numbers == sorted(numbers) and set(numbers) <= {path.name[:2] for path in TOUR}
    spelled = ["Attention weights", "BPE", "zero-ablated", "decision boundaries", "QK circuit"]
    names = ["attention weight", "byte pair encoding", "zero ablation", "decision boundary"]
    for spelling, name in zip(spelled, [*names, "QK circuit"], strict=True):
        assert GLOSSARY[name].pattern.fullmatch(spelling)
    assert GLOSSARY["token"].pattern.search("the previous-token head") is None


def test_a_term_has_one_sentence_that_can_be_kept_in_mind_and_spellings_of_its_own():
    assert len(GLOSSARY) <= 60
    for term in GLOSSARY.values():
        assert re.fullmatch(r"[A-Z](?:(?![.?!] [A-Z]).)*\.", term.meaning), term.name
        assert len(term.meaning.split()) <= 32 and "$" not in term.formula, term.name
        assert re.fullmatch(r"\d\d", term.notebook) and term.ordinary in (True, False), term.name
        assert not isinstance(term.also, str), term.name
    spellings = [each.lower() for term in GLOSSARY.values() for each in (term.name, *term.also)]
    assert len(set(spellings)) == len(spellings)
