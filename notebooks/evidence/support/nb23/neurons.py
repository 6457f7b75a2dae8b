"""Evidence of notebook 23: mean activations of neurons, and edits that set neurons to numbers."""

from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model, check_mlp
from chapters.passages.texts import pieces


class Neuron(NamedTuple):
    """One neuron: its layer and its number there, both from 0."""

    layer: int
    neuron: int

    def __str__(self):
        return f"L{self.layer}N{self.neuron}"


def mean_activations(
    model: Model, tokens: Int[Tensor, "batch pos"], power: int = 1, start: int = 0
) -> Float[Tensor, "layer d_mlp"]:
    """Each neuron's mean activation over the texts, or that of its power.

    start: the first position that counts. 1 leaves out first tokens: they are an attention sink,
    at which some neurons are a thousand times as active as elsewhere. Raises ValueError for a
    model without MLPs.
    """
    check_mlp(model.config, 0)
    total = torch.zeros(model.config.n_layers, model.config.d_mlp)
    with torch.no_grad():
        for piece in pieces(tokens, model.config.d_vocab):
            _, cache = model.run_with_cache(tokens[piece])
            for i in range(model.config.n_layers):
                hidden = cache[f"L{i}.mlp_hidden"][:, start:]
                total[i] += hidden.pow(power).sum(dim=(0, 1))
    return total / tokens[:, start:].numel()


def ablate_neurons(
    model: Model,
    neurons: list[Neuron],
    to: Float[Tensor, "layer d_mlp"] | None = None,
    start: int = 0,
) -> Edits:
    """Edits that set neurons to 0, or to their numbers in `to`, such as their means.

    start: the first position that is changed. Raises ValueError for a neuron that does not exist.
    """
    for layer, neuron in neurons:
        check_mlp(model.config, layer)
        if not 0 <= neuron < model.config.d_mlp:
            last = model.config.d_mlp - 1
            raise ValueError(f"there is no neuron {neuron} in layer {layer}: they are 0 … {last}")
    edits = {}
    for layer in {layer for layer, _ in neurons}:
        which = [at for i, at in neurons if i == layer]
        new = torch.zeros(len(which)) if to is None else to[layer, which]
        edits[f"L{layer}.mlp_hidden"] = partial(_held, which=which, to=new, start=start)
    return edits


def _held(hidden: Tensor, which: list[int], to: Tensor, start: int) -> Tensor:
    hidden = hidden.clone()
    hidden[:, start:, which] = to
    return hidden
