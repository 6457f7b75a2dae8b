"""What `grade` says of an answer, and the answers that a tour folds, for the tests of exercises."""

import ast
import contextlib
import io
import json
import re
from pathlib import Path

from aot_helpers.teaching.exercises import grade

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def graded(number: str, *answer, **given) -> str:
    """ "solved", with a text in parentheses or without, "not attempted", or "not yet. …"."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        grade(number, *answer, **given)
    return out.getvalue().partition(f"exercise {number}: ")[2].strip()


def folded_solutions(notebook: str) -> dict:
    """{name: function} of a tour's folded solutions, which know what its cells have."""
    (path,) = NOTEBOOKS.glob(f"{notebook}_*.ipynb")
    sources = {"code": "", "markdown": "", "raw": ""}
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        sources[cell["cell_type"]] += "".join(cell["source"]) + "\n"
    known = [
        node
        for node in ast.parse(sources["code"]).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.FunctionDef) and not node.args.defaults)
    ]
    for block in re.findall(r"```python\n(.*?)```", sources["markdown"], re.S):
        known += [node for node in ast.parse(block).body if isinstance(node, ast.FunctionDef)]
    names = {}
    exec(compile(ast.Module(known, []), str(path), "exec"), names)
    return names
