"""Evidence of notebook 23: MLPs, neurons and heads that write against what stands there.

S4, on the residual stream's bandwidth: MLPs clear it, and some heads delete.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Model

BATCH = 20  # windows that are read at a time


class Slopes(NamedTuple):
    """How much of the stream each part erases (-1: all, 0: nothing), and made-up parts do."""

    real: Float[Tensor, "layer *head"]
    made_up: Float[Tensor, "layer *head"]


def slope(
    written: Float[Tensor, "place d_model"], stream: Float[Tensor, "place d_model"]
) -> Tensor:
    """The slope of what is written on the stream at the same place, both without their means."""
    written, stream = (each.double() - each.double().mean(dim=0) for each in (written, stream))
    return (written * stream).sum() / stream.square().sum()


def _read(model: Model, tokens: Int[Tensor, "window pos"], names: list[str]) -> dict[str, Tensor]:
    """The named activations [place, …] at all positions but the first of each window."""
    found = {name: [] for name in names}
    for rows in tokens.split(BATCH):
        _, cache = model.run_with_cache(rows)
        for name, parts in found.items():
            parts.append(cache[name][:, 1:].flatten(0, 1))
    return {name: torch.cat(parts) for name, parts in found.items()}


@torch.no_grad()
def mlp_slopes(model: Model, tokens: Int[Tensor, "window pos"], seed: int = 0) -> Slopes:
    """Of each layer's MLP, on the stream that it reads. Made up: its neurons' values dealt anew."""
    draw, real, made_up = torch.Generator().manual_seed(seed), [], []
    for layer in range(model.config.n_layers):
        names = [f"L{layer}.{each}" for each in ("resid_pre", "attn_out", "mlp_out", "mlp_hidden")]
        before, attn_out, mlp_out, hidden = _read(model, tokens, names).values()
        values = model.mlp_values(layer)
        dealt = values[torch.randperm(len(values), generator=draw)]
        real.append(slope(mlp_out, before + attn_out))
        made_up.append(slope(hidden @ dealt, before + attn_out))
    return Slopes(torch.stack(real), torch.stack(made_up))


@torch.no_grad()
def head_slopes(model: Model, tokens: Int[Tensor, "window pos"]) -> Slopes:
    """Of each head, on the stream that its layer reads. Made up: with the next head's W_O."""
    real, made_up = [], []
    for layer in range(model.config.n_layers):
        before, z = _read(model, tokens, [f"L{layer}.resid_pre", f"L{layer}.z"]).values()
        W_O = model.layer_weights(layer).W_O
        for found, outputs in ((real, W_O), (made_up, W_O.roll(1, dims=0))):
            each = zip(z.unbind(dim=1), outputs, strict=True)
            found.append(torch.stack([slope(z_head @ W, before) for z_head, W in each]))
    return Slopes(torch.stack(real), torch.stack(made_up))


def lowest_elsewhere(chosen_on: Tensor, measured_on: Tensor) -> tuple[int, float]:
    """The place (flat) of the lowest of some numbers, and what another measurement says of it."""
    at = int(chosen_on.argmin())
    return at, measured_on.flatten()[at].item()


def neuron_cosines(model: Model) -> Iterator[Float[Tensor, " d_mlp"]]:
    """Layer by layer, the cosine of what each neuron reads (the norm's gain in it) and writes."""
    for layer in range(model.config.n_layers):
        if getattr(model.config, "family", "ours") == "gpt2":
            reads = model.hf.transformer.h[layer].mlp.c_fc.weight.T  # Conv1D keeps [in, out]
        else:
            reads = model.blocks[layer].mlp_in.weight
        reads = reads * getattr(model.mlp_norm(layer), "weight", 1)
        reads = reads - reads.mean(dim=1, keepdim=True)  # LayerNorm takes the stream's mean off
        yield F.cosine_similarity(reads.detach(), model.mlp_values(layer), dim=1)
