import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "aot_helpers"
LAYERS = {
    0: ("foundations", {"errors", "network"}),
    1: ("text", {"stories", "planted", "corpora", "tokenization", "wikitext"}),
    2: ("models", {"model", "handmade", "torus", "checkpoints"}),
    3: ("training", {"train", "memorization"}),
    4: ("reading", {"lowrank", "circuits", "interventions", "heads"}),
    5: ("showing", {"plots", "torus_plots", "widgets"}),
    6: ("teaching", {"claims", "exercises"}),
}
LAYER_OF = {module: layer for layer, (_, modules) in LAYERS.items() for module in modules}
TREES = {path.stem: ast.parse(path.read_text("utf-8")) for path in sorted(PACKAGE.glob("*.py"))}
MODULES = sorted(TREES.keys() - {"__init__"})


def imports(module):
    """Everything a module imports anywhere in it, as dotted names."""
    names = set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own_imports(module):
    """The modules of the package that a module imports."""
    return {name.split(".")[1] for name in imports(module) if name.split(".")[0] == "aot_helpers"}


def outside_imports(module):
    return {name.split(".")[0] for name in imports(module)} - {"aot_helpers"}


def test_every_module_is_in_the_table_and_the_table_has_no_others():
    assert set(MODULES) == set(LAYER_OF)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_its_own_or_a_lower_layer(module):
    assert {
        name: LAYER_OF[name] for name in own_imports(module) if LAYER_OF[name] > LAYER_OF[module]
    } == {}


def test_the_reader_of_imports_sees_what_is_there():
    assert own_imports("corpora") >= {"stories", "network", "errors"}
    assert own_imports("checkpoints") >= {"errors", "model", "tokenization"}
    assert own_imports("widgets") == {"plots", "torus_plots"}  # inside a function


def test_there_are_no_cycles():
    left = {module: own_imports(module) for module in MODULES}
    while left:
        leaves = {module for module, needs in left.items() if not needs & left.keys()}
        assert leaves, f"a cycle among {sorted(left)}"
        left = {module: needs for module, needs in left.items() if module not in leaves}


@pytest.mark.parametrize("module", sorted(LAYERS[0][1] | {"plots", "__init__"}))
def test_foundations_plots_and_the_package_itself_import_nothing_of_ours(module):
    assert own_imports(module) == set()


@pytest.mark.parametrize("module", sorted(LAYERS[5][1]))
def test_showing_takes_numbers_and_needs_no_torch(module):
    assert not outside_imports(module) & {"torch", "jaxtyping", "transformers"}
    assert own_imports(module) <= {"plots", "torus_plots"}


@pytest.mark.parametrize("module", [*MODULES, "__init__"])
def test_a_module_begins_with_one_sentence_about_it(module):
    first, _, rest = (ast.get_docstring(TREES[module]) or "").partition("\n")
    assert re.fullmatch(r"[A-Z].{19,98}[.?]", first), first
    assert not re.search(r"[.!] [A-Z]", first), "more than one sentence"
    assert not rest.split("\n")[0].strip(), "the first sentence has one line"


def test_the_package_docstring_tells_the_same_layers():
    told = dict(
        re.findall(r"(\d \w+): ([a-z_, ]+?)(?:  |\n|$)", ast.get_docstring(TREES["__init__"]))
    )
    expected = {f"{i} {name}": modules for i, (name, modules) in LAYERS.items() if i}
    assert {layer: set(modules.split(", ")) for layer, modules in told.items()} == expected


def test_importing_the_package_loads_neither_transformers_nor_datasets():
    late = sorted(MODULES, key=lambda module: module not in LAYERS[5][1])
    code = f"""
import importlib, sys
for module in [None, *{late!r}]:
    importlib.import_module("aot_helpers" + (f".{{module}}" if module else ""))
    for heavy in ["transformers", "datasets"] + ["torch"] * (module in (None, "plots", "widgets")):
        assert heavy not in sys.modules, f"importing {{module or 'aot_helpers'}} loads {{heavy}}"
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
