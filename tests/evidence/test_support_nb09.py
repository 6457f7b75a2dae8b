"""Evidence of notebook 09: a layer with shifted keys, new halves of its heads, what is kept."""

import pytest
import torch

from aot_helpers.base import results
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from chapters.nb09_phase_change.measure import Edited
from evidence.support.nb09 import phase

TINY = ModelConfig(20, n_layers=1, n_ctx=8, positions="relative", layer_norm=False)


def test_two_heads_hold_the_key_of_the_token_before():
    k = torch.arange(2 * 3 * 4 * 1.0).view(2, 3, 4, 1)
    moved = phase.shift(k)
    assert torch.equal(moved[:, :, 2:], k[:, :, 2:])
    assert torch.equal(moved[:, 1:, :2], k[:, :2, :2])
    assert torch.equal(moved[:, 0], k[:, 0])


def test_new_weights_are_those_of_two_heads_and_of_these_names_alone():
    torch.manual_seed(0)
    ready, other = (Edited(TINY, {"L0.k": phase.shift}) for _ in range(2))
    fresh = dict(other.named_parameters())
    young = dict(phase.renewed(ready, fresh, ("W_V", "W_O"), 0.1).named_parameters())
    for name, old in ready.named_parameters():
        if not name.endswith(("W_V", "W_O")):
            assert torch.equal(young[name], old), name
        else:
            assert torch.equal(young[name][2:], old[2:])
            assert torch.equal(young[name][:2], 0.1 * fresh[name][:2])


@pytest.mark.parametrize(
    ("name", "grown", "steps"),
    [("", 0, [0, 1, 2]), ("neither ready", 99, [0, 1, 2, 3]), ("neither ready", 1e-6, [0, 1])],
)
def test_a_training_is_measured_to_its_last_step(name, grown, steps, monkeypatch):
    for what, value in {"STEPS": 5, "STOP": 2, "AFTER": 3, "OPEN": grown}.items():
        monkeypatch.setattr(phase, what, value)
    model, batches = AttentionOnlyTransformer(TINY), [torch.arange(18).view(2, 9)] * 5
    start = model.W_E.detach().clone()
    moved = lambda: {"moved": (model.W_E - start).norm().item()}  # noqa: E731
    run = phase.grown(model, batches, moved, 1, 7, name)
    assert run["steps"] == steps and run["seed"] == 7
    assert run["measured"]["moved"][0] == 0 < run["measured"]["moved"][1]


def test_every_seed_that_is_kept_was_trained_in_all_ways():
    runs = results.read("phase")["runs"]
    seeds = {run["seed"] for run in runs}
    assert {0} <= seeds <= set(phase.SEEDS)
    for seed in seeds:
        own = [run for run in runs if run["seed"] == seed]
        assert [run["name"] for run in own] == ["", *phase.NEW]
        assert own[0]["steps"][-1] == phase.STOP
        for run in own:
            gap = run["measured"]["random"]
            assert len(gap) == len(run["steps"])
            assert run["steps"][-1] == phase.AFTER or gap[-1] - gap[0] >= phase.OPEN
