"""Notebook 23: the constant that one neuron writes into every text, who reads it, and what for.

All means and all changes leave the first token of a text alone. It is an attention sink, at which
some neurons are a thousand times as active as elsewhere.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor

from aot_helpers.base.results import RESULTS, read
from aot_helpers.models.protocol import Edits, Model, check_mlp
from chapters.passages.texts import pieces


class Neuron(NamedTuple):
    """One neuron: its layer and its number there, both from 0."""

    layer: int
    neuron: int

    def __str__(self):
        return f"L{self.layer}N{self.neuron}"


class Outcome(NamedTuple):
    """What a model expects: means over all next tokens but the first of each text."""

    loss: float
    entropy: float
    frequent: float  # the probability that the 100 most frequent tokens have together


class Constant(NamedTuple):
    """What was measured of SmolLM2: dicts have the names that the notebook's figures show."""

    outcome: dict[str, Outcome]  # {what is done to the model: what comes of it}
    sizes: dict[str, float]  # how long what a neuron adds is, {set: mean}
    tokens: list[str]  # the most frequent of training texts, the most frequent first
    reading: list[float]  # what the constant adds to their logits directly
    effect: list[float]  # how much higher their logits are with it
    top: list[str]  # ten tokens that the constant reads as
    rank_of_the: int  # of " the" in this reading, from 1
    mean: float  # activation of the neuron
    quiet: list[float]  # of each neuron of the next layer, mean size of its activation
    loud: list[float]  # the same where this layer does not get the constant
    length: list[float]  # of what its MLP writes, with the constant and without it
    active: dict[str, dict[str, list[float]]]  # {group: {neuron: relative activations}}


def neuron_means(model: Model, tokens: Int[Tensor, "batch pos"], power: int = 1) -> Tensor:
    """Each neuron's mean activation [layer, neuron], or that of its power, without first tokens."""
    layers, total = range(model.config.n_layers), 0
    with torch.no_grad():
        for piece in pieces(tokens, model.config.d_vocab):
            _, cache = model.run_with_cache(tokens[piece])
            hidden = (cache[f"L{i}.mlp_hidden"][:, 1:] for i in layers)
            total += torch.stack([each.pow(power).sum(dim=(0, 1)) for each in hidden])
    return total / tokens[:, 1:].numel()


def after_first(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """An edit that leaves the first token of each text as it is."""
    return lambda x: torch.cat([x[:, :1], change(x[:, 1:])], dim=1)


def ablate_neurons(
    model: Model, neurons: list[Neuron], to: Float[Tensor, "layer d_mlp"] | None = None
) -> Edits:
    """Edits that set neurons to 0, or to their numbers in `to`, such as their means.

    Raises ValueError for a neuron that does not exist.
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
        edits[f"L{layer}.mlp_hidden"] = partial(_fixed, which=which, to=new)
    return edits


def _fixed(hidden: Tensor, which: list[int], to: Tensor) -> Tensor:
    hidden = hidden.clone()
    hidden[..., which] = to
    return hidden


def set_neurons(model: Model, neurons: list[Neuron], to: Tensor | None = None) -> Edits:
    """Edits that set neurons to 0, or to their numbers in `to` [layer, neuron]."""
    edits = ablate_neurons(model, neurons, to)
    return {name: after_first(edit) for name, edit in edits.items()}


def read_constant(name: str = "smollm2") -> Constant:
    """What `make data WHAT=pretrained` measured of the constant."""
    found = read(f"pretrained/23-constant-{name}")
    outcomes = {what: Outcome(**each) for what, each in found["outcome"].items()}
    return Constant(outcomes, *(found[key] for key in Constant._fields[1:]))


def read_activations(name: str = "smollm2") -> Float[Tensor, "text neuron"]:
    """The activations of layer 28's neurons at the ends of 100 passages."""
    with safe_open(RESULTS / f"pretrained/23-{name}-activations.safetensors", "pt") as file:
        return file.get_tensor("activations").float()
