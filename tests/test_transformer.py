import inspect
import math

import pytest
import torch

from aot_helpers.models.losses import copy_accuracy, copy_losses, next_token_losses
from aot_helpers.models.positions import POSITIONS, Positions, sinusoids
from aot_helpers.models.protocol import Head, all_heads
from aot_helpers.models.sampling import generate
from aot_helpers.models.transformer import ModelConfig, masked_softmax
from aot_helpers.text.tokenization import characters
from gpt2_class import to_gpt2

positions = pytest.mark.parametrize("positions", POSITIONS)
OF_A_HEAD = ["q", "k", "v", "scores", "pattern", "z"]
OF_A_LAYER = ["resid_pre", "ln1_out", *OF_A_HEAD, "attn_out", "mlp_hidden", "mlp_out"]
NAMES = {"embed", "pos_embed", "final_resid", "ln_final_out", "logits"}
NAMES |= {f"L{layer}.{name}" for layer in (0, 1) for name in OF_A_LAYER}


def embeddings_of(model, tokens):
    return model.W_E.detach()[tokens].clone().requires_grad_()


# ---- against other implementations ----


@pytest.mark.parametrize("d_mlp", [0, 12])
@pytest.mark.parametrize("n_layers", [0, 1, 3])
def test_logits_equal_those_of_gpt2s_class(make_model, some_tokens, n_layers, d_mlp):
    model = make_model(positions="standard", n_layers=n_layers, d_mlp=d_mlp)
    with torch.no_grad():
        theirs = to_gpt2(model)(some_tokens).logits
        ours = model(some_tokens)
    assert (ours - theirs).abs().max() < 1e-5


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


# ---- causality and padding ----


@pytest.mark.parametrize("path", ["plain", "cached", "masked"])
@positions
def test_no_gradient_from_the_future(make_model, some_tokens, positions, path):
    model = make_model(positions=positions, d_mlp=6)
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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_masked_softmax_is_the_softmax_of_the_allowed_keys_and_zero_without_any(dtype):
    scores = 30 * torch.randn(2, 1, 4, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    allowed = torch.tensor([[1, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]]).bool()
    expected = scores.masked_fill(~allowed, -math.inf).softmax(-1).nan_to_num(0)
    for mask in (allowed, allowed.expand(2, 1, 4, 4)):
        pattern = masked_softmax(scores, mask)
        torch.testing.assert_close(pattern, expected)
        assert pattern.dtype == dtype and (pattern[..., ~allowed] == 0).all()


# ---- the parts ----


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
    assert model.blocks[0].attn.b_rel.shape == (2, len(seen))


def test_without_positions_a_shuffled_past_gives_the_same_logits(make_model):
    tokens, shuffled = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[3, 1, 2, 4]])
    for positions in POSITIONS:
        model = make_model(positions=positions, n_layers=1)
        same = torch.allclose(model(tokens)[0, -1], model(shuffled)[0, -1], atol=1e-5)
        assert same == (positions == "none")


class Alibi(Positions):
    """Press et al. 2022: every step back costs a head 2^(-8 (head + 1) / n_heads) of its score."""

    @staticmethod
    def bias(attn, n_pos):
        slopes = 2 ** (-8 * torch.arange(1, attn.config.n_heads + 1) / attn.config.n_heads)
        at = torch.arange(n_pos)
        return -slopes[:, None, None] * (at[:, None] - at)


def test_another_encoding_is_a_class_with_a_name(make_model, some_tokens, monkeypatch):
    monkeypatch.setitem(POSITIONS, "alibi", Alibi)
    model, without = make_model(positions="alibi"), make_model(positions="none")
    assert model.state_dict().keys() == without.state_dict().keys()
    logits, cache = model.run_with_cache(some_tokens)
    torch.testing.assert_close(model(some_tokens), logits, atol=1e-5, rtol=1e-5)
    near = cache["L0.scores"] - without.run_with_cache(some_tokens)[1]["L0.scores"]
    torch.testing.assert_close(near[0, :, 5, 2], torch.tensor([-3 / 2**4, -3 / 2**8]))


def test_dot_products_of_sinusoids_depend_on_distance_alone():
    W_pos = sinusoids(20, 12)
    gram = W_pos @ W_pos.T
    torch.testing.assert_close(gram[1:, 1:], gram[:-1, :-1], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(gram.diagonal(), torch.full((20,), 6.0))
    assert gram[0, 1:].max() < 6


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


# ---- heads by name and weights by head ----


def test_a_head_is_read_back_from_its_name():
    for head in (Head(0, 0), Head(1, 4), Head(12, 30)):
        assert Head.parse(str(head)) == head
    for name in ("L1", "l1h4", None):
        with pytest.raises(ValueError, match=f"'L1H4'.* got {name!r}"):
            inspect.unwrap(Head.parse.__func__)(Head, name)


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
@pytest.mark.parametrize("how", [{"temperature": 0}, {"temperature": 1e-45}, {"top_k": 1}])
def test_temperature_near_0_and_top_k_1_are_greedy_on_the_last_n_ctx_tokens(
    make_model, positions, how
):
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


# ---- bad input: the value and the remedy ----

TOKENS = torch.tensor([[1, 0, 2, 3, 4]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m(torch.tensor([[1, 11, 2]])), "no token 11: .*d_vocab = 11.*tokenizer"),
        (lambda m: m(torch.zeros(1, 11, dtype=torch.long)), r"11 tokens.*n_ctx = 10.*\[:, -10:\]"),
        (lambda m: m(torch.zeros(1, 0, dtype=torch.long)), "empty text"),
        (lambda m: m(TOKENS, edits={"L1.patern": abs}), r"'L1\.patern'.*L1\.pattern"),
        (lambda m: m(TOKENS, edits={"L1.z": torch.zeros(2, 4)}), r"\(2, 4\).*\(1, 5, 2, 4\)"),
        (lambda m: m(TOKENS, edits={"L1.z": lambda z: z.double()}), "L1.z gives torch.float64"),
        (lambda m: m(TOKENS, edits={"L1.z": lambda z: 0}), r"L1\.z gives 0: .*\(1, 5, 2, 4\)"),
        (lambda m: m(TOKENS, torch.ones(1, 5)), r"attention_mask .*float32.*mask\.bool\(\)"),
        (lambda m: m(TOKENS, torch.ones(1, 4) > 0), r"attention_mask .*\(1, 5\).*\(1, 4\)"),
        (lambda m: ModelConfig(5, n_layers=1.5), "n_layers .*whole number.*1.5"),
        (lambda m: ModelConfig(5, d_model="128"), "d_model .*whole number.*'128'"),
        (lambda m: ModelConfig(0), "d_vocab .*>= 1, got 0"),
        (lambda m: ModelConfig(5, positions="rotary"), "'rotary'.*shortformer"),
        (lambda m: ModelConfig(5, d_model=7), "even, not 7"),
        (lambda m: m.head_weights("L1H4"), r"pair of whole numbers.*'L1H4'.*Head\.parse"),
        (lambda m: m.head_weights((1.5, 0)), r"pair of whole numbers.*\(1\.5, 0\)"),
        (lambda m: m.head_weights((2, 0)), "L2H0.*2 layers of 2 heads"),
        (lambda m: m.mlp_values(0), "d_mlp = 0.*load one with MLPs"),
        (lambda m: generate(m, "hello", 1), r"no tokenizer.*model\.tokenizer"),
        (lambda m: generate(m, TOKENS, 1), r"prompt .*one row"),
        (lambda m: generate(m, [1, 2], 1), r"prompt .*\[1, 2\].*torch\.tensor"),
        (lambda m: generate(m, TOKENS[0], -1), "n must .*>= 0, got -1"),
        (lambda m: generate(m, TOKENS[0], 1, temperature=math.nan), "temperature .*>= 0, got nan"),
        (lambda m: generate(m, TOKENS[0], 1, top_k=12), "top_k .*or None.* 11, got 12"),
    ],
)
def test_what_cannot_be_run_is_named_with_the_remedy(make_model, unchecked, call, message):
    with pytest.raises(ValueError, match=message):
        call(make_model())


# ---- wrong without a word ----


@pytest.mark.parametrize("layer_norm", [True, False])
@positions
def test_padding_before_a_text_moves_no_position(make_model, positions, layer_norm):
    model = make_model(positions=positions, layer_norm=layer_norm).eval()
    text, padded = torch.tensor([[5, 9, 3, 7]]), torch.tensor([[0, 0, 5, 9, 3, 7], [1] * 6])
    mask = torch.tensor([[False] * 2 + [True] * 4, [True] * 6])
    with torch.no_grad():
        alone, beside = model(text)[0], model(padded, mask)[0, 2:]
        longer = model(padded[1:])[0]
        torch.testing.assert_close(beside, alone, atol=2e-6, rtol=0)
        torch.testing.assert_close(model(padded, mask)[1], longer, atol=2e-6, rtol=0)


@pytest.mark.parametrize("layer_norm", [True, False])
@positions
def test_an_edit_in_place_is_the_edit_and_changes_nothing_else(make_model, positions, layer_norm):
    model = make_model(positions=positions, layer_norm=layer_norm).eval()
    tokens, weights = torch.tensor([[5, 9, 3, 7]]), [p.clone() for p in model.parameters()]
    with torch.no_grad():
        for name in model.activation_names():
            in_place = model(tokens, edits={name: lambda x: x.mul_(0.5)})
            torch.testing.assert_close(in_place, model(tokens, edits={name: lambda x: x * 0.5}))
            _, clean = model.run_with_cache(tokens)
            _, cache = model.run_with_cache(tokens)
            cache[name].add_(1)
            changed = [key for key in cache if not torch.equal(cache[key], clean[key])]
            assert changed == [name]
    assert all(map(torch.equal, model.parameters(), weights))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_ids_of_few_bits_are_ids(make_model, unchecked, dtype):
    model, ids = make_model(d_vocab=300), [[1, 2, 120, 3]]
    logits = model(torch.tensor(ids, dtype=dtype))
    torch.testing.assert_close(logits, model(torch.tensor(ids)))


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("L1.patern", "L1.pattern"),
        ("blocks.1.attn.hook_pattern", "L1.pattern"),
        ("blocks.0.attn.hook_attn_scores", "L0.scores"),
        ("blocks.0.hook_resid_pre", "L0.resid_pre"),
    ],
)
def test_a_name_that_no_cache_has_leads_to_the_nearest(make_model, some_tokens, asked, near):
    _, cache = make_model().run_with_cache(some_tokens)
    with pytest.raises(KeyError, match=rf"nearest: {near}\b"):
        cache[asked]


@pytest.mark.parametrize("name", ["layer_norm", "causal", "smeared_keys"])
@pytest.mark.parametrize("value", ["no", None, 1])
def test_a_setting_that_is_no_truth_value_is_refused(unchecked, name, value):
    with pytest.raises(ValueError, match=f"{name} must be True or False, got {value!r}"):
        ModelConfig(11, **{name: value})


def test_what_sees_the_answer_is_asked_for_no_next_token(make_model, some_tokens):
    model = make_model(causal=False)
    with pytest.raises(ValueError, match="sees both ways .* load a causal model"):
        generate(model, some_tokens[0], 2)
    repeated = torch.tensor([[0, 3, 4, 3, 4]])
    for measure in (copy_losses, copy_accuracy):
        with pytest.raises(ValueError, match="sees both ways"):
            measure(model, repeated)


def test_nan_logits_are_no_guess(make_model):
    model, repeated = make_model(), torch.tensor([[0, 3, 4, 3, 4]])
    model.W_U.data[0, 0] = math.nan
    for answer in (lambda: copy_accuracy(model, repeated), lambda: generate(model, repeated[0], 1)):
        with pytest.raises(ValueError, match="logits must be finite"):
            answer()


def test_a_target_that_is_left_out_is_no_loss_of_zero(unchecked):
    logits, tokens = torch.randn(1, 4, 11), torch.tensor([[1, 2, -100, 3]])
    with pytest.raises(ValueError, match="there is no token -100"):
        next_token_losses(logits, tokens)
    with pytest.raises(ValueError, match="must have shape"):
        next_token_losses(logits[:, :3], tokens.abs() % 11)


@pytest.mark.parametrize(
    "sizes",
    [{"n_layers": 10**9}, {"n_ctx": 10**30}, {"d_model": 10**9}, {"d_vocab": 10**12}],
)
def test_a_model_that_no_memory_holds_is_refused_at_once(sizes):
    with pytest.raises(ValueError, match=str(next(iter(sizes.values())))):
        ModelConfig(**{"d_vocab": 11, **sizes})


def test_tokens_and_masks_of_another_device_are_named(make_model, some_tokens):
    model, mask = make_model(), torch.ones_like(some_tokens, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"tokens must be .*cpu, not on meta: tokens.to\('cpu'\)"):
        model(some_tokens.to("meta"))
    with pytest.raises(ValueError, match="attention_mask must be on"):
        model(some_tokens, mask.to("meta"))
