"""Tokens in, logits and named activations out: the attention-only transformer."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from aot_helpers.base.errors import check_flag, check_one_of, check_whole
from aot_helpers.models.positions import POSITIONS
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

MOST_WEIGHTS, MOST_LAYERS = 10**11, 1000  # far above what is read or trained here


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a model. `d_...` are sizes, `n_...` are counts.

    positions: "standard" adds W_pos to the residual stream (GPT-2), "shortformer" adds it only to
    what queries and keys read (Press et al. 2021, used by Olsson et al. 2022), "relative" adds one
    learned number per head and distance to the scores (T5 without buckets), "none" adds nothing.
    smeared_keys: each head mixes every key with the key before it, in a learned proportion (the
    "smeared key" control of Olsson et al. 2022).
    """

    d_vocab: int
    n_layers: int = 2
    d_model: int = 128
    n_heads: int = 4
    d_head: int = 32
    n_ctx: int = 128
    positions: str = "shortformer"
    layer_norm: bool = True
    causal: bool = True
    d_mlp: int = 0
    smeared_keys: bool = False

    def __post_init__(self):
        for name in ("d_vocab", "d_model", "n_heads", "d_head", "n_ctx"):
            check_whole(name, getattr(self, name), 1)
        check_whole("n_layers", self.n_layers, 0, MOST_LAYERS)
        check_whole("d_mlp", self.d_mlp, 0)
        for name in ("layer_norm", "causal", "smeared_keys"):
            check_flag(name, getattr(self, name))
        check_one_of("kind of positions", self.positions, POSITIONS)
        POSITIONS[self.positions].check(self)
        of_layer = 4 * self.n_heads * self.d_head + 2 * self.d_mlp
        weights = (self.n_layers * of_layer + 2 * self.d_vocab + self.n_ctx) * self.d_model
        if weights > MOST_WEIGHTS:
            raise ValueError(f"{weights:,} weights fit into no memory: make {self} smaller")


def allowed_keys(
    n_pos: int, causal: bool, mask: Bool[Tensor, "batch pos"] | None, device: torch.device
) -> Bool[Tensor, "*batch query key"]:
    """True where a query may look at a key: not into the future, not at padding."""
    allowed = torch.ones(n_pos, n_pos, dtype=torch.bool, device=device)
    allowed = allowed.tril() if causal else allowed
    return allowed if mask is None else allowed & mask[:, None, None, :]


def masked_softmax(
    scores: Float[Tensor, "batch head query key"], allowed: Bool[Tensor, "*allowed query key"]
) -> Float[Tensor, "batch head query key"]:
    """Softmax over the allowed keys; a query with no allowed key gets a row of zeros, never NaN."""
    # -inf would make a row without keys 0 / 0; half of the lowest number leaves room for a score.
    lowest = torch.finfo(scores.dtype).min / 2
    penalty = torch.zeros_like(allowed, dtype=scores.dtype).masked_fill(~allowed, lowest)
    return (scores + penalty).softmax(dim=-1) * allowed


def through_heads(
    x: Float[Tensor, "batch pos d_model"], W: Float[Tensor, "head d_model d_head"]
) -> Float[Tensor, "batch pos head d_head"]:
    """What every head reads: x @ W of all heads, as one matrix product."""
    return (x @ W.transpose(0, 1).flatten(1)).unflatten(2, W.shape[::2])


class Attention(nn.Module):
    """One layer of heads. Each head moves information from key positions to query positions."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = c = config
        reads = (c.n_heads, c.d_model, c.d_head)
        self.W_Q = nn.Parameter(torch.randn(reads) / math.sqrt(c.d_model))
        self.W_K = nn.Parameter(torch.randn(reads) / math.sqrt(c.d_model))
        self.W_V = nn.Parameter(torch.randn(reads) / math.sqrt(c.d_model))
        # The heads of all layers add up in one stream, so each writes little at the start.
        scale = math.sqrt(c.n_heads * c.d_head * 2 * max(c.n_layers, 1))
        self.W_O = nn.Parameter(torch.randn(c.n_heads, c.d_head, c.d_model) / scale)
        self.encoding = POSITIONS[c.positions]
        for name, W in self.encoding.layer_weights(c).items():
            self.register_parameter(name, nn.Parameter(W))
        if c.smeared_keys:  # sigmoid(smear) is a key's own share
            self.smear = nn.Parameter(torch.zeros(c.n_heads))

    def forward(self, x, positions=None, mask=None, hooks=None):
        """What all heads write. Values read x; queries and keys read what `positions` make of it.

        mask [batch, pos]: True at real tokens; None: there is no padding.
        """
        hooks = hooks or Hooks()
        x_qk = x if positions is None else positions.read(x)
        q = hooks("q", through_heads(x_qk, self.W_Q))
        k = through_heads(x_qk, self.W_K)
        if self.config.smeared_keys:
            before = torch.cat([k[:, :1], k[:, :-1]], dim=1)
            k = before + self.smear.sigmoid()[:, None] * (k - before)
        k = hooks("k", k)
        v = hooks("v", through_heads(x, self.W_V))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))  # [batch, head, pos, d_head]
        z = hooks("z", self.attend(q, k, v, mask, hooks).transpose(1, 2))
        return z.flatten(2) @ self.W_O.flatten(0, 1)  # all heads' outputs, added, in one product

    def attend(self, q, k, v, mask, hooks) -> Float[Tensor, "batch head query d_head"]:
        """Each query's mean of the values, weighted by its pattern."""
        c, n_pos = self.config, q.shape[2]
        bias, allowed = self.relative_bias(n_pos), allowed_keys(n_pos, c.causal, mask, q.device)
        if mask is not None or hooks.want("scores", "pattern"):
            scores = (q / math.sqrt(c.d_head)) @ k.mT
            scores = hooks("scores", scores if bias is None else scores + bias)
            return hooks("pattern", masked_softmax(scores, allowed)) @ v
        # The same without stored scores, as fast as it goes: a bias takes the causal mask along.
        if bias is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=c.causal)
        bias = bias.masked_fill(~allowed, -math.inf)
        return ((q / math.sqrt(c.d_head)) @ k.mT + bias).softmax(dim=-1) @ v

    def relative_bias(self, n_pos: int) -> Float[Tensor, "head query key"] | None:
        """What the positional encoding adds to the scores of each head; None: nothing."""
        return self.encoding.bias(self, n_pos)


class Block(nn.Module):
    """Attention, then (only if d_mlp > 0) an MLP; both read the stream and add to it."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.ln1 = nn.LayerNorm(config.d_model) if config.layer_norm else nn.Identity()
        self.attn = Attention(config)
        if config.d_mlp:
            self.ln2 = nn.LayerNorm(config.d_model) if config.layer_norm else nn.Identity()
            self.mlp_in = nn.Linear(config.d_model, config.d_mlp)
            self.mlp_out = nn.Linear(config.d_mlp, config.d_model)

    def forward(self, resid, positions, mask, hooks):
        """The stream after this layer."""
        resid = hooks("resid_pre", resid)
        x = hooks("ln1_out", self.ln1(resid))
        resid = resid + hooks("attn_out", self.attn(x, positions, mask, hooks))
        if hasattr(self, "mlp_in"):
            hidden = hooks("mlp_hidden", F.gelu(self.mlp_in(self.ln2(resid)), approximate="tanh"))
            resid = resid + hooks("mlp_out", self.mlp_out(hidden))
        return resid


class AttentionOnlyTransformer(nn.Module, Model):
    """Embed, add what each layer's heads write, unembed (framework paper, "Architecture").

    The code multiplies on the right: our `W_V @ W_O` is the paper's `W_O W_V`.
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.tokenizer = None  # load_checkpoint puts the model's tokenizer here
        self.W_E = nn.Parameter(0.3 * torch.randn(config.d_vocab, config.d_model))
        self.encoding = POSITIONS[config.positions]
        for name, W in self.encoding.model_weights(config).items():
            self.register_parameter(name, nn.Parameter(W))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.ln_final = nn.LayerNorm(config.d_model) if config.layer_norm else nn.Identity()
        W_U = torch.randn(config.d_model, config.d_vocab)
        self.W_U = nn.Parameter(W_U / math.sqrt(config.d_model))

    def forward(
        self,
        tokens: Int[Tensor, "batch pos"],
        attention_mask: Bool[Tensor, "batch pos"] | None = None,
        edits: Edits | None = None,
        cache: dict[str, Tensor] | None = None,
    ) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits at every position.

        attention_mask: True at real tokens; padding is never attended to, and before a text it
            does not count as positions.
        edits: new values for named activations, e.g. {"L1.z": lambda z: 0 * z}.
        cache: a dict that is filled with every named activation.
        Raises ValueError for what `check_call` refuses and an edit of another shape.
        """
        hooks = Hooks(edits, cache)
        if not torch.compiler.is_compiling():
            names = self.activation_names() if edits else []
            check_call(self.config, tokens, attention_mask, hooks.edits, names, self.W_E.device)
        tokens = tokens.long()  # PyTorch looks up no ids of eight or sixteen bits
        positions = self.encoding(self, tokens.shape[1], attention_mask)
        resid = positions.add(hooks("embed", F.embedding(tokens, self.W_E)), hooks)
        for i, layer in enumerate(self.blocks):
            resid = layer(resid, positions, attention_mask, hooks.of_layer(i))
        x = hooks("ln_final_out", self.ln_final(hooks("final_resid", resid)))
        return hooks("logits", x @ self.W_U)

    def layer_weights(self, layer: int) -> HeadWeights:
        """The weights of a layer's heads [head, …] as they stand, detached."""
        check_head(self.config, Head(layer, 0))
        attn = self.blocks[layer].attn
        return HeadWeights(*(W.detach() for W in (attn.W_Q, attn.W_K, attn.W_V, attn.W_O)))

    def biases(self, layer: int) -> Biases:
        """The biases of a layer, detached: only an MLP has any."""
        c, zeros = self.config, self.W_E.new_zeros
        check_head(c, Head(layer, 0))
        out = self.blocks[layer].mlp_out.bias.detach() if c.d_mlp else zeros(c.d_model)
        return Biases(*zeros(3, c.n_heads, c.d_head), zeros(c.d_model), out)

    def attention_norm(self, layer: int) -> nn.Module:
        """The norm before a layer's heads; nn.Identity without layer norm."""
        return self.blocks[layer].ln1

    def mlp_norm(self, layer: int) -> nn.Module:
        """The norm before a layer's MLP; nn.Identity without layer norm."""
        check_mlp(self.config, layer)
        return self.blocks[layer].ln2

    def mlp_values(self, layer: int) -> Float[Tensor, "d_mlp d_model"]:
        """What a layer's neurons write, times their activations. ValueError without an MLP."""
        check_mlp(self.config, layer)
        return self.blocks[layer].mlp_out.weight.detach().T

    def final_norm(self) -> nn.Module:
        """The norm before the unembedding; nn.Identity without layer norm."""
        return self.ln_final

    def activation_names(self) -> list[str]:
        """Every name that `edits` accepts and that `run_with_cache` fills."""
        names = ["embed", *self.encoding.activation_names]
        of_layer = ["resid_pre", "ln1_out", "q", "k", "v", "scores", "pattern", "z", "attn_out"]
        of_layer += ["mlp_hidden", "mlp_out"] if self.config.d_mlp else []
        names += [f"L{i}.{name}" for i in range(self.config.n_layers) for name in of_layer]
        return [*names, "final_resid", "ln_final_out", "logits"]
