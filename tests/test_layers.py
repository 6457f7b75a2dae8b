import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "aot_helpers"
LAYERS = ["base", "text", "models", "training", "reading", "showing", "studies", "teaching"]
# Studies that belong together may import each other, in this order; no study imports another's.
TORUS = (
    "training winding division colors plots figures diagrams render surfaces "
    "sweep waves bending teams strips views"
)
FAMILIES = [
    ["torus", *(f"torus_{part}" for part in TORUS.split())],
    ["attention_maps", "attention_places", "attention_costs", "attention_drawings"],
    ["loss_ladder_drawings", "loss_ladder"],
    ["markov", "bigrams", "bigrams_drawings"],
    ["one_layer", "one_layer_drawings"],
    ["copying_heads", "copying_drawings"],
    ["phase_change_drawings", "phase_change"],
    ["in_context", "in_context_training", "in_context_drawings"],
    ["query_key_texts", "query_key_maps", "query_key_drawings"],
    ["sweep_storage", "sweep_study", "sweep"],
    ["autopsy", "autopsy_results", "autopsy_drawings"],
    ["masked_repeats", "masked_heads", "masked_drawings"],
    [
        "lens_prompts",
        "lens_readings",
        "lens_removals",
        "lens_controls",
        "lens_results",
        "lens_sums",
        "lens_drawings",
        "lens_figures",
    ],
    [
        "flow_prompts",
        "flow_ablation",
        "flow_checks",
        "flow_heads",
        "flow_means",
        "flow_summaries",
        "flow_identities",
        "flow_study",
        "flow_drawings",
    ],
    [
        *("part_prompts", "norm_words", "always_on", "name_prompts", "name_movers"),
        *("name_patches", "name_forms", "name_results", "part_results", "part_drawings"),
        "name_drawings",
    ],
]
TREES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): ast.parse(path.read_text("utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
MODULES = [module for module in TREES if not module.endswith("__init__")]


def layer_of(module):
    return LAYERS.index(module.split(".")[0])


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
    """The modules of the package that a module imports, as "layer.module"."""
    own = {name.removeprefix("aot_helpers.") for name in imports(module) if "aot_helpers." in name}
    return {known for known in MODULES for name in own if f"{name}.".startswith(f"{known}.")}


def outside_imports(module):
    return {name.split(".")[0] for name in imports(module)} - {"aot_helpers"}


def family_of(module):
    name = module.split(".")[1]
    return next((family for family in FAMILIES if name in family), [name])


def test_every_module_lies_in_a_layer():
    assert {module.split(".")[0] for module in MODULES} == set(LAYERS)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_its_own_or_a_lower_layer(module):
    above = [name for name in own_imports(module) if layer_of(name) > layer_of(module)]
    assert above == []


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("studies.")])
def test_a_study_imports_no_other_family_and_only_earlier_modules_of_its_own(module):
    family = family_of(module)
    for name in own_imports(module):
        if name.startswith("studies."):
            assert family_of(name) == family
            assert family.index(name.split(".")[1]) < family.index(module.split(".")[1])


def test_the_reader_of_imports_sees_what_is_there():
    assert own_imports("text.corpora") >= {"text.stories", "base.network", "base.errors"}
    assert own_imports("models.checkpoints") >= {"models.transformer", "text.tokenization"}
    assert own_imports("showing.widgets") == {"showing.plots", "showing.diagrams"}


def test_there_are_no_cycles():
    left = {module: own_imports(module) - {module} for module in MODULES}
    while left:
        leaves = {module for module, needs in left.items() if not needs & left.keys()}
        assert leaves, f"a cycle among {sorted(left)}"
        left = {module: needs for module, needs in left.items() if module not in leaves}


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("showing.")])
def test_showing_takes_numbers_and_needs_no_torch(module):
    assert not outside_imports(module) & {"torch", "jaxtyping", "transformers"}
    assert {name.split(".")[0] for name in own_imports(module)} <= {"showing", "base"}


@pytest.mark.parametrize("module", TREES)
def test_a_module_begins_with_one_sentence_about_it(module):
    first, _, rest = (ast.get_docstring(TREES[module]) or "").partition("\n")
    assert re.fullmatch(r"[A-Z].{19,98}[.?]", first), first
    assert not re.search(r"[.!] [A-Z]", first), "more than one sentence"
    assert not rest.split("\n")[0].strip(), "the first sentence has one line"


def test_the_readme_maps_every_module():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)/` \| (.*) \|$", readme, flags=re.M))
    assert list(rows) == LAYERS
    for layer, told in rows.items():
        own = {name.split(".")[1] for name in MODULES if name.startswith(f"{layer}.")}
        assert set(re.findall(r"`(\w+)`", told)) == own, layer


def test_importing_the_package_loads_neither_transformers_nor_datasets():
    light = ["showing.plots", "showing.widgets", "teaching.claims"]
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
