"""Notebook 23: neurons that are always on; two derivations each."""

import json

import pytest
import torch

from aot_helpers.base.results import plain, rounded
from aot_helpers.models.losses import next_token_losses
from aot_helpers.reading.logit_lens import lens
from chapters.nb23_always_on_neurons import always_on, constant, erasing, figures, results
from chapters.passages import texts
from figure_checks import check_figures
from tiny_models import tiny_30 as tiny


def test_a_planted_neuron_is_always_on_and_shuffling_hides_it():
    hidden = torch.randn(2, 50, 200, generator=torch.Generator().manual_seed(0))
    hidden[1, :, 7] = -9.0
    often = always_on.how_often(hidden)
    assert always_on.always_on(often) == [(1, 7)] and str(always_on.Neuron(1, 7)) == "L1N7"
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
    size = always_on.contributions(shipped, texts.mean_activations(shipped, tokens, 2))
    order = always_on.largest([always_on.Neuron(3, 5)], size, [always_on.Neuron(3, 332)])
    assert len(order) == 768 - 2 and {one.layer for one in order} == {3}
    assert size[order[0]] == size[3].index_fill(0, torch.tensor([5, 332]), 0).max()
    whole = texts.cost(shipped, tokens)
    asked = results.Ablation(texts.Cost(0.02, 0.0), texts.Cost(0.0, 0.0))
    mean = texts.mean_activations(shipped, tokens)
    found, costs = results.as_costly(shipped, tokens, order, asked, mean, whole)
    assert found == order[: len(found)] and len(found) >= results.LEAST_OTHERS
    assert costs == results.ablated(shipped, tokens, found, mean, whole) and costs.zero.loss >= 0.02
    too_much = results.Ablation(texts.Cost(99.0, 0.0), texts.Cost(0.0, 0.0))
    nothing = results.as_costly(shipped, tokens, order[:20], too_much, mean, whole)
    assert nothing == ([], None)


def test_silencing_by_the_mean_of_a_constant_neuron_changes_nothing(tokens):
    model = tiny("gpt2")
    c_fc = model.hf.transformer.h[0].mlp.c_fc
    c_fc.weight[:, 3], c_fc.bias[3] = 0, 2.0  # a bias in the shape of a neuron
    mean = torch.stack(
        [model.run_with_cache(tokens)[1][f"L{i}.mlp_hidden"].mean((0, 1)) for i in (0, 1)]
    )
    neuron = [always_on.Neuron(0, 3)]
    logits = model(tokens)
    torch.testing.assert_close(
        model(tokens, edits=always_on.ablate_neurons(model, neuron, mean)), logits
    )
    zero = model(tokens, edits=always_on.ablate_neurons(model, neuron))
    assert not torch.allclose(zero, logits, atol=1e-3)
    value = model.mlp_values(0)[3] * mean[0, 3]
    edit = {"L0.mlp_out": lambda out: out - value}
    torch.testing.assert_close(zero, model(tokens, edits=edit), atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match="no neuron 64 in layer 1: they are 0 … 63"):
        always_on.ablate_neurons(model, [always_on.Neuron(1, 64)])


def test_contributions_are_lengths_of_what_is_added(shipped):
    tokens = texts.windows(shipped, 2)
    size = always_on.contributions(shipped, texts.mean_activations(shipped, tokens, 2))
    _, cache = shipped.run_with_cache(tokens)
    added = cache["L2.mlp_hidden"][..., 7, None] * shipped.mlp_values(2)[7]
    by_hand = added.square().sum(dim=-1).mean().sqrt()
    assert size[2, 7].item() == pytest.approx(by_hand.item(), rel=1e-4)


def test_neurons_to_compare_with_are_free_ones_of_the_same_layer_the_nearest_in_size():
    size, one = torch.tensor([[5.0, 4.9, 1.0, 4.0]]), [always_on.Neuron(0, 0)]
    assert always_on.size_matched(one, size) == [(0, 1)]
    assert always_on.size_matched(one, size, draw=1) == [(0, 3)]
    assert always_on.size_matched(one, size, leave_out=[always_on.Neuron(0, 1)]) == [(0, 3)]
    two = [always_on.Neuron(0, 0), always_on.Neuron(0, 1)]
    assert always_on.size_matched(two, size) == [(0, 3), (0, 2)]  # no neuron twice


def test_what_a_neuron_writes_is_read_in_the_sign_that_it_writes(shipped):
    words = texts.function_words(shipped.tokenizer)
    mean, often, at = -torch.ones(4, 768), torch.rand(4, 768), always_on.Neuron(1, 4)
    (found,) = always_on.written(shipped, [at], words, mean, often)
    value = shipped.mlp_values(1)[4]
    top = lens(shipped, -value).topk(10).indices
    assert found.top == shipped.tokenizer.token_strings(top)
    assert found.words == pytest.approx(words[top].float().mean().item())
    assert found.outlier >= 1 and found.outlier_at == int(value.abs().argmax())
    assert found.name == "L1N4" and found.often == often[at].item()


def test_a_model_without_mlps_has_no_neurons_to_read(stories):
    with pytest.raises(ValueError, match="d_mlp = 0"):
        texts.mean_activations(stories, torch.zeros(1, 3, dtype=torch.long))
    ends = texts.read_ends(stories, ["Then Mila met Deko."])
    assert ends.hidden.numel() == 0 and ends.ln2.numel() == 0
    with pytest.raises(ValueError, match="take a model with MLPs"):
        always_on.how_often(ends.hidden)


def test_ends_are_the_last_positions_of_each_text_alone(shipped):
    some = ["Return the graph", "This function computes the eigenvalues of a matrix, and so on"]
    ends = texts.read_ends(shipped, some)
    for i, text in enumerate(some):
        tokens = shipped.tokenizer.encode(text, bos=True)[None]
        logits, cache = shipped.run_with_cache(tokens)
        middle = cache["L2.resid_pre"] + cache["L2.attn_out"]
        for found, alone in (
            (ends.ln1[2, i], cache["L2.resid_pre"]),
            (ends.ln2[2, i], middle),
            (ends.hidden[3, i], cache["L3.mlp_hidden"]),
        ):
            torch.testing.assert_close(found, alone[0, -1], atol=1e-4, rtol=0)
        assert ends.guesses[i] == logits[0, -1].argmax()


def test_costs_are_the_mean_loss_and_entropy(shipped):
    tokens = texts.windows(shipped, n=4)
    assert tokens.shape == (4, 64) and tokens[:, 0].eq(0).all()
    logits = shipped(tokens)
    whole = texts.cost(shipped, tokens)
    assert whole.loss == pytest.approx(next_token_losses(logits, tokens).mean().item(), abs=1e-5)
    entropy = torch.distributions.Categorical(logits=logits[:, :-1]).entropy().mean().item()
    assert whole.entropy == pytest.approx(entropy, abs=1e-4)
    with pytest.raises(ValueError, match="texts have 64 tokens: lower n"):
        texts.windows(shipped, n=10**6)


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
    found = results.parsed(kept)
    assert rounded(plain(found)) == kept and found.passages == 6
    assert len(found.neurons.most) == 2


QUIET, LOUD = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 3.0, 5.0])
ANSWERS = [
    (0.6, "solved"),
    (1.67, "not yet"),
    (0.4, "not yet"),
    (-0.6, "not yet"),
    (1.0, "not yet"),
]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS)
def test_a_number_that_turns_a_layer_down_is_judged(verdict, answer, expected):
    assert verdict("23.4", answer, quiet=QUIET, loud=LOUD) == expected


@torch.no_grad()
def test_a_constant_is_kept_from_one_reader_at_a_time_and_never_from_first_tokens(shipped):
    tokens, c = (
        texts.windows(shipped, 2),
        torch.randn(192, generator=torch.Generator().manual_seed(0)),
    )
    cuts = constant.without(c, 2)
    caches = [shipped.run_with_cache(tokens, edits=cut)[1] for cut in ({}, *cuts.values())]
    before, both, direct, later = ([x["L3.resid_pre"], x["final_resid"]] for x in caches)
    torch.testing.assert_close(both[0][:, 1:], before[0][:, 1:] - c)
    torch.testing.assert_close(direct[1][:, 1:], before[1][:, 1:] - c)
    torch.testing.assert_close(later[1], both[1] + torch.cat([0 * c, *[c] * 63]).view(64, -1))
    assert all(torch.equal(cut[i][:, 0], before[i][:, 0]) for cut in (both, direct) for i in (0, 1))
    neuron = [constant.Neuron(3, 332)]
    edits = constant.set_neurons(shipped, neuron)
    hidden = shipped.run_with_cache(tokens, edits=edits)[1]["L3.mlp_hidden"]
    assert hidden[:, 1:, 332].eq(0).all() and hidden[:, 0, 332].ne(0).all()
    by_hand = caches[0]["L3.mlp_hidden"][:, 1:, 332].mean()
    torch.testing.assert_close(constant.neuron_means(shipped, tokens)[3, 332], by_hand)


@torch.no_grad()
def test_an_outcome_is_loss_entropy_and_the_probability_of_frequent_tokens(shipped):
    tokens, some = texts.windows(shipped, 2), torch.tensor([5, 9])
    found, logits = constant.outcome(shipped, tokens, some)
    whole, z = texts.cost(shipped, tokens), shipped(tokens)[:, :-1]
    assert found[:2] == pytest.approx(whole, abs=1e-4)
    assert found.frequent == pytest.approx(z.softmax(-1)[..., some].sum(-1).mean().item(), abs=1e-5)
    by_hand = (z - z.mean(-1, keepdim=True)).mean((0, 1))
    torch.testing.assert_close(logits, by_hand, atol=1e-4, rtol=0)


def test_figures_can_be_read():
    groups = {"on": {"a": torch.rand(5), "b": torch.rand(5)}, "others": {"c": torch.rand(5)}}
    costs = {"on": (0.5, 0.05), "others": (0.6, 2.3)}
    found, says = constant.read_constant(), {"layer": ["cut", "loss"], "direct": ["cut", "loss"]}
    check_figures(
        figures.zero_and_mean(costs, "arrows", marked=["on"]),
        figures.said_and_done(found.tokens, found.reading, found.effect, "two readings"),
        figures.two_readers(says, "two readers"),
        figures.strips({"on": torch.rand(5) + 2, "off": torch.rand(5)}, "strips", marked=["on"]),
        figures.louder(found.quiet, found.loud, "louder"),
        figures.turned_down({1.0: 0.0, 1.3: 0.3}, {0.7: 0.1, 1.0: 0.4}, "turned down", 0.72),
        figures.active_neurons(groups, "active", marked=["a"]),
    )


def topped(hidden, k):
    return (hidden.abs() >= hidden.abs().topk(k).values[:, -1:]).float().mean(dim=0)


def replaced(values, b, neurons, mean):
    kept = torch.ones(len(values), 1).index_fill(0, torch.tensor(neurons), 0)
    return values * kept, b + mean @ (values * (1 - kept))


def built(W_in, b_in, values, b, act, size=3.0, told=True, reads=0.0, left=0.0):
    value = b / act(torch.tensor(size)) if told else b
    return (
        torch.nn.functional.pad(W_in, (0, 0, 0, 1), value=reads),
        torch.nn.functional.pad(b_in, (0, 1), value=size),
        torch.vstack([values, value]),
        left * b,
    )


PAGES = [
    ("23.1", topped, "solved"),
    ("23.1", lambda hidden, k: topped(hidden.relu(), k), "not yet"),
    ("23.1", lambda hidden, k: len(hidden) * topped(hidden, k), "not yet"),
    ("23.2", replaced, "solved"),
    ("23.2", lambda *given: None, "not attempted"),
    ("23.2", lambda values, *given: values, "not yet"),
    ("23.2", lambda v, b, *rest: (replaced(v, b, *rest)[0], b), "not yet"),
    ("23.2", lambda v, b, *rest: (v, replaced(v, b, *rest)[1]), "not yet"),
    ("23.2", lambda v, b, *rest: replaced(v.zero_(), b, *rest), "not yet"),
    ("23.3", built, "solved"),
    ("23.3", lambda *given: None, "not attempted"),
    ("23.3", lambda *given: given[:4], "not yet"),
    ("23.3", lambda *given: built(*given, told=False), "not yet"),
    ("23.3", lambda *given: built(*given, reads=1.0), "not yet"),
    ("23.3", lambda *given: built(*given, left=1.0), "not yet"),
    ("23.3", lambda W, *given: built(2 * W, *given), "not yet"),
]


@pytest.mark.parametrize(("number", "page", "expected"), PAGES)
def test_a_page_is_judged(verdict, number, page, expected):
    assert verdict(number, page) == expected
