import itertools

import pytest
import torch
from torch import nn

from aot_helpers.models.protocol import Head
from aot_helpers.reading.circuits import folded_W_U
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.interventions import cut_path, merge
from aot_helpers.reading.norms import check_norm, frozen_norm, has_norm
from aot_helpers.reading.paths import direct_logit_attribution, path_terms
from tiny_models import tiny

close = torch.testing.assert_close
POSITIONS = ["standard", "shortformer", "relative", "none"]
EXACT = dict(layer_norm=False, positions="relative")


@pytest.fixture(autouse=True)
def no_gradients():
    torch.set_grad_enabled(False)
    yield
    torch.set_grad_enabled(True)


@pytest.fixture(params=["LayerNorm", "RMSNorm"])
def normed(request, make_model):
    """A model with norms of one kind, their gains and biases neither 0 nor 1."""

    def make(**changes):
        model = make_model(**changes)
        if request.param == "RMSNorm":
            for each in [*model.blocks, model]:
                name = "ln1" if hasattr(each, "ln1") else "ln_final"
                norm = nn.RMSNorm(8)
                norm.weight.data = getattr(each, name).weight.data
                setattr(each, name, norm)
        return model

    return make


# The stream as a sum over paths


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("n_layers", [0, 1, 3])
@pytest.mark.parametrize("smeared_keys", [False, True])
def test_paths_add_up_to_the_stream_and_the_logits(
    linear, some_tokens, positions, n_layers, smeared_keys
):
    model = linear(positions=positions, n_layers=n_layers, smeared_keys=smeared_keys)
    logits, cache = model.run_with_cache(some_tokens)
    terms = path_terms(model, some_tokens)
    assert len(terms) == 3**n_layers
    total = sum(terms.values())
    close(total, cache["final_resid"], atol=1e-4, rtol=1e-4)
    close(total @ folded_W_U(model), logits, atol=1e-4, rtol=1e-4)


def test_a_path_needs_each_of_its_heads(linear, some_tokens):
    model = linear()
    first, second = ([Head(layer, 0), Head(layer, 1)] for layer in range(2))
    paths = {(), *((head,) for head in first + second), *itertools.product(first, second)}
    assert set(path_terms(model, some_tokens)) == paths
    model.blocks[0].attn.W_O[1] = 0
    zero = {path for path, term in path_terms(model, some_tokens).items() if not term.any()}
    assert zero == {path for path in paths if Head(0, 1) in path}


# What each part adds to a logit, and what each order is worth


@pytest.mark.parametrize("positions", ["relative", "standard", "shortformer"])
def test_attributed_parts_sum_to_the_logit(make_model, some_tokens, positions):
    model = make_model(layer_norm=False, positions=positions)
    logits = model(some_tokens)
    others = (some_tokens + 3) % 11
    for targets, wanted, n in [(None, some_tokens[:, 1:], 6), (others, others, 7)]:
        logit = logits[:, :n].gather(-1, wanted[..., None])[..., 0]
        plain = direct_logit_attribution(model, some_tokens, targets, center=False)
        close(sum(plain.values()), logit)
        above = direct_logit_attribution(model, some_tokens, targets)
        close(sum(above.values()), logit - logits[:, :n].mean(dim=-1))
    heads = ["L0H0", "L0H1", "L1H0", "L1H1"]
    assert list(above) == ["embed"] + ["pos_embed"] * (positions == "standard") + heads


def test_a_heads_part_is_what_the_logit_loses_when_only_its_direct_path_goes(
    make_model, some_tokens
):
    model = make_model(n_layers=1, **EXACT)
    parts = direct_logit_attribution(model, some_tokens, center=False)
    for head in range(2):
        without = model(
            some_tokens,
            edits={"L0.z": lambda z, h=head: z * (torch.arange(2) != h).float()[:, None]},
        )
        lost = (model(some_tokens) - without)[:, :-1].gather(-1, some_tokens[:, 1:, None])[..., 0]
        close(parts[f"L0H{head}"], lost)


def test_what_is_no_sum_over_paths_and_targets_that_do_not_fit_are_named(make_model, some_tokens):
    model = make_model(layer_norm=False)
    with pytest.raises(ValueError, match="d_mlp = 4.*d_mlp=0"):
        path_terms(make_model(d_mlp=4), some_tokens)
    with pytest.raises(ValueError, match=r"\(3, 1\) .*2 positions"):
        direct_logit_attribution(model, some_tokens[:, :1])
    with pytest.raises(ValueError, match=r"\(3, 7\), got \(3, 6\): .*one token per pos"):
        direct_logit_attribution(model, some_tokens, some_tokens[:, 1:])
    with pytest.raises(ValueError, match="no token 12: ids are 0 … 10"):
        direct_logit_attribution(model, some_tokens, some_tokens + 12 - some_tokens.min())


# With layer norm


def test_a_frozen_norm_is_the_norm_less_its_bias(some_tokens):
    draw = torch.Generator().manual_seed(0)
    parts = torch.randn(3, 2, 5, 8, generator=draw)
    for norm in (nn.LayerNorm(8), nn.RMSNorm(8), nn.RMSNorm(8, eps=1e-3), nn.Identity()):
        for parameter in norm.parameters():
            parameter.data = torch.randn(8, generator=draw)
        through = frozen_norm(norm, parts.sum(dim=0))
        bias = norm.bias if isinstance(norm, nn.LayerNorm) else 0
        close(sum(map(through, parts)) + bias, norm(parts.sum(dim=0)))
    for attempt in (check_norm, lambda norm: frozen_norm(norm, parts[0])):
        with pytest.raises(ValueError, match="GELU .*GPT-2 or Llama"):
            attempt(nn.GELU())


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("n_layers", [0, 1, 3])
def test_with_frozen_sigma_paths_add_up(normed, some_tokens, positions, n_layers):
    model = normed(positions=positions, n_layers=n_layers)
    logits, cache = model.run_with_cache(some_tokens)
    terms = path_terms(model, some_tokens)
    assert has_norm(model) and len(terms) == 3**n_layers + 1
    close(sum(terms.values()), cache["final_resid"], atol=1e-4, rtol=1e-4)
    through = frozen_norm(model.ln_final, cache["final_resid"])
    bias = model.ln_final.bias @ model.W_U if hasattr(model.ln_final, "bias") else 0
    total = sum(through(term) @ model.W_U for term in terms.values()) + bias
    close(total, logits, atol=1e-4, rtol=1e-4)


def test_a_path_through_norms_is_the_product_of_its_steps(normed, some_tokens):
    model = normed(positions="relative")
    _, cache = model.run_with_cache(some_tokens)
    step = cache["embed"]
    for layer, head in ((0, 1), (1, 0)):
        norm, resid = model.blocks[layer].ln1, cache[f"L{layer}.resid_pre"]
        mean = step.mean(dim=-1, keepdim=True) if isinstance(norm, nn.LayerNorm) else 0
        center = resid.mean(dim=-1, keepdim=True) if isinstance(norm, nn.LayerNorm) else 0
        sigma = (resid - center).square().mean(dim=-1, keepdim=True).sqrt()
        read = (step - mean) / sigma * norm.weight
        W = model.head_weights(Head(layer, head))
        step = cache[f"L{layer}.pattern"][:, head] @ (read @ W.W_V) @ W.W_O
    close(path_terms(model, some_tokens)[Head(0, 1), Head(1, 0)], step, atol=1e-4, rtol=1e-4)


def test_what_begins_at_biases_is_all_that_is_left_without_tokens(make_model, some_tokens):
    model = make_model(positions="none")
    model.W_E.zero_()
    _, cache = model.run_with_cache(some_tokens)
    terms = path_terms(model, some_tokens)
    close(terms.pop(("bias",)), cache["final_resid"])
    assert not any(term.any() for term in terms.values())
    assert cache["final_resid"].abs().min() > 1e-4


@pytest.mark.parametrize("d_mlp", [0, 5])
@pytest.mark.parametrize("positions", ["relative", "standard"])
def test_attributed_parts_sum_to_the_logit_through_norms_and_mlps(
    normed, some_tokens, positions, d_mlp
):
    model = normed(positions=positions, d_mlp=d_mlp)
    logits = model(some_tokens)[:, :-1]
    logit = logits.gather(-1, some_tokens[:, 1:, None])[..., 0]
    parts = direct_logit_attribution(model, some_tokens, center=False)
    close(sum(parts.values()), logit, atol=1e-4, rtol=1e-4)
    above = direct_logit_attribution(model, some_tokens)
    close(sum(above.values()), logit - logits.mean(dim=-1), atol=1e-4, rtol=1e-4)
    names = ["embed"] + ["pos_embed"] * (positions == "standard")
    for layer in range(2):
        names += [f"L{layer}H0", f"L{layer}H1"] + [f"L{layer} mlp"] * (d_mlp > 0)
    assert list(parts) == [*names, "bias"]


def without_biases(model):
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
    return model


def test_attribution_is_to_the_logits_what_path_terms_are_to_the_stream(normed, some_tokens):
    model = without_biases(normed(positions="relative"))
    _, cache = model.run_with_cache(some_tokens)
    through = frozen_norm(model.ln_final, cache["final_resid"])
    parts, terms = (f(model, some_tokens) for f in (direct_logit_attribution, path_terms))
    W_U = model.W_U - model.W_U.mean(dim=1, keepdim=True)
    for head in (Head(0, 1), Head(1, 0)):
        stream = sum(term for path, term in terms.items() if path[-1:] == (head,))
        logits = (through(stream) @ W_U)[:, :-1]
        close(parts[str(head)], logits.gather(-1, some_tokens[:, 1:, None])[..., 0])


# Pretrained families


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert"])
def test_pretrained_logits_are_taken_apart_and_their_paths_cut(family, some_tokens):
    model, writer, reader = tiny(family), Head(0, 1), Head(1, 0)
    if model.config.post_norm:
        for attempt in (
            lambda: direct_logit_attribution(model, some_tokens),
            lambda: cut_path(model, some_tokens, writer, reader, "K"),
            lambda: path_terms(model, some_tokens),
        ):
            with pytest.raises(ValueError, match="post_norm = True.* GPT-2's or Llama's family"):
                attempt()
        return
    parts = direct_logit_attribution(model, some_tokens, center=False)
    logits, clean = model.run_with_cache(some_tokens)
    logit = logits[:, :-1].gather(-1, some_tokens[:, 1:, None])[..., 0]
    cuts = [cut_path(model, some_tokens, writer, reader, route) for route in "QV"]
    _, cut = model.run_with_cache(some_tokens, edits=merge(*cuts))
    taken = frozen_norm(model.attention_norm(1), clean["L1.resid_pre"])(
        head_output(model, clean, writer)
    )
    close(sum(parts.values()), logit, atol=1e-4, rtol=1e-4)
    assert "L1 mlp" in parts
    v = clean["L1.v"][:, :, 0] - taken @ model.head_weights(reader).W_V
    close(cut["L1.v"][:, :, 0], v, atol=1e-4, rtol=1e-4)
    close(cut["L1.k"], clean["L1.k"])
    assert not torch.allclose(cut["L1.q"][:, :, 0], clean["L1.q"][:, :, 0], atol=1e-3)
    close(cut["L1.q"][:, :, 1], clean["L1.q"][:, :, 1])
