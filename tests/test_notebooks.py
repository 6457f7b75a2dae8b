"""The committed notebooks: executed in order, clean, alike in form; tours teach, without claims."""

import ast
import json
import re
from pathlib import Path

import pytest
import torch
from traitlets.config.loader import PyFileConfigLoader

import lesson

ROOT = Path(__file__).resolve().parent.parent
TOUR = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
EVIDENCE = sorted((ROOT / "notebooks" / "evidence").glob("[0-9]*.ipynb"))
GROUP = ROOT / "notebooks" / "group.ipynb"
NOTEBOOKS = [*TOUR, *EVIDENCE, GROUP]
every_notebook = pytest.mark.parametrize(
    "path", NOTEBOOKS, ids=lambda path: f"{path.parent.name}-{path.stem}"
)
every_tour = pytest.mark.parametrize("path", TOUR, ids=lambda path: path.stem)
every_evidence = pytest.mark.parametrize("path", EVIDENCE, ids=lambda path: path.stem)

EXERCISE = re.compile(r"\*\*Exercise (\d\d\.\d) \([^()]+, (\d+) minutes\)\.\*\*")
STRING = re.compile(r"""(print\()?f?(["'])((?:(?!\2).)*)\2([\]:]?)""")


def read(path):
    return json.loads(path.read_text("utf-8"))


def cells(path, kind):
    return [c for c in read(path)["cells"] if c["cell_type"] == kind]


def source(cell):
    return "".join(cell["source"])


def figures(code):
    return sum("image/png" in o.get("data", {}) for c in code for o in c["outputs"])


def is_parameters(cell):
    return "parameters" in cell["metadata"].get("tags", [])


def called(path, name: str) -> list[ast.Call]:
    """The calls of a function of the package in a notebook, as name(…) or aot.name(…)."""
    nodes = [node for c in cells(path, "code") for node in ast.walk(ast.parse(source(c)))]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    return [call for call in calls if ast.unparse(call.func) in (name, f"aot.{name}")]


def is_folded(cell: dict, part: str) -> bool:
    """Whether a cell's "source" or "outputs" are folded, in JupyterLab and in the built book."""
    tag, metadata = {"source": "hide-input", "outputs": "hide-output"}[part], cell["metadata"]
    return metadata.get("jupyter", {}).get(f"{part}_hidden") and tag in metadata.get("tags", [])


def giveaways(cells: list[dict]) -> list[str]:
    """The sentences that stand as strings in the code in sight, such as the titles of figures.

    No key, question, label before a value or text with periods; and no f-string that says what is
    measured, as by print or {x:.2f}, where {piece!r} in a title only names something.
    """
    code, found = ["".join(cell["source"]) for cell in cells if not is_folded(cell, "source")], []
    for printed, _, text, key in STRING.findall("\n".join(code)):
        values = re.findall(r"\{(.*?)\}", text)
        measured = any(printed or not re.fullmatch(r"\w+(!r)?", value) for value in values)
        sentence = re.fullmatch(r"[“‘]?[A-Z0-9].{23,}[^.?:]", text) and ". " not in text
        if sentence and text.count(" ") > 2 and not (key or measured):
            found.append(text)
    return found


def answers_in_sight(notebook: dict) -> list[str]:
    """The code whose output answers a prediction and is not folded; predictions without answer."""
    found = []
    for question, answers in lesson.predictions(notebook):
        shown = [cell for cell in answers if cell["outputs"]]
        found += [source(cell) for cell in shown if not is_folded(cell, "outputs")]
        found += [] if shown else [f"no output follows: {question}"]
    return found


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
def test_is_free_of_widget_state(path):
    assert "widgets" not in json.loads(path.read_text("utf-8"))["metadata"]


@every_notebook
def test_says_of_folded_outputs_what_jupyterlab_does(path):
    """Otherwise its autosave changes a notebook that is only read."""
    metadata = [cell["metadata"] for cell in cells(path, "code")]
    folded = [each.get("jupyter", {}).get("outputs_hidden") for each in metadata]
    assert [each.get("collapsed") for each in metadata] == folded


def test_the_lab_of_make_keeps_the_readers_python_out_of_a_notebook():
    """JupyterLab writes the kernel's version into each notebook that it opens."""
    hook = PyFileConfigLoader("jupyter_server_config.py", path=str(ROOT / "tools" / "jupyter"))
    opened = {"type": "notebook", "content": read(TOUR[0])}
    opened["content"]["metadata"]["language_info"]["version"] = "3.99.1"
    hook.load_config().FileContentsManager.pre_save_hook(
        model=opened, path="", contents_manager=None
    )
    assert opened["content"] == read(TOUR[0])
    (line,) = re.findall(r".*-m jupyterlab.*", (ROOT / "Makefile").read_text("utf-8"))
    assert "JUPYTER_CONFIG_PATH=tools/jupyter " in line


@every_notebook
def test_begins_with_the_set_up_of_all(path):
    assert source(cells(path, "code")[0]) == source(cells(NOTEBOOKS[0], "code")[0])


def test_the_set_up_says_what_is_missing_in_a_notebook_taken_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"no aot_helpers in {tmp_path} or above: clone ht"):
        exec(source(cells(NOTEBOOKS[0], "code")[0]), {})


@every_notebook
def test_has_one_cell_of_parameters(path):
    assert sum(map(is_parameters, cells(path, "code"))) == 1


@every_evidence
def test_evidence_makes_claims_and_draws_a_figure(path):
    assert called(path, "claim")
    assert figures(cells(path, "code")) >= 1


@every_tour
def test_a_tour_makes_no_claim(path):
    made = [ast.unparse(call)[:60] for call in called(path, "claim")]
    assert made == [], f"move it to evidence/{path.name}, with the cells that compute it"


@every_tour
def test_a_tour_ends_with_the_folded_table_of_its_claims(path):
    last = cells(path, "code")[-1]
    assert source(last) == f'aot.claims_table("{path.name[:2]}")'
    assert is_folded(last, "outputs")


@every_tour
def test_a_tour_folds_its_setting_up(path):
    code = cells(path, "code")
    set_up = [c for c in code if re.search(r"^(?:import|from) ", source(c), re.M)]
    set_up += [code[0], *filter(is_parameters, code)]
    assert [source(c) for c in set_up if not is_folded(c, "source")] == []


@every_tour
def test_a_tour_grades_the_exercises_that_it_sets(path):
    tasks = EXERCISE.findall("\n".join(source(c) for c in cells(path, "markdown")))
    graded = [call.args[0].value for name in ("grade", "write") for call in called(path, name)]
    assert tasks and sorted(number for number, _ in tasks) == sorted(graded)


@every_tour
def test_a_tour_folds_its_answers(path):
    """Both for JupyterLab (outputs_hidden) and for the built book (the tag hide-output)."""
    assert answers_in_sight(read(path)) == []


@every_tour
def test_a_tour_gives_no_answer_away(path):
    found = [told for _, code in lesson.predictions(read(path)) for told in giveaways(code)]
    assert found == [], "draw it in a cell of its own, whose input is folded"


@pytest.mark.parametrize(
    ("code", "n"),
    [
        ('title = "Without the two heads nothing is copied"\nfigures.draw(x, title)', 1),
        ('print("Without the two heads nothing is copied")', 1),
        ('print(f"Without both heads {lost} are lost, with one {one}")', 0),
        ('title = f"Without both heads {lost:.0%} of it is lost"', 0),
        ('title = "Which of the two heads does the model need?"', 0),
        ('rows["Without either of the two heads"] = loss', 0),
        ('ids = encode("In the morning Mira Soken met the dog. Then")', 0),
    ],
)
def test_what_gives_an_answer_away(code, n):
    cell = {"source": [code], "metadata": {}}
    assert len(giveaways([cell])) == n
    cell["metadata"] = {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
    assert giveaways([cell]) == []


def test_what_counts_as_folded():
    ask = {"cell_type": "markdown", "source": ["Text. **Before you run the next cell:** how many?"]}
    text = {"cell_type": "markdown", "source": ["Text."]}
    define = {"cell_type": "code", "source": ["n = 1"], "outputs": [], "metadata": {}}
    open_ = define | {"source": ["n"], "outputs": [{"output_type": "stream"}]}
    folded = open_ | {"metadata": {"tags": ["hide-output"], "jupyter": {"outputs_hidden": True}}}
    for cells_, n in (
        ([ask, folded, text, open_], 0),
        ([ask, define, text, define, folded, text, open_], 0),
        ([ask, open_, text], 1),
        ([ask, define, open_, ask, folded], 1),
        ([ask, open_ | {"metadata": {"tags": ["hide-output"]}}], 1),
        ([ask, define, ask, folded], 1),
    ):
        assert len(answers_in_sight({"cells": cells_})) == n


@every_tour
def test_a_tour_says_the_minutes_of_its_metadata(path):
    prose = "".join(source(c) for c in cells(path, "markdown"))
    said = r"\*\*Time:\*\* about (\d+) minutes to read and run, and (\d+) for the exercises\."
    (minutes,) = re.findall(said, prose)
    assert sum(map(int, minutes)) == read(path)["metadata"]["aot"]["minutes"]
    assert int(minutes[1]) == sum(int(each) for _, each in EXERCISE.findall(prose))


@every_tour
def test_a_tour_leads_to_its_evidence(path):
    assert (path.parent / "evidence" / path.name).exists()
    prose = "".join(source(c) for c in cells(path, "markdown"))
    assert f"](evidence/{path.name})" in prose


@every_notebook
def test_links_lead_to_files_of_the_project(path):
    prose = "\n".join(source(c) for c in cells(path, "markdown"))
    links = re.findall(r"\]\(([^)]+)\)", re.sub(r"(?s)```.*?```|`[^`\n]*`", "", prose))
    local = [link for link in links if not link.startswith("https://")]
    assert local, "no link to another notebook"
    assert [link for link in local if not (path.parent / link).exists()] == []


@every_tour
def test_a_link_that_names_a_tour_has_its_title(path):
    titles = {each.name: source(cells(each, "markdown")[0]).split("\n")[0][2:] for each in TOUR}
    prose = "".join(source(c) for c in cells(path, "markdown"))
    named = re.findall(r"\[(\d\d · [A-Z][^\]]+)\]\((\d\d_\w+\.ipynb)\)", prose)
    assert [link for link in named if titles[link[1]] != link[0]] == []


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
