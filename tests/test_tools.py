"""The tools: whose package they use; and on tiny settings what they make."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import bench
import here
import recipes
import train
from aot_helpers.base import files
from aot_helpers.models import checkpoints
from aot_helpers.text.batches import repeat_segments, token_stream
from aot_helpers.text.tokenization import train_bpe
from chapters.torus import networks as torus
from chapters.torus import runs as torus_runs
from chapters.torus.training import train_run


def test_recipes_take_a_template_and_make_a_run_for_each_seed():
    text = """
    [templates.small]
    steps = 5
    repeat_fraction = [[0, 0.9], [3, 0.1]]
    [templates.wide]
    like = "small"
    d_model = 256
    [runs]
    one = { like = "wide", steps = 7 }
    "two-seed{}" = { like = "small", shipped = false, seeds = [0, 3] }
    """
    found = recipes.read_recipes(text, "runs")
    schedule = ((0, 0.9), (3, 0.1))
    assert found == {
        "one": recipes.Run(steps=7, repeat_fraction=schedule, d_model=256),
        "two-seed0": recipes.Run(steps=5, repeat_fraction=schedule, shipped=False),
        "two-seed3": recipes.Run(steps=5, repeat_fraction=schedule, shipped=False, seed=3),
    }


def test_every_shipped_checkpoint_is_made_by_its_recipe_and_was_measured():
    shipped = {name: run for name, run in recipes.RUNS.items() if run.shipped}
    assert set(checkpoints.list_checkpoints()) == set(shipped)
    for name, run in shipped.items():
        assert checkpoints.checkpoint_steps(name) == sorted({*run.kept, run.steps})
        assert checkpoints.load_checkpoint(name).config == recipes.model_config(run)
    for name, run in recipes.RUNS.items():
        made = checkpoints.load_measurements(name)["provenance"]
        assert (made["seed"], made["training"]["steps"]) == (run.seed, run.steps)
        assert made["training"]["learning_rate"] == run.learning_rate
    assert torus_runs.list_runs() == recipes.TORUS


def test_making_a_checkpoint_ships_its_trajectory_and_provenance(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DATA", tmp_path)
    tiny = recipes.Run(n_layers=1, steps=100, kept=(0, 50), n_ctx=24)
    monkeypatch.setattr(recipes, "RUNS", {"tiny": tiny})
    train.make("tiny")
    assert checkpoints.checkpoint_steps("tiny") == [0, 50, 100]
    first, last = (checkpoints.load_checkpoint("tiny", step) for step in (0, None))
    assert not torch.equal(first.W_E, last.W_E)
    measured = checkpoints.list_checkpoints()["tiny"]["measured"]
    assert measured["text"] < 6.93  # ln 1024: better than a guess among all tokens
    curve = checkpoints.load_measurements("tiny")
    assert curve["steps"] == [0, 50, 100] and curve["measured"][-1] == measured
    assert [len(heads) for heads in measured["induction"]] == [4]


def test_a_control_is_measured_and_not_shipped(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DATA", tmp_path)
    run = recipes.Run(n_layers=0, steps=1, shipped=False, n_ctx=24, gpt2_init=True)
    monkeypatch.setattr(recipes, "RUNS", {"control": run})
    train.main(["control"])
    assert checkpoints.list_checkpoints() == {}
    assert checkpoints.load_measurements("control")["provenance"]["gpt2_init"]
    with pytest.raises(SystemExit):
        train.main(["controll"])


def test_making_a_torus_run_ships_its_networks_and_how_they_were_made(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DATA", tmp_path)
    run = torus_runs.TorusRun(d_vocab=3, n_heads=2, steps=(2, 3), n_seeds=2)
    monkeypatch.setattr(recipes, "TORUS", {"tiny": run})
    train.make_torus("tiny")
    folder = tmp_path / "torus"
    assert torus_runs.list_runs(folder) == {"tiny": run}
    found, again = torus_runs.load_run("tiny", folder), train_run(run)
    assert found.steps == again.steps == [0, 2, 2, 5]
    for name, W in again.nets.tensors().items():
        assert torch.equal(found.nets.tensors()[name], W)
    guesses = torus.logits(found.nets, *torus.pairs(found.nets))
    right = torus.is_correct(guesses, run.targets()).float().mean(dim=1)
    assert torch.equal(right, found.accuracy[-1])


def test_the_bench_stops_where_both_thresholds_are_met(monkeypatch):
    text = bench.invented_text("abcdefghij", 30_000)
    tokenizer = train_bpe([text], 300)
    stream = token_stream(tokenizer.encode_many([text]), tokenizer.bos)
    twice = repeat_segments(stream[1:63].view(2, 31), tokenizer.bos)
    monkeypatch.setattr(bench, "RATIO", 9.0)
    monkeypatch.setattr(bench, "COPIED", 0.0)
    found = bench.until_it_copies(stream, tokenizer, twice, 0, "adamw", 1)
    assert found["second copy"] == found["random tokens"] and found["last"]["step"] <= 25


def import_beside_another_package(names: str, folder: Path):
    """Import modules where the package of another project, in `folder`, comes first on the path."""
    (folder / "aot_helpers").mkdir()
    (folder / "aot_helpers" / "__init__.py").write_text("")
    path = os.pathsep.join([str(folder), str(here.ROOT / "tools")])
    code = f"import {names}, sys; print(sys.modules['aot_helpers'].__file__)"
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_a_tool_takes_the_package_of_its_own_project(tmp_path):
    done = import_beside_another_package("here", tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == here.ROOT / "aot_helpers" / "__init__.py"


def test_the_package_of_another_project_is_refused_with_both_paths(tmp_path):
    done = import_beside_another_package("aot_helpers, here", tmp_path)
    assert f"ImportError: aot_helpers was imported from {tmp_path.resolve()}" in done.stderr
    assert f"set PYTHONPATH={here.ROOT}" in done.stderr


@pytest.mark.parametrize("path", sorted((here.ROOT / "tools").glob("*.py")), ids=lambda p: p.name)
def test_a_tool_imports_here_before_the_package(path):
    names = ["here", "aot_helpers", "chapters", "evidence"]
    statements = ast.parse(path.read_text("utf-8")).body if path.name != "here.py" else []
    imported = [
        name.split(".")[0]
        for each in statements
        if isinstance(each, ast.Import | ast.ImportFrom)
        for name in [getattr(each, "module", None) or each.names[0].name]
    ]
    assert next((name for name in imported if name in names), "here") == "here"
