"""Evidence of notebook 23: neurons that are always active, what they write, and what they are for.

VISIT, section 5.3: in each of the last layers some neuron is among the 100 most active of 4,096 in
more than 85 % of the prompts; such neurons are long, flat, and read as function words.
"""

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import lens, top_tokens
from evidence.support.nb23.neurons import Neuron

FRACTION, LEAST = 100 / 4096, 0.85  # of a layer's neurons, of the prompts: the source's numbers


def how_often(hidden: Float[Tensor, "*layer passage d_mlp"]) -> Float[Tensor, "*layer d_mlp"]:
    """The fraction of passages in which each neuron is among the most active: FRACTION, by size.

    Raises ValueError for activations without a neuron: a model without MLPs.
    """
    if hidden.numel() == 0:
        raise ValueError("there are no neurons here: take a model with MLPs, or more passages")
    k = max(1, round(FRACTION * hidden.shape[-1]))
    top = hidden.abs().topk(k, dim=-1).indices
    return torch.zeros_like(hidden).scatter_(-1, top, 1.0).mean(dim=-2)


def relative(hidden: Float[Tensor, "*layer passage d_mlp"]) -> Tensor:
    """Activations by size, divided by the least of the most active of their layer and passage.

    From 1 on, a neuron is among the most active.
    """
    k = max(1, round(FRACTION * hidden.shape[-1]))
    size = hidden.abs()
    return size / size.topk(k, dim=-1).values[..., -1:]


def shuffled(hidden: Float[Tensor, "*more d_mlp"], seed: int = 0) -> Tensor:
    """The activations of each passage and layer, shuffled among the neurons of the layer."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(hidden.shape, generator=generator).argsort(dim=-1)
    return hidden.gather(-1, order)


def always_on(often: Float[Tensor, "layer d_mlp"], least: float = LEAST) -> list[Neuron]:
    """The neurons that are active in more than `least` of the passages."""
    return [Neuron(*place) for place in (often > least).nonzero().tolist()]


def busiest(often: Float[Tensor, "layer d_mlp"]) -> list[Neuron]:
    """Of each layer, the neuron that is active in the most passages."""
    return [Neuron(layer, int(at)) for layer, at in enumerate(often.argmax(dim=-1))]


def written(
    model: Model,
    neurons: list[Neuron],
    words: Bool[Tensor, " d_vocab"],
    mean: Float[Tensor, "layer d_mlp"],
    often: Float[Tensor, "layer d_mlp"],
) -> pd.DataFrame:
    """Length, reading and outliers of each neuron's value, beside the others of its layer.

    neurons: layer after layer. words: the function words. mean: mean activations; a neuron whose
    mean is negative is read in the sign that it writes. often: the fraction of passages in which a
    neuron is among the most active. Columns: "length", divided by the median of the layer, and the
    "longest" there; the "entropy" (nats) of the reading, less the median, and the "flattest" one's;
    "words", the fraction of function words among the ten "top" tokens, and the "wordiest" one's;
    "outlier", the largest weight by size, divided by the root mean square, "outlier_at" its place.
    """
    tables = []
    for layer, group in groupby(neurons, key=lambda neuron: neuron.layer):
        at = [neuron.neuron for neuron in group]
        values = model.mlp_values(layer) * mean[layer].sign()[:, None]
        entropy, top = readings(model, values)
        length, fraction = values.norm(dim=-1), words[top].float().mean(dim=-1)
        length, entropy = length / length.median(), entropy - entropy.median()
        size = values.abs() / values.square().mean(dim=-1, keepdim=True).sqrt()
        columns = {
            "name": [str(Neuron(layer, i)) for i in at],
            "layer": layer,
            "often": often[layer, at].tolist(),
            "mean": mean[layer, at].tolist(),
            "length": length[at].tolist(),
            "longest": length.max().item(),
            "entropy": entropy[at].tolist(),
            "flattest": entropy.max().item(),
            "words": fraction[at].tolist(),
            "wordiest": fraction.max().item(),
            "outlier": size[at].amax(dim=-1).tolist(),
            "outlier_at": size[at].argmax(dim=-1).tolist(),
            "top": [model.tokenizer.token_strings(ids) for ids in top[at]],
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def readings(
    model: Model, values: Float[Tensor, "n d_model"]
) -> tuple[Float[Tensor, " n"], Int[Tensor, "n 10"]]:
    """The entropy (nats) of what the lens reads in each value, and its ten highest tokens."""
    found = []
    for part in values.split(128):  # a few at a time: no [n, d_vocab] is ever kept
        logits = lens(model, part)
        log_p = logits.log_softmax(dim=-1)
        found.append((-(log_p.exp() * log_p).sum(dim=-1), top_tokens(logits, 10)))
    entropy, top = zip(*found, strict=True)
    return torch.cat(entropy), torch.cat(top)


def others(
    neurons: list[Neuron],
    order: Callable[[Neuron], Int[Tensor, " d_mlp"]],
    leave_out: list[Neuron] = (),
    pick: Callable[[list[Neuron]], Neuron] = itemgetter(0),
) -> list[Neuron]:
    """As many other neurons of the same layers, none twice, for a control.

    order: the numbers of a neuron's layer, the best first. pick: chooses from those that are free.
    """
    taken, found = {*neurons, *leave_out}, []
    for neuron in neurons:
        layer = (Neuron(neuron.layer, at) for at in order(neuron).tolist())
        found.append(pick([one for one in layer if one not in taken]))
        taken.add(found[-1])
    return found


def nearest(size: Float[Tensor, "layer d_mlp"]) -> Callable[[Neuron], Int[Tensor, " d_mlp"]]:
    """An order for `others`: a neuron's layer, the nearest in size first."""
    return lambda neuron: (size[neuron.layer] - size[neuron]).abs().argsort()


def size_matched(
    neurons: list[Neuron],
    size: Float[Tensor, "layer d_mlp"],
    leave_out: list[Neuron] = (),
    draw: int = 0,
) -> list[Neuron]:
    """As many other neurons of the same layers, the nearest in size; draw 1, 2 … the next ones.

    size: a number of each neuron, such as what `contributions` gives.
    """
    return others(neurons, nearest(size), leave_out, itemgetter(draw))


def largest(
    neurons: list[Neuron], size: Float[Tensor, "layer d_mlp"], leave_out: list[Neuron] = ()
) -> list[Neuron]:
    """All other neurons of their layers, the largest first."""
    layers, out = {layer for layer, _ in neurons}, {*neurons, *leave_out}
    rest = [Neuron(layer, at) for layer in layers for at in range(size.shape[-1])]
    return sorted((one for one in rest if one not in out), key=lambda one: -size[one])


def lengths(model: Model) -> Float[Tensor, "layer d_mlp"]:
    """How long the value of each neuron is."""
    layers = range(model.config.n_layers)
    return torch.stack([model.mlp_values(layer).norm(dim=-1) for layer in layers])


def contributions(
    model: Model, squares: Float[Tensor, "layer d_mlp"]
) -> Float[Tensor, "layer d_mlp"]:
    """How long what a neuron adds is: the root of its mean squared activation, times its length."""
    return squares.sqrt() * lengths(model)


def joint_size(model: Model, tokens: Int[Tensor, "batch pos"], neurons: list[Neuron]) -> float:
    """How long what neurons of one layer add together is: root mean square over all positions."""
    (layer,) = {neuron.layer for neuron in neurons}
    return _together(_hidden(model, tokens, layer), model.mlp_values(layer), neurons)


def _hidden(model: Model, tokens: Tensor, layer: int) -> Float[Tensor, "batch pos d_mlp"]:
    """The activations of a layer's neurons."""
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
    return cache[f"L{layer}.mlp_hidden"]


def _together(hidden: Tensor, values: Tensor, neurons: list[Neuron]) -> float:
    """`joint_size` of neurons, from the activations and the values of all of their layer."""
    which = [neuron.neuron for neuron in neurons]
    with torch.no_grad():
        added = hidden[..., which] @ values[which]
    return added.square().sum(dim=-1).mean().sqrt().item()


def jointly_size_matched(
    model: Model,
    neuron: Neuron,
    size: Float[Tensor, "layer d_mlp"],
    tokens: Int[Tensor, "batch pos"],
    sets: int = 5,
) -> list[list[Neuron]]:
    """Sets of other neurons of its layer that add, together, as much as one, or just more.

    size: as for `size_matched`; the sets share no neuron, and the largest come first.
    """
    order = [int(at) for at in size[neuron.layer].argsort(descending=True)]
    left = [Neuron(neuron.layer, at) for at in order if at != neuron.neuron]
    hidden, values = _hidden(model, tokens, neuron.layer), model.mlp_values(neuron.layer)
    target, found = _together(hidden, values, [neuron]), []
    for _ in range(sets):
        one = [left.pop(0)]
        while left and _together(hidden, values, one) < target:
            one.append(left.pop(0))
        found.append(one)
    return found
