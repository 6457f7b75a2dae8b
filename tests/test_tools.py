"""The commands behind `make checkpoints` and `make bench`, on tiny settings."""

import pytest
import torch

import bench
import train_checkpoints
from aot_helpers import checkpoints
from aot_helpers.corpora import load_corpus


def test_making_a_checkpoint_ships_its_trajectory_and_provenance(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "DATA", tmp_path)
    monkeypatch.setattr(train_checkpoints, "MODELS", {"tiny": (1, 100, [0, 50])})
    monkeypatch.setattr(train_checkpoints, "N_CTX", 24)
    train_checkpoints.make("tiny")
    assert checkpoints.checkpoint_steps("tiny") == [0, 50, 100]
    first, last = (checkpoints.load_checkpoint("tiny", step) for step in (0, None))
    assert not torch.equal(first.W_E, last.W_E)
    losses = checkpoints.list_checkpoints()["tiny"]["losses"]
    assert losses["stories"] < 6.93  # ln 1024: better than a guess among all tokens


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


def test_flops_are_those_pytorch_counts():
    flop_counter = pytest.importorskip("torch.utils.flop_counter")
    model = bench.AttentionOnlyTransformer(bench.ModelConfig(64, 2, 32, 2, 16, 16, "keys_queries"))
    tokens = torch.zeros(2, 16, dtype=torch.long)
    with flop_counter.FlopCounterMode(display=False) as counter:
        model.run_with_cache(tokens)[0].sum().backward()
    assert counter.get_total_flops() == tokens.numel() * bench.flops_per_token(32, 2, 16, 64)
