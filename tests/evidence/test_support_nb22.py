"""Evidence of notebook 22: norms taken apart, and what changes cost; two derivations each."""

import json

import numpy
import pytest
import torch

from aot_helpers.base.results import read
from chapters.nb22_layer_norms import norms
from chapters.passages import texts
from chapters.passages.outputs import changed_outputs
from evidence.support import nb22 as support
from tiny_models import tiny_30 as tiny

both = pytest.mark.parametrize("family", ["gpt2", "llama"])


@pytest.fixture
def tokens():
    return torch.randint(30, (3, 9), generator=torch.Generator().manual_seed(1))


@both
def test_folded_gains_leave_the_logits_and_come_back(family, tokens):
    model = tiny(family)
    before = model(tokens)
    gains = [support.norm_at(model, 1, site).weight.clone() for site in support.SITES]
    with support.folded(model, [0, 1]):
        torch.testing.assert_close(model(tokens), before, atol=1e-4, rtol=0)
        for site in support.SITES:
            norm = support.norm_at(model, 1, site)
            assert norm.weight.eq(1).all()
            x = torch.randn(5, 16)
            torch.testing.assert_close(norm(x), support.normalized(norm, x))
    for site, gain in zip(support.SITES, gains, strict=True):
        assert torch.equal(support.norm_at(model, 1, site).weight, gain)
    assert torch.equal(model(tokens), before)


@both
def test_a_norm_whose_gain_is_even_changes_no_reading(family):
    model, x = tiny(family), 5 * torch.randn(6, 16)
    norm = support.norm_at(model, 0, "ln1")
    assert norms.change(model, norm, x).largest > 0.01
    for part in (support.plain, support.even):
        with part(norm):
            assert norms.change(model, norm, x).largest < 1e-4
    with pytest.raises(RuntimeError), support.plain(norm):
        raise RuntimeError  # the gain comes back all the same
    assert norms.change(model, norm, x).largest > 0.01


def test_made_up_vectors_have_the_length_or_the_mean_and_covariance():
    x = torch.randn(400, 5) @ torch.randn(5, 5) + 3
    random, alike = norms.isotropic(x), support.alike(x.repeat(20, 1))
    torch.testing.assert_close(random.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(alike.mean(dim=0), x.mean(dim=0), atol=0.2, rtol=0)
    torch.testing.assert_close(alike.T.cov(), x.T.cov(), atol=0.5, rtol=0.2)


@both
def test_edits_undo_the_uneven_gain_along_one_direction_or_are_as_long(family, tokens):
    model, words = tiny(family), torch.arange(30) < 7
    toward = support.words_direction(model, words)
    assert toward.norm() == pytest.approx(1)
    norm, resid = support.norm_at(model, 1, "ln1"), model.run_with_cache(tokens)[1]["L1.resid_pre"]
    even = support.normalized(norm, resid) * norm.weight.mean()

    def read(edits):
        return model.run_with_cache(tokens, edits=edits)[1]["L1.ln1_out"]

    now = read(support.words_put_back(model, 1, toward, toward))
    torch.testing.assert_close(now @ toward, even @ toward, atol=1e-4, rtol=0)
    across = norm(resid) - now
    torch.testing.assert_close(across, (across @ toward)[..., None] * toward, atol=1e-4, rtol=0)
    length = (read(support.evened_as_far(model, 1)) - norm(resid)).norm(dim=-1)
    torch.testing.assert_close(length, (even - norm(resid)).norm(dim=-1), rtol=1e-3, atol=1e-4)


def test_a_norm_is_taken_apart_and_vectors_are_read_one_by_one():
    model, x = tiny("gpt2"), torch.randn(6, 16)
    norm, words = support.norm_at(model, 0, "ln1"), torch.arange(30) < 7
    bare = support.normalized(norm, x)
    for part, by_hand in (
        (support.gain_only, bare * norm.weight),
        (support.bias_only, bare + norm.bias),
        (support.even, bare * norm.weight.mean()),
    ):
        with part(norm):
            torch.testing.assert_close(norm(x), by_hand)
    alike, kept = support.one_by_one(model, norm, x, words)
    one, rest = (norms.change(model, norm, x[at]) for at in ([2], [0, 1, 3, 4, 5]))
    assert kept[2].item() == pytest.approx(one.kept(words), rel=1e-4)
    by_hand = numpy.corrcoef(one.difference, rest.difference)[0, 1]
    assert alike[2].item() == pytest.approx(by_hand, abs=1e-3)


def test_a_model_without_norms_or_another_family_is_named(make_model):
    with pytest.raises(ValueError, match="no norms: load one with them, such as docstrings-gpt2"):
        support.norm_at(make_model(layer_norm=False), 0, "ln1")
    with pytest.raises(ValueError, match="family 'ours': take gpt2 or llama"):
        support.folded(make_model(), [0]).__enter__()


def test_words_are_compared_with_others_as_likely():
    before = torch.tensor([0.4, 0.2, 0.21, 0.01, 0.38])
    after = torch.tensor([0.2, 0.2, 0.105, 0.01, 0.19])
    change = norms.Change(before, after, 0.0)
    words = torch.tensor([True, True, False, False, False])
    kept, others = support.as_probable(change, words)
    assert kept == pytest.approx(0.4 / 0.6) and others == pytest.approx(0.295 / 0.59)


def test_all_of_it_is_measured_kept_and_read(shipped, monkeypatch):
    """`make data WHAT=pretrained`, on a random model with the vocabulary of the shipped one."""
    monkeypatch.setattr(support, "passages", lambda seed: texts.passages(6, seed))
    size = dict(vocab_size=4096, max_position_embeddings=128, num_key_value_heads=2)
    model = tiny("llama", shipped.tokenizer, noise=0, **size)
    kept = json.loads(json.dumps(support.pretrained(model)))
    norms_of = read("pretrained/22-smollm2")["norms"]
    assert kept["passages"] == 6 and len(kept["norms"]["ln1"]) == 2
    assert max(row["bare"] for row in kept["norms"]["ln2"]) < 0.01
    assert kept["norms"].keys() == norms_of.keys()
    assert kept["norms"]["cost"].keys() == norms_of["cost"].keys()
    for rows in ("ln1", "ln2", "parts", "ln_final"):
        assert kept["norms"][rows][0].keys() == norms_of[rows][0].keys()


@both
@torch.no_grad()
def test_norms_divide_by_what_they_are_told_and_by_their_own_sigma_at_nan(family, tokens):
    model = tiny(family)
    before, n = model.run_with_cache(tokens)[1], tokens.shape[1]
    own = {name: torch.full((n, 1), torch.nan) for name in support.every_norm(model)}
    with changed_outputs(support.dividing_by(model, own)):
        torch.testing.assert_close(model(tokens), before["logits"], atol=1e-5, rtol=1e-4)
    three = torch.full((n, 1), 3.0)
    three[0] = torch.nan
    with changed_outputs(support.dividing_by(model, {"final": three})):
        now = model.run_with_cache(tokens)[1]["ln_final_out"]
    norm, x = model.final_norm(), before["final_resid"]
    x = x - x.mean(dim=-1, keepdim=True) if family == "gpt2" else x
    by_hand = x / 3 * norm.weight + (norm.bias if family == "gpt2" else 0)
    torch.testing.assert_close(now[:, 1:], by_hand[:, 1:], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(now[:, 0], before["ln_final_out"][:, 0], atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_costs_of_constants_are_kept_and_an_overflow_is_no_number(shipped):
    tokens = texts.windows(shipped, 2)[:, :12]
    found = support.constants(shipped, tokens, tokens)
    assert len(found["one"]) == 9 and found["finite"] == found["finite_but_bos"] == 1
    # Constants taken from these very texts at BOS, whose stream is the same in all: its own σ.
    assert found["bos_apart"] == pytest.approx(found["all_but_bos"], abs=1e-4)
    assert found["all"] > found["bos_apart"]
    assert found.keys() <= read("pretrained/22-constants-smollm2").keys()
    shipped_norm = shipped.hf.transformer.h[1].ln_2
    weight = shipped_norm.weight.clone()
    shipped_norm.weight.mul_(1e30)
    try:
        overflowing = support.constants(shipped, tokens, tokens)
    finally:
        shipped_norm.weight.copy_(weight)
    assert overflowing["all"] is None and overflowing["one"] == {} and overflowing["finite"] < 1
