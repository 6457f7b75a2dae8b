"""Evidence of notebook 23: neurons that are always active, what they write, and what they are for.

VISIT, section 5.3: in each of the last layers some neuron is among the 100 most active of 4,096 in
more than 85 % of the prompts; such neurons are long, flat, and read as function words.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Model, check_mlp
from aot_helpers.reading.logit_lens import lens, top_tokens
from chapters.nb23_always_on_neurons.constant import Neuron
from chapters.passages.texts import pieces

SHARE, LEAST = 100 / 4096, 0.85  # of a layer's neurons, of the prompts: the source's numbers


def how_often(hidden: Float[Tensor, "*layer passage d_mlp"]) -> Float[Tensor, "*layer d_mlp"]:
    """The share of passages in which each neuron is among the most active: SHARE of them, by size.

    Raises ValueError for activations without a neuron: a model without MLPs.
    """
    if hidden.numel() == 0:
        raise ValueError("there are no neurons here: take a model with MLPs, or more passages")
    k = max(1, round(SHARE * hidden.shape[-1]))
    top = hidden.abs().topk(k, dim=-1).indices
    return torch.zeros_like(hidden).scatter_(-1, top, 1.0).mean(dim=-2)


def relative(hidden: Float[Tensor, "*layer passage d_mlp"]) -> Tensor:
    """Activations by size, divided by the least of the most active of their layer and passage.

    From 1 on, a neuron is among the most active.
    """
    k = max(1, round(SHARE * hidden.shape[-1]))
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


class Written(NamedTuple):
    """One neuron, and what it writes beside the others of its layer."""

    name: str
    layer: int
    often: float  # the share of passages in which it is among the most active
    mean: float  # its activation
    length: float  # of its value, divided by the median of its layer
    longest: float  # the same of the longest value there
    entropy: float  # of its reading, less the median of its layer (nats)
    flattest: float  # the same of the flattest reading there
    words: float  # the share of function words among the ten highest tokens
    wordiest: float  # the largest such share there
    outlier: float  # its largest weight by size, divided by the root mean square
    outlier_at: int  # where in the stream that weight is
    top: list[str]  # the ten highest tokens


def written(
    model: Model,
    neurons: list[Neuron],
    words: Bool[Tensor, " d_vocab"],
    mean: Float[Tensor, "layer d_mlp"],
    often: Float[Tensor, "layer d_mlp"],
) -> list[Written]:
    """Length, reading and outliers of each neuron's value, beside the others of its layer.

    mean: mean activations; a neuron whose mean is negative is read in the sign that it writes.
    """
    layers = {layer: None for layer, _ in neurons}
    for layer in layers:
        values = model.mlp_values(layer) * mean[layer].sign()[:, None]
        entropy, top = readings(model, values)
        length, share = values.norm(dim=-1), words[top].float().mean(dim=-1)
        size = values.abs() / values.square().mean(dim=-1, keepdim=True).sqrt()
        layers[layer] = length / length.median(), entropy - entropy.median(), share, size, top
    found = []
    for layer, at in neurons:
        length, entropy, share, size, top = layers[layer]
        found.append(
            Written(
                name=str(Neuron(layer, at)),
                layer=layer,
                often=often[layer, at].item(),
                mean=mean[layer, at].item(),
                length=length[at].item(),
                longest=length.max().item(),
                entropy=entropy[at].item(),
                flattest=entropy.max().item(),
                words=share[at].item(),
                wordiest=share.max().item(),
                outlier=size[at].max().item(),
                outlier_at=int(size[at].argmax()),
                top=model.tokenizer.token_strings(top[at]),
            )
        )
    return found


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


def mean_activations(
    model: Model, tokens: Int[Tensor, "batch pos"], power: int = 1
) -> Float[Tensor, "layer d_mlp"]:
    """Each neuron's mean activation over all positions of the texts, or that of its power.

    Raises ValueError for a model without MLPs.
    """
    check_mlp(model.config, 0)
    total = torch.zeros(model.config.n_layers, model.config.d_mlp)
    with torch.no_grad():
        for piece in pieces(tokens, model.config.d_vocab):
            _, cache = model.run_with_cache(tokens[piece])
            for i in range(model.config.n_layers):
                total[i] += cache[f"L{i}.mlp_hidden"].pow(power).sum(dim=(0, 1))
    return total / tokens.numel()


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
