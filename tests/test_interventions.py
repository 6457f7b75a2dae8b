import itertools

import pytest
import torch
from torch import nn

from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import (
    ablate,
    cut_path,
    cut_paths,
    freeze_patterns,
    merge,
    patch_heads,
    patch_stream,
)

close = torch.testing.assert_close
EXACT = dict(layer_norm=False, positions="relative")
LAST_LAYER = ["L2.q", "L2.k", "L2.v"]


@pytest.fixture(autouse=True)
def no_gradients():
    torch.set_grad_enabled(False)
    yield
    torch.set_grad_enabled(True)


@pytest.fixture
def other_tokens():
    """[3, 7] token ids of the tiny model, not those of some_tokens."""
    return torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(9))


def z_of(model, tokens, layer, edits=None):
    """One layer's z."""
    return model.run_with_cache(tokens, edits=edits)[1][f"L{layer}.z"]


def differ(a, b):
    return not torch.allclose(a, b, atol=1e-3)


def test_merge_composes_in_the_order_given():
    first = {"a": lambda x: x + 1, "b": torch.tensor(5.0), "c": lambda x: x}
    second = {"a": lambda x: x * 10, "b": lambda x: x - 1, "c": torch.tensor(7.0)}
    edits = merge(first, second, {"d": lambda x: -x})
    x = torch.tensor(2.0)
    found = {name: edit(x).item() for name, edit in edits.items()}
    assert found == {"a": 30.0, "b": 4.0, "c": 7.0, "d": -2.0}
    assert merge(second, first)["a"](x) == 21.0
    assert merge() == {} == merge({})


def test_zero_heads_equals_a_model_without_their_output(make_model, some_tokens):
    model, cut = make_model(n_heads=3), make_model(n_heads=3)
    heads = [Head(0, 2), Head(1, 0), Head(1, 1)]
    for layer, head in heads:
        cut.blocks[layer].attn.W_O[head] = 0
    edited = model(some_tokens, edits=ablate(model, heads))
    close(edited, cut(some_tokens))
    assert differ(edited, model(some_tokens))
    assert ablate(model, []) == {}


@pytest.mark.parametrize("head", [Head(2, 0), Head(0, 2), Head(-1, 0), Head(0, -1)])
def test_a_head_that_does_not_exist_is_named(make_model, some_tokens, head):
    model = make_model(layer_norm=False)
    message = f"{head}.* 2 layers of 2 heads"
    for attempt in (
        lambda: ablate(model, [Head(0, 0), head]),
        lambda: ablate(model, [head], "mean", some_tokens),
        lambda: patch_heads(model, some_tokens, [head]),
        lambda: cut_path(model, some_tokens, Head(0, 0), head, "Q"),
        lambda: cut_path(model, some_tokens, head, Head(1, 0), "Q"),
    ):
        with pytest.raises(ValueError, match=message):
            attempt()


def test_mean_ablation_puts_the_mean_of_the_reference(make_model, some_tokens, other_tokens):
    model = make_model(n_layers=1, n_heads=3, **EXACT)
    heads = [Head(0, 0), Head(0, 2)]
    edited = z_of(model, some_tokens, 0, ablate(model, heads, "mean", other_tokens[:2, :5]))
    clean, reference = z_of(model, some_tokens, 0), z_of(model, other_tokens[:2, :5], 0)
    close(edited[:, :, 1], clean[:, :, 1])
    for head in (0, 2):
        mean = sum(reference[b, p, head] for b in range(2) for p in range(5)) / 10
        close(edited[:, :, head], mean.expand(3, 7, -1))


def test_resampling_takes_each_row_from_the_same_row_elsewhere(
    make_model, some_tokens, other_tokens
):
    model = make_model(n_layers=1, n_heads=3, **EXACT)
    edited = z_of(model, some_tokens, 0, ablate(model, [Head(0, 1)], "resample", other_tokens))
    clean, other = z_of(model, some_tokens, 0), z_of(model, other_tokens, 0)
    for row in range(3):
        alone = z_of(model, other_tokens[row : row + 1], 0)[0]
        close(edited[row, :, 1], alone[:, 1])
    close(edited[:, :, [0, 2]], clean[:, :, [0, 2]])
    assert differ(other[:, :, 1], clean[:, :, 1])
    run = model.run_with_cache(other_tokens)[1]  # which may stand for the tokens
    close(z_of(model, some_tokens, 0, ablate(model, [Head(0, 1)], "resample", run)), edited)


def test_patching_everything_gives_the_sources_logits(make_model, some_tokens, other_tokens):
    model = make_model(**EXACT)
    source = model(other_tokens)
    assert differ(source, model(some_tokens))
    for name in ("embed", "L0.resid_pre", "L1.resid_pre", "final_resid"):
        edits = patch_stream(model, other_tokens, name)
        close(model(some_tokens, edits=edits), source)
    every_head = list(itertools.starmap(Head, itertools.product(range(2), range(2))))
    embed = patch_stream(model, other_tokens, "embed")
    # All heads and the embedding are all that the logits are made of.
    shift = (model.W_E[other_tokens] - model.W_E[some_tokens]) @ model.W_U
    heads = patch_heads(model, other_tokens, every_head)
    close(model(some_tokens, edits=heads) + shift, source)
    close(model(some_tokens, edits=merge(embed, heads)), source)


def test_a_patch_touches_the_named_heads_and_positions_only(make_model, some_tokens, other_tokens):
    model = make_model(n_layers=1, n_heads=3, **EXACT)
    clean, source = z_of(model, some_tokens, 0), z_of(model, other_tokens, 0)
    edited = z_of(model, some_tokens, 0, patch_heads(model, other_tokens, [Head(0, 2)], [1, 5]))
    for position, head in itertools.product(range(7), range(3)):
        expected = source if head == 2 and position in (1, 5) else clean
        close(edited[:, position, head], expected[:, position, head])
    edits = patch_stream(model, other_tokens, "final_resid", [0, 6])
    edited = model(some_tokens, edits=edits)
    close(edited[:, [0, 6]], model(other_tokens)[:, [0, 6]])
    close(edited[:, 1:6], model(some_tokens)[:, 1:6])
    assert not any(name == "L0.z" for name in patch_heads(model, other_tokens, []))


@pytest.mark.parametrize("positions", ["relative", "standard", "shortformer"])
def test_a_reader_whose_paths_are_all_cut_sees_only_the_embedding(
    make_model, some_tokens, positions
):
    model = make_model(n_layers=3, layer_norm=False, positions=positions)
    writers = list(itertools.starmap(Head, itertools.product(range(2), range(2))))
    cuts = [cut_path(model, some_tokens, w, Head(2, 1), route) for w in writers for route in "QKV"]
    _, clean = model.run_with_cache(some_tokens)
    _, cut = model.run_with_cache(some_tokens, edits=merge(*cuts))
    seen = model.W_E[some_tokens]
    if positions == "standard":
        seen = seen + model.W_pos[:7]
    seen_qk = seen + model.W_pos[:7] if positions == "shortformer" else seen
    attn = model.blocks[2].attn
    alone = {"L2.q": seen_qk @ attn.W_Q[1], "L2.k": seen_qk @ attn.W_K[1]}
    alone["L2.v"] = seen @ attn.W_V[1]
    for name in LAST_LAYER:
        close(cut[name][:, :, 1], alone[name])
        assert differ(cut[name][:, :, 1], clean[name][:, :, 1])
        close(cut[name][:, :, 0], clean[name][:, :, 0])
    for name in ("L0.z", "L1.z", "L2.resid_pre"):
        close(cut[name], clean[name])


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("replace", ["zero", "mean"])
def test_several_cuts_take_off_what_each_takes(make_model, some_tokens, layer_norm, replace):
    model = make_model(n_layers=3, n_heads=3, layer_norm=layer_norm, d_mlp=5)
    readers = [Head(1, 0), Head(1, 2), Head(2, 1)]
    paths = [(Head(0, w), reader, "K") for w in (0, 2) for reader in readers]
    paths += [(Head(0, 1), Head(2, 1), "Q"), (Head(1, 1), Head(2, 1), "V"), (*readers[1:], "V")]
    cuts = [cut_path(model, some_tokens, *path, replace) for path in paths]
    together, lower = merge(*cuts), merge(*(cut for cut in cuts if "L1.k" in cut))
    assert set(together) == {"L1.k", "L2.q", "L2.k", "L2.v"}
    at_once = cut_paths(model, some_tokens, [*paths, paths[0]], replace)  # one is given twice
    assert cut_paths(model, some_tokens, []) == {}
    same = model(some_tokens, edits=together)
    close(model(some_tokens, edits=at_once), same)

    def run(edits):
        return model.run_with_cache(some_tokens, edits=edits)[1]

    clean, before, found = run({}), run(lower), run(together)
    for name in together:
        lost = sum(clean[name] - run(cut)[name] for cut in cuts if name in cut)
        start = clean if name == "L1.k" else before
        close(found[name], start[name] - lost)
        assert differ(found[name], start[name])


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_through_a_norm_the_reader_loses_what_the_frozen_norm_makes_of_the_writer(
    make_model, some_tokens, norm
):
    model = make_model(n_layers=2, positions="relative")
    if norm is nn.RMSNorm:
        model.blocks[1].ln1, old = nn.RMSNorm(8), model.blocks[1].ln1
        model.blocks[1].ln1.weight.data = old.weight.data
    paths = [(Head(0, head), Head(1, 1), route) for head in range(2) for route in "QKV"]
    cuts = [cut_path(model, some_tokens, *path) for path in paths]
    _, clean = model.run_with_cache(some_tokens)
    _, cut = model.run_with_cache(some_tokens, edits=merge(*cuts))
    resid, ln1 = clean["L1.resid_pre"], model.blocks[1].ln1
    center = resid.mean(dim=-1, keepdim=True) if norm is nn.LayerNorm else 0
    sigma = ((resid - center).square().mean(dim=-1, keepdim=True) + (ln1.eps or 0)).sqrt()
    alone = clean["embed"]  # all that is left of the stream
    alone = alone - alone.mean(dim=-1, keepdim=True) if norm is nn.LayerNorm else alone
    read = alone / sigma * ln1.weight + getattr(ln1, "bias", 0)
    for name, W in zip("qkv", model.head_weights(Head(1, 1)), strict=False):
        close(cut[f"L1.{name}"][:, :, 1], read @ W, atol=1e-4, rtol=1e-4)
        close(cut[f"L1.{name}"][:, :, 0], clean[f"L1.{name}"][:, :, 0])


@pytest.mark.parametrize("smeared_keys", [False, True])
@pytest.mark.parametrize("route", ["Q", "K", "V"])
def test_one_cut_is_what_the_reader_would_read_had_the_writer_been_silent(
    make_model, some_tokens, route, smeared_keys
):
    model = make_model(n_layers=2, smeared_keys=smeared_keys, **EXACT)
    edits = cut_path(model, some_tokens, Head(0, 1), Head(1, 0), route)
    _, clean = model.run_with_cache(some_tokens)
    _, silent = model.run_with_cache(some_tokens, edits=ablate(model, [Head(0, 1)]))
    _, cut = model.run_with_cache(some_tokens, edits=edits)
    for name in ("L1.q", "L1.k", "L1.v"):
        expected = clean[name].clone()
        if name[-1] == route.lower():
            expected[:, :, 0] = silent[name][:, :, 0]
        close(cut[name], expected)
    assert differ(silent[f"L1.{route.lower()}"], clean[f"L1.{route.lower()}"])


def test_all_cuts_of_a_writer_leave_it_only_its_direct_path(make_model, some_tokens):
    model = make_model(n_layers=2, **EXACT)
    writer, readers = Head(0, 0), [Head(1, 0), Head(1, 1)]
    cuts = [cut_path(model, some_tokens, writer, reader, r) for reader in readers for r in "QKV"]
    direct = z_of(model, some_tokens, 0)[:, :, 0] @ model.blocks[0].attn.W_O[0] @ model.W_U
    silent = model(some_tokens, edits=ablate(model, [writer]))
    cut = model(some_tokens, edits=merge(*cuts))
    close(cut, silent + direct)


def test_a_cut_can_put_the_mean_in_its_place(make_model, some_tokens):
    model = make_model(n_layers=2, **EXACT)
    edits = cut_path(model, some_tokens, Head(0, 1), Head(1, 0), "K", replace="mean")
    mean = ablate(model, [Head(0, 1)], "mean", some_tokens)
    _, cut = model.run_with_cache(some_tokens, edits=edits)
    _, averaged = model.run_with_cache(some_tokens, edits=mean)
    close(cut["L1.k"][:, :, 0], averaged["L1.k"][:, :, 0])
    zero = cut_path(model, some_tokens, Head(0, 1), Head(1, 0), "K")
    _, removed = model.run_with_cache(some_tokens, edits=zero)
    assert differ(removed["L1.k"], cut["L1.k"])


def test_with_frozen_patterns_the_logits_are_linear_in_the_embedding(make_model, some_tokens):
    model = make_model(n_layers=3, **EXACT)
    frozen = freeze_patterns(model, some_tokens)
    a, b = torch.randn(2, 3, 7, 8, generator=torch.Generator().manual_seed(0))

    def logits(embed, edits):
        return model(some_tokens, edits={"embed": embed, **edits})

    close(logits(a + b, frozen), logits(a, frozen) + logits(b, frozen))
    assert differ(logits(a + b, {}), logits(a, {}) + logits(b, {}))
    close(model(some_tokens, edits=frozen), model(some_tokens))


def test_frozen_patterns_are_those_of_the_run_they_come_from(make_model, some_tokens, other_tokens):
    model = make_model(layer_norm=True)
    frozen = freeze_patterns(model, other_tokens)
    _, cache = model.run_with_cache(some_tokens, edits=frozen)
    _, source = model.run_with_cache(other_tokens)
    for name in ("L0.pattern", "L1.pattern"):
        close(cache[name], source[name])
    assert freeze_patterns(make_model(n_layers=0), some_tokens) == {}


def test_edits_that_make_no_sense_are_refused(linear, some_tokens):
    model, early, late = linear(), Head(0, 0), Head(1, 1)
    for attempt, said in (
        (lambda: ablate(model, [early], "mean"), "'mean' .* give reference"),
        (lambda: ablate(model, [early], "resample"), "'resample' .* give reference"),
        (lambda: ablate(model, [early], "random"), "'random'.*mean, resample, zero"),
        (lambda: patch_heads(model, some_tokens, [early], [1, 7]), "position .*0 to 6, got 7"),
        (lambda: patch_stream(model, some_tokens, "embed", [-1]), "position .*0 to 6, got -1"),
        (lambda: patch_stream(model, some_tokens, "L2.resid_pre"), "'L2.resid_pre'.*L1.resid_pre"),
        (lambda: patch_stream(model, some_tokens, "L1.pattern"), "'L1.pattern'.*resid_pre"),
        (lambda: cut_path(model, some_tokens, early, late, "q"), "'q'.*K, Q, V"),
        (lambda: cut_path(model, some_tokens, early, late, "Q", "resample"), "'resample'.*mean"),
        (lambda: cut_path(model, some_tokens, Head(1, 0), late, "Q"), "L1H0 .*L1H1 .*before"),
        (lambda: cut_path(model, some_tokens, late, early, "V"), "L1H1 .*L0H0 .*before"),
    ):
        with pytest.raises(ValueError, match=said):
            attempt()


def test_an_edit_or_a_reference_of_another_model_is_named(linear, some_tokens):
    model, other = linear(), linear(n_heads=3)
    _, cache = other.run_with_cache(some_tokens)
    for attempt, said in (
        (lambda: model(some_tokens, edits=ablate(other, [Head(0, 1)])), "for this model"),
        (lambda: ablate(model, [Head(0, 1)], "mean", cache), "L0.z of the reference .*this model"),
        (lambda: ablate(model, [Head(1, 1)], "mean", {"L0.z": cache["L0.z"]}), "L1.z .*whole run"),
    ):
        with pytest.raises(ValueError, match=said):
            attempt()


@pytest.mark.parametrize(
    "make",
    [
        lambda model, tokens: ablate(model, [Head(0, 0)], "resample", tokens),
        lambda model, tokens: patch_heads(model, tokens, [Head(0, 0)]),
        lambda model, tokens: patch_stream(model, tokens, "L1.resid_pre"),
        lambda model, tokens: cut_path(model, tokens, Head(0, 0), Head(1, 1), "Q"),
        freeze_patterns,
    ],
)
def test_an_edit_made_on_other_tokens_says_both_shapes(linear, some_tokens, make):
    model = linear()
    with pytest.raises(ValueError, match=r"\(1, .*got \(3, .*same batch size and length"):
        model(some_tokens, edits=make(model, some_tokens[:1]))


def test_merged_ablations_are_the_ablation_of_all(make_model, some_tokens):
    model = make_model(n_heads=3)
    parts = merge(ablate(model, [Head(0, 1)]), ablate(model, [Head(0, 2), Head(1, 0)]))
    whole = ablate(model, [Head(0, 1), Head(0, 2), Head(1, 0)])
    close(model(some_tokens, edits=parts), model(some_tokens, edits=whole))
