"""The commands behind `make checkpoints` and `make bench`, on tiny settings."""

import json

import ipywidgets
import pytest
import torch

import bench
import checkpoint_runs
import train_checkpoints
import train_torus
from aot_helpers.base import files
from aot_helpers.models import checkpoints
from aot_helpers.text.corpora import load_corpus
from chapters.torus import networks as torus
from chapters.torus import training as torus_training


def test_making_a_checkpoint_ships_its_trajectory_and_provenance(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DATA", tmp_path)
    tiny = checkpoint_runs.Run(n_layers=1, steps=100, kept=(0, 50), n_ctx=24)
    monkeypatch.setattr(train_checkpoints, "RUNS", {"tiny": tiny})
    train_checkpoints.make("tiny")
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
    run = checkpoint_runs.Run(n_layers=0, steps=1, kept=None, n_ctx=24, gpt2_init=True)
    monkeypatch.setattr(train_checkpoints, "RUNS", {"control": run})
    train_checkpoints.make("control")
    assert checkpoints.list_checkpoints() == {}
    assert checkpoints.load_measurements("control")["provenance"]["gpt2_init"]
    with pytest.raises(ValueError, match="'controll'.*control"):
        checkpoints.load_measurements("controll")


def test_every_shipped_checkpoint_is_a_run_and_was_measured():
    shipped = {name for name, run in train_checkpoints.RUNS.items() if run.kept is not None}
    assert set(checkpoints.list_checkpoints()) == shipped
    for name in train_checkpoints.RUNS:
        assert checkpoints.load_measurements(name)["provenance"]["seed"] is not None


def test_nobody_trains_on_the_texts_that_are_measured():
    corpus, test = (load_corpus("stories", split).texts for split in ("train", "test"))
    assert set(corpus) & set(test) == set()


def test_the_speed_contestants_are_alike_and_measured(monkeypatch):
    monkeypatch.setattr(bench, "ROUNDS", 1)
    monkeypatch.setattr(bench, "SECONDS_PER_TURN", 0.01)
    monkeypatch.setattr(torch, "compile", lambda function, dynamic: function)
    shape = (32, 2, 16, 2, 64)
    sizes = {}
    for name, (model, logits_of, _) in bench.contestants(32, 2, 16, 64).items():
        sizes[name] = sum(p.numel() for p in model.parameters())
        assert logits_of(torch.zeros(2, 16, dtype=torch.long)).shape == (2, 16, 64)
    assert max(sizes.values()) < 1.1 * min(sizes.values())
    rows = bench.speed(shape)["contestants"]
    assert set(rows) == set(sizes)
    assert rows["GPT-2 class without MLPs"]["times_gpt2"] == 1
    assert all(row["tokens_per_second"] > 0 for row in rows.values())


def test_a_run_until_it_copies_notes_step_and_seconds(monkeypatch):
    text = bench.invented_text("абвгдежз", 20_000)
    assert text == bench.invented_text("абвгдежз", 20_000) != bench.invented_text("абв", 20_000)
    tokenizer = bench.train_bpe([text], 300)
    stream, recipe = tokenizer.encode(text), bench.copying_recipe
    twice = bench.repeat_segments(stream[:120].view(4, 30), tokenizer.bos)
    monkeypatch.setattr(bench, "THREADS", 1)
    monkeypatch.setattr(bench, "copying_recipe", lambda *a, **more: recipe(*a, steps=25, **more))
    found = bench.until_it_copies(stream, tokenizer, twice, 0, "adamw", 1)
    assert found["second copy"] is None and found["last"]["step"] == 25
    monkeypatch.setattr(bench, "RATIO", 2.0)
    monkeypatch.setattr(bench, "COPIED", 0.0)
    found = bench.until_it_copies(stream, tokenizer, twice, 0, "muon", 1)
    assert found["second copy"] == found["random tokens"] and found["second copy"][0] == 25
    assert found["second copy"][1] > 0


def test_a_part_of_the_bench_runs_without_the_makefile(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(files, "DATA", tmp_path)
    monkeypatch.setattr(bench, "THREADS", 1)
    monkeypatch.setattr(bench, "PARTS", {"nothing": lambda: {"seconds": 0}, "other": None})
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "bench.json").write_text('{"other": 1}')
    bench.main(["nothing"])
    written = json.loads((tmp_path / "results" / "bench.json").read_text())
    assert written["other"] == 1 and written["nothing"]["seconds"] == 0
    assert written["nothing"]["machine"]["threads"] == 1


def test_flops_are_those_pytorch_counts():
    flop_counter = pytest.importorskip("torch.utils.flop_counter")
    model = bench.AttentionOnlyTransformer(bench.ModelConfig(64, 2, 32, 2, 16, 16, "shortformer"))
    tokens = torch.zeros(2, 16, dtype=torch.long)
    with flop_counter.FlopCounterMode(display=False) as counter:
        model.run_with_cache(tokens)[0].sum().backward()
    assert counter.get_total_flops() == tokens.numel() * bench.flops_per_token(32, 2, 16, 64)


def test_making_a_torus_run_ships_its_networks_and_how_they_were_made(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "DATA", tmp_path)
    run = torus_training.TorusRun(d_vocab=3, n_heads=2, steps=(2, 3), n_seeds=2)
    monkeypatch.setattr(train_torus, "RUNS", {"tiny": run})
    train_torus.make("tiny")
    folder = tmp_path / "torus"
    assert torus_training.list_runs(folder) == {"tiny": run}
    found, again = torus_training.load_run("tiny", folder), run.train()
    assert found.steps == again.steps == [0, 2, 2, 5]
    for name, W in again.nets.tensors().items():
        assert torch.equal(found.nets.tensors()[name], W)
    guesses = torus.logits(found.nets, *torus.pairs(found.nets))
    assert torch.equal(
        torus.is_correct(guesses, run.targets()).float().mean(dim=1), found.accuracy[-1]
    )


def test_every_shipped_torus_run_is_one_of_the_tool():
    assert torus_training.list_runs() == train_torus.RUNS


def test_moving_a_control_means_its_other_values():
    assert bench.moved(ipywidgets.IntSlider(2, 0, 4)) == [0, 1, 3, 4]
    assert len(bench.moved(ipywidgets.IntSlider(7, 0, 49))) <= 6
    assert bench.moved(ipywidgets.FloatSlider(0.0, min=-1, max=1, step=1.0)) == [-1, 1]
    assert bench.moved(ipywidgets.Dropdown(options=["a", "c"])) == ["c"]
    assert bench.moved(ipywidgets.Dropdown(options=[("a", 1), ("b", 2)], value=2)) == [1]
    assert bench.moved(ipywidgets.Checkbox(True)) == [False]
