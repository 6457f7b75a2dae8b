"""Evidence of notebook 23: neurons that are always on, a constant, what erases; two ways each."""

import json

import pytest
import torch

from aot_helpers.base.results import read
from aot_helpers.reading.logit_lens import lens
from chapters.passages import texts
from chapters.passages.outputs import changed_outputs
from evidence.support.nb23 import always_on, erasing, results
from evidence.support.nb23 import constant as support
from evidence.support.nb23.neurons import Neuron, ablate_neurons, mean_activations
from tiny_models import tiny_30 as tiny


@pytest.fixture
def tokens():
    return torch.randint(30, (3, 9), generator=torch.Generator().manual_seed(1))


def test_a_planted_neuron_is_always_on_and_shuffling_hides_it():
    hidden = torch.randn(2, 50, 200, generator=torch.Generator().manual_seed(0))
    hidden[1, :, 7] = -9.0
    often = always_on.how_often(hidden)
    assert always_on.always_on(often) == [(1, 7)] and str(Neuron(1, 7)) == "L1N7"
    by_hand = (hidden.abs() >= hidden.abs().topk(5, dim=-1).values[..., -1:]).float().mean(dim=1)
    torch.testing.assert_close(often, by_hand)
    assert always_on.always_on(always_on.how_often(always_on.shuffled(hidden))) == []
    with pytest.raises(ValueError, match="take a model with MLPs"):
        always_on.how_often(hidden[..., :0])


def test_relative_activations_reach_one_where_a_neuron_is_counted():
    hidden = torch.randn(2, 30, 200, generator=torch.Generator().manual_seed(0))
    counted = (always_on.relative(hidden) >= 1).float().mean(dim=-2)
    torch.testing.assert_close(counted, always_on.how_often(hidden))


def test_others_as_costly_are_the_largest_and_cost_as_much_as_asked(shipped):
    tokens = texts.windows(shipped, 2)
    size = always_on.contributions(shipped, mean_activations(shipped, tokens, 2))
    order = always_on.largest([Neuron(3, 5)], size, [Neuron(3, 332)])
    assert len(order) == 768 - 2 and {one.layer for one in order} == {3}
    assert size[order[0]] == size[3].index_fill(0, torch.tensor([5, 332]), 0).max()
    whole = texts.cost(shipped, tokens)
    asked = {"zero": {"loss": 0.02}}
    mean = mean_activations(shipped, tokens)
    found, costs = results.as_costly(shipped, tokens, order, asked, mean, whole)
    assert found == order[: len(found)] and len(found) >= results.LEAST_OTHERS
    assert (
        costs == results.ablated(shipped, tokens, found, mean, whole)
        and costs["zero"]["loss"] >= 0.02
    )
    too_much = {"zero": {"loss": 99.0}}
    nothing = results.as_costly(shipped, tokens, order[:20], too_much, mean, whole)
    assert nothing == ([], None)


def test_silencing_by_the_mean_of_a_constant_neuron_changes_nothing(tokens):
    model = tiny("gpt2")
    c_fc = model.hf.transformer.h[0].mlp.c_fc
    c_fc.weight[:, 3], c_fc.bias[3] = 0, 2.0  # a bias in the shape of a neuron
    mean = torch.stack(
        [model.run_with_cache(tokens)[1][f"L{i}.mlp_hidden"].mean((0, 1)) for i in (0, 1)]
    )
    neuron = [Neuron(0, 3)]
    logits = model(tokens)
    torch.testing.assert_close(model(tokens, edits=ablate_neurons(model, neuron, mean)), logits)
    zero = model(tokens, edits=ablate_neurons(model, neuron))
    assert not torch.allclose(zero, logits, atol=1e-3)
    value = model.mlp_values(0)[3] * mean[0, 3]
    edit = {"L0.mlp_out": lambda out: out - value}
    torch.testing.assert_close(zero, model(tokens, edits=edit), atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match="no neuron 64 in layer 1: they are 0 … 63"):
        ablate_neurons(model, [Neuron(1, 64)])


def test_contributions_are_lengths_of_what_is_added(shipped):
    tokens = texts.windows(shipped, 2)
    size = always_on.contributions(shipped, mean_activations(shipped, tokens, 2))
    _, cache = shipped.run_with_cache(tokens)
    added = cache["L2.mlp_hidden"][..., 7, None] * shipped.mlp_values(2)[7]
    by_hand = added.square().sum(dim=-1).mean().sqrt()
    assert size[2, 7].item() == pytest.approx(by_hand.item(), rel=1e-4)


def test_neurons_to_compare_with_are_free_ones_of_the_same_layer_the_nearest_in_size():
    size, one = torch.tensor([[5.0, 4.9, 1.0, 4.0]]), [Neuron(0, 0)]
    assert always_on.size_matched(one, size) == [(0, 1)]
    assert always_on.size_matched(one, size, draw=1) == [(0, 3)]
    assert always_on.size_matched(one, size, leave_out=[Neuron(0, 1)]) == [(0, 3)]
    two = [Neuron(0, 0), Neuron(0, 1)]
    assert always_on.size_matched(two, size) == [(0, 3), (0, 2)]  # no neuron twice


def test_what_a_neuron_writes_is_read_in_the_sign_that_it_writes(shipped):
    words = texts.function_words(shipped.tokenizer)
    mean, often, at = -torch.ones(4, 768), torch.rand(4, 768), Neuron(1, 4)
    found = always_on.written(shipped, [at], words, mean, often).iloc[0]
    value = shipped.mlp_values(1)[4]
    top = lens(shipped, -value).topk(10).indices
    assert found["top"] == shipped.tokenizer.token_strings(top)
    assert found["words"] == pytest.approx(words[top].float().mean().item())
    assert found["outlier"] >= 1 and found["outlier_at"] == int(value.abs().argmax())
    assert found["name"] == "L1N4" and found["often"] == often[at].item()


def test_a_model_without_mlps_has_no_neurons_to_read(stories):
    with pytest.raises(ValueError, match="d_mlp = 0"):
        mean_activations(stories, torch.zeros(1, 3, dtype=torch.long))
    ends = texts.read_ends(stories, ["Then Mila met Deko."])
    assert ends.hidden.numel() == 0 and ends.ln2.numel() == 0
    with pytest.raises(ValueError, match="take a model with MLPs"):
        always_on.how_often(ends.hidden)


def test_a_slope_is_minus_one_where_all_is_erased_and_sees_no_constant():
    stream, other = torch.randn(2, 500, 8, generator=torch.Generator().manual_seed(0))
    assert erasing.slope(-stream + 3, stream).item() == pytest.approx(-1)
    assert erasing.slope(0.25 * stream + other.mean(), stream - 5).item() == pytest.approx(0.25)
    assert abs(erasing.slope(other, stream)) < 0.1


@torch.no_grad()
def test_an_mlp_and_a_head_that_write_back_what_they_read_erase_it(tokens):
    model = tiny("gpt2")
    _, cache = model.run_with_cache(tokens)
    stream = (cache["L1.resid_pre"] + cache["L1.attn_out"])[:, 1:].flatten(0, 1)
    by_hand = erasing.slope(cache["L1.mlp_out"][:, 1:].flatten(0, 1), stream)
    assert erasing.mlp_slopes(model, tokens).real[1] == pytest.approx(by_hand.item())
    heads = erasing.head_slopes(model, tokens)
    written = cache["L0.z"][:, 1:, 1].flatten(0, 1) @ model.layer_weights(0).W_O[1]
    by_hand = erasing.slope(written, cache["L0.resid_pre"][:, 1:].flatten(0, 1))
    assert heads.real[0, 1] == pytest.approx(by_hand.item())
    assert heads.real.shape == heads.made_up.shape and not torch.equal(heads.real, heads.made_up)


def test_the_lowest_of_one_half_is_looked_up_in_the_other():
    first, second = torch.tensor([[0.0, 3.0], [-2.0, 1.0]]), torch.tensor([[9.0, 8.0], [7.0, 6.0]])
    assert erasing.lowest_elsewhere(first, second) == (2, 7.0)


def test_a_neuron_that_writes_against_what_it_reads_has_a_cosine_of_minus_one(shipped):
    model = tiny("gpt2")
    layer = model.hf.transformer.h[1]
    reads = layer.mlp.c_fc.weight * model.mlp_norm(1).weight[:, None]
    layer.mlp.c_proj.weight.data.copy_(-(reads - reads.mean(dim=0)).T)
    _, second = erasing.neuron_cosines(model)
    torch.testing.assert_close(second, torch.full_like(second, -1))
    assert all(cosines.abs().max() <= 1 for cosines in erasing.neuron_cosines(shipped))


def test_all_of_it_is_measured_kept_and_read(shipped, monkeypatch):
    """`make data WHAT=pretrained`, on a random model with the vocabulary of the shipped one."""
    monkeypatch.setattr(results, "passages", lambda seed: texts.passages(6, seed))
    size = dict(vocab_size=4096, max_position_embeddings=128, num_key_value_heads=2)
    model = tiny("llama", shipped.tokenizer, noise=0, **size)
    kept = json.loads(json.dumps(results.pretrained(model)))
    assert kept["passages"] == 6 and len(kept["neurons"]["most"]) == 2
    shipped_keys = read("pretrained/23-smollm2")
    assert set(kept) <= set(shipped_keys) and set(kept["neurons"]) == set(shipped_keys["neurons"])


@torch.no_grad()
def test_a_constant_is_kept_from_one_reader_at_a_time_and_never_from_first_tokens(shipped):
    tokens, c = (
        texts.windows(shipped, 2),
        torch.randn(192, generator=torch.Generator().manual_seed(0)),
    )
    cuts = support.without(c, 2)
    caches = [shipped.run_with_cache(tokens, edits=cut)[1] for cut in ({}, *cuts.values())]
    before, both, direct, later = ([x["L3.resid_pre"], x["final_resid"]] for x in caches)
    torch.testing.assert_close(both[0][:, 1:], before[0][:, 1:] - c)
    torch.testing.assert_close(direct[1][:, 1:], before[1][:, 1:] - c)
    torch.testing.assert_close(later[1], both[1] + torch.cat([0 * c, *[c] * 63]).view(64, -1))
    assert all(torch.equal(cut[i][:, 0], before[i][:, 0]) for cut in (both, direct) for i in (0, 1))
    neuron = [Neuron(3, 332)]
    edits = ablate_neurons(shipped, neuron, start=1)
    hidden = shipped.run_with_cache(tokens, edits=edits)[1]["L3.mlp_hidden"]
    assert hidden[:, 1:, 332].eq(0).all() and hidden[:, 0, 332].ne(0).all()
    by_hand = caches[0]["L3.mlp_hidden"][:, 1:, 332].mean()
    torch.testing.assert_close(mean_activations(shipped, tokens, start=1)[3, 332], by_hand)


@torch.no_grad()
def test_an_outcome_is_loss_entropy_and_the_probability_of_frequent_tokens(shipped):
    tokens, some = texts.windows(shipped, 2), torch.tensor([5, 9])
    found, logits = support.outcome(shipped, tokens, some)
    whole, z = texts.cost(shipped, tokens), shipped(tokens)[:, :-1]
    assert (found["loss"], found["entropy"]) == pytest.approx(whole, abs=1e-4)
    by_hand = z.softmax(-1)[..., some].sum(-1).mean().item()
    assert found["frequent"] == pytest.approx(by_hand, abs=1e-5)
    by_hand = (z - z.mean(-1, keepdim=True)).mean((0, 1))
    torch.testing.assert_close(logits, by_hand, atol=1e-4, rtol=0)


@torch.no_grad()
def test_parts_that_do_not_get_a_constant_run_as_if_it_were_cut_from_the_stream(tokens):
    model = tiny("llama")
    c = torch.randn(model.config.d_model, generator=torch.Generator().manual_seed(0))
    cuts, parts = support.without(c, 0), support.deaf_parts(model, 1, c)

    def logits(changes, edits=None):
        with changed_outputs(changes):
            return model(tokens, edits=edits)

    same = {
        "layer 1 without all of it": "layer 1 does not get it",
        "the last norm without all of it": "the unembedding does not get it",
    }
    for part, cut in same.items():
        now = logits(parts[part])
        torch.testing.assert_close(now, model(tokens, edits=cuts[cut]), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(now[:, 0], model(tokens)[:, 0], atol=1e-5, rtol=1e-4)
    heads, mlp = (
        parts[f"the {what} not get it"] for what in ("heads of layer 1 do", "MLP of layer 1 does")
    )
    torch.testing.assert_close(logits(heads | mlp), logits(parts["layer 1 without all of it"]))
    gates = parts["the gates of layer 1 do not get it"]
    others = parts["what they multiply in layer 1 does not get it"]
    assert not torch.allclose(logits(gates), logits(others))
    # Two halves of a norm: the direction with the old length, and the length alone.
    norm, x = model.final_norm(), model.run_with_cache(tokens)[1]["final_resid"]
    less, rms = x[:, 1:] - c, lambda v: (v.square().mean(-1, keepdim=True) + norm.eps).sqrt()
    for way, by_hand in (
        ("its direction", less / rms(x[:, 1:])),
        ("its length", x[:, 1:] / rms(less)),
    ):
        made = support.norm_without(norm, c, way, x)
        torch.testing.assert_close(made[:, 1:], by_hand * norm.weight, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_a_last_norm_divides_by_the_lengths_of_another_run_and_gates_get_a_mean(tokens):
    model = tiny("llama")
    c = torch.randn(model.config.d_model, generator=torch.Generator().manual_seed(0))
    deaf = support.without(c, 0)["layer 1 does not get it"]
    plain_run, other = (model.run_with_cache(tokens, edits=e)[1] for e in ({}, deaf))
    with changed_outputs(support.last_norm_divides(model, tokens, deaf)):
        now = model.run_with_cache(tokens)[1]["ln_final_out"]
    rms = other["final_resid"].square().mean(-1, keepdim=True).sqrt()
    by_hand = plain_run["final_resid"] / rms * model.final_norm().weight
    torch.testing.assert_close(now, by_hand, atol=1e-4, rtol=1e-3)
    (bias,) = support.gate_biases(model, 1, c[None], tokens)
    x = (plain_run["L1.resid_pre"] + plain_run["L1.attn_out"])[:, 1:]
    norm = model.mlp_norm(1)
    given = c / (x.square().mean(-1, keepdim=True) + norm.eps).sqrt() * norm.weight
    gates = model.hf.model.layers[1].mlp.gate_proj.weight
    torch.testing.assert_close(bias, (given @ gates.T).mean((0, 1)), atol=1e-4, rtol=1e-3)
