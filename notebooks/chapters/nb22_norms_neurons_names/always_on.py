"""Notebook 22, section 2: neurons that are always active, what they write, and what they are for.

VISIT, section 5.3: in each of the last layers some neuron is among the 100 most active of 4,096 in
more than 85 % of the prompts; such neurons are long, flat, and read as function words.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model, check_mlp
from aot_helpers.reading.logit_lens import lens, top_tokens

SHARE, LEAST = 100 / 4096, 0.85  # of a layer's neurons, of the prompts: the source's numbers


class Neuron(NamedTuple):
    """One neuron: its layer and its number there, both from 0."""

    layer: int
    neuron: int

    def __str__(self):
        return f"L{self.layer}N{self.neuron}"


def how_often(hidden: Float[Tensor, "*layer passage d_mlp"]) -> Float[Tensor, "*layer d_mlp"]:
    """The share of passages in which each neuron is among the most active: SHARE of them, by size.

    Raises ValueError for activations without a neuron: a model without MLPs.
    """
    if hidden.numel() == 0:
        raise ValueError("there are no neurons here: take a model with MLPs, or more passages")
    k = max(1, round(SHARE * hidden.shape[-1]))
    top = hidden.abs().topk(k, dim=-1).indices
    return torch.zeros_like(hidden).scatter_(-1, top, 1.0).mean(dim=-2)


def dealt_at_random(hidden: Float[Tensor, "*more d_mlp"], seed: int = 0) -> Tensor:
    """The activations of each passage and layer, dealt to the neurons of the layer at random."""
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
    """What one neuron writes, beside the others of its layer."""

    length: float  # of its value, divided by the median of its layer
    longest: float  # the same of the longest value there
    entropy: float  # of its reading, less the median of its layer (nats)
    flattest: float  # the same of the flattest reading there
    words: float  # the share of function words among the ten highest tokens
    wordiest: float  # the largest such share there
    outlier: float  # its largest weight by size, divided by the root mean square
    outlier_at: int  # where in the stream that weight is
    top: list[int]  # the ten highest tokens


def written(
    model: Model,
    neurons: list[Neuron],
    words: Bool[Tensor, " d_vocab"],
    mean: Float[Tensor, "layer d_mlp"],
) -> dict[Neuron, Written]:
    """Length, reading and outliers of each neuron's value, beside the others of its layer.

    mean: mean activations; a neuron whose mean is negative is read in the sign that it writes.
    """
    found, seen = {}, None
    for layer, at in sorted(neurons):
        if layer != seen:
            values, seen = model.mlp_values(layer) * mean[layer].sign()[:, None], layer
            readings = [_reading(model, part) for part in values.split(128)]
            entropy, top = (torch.cat(each) for each in zip(*readings, strict=True))
            entropy, length = entropy - entropy.median(), values.norm(dim=-1)
            length, share = length / length.median(), words[top].float().mean(dim=-1)
        size = values[at].abs() / values[at].square().mean().sqrt()
        found[Neuron(layer, at)] = Written(
            length=length[at].item(),
            longest=length.max().item(),
            entropy=entropy[at].item(),
            flattest=entropy.max().item(),
            words=share[at].item(),
            wordiest=share.max().item(),
            outlier=size.max().item(),
            outlier_at=int(size.argmax()),
            top=top[at].tolist(),
        )
    return found


def readings(model: Model, values: Float[Tensor, "n d_model"]) -> Float[Tensor, " n"]:
    """The entropy (nats) of what the lens reads in each value, a few at a time."""
    return torch.cat([_reading(model, part)[0] for part in values.split(128)])


def _reading(model: Model, values: Float[Tensor, "n d_model"]) -> tuple[Tensor, Tensor]:
    """The entropy (nats) of what the lens reads in each value, and its ten highest tokens."""
    logits = lens(model, values)
    log_p = logits.log_softmax(dim=-1)
    return -(log_p.exp() * log_p).sum(dim=-1), top_tokens(logits, 10)


def others_at_random(
    neurons: list[Neuron], d_mlp: int, seed: int = 0, leave_out: list[Neuron] = ()
) -> list[Neuron]:
    """As many other neurons of the same layers, drawn at random."""
    generator, found = torch.Generator().manual_seed(seed), []
    taken = {*neurons, *leave_out}
    for layer, _ in neurons:
        order = torch.randperm(d_mlp, generator=generator).tolist()
        one = next(Neuron(layer, n) for n in order if Neuron(layer, n) not in taken)
        taken.add(one)
        found.append(one)
    return found


def others_as_long(
    model: Model,
    neurons: list[Neuron],
    leave_out: list[Neuron] = (),
    seed: int = 0,
    among: int = 5,
) -> list[Neuron]:
    """As many other neurons of the same layers, each one of the `among` nearest in length."""
    generator, taken, found = torch.Generator().manual_seed(seed), {*neurons, *leave_out}, []
    for layer, neuron in neurons:
        length = model.mlp_values(layer).norm(dim=-1)
        order = (length - length[neuron]).abs().argsort().tolist()
        near = [n for n in order if Neuron(layer, n) not in taken][:among]
        one = Neuron(layer, near[int(torch.randint(len(near), (1,), generator=generator))])
        taken.add(one)
        found.append(one)
    return found


def contributions(
    model: Model, squares: Float[Tensor, "layer d_mlp"]
) -> Float[Tensor, "layer d_mlp"]:
    """How long what a neuron adds is: the root of its mean squared activation, times its length."""
    lengths = [model.mlp_values(layer).norm(dim=-1) for layer in range(model.config.n_layers)]
    return squares.sqrt() * torch.stack(lengths)


def joint_size(model: Model, tokens: Int[Tensor, "batch pos"], neurons: list[Neuron]) -> float:
    """How long what neurons of one layer add together is: root mean square over all positions."""
    (layer,) = {neuron.layer for neuron in neurons}
    which = [neuron.neuron for neuron in neurons]
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        added = cache[f"L{layer}.mlp_hidden"][..., which] @ model.mlp_values(layer)[which]
    return added.square().sum(dim=-1).mean().sqrt().item()


def others_jointly_as_large(
    model: Model,
    neuron: Neuron,
    size: Float[Tensor, "layer d_mlp"],
    tokens: Int[Tensor, "batch pos"],
    sets: int = 5,
) -> list[list[Neuron]]:
    """Sets of other neurons of its layer that add, together, as much as one, or just more.

    size: as for `others_as_large`; the sets share no neuron, and the largest come first.
    """
    order = [int(at) for at in size[neuron.layer].argsort(descending=True)]
    left = [Neuron(neuron.layer, at) for at in order if at != neuron.neuron]
    target, found = joint_size(model, tokens, [neuron]), []
    for _ in range(sets):
        one = [left.pop(0)]
        while left and joint_size(model, tokens, one) < target:
            one.append(left.pop(0))
        found.append(one)
    return found


def others_as_large(
    neurons: list[Neuron],
    size: Float[Tensor, "layer d_mlp"],
    leave_out: list[Neuron] = (),
    draw: int = 0,
) -> list[Neuron]:
    """As many other neurons of the same layers, the nearest in size; draw 1, 2 … the next ones.

    size: a number of each neuron, such as what `contributions` gives.
    """
    taken, found = {*neurons, *leave_out}, []
    for layer, neuron in neurons:
        order = (size[layer] - size[layer, neuron]).abs().argsort().tolist()
        near = [n for n in order if Neuron(layer, n) not in taken]
        one = Neuron(layer, near[min(draw, len(near) - 1)])
        taken.add(one)
        found.append(one)
    return found


def silence(
    model: Model, neurons: list[Neuron], to: Float[Tensor, "layer d_mlp"] | None = None
) -> Edits:
    """Edits that set neurons to 0, or to their numbers in `to`, such as their means.

    Raises ValueError for a neuron that does not exist.
    """
    by_layer: dict[int, list[int]] = {}
    for layer, neuron in neurons:
        check_mlp(model.config, layer)
        if not 0 <= neuron < model.config.d_mlp:
            last = model.config.d_mlp - 1
            raise ValueError(f"there is no neuron {neuron} in layer {layer}: they are 0 … {last}")
        by_layer.setdefault(layer, []).append(neuron)

    def edit(layer: int, which: list[int]):
        def fixed(hidden: Tensor) -> Tensor:
            hidden = hidden.clone()
            hidden[..., which] = 0 if to is None else to[layer, which]
            return hidden

        return fixed

    return {f"L{layer}.mlp_hidden": edit(layer, which) for layer, which in by_layer.items()}
