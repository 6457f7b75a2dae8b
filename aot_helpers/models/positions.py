"""How a model knows where a token stands: one class for each positional encoding.

An encoding acts at up to three places: it adds something to the stream, changes what queries and
keys read of it, or adds a bias to their scores. To try another one, write a class here that
overrides what it needs, and give it a name in POSITIONS: `ModelConfig(positions=name)` finds it.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Hooks


class Positions:
    """No positional encoding, and what each of the others is made of.

    A model knows its class; an object of it serves one run, which it knows by the model and the
    texts. Weights belong to the model and its layers, under the names they have in checkpoints.
    """

    activation_names = ()  # beyond those that every model has

    def __init__(self, model=None, n_pos: int = 0, mask: Bool[Tensor, "batch pos"] | None = None):
        """Keep of the model and of its texts, n_pos long, what `add` and `read` need."""

    @staticmethod
    def check(config) -> None:
        """Raise ValueError for a shape of model that this encoding does not fit."""

    @staticmethod
    def model_weights(config) -> dict[str, Tensor]:
        """New weights that the whole model shares, by name."""
        return {}

    @staticmethod
    def layer_weights(config) -> dict[str, Tensor]:
        """New weights of a layer's heads, by name."""
        return {}

    def add(self, resid: Float[Tensor, "batch pos d_model"], hooks: Hooks) -> Tensor:
        """The stream, with what the encoding adds to the embeddings."""
        return resid

    def read(self, x: Float[Tensor, "batch pos d_model"]) -> Tensor:
        """What queries and keys read, where values read x."""
        return x

    @staticmethod
    def bias(attn, n_pos: int) -> Float[Tensor, "head query key"] | None:
        """What a layer adds to its scores; None: nothing."""
        return None


class Table(Positions):
    """A row W_pos of d_model numbers for each position."""

    def __init__(self, model=None, n_pos=0, mask=None):
        if model is not None:
            at = text_positions(mask)
            self.W_pos = model.W_pos[:n_pos] if at is None else model.W_pos[at]


class Standard(Table):
    """A learned row, added to the stream (GPT-2)."""

    activation_names = ("pos_embed",)

    @staticmethod
    def model_weights(config):
        """W_pos, at random."""
        return {"W_pos": 0.3 * torch.randn(config.n_ctx, config.d_model)}

    def add(self, resid, hooks):
        """The embeddings plus W_pos."""
        return resid + hooks("pos_embed", self.W_pos.clone())


class Shortformer(Table):
    """A row that only queries and keys read, sinusoidal at first (Press et al. 2021)."""

    @staticmethod
    def check(config):
        """Raise ValueError for an odd d_model: sines and cosines come in pairs."""
        if config.d_model % 2:
            raise ValueError(f"shortformer is sinusoidal: make d_model even, not {config.d_model}")

    @staticmethod
    def model_weights(config):
        """W_pos, sinusoidal."""
        return {"W_pos": sinusoids(config.n_ctx, config.d_model)}

    def read(self, x):
        """X plus W_pos, for queries and keys alone."""
        return x + self.W_pos


class Relative(Positions):
    """One learned number for each head and distance, added to the scores (T5 without buckets)."""

    @staticmethod
    def layer_weights(config):
        """b_rel [head, distance]; without the causal mask, keys ahead come last."""
        distances = config.n_ctx if config.causal else 2 * config.n_ctx - 1
        return {"b_rel": torch.zeros(config.n_heads, distances)}

    @staticmethod
    def bias(attn, n_pos):
        """b_rel of each distance, laid out as a matrix over query and key positions."""
        b_rel, at = attn.b_rel, torch.arange(n_pos, device=attn.b_rel.device)
        distance = at[:, None] - at[None, :]  # query_pos - key_pos
        distance = distance.clamp(min=0) if attn.config.causal else distance % b_rel.shape[1]
        return b_rel.index_select(1, distance.flatten()).unflatten(1, distance.shape)


POSITIONS = {
    "standard": Standard,
    "shortformer": Shortformer,
    "relative": Relative,
    "none": Positions,
}


def sinusoids(n_ctx: int, d_model: int) -> Float[Tensor, "n_ctx d_model"]:
    """Sine and cosine of each position at d_model / 2 wavelengths from 2π to 2π · 200."""
    # Vaswani et al. 2017 take 10,000; over contexts as short as ours, such waves hardly change.
    angle = torch.arange(n_ctx)[:, None] * 200.0 ** (-torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).reshape(n_ctx, d_model)


def text_positions(mask: Bool[Tensor, "batch pos"] | None) -> Int[Tensor, "batch pos"] | None:
    """The position of each token in its text where padding stands before one; None elsewhere.

    Padding before a text has position 0, which nothing asks for.
    """
    if mask is None or mask[:, 0].all():
        return None
    before = (mask.cumsum(dim=1) == 0).sum(dim=1, keepdim=True)
    return (torch.arange(mask.shape[1], device=mask.device) - before).clamp(min=0)
