"""A reader's answers are tried out as in the notebook, and judged by the line that is printed."""

import ast
import json
import re
from pathlib import Path

import pytest
import torch

from answers import graded
from aot_helpers.teaching.exercises import write

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
VERDICTS = "solved", "not yet", "not attempted"


@pytest.fixture
def verdict():
    """verdict(number, *answer, **given): one of VERDICTS."""

    def judge(number, *answer, **given):
        said = graded(number, *answer, **given)
        return next(each for each in VERDICTS if said.startswith(each))

    return judge


@pytest.fixture
def tokens():
    """[3, 9] token ids for a model of `tiny_models.tiny_30`; a module may have its own."""
    return torch.randint(30, (3, 9), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def check_page(capsys):
    """check_page(number, **given): blank or wrong it is the package's, solved the reader's."""

    def check(number, **given):
        def blank(*_): ...

        package = write(number, blank, **given)
        assert package is not blank and "not attempted" in capsys.readouterr().out
        assert write(number, lambda *_: 3, **given) is package
        assert "not yet" in capsys.readouterr().out
        own = solutions(number[:2])[package.__name__]
        assert write(number, own, **given) is own
        assert f"exercise {number}: solved" in capsys.readouterr().out

    return check


def solutions(notebook: str) -> dict:
    """{name: function} of a tour's folded solutions, which know what the tour imports."""
    (path,) = NOTEBOOKS.glob(f"{notebook}_*.ipynb")
    sources = {"code": "", "markdown": "", "raw": ""}
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        sources[cell["cell_type"]] += "".join(cell["source"]) + "\n"
    body = ast.parse(sources["code"]).body
    known = [node for node in body if isinstance(node, ast.Import | ast.ImportFrom)]
    for block in re.findall(r"```python\n(.*?)```", sources["markdown"], re.S):
        nodes = ast.parse(block).body
        known += [node for node in nodes if isinstance(node, ast.FunctionDef)]
    names = {}
    exec(compile(ast.Module(known, []), str(path), "exec"), names)
    return names


@pytest.fixture
def solution():
    """solution("09.3", "shift_keys"): a function of a folded solution."""
    return lambda number, name: solutions(number[:2])[name]
