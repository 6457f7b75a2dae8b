"""The comparison of printed numbers: on texts, and as nbval makes it on a notebook that it runs."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

import nbval_numbers

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("committed", "fresh", "tolerance", "n"),
    [
        ("loss 0.931, 7 of 12", "the loss: 0.931 (7 of 12)", 0, 0),
        ("loss 0.931, 7 of 12", "loss 0.932, 8 of 12", 0, 2),
        ("0.30", "0.3", 0, 1),
        ("1,024", "1024", 0, 1),
        ("-0.00", "0.00", 0, 0),
        ("0.5", "-0.5", 0, 1),
        ("−0.5", "0.5", 0, 1),
        ("L1H2 attends", "L1H3 attends", 0, 1),
        ("7 7", "7", 0.5, 1),
        ("0.60", "0.64", 0.1, 0),
        ("0.60", "0.68", 0.1, 1),
        ("0.01 0", "0.02 1", 0.1, 0),  # one unit of the last digit
        ("0.01", "0.03", 0.1, 1),
        ("3e-06 120%", "4e-06 131%", 0.1, 0),
        ("3e-06", "5e-06", 0.1, 1),
    ],
)
def test_what_differs(committed, fresh, tolerance, n):
    assert len(nbval_numbers.differences([committed], [fresh], tolerance)) == n


def test_a_missing_output_differs():
    assert len(nbval_numbers.differences(["1", "2"], ["1"], 0.5)) == 1


def stream(text: str):
    return new_output("stream", text=text + "\n")


def shown(plain: str, **other: str):
    kinds = {f"text/{kind}": text for kind, text in other.items()}
    return new_output("display_data", {"text/plain": plain, **kinds})


def show(**kinds: str) -> str:
    """Code that displays texts of these kinds."""
    data = {f"text/{kind}": text for kind, text in kinds.items()}
    return f"display({data}, raw=True)"


CELLS = [  # code, what is committed, metadata, what the failure says, if any
    ("print(0.25, 'in 31 s')", [stream("0.25 in 12.3 s")], {}, ""),
    ("print(0.25)", [stream("0.26")], {}, "0.26 is committed, 0.25 came"),
    ("print(0.25)", [], {}, "0 outputs are committed, 1 came"),
    (show(plain="<>", markdown="**7**"), [shown("<>", markdown="8")], {}, "8 is committed, 7 came"),
    (show(plain="<a.B object>", html="<a id=5>7"), [shown("<a.B object>", html="8")], {}, "8 is"),
    (show(plain="7", html="<a>8"), [shown("7", html="<a>9")], {}, ""),
    ("print(0.25)", [stream("0.27")], {"tags": ["trains"], "aot": {"tolerance": 0.1}}, ""),
    ("print(0.25)", [stream("0.29")], {"aot": {"tolerance": 0.1}}, "0.29 is committed, 0.25 came"),
    ("print(0.25)", [stream("0.25")], {"tags": ["trains"]}, "it is tagged `trains`"),
]


def test_nbval_names_notebook_cell_and_both_numbers(tmp_path):
    """Only of tours: the same notebook in a folder `evidence` passes."""
    code = [
        new_code_cell(source, outputs=outputs, metadata=metadata, execution_count=1)
        for source, outputs, metadata, _ in CELLS
    ]
    paths = [tmp_path / "05_tour.ipynb", tmp_path / "evidence" / "05_evidence.ipynb"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        nbformat.write(new_notebook(cells=code), path)
    options = "-p nbval_numbers -p no:cacheprovider --nbval-lax --nbval-current-env --color=no"
    options += " -r N"  # where the variable CI is set, the short summary would repeat each failure
    files = "-c pyproject.toml --nbval-sanitize-with=tests/nbval_sanitize.cfg"
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options.split(), *files.split(), *map(str, paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    said = re.findall(r"^(\w+).ipynb, cell (\d+): (.+)$", ran.stdout, re.M)
    expected = [("05_tour", str(i), text) for i, (*_, text) in enumerate(CELLS) if text]
    assert [each[:2] for each in said] == [each[:2] for each in expected], ran.stdout + ran.stderr
    assert all(a[2].startswith(b[2]) for a, b in zip(said, expected, strict=True))
    assert f"{len(expected)} failed, {2 * len(CELLS) - len(expected)} passed" in ran.stdout
