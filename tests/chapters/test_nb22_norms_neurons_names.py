"""Notebook 22: norms in words, neurons that are always on, names; two derivations each."""

import json
from functools import partial

import pytest
import torch

import tiny_models
from aot_helpers.base.results import rounded
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.pretrained import load_pretrained
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate, patch_heads
from aot_helpers.reading.logit_lens import lens
from aot_helpers.reading.paths import direct_logit_attribution
from chapters.names import name_movers, patches, templates
from chapters.names import results as name_results
from chapters.nb22_norms_neurons_names import always_on, erasing, figures, norms, results, texts
from figure_checks import check_figures

tiny = partial(tiny_models.tiny, vocab_size=30, max_position_embeddings=20)


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
    gains = [norms.norm_at(model, 1, site).weight.clone() for site in norms.SITES]
    with norms.folded(model, [0, 1]):
        torch.testing.assert_close(model(tokens), before, atol=1e-4, rtol=0)
        for site in norms.SITES:
            norm = norms.norm_at(model, 1, site)
            assert norm.weight.eq(1).all()
            x = torch.randn(5, 16)
            torch.testing.assert_close(norm(x), norms.normalized(norm, x))
    for site, gain in zip(norms.SITES, gains, strict=True):
        assert torch.equal(norms.norm_at(model, 1, site).weight, gain)
    assert torch.equal(model(tokens), before)


@both
def test_a_norm_whose_gain_is_even_changes_no_reading(family):
    model, x = tiny(family), 5 * torch.randn(6, 16)
    norm = norms.norm_at(model, 0, "ln1")
    assert norms.change(model, norm, x).largest > 0.01
    for part in (norms.plain, norms.even):
        with part(norm):
            assert norms.change(model, norm, x).largest < 1e-4
    with pytest.raises(RuntimeError), norms.plain(norm):
        raise RuntimeError  # the gain comes back all the same
    assert norms.change(model, norm, x).largest > 0.01


def test_the_change_of_a_norm_is_the_difference_of_two_lenses():
    model, x = tiny("gpt2"), torch.randn(6, 16)
    norm, words = norms.norm_at(model, 1, "ln2"), torch.arange(30) < 7
    found = norms.change(model, norm, x)
    before, after = (lens(model, v).softmax(dim=-1).mean(dim=0) for v in (x, norm(x)))
    torch.testing.assert_close(found.difference, after - before)
    assert found.kept(words) == pytest.approx((after[:7].sum() / before[:7].sum()).item())
    assert found.falls(1)[0] == found.difference.argmin()
    assert found.rises(1)[0] == found.difference.argmax()


def test_made_up_vectors_have_the_length_or_the_mean_and_covariance():
    x = torch.randn(400, 5) @ torch.randn(5, 5) + 3
    random, alike = norms.isotropic(x), norms.alike(x.repeat(20, 1))
    torch.testing.assert_close(random.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(alike.mean(dim=0), x.mean(dim=0), atol=0.2, rtol=0)
    torch.testing.assert_close(alike.T.cov(), x.T.cov(), atol=0.5, rtol=0.2)


@both
def test_edits_undo_the_uneven_gain_along_one_direction_or_are_as_long(family, tokens):
    model, words = tiny(family), torch.arange(30) < 7
    toward = norms.words_direction(model, words)
    assert toward.norm() == pytest.approx(1)
    norm, resid = norms.norm_at(model, 1, "ln1"), model.run_with_cache(tokens)[1]["L1.resid_pre"]
    even = norms.normalized(norm, resid) * norm.weight.mean()

    def read(edits):
        return model.run_with_cache(tokens, edits=edits)[1]["L1.ln1_out"]

    now = read(norms.words_put_back(model, 1, toward, toward))
    torch.testing.assert_close(now @ toward, even @ toward, atol=1e-4, rtol=0)
    across = norm(resid) - now
    torch.testing.assert_close(across, (across @ toward)[..., None] * toward, atol=1e-4, rtol=0)
    length = (read(norms.evened_as_far(model, 1)) - norm(resid)).norm(dim=-1)
    torch.testing.assert_close(length, (even - norm(resid)).norm(dim=-1), rtol=1e-3, atol=1e-4)


def test_a_norm_is_taken_apart_and_vectors_are_read_one_by_one():
    model, x = tiny("gpt2"), torch.randn(6, 16)
    norm, words = norms.norm_at(model, 0, "ln1"), torch.arange(30) < 7
    bare = norms.normalized(norm, x)
    for part, by_hand in (
        (norms.gain_only, bare * norm.weight),
        (norms.bias_only, bare + norm.bias),
        (norms.even, bare * norm.weight.mean()),
    ):
        with part(norm):
            torch.testing.assert_close(norm(x), by_hand)
    alike, kept = norms.one_by_one(model, norm, x, words)
    one, rest = (norms.change(model, norm, x[at]) for at in ([2], [0, 1, 3, 4, 5]))
    assert kept[2].item() == pytest.approx(one.kept(words), rel=1e-4)
    by_hand = norms.correlation(one.difference, rest.difference)
    assert alike[2].item() == pytest.approx(by_hand, abs=1e-3)


def test_a_model_without_norms_or_another_family_is_named(make_model):
    with pytest.raises(ValueError, match="no norms: load one with them, such as docstrings-gpt2"):
        norms.norm_at(make_model(layer_norm=False), 0, "ln1")
    with pytest.raises(ValueError, match="family 'ours': take gpt2 or llama"):
        norms.folded(make_model(), [0]).__enter__()


# ---- neurons ----


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


def test_words_are_compared_with_others_as_likely():
    before = torch.tensor([0.4, 0.2, 0.21, 0.01, 0.38])
    after = torch.tensor([0.2, 0.2, 0.105, 0.01, 0.19])
    change = norms.Change(before, after, 0.0)
    words = torch.tensor([True, True, False, False, False])
    kept, others = norms.as_probable(change, words)
    assert kept == pytest.approx(0.4 / 0.6) and others == pytest.approx(0.295 / 0.59)


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


# ---- prompts and costs ----


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


# ---- names ----


def test_prompts_stand_where_they_say(shipped):
    groups = templates.name_prompts(shipped, templates.SCHOLARS, n=2)
    assert len(groups) == 2 * len(templates.TEMPLATES)
    for g in groups:
        assert torch.equal(g.tokens[:, g.io_at], g.io)
        assert torch.equal(g.tokens[:, g.s1_at], g.s) and torch.equal(g.tokens[:, g.s2_at], g.s)
        differs = (g.tokens != g.other).any(dim=0).nonzero()[:, 0].tolist()
        assert differs == sorted({g.io_at, g.s1_at, g.s2_at})
        assert not torch.isin(g.other, torch.cat([g.io, g.s])).any() or len(g.io) > 1
    assert {g.io_at < g.s1_at for g in groups} == {True, False}


def test_attribution_agrees_with_the_cores(stories):
    groups = templates.story_prompts(stories, False, n=6)
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
    groups = templates.story_prompts(stories, False, n=6)
    table, head = name_movers.head_table(stories, groups), Head(1, 2)

    def fall(edits_of):
        after = name_movers.logit_differences(stories, groups, edits_of)
        return (table.difference - after).mean().item()

    removed = fall(lambda g: ablate(stories, [head]))
    assert removed == pytest.approx(table.direct[head].item(), abs=1e-4)
    replaced = fall(lambda g: patch_heads(stories, g.other, [head]))
    estimate = name_movers.gradients(stories, groups)[head].item()
    assert estimate == pytest.approx(-replaced, abs=1e-4)  # linear from there on


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
    table = name_movers.HeadTable(direct, nothing, *rest)
    found = name_movers.roles(table, estimate)
    assert found.movers == [Head(1, 0)] and found.negative == [Head(1, 1)]
    assert found.suppress == [Head(1, 2)]
    assert found.s_inhibition == [Head(0, 1)] and found.duplicate == [Head(0, 2)]
    assert found.induction == [] == found.previous


def test_other_heads_are_the_nearest_in_size_and_leave_the_roles_out():
    size = torch.tensor([[9.0, 9.0, 9.0], [1.0, 5.0, 5.5], [4.0, 2.0, 1.2]])
    near = partial(patches.size_matched, [Head(1, 1)], size, [Head(1, 2)], first=1)
    assert near() == [Head(2, 0)] and near(draw=1) == [Head(2, 1)]
    two = patches.size_matched([Head(1, 0), Head(2, 2)], size, [], first=1)
    assert len({*two, Head(1, 0), Head(2, 2)}) == 4  # neither themselves nor one of them twice
    with pytest.raises(ValueError, match=r"only 4 other heads .*lower draw"):
        near(draw=9)


def test_patches_agree_with_the_library_and_with_a_run_on_the_swapped_prompt(shipped):
    kind = templates.single_names(shipped.tokenizer)
    shifted = templates.TEMPLATES[1:] + templates.TEMPLATES[:1]
    groups, elsewhere = (
        templates.name_prompts(shipped, kind, n=2, templates=each)
        for each in (templates.TEMPLATES, shifted)
    )
    sets = {"one": [Head(2, 1)], "two": [Head(3, 0), Head(1, 2)], "none": []}
    found = patches.patched(shipped, groups, elsewhere, sets)
    whole = name_movers.logit_differences(shipped, groups)
    for name, heads in sets.items():

        def by_library(g, heads=heads):
            return patch_heads(shipped, g.other, heads, [g.other.shape[1] - 1])

        after = name_movers.logit_differences(shipped, groups, by_library)
        torch.testing.assert_close(found[name]["other names"], after)
    for donor in patches.DONORS:
        torch.testing.assert_close(found["none"][donor], whole)
    swapped = patches.swapped_roles(groups[0])
    text = shipped.tokenizer.decode(swapped[0])
    assert text.count(shipped.tokenizer.decode(groups[0].io[:1]).strip()) == 2  # who came once
    with pytest.raises(ValueError, match="it has to be there twice"):
        patches.swapped_roles(groups[0]._replace(s1_at=0))
    with pytest.raises(ValueError, match="give both the same seed"):
        patches.patched(shipped, groups, groups[::-1], sets)


def test_heads_that_are_held_pass_nothing_on(shipped):
    kind = templates.single_names(shipped.tokenizer)
    (g, *_) = templates.name_prompts(shipped, kind, n=3)
    last = [Head(3, h) for h in range(6)]
    found = patches.held(shipped, [g], last, {"none": [], "all": last})
    sets, ways = {"last": last}, ("roles swapped",)
    swapped = patches.patched(shipped, [g], [g], sets, ways)["last"]
    torch.testing.assert_close(found["none"], swapped["roles swapped"])
    torch.testing.assert_close(found["all"], found["none"])  # who is swapped cannot be held
    before = [Head(2, h) for h in range(6)]
    held = patches.held(shipped, [g], before, {"all": last})["all"]
    whole = name_movers.logit_differences(shipped, [g])
    assert not torch.allclose(held, whole)  # the MLPs of layers 2 and 3 still read it


def test_the_share_of_sigma_is_nothing_without_a_norm(shipped, stories):
    def edits_of(model):
        return lambda g: patch_heads(model, g.other, [Head(1, 2)])

    (g,) = templates.story_prompts(stories, False, n=4)
    assert name_movers.change_by_sigma(stories, [g], edits_of(stories)) == 0
    (g, *_) = templates.name_prompts(shipped, templates.single_names(shipped.tokenizer), n=2)
    streams = [
        shipped.run_with_cache(g.tokens, edits=edits)[1]["final_resid"][:, -1]
        for edits in (None, edits_of(shipped)(g))
    ]
    sigma = [x.var(dim=-1, unbiased=False).sqrt() for x in streams]
    norm, toward = shipped.final_norm(), shipped.W_U.T[g.io] - shipped.W_U.T[g.s]
    after = ((norm(streams[1]) - norm.bias) * toward).sum(dim=-1)
    by_hand = (after * (1 - sigma[1] / sigma[0])).mean().item()
    found = name_movers.change_by_sigma(shipped, [g], edits_of(shipped))
    assert found == pytest.approx(by_hand, abs=1e-3)


def test_a_change_at_random_is_as_long_and_sizes_are_lengths_of_changes(shipped):
    kind = templates.single_names(shipped.tokenizer)
    (g, *_) = templates.name_prompts(shipped, kind, n=3)
    own, other = (patches.end_outputs(shipped, tokens) for tokens in (g.tokens, g.other))
    far = patches.as_far(own, other, seed=1)
    for a, b, c in zip(own, other, far, strict=True):
        torch.testing.assert_close((c - a).norm(dim=-1), (b - a).norm(dim=-1))
    size = patches.sizes(shipped, [g])
    step = (other[2] - own[2])[:, 4] @ shipped.head_weights(Head(2, 4)).W_O
    assert size[2, 4].item() == pytest.approx(step.norm(dim=-1).mean().item(), rel=1e-4)


def test_all_of_it_is_measured_kept_and_read(shipped, monkeypatch):
    """`make data WHAT=pretrained`, on a random model with the vocabulary of the shipped one."""
    monkeypatch.setattr(results, "passages", lambda seed: texts.passages(6, seed))
    size = dict(vocab_size=4096, max_position_embeddings=128, num_key_value_heads=2)
    model = tiny("llama", shipped.tokenizer, noise=0, **size)
    some = name_movers.Roles([Head(0, 0)], [Head(1, 1)], [Head(1, 0)], [Head(0, 1)], [], [], [])
    monkeypatch.setattr(name_results, "roles", lambda *_: some)
    monkeypatch.setattr(name_results, "size_matched", lambda *_: [Head(1, 1)])
    kept = json.loads(json.dumps(results.pretrained(model)))
    found = results.parsed(kept)
    assert rounded(name_results.plain(found)) == kept
    assert found.passages == 6 and len(found.norms.ln1) == 2
    assert max(row.bare for row in found.norms.ln2) < 0.01
    names = found.names
    assert len(names.difference) == 96 == 2 * len(names.table.difference)
    fall = names.table.difference.mean() - names.patched["movers"]["other names"].mean()
    assert names.repair.fall == pytest.approx(fall.item(), abs=1e-3)


# ---- the exercises ----


STEM = "Returns True if there is a negative cycle"
START = "Mila Toren lived near the river with two friends. Then Mila Toren met Deko Balis. "
TWICE = "Mila Toren met Deko Balis. Deko Balis lived near the river. Deko Balis was happy. "
MILA, DEKO, GAVE = "Mila Toren", "Deko Balis", " gave a red kite to"
ANSWERS = [
    ("22.1", (STEM + " anywhere", STEM + " node"), "solved"),
    ("22.1", "one text alone", "not yet"),
    ("22.1", (STEM + " x", STEM + " node"), "not yet"),
    ("22.1", (STEM + " node", STEM + " anywhere"), "not yet"),
    ("22.2", lambda gain, bias, W, b: (gain[:, None] * W, b + bias @ W), "solved"),
    ("22.2", lambda gain, bias, W, b: (gain[:, None] * W, b), "not yet"),
    ("22.2", lambda gain, bias, W, b: (W.T, b), "not yet"),
    ("22.2", lambda *parts: None, "not attempted"),
    ("22.3", (TWICE + MILA + GAVE, MILA, DEKO), "solved"),
    ("22.3", (START + MILA + GAVE, MILA, DEKO), "not yet"),
    ("22.3", (START + DEKO + GAVE, MILA, DEKO), "not yet"),
    ("22.3", "a text", "not yet"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(shipped, stories, verdict, number, answer, expected):
    given = {"22.1": {"model": shipped, "neuron": (3, 332)}, "22.3": {"model": stories}}
    assert verdict(number, answer, **given.get(number, {})) == expected


def test_figures_can_be_read_and_words_are_those_that_move(shipped):
    x = texts.read_ends(shipped, ["Return the graph", "and so on"]).ln1[2]
    norm, words = shipped.attention_norm(2), texts.function_words(shipped.tokenizer)
    before, after = (lens(shipped, v).softmax(dim=-1).mean(dim=0) for v in (x, norm(x)))
    rows = norms.moved(shipped, before, after, words, n=3)
    assert [len(each) for each in rows.values()] == [3, 3]
    token, was, now, _ = rows["fall most"][0]
    worst = (after - before).argmin()
    assert token == shipped.tokenizer.token_strings([int(worst)])[0] and was > now
    check_figures(
        figures.circuit({"movers": ["L1H2"] * 5}, "five movers", "not tested"),
        figures.words_moved(rows, "words"),
        figures.active_neurons(torch.rand(2, 5), ["a", "b"], "active", marked=["a"]),
        figures.patches({"away": {"patched": 0.5, "others": [0.1, 0.2]}}, "patches"),
        figures.against_reading(
            torch.tensor([[0.3, -0.2]]), torch.rand(1, 2), ["L0H0", "L0H1"], "reading"
        ),
    )


# ---- what erases ----


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
