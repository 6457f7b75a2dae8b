import itertools
import math

import pytest
import torch
from torch import nn

from aot_helpers.models.protocol import Head
from aot_helpers.reading.circuits import (
    composition_scores,
    copying_score,
    direct_path,
    folded,
    folded_W_U,
    folded_weights,
    full_ov,
    full_qk,
    k_composition_circuit,
    ov_circuit,
    qk_circuit,
    random_copying_scores,
    top1_diagonal,
)
from aot_helpers.reading.factored import FactoredMatrix
from aot_helpers.reading.paths import path_terms

close = torch.testing.assert_close


def low_rank(rows, rank, columns, seed=0):
    draw = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, rank, generator=draw)
    return FactoredMatrix(left, torch.randn(rank, columns, generator=draw))


@pytest.mark.parametrize("layer", [0, 1])
def test_qk_gives_the_scores_and_ov_what_a_head_writes(make_model, some_tokens, layer):
    model = make_model(layer_norm=False, positions="none")
    with torch.no_grad():
        _, cache = model.run_with_cache(some_tokens)
    x = cache[f"L{layer}.resid_pre"]
    for head in range(2):
        qk, ov = qk_circuit(model, Head(layer, head)), ov_circuit(model, Head(layer, head))
        assert not qk.A.requires_grad and not ov.B.requires_grad
        close(x @ qk.dense() @ x.transpose(1, 2), cache[f"L{layer}.scores"][:, head])
        without = {f"L{layer}.z": lambda z, head=head: z * (torch.arange(2) == head)[:, None]}
        _, alone = model.run_with_cache(some_tokens, edits=without)
        close(cache[f"L{layer}.pattern"][:, head] @ x @ ov.dense(), alone[f"L{layer}.attn_out"])


def test_a_one_layer_model_is_its_direct_path_and_its_full_circuits(linear, some_tokens):
    model = linear(n_layers=1, positions="none")
    logits = direct_path(model).dense()[some_tokens]
    for head in range(2):
        scores = full_qk(model, Head(0, head)).dense()[
            some_tokens[:, :, None], some_tokens[:, None]
        ]
        pattern = scores.masked_fill(~torch.ones(7, 7).tril().bool(), -math.inf).softmax(-1)
        logits = logits + pattern @ full_ov(model, Head(0, head)).dense()[some_tokens]
    close(logits, model(some_tokens))


def test_layer_norm_is_folded_up_to_sigma_and_bias(make_model, some_tokens):
    model = make_model(positions="none")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if ".ln" in name or "ln_" in name and name.endswith("bias"):
                parameter.zero_()
        _, cache = model.run_with_cache(some_tokens)
        for layer in range(2):
            x = cache[f"L{layer}.resid_pre"]
            x = x / (x.var(dim=-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
            for head in range(2):
                weights = folded_weights(model, Head(layer, head))
                close(x @ weights.W_Q, cache[f"L{layer}.q"][:, :, head])
                close(x @ weights.W_K, cache[f"L{layer}.k"][:, :, head])
                close(x @ weights.W_V, cache[f"L{layer}.v"][:, :, head])
        x = cache["final_resid"]
        x = x / (x.var(dim=-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        close(x @ folded_W_U(model), cache["logits"])


def test_rms_norm_is_folded_by_its_gain_and_other_modules_are_refused(make_model):
    model, W = make_model(), torch.randn(8, 3)
    norm = nn.RMSNorm(8)
    norm.weight.data = torch.arange(8.0)
    close(folded(norm, W), torch.arange(8.0).diag() @ W)
    close(folded(nn.Identity(), W), W)
    with pytest.raises(ValueError, match="Linear .*no linear map"):
        folded(nn.Linear(8, 8), W)
    model.W_U = None
    for function in (folded_W_U, direct_path, lambda model: full_ov(model, Head(0, 0))):
        with pytest.raises(ValueError, match="no W_U.* language head"):
            function(model)


@pytest.mark.parametrize("head", [Head(2, 0), Head(0, 2), Head(-1, 0), Head(0, -1)])
@pytest.mark.parametrize("function", [folded_weights, qk_circuit, ov_circuit, full_qk, full_ov])
def test_a_head_that_does_not_exist_is_named(make_model, function, head):
    message = f"{head}.* 2 layers of 2 heads"
    with pytest.raises(ValueError, match=message):
        function(make_model(), head)


# Copying


def test_a_head_that_copies_scores_one_and_one_that_forbids_minus_one():
    draw = torch.Generator().manual_seed(0)
    W = torch.linalg.qr(torch.randn(9, 4, generator=draw)).Q
    assert copying_score(FactoredMatrix(W, W.T)) == pytest.approx(1)
    assert copying_score(FactoredMatrix(W, -W.T)) == pytest.approx(-1)
    assert copying_score(FactoredMatrix(W, 0 * W.T)) == 0
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])  # eigenvalues ± i
    assert copying_score(FactoredMatrix(turn, torch.eye(2))) == pytest.approx(0)


def test_copying_scores_of_sums_are_those_of_the_dense_sum(make_model):
    model = make_model()
    both = full_ov(model, Head(0, 0)) + full_ov(model, Head(1, 1))
    values = torch.linalg.eigvals(both.dense())
    assert copying_score(both) == pytest.approx(
        (values.real.sum() / values.abs().sum()).item(), abs=1e-4
    )
    hits = sum(int(row.argmax()) == i for i, row in enumerate(both.dense()))
    assert top1_diagonal(both) == pytest.approx(hits / 11)


def test_diagonal_share_counts_rows():
    matrix = torch.eye(5)[[0, 1, 2, 4, 3]]
    assert top1_diagonal(FactoredMatrix(matrix, torch.eye(5))) == pytest.approx(3 / 5)


@pytest.mark.parametrize(("d_model", "d_head", "sd"), [(64, 16, 0.097), (128, 32, 0.053)])
def test_random_heads_do_not_copy(d_model, d_head, sd):
    scores = random_copying_scores(d_model, d_head, 400, seed=0)
    assert scores.shape == (400,)
    assert scores.mean().abs() < 4 * sd / math.sqrt(400)
    assert scores.std().item() == pytest.approx(sd, rel=0.15)  # 4 standard errors
    assert torch.equal(scores, random_copying_scores(d_model, d_head, 400, seed=0))
    assert not torch.equal(scores, random_copying_scores(d_model, d_head, 400, seed=1))


# Composition


@pytest.mark.parametrize(("reader", "writer"), [(1, 0), (2, 0), (2, 1)])
def test_composition_is_the_norm_of_the_dense_product(make_model, reader, writer):
    model = make_model(n_layers=3)
    scores = composition_scores(model, reader, writer)
    assert set(scores) == {"Q", "K", "V"}
    for w, r in itertools.product(range(2), range(2)):
        writes = ov_circuit(model, Head(writer, w)).dense()
        qk, ov = (
            qk_circuit(model, Head(reader, r)).dense(),
            ov_circuit(model, Head(reader, r)).dense(),
        )
        for side, reads in {"Q": qk, "K": qk.T, "V": ov}.items():
            expected = (writes @ reads).norm() / (writes.norm() * reads.norm())
            close(scores[side][w, r], expected)


def test_a_head_of_zeros_composes_with_nothing(make_model):
    model = make_model()
    with torch.no_grad():
        model.blocks[0].attn.W_O[1] = 0
    scores = composition_scores(model)
    for side in "QKV":
        assert scores[side][1].tolist() == [0, 0] and scores[side][0].min() > 0


def test_the_null_of_composition_is_the_root_mean_square_over_rotations():
    draw = torch.Generator().manual_seed(0)
    A, B = low_rank(12, 3, 12), low_rank(12, 2, 12, seed=1)
    turns = torch.linalg.qr(torch.randn(4000, 12, 12, generator=draw)).Q
    products = (A.dense() @ turns @ B.dense()).norm(dim=(1, 2)) / (A.norm() * B.norm())
    found = products.square().mean().sqrt().item()
    assert found == pytest.approx(1 / math.sqrt(12), rel=0.03)  # as `composition_scores` says


def test_composition_needs_two_layers_in_order(make_model):
    with pytest.raises(ValueError, match="n_layers .*>= 2.* 1$"):
        composition_scores(make_model(n_layers=1))
    for reader, writer, said in [
        (1, 1, "writer_layer .*0 to 0.* 1$"),
        (0, 1, "reader_layer .*1 to 1.* 0$"),
        (2, 0, "reader_layer .* 2$"),
        (1, -1, "writer_layer .* -1$"),
    ]:
        with pytest.raises(ValueError, match=said):
            composition_scores(make_model(), reader, writer)
    with pytest.raises(ValueError, match="L1H0 .*L1H1 .*must come before"):
        k_composition_circuit(make_model(), Head(1, 0), Head(1, 1))


def test_a_virtual_head_is_the_path_through_two_heads(linear, some_tokens):
    model = linear()
    _, cache = model.run_with_cache(some_tokens)
    seen = cache["L1.pattern"][:, 1] @ cache["L0.pattern"][:, 0] @ cache["embed"]
    virtual = ov_circuit(model, Head(0, 0)) @ ov_circuit(model, Head(1, 1))
    path = seen @ virtual.dense()
    close(path.detach(), path_terms(model, some_tokens)[Head(0, 0), Head(1, 1)])
