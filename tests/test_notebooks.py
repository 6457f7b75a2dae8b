"""The committed notebooks: executed in order, clean, alike in form; tours within their limits."""

import ast
import importlib
import json
import math
import re
import statistics
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from aot_helpers.teaching import exercises

ROOT = Path(__file__).resolve().parent.parent
TOUR = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
EVIDENCE = sorted((ROOT / "notebooks" / "evidence").glob("[0-9]*.ipynb"))
NOTEBOOKS = TOUR + EVIDENCE
every_notebook = pytest.mark.parametrize(
    "path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
every_tour = pytest.mark.parametrize("path", TOUR, ids=lambda path: path.stem)
every_evidence = pytest.mark.parametrize("path", EVIDENCE, ids=lambda path: path.stem)

# What a tour may take of a reader's time and patience: (least, most).
TOUR_LIMITS = {
    "cells": (1, 45),
    "words of visible prose": (1, 3000),
    "lines of visible code": (1, 200),
    "lines of the median code cell": (1, 5),
    "lines of the longest code cell": (1, 15),
    "lines of the longest definition": (0, 25),
    "figures": (3, math.inf),
    "cells of parameters": (1, 1),
    "open cells of set-up, imports and parameters": (0, 0),
    "exercises": (3, 5),
    "claims": (1, 5),
    "minutes stated beyond those needed": (0, math.inf),  # readers take longer, never less
}
WORDS_PER_MINUTE = 180
CALLED = r"(?:aot\.)?"  # a notebook calls claim(…), or aot.claim(…)
LARGEST = 700_000  # bytes: GitHub shows such a notebook in a few seconds


def read(path):
    return json.loads(path.read_text("utf-8"))


def cells(path, kind):
    return [c for c in read(path)["cells"] if c["cell_type"] == kind]


def source(cell):
    return "".join(cell["source"])


def printed(code):
    return "".join("".join(o.get("text", "")) for c in code for o in c["outputs"])


def figures(code):
    return sum("image/png" in o.get("data", {}) for c in code for o in c["outputs"])


def is_parameters(cell):
    return "parameters" in cell["metadata"].get("tags", [])


def tour_measures(notebook: dict) -> dict[str, float]:
    """What TOUR_LIMITS limits, of one notebook; lines are those that are not blank."""
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    prose = "\n".join(source(c) for c in notebook["cells"] if c["cell_type"] == "markdown")
    visible = re.sub(r"<details>.*?</details>", "", prose, flags=re.S)
    n_words = len(re.sub(r"\[!\[.*|\]\([^)]*\)", "", visible).split())  # no badges, no targets
    visible_cells, definitions, collapsible, all_code = [], [0], code[:1], ""
    for cell in code:
        parsed = ast.parse(source(cell)).body
        n_lines = sum(bool(line.strip()) for line in source(cell).splitlines())
        defines = len(parsed) == 1 and isinstance(parsed[0], ast.FunctionDef | ast.ClassDef)
        imports = any(isinstance(each, ast.Import | ast.ImportFrom) for each in parsed)
        collapsible += [cell] * (imports or is_parameters(cell))
        all_code += source(cell) + "\n"
        if not cell["metadata"].get("jupyter", {}).get("source_hidden"):
            visible_cells.append(n_lines)
            definitions += [n_lines] * defines
    longest = max((n for n in visible_cells if n not in definitions), default=0)
    tasks = re.findall(r"\*\*Exercise (\d\d\.\d) \(\w+, (\d+) minutes\)\.\*\*", prose)
    graded = set(
        re.findall(rf"^(?:\w+ = )?{CALLED}(?:grade|write)\(\s*\"(\d\d\.\d)\"", all_code, re.M)
    )
    needed = n_words / WORDS_PER_MINUTE + sum(int(minutes) for _, minutes in tasks)
    return {
        "cells": len(notebook["cells"]),
        "words of visible prose": n_words,
        "lines of visible code": sum(visible_cells),
        "lines of the median code cell": statistics.median(visible_cells),
        "lines of the longest code cell": longest,
        "lines of the longest definition": max(definitions),
        "figures": figures(code),
        "cells of parameters": sum(map(is_parameters, code)),
        "open cells of set-up, imports and parameters": sum(map(is_open, collapsible)),
        "exercises": len(graded & {number for number, _ in tasks}),
        "claims": len(set(re.findall(rf"\b{CALLED}claim\(\s*\"(\d\d\.\d+)\"", all_code))),
        "minutes stated beyond those needed": notebook["metadata"]["aot"]["minutes"] - needed,
    }


def is_open(cell):
    """Whether JupyterLab or the built book shows the cell's code."""
    metadata = cell["metadata"]
    hidden = metadata.get("jupyter", {}).get("source_hidden")
    return not (hidden and "hide-input" in metadata.get("tags", []))


def answers_in_sight(notebook: dict) -> list[str]:
    """The predictions and the closing table whose outputs are not folded, or have none.

    A prediction's answer is what the code cells between it and the next text show, or, where these
    only define something, the first cells after that which show anything.
    """
    found, awaited, shown = [], None, False
    for cell in [*notebook["cells"], {"cell_type": "markdown", "source": ["**Before you run"]}]:
        text, metadata = source(cell), cell.get("metadata", {})
        if cell["cell_type"] == "markdown":
            asks = re.search(r"\*\*Before you (?:run|go on)\b.*", text)
            if asks and awaited and not shown:
                found.append(f"no output follows: {awaited}")
            if asks or shown:
                awaited, shown = asks and asks[0], False
        elif cell["outputs"] and (awaited or "claims_table(" in text):
            shown, tags = True, metadata.get("tags", [])
            if not (metadata.get("jupyter", {}).get("outputs_hidden") and "hide-output" in tags):
                found.append(text)
    return found


def beyond_limits(notebook: dict) -> dict[str, float]:
    """The measures of a tour that are beyond their limits."""
    return {
        name: value
        for name, value in tour_measures(notebook).items()
        if not TOUR_LIMITS[name][0] <= value <= TOUR_LIMITS[name][1]
    }


def test_every_tour_has_its_evidence_and_every_evidence_its_tour():
    assert [path.name for path in TOUR] == [path.name for path in EVIDENCE]
    assert len({path.name[:2] for path in TOUR}) == len(TOUR)


@every_notebook
def test_was_executed_from_top_to_bottom_without_errors(path):
    code = cells(path, "code")
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1))
    outputs = [out for c in code for out in c["outputs"]]
    assert [out for out in outputs if out["output_type"] == "error"] == []
    assert [out for out in outputs if out.get("name") == "stderr"] == []


@every_notebook
def test_is_small_and_free_of_widget_state(path):
    assert path.stat().st_size <= LARGEST
    assert "widgets" not in json.loads(path.read_text("utf-8"))["metadata"]


@every_notebook
def test_begins_with_the_set_up_of_all(path):
    assert source(cells(path, "code")[0]) == source(cells(NOTEBOOKS[0], "code")[0])


@every_evidence
def test_evidence_has_parameters_checks_or_claims_and_a_figure(path):
    code = cells(path, "code")
    assert sum(map(is_parameters, code)) == 1
    shown = re.findall(r"^(?:check passed: |\d\d\.\d+ \w+: )", printed(code), re.M)
    assert len(shown) >= 5 and figures(code) >= 1
    assert max(len(source(c).splitlines()) for c in code) <= 35


@every_tour
def test_a_tour_keeps_its_limits(path):
    assert beyond_limits(read(path)) == {}


@every_tour
def test_a_tour_folds_its_answers(path):
    """Both for JupyterLab (outputs_hidden) and for the built book (the tag hide-output)."""
    assert answers_in_sight(read(path)) == []


def test_what_counts_as_folded():
    ask = {"cell_type": "markdown", "source": ["Text. **Before you run the next cell:** how many?"]}
    text = {"cell_type": "markdown", "source": ["Text."]}
    define = {"cell_type": "code", "source": ["n = 1"], "outputs": [], "metadata": {}}
    open_ = define | {"source": ["n"], "outputs": [{"output_type": "stream"}]}
    folded = open_ | {"metadata": {"tags": ["hide-output"], "jupyter": {"outputs_hidden": True}}}
    table = open_ | {"source": ['aot.claims_table("03")']}
    for cells_, n in (
        ([ask, folded, text, open_], 0),
        ([ask, define, text, define, folded, text, open_], 0),
        ([ask, open_, text], 1),
        ([ask, folded, open_, text], 1),
        ([ask, define, open_, ask, folded], 1),
        ([ask, open_ | {"metadata": {"tags": ["hide-output"]}}], 1),
        ([ask, define, ask, folded], 1),
        ([ask], 1),
        ([text, open_, table], 1),
    ):
        assert len(answers_in_sight({"cells": cells_})) == n


@every_tour
def test_a_tour_says_the_minutes_of_its_metadata(path):
    prose = "".join(source(c) for c in cells(path, "markdown"))
    said = r"\*\*Time:\*\* about (\d+) minutes to read and run, and (\d+) for the exercises\."
    (minutes,) = re.findall(said, prose)
    assert sum(map(int, minutes)) == read(path)["metadata"]["aot"]["minutes"]
    exercises = re.findall(r"\*\*Exercise \d\d\.\d \(\w+, (\d+) minutes\)", prose)
    assert int(minutes[1]) == sum(map(int, exercises))


@every_tour
def test_a_tour_leads_to_its_evidence(path):
    assert (path.parent / "evidence" / path.name).exists()
    prose = "".join(source(c) for c in cells(path, "markdown"))
    assert f"](evidence/{path.name})" in prose


@every_notebook
def test_links_lead_to_files_of_the_project(path):
    links = [
        link for c in cells(path, "markdown") for link in re.findall(r"\]\(([^)]+)\)", source(c))
    ]
    local = [link for link in links if not link.startswith("https://")]
    assert local, "no link to another notebook"
    assert [link for link in local if not (path.parent / link).exists()] == []


@every_tour
def test_a_link_that_names_a_tour_has_its_title(path):
    titles = {each.name: source(cells(each, "markdown")[0]).split("\n")[0][2:] for each in TOUR}
    prose = "".join(source(c) for c in cells(path, "markdown"))
    named = re.findall(r"\[(\d\d · [A-Z][^\]]+)\]\((\d\d_\w+\.ipynb)\)", prose)
    assert [link for link in named if titles[link[1]] != link[0]] == []


def solutions() -> dict[str, str]:
    """{exercise: code of its folded solution}, from all notebooks."""
    found = {}
    for path in NOTEBOOKS:
        name = None
        for cell in cells(path, "markdown"):
            for number, code in re.findall(
                r"\*\*(?:Exercise )?(\d\d\.\d)\b|<summary>Solution.*?```python\n(.*?)```",
                source(cell),
                re.S,
            ):
                name = number or name
                if code:
                    found[name] = code
    return found


def checks() -> dict:
    """{exercise: the function that tries an answer out}, of every notebook."""
    found = {}
    for path in sorted((ROOT / "notebooks" / "chapters").glob("nb*/exercises.py")):
        found |= importlib.import_module(f"chapters.{path.parent.name}.exercises").CHECKS
    return found


def compared() -> list[str]:
    """The exercises whose answer is one function, compared with a reference."""
    return [name for name, check in checks().items() if check.__module__.endswith("references")]


def test_every_exercise_has_a_folded_solution():
    assert set(solutions()) == set(checks())


def answers() -> dict[str, str]:
    """{exercise: the name of the function that its cell hands in}."""
    code = "\n".join(source(c) for path in NOTEBOOKS for c in cells(path, "code"))
    return dict(re.findall(rf"\b{CALLED}(?:grade|write)\(\"(\d\d\.\d)\", (\w+)\)", code))


@pytest.mark.parametrize("name", compared())
def test_folded_solution_solves_its_exercise(name, capsys):
    namespace = {"torch": torch, "F": F, "math": math}
    exec(solutions()[name], namespace)
    exercises.grade(name, namespace[answers()[name]])
    assert capsys.readouterr().out == f"exercise {name}: solved\n"


@pytest.mark.parametrize("name", compared())
def test_stub_is_not_attempted_and_a_wrong_answer_is_not_solved(name, capsys):
    exercises.grade(name, ...)
    exercises.grade(name, lambda *arguments: None)
    assert capsys.readouterr().out == 2 * f"exercise {name}: not attempted\n"
    exercises.grade(name, lambda *arguments: -12345.0)
    assert f"exercise {name}: not yet." in capsys.readouterr().out


def test_unknown_exercise_names_those_there_are():
    with pytest.raises(ValueError, match="'99.9'"):
        exercises.grade("99.9", print)
    with pytest.raises(ValueError, match="'00.7'.*00.1"):
        exercises.grade("00.7", print)


def parameters(path) -> dict[str, str]:
    """{name: type} of what the parameters cell of a notebook sets."""
    cell = next(filter(is_parameters, cells(path, "code")))
    return {each.target.id: each.annotation.id for each in ast.parse(source(cell)).body}


def parameters_and_next(path) -> tuple[str, str]:
    """The code of the parameters cell, and of the cell after it, which may look at their values."""
    code = cells(path, "code")
    at = next(i for i, cell in enumerate(code) if is_parameters(cell))
    return source(code[at]), source(code[at + 1])


def start(path, changed: dict, monkeypatch) -> None:
    """Run the cell that looks at a notebook's parameters, with some of them changed."""
    default, look = parameters_and_next(path)
    # Not even a right seed may change the tests that follow.
    monkeypatch.setattr(torch, "manual_seed", lambda seed: None)
    namespace = {}
    for cell in cells(path, "code"):
        for each in ast.parse(source(cell)).body:
            if isinstance(each, ast.Import | ast.ImportFrom):
                exec(ast.unparse(each), namespace)
    exec(default, namespace)
    with torch.enable_grad():  # the cell may switch gradients off
        exec(look, namespace | changed)


LOOKING = [path for path in EVIDENCE if "raise ValueError" in parameters_and_next(path)[1]]
# A value out of range for every parameter, and some of another type.
OUT_OF_RANGE = {"int": -1, "float": -1.0, "str": ""}
WRONG = [
    (path, name, OUT_OF_RANGE[kind]) for path in LOOKING for name, kind in parameters(path).items()
]
WRONG += [(EVIDENCE[5], "steps", "many"), (EVIDENCE[5], "seed", "x"), (EVIDENCE[0], "name", None)]


@pytest.mark.parametrize(
    ("path", "name", "value"), WRONG, ids=lambda value: getattr(value, "stem", str(value))
)
def test_a_wrong_parameter_is_named_before_any_work(path, name, value, monkeypatch):
    with pytest.raises(ValueError) as caught:
        start(path, {name: value}, monkeypatch)
    said = str(caught.value)
    assert f"got {value!r}" in said and (name in said or "a name" in said)


@pytest.mark.parametrize("path", LOOKING, ids=lambda path: path.stem)
def test_the_default_parameters_are_right(path, monkeypatch):
    start(path, {}, monkeypatch)
