"""Notebook 22: norms in words, neurons that are always on, names; two derivations each."""

from functools import partial

import pytest
import torch
import transformers
from torch import nn

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.pretrained import PretrainedTransformer, load_pretrained
from aot_helpers.models.protocol import Head
from aot_helpers.reading.logit_lens import lens
from aot_helpers.reading.paths import direct_logit_attribution
from chapters.names import name_movers
from chapters.names import patches as name_patches
from chapters.names import pieces as part_prompts
from chapters.names import templates as name_prompts
from chapters.nb22_norms_neurons_names import always_on, name_results
from chapters.nb22_norms_neurons_names import figures as part_drawings
from chapters.nb22_norms_neurons_names import norms as norm_words
from chapters.nb22_norms_neurons_names import results as part_results
from figure_checks import check_figures

SIZE = dict(vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2)
SIZE |= dict(max_position_embeddings=20, bos_token_id=0, eos_token_id=0)


def tiny(family):
    """A random model whose gains and biases are not 1 and 0."""
    torch.manual_seed(0)
    if family == "gpt2":
        hf = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZE))
    else:
        config = transformers.LlamaConfig(**SIZE, intermediate_size=40, num_key_value_heads=1)
        hf = transformers.LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in hf.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return PretrainedTransformer(hf.requires_grad_(False))


@pytest.fixture(scope="session")
def shipped():
    return load_pretrained("docstrings-gpt2")


@pytest.fixture
def tokens():
    return torch.randint(30, (3, 9), generator=torch.Generator().manual_seed(1))


both = pytest.mark.parametrize("family", ["gpt2", "llama"])


# ---- norms ----


@both
def test_folded_gains_leave_the_logits_and_come_back(family, tokens):
    model = tiny(family)
    before = model(tokens)
    gains = [norm_words.norm_at(model, 1, site).weight.clone() for site in norm_words.SITES]
    with norm_words.folded(model, [0, 1]):
        torch.testing.assert_close(model(tokens), before, atol=1e-4, rtol=0)
        for site in norm_words.SITES:
            norm = norm_words.norm_at(model, 1, site)
            assert norm.weight.eq(1).all()
            x = torch.randn(5, 16)
            torch.testing.assert_close(norm(x), norm_words.normalized(norm, x))
    for site, gain in zip(norm_words.SITES, gains, strict=True):
        assert torch.equal(norm_words.norm_at(model, 1, site).weight, gain)
    assert torch.equal(model(tokens), before)


@both
def test_a_norm_without_gain_changes_no_reading(family):
    model, x = tiny(family), 5 * torch.randn(6, 16)
    norm = norm_words.norm_at(model, 0, "ln1")
    assert norm_words.change(model, norm, x).largest > 0.01
    with norm_words.plain(norm):
        assert norm_words.change(model, norm, x).largest < 1e-4
    with norm_words.even(norm):
        assert len(norm.weight.unique()) == 1
    with pytest.raises(RuntimeError), norm_words.plain(norm):
        raise RuntimeError  # the gain comes back all the same
    assert norm_words.change(model, norm, x).largest > 0.01


def test_the_change_of_a_norm_is_the_difference_of_two_lenses():
    model, x = tiny("gpt2"), torch.randn(6, 16)
    norm, words = norm_words.norm_at(model, 1, "ln2"), torch.arange(30) < 7
    found = norm_words.change(model, norm, x)
    before, after = (lens(model, v).softmax(dim=-1).mean(dim=0) for v in (x, norm(x)))
    torch.testing.assert_close(found.difference, after - before)
    assert found.left(words) == pytest.approx((after[:7].sum() / before[:7].sum()).item())
    assert norm_words.falling(found, 1)[0] == found.difference.argmin()
    assert norm_words.rising(found, 1)[0] == found.difference.argmax()


def test_made_up_vectors_have_the_length_or_the_mean_and_covariance():
    x = torch.randn(400, 5) @ torch.randn(5, 5) + 3
    random, alike = norm_words.isotropic(x), norm_words.alike(x.repeat(20, 1))
    torch.testing.assert_close(random.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(alike.mean(dim=0), x.mean(dim=0), atol=0.2, rtol=0)
    torch.testing.assert_close(alike.T.cov(), x.T.cov(), atol=0.5, rtol=0.2)


@both
def test_words_put_back_undo_the_uneven_gain_along_one_direction(family, tokens):
    model, words = tiny(family), torch.arange(30) < 7
    toward = norm_words.words_direction(model, words)
    assert toward.norm() == pytest.approx(1)
    norm = norm_words.norm_at(model, 1, "ln1")
    edits = norm_words.words_put_back(model, 1, toward, toward)
    resid = model.run_with_cache(tokens)[1]["L1.resid_pre"]
    now = model.run_with_cache(tokens, edits=edits)[1]["L1.ln1_out"]
    even = norm_words.normalized(norm, resid) * norm.weight.mean()
    torch.testing.assert_close(now @ toward, even @ toward, atol=1e-4, rtol=0)
    across = norm(resid) - now
    torch.testing.assert_close(across, (across @ toward)[..., None] * toward, atol=1e-4, rtol=0)


def test_a_model_without_norms_or_another_family_is_named(make_model):
    with pytest.raises(ValueError, match="no norms: load one with them, such as docstrings-gpt2"):
        norm_words.norm_at(make_model(layer_norm=False), 0, "ln1")
    with pytest.raises(ValueError, match="one of ln1, ln2, got 'ln3'"):
        norm_words.norm_at(tiny("gpt2"), 0, "ln3")
    with pytest.raises(ValueError, match="family 'ours': take gpt2 or llama"):
        norm_words.folded(make_model(), [0]).__enter__()


def test_a_norm_is_taken_apart_and_an_even_one_changes_no_reading():
    model, x = tiny("gpt2"), torch.randn(6, 16)
    norm, words = norm_words.norm_at(model, 0, "ln1"), torch.arange(30) < 7
    bare = norm_words.normalized(norm, x)
    for part, by_hand in (
        (norm_words.gain_only, bare * norm.weight),
        (norm_words.bias_only, bare + norm.bias),
        (norm_words.even, bare * norm.weight.mean()),
    ):
        with part(norm):
            torch.testing.assert_close(norm(x), by_hand)
    with norm_words.even(norm):
        assert norm_words.change(model, norm, x).largest < 1e-4
    alike, left = norm_words.one_by_one(model, norm, x, words)
    one = norm_words.change(model, norm, x[2:3])
    rest = norm_words.change(model, norm, x[[0, 1, 3, 4, 5]])
    assert left[2].item() == pytest.approx(one.left(words), rel=1e-4)
    by_hand = norm_words.correlation(one.difference, rest.difference)
    assert alike[2].item() == pytest.approx(by_hand, abs=1e-3)


# ---- neurons ----


def test_a_planted_neuron_is_always_on_and_dealing_hides_it():
    hidden = torch.randn(2, 50, 200, generator=torch.Generator().manual_seed(0))
    hidden[1, :, 7] = -9.0
    often = always_on.how_often(hidden)
    assert always_on.always_on(often) == [(1, 7)] and str(always_on.Neuron(1, 7)) == "L1N7"
    by_hand = (hidden.abs() >= hidden.abs().topk(5, dim=-1).values[..., -1:]).float().mean(dim=1)
    torch.testing.assert_close(often, by_hand)
    assert always_on.always_on(always_on.how_often(always_on.dealt_at_random(hidden))) == []
    with pytest.raises(ValueError, match="take a model with MLPs"):
        always_on.how_often(hidden[..., :0])


def test_silencing_by_the_mean_of_a_constant_neuron_changes_nothing(tokens):
    model = tiny("gpt2")
    c_fc = model.hf.transformer.h[0].mlp.c_fc
    c_fc.weight[:, 3], c_fc.bias[3] = 0, 2.0  # a bias in the shape of a neuron
    mean = torch.stack(
        [model.run_with_cache(tokens)[1][f"L{i}.mlp_hidden"].mean((0, 1)) for i in (0, 1)]
    )
    neuron = [always_on.Neuron(0, 3)]
    logits = model(tokens)
    torch.testing.assert_close(model(tokens, edits=always_on.silence(model, neuron, mean)), logits)
    zero = model(tokens, edits=always_on.silence(model, neuron))
    assert not torch.allclose(zero, logits, atol=1e-3)
    value = model.mlp_values(0)[3] * mean[0, 3]
    edit = {"L0.mlp_out": lambda out: out - value}
    torch.testing.assert_close(zero, model(tokens, edits=edit), atol=1e-4, rtol=0)
    with pytest.raises(ValueError, match="no neuron 64 in layer 1: they are 0 … 63"):
        always_on.silence(model, [always_on.Neuron(1, 64)])


def test_neurons_as_large_are_the_nearest_in_what_they_contribute():
    size = torch.tensor([[5.0, 4.9, 1.0, 4.0]])
    one = [always_on.Neuron(0, 0)]
    assert always_on.others_as_large(one, size) == [always_on.Neuron(0, 1)]
    assert always_on.others_as_large(one, size, draw=1) == [always_on.Neuron(0, 3)]
    kept = always_on.others_as_large(one, size, leave_out=[always_on.Neuron(0, 1)])
    assert kept == [always_on.Neuron(0, 3)]


def test_contributions_are_lengths_of_what_is_added(shipped):
    tokens = part_prompts.windows(shipped, 2, 32)
    size = always_on.contributions(shipped, part_prompts.mean_activations(shipped, tokens, 2))
    _, cache = shipped.run_with_cache(tokens)
    added = cache["L2.mlp_hidden"][..., 7, None] * shipped.mlp_values(2)[7]
    by_hand = added.square().sum(dim=-1).mean().sqrt()
    assert size[2, 7].item() == pytest.approx(by_hand.item(), rel=1e-4)


def test_words_are_compared_with_others_as_likely():
    before = torch.tensor([0.4, 0.2, 0.21, 0.01, 0.38])
    after = torch.tensor([0.2, 0.2, 0.105, 0.01, 0.19])
    change = norm_words.Change(before, after, 0.0)
    words = torch.tensor([True, True, False, False, False])
    kept, others = norm_words.as_probable(change, words)
    assert kept == pytest.approx(0.4 / 0.6) and others == pytest.approx(0.295 / 0.59)


@both
def test_a_change_as_far_as_an_even_gain_has_its_length(family, tokens):
    model = tiny(family)
    _, cache = model.run_with_cache(tokens)
    norm, x = norm_words.norm_at(model, 1, "ln1"), cache["L1.resid_pre"]
    edits = norm_words.evened_as_far(model, 1)
    _, moved = model.run_with_cache(tokens, edits=edits)
    with norm_words.even(norm):
        even = norm(x)
    length = (moved["L1.ln1_out"] - norm(x)).norm(dim=-1)
    torch.testing.assert_close(length, (even - norm(x)).norm(dim=-1), rtol=1e-3, atol=1e-4)


def test_neurons_to_compare_with_are_others_of_the_same_layer():
    model, neurons = tiny("gpt2"), [always_on.Neuron(0, 3), always_on.Neuron(0, 5)]
    for others in (
        always_on.others_at_random(neurons, 64, seed=1),
        always_on.others_as_long(model, neurons, seed=1, among=1),
    ):
        assert [n.layer for n in others] == [0, 0] and len({*others, *neurons}) == 4
    length = model.mlp_values(0).norm(dim=-1)
    apart = (length - length[3]).abs()
    apart[[3, 5]] = torch.inf
    assert others[0].neuron == apart.argmin()


def test_what_a_neuron_writes_is_read_in_the_sign_that_it_writes():
    model, words = tiny("gpt2"), torch.arange(30) < 7
    mean = torch.ones(2, 64)
    mean[1, 4] = -1
    at = always_on.Neuron(1, 4)
    found = always_on.written(model, [at], words, mean)[at]
    logits = lens(model, -model.mlp_values(1)[4])
    assert found.top == logits.topk(10).indices.tolist()
    assert found.words == pytest.approx(sum(token < 7 for token in found.top) / 10)
    assert found.outlier >= 1 and found.outlier_at == int(model.mlp_values(1)[4].abs().argmax())


def test_a_model_without_mlps_has_no_neurons_to_read(stories):
    with pytest.raises(ValueError, match="d_mlp = 0"):
        part_prompts.mean_activations(stories, torch.zeros(1, 3, dtype=torch.long))
    ends = part_prompts.read_ends(stories, ["Then Mila met Deko."])
    assert ends.hidden.numel() == 0 and ends.ln2.numel() == 0
    with pytest.raises(ValueError, match="take a model with MLPs"):
        always_on.how_often(ends.hidden)


# ---- prompts and costs ----


def test_ends_are_the_last_positions_of_each_text_alone(shipped):
    texts = ["Return the graph", "This function computes the eigenvalues of a matrix, and so on"]
    ends = part_prompts.read_ends(shipped, texts)
    for i, text in enumerate(texts):
        tokens = shipped.tokenizer.encode(text, bos=True)[None]
        logits, cache = shipped.run_with_cache(tokens)
        torch.testing.assert_close(ends.ln1[2, i], cache["L2.resid_pre"][0, -1], atol=1e-4, rtol=0)
        middle = cache["L2.resid_pre"] + cache["L2.attn_out"]
        torch.testing.assert_close(ends.ln2[2, i], middle[0, -1], atol=1e-4, rtol=0)
        torch.testing.assert_close(
            ends.hidden[3, i], cache["L3.mlp_hidden"][0, -1], atol=1e-4, rtol=0
        )
        assert ends.guesses[i] == logits[0, -1].argmax()
    with pytest.raises(ValueError, match=r"'x x x .* tokens, .* n_ctx = 128: shorten it"):
        part_prompts.read_ends(shipped, ["x " * 200])


def test_costs_are_the_mean_loss_and_entropy(shipped, monkeypatch):
    tokens = part_prompts.windows(shipped, n=4, length=16)
    assert tokens.shape == (4, 16) and tokens[:, 0].eq(0).all()
    logits = shipped(tokens)
    whole = part_prompts.cost(shipped, tokens)
    assert whole.loss == pytest.approx(next_token_losses(logits, tokens).mean().item(), abs=1e-5)
    entropy = torch.distributions.Categorical(logits=logits[:, :-1]).entropy().mean().item()
    assert whole.entropy == pytest.approx(entropy, abs=1e-4)
    small = [*part_prompts.pieces(tokens, 4096, room=2 * 16 * 4096)]
    assert [len(tokens[piece]) for piece in small] == [2, 2]
    with pytest.raises(ValueError, match="2 to n_ctx = 128, got 129"):
        part_prompts.windows(shipped, length=129)
    with pytest.raises(ValueError, match="lower n or length"):
        part_prompts.windows(shipped, n=10**6, length=128)


def test_passages_are_alike_for_a_seed_and_too_many_are_refused():
    assert part_prompts.passages(5, seed=1) == part_prompts.passages(5, seed=1)
    assert part_prompts.passages(5, seed=1) != part_prompts.passages(5, seed=2)
    with pytest.raises(ValueError, match="n must be 1 to"):
        part_prompts.passages(10**6)


def test_function_words_are_found_with_space_and_capital(shipped):
    words, encode = part_prompts.function_words(shipped.tokenizer), shipped.tokenizer.encode
    for text, is_one in ((" the", True), ("The", True), (" of", True), (" matrix", False)):
        (token,) = encode(text)
        assert words[token] == is_one


# ---- names ----


def test_prompts_stand_where_they_say(shipped):
    groups = name_prompts.name_prompts(shipped, name_prompts.SCHOLARS, n=2)
    assert len(groups) == 2 * len(name_prompts.TEMPLATES)
    for g in groups:
        assert torch.equal(g.tokens[:, g.io_at], g.io)
        assert torch.equal(g.tokens[:, g.s1_at], g.s) and torch.equal(g.tokens[:, g.s2_at], g.s)
        differs = (g.tokens != g.other).any(dim=0).nonzero()[:, 0].tolist()
        assert differs == sorted({g.io_at, g.s1_at, g.s2_at})
        assert not torch.isin(g.other, torch.cat([g.io, g.s])).any() or len(g.io) > 1
    assert {g.io_at < g.s1_at for g in groups} == {True, False}


def test_stories_swap_who_gives(stories):
    usual, swapped = (name_prompts.story_prompts(stories, hero, n=4)[0] for hero in (False, True))
    assert usual.io_at < usual.s2_at and swapped.s1_at < swapped.io_at < swapped.s2_at
    assert torch.equal(usual.io, swapped.s) and torch.equal(usual.s, swapped.io)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["Euler", "Gauss", "Laplace", "Wigner", "Mozart"], r"'Mozart' is \d+ tokens here, .*one"),
        (["Euler", "Gauss"], "5 different names or more"),
    ],
)
def test_names_that_cannot_be_used_are_named(shipped, names, said):
    with pytest.raises(ValueError, match=said):
        name_prompts.name_prompts(shipped, names)


def test_too_long_prompts_are_named(shipped):
    template = "word " * 140 + "{A} and {B}, {S} to"
    with pytest.raises(ValueError, match=r"n_ctx = 128: shorten it"):
        name_prompts.name_prompts(shipped, name_prompts.SCHOLARS, templates=[template])


def test_attribution_agrees_with_the_cores(stories):
    groups = name_prompts.story_prompts(stories, False, n=6)
    table, g = name_movers.head_table(stories, groups), groups[0]
    ends = [torch.zeros_like(g.tokens).index_fill_(1, torch.tensor([0]), 0) for _ in range(2)]
    for target, name in zip(ends, (g.io, g.s), strict=True):
        target[:, -1] = name
    io, s = (direct_logit_attribution(stories, g.tokens, target) for target in ends)
    for head in (Head(1, 0), Head(1, 2), Head(0, 3)):
        by_core = (io[str(head)][:, -1] - s[str(head)][:, -1]).mean().item()
        assert table.direct[head].item() == pytest.approx(by_core, abs=1e-4)
    assert table.sum_error < 1e-3
    torch.testing.assert_close(table.difference, name_movers.logit_differences(stories, groups))


def test_removal_of_a_last_head_is_its_attribution_and_gradients_agree(stories):
    groups = name_prompts.story_prompts(stories, False, n=6)
    table, head = name_movers.head_table(stories, groups), Head(1, 2)
    gone = name_movers.replaced(stories, groups, [head], end_only=True, zero=True)
    fall = (table.difference - gone).mean().item()
    assert fall == pytest.approx(table.direct[head].item(), abs=1e-4)
    changed = name_movers.replaced(stories, groups, [head]).mean() - table.difference.mean()
    estimate = name_movers.gradients(stories, groups)[head]
    assert estimate.item() == pytest.approx(changed.item(), abs=1e-4)  # linear from there on


def test_roles_follow_their_rules():
    to = {name: torch.zeros(2, 3) for name in ("most at IO", "most at S2", "S2 to S1")}
    to |= {name: torch.zeros(2, 3) for name in ("S2 to after S1", "after S1 to S1")}
    to["most at IO"][1] = torch.tensor([0.9, 0.6, 0.4])
    to["most at S2"][0, 1], to["S2 to S1"][0, 2] = 0.8, 0.5
    direct, estimate = torch.zeros(2, 3), torch.zeros(2, 3)
    direct[1] = torch.tensor([0.5, -0.2, 3.0])
    estimate[0, 1] = -0.3
    nothing = torch.zeros(2, 3)
    to["most at S2"][1, 2] = 0.7
    rest = (to, *[nothing] * 5, {}, torch.full((4,), 4.0), 0.0)
    table = name_movers.Table(direct, nothing, *rest)
    found = name_movers.roles(table, estimate)
    assert found.movers == [Head(1, 0)] and found.against == [Head(1, 1)]
    assert found.suppress == [Head(1, 2)]
    assert found.tells == [Head(0, 1)] and found.duplicate == [Head(0, 2)]
    assert found.induction == [] == found.previous


def test_other_heads_are_the_nearest_in_size_and_leave_the_roles_out():
    size = torch.tensor([[9.0, 9.0, 9.0], [1.0, 5.0, 5.5], [4.0, 2.0, 1.2]])
    near = partial(name_patches.as_large, [Head(1, 1)], size, [Head(1, 2)], first=1)
    assert near() == [Head(2, 0)] and near(draw=1) == [Head(2, 1)]
    two = name_patches.as_large([Head(1, 0), Head(2, 2)], size, [], first=1)
    assert len({*two, Head(1, 0), Head(2, 2)}) == 4  # neither themselves nor one of them twice
    with pytest.raises(ValueError, match=r"only 4 other heads .*lower draw"):
        near(draw=9)


def test_patches_agree_with_replacing_and_with_a_run_on_the_swapped_prompt(shipped):
    kind = name_prompts.single_names(shipped.tokenizer)
    shifted = name_prompts.TEMPLATES[1:] + name_prompts.TEMPLATES[:1]
    groups, elsewhere = (
        name_prompts.name_prompts(shipped, kind, n=2, templates=each)
        for each in (name_prompts.TEMPLATES, shifted)
    )
    sets = {"one": [Head(2, 1)], "two": [Head(3, 0), Head(1, 2)], "none": []}
    found = name_patches.patched(shipped, groups, elsewhere, sets)
    for name, heads in sets.items():
        by_core = name_movers.replaced(shipped, groups, heads, end_only=True)
        torch.testing.assert_close(found[name].after["other names"], by_core)
    for way in name_patches.WAYS:
        torch.testing.assert_close(found["none"].after[way], found["none"].whole)
    every = [Head(3, h) for h in range(6)]
    g = groups[0]
    outputs = name_patches.end_outputs(shipped, name_patches.swapped_roles(g))
    _, cache = shipped.run_with_cache(g.tokens, edits=name_patches.give(every, outputs))
    torch.testing.assert_close(cache["L3.z"][:, -1], outputs[3])
    text = shipped.tokenizer.decode(name_patches.swapped_roles(g)[0])
    assert text.count(shipped.tokenizer.decode(g.io[:1]).strip()) == 2  # who had come once gives
    with pytest.raises(ValueError, match="elsewhere has other names"):
        name_patches.patched(shipped, groups, groups[::-1], sets)


def test_heads_that_are_held_pass_nothing_on(shipped):
    kind = name_prompts.single_names(shipped.tokenizer)
    (g, *_) = name_prompts.name_prompts(shipped, kind, n=3)
    last = [Head(3, h) for h in range(6)]
    found = name_patches.held(shipped, [g], last, {"none": [], "all": last})
    sets, ways = {"last": last}, ("roles swapped",)
    swapped = name_patches.patched(shipped, [g], [g], sets, ways)["last"]
    torch.testing.assert_close(found["none"], swapped.after["roles swapped"])
    torch.testing.assert_close(found["all"], found["none"])  # who is swapped cannot be held
    before = [Head(2, h) for h in range(6)]
    held = name_patches.held(shipped, [g], before, {"all": last})["all"]
    assert not torch.allclose(held, swapped.whole)  # the MLPs of layers 2 and 3 still hear it


def test_the_share_of_sigma_is_nothing_without_a_norm(shipped, stories):
    (g,) = name_prompts.story_prompts(stories, False, n=4)

    def without(model):
        return lambda group: name_movers.with_others(model, [Head(1, 2)], group, end_only=True)

    assert name_movers.by_sigma(stories, [g], without(stories)) == 0
    kind = name_prompts.single_names(shipped.tokenizer)
    groups = name_prompts.name_prompts(shipped, kind, n=2)[:1]
    share = name_movers.by_sigma(shipped, groups, without(shipped))
    streams = [
        shipped.run_with_cache(groups[0].tokens, edits=edits)[1]["final_resid"][:, -1]
        for edits in (None, without(shipped)(groups[0]))
    ]
    sigma = [x.var(dim=-1, unbiased=False).sqrt() for x in streams]
    norm, W_U = shipped.final_norm(), shipped.W_U.T
    toward = W_U[groups[0].io] - W_U[groups[0].s]
    after = ((norm(streams[1]) - norm.bias) * toward).sum(dim=-1)
    assert share == pytest.approx((after * (1 - sigma[1] / sigma[0])).mean().item(), abs=1e-3)


def test_in_the_second_prompts_the_name_that_comes_twice_is_given_something(shipped):
    kind = name_prompts.single_names(shipped.tokenizer)
    groups = name_prompts.name_prompts(shipped, kind, n=2, templates=name_prompts.RECEIVED)
    for g in groups:
        assert shipped.tokenizer.decode(g.tokens[0]).endswith((" by", " from"))
        assert (g.tokens[:, g.s2_at] == g.s).all() and (g.tokens == g.io[:, None]).sum() == 2


def test_a_change_at_random_is_as_long_and_sizes_are_lengths_of_changes(shipped):
    kind = name_prompts.single_names(shipped.tokenizer)
    (g, *_) = name_prompts.name_prompts(shipped, kind, n=3)
    own, other = (name_patches.end_outputs(shipped, tokens) for tokens in (g.tokens, g.other))
    far = name_patches.as_far(own, other, seed=1)
    for a, b, c in zip(own, other, far, strict=True):
        torch.testing.assert_close((c - a).norm(dim=-1), (b - a).norm(dim=-1))
    size = name_patches.sizes(shipped, [g])
    step = (other[2] - own[2])[:, 4] @ shipped.head_weights(Head(2, 4)).W_O
    assert size[2, 4].item() == pytest.approx(step.norm(dim=-1).mean().item(), rel=1e-4)


def test_swapping_needs_names_of_one_token(stories):
    (group,) = name_prompts.story_prompts(stories, False, n=4)
    broken = group._replace(s1_at=0)
    with pytest.raises(ValueError, match="it has to be there twice"):
        name_patches.swapped_roles(broken)


def test_all_of_it_runs_on_a_tiny_gpt2_and_a_tiny_llama(shipped, monkeypatch):
    """`make data WHAT=pretrained`, on random models with the vocabulary of the shipped one."""
    monkeypatch.setattr(part_results, "passages", lambda seed: part_prompts.passages(6, seed))
    size = SIZE | dict(vocab_size=4096, max_position_embeddings=128)
    torch.manual_seed(0)
    kinds = (
        transformers.GPT2LMHeadModel(transformers.GPT2Config(**size)),
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**size, intermediate_size=40)),
    )
    anyone = name_movers.Roles([Head(0, 0)], [Head(1, 1)], [Head(1, 0)], [Head(0, 1)], [], [], [])
    monkeypatch.setattr(name_results, "roles_of", lambda *_: anyone)
    monkeypatch.setattr(name_results, "_others", lambda *_: [[Head(1, 1)]])
    for hf in kinds:
        model = PretrainedTransformer(hf.requires_grad_(False), shipped.tokenizer)
        found = part_results.pretrained(model)
        assert found["passages"] == 6 and len(found["norms"]["ln1"]) == 2
        assert found["names"]["prompts"] == 96 and len(found["names"]["measured"]) == 4
        assert (
            found["names"]["tested"] == 48 == len(found["names"]["patched"]["movers"]["same names"])
        )
        assert {"lead without others", "against grows"} <= found["names"].keys()
        assert len(found["names"]["received"]["roles swapped"]["tells"]) == 48
        assert found["names"]["told, held"].keys() == {"none", "suppress", "movers", "both"}
        assert max(row["bare"] for row in found["norms"]["ln2"]) < 0.01
        assert isinstance(model.final_norm(), nn.Module)


# ---- the exercises ----


STEM = "Returns True if there is a negative cycle"
START = "Mila Toren lived near the river with two friends. Then Mila Toren met Deko Balis. "
TWICE = "Mila Toren met Deko Balis. Deko Balis lived near the river. Deko Balis was happy. "
MILA, DEKO, GAVE = "Mila Toren", "Deko Balis", " gave a red kite to"
ANSWERS = [
    ("22.1", (STEM + " anywhere", STEM + " node"), "solved"),
    ("22.1", "one text alone", "not yet"),
    ("22.1", (STEM, 7), "not yet"),
    ("22.1", (STEM + " anywhere", "Another text about a node"), "not yet"),
    ("22.1", (STEM + " x", STEM + " node"), "not yet"),
    ("22.1", ("word " * 200 + "anywhere", "word " * 200 + "node"), "not yet"),
    ("22.1", (STEM + " node", STEM + " anywhere"), "not yet"),
    ("22.1", ..., "not attempted"),
    ("22.2", lambda gain, bias, W, b: (gain[:, None] * W, b + bias @ W), "solved"),
    ("22.2", lambda gain, bias, W, b: (gain[:, None] * W, b), "not yet"),
    ("22.2", lambda gain, bias, W, b: (W * gain, b + bias), "not yet"),
    ("22.2", lambda gain, bias, W, b: (W.T, b), "not yet"),
    ("22.2", lambda *parts: 3, "not yet"),
    ("22.2", lambda *parts: None, "not attempted"),
    ("22.3", (TWICE + MILA + GAVE, MILA, DEKO), "solved"),
    ("22.3", (START + MILA + GAVE, MILA, DEKO), "not yet"),
    ("22.3", (START + DEKO + GAVE, MILA, DEKO), "not yet"),
    ("22.3", (START + DEKO + GAVE, DEKO, MILA), "not yet"),
    ("22.3", (START + MILA + " gave a red kite", MILA, DEKO), "not yet"),
    ("22.3", "a text", "not yet"),
    ("22.3", ..., "not attempted"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(shipped, stories, verdict, number, answer, expected):
    given = {"22.1": {"model": shipped, "neuron": (3, 332)}, "22.3": {"model": stories}}
    assert verdict(number, answer, **given.get(number, {})) == expected


def test_figures_can_be_read_and_words_are_those_that_move(shipped):
    x = part_prompts.read_ends(shipped, ["Return the graph", "and so on"]).ln1[2]
    norm, words = shipped.attention_norm(2), part_prompts.function_words(shipped.tokenizer)
    before, after = (lens(shipped, v).softmax(dim=-1).mean(dim=0) for v in (x, norm(x)))
    rows = norm_words.moved(shipped, before, after, words, n=3)
    assert [len(each) for each in rows.values()] == [3, 3]
    token, was, now, _ = rows["fall most"][0]
    worst = (after - before).argmin()
    assert token == shipped.tokenizer.token_strings([int(worst)])[0] and was > now
    drawings = part_drawings
    check_figures(
        drawings.circuit({"movers": ["L1H2"] * 5}, "five movers", "not tested"),
        drawings.words_moved(rows, "words"),
        drawings.lit(torch.rand(2, 5), ["a", "b"], "lit", marked=["a"]),
        drawings.by_layer({"one": {"x": [1, 2]}}, "by layer", "left", line=1),
        drawings.costs({"ours": {"zero": 1, "mean": 0.2}}, "costs", "nats"),
        drawings.patches({"away": 0.5, "far": 0.0}, {"away": [0.1]}, "patches"),
        drawings.long_and_flat(torch.rand(9), torch.rand(9), 3, "long and flat"),
        drawings.weights(torch.randn(9), "weights"),
        drawings.against_reading(torch.rand(2, 2), torch.rand(2, 2), ["L1H0"], "reading"),
    )
