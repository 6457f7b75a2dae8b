"""A graph's edges alone, as in checks.py, with all that is dropped at its mean instead of at zero.

Zero is what a model never sees. A dropped entry of a pattern keeps its attention, and carries the
head's mean value; a dropped neuron has its mean activation.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model
from chapters.nb21_information_flow.ablation import LastEdges, aims
from chapters.nb21_information_flow.flow import Run


class Means(NamedTuple):
    """Mean values and activations: at the first position (0), and at all others (1)."""

    values: Float[Tensor, "layer place head d_head"]
    neurons: Float[Tensor, "layer place neuron"]  # the last axis is empty without MLPs


def means_of(runs: Sequence[Run]) -> Means:
    """The means over some runs, the first position apart: it is an attention sink."""
    c = runs[0].model.config
    values = [_by_place([run.cache[f"L{i}.v"][0] for run in runs]) for i in range(c.n_layers)]
    if not c.d_mlp:
        return Means(torch.stack(values), torch.zeros(c.n_layers, 2, 0))
    hidden = ([run.cache[f"L{i}.mlp_hidden"][0] for run in runs] for i in range(c.n_layers))
    return Means(torch.stack(values), torch.stack([_by_place(rows) for rows in hidden]))


def _by_place(rows: Sequence[Float[Tensor, "pos ..."]]) -> Float[Tensor, "two ..."]:
    first = torch.stack([row[0] for row in rows]).mean(dim=0)
    return torch.stack([first, torch.cat([row[1:] for row in rows]).mean(dim=0)])


def mean_edits(values: Tensor, neurons: Tensor, means: Means) -> Edits:
    """Edits that put everything but the masked values and neurons at its mean, as `mask_edits`."""
    edits, dropped = {}, {}

    def keep(old, layer):
        dropped[layer] = old * ~values[:, layer]  # [run, head, query, key]
        return old * values[:, layer]

    def fill(old, layer):
        by_key, mean = dropped.pop(layer), means.values[layer]
        rest = by_key[..., 1:].sum(dim=-1)
        for place, weight in enumerate((by_key[..., 0], rest)):
            old = old + weight.transpose(1, 2)[..., None] * mean[place]
        return old

    def put(old, layer):
        mean = means.neurons[layer, torch.arange(old.shape[1]).clamp(max=1)]
        return torch.where(neurons[:, layer], old, mean)

    for i in range(values.shape[1]):
        edits[f"L{i}.pattern"], edits[f"L{i}.z"] = partial(keep, layer=i), partial(fill, layer=i)
        if neurons.shape[-1]:
            edits[f"L{i}.mlp_hidden"] = partial(put, layer=i)
    return edits


def attend_edits(
    attend: Callable[..., Tensor],
    kept: Bool[Tensor, "layer head query key"],
    rest: Float[Tensor, "layer place head d_head"],
) -> Edits:
    """Edits of one run by which attend(pattern, v, kept, rest) makes the z of each layer.

    rest: what dropped edges carry, from the first position and from all others; patterns and v are
    those of this run.
    """
    edits, now = {}, {}

    def remember(old, name):
        now[name] = old[0]
        return old

    def put(old, layer):
        v = now[f"L{layer}.v"]
        by_key = rest[layer, torch.arange(len(v)).clamp(max=1)]
        return attend(now[f"L{layer}.pattern"], v, kept[layer], by_key)[None]

    for i in range(len(kept)):
        for name in (f"L{i}.pattern", f"L{i}.v"):
            edits[name] = partial(remember, name=name)
        edits[f"L{i}.z"] = partial(put, layer=i)
    return edits


def alone_at_means(
    model: Model,
    edges: LastEdges,
    kept: Sequence[tuple[Tensor, Tensor]],
    others: Sequence[LastEdges],
) -> tuple[Float[Tensor, " masks"], Float[Tensor, " masks"]]:
    """(aim, is the target the first guess) with each of some masks, the rest at others' means."""
    edits = partial(mean_edits, means=means_of([each.run for each in others]))
    return aims(model, edges, edits, *map(torch.stack, zip(*kept, strict=True)))
