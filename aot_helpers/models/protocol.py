"""What reading tools ask of a model, ours or a pretrained one, and how a head is named."""

import difflib
import math
import re
from collections.abc import Callable
from operator import index
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from aot_helpers.base.errors import check_ids, check_token_ids

# An edit is a new value for a named activation, or a function from the old value to the new.
Edits = dict[str, Tensor | Callable[[Tensor], Tensor]]


class Head(NamedTuple):
    """One head: its layer and its number there, both from 0. Shown as L1H4."""

    layer: int
    head: int

    def __str__(self):
        return f"L{self.layer}H{self.head}"

    @classmethod
    def parse(cls, name: str) -> "Head":
        """The head of a name such as "L1H4". Raises ValueError for anything else."""
        found = re.fullmatch(r"L(\d+)H(\d+)", name) if isinstance(name, str) else None
        if not found:
            raise ValueError(f"a head is named by layer and number, such as 'L1H4', got {name!r}")
        return cls(*map(int, found.groups()))


class HeadWeights(NamedTuple):
    """The four matrices of one head, or of every head of a layer [head, …]."""

    W_Q: Float[Tensor, "*head d_model d_head"]
    W_K: Float[Tensor, "*head d_model d_head"]
    W_V: Float[Tensor, "*head d_model d_head"]
    W_O: Float[Tensor, "*head d_head d_model"]


class Biases(NamedTuple):
    """What a layer adds beside what it reads: to q, k and v, to attn_out and to mlp_out."""

    b_Q: Float[Tensor, "head d_head"]
    b_K: Float[Tensor, "head d_head"]
    b_V: Float[Tensor, "head d_head"]
    b_O: Float[Tensor, " d_model"]
    b_out: Float[Tensor, " d_model"]


class Cache(dict):
    """Activations by name. A KeyError for another name says which are near."""

    def __missing__(self, name):
        found = re.fullmatch(r"blocks\.(\d+)\..*?hook_(\w+)", str(name))  # TransformerLens's names
        ours = f"L{found[1]}.{found[2].removeprefix('attn_')}" if found else str(name)
        near = difflib.get_close_matches(ours, self, cutoff=0.4) or list(self)[:3]
        raise KeyError(f"no activation is called {name!r}; nearest: {', '.join(near)}")


class Hooks:
    """What a run edits and records: every named value passes through on its way.

    `hooks(name, value)` is the value after the edit of that name, and fills the cache, if any. An
    edit of another shape is a ValueError. What is handed out is a copy where it would else share
    memory with the stream or an entry of the cache, so that changing one in place changes no other.
    """

    def __init__(
        self, edits: Edits | None = None, cache: dict[str, Tensor] | None = None, prefix: str = ""
    ):
        self.edits, self.cache, self.prefix = edits or {}, cache, prefix

    def of_layer(self, layer: int) -> "Hooks":
        """The same for the values of a layer: its "z" is "L1.z"."""
        return Hooks(self.edits, self.cache, f"L{layer}.")

    def want(self, *names: str) -> bool:
        """Whether any of these values is recorded or edited; if not, none need be computed."""
        return self.cache is not None or any(self.prefix + name in self.edits for name in names)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        """The value, after its edit."""
        name = self.prefix + name
        if name in self.edits:
            edit, old = self.edits[name], value
            value = edit(old.clone()) if callable(edit) else edit
            kind = old.shape, old.dtype
            if not isinstance(value, Tensor) or (value.shape, value.dtype) != kind:
                is_tensor = isinstance(value, Tensor)
                got = f"{value.dtype} {tuple(value.shape)}" if is_tensor else repr(value)[:40]
                raise ValueError(
                    f"the edit of {name} gives {got}: give a tensor, {old.dtype} {tuple(old.shape)}"
                )
        if self.cache is not None:
            shared = any(value.data_ptr() == each.data_ptr() for each in self.cache.values())
            self.cache[name] = value.clone() if shared else value
        return value


@runtime_checkable
class Config(Protocol):
    """The shape of a model, as far as reading tools ask."""

    d_vocab: int
    n_layers: int
    d_model: int
    n_heads: int
    d_head: int
    n_ctx: int
    d_mlp: int
    causal: bool


class Model:
    """What reading tools ask: tokens to logits, every activation by its name, weights by head.

    A model of another kind inherits from this class and gives what is only declared here.
    """

    config: Config
    tokenizer: object | None
    W_E: Float[Tensor, "d_vocab d_model"]
    W_U: Float[Tensor, "d_model d_vocab"] | None

    def __call__(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Bool[Tensor, "batch pos"] | None = None,
        edits: Edits | None = None,
        cache: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits at every position, after the edits; a cache is filled on the way."""

    def activation_names(self) -> list[str]:
        """Every name that `edits` accepts and that `run_with_cache` fills."""

    def layer_weights(self, layer: int) -> HeadWeights:
        """The weights of a layer's heads [head, …] as they stand, detached."""

    def biases(self, layer: int) -> Biases:
        """The biases of a layer, detached; zeros where it has none."""

    def attention_norm(self, layer: int) -> nn.Module:
        """The norm before a layer's heads; nn.Identity where there is none."""

    def mlp_norm(self, layer: int) -> nn.Module:
        """The norm before a layer's MLP; nn.Identity where there is none."""

    def mlp_values(self, layer: int) -> Float[Tensor, "d_mlp d_model"]:
        """What a layer's neurons write, times their activations. ValueError without an MLP."""

    def final_norm(self) -> nn.Module:
        """The norm before the unembedding; nn.Identity where there is none."""

    def score_divisor(self, layer: int) -> float:
        """What a layer divides q · k by."""
        return math.sqrt(self.config.d_head)

    @property
    def b_U(self) -> Float[Tensor, " d_vocab"] | None:
        """What is added to the logits whatever the stream holds, detached; None: nothing."""
        return None

    # What follows from the rest:

    def run_with_cache(self, tokens, attention_mask=None, edits=None) -> tuple[Tensor | None, dict]:
        """(logits, cache), where cache["L1.pattern"] is [batch, head, query_pos, key_pos]."""
        cache = Cache()
        return self(tokens, attention_mask, edits, cache), cache

    def head_weights(self, head: Head) -> HeadWeights:
        """The weights of one head as they stand, detached. Raises ValueError for no such head."""
        layer, number = check_head(self.config, head)
        return HeadWeights(*(W[number] for W in self.layer_weights(layer)))

    @property
    def W_Q(self) -> Float[Tensor, "layer head d_model d_head"]:
        """What the queries of all heads read, as a copy."""
        return _of_all_layers(self, "W_Q")

    @property
    def W_K(self) -> Float[Tensor, "layer head d_model d_head"]:
        """What the keys of all heads read, as a copy."""
        return _of_all_layers(self, "W_K")

    @property
    def W_V(self) -> Float[Tensor, "layer head d_model d_head"]:
        """What the values of all heads read, as a copy."""
        return _of_all_layers(self, "W_V")

    @property
    def W_O(self) -> Float[Tensor, "layer head d_head d_model"]:
        """What all heads write, as a copy."""
        return _of_all_layers(self, "W_O")


def _of_all_layers(model: Model, name: str) -> Tensor:
    c = model.config
    if not c.n_layers:
        inside = (c.d_head, c.d_model) if name == "W_O" else (c.d_model, c.d_head)
        return model.W_E.new_zeros(0, c.n_heads, *inside)
    return torch.stack([getattr(model.layer_weights(i), name) for i in range(c.n_layers)])


def check_head(config: Config, head: Head) -> Head:
    """The head. Raises ValueError for one that a model does not have, and for what is no head."""
    try:
        layer, number = map(index, head)
    except (TypeError, ValueError):
        raise ValueError(
            f"a head is a pair of whole numbers, Head(1, 4), got {head!r}: "
            'Head.parse("L1H4") reads its name'
        ) from None
    if not (0 <= layer < config.n_layers and 0 <= number < config.n_heads):
        has = f"{config.n_layers} layers of {config.n_heads} heads, counted from 0"
        raise ValueError(f"there is no head {Head(layer, number)}: this model has {has}")
    return Head(layer, number)


def check_mlp(config: Config, layer: int) -> None:
    """Raise ValueError for a layer that does not exist or has no MLP."""
    check_head(config, Head(layer, 0))
    if not config.d_mlp:
        raise ValueError("d_mlp = 0: an attention-only model has no MLP values; load one with MLPs")


def check_causal(model: Model) -> None:
    """Raise ValueError for a model that sees the token it is asked for, or says none."""
    causal = getattr(getattr(model, "config", None), "causal", True)  # of a module of another kind
    if not causal or getattr(model, "W_U", True) is None:
        raise ValueError(
            "this model sees both ways or has no language head, so it predicts no next token: "
            "hide tokens from it (MaskedWindows), or load a causal model"
        )


def check_tokens(tokens) -> None:
    """Raise ValueError for tokens that are no tensor [batch, pos] of whole numbers."""
    check_ids("tokens", tokens)
    if tokens.ndim != 2 or tokens.numel() == 0:
        raise ValueError(
            f"tokens must have shape [batch, pos], both >= 1, got {tuple(tokens.shape)}; "
            "leave out an empty text, pass one sequence as tokens[None]"
        )


def check_call(
    config: Config, tokens, mask: Tensor | None, edits: dict, names: list[str], device: torch.device
) -> None:
    """Raise ValueError unless a model of this shape and names, on this device, can run on this."""
    check_tokens(tokens)
    for what, where in {"tokens": tokens, "attention_mask": mask}.items():
        if isinstance(where, Tensor) and where.device != device:
            raise ValueError(
                f"{what} must be on the model's device, {device}, not on {where.device}: "
                f"{what}.to({str(device)!r})"
            )
    if not isinstance(edits, dict):
        raise ValueError(f"edits must be {{name: new value}}, got {edits!r}: see Edits")
    if mask is not None and not isinstance(mask, Tensor):
        raise ValueError(f"attention_mask must be a bool tensor, got a {type(mask).__name__}")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != tokens.shape):
        raise ValueError(
            f"attention_mask must be a bool tensor of shape {tuple(tokens.shape)}, got "
            f"{mask.dtype} of shape {tuple(mask.shape)}; a mask of 0 and 1 needs mask.bool()"
        )
    if tokens.shape[1] > (n_ctx := config.n_ctx):
        raise ValueError(
            f"{tokens.shape[1]} tokens, but the model sees at most n_ctx = {n_ctx}; "
            f"pass tokens[:, -{n_ctx}:] or cut the text into windows"
        )
    if tokens.device.type == "cpu":  # a GPU would have to be waited for
        check_token_ids(tokens, config.d_vocab)
    for name in edits:
        if name not in names:
            near = difflib.get_close_matches(str(name), names) or names
            raise ValueError(f"no activation is called {name!r}; nearest: {', '.join(near)}")


def all_heads(model: Model) -> list[Head]:
    """Every head of a model, layer after layer."""
    c = model.config
    return [Head(layer, head) for layer in range(c.n_layers) for head in range(c.n_heads)]
