import copy
import json
import shutil
import threading

import gguf
import pytest
import torch
import transformers
from gguf.quants import dequantize, quantize

from aot_helpers.base import files
from aot_helpers.models import pretrained
from aot_helpers.models.losses import copy_accuracy
from aot_helpers.models.pretrained import PUBLISHED, PretrainedTransformer, load_pretrained
from aot_helpers.models.protocol import Head, Model
from aot_helpers.offline import gguf_files, network
from aot_helpers.reading.circuits import folded_weights, qk_circuit
from aot_helpers.reading.logit_lens import lens
from aot_helpers.text.batches import repeated_tokens
from aot_helpers.text.tokenization import characters, train_bpe
from gpt2_class import to_gpt2
from tiny_models import FAMILIES, SIZE, tiny_hf

F32, Q4_1, Q8_0 = (gguf.GGMLQuantizationType[name] for name in ("F32", "Q4_1", "Q8_0"))
SIZES = {"gpt2": {"n_inner": 24, "tie_word_embeddings": False}, "llama": {"num_key_value_heads": 2}}
every_kind = pytest.mark.parametrize("kind", FAMILIES)
RIGHT, LEFT = (
    [[True] * 7, [True] * 4 + [False] * 3, [True] * 6 + [False]],
    [[False] * 2 + [True] * 5],
)


def tiny(kind):
    """A random model of transformers with four heads."""
    return tiny_hf(kind, 0.4, num_attention_heads=4, **SIZES.get(kind, {}))


def eager(hf, tokens, mask=None):
    """What transformers' own eager attention makes of the tokens: logits, or BERT's last layer."""
    hf = copy.deepcopy(hf).eval()
    hf.set_attn_implementation("eager")
    with torch.no_grad():
        out = hf(tokens, attention_mask=None if mask is None else mask.long())
    return out.logits if hasattr(out, "logits") else out.last_hidden_state


def result(model, tokens, mask=None, edits=None):
    """Logits, or the last layer where there are none."""
    with torch.no_grad():
        logits, cache = model.run_with_cache(tokens, mask, edits)
    return cache["final_resid"] if logits is None else logits


def hooks(hf):
    return [h for m in hf.modules() for h in (*m._forward_hooks, *m._forward_pre_hooks)]


def written(model, cache, layer):
    """What the heads of a layer and its bias add up to."""
    W, z = model.layer_weights(layer), cache[f"L{layer}.z"]
    return sum(z[:, :, h] @ W.W_O[h] for h in range(z.shape[2])) + model.biases(layer).b_O


@pytest.fixture
def mask():
    return torch.tensor(RIGHT)


# ---- the same function as transformers' ----


@every_kind
def test_logits_equal_the_eager_class(kind, some_tokens, mask):
    hf = tiny(kind).train()  # read without dropout all the same
    plain, padded = eager(hf, some_tokens), eager(hf, some_tokens, mask)
    model = PretrainedTransformer(hf)
    assert torch.allclose(result(model, some_tokens), plain, atol=1e-5)
    assert torch.allclose(result(model, some_tokens, mask)[mask], padded[mask], atol=1e-5)
    assert isinstance(model, Model)


@pytest.mark.parametrize("d_mlp", [0, 12])
def test_our_model_in_gpt2s_class_is_the_same_model(make_model, some_tokens, mask, d_mlp):
    ours = make_model(positions="standard", d_mlp=d_mlp)
    theirs = PretrainedTransformer(to_gpt2(ours))
    for padding in (None, mask, ~mask, torch.tensor(LEFT).expand(3, 7)):
        logits, cache = ours.run_with_cache(some_tokens, padding)
        their_logits, their_cache = theirs.run_with_cache(some_tokens, padding)
        assert torch.allclose(logits, their_logits, atol=1e-5)
        assert set(cache) <= set(their_cache) and list(their_cache) == theirs.activation_names()
        for name, value in cache.items():
            assert torch.allclose(their_cache[name], value, atol=1e-5), name
    for name in ("W_E", "W_U", "W_Q", "W_K", "W_V", "W_O"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    logits = ours(some_tokens)
    _, their_cache = theirs.run_with_cache(some_tokens)
    for name in ours.activation_names():
        for edit in (lambda value: value.flip(-1) + 0.1, torch.randn_like(their_cache[name])):
            edited = ours(some_tokens, edits={name: edit})
            assert torch.allclose(edited, theirs(some_tokens, edits={name: edit}), atol=1e-5), name
            assert not torch.allclose(edited, logits, atol=1e-3), name


# ---- names and weights ----


@every_kind
def test_every_name_is_filled_and_can_be_edited(kind, some_tokens):
    model = PretrainedTransformer(tiny(kind))
    before = result(model, some_tokens)
    _, cache = model.run_with_cache(some_tokens)
    assert list(cache) == model.activation_names()
    c = model.config
    assert (c.n_layers, c.n_heads, c.d_head, c.d_model, c.d_vocab) == (2, 4, 4, 16, 11)
    assert (c.n_ctx, c.d_mlp, c.causal) == (10, 24, not kind.startswith("bert"))
    assert (cache["L1.pattern"].triu(1).sum() == 0) == c.causal
    for name in cache:
        _, edited = model.run_with_cache(some_tokens, edits={name: cache[name].flip(-1)})
        assert torch.equal(edited[name], cache[name].flip(-1)), name
        assert not torch.allclose(list(edited.values())[-1], list(cache.values())[-1]), name
        same = result(model, some_tokens, edits={name: lambda value: value.clone()})
        assert torch.allclose(same, before, atol=1e-6), name


def test_a_submodule_that_there_is_not_is_named():
    model = PretrainedTransformer(tiny("gpt2"))
    with pytest.raises(ValueError, match="'W_Q'.*W_QKV"):
        model.submodule("W_Q", 0)
    with pytest.raises(ValueError, match="no head L9H0: this model has 2 layers"):
        model.submodule("ln1", 9)


@every_kind
def test_the_stream_is_what_the_names_say(kind, some_tokens):
    model = PretrainedTransformer(tiny(kind))
    logits, cache = model.run_with_cache(some_tokens)
    assert torch.equal(cache["embed"], model.W_E[some_tokens])
    for i in range(2):
        norm, read = model.attention_norm(i), cache[f"L{i}.ln1_out"]
        assert torch.allclose(norm(cache[f"L{i}.resid_pre"]), read, atol=1e-5)
    if not model.config.post_norm:
        start = cache["embed"] + cache.get("pos_embed", 0)
        parts = [cache[f"L{i}.{name}"] for i in range(2) for name in ("attn_out", "mlp_out")]
        assert torch.allclose(start, cache["L0.resid_pre"], atol=1e-6)
        assert torch.allclose(start + sum(parts), cache["final_resid"], atol=1e-4)
    else:
        block = model.submodule("", 1)
        middle = block.attention.output.LayerNorm(cache["L1.resid_pre"] + cache["L1.attn_out"])
        last = block.output.LayerNorm(middle + cache["L1.mlp_out"])
        assert torch.allclose(last, cache["final_resid"], atol=1e-5)
    read = model.final_norm()(cache["final_resid"])
    if logits is None:
        assert model.W_U is None and "logits" not in cache and kind == "bert without a head"
    else:
        assert torch.allclose(read, cache["ln_final_out"], atol=1e-5)
        bias = getattr(model.hf.get_output_embeddings(), "bias", None)
        assert torch.allclose(read @ model.W_U + (0 if bias is None else bias), logits, atol=1e-4)


@every_kind
def test_weights_and_biases_make_queries_keys_values_and_what_is_written(kind, some_tokens):
    model = PretrainedTransformer(tiny(kind))
    _, cache = model.run_with_cache(some_tokens)
    for i in range(2):
        read, biases = cache[f"L{i}.ln1_out"], model.biases(i)
        assert any(b.any() for b in biases) == (kind != "llama")
        for name in "qkv":
            W, b = getattr(model, f"W_{name.upper()}")[i], biases["qkv".index(name)]
            made = torch.einsum("bpd,hde->bphe", read, W) + b
            at = slice(0, 1) if kind == "llama" and name in "qk" else slice(None)  # no turn at 0
            assert torch.allclose(made[:, at], cache[f"L{i}.{name}"][:, at], atol=1e-5), name
        assert torch.allclose(written(model, cache, i), cache[f"L{i}.attn_out"], atol=1e-5)
        values = cache[f"L{i}.mlp_hidden"] @ model.mlp_values(i) + biases.b_out
        assert torch.allclose(values, cache[f"L{i}.mlp_out"], atol=1e-4)
    head = model.head_weights(Head(1, 3))
    for name, W in head._asdict().items():
        assert torch.equal(W, getattr(model, name)[1, 3])


def test_rotary_scores_depend_on_the_distance_alone(some_tokens):
    model = PretrainedTransformer(tiny("llama"))
    same = torch.full_like(some_tokens, 3)
    _, cache = model.run_with_cache(same)
    scores = cache["L0.scores"]
    assert torch.allclose(scores[:, :, 1:, 1:], scores[:, :, :-1, :-1], atol=1e-5)
    assert torch.equal(cache["L0.k"][:, :, 0], cache["L0.k"][:, :, 1])  # shared by two heads
    assert not torch.allclose(cache["L0.k"][:, :, 1], cache["L0.k"][:, :, 2])


# ---- what goes wrong ----


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, t: m(t, edits={"L1.patern": abs}), r"L1\.patern.*L1\.pattern"),
        (lambda m, t: m(t + 11 - t.max()), "no token 11: .*0 … 10"),
        (lambda m, t: m.head_weights(Head(0, 4)), "L0H4.*2 layers of 4 heads"),
        (lambda m, t: m.biases(-1), "L-1H0.*2 layers"),
        (lambda m, t: m.attention_norm(2), "2 layers"),
        (
            lambda m, t: PretrainedTransformer(transformers.GPT2Model(tiny("gpt2").config)),
            "'GPT2Model'.*GPT2LMHeadModel",
        ),
        (
            lambda m, t: PretrainedTransformer(
                transformers.BertModel(
                    transformers.BertConfig(**{**tiny("bert").config.to_dict(), "is_decoder": True})
                )
            ),
            "is_decoder=True: set it False",
        ),
    ],
)
def test_wrong_calls_name_value_and_remedy(some_tokens, unchecked, call, message):
    model = PretrainedTransformer(tiny("gpt2"))
    with pytest.raises(ValueError, match=message):
        call(model, some_tokens)
    assert hooks(model.hf) == []


@every_kind
def test_a_failed_run_leaves_nothing_behind(kind, some_tokens):
    hf = tiny(kind)
    before = eager(hf, some_tokens)
    model = PretrainedTransformer(hf)
    for name in ("embed", "L1.ln1_out", "L1.pattern", "final_resid"):
        with pytest.raises(ZeroDivisionError):
            model(some_tokens, edits={name: lambda value: 1 / 0})
        assert hooks(hf) == [] and not pretrained._hooks.get().edits
    assert torch.equal(result(model, some_tokens), result(PretrainedTransformer(hf), some_tokens))
    with torch.no_grad():  # its own call goes on working
        out = hf(some_tokens)
    alone = out.logits if hasattr(out, "logits") else out.last_hidden_state
    assert torch.allclose(alone, before, atol=1e-5) and hooks(hf) == []


def test_a_run_inside_an_edit_and_in_another_thread_is_a_run_of_its_own(some_tokens):
    model = PretrainedTransformer(tiny("gpt2"))
    plain, seen = model.run_with_cache(some_tokens)[1], {}

    def edit(value):
        seen["inside"] = model.run_with_cache(some_tokens, edits={"embed": lambda e: 2 * e})[1]
        thread = threading.Thread(
            target=lambda: seen.update(beside=model.run_with_cache(some_tokens)[1])
        )
        thread.start()
        thread.join()
        return value

    _, cache = model.run_with_cache(some_tokens, edits={"L0.resid_pre": edit})
    assert torch.equal(seen["inside"]["embed"], 2 * plain["embed"])
    for name, value in plain.items():
        assert torch.equal(cache[name], value) and torch.equal(seen["beside"][name], value), name


# ---- loading ----


@pytest.fixture
def saved(tmp_path):
    """Saves a tiny model in Hugging Face format, with a tokenizer, and gives it back."""

    def save(kind, **options):
        hf = tiny(kind)
        hf.save_pretrained(tmp_path / "model", **options)
        tokenizer = train_bpe(["a few words, a few more words"], 260)
        tokenizer.backend.enable_truncation(3)  # as some published files ask
        tokenizer.backend.enable_padding(length=128)
        tokenizer.save(tmp_path / "model/tokenizer.json")
        return hf, tmp_path / "model"

    return save


@every_kind
def test_a_folder_in_hugging_face_format_is_loaded(kind, saved, some_tokens, capsys):
    hf, folder = saved(kind)
    capsys.readouterr()
    for name in (folder, str(folder)):
        model = load_pretrained(name)
        out = capsys.readouterr()
        assert out.out.count("\n") == 1 and f"from the folder {folder}" in out.out and not out.err
        assert FAMILIES[kind][0] in out.out and "2 layers of 4 heads" in out.out
        assert torch.allclose(result(model, some_tokens), eager(hf, some_tokens), atol=1e-5)
    assert not any(p.requires_grad for p in model.parameters())
    assert transformers.utils.logging.is_progress_bar_enabled()
    assert model.tokenizer.decode(model.tokenizer.encode("a few words")) == "a few words"
    (folder / "tokenizer.json").unlink()
    hf.bfloat16().save_pretrained(folder, max_shard_size=2000)
    assert len(list(folder.glob("*.safetensors"))) > 1
    halved = load_pretrained(folder)
    assert halved.tokenizer is None and halved.W_E.dtype == torch.float32
    assert "without tokenizer.json" in capsys.readouterr().out


def test_pickled_weights_are_never_read(saved):
    hf, folder = saved("gpt2")
    torch.save(hf.state_dict(), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"never read.*save_pretrained"):
        load_pretrained(folder)
    (folder / "other.safetensors").write_bytes(b"")
    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        load_pretrained(folder)


def test_code_that_comes_with_a_model_is_never_run(saved):
    _, folder = saved("gpt2")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoConfig": "own.C", "AutoModelForCausalLM": "own.M"}
    (folder / "own.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\nC = M = None\n")
    (folder / "config.json").write_text(json.dumps(config))
    load_pretrained(folder)
    assert not (folder / "ran").exists()
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own"}))
    with pytest.raises(ValueError, match=r"family .*'own'; .*there are: bert, gpt2, llama"):
        load_pretrained(folder)
    assert not (folder / "ran").exists()


def test_missing_weights_are_named(saved):
    from safetensors.torch import load_file, save_file

    _, folder = saved("gpt2")
    weights = load_file(folder / "model.safetensors")
    del weights["transformer.h.1.ln_2.bias"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"lacks 1 weights, such as transformer\.h\.1\.ln_2\.bias"):
        load_pretrained(folder)


def test_unknown_names_list_the_known_ones(tmp_path, unchecked):
    known = "bert, docstrings-gpt2, gpt2"
    with pytest.raises(ValueError, match=rf"'smollm'; did you mean 'smollm2'.*there are: {known}"):
        load_pretrained("smollm")
    for name in (tmp_path / "nothing", None):
        with pytest.raises(ValueError, match=rf"{name}.*there are: {known}"):
            load_pretrained(name)
    with pytest.raises(ValueError, match=r"config\.json"):
        load_pretrained(tmp_path)


# ---- the model that is shipped ----


def test_the_shipped_gpt2_gives_the_logits_of_its_class_and_what_provenance_says(shipped):
    folder = files.DATA / "pretrained" / "docstrings-gpt2"
    facts = files.read_json(folder / "provenance.json")
    hf = transformers.GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()
    measured = facts["measured"]
    tokens = repeated_tokens(4096, 60, 50, bos=0, seed=2)
    with torch.no_grad():
        assert torch.allclose(hf(tokens[:4]).logits, shipped(tokens[:4]), atol=1e-4)
    assert shipped.tokenizer.decode(shipped.tokenizer.encode("the ‹é›.")) == "the ‹é›."
    copied = measured["copy accuracy"]["60"]
    assert copy_accuracy(shipped, tokens) == pytest.approx(copied, abs=0.01)
    assert measured["text"] < facts["counting"]["bigram"] < facts["counting"]["unigram"]


def test_a_damaged_file_of_the_shipped_gpt2_is_named(tmp_path, monkeypatch):
    shutil.copytree(files.DATA / "pretrained", tmp_path / "pretrained")
    monkeypatch.setattr(files, "DATA", tmp_path)
    path = tmp_path / "pretrained" / "docstrings-gpt2" / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace("return", "retorn", 1))
    remedy = "git checkout -- data/pretrained/docstrings-gpt2"
    with pytest.raises(ValueError, match=rf"tokenizer\.json of docstrings-gpt2 .*{remedy}"):
        load_pretrained("docstrings-gpt2")


# ---- GGUF ----


def write_gguf(hf, path, pre="smollm"):
    """The model as llama.cpp stores it: the pairs of rotated coordinates side by side.

    The model's own weights become what the file can hold.
    """
    c, file = hf.config, gguf.GGUFWriter(path, "llama")
    facts = dict(
        vocab_size=c.vocab_size,
        embedding_length=c.hidden_size,
        block_count=c.num_hidden_layers,
        feed_forward_length=c.intermediate_size,
        head_count=c.num_attention_heads,
        head_count_kv=c.num_key_value_heads,
        context_length=c.max_position_embeddings,
        rope_freq_base=c.rope_parameters["rope_theta"],
        layer_norm_rms_eps=c.rms_norm_eps,
        tokenizer_pre=pre,
        token_types=[3, 3] + [1] * 9,
        token_merges=["a b", "Ġ a"],
        token_list=["<s>", "</s>", "a", "b", "ab", "1", "2", "Ġ", "Ġa", "c", "d"],
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    for name, value in facts.items():
        getattr(file, f"add_{name}")(value)
    theirs = {name: short for short, name in (gguf_files.LAYER | gguf_files.REST).items()}
    for i, (name, W) in enumerate(hf.state_dict().items()):
        kind = (Q8_0, F32, Q4_1)[i % 3] if W.ndim == 2 else F32
        held = torch.from_numpy(dequantize(quantize(W.numpy(), kind), kind))
        hf.load_state_dict({name: held}, strict=False)
        layer, _, part = name.removesuffix(".weight").removeprefix("model.layers.").partition(".")
        block, part = (f"blk.{layer}.", part) if layer.isdigit() else ("", name[: -len(".weight")])
        if part in ("self_attn.q_proj", "self_attn.k_proj"):
            W = W.unflatten(0, (-1, 2, c.head_dim // 2)).transpose(1, 2).flatten(0, 2)
        stored = quantize(W.contiguous().numpy(), kind)
        file.add_tensor(f"{block}{theirs[part]}.weight", stored, raw_dtype=kind)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return hf


@pytest.fixture
def llama():
    """A random Llama whose rows are made of blocks of 32."""
    sizes = dict(hidden_size=32, intermediate_size=64, rope_theta=50.0)
    sizes |= dict(num_attention_heads=4, num_key_value_heads=2)
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**SIZE, **sizes})).eval()


def test_a_gguf_file_is_the_model_that_was_written(llama, tmp_path, some_tokens, monkeypatch):
    with torch.no_grad():
        for parameter in llama.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    write_gguf(llama, tmp_path / "tiny.gguf")
    monkeypatch.setattr(network, "package_file", lambda path: tmp_path / "tiny.gguf")
    model = load_pretrained("smollm2")
    for name, W in llama.state_dict().items():
        assert torch.equal(model.hf.state_dict()[name], W), name
    assert torch.allclose(result(model, some_tokens), eager(llama, some_tokens), atol=1e-4)
    tokenizer = model.tokenizer
    assert tokenizer.token_strings(tokenizer.encode("ab a12")) == ["ab", " a", "1", "2"]
    assert (tokenizer.bos, tokenizer.pad, tokenizer.decode([0, 4, 1])) == (0, 1, "ab")


def test_other_gguf_files_are_refused(llama, tmp_path):
    path = tmp_path / "tiny.gguf"
    write_gguf(llama, path, pre="other")
    with pytest.raises(ValueError, match="'llama' and the vocabulary 'other'.*'smollm'"):
        gguf_files.read_llama(path)
    write_gguf(llama, path)
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match=r"tiny\.gguf is no whole GGUF file .*install it again"):
        gguf_files.read_llama(path)


# ---- real models, where their packages are installed ----


def carried(name):
    """Skips the test unless the package that carries the model is installed."""
    _, package, file = PUBLISHED[name]
    if network.package_file(file) is None:
        pytest.skip(f"the package {package} (requirements-local.txt) is not installed")


@pytest.fixture(scope="module")
def smollm2():
    carried("smollm2")
    return load_pretrained("smollm2")


def check_real(model, text):
    """The eager class, the sum of the heads, and padding, on a text and its beginning."""
    tokens = model.tokenizer.encode(text)
    n = len(tokens)
    pair = torch.stack([tokens, torch.cat([tokens[: n // 2], tokens[: n - n // 2]])])
    mask = torch.arange(n) < torch.tensor([[n], [n // 2]])
    theirs = eager(model.hf, pair, mask)
    with torch.no_grad():
        logits, cache = model.run_with_cache(pair, mask)
    ours = cache["final_resid"] if logits is None else logits
    assert torch.allclose(ours[mask], theirs[mask], atol=1e-5 * theirs.abs().max())
    assert torch.allclose(result(model, pair[1:, : n // 2]), ours[1:, : n // 2], atol=1e-3)
    for i in (0, model.config.n_layers - 1):
        out = cache[f"L{i}.attn_out"]
        assert torch.allclose(written(model, cache, i), out, atol=1e-5 * out.abs().max())


def test_minilm_is_the_eager_class_and_knows_its_tokens():
    carried("minilm")
    minilm = load_pretrained("minilm")
    assert minilm.tokenizer.encode("This movie is great", bos=True).tolist() == [
        101,
        2023,
        3185,
        2003,
        2307,
    ]
    check_real(minilm, "The river and the sea are near the old town, she said.")
    tokens = minilm.tokenizer.encode("one two three four five six seven eight nine ten")
    _, cache = minilm.run_with_cache(tokens[None])
    pattern = cache["L0.pattern"][0, 2]  # a head that looks at the token before
    assert pattern.diagonal(-1).mean() > 0.8


def test_smollm2_is_the_eager_class_and_its_tokenizer_splits_digits(smollm2):
    check_real(smollm2, "The river and the sea are near the old town, she said.")
    tokens = smollm2.tokenizer.encode("When Mary and John went to the store, John gave a drink to")
    assert smollm2.tokenizer.decode(smollm2(tokens[None])[0, -1].argmax()[None]) == " Mary"
    tokenizer = smollm2.tokenizer
    assert tokenizer.token_strings(tokenizer.encode("It's 12 é.")) == [
        "It",
        "'s",
        " ",
        "1",
        "2",
        " é",
        ".",
    ]
    assert tokenizer.encode("x", bos=True)[0] == 1


# ---- wrong without a word ----


@every_kind
def test_padding_before_a_text_moves_no_position(kind):
    hf = tiny(kind)
    text, padded = torch.tensor([[5, 9, 3, 7]]), torch.tensor([[0, 0, 5, 9, 3, 7]])
    wanted = eager(hf, text)[0]
    mask = torch.tensor([[False] * 2 + [True] * 4])
    got = result(PretrainedTransformer(hf), padded, mask)[0, 2:]
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("settings", "factors"),
    [
        ({}, [1, 1]),
        ({"scale_attn_by_inverse_layer_idx": True}, [1, 1 / 2]),
        ({"scale_attn_weights": False}, [2, 2]),
    ],
)
def test_circuits_score_as_the_model_does(settings, factors):
    """Against the model's own scores of two keys, whose difference no bias of a key enters."""
    model = PretrainedTransformer(tiny_hf("gpt2", noise=0, num_attention_heads=4, **settings))
    with torch.no_grad():
        _, cache = model.run_with_cache(torch.tensor([[5, 9, 3, 7]]))
    for layer, factor in enumerate(factors):
        x, W = cache[f"L{layer}.ln1_out"][0], model.head_weights(Head(layer, 1))
        by_hand = factor * x @ W.W_Q @ W.W_K.T @ x.T / 2  # d_head is 4
        torch.testing.assert_close(cache[f"L{layer}.scores"][0, 1], by_hand, atol=1e-5, rtol=1e-4)
        circuit = qk_circuit(model, Head(layer, 1))
        plain = folded_weights(model, Head(layer, 1))
        wanted = factor * plain.W_Q @ plain.W_K.T / 2
        torch.testing.assert_close(circuit.dense(), wanted)


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert"])
def test_the_lens_of_the_last_stream_gives_the_logits(kind):
    model, tokens = PretrainedTransformer(tiny(kind)), torch.tensor([[5, 9, 3, 7]])
    with torch.no_grad():
        logits, cache = model.run_with_cache(tokens)
    torch.testing.assert_close(lens(model, cache["final_resid"]), logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("named", ["weights.bin", "../outside.safetensors", "/etc/passwd"])
def test_an_index_that_leads_elsewhere_is_refused(tmp_path, named):
    tiny("gpt2").save_pretrained(tmp_path)
    torch.save({}, tmp_path / "weights.bin")
    index = {"metadata": {}, "weight_map": {"transformer.wte.weight": named}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    # As a folder, and as a name of the hub, whose files are read from a folder too.
    for where in (tmp_path, str(tmp_path)):
        with pytest.raises(ValueError, match="only .safetensors files beside it are read"):
            pretrained._read(where)


@pytest.mark.parametrize(
    "changes",
    [{"n_layer": 10**9}, {"n_head": 0}, {"activation_function": "no such"}, {"n_embd": 10**9}],
)
def test_an_impossible_config_is_refused_at_once(tmp_path, changes):
    tiny("gpt2").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ValueError, match="config.json"):
        load_pretrained(tmp_path)


@pytest.mark.parametrize("content", ["[]", "null", "{", "[" * 100_000])
def test_a_config_that_is_none_is_refused(tmp_path, content):
    tiny("gpt2").save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises((ValueError, OSError), match="config.json"):
        load_pretrained(tmp_path)


def test_a_folder_below_the_home_is_found_by_its_tilde(tmp_path, monkeypatch, capsys):
    tiny("gpt2").save_pretrained(tmp_path / "mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert load_pretrained("~/mine").config.n_layers == 2
    assert capsys.readouterr().out.startswith("mine: GPT2LMHeadModel")


@pytest.mark.parametrize("hashes", [{}, {"sha256": {}}, {"sha256": {"config.json": "0"}}])
def test_shipped_files_without_a_hash_are_not_read(tmp_path, monkeypatch, hashes):
    shutil.copytree(files.DATA / "pretrained", tmp_path / "pretrained")
    (tmp_path / "pretrained/docstrings-gpt2/provenance.json").write_text(json.dumps(hashes))
    monkeypatch.setattr(files, "DATA", tmp_path)
    with pytest.raises(ValueError, match="provenance.json is damaged .*git checkout"):
        load_pretrained("docstrings-gpt2")


def test_weights_that_are_cut_wrong_or_not_finite_are_named(tmp_path):
    hf = tiny("gpt2")
    hf.transformer.h[1].mlp.c_fc.weight.data[0, 0] = float("nan")
    hf.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="h.1.mlp.c_fc.weight of .* must be finite"):
        load_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="are damaged or do not fit .* save them again"):
        load_pretrained(tmp_path)
    tiny("gpt2").save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match="tokenizer.json is damaged"):
        load_pretrained(tmp_path)


def test_rows_of_the_embedding_that_are_no_tokens_have_a_number(tmp_path):
    tiny("gpt2").save_pretrained(tmp_path)
    characters(["abc def"]).save(tmp_path / "tokenizer.json")
    model = load_pretrained(tmp_path)
    n_known, n_rows = model.tokenizer.d_vocab, model.config.d_vocab
    assert n_known == 9 and n_rows == 11
    assert model.tokenizer.token_strings([3, 9, 10])[1:] == ["[9]", "[10]"]
    with pytest.raises(ValueError, match="there is no token 11"):
        model.tokenizer.token_strings([11])
