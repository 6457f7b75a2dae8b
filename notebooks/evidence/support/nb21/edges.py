"""Evidence of notebook 21: the edges into a prompt's last position, weighed; means over runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Model
from chapters.nb21_information_flow.flow import Run, run_of
from chapters.nb21_information_flow.flow_graph import MEASURES, logit_directions
from chapters.nb21_information_flow.measure import Prompt, Traced, by_place, mean_values


@dataclass(frozen=True)
class LastEdges(Traced):
    """The edges into a run's last position, each weighed by MEASURES, shares signed.

    values: [measure, layer, head, key]. neurons: [measure, layer, neuron], the last axis empty
    without MLPs. aim: the logit of the target less the mean or its rival, in the whole run.
    """

    values: Float[Tensor, "measure layer head key"]
    neurons: Float[Tensor, "measure layer neuron"]
    aim: float

    @property
    def n_edges(self) -> int:
        """How many values and neurons there are."""
        return self.values[0].numel() + self.neurons[0].numel()


def aim_of(logits: Float[Tensor, "*batch d_vocab"], prompt: Prompt) -> Float[Tensor, "*batch"]:
    """The target's logit, less its rival's or else the mean one."""
    rival = logits.mean(dim=-1) if prompt.rival is None else logits[..., prompt.rival]
    return logits[..., prompt.target] - rival


def last_edges(model: Model, prompt: Prompt) -> LastEdges:
    """Weigh every edge into the last position of a prompt."""
    run, c = run_of(model, prompt.tokens), model.config
    toward = logit_directions(run, [prompt.target], prompt.rival)[:, 0]
    values, neurons = [], []
    with torch.no_grad():
        for layer in range(c.n_layers):
            a, v = run.cache[f"L{layer}.pattern"][0, :, -1], run.cache[f"L{layer}.v"][0]
            W_O = model.layer_weights(layer).W_O
            parts = a[..., None] * torch.einsum("khe,hed->hkd", v, W_O)
            values.append(torch.stack([a, parts.norm(dim=-1), parts @ toward]))
            if c.d_mlp:
                active, writes = run.cache[f"L{layer}.mlp_hidden"][0, -1], model.mlp_values(layer)
                norms, shares = active.abs() * writes.norm(dim=-1), active * (writes @ toward)
                neurons.append(torch.stack([active.abs(), norms, shares]))
        aim = aim_of(run.cache["logits"][0, -1], prompt).item()
    none = torch.zeros(len(MEASURES), c.n_layers, 0)
    neurons = torch.stack(neurons, dim=1) if neurons else none
    return LastEdges(run, prompt, torch.stack(values, dim=1), neurons, aim)


class Means(NamedTuple):
    """Mean values and activations: at the first position (0), and at all others (1)."""

    values: Float[Tensor, "layer place head d_head"]
    neurons: Float[Tensor, "layer place neuron"]  # the last axis is empty without MLPs


def means_of(runs: Sequence[Run]) -> Means:
    """The means over some runs, the first position apart: it is an attention sink."""
    c = runs[0].model.config
    if not c.d_mlp:
        return Means(mean_values(runs), torch.zeros(c.n_layers, 2, 0))
    hidden = ([run.cache[f"L{i}.mlp_hidden"][0] for run in runs] for i in range(c.n_layers))
    return Means(mean_values(runs), torch.stack([by_place(rows) for rows in hidden]))
