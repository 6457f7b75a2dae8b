import pytest
import torch

from aot_helpers.text.batches import Windows
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.optimizers import make_optimizer, orthogonalized
from aot_helpers.training.train import train
from tiny_models import tiny


def test_embeddings_positions_gains_and_biases_get_no_weight_decay(make_model):
    for positions in ("standard", "relative"):
        model = make_model(positions=positions, d_mlp=6)
        names = {p: name for name, p in model.named_parameters()}
        seen = {}
        for group in make_optimizer(model, TrainConfig(weight_decay=0.5)).param_groups:
            for p in group["params"]:
                seen[names[p]] = group["weight_decay"], group["factor"]
        assert set(seen) == set(names.values())
        for name, (decay, factor) in seen.items():
            last = name.split(".")[-1]
            matrix = last in ("W_Q", "W_K", "W_V", "W_O", "W_U")
            matrix |= name.endswith(("mlp_in.weight", "mlp_out.weight"))
            assert decay == (0.5 if matrix else 0.0), name
            assert factor == (10.0 if last == "b_rel" else 1.0), name


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_every_parameter_learns_in_one_group_at_its_rate(make_model, optimizer):
    model = make_model(positions="relative", d_mlp=6)
    config = TrainConfig(optimizer=optimizer, learning_rate=0.01, learning_rate_heads=0.05)
    rates = {}
    for group in make_optimizer(model, config).param_groups:
        rates |= {p: group["factor"] * config.learning_rate for p in group["params"]}
    heads = 0.05 if optimizer == "muon" else 0.01
    for name, p in model.named_parameters():
        last = name.split(".")[-1]
        expected = {"b_rel": 0.1, **dict.fromkeys(("W_Q", "W_K", "W_V", "W_O"), heads)}
        assert rates.pop(p) == pytest.approx(expected.get(last, 0.01)), name
    assert not rates


@pytest.mark.parametrize("shape", [(3, 12, 4), (3, 4, 12), (2, 6, 6)])
def test_orthogonalized_keeps_singular_vectors_and_brings_values_near_one(shape):
    W = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    result = orthogonalized(W)
    U, S, Vh = torch.linalg.svd(W, full_matrices=False)
    rotated = U.mT @ result @ Vh.mT  # diagonal where the vectors are kept
    values = rotated.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(rotated, torch.diag_embed(values), atol=1e-4, rtol=0)
    large = 0.1 * S.norm(dim=1, keepdim=True) < S
    assert large.sum() >= 8 and values[large].min() > 0.6 and values[large].max() < 1.3


def test_a_step_of_muon_has_the_size_of_its_rate_and_decays(make_model):
    model = make_model()
    optimizer = make_optimizer(model, TrainConfig(optimizer="muon", weight_decay=0.5))
    names = {p: name for name, p in model.named_parameters()}
    heads = next(group for group in optimizer.param_groups if group["kind"] == "heads")
    assert {names[p].split(".")[-1] for p in heads["params"]} == {"W_Q", "W_K", "W_V", "W_O"}
    heads["lr"], before = 0.1, {p: p.detach().clone() for p in model.parameters()}
    for p in model.parameters():
        p.grad = torch.randn(p.shape, generator=torch.Generator().manual_seed(1))
    gradients = {p: p.grad.clone() for p in heads["params"]}
    optimizer.step()
    for p in heads["params"]:
        step = orthogonalized(gradients[p] * (1 - 0.95 + 0.95 * 0.05))
        expected = before[p] * (1 - 0.1 * 0.5) - 0.1 * step * max(1, p.shape[1] / p.shape[2]) ** 0.5
        torch.testing.assert_close(p.detach(), expected, atol=1e-5, rtol=0)
    assert all(not torch.equal(p, before[p]) for p in model.parameters())  # AdamW moved the rest


def test_muon_learns_to_copy_in_fewer_steps(make_model):
    stream = torch.randint(1, 11, (500,), generator=torch.Generator().manual_seed(0))
    windows = Windows(stream, 10, 16, d_vocab=11, repeat_fraction=1.0, repeat_lengths=(3, 5))
    losses = {}
    for optimizer in ("adamw", "muon"):
        config = TrainConfig(150, optimizer=optimizer, warmup_steps=5)
        model = make_model(positions="relative", layer_norm=False, d_model=16, d_head=8)
        losses[optimizer] = train(model, windows, config, quiet=True).smoothed()[-1]
    assert losses["muon"] < losses["adamw"] - 0.05


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_gpt2_of_transformers_learns_by_the_same_rules(optimizer):
    model = tiny("gpt2", noise=0).requires_grad_(True)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    config = TrainConfig(steps=2, optimizer=optimizer, weight_decay=0.5)
    for group in make_optimizer(model, config).param_groups:
        for p in group["params"]:
            name = next(n for n, q in model.named_parameters() if q is p)
            matrix = ".h." in name and p.ndim == 2
            assert group["weight_decay"] == (0.5 if matrix else 0.0), name
            assert (group["kind"] == "heads") == (matrix and optimizer == "muon"), name
    tokens = torch.randint(11, (2, 4, 11), generator=torch.Generator().manual_seed(1))
    losses = train(model, tokens, config, quiet=True).losses
    assert len(losses) == 2
    assert not [name for name, p in model.named_parameters() if torch.equal(p, before[name])]
