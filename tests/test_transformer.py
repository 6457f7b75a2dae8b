import inspect
import math

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import TypeCheckError

from aot_helpers.models.protocol import Head, all_heads
from aot_helpers.models.sampling import generate
from aot_helpers.models.transformer import (
    POSITIONS,
    ModelConfig,
    masked_softmax,
    sinusoids,
)
from aot_helpers.text.tokenization import characters
from gpt2_class import to_gpt2

positions = pytest.mark.parametrize("positions", POSITIONS)
NAMES = {
    "embed", "pos_embed", "final_resid", "ln_final_out", "logits",
    *(f"L{i}.{name}" for i in (0, 1) for name in (
        "resid_pre", "ln1_out", "q", "k", "v", "scores", "pattern", "z", "attn_out",
        "mlp_hidden", "mlp_out",
    )),
}  # fmt: skip


def embeddings_of(model, tokens):
    return model.W_E.detach()[tokens].clone().requires_grad_()


def test_the_import_hook_checks_shapes(make_model):
    with pytest.raises(TypeCheckError):
        make_model()(torch.zeros(2, 3))  # floats are no token ids


# ---- against other implementations ----


@pytest.mark.parametrize("d_mlp", [0, 12])
@pytest.mark.parametrize("n_layers", [0, 1, 3])
def test_logits_equal_those_of_gpt2s_class(make_model, some_tokens, n_layers, d_mlp):
    model = make_model(positions="standard", n_layers=n_layers, d_mlp=d_mlp)
    with torch.no_grad():
        theirs = to_gpt2(model)(some_tokens).logits
        ours = model(some_tokens)
    assert (ours - theirs).abs().max() < 1e-5


def test_one_head_equals_scaled_dot_product_attention(make_model, some_tokens):
    model = make_model(n_layers=1, n_heads=1, positions="none", layer_norm=False)
    head, x = model.blocks[0].attn, model.W_E[some_tokens]
    q, k, v = (x @ W[0] for W in (head.W_Q, head.W_K, head.W_V))
    z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    _, cache = model.run_with_cache(some_tokens)
    assert (cache["L0.z"][:, :, 0] - z).abs().max() < 1e-6
    assert (cache["L0.attn_out"] - z @ head.W_O[0]).abs().max() < 1e-6


def test_layers_follow_the_equations_written_out_by_hand(make_model):
    model = make_model(n_layers=2, positions="shortformer", layer_norm=False, n_ctx=4)
    tokens = torch.tensor([[3, 5, 0]])
    x = model.W_E[tokens[0]]
    for layer in model.blocks:
        a, new = layer.attn, x.clone()
        for h in range(2):
            for query in range(3):
                q = (x[query] + model.W_pos[query]) @ a.W_Q[h]
                keys = [(x[j] + model.W_pos[j]) @ a.W_K[h] for j in range(query + 1)]
                weights = torch.stack([q @ k / math.sqrt(4) for k in keys]).softmax(0)
                for j, weight in enumerate(weights):
                    new[query] = new[query] + weight * (x[j] @ a.W_V[h] @ a.W_O[h])
        x = new
    torch.testing.assert_close(model(tokens)[0], x @ model.W_U, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("d_mlp", [0, 6])
@positions
def test_fused_path_equals_cached_and_masked_path(make_model, some_tokens, positions, d_mlp):
    model = make_model(positions=positions, d_mlp=d_mlp)
    fused = model(some_tokens)
    cached, _ = model.run_with_cache(some_tokens)
    masked = model(some_tokens, attention_mask=torch.ones_like(some_tokens, dtype=torch.bool))
    torch.testing.assert_close(fused, cached, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(cached, masked, atol=1e-6, rtol=1e-6)


def test_the_plain_path_never_stores_a_pattern(make_model, some_tokens, monkeypatch):
    model, calls = make_model(), []
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or fused(*a, **k)
    )
    model(some_tokens)
    assert len(calls) == model.config.n_layers
    model(some_tokens, edits={"L0.pattern": lambda pattern: pattern})
    assert len(calls) == 2 * model.config.n_layers - 1


# ---- causality and padding ----


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("d_mlp", [0, 6])
@pytest.mark.parametrize("path", ["plain", "cached", "masked"])
@positions
def test_no_gradient_from_the_future(make_model, some_tokens, positions, path, d_mlp, layer_norm):
    model = make_model(positions=positions, d_mlp=d_mlp, layer_norm=layer_norm)
    embed = embeddings_of(model, some_tokens)
    cache = {} if path == "cached" else None
    mask = torch.ones_like(some_tokens, dtype=torch.bool) if path == "masked" else None
    logits = model(some_tokens, mask, {"embed": embed}, cache)
    for t in range(some_tokens.shape[1]):
        (grad,) = torch.autograd.grad(logits[:, t].square().sum(), embed, retain_graph=True)
        assert (grad[:, t + 1 :] == 0).all()
        assert (grad[:, : t + 1].abs().amax(dim=(0, 2)) > 0).all()  # but all of the past is seen


@positions
def test_without_the_causal_mask_every_position_sees_all(make_model, some_tokens, positions):
    model = make_model(positions=positions, causal=False)
    embed = embeddings_of(model, some_tokens)
    logits = model(some_tokens, edits={"embed": embed})
    (grad,) = torch.autograd.grad(logits[:, 0].square().sum(), embed)
    assert (grad.abs().amax(dim=2) > 0).all()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("causal", [True, False])
@positions
def test_padding_never_changes_logits_of_real_tokens(
    make_model, some_tokens, positions, causal, side
):
    model = make_model(positions=positions, causal=causal)
    mask = torch.ones_like(some_tokens, dtype=torch.bool)
    mask[1, 4:] = mask[2, 2:] = False
    mask = mask if side == "right" else mask.flip(1)
    other = torch.where(mask, some_tokens, (some_tokens + 3) % 11)
    a, b = model(some_tokens, mask), model(other, mask)
    assert torch.equal(a[mask], b[mask])
    assert not torch.allclose(a[~mask], b[~mask])
    if side == "right":
        alone = model(some_tokens[1:2, :4])
        torch.testing.assert_close(a[1, :4], alone[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@positions
def test_rows_without_any_key_give_finite_values_and_gradients(
    make_model, some_tokens, positions, causal
):
    model = make_model(positions=positions, causal=causal)
    mask = torch.ones_like(some_tokens, dtype=torch.bool)
    mask[0] = False  # a row of padding alone
    mask[1, :3] = False  # padding on the left: causal queries 0 to 2 have no key
    cache = {}
    logits = model(some_tokens, mask, cache=cache)
    assert (cache["L0.pattern"][0] == 0).all()
    torch.testing.assert_close(cache["L0.pattern"][2].sum(-1), torch.ones(2, 7))
    assert logits.isfinite().all()
    logits.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_masked_softmax_is_the_softmax_of_the_allowed_keys_and_zero_without_any(dtype):
    scores = 30 * torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    allowed = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]]).bool()
    expected = scores.masked_fill(~allowed, -math.inf).softmax(-1).nan_to_num(0)
    for mask in (allowed, allowed.expand(2, 1, 4, 4)):
        pattern = masked_softmax(scores, mask)
        torch.testing.assert_close(pattern, expected)
        assert pattern.dtype == dtype and (pattern[..., ~allowed] == 0).all()


# ---- the parts ----


@positions
def test_attention_output_is_the_sum_over_heads(make_model, some_tokens, positions):
    model = make_model(positions=positions, n_heads=3, d_head=5)
    _, cache = model.run_with_cache(some_tokens)
    for i, layer in enumerate(model.blocks):
        z = cache[f"L{i}.z"]
        by_head = sum(z[:, :, h] @ layer.attn.W_O[h] for h in range(3))
        torch.testing.assert_close(cache[f"L{i}.attn_out"], by_head)


@pytest.mark.parametrize("d_mlp", [0, 6])
def test_the_stream_is_the_sum_of_what_was_written(make_model, some_tokens, d_mlp):
    model = make_model(positions="standard", d_mlp=d_mlp)
    _, cache = model.run_with_cache(some_tokens)
    written = [
        name
        for name in cache
        if name.split(".")[-1] in ("embed", "pos_embed", "attn_out", "mlp_out")
    ]
    assert len(written) == 2 + 2 * (1 + (d_mlp > 0))
    torch.testing.assert_close(sum(cache[name] for name in written), cache["final_resid"])


@pytest.mark.parametrize("causal", [True, False])
def test_relative_bias_depends_on_distance_alone(make_model, causal):
    model = make_model(positions="relative", causal=causal)
    _, cache = model.run_with_cache(torch.arange(20).view(2, 10) % 11)  # the whole context
    bias = cache["L0.scores"] - torch.einsum("bqhe,bkhe->bhqk", cache["L0.q"], cache["L0.k"]) / 2
    query, key = torch.meshgrid(torch.arange(10), torch.arange(10), indexing="ij")
    seen = {}
    for distance in range(0 if causal else -9, 10):
        at_distance = bias[:, :, query - key == distance]  # batch, head, pairs
        assert (at_distance - at_distance[:1, :, :1]).abs().max() < 1e-5
        seen[distance] = at_distance[0, :, 0]
        torch.testing.assert_close(
            seen[distance], model.blocks[0].attn.b_rel[:, distance], atol=1e-5, rtol=1e-5
        )
    numbers = {tuple(value.detach().mul(1e3).round().tolist()) for value in seen.values()}
    assert len(numbers) == len(seen)  # every distance has numbers of its own
    assert model.blocks[0].attn.b_rel.shape == (2, len(seen))


def test_keys_queries_positions_never_reach_the_values(make_model, some_tokens):
    model = make_model(positions="shortformer")
    _, cache = model.run_with_cache(some_tokens)
    attn = model.blocks[0].attn
    normed, W_pos = cache["L0.ln1_out"], model.W_pos[:7]
    torch.testing.assert_close(cache["L0.v"][:, :, 0], normed @ attn.W_V[0])
    torch.testing.assert_close(cache["L0.q"][:, :, 0], (normed + W_pos) @ attn.W_Q[0])
    torch.testing.assert_close(cache["L0.k"][:, :, 0], (normed + W_pos) @ attn.W_K[0])


def test_without_positions_a_shuffled_past_gives_the_same_logits(make_model):
    tokens, shuffled = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[3, 1, 2, 4]])
    for positions in POSITIONS:
        model = make_model(positions=positions, n_layers=1)
        same = torch.allclose(model(tokens)[0, -1], model(shuffled)[0, -1], atol=1e-5)
        assert same == (positions == "none")


def test_dot_products_of_sinusoids_depend_on_distance_alone():
    W_pos = sinusoids(20, 12)
    gram = W_pos @ W_pos.T
    torch.testing.assert_close(gram[1:, 1:], gram[:-1, :-1], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gram.diagonal(), torch.full((20,), 6.0))
    assert gram[0, 1:].max() < 6


@pytest.mark.parametrize("positions", ["none", "standard"])
def test_zero_layers_are_a_table_of_bigrams(make_model, some_tokens, positions):
    model = make_model(n_layers=0, layer_norm=False, positions=positions)
    table = model.W_E @ model.W_U
    expected = table[some_tokens]
    if positions == "standard":
        expected = expected + model.W_pos[:7] @ model.W_U
    torch.testing.assert_close(model(some_tokens), expected)


# ---- activations and edits ----


@pytest.mark.parametrize("d_mlp", [0, 6])
@positions
def test_run_with_cache_fills_exactly_the_activation_names(
    make_model, some_tokens, positions, d_mlp
):
    model = make_model(positions=positions, d_mlp=d_mlp)
    logits, cache = model.run_with_cache(some_tokens)
    assert list(cache) == model.activation_names()
    assert torch.equal(cache["logits"], logits)
    expected = {n for n in NAMES if positions == "standard" or n != "pos_embed"}
    assert set(cache) == {n for n in expected if d_mlp or ".mlp" not in n}


def test_cached_shapes_follow_the_notation(make_model, some_tokens):
    model = make_model(positions="standard", d_mlp=6, n_heads=3)
    _, cache = model.run_with_cache(some_tokens)
    for name, value in cache.items():
        last = name.split(".")[-1]
        if last in ("q", "k", "v", "z"):
            assert value.shape == (3, 7, 3, 4)
        elif last in ("scores", "pattern"):
            assert value.shape == (3, 3, 7, 7)
        elif last not in ("pos_embed", "mlp_hidden", "logits"):
            assert value.shape == (3, 7, 8)
    torch.testing.assert_close(cache["L1.pattern"].sum(-1), torch.ones(3, 3, 7))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_activation_can_be_edited_by_tensor_and_by_function(make_model, some_tokens, name):
    model = make_model(positions="standard", d_mlp=6)
    logits, cache = model.run_with_cache(some_tokens)
    same = model(some_tokens, edits={name: cache[name]})
    torch.testing.assert_close(same, logits, atol=1e-5, rtol=1e-5)
    noise = torch.randn(cache[name].shape, generator=torch.Generator().manual_seed(2))
    by_function = model(some_tokens, edits={name: lambda value: value + noise})
    by_tensor, edited = model.run_with_cache(some_tokens, edits={name: cache[name] + noise})
    torch.testing.assert_close(by_function, by_tensor, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(edited[name], cache[name] + noise)
    assert (by_tensor - logits).abs().max() > 1e-3


def test_an_edit_leaves_earlier_activations_alone(make_model, some_tokens):
    model = make_model()
    _, before = model.run_with_cache(some_tokens)
    _, after = model.run_with_cache(some_tokens, edits={"L1.z": lambda z: 0 * z})
    names = model.activation_names()
    for name in names[: names.index("L1.z")]:
        assert torch.equal(before[name], after[name])
    assert (after["L1.attn_out"] == 0).all()


# ---- bad input ----

TOKENS = torch.tensor([[1, 0, 2, 3, 4]])


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([[1, 11, 2]]), "token id 11 .*d_vocab = 11.*tokenizer"),
        (torch.tensor([[1, -1, 2]]), "token id -1 .*d_vocab = 11.*tokenizer"),
        (torch.zeros(1, 11, dtype=torch.long), r"11 tokens.*n_ctx = 10.*\[:, -10:\]"),
        (torch.zeros(1, 0, dtype=torch.long), "empty text"),
        (torch.zeros(0, dtype=torch.long), "empty text"),
        (torch.tensor([1, 2]), r"tokens\[None\]"),
        ([[1, 2]], r"whole numbers, got list: torch\.tensor"),
        (torch.ones(1, 2), r"whole numbers, got torch\.float32: torch\.tensor"),
        (torch.ones(1, 2) > 0, r"whole numbers, got torch\.bool: torch\.tensor"),
    ],
)
def test_wrong_tokens_are_named_with_the_remedy(make_model, unchecked, tokens, message):
    with pytest.raises(ValueError, match=message):
        make_model()(tokens)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"edits": {"L1.patern": lambda x: x}}, r"'L1\.patern'.*L1\.pattern"),
        ({"edits": {"L7.z": lambda x: x}}, r"'L7\.z'.*L0\.z"),
        ({"edits": {"L1.z": torch.zeros(2, 4)}}, r"L1\.z gives \(2, 4\).*\(1, 5, 2, 4\)"),
        ({"edits": {"L1.z": lambda z: 0}}, r"L1\.z gives int.*\(1, 5, 2, 4\)"),
        ({"edits": {"L1.z": 3.5}}, r"L1\.z gives float.*\(1, 5, 2, 4\)"),
        ({"attention_mask": torch.ones(1, 5)}, r"attention_mask .*float32.*mask\.bool\(\)"),
        ({"attention_mask": torch.ones(1, 4) > 0}, r"attention_mask .*\(1, 5\).*\(1, 4\)"),
    ],
)
def test_wrong_edits_and_masks_are_named_with_the_remedy(make_model, unchecked, options, message):
    with pytest.raises(ValueError, match=message):
        make_model()(TOKENS, **options)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("d_vocab", 0), ("n_layers", -1), ("n_layers", 1.5), ("n_layers", True), ("d_model", "128"),
        ("n_heads", 0), ("d_head", 0), ("n_ctx", 0), ("d_mlp", None),
    ],
)  # fmt: skip
def test_a_bad_size_is_named_with_its_value(unchecked, name, value):
    with pytest.raises(ValueError, match=f"{name} .*whole number.*{value!r}"):
        ModelConfig(**{"d_vocab": 5, name: value})


def test_unknown_positions_and_odd_sinusoids_are_refused():
    with pytest.raises(ValueError, match="shortformer.*'rotary'"):
        ModelConfig(d_vocab=5, positions="rotary")
    with pytest.raises(ValueError, match="even, not 7"):
        ModelConfig(d_vocab=5, d_model=7, positions="shortformer")


# ---- heads by name and weights by head ----


def test_a_head_is_read_back_from_its_name():
    for head in (Head(0, 0), Head(1, 4), Head(12, 30)):
        assert Head.parse(str(head)) == head
    for name in ("L1", "1.4", "l1h4", "L-1H0", "L1H4 ", None, Head(1, 4)):
        with pytest.raises(ValueError, match="'L1H4'.* got ") as error:
            inspect.unwrap(Head.parse.__func__)(Head, name)
        assert repr(name) in str(error.value)


@pytest.mark.parametrize("head", ["L1H4", ("1", "4"), (1,), None, 3, (1.5, 0)])
def test_what_is_no_head_is_named_with_the_remedy(make_model, unchecked, head):
    with pytest.raises(ValueError, match=r"pair of whole numbers.* got .*Head\.parse") as error:
        make_model().head_weights(head)
    assert repr(head) in str(error.value)


@pytest.mark.parametrize("n_layers", [0, 2])
def test_stacked_weights_are_those_of_each_head(make_model, n_layers):
    model = make_model(n_layers=n_layers, n_heads=3, d_mlp=6)
    assert model.W_Q.shape == (n_layers, 3, 8, 4) and model.W_O.shape == (n_layers, 3, 4, 8)
    for layer, head in all_heads(model):
        weights = model.head_weights(Head(layer, head))
        for name, W in weights._asdict().items():
            assert torch.equal(W, getattr(model.blocks[layer].attn, name)[head])
            assert torch.equal(W, getattr(model, name)[layer, head]) and not W.requires_grad


def test_biases_are_those_of_the_mlp(make_model, some_tokens):
    model = make_model(d_mlp=6)
    _, cache = model.run_with_cache(some_tokens)
    biases = model.biases(1)
    written = cache["L1.mlp_hidden"] @ model.mlp_values(1) + biases.b_out
    torch.testing.assert_close(cache["L1.mlp_out"], written)
    assert not any(b.any() for b in (*biases[:4], *make_model().biases(0)))
    assert biases.b_V.shape == (2, 4) and biases.b_O.shape == (8,)


# ---- sampling ----


def greedy_by_hand(model, prompt, n):
    tokens = prompt.tolist()
    for _ in range(n):
        seen = tokens[-model.config.n_ctx :]
        logits, _ = model.run_with_cache(torch.tensor([seen]))
        tokens.append(int(logits[0, -1].argmax()))
    return tokens


@positions
@pytest.mark.parametrize("how", [{"temperature": 0}, {"top_k": 1, "temperature": 3.0}])
def test_temperature_0_and_top_k_1_are_greedy_on_the_last_n_ctx_tokens(make_model, positions, how):
    model = make_model(positions=positions)
    for prompt in (torch.tensor([4]), torch.arange(17) % 11):  # the second is longer than n_ctx
        written = generate(model, prompt, 15, **how)
        assert written.tolist() == greedy_by_hand(model, prompt, 15)


def test_the_same_seed_writes_the_same_and_another_differs(make_model):
    model, prompt = make_model(), torch.tensor([1, 2])
    a = generate(model, prompt, 30, seed=5)
    torch.manual_seed(99)  # the global generator has no influence
    assert torch.equal(a, generate(model, prompt, 30, seed=5))
    assert not torch.equal(a, generate(model, prompt, 30, seed=6))
    assert torch.equal(a[:2], prompt) and len(a) == 32


@pytest.mark.parametrize("top_k", [3, None])
def test_sampled_frequencies_follow_softmax_of_logits_over_temperature(make_model, top_k):
    model, prompt, temperature, n = make_model(n_layers=0), torch.tensor([7]), 2.0, 500
    drawn = [int(generate(model, prompt, 1, top_k, temperature, seed)[-1]) for seed in range(n)]
    frequency = torch.bincount(torch.tensor(drawn), minlength=11) / n
    logits = model(prompt[None])[0, -1].detach()
    if top_k:
        logits = logits.where(logits >= logits.sort().values[-top_k], -math.inf)
    p = (logits / temperature).softmax(0)
    assert ((frequency - p).abs() <= 4.5 * (p * (1 - p) / n).sqrt()).all()
    assert p.max() < 0.9 and ((frequency > 0) <= (p > 0)).all()


def test_text_in_text_out(make_model):
    model = make_model(d_vocab=8)
    model.tokenizer = characters(["abcdef"])
    written = generate(model, "fab", 6, top_k=None, seed=1)
    tokens = generate(model, torch.tensor([0, 7, 2, 3]), 6, top_k=None, seed=1)  # BOS f a b
    assert written == "fab" + model.tokenizer.decode(tokens[4:])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": -0.5}, r"temperature .*>= 0, got -0\.5"),
        ({"temperature": math.nan}, "temperature .*>= 0, got nan"),
        *(({"n": n}, f"n must .*>= 0, got {n}") for n in (-1, True, 2.0)),
        *(({"top_k": k}, f"top_k .*8 or None, got {k}") for k in (0, 12, -3, True)),
        ({"prompt": None}, "prompt .*None"),
        ({"prompt": [1, 2]}, r"prompt .*\[1, 2\]"),
        ({"prompt": torch.tensor(7)}, r"prompt .*shape \(\)"),
        ({"prompt": torch.ones(1, 4, dtype=torch.long)}, r"prompt .*\(1, 4\): take one row"),
        ({"prompt": torch.tensor([], dtype=torch.long)}, r"at least one token id.*\(0,\)"),
        ({"prompt": torch.ones(3)}, r"whole numbers, got torch\.float32"),
        ({"prompt": ""}, "one character, got ''"),
    ],
)
def test_bad_prompts_and_settings_are_named(make_model, unchecked, settings, message):
    model = make_model(d_vocab=8)
    model.tokenizer = characters(["abcdef"])
    with pytest.raises(ValueError, match=message):
        generate(model, **({"prompt": torch.tensor([1]), "n": 1, "top_k": 3} | settings))
    with pytest.raises(ValueError, match=r"no tokenizer.*model\.tokenizer"):
        generate(make_model(), "hello", 1)


def test_a_tiny_temperature_is_greedy(make_model):
    model, prompt = make_model(), torch.tensor([1, 2])
    greedy = generate(model, prompt, 5, temperature=0)
    assert torch.equal(generate(model, prompt, 5, temperature=1e-45), greedy)
