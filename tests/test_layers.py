"""The house: layers are folders, imports point one way, and a chapter stands alone."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from which import imports, notebook_imports, users

ROOT = Path(__file__).resolve().parent.parent
PACKAGE, CHAPTERS = ROOT / "aot_helpers", ROOT / "notebooks" / "chapters"
ORDER = "base offline text models parallel training reading showing teaching"
LAYERS = ORDER.split()


def parsed(folder: Path) -> dict[str, ast.Module]:
    """{dotted name below the folder: syntax tree} of its modules."""
    return {
        ".".join(path.relative_to(folder).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


LIBRARY, CHAPTER_MODULES = parsed(PACKAGE), parsed(CHAPTERS)
MODULES = [name for name in LIBRARY if not name.endswith("__init__")]


def own_imports(module: str) -> set[str]:
    """The modules of the library that a module of the library imports, as "layer.module"."""
    own = {name.removeprefix("aot_helpers.") for name in imports(LIBRARY[module])}
    return {known for known in MODULES for name in own if f"{name}.".startswith(f"{known}.")}


def test_the_folders_are_the_layers():
    assert {module.split(".")[0] for module in MODULES} == set(LAYERS)


def test_imports_point_to_the_own_or_a_lower_layer():
    upward = [
        (module, name)
        for module in MODULES
        for name in own_imports(module)
        if LAYERS.index(name.split(".")[0]) > LAYERS.index(module.split(".")[0])
    ]
    assert upward == []


def test_there_are_no_circles():
    left = {module: own_imports(module) - {module} for module in MODULES}
    while left:
        leaves = {module for module, needs in left.items() if not needs & left.keys()}
        assert leaves, f"a circle among {sorted(left)}"
        left = {module: needs for module, needs in left.items() if module not in leaves}


def test_the_library_imports_no_chapter():
    """`grade` finds a notebook's exercises by number, on the path: nothing is imported by name."""
    found = {name for tree in LIBRARY.values() for name in imports(tree)}
    assert [name for name in found if name.startswith(("chapters.", "evidence"))] == []


def beyond(names: set[str], number: str, evidence: bool = False) -> list[str]:
    """The names that belong to another notebook, or to the evidence where that is not asked."""
    ours = rf"(?!nb{number})" if evidence else ""
    pattern = rf"chapters\.nb(?!{number}_)|evidence\.support\.{ours}"
    return [name for name in names if re.match(pattern, name)]


def test_a_chapter_imports_no_other_and_a_shared_folder_imports_none():
    for module, tree in CHAPTER_MODULES.items():
        own = re.match(r"nb(\d\d)_", module)
        assert beyond(imports(tree), own[1] if own else "") == [], module


def test_notebooks_and_the_support_of_the_evidence_import_only_what_is_their_own():
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        assert beyond(notebook_imports(path), path.name[:2]) == [], path.name
    for path in sorted((ROOT / "notebooks/evidence").glob("[0-9]*.ipynb")):
        assert beyond(notebook_imports(path), path.name[:2], evidence=True) == [], path.name
    for module, tree in parsed(ROOT / "notebooks/evidence").items():
        own = re.match(r"support\.nb(\d\d)", module)
        assert beyond(imports(tree), own[1] if own else "", evidence=True) == [], module


def test_the_notebooks_that_share_a_folder_are_found_by_their_imports():
    numbers = {
        folder: sorted({path.name[:2] for path in paths}) for folder, paths in users(ROOT).items()
    }
    assert numbers["chapters/torus"] == ["13", "14", "15"]
    assert numbers["chapters/passages"] == ["22", "23"]
    assert numbers["chapters/nb10_induction_heads"] == ["10"]
    assert "chapters/sweep" not in numbers  # of `make sweep`


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("showing.")])
def test_showing_takes_numbers_and_needs_no_torch(module):
    assert not {"torch", "jaxtyping", "transformers"} & {
        name.split(".")[0] for name in imports(LIBRARY[module])
    }
    assert {name.split(".")[0] for name in own_imports(module)} <= {"showing", "base"}


def test_the_map_in_using_names_every_module():
    page = (ROOT / "docs/using.md").read_text("utf-8")
    linked = set(re.findall(r"\(\.\./aot_helpers/([\w/]+)\.py\)", page))
    named = {name.replace(".", "/") for name in MODULES} | {"teaching/exercises/__init__"}
    assert linked == named


def test_every_notebook_has_its_chapter_and_every_chapter_its_notebook():
    numbers = {path.name[:2] for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")}
    assert {path.name[2:4] for path in CHAPTERS.glob("nb*_*")} == numbers


def test_importing_the_package_loads_neither_transformers_nor_datasets():
    light = ["showing.plots", "showing.widgets", "teaching.ledger"]
    late = sorted(MODULES, key=lambda module: module not in light)
    code = f"""
import importlib, sys
for module in [None, *{late!r}]:
    importlib.import_module("aot_helpers" + (f".{{module}}" if module else ""))
    for heavy in ["transformers", "datasets"] + ["torch"] * (module in [None, *{light!r}]):
        assert heavy not in sys.modules, f"importing {{module or 'aot_helpers'}} loads {{heavy}}"
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_drawing_loads_what_it_draws():
    for module, tree in CHAPTER_MODULES.items():
        if module.endswith((".figures", ".diagrams", ".drawings")):
            loads = {name for name in imports(tree) if name.split(".")[-1].startswith("load_")}
            assert not loads, (module, loads)
