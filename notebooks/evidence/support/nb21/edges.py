"""Evidence of notebook 21: a prompt's graphs, and the edges into its last position, weighed."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Model
from chapters.nb21_information_flow.flow import Run, run_of
from chapters.nb21_information_flow.flow_graph import (
    MEASURES,
    Graph,
    flow_graph,
    logit_directions,
    prune,
)
from chapters.nb21_information_flow.measure import Prompt

MOST, LEAST = 4, 0.1  # of the graphs whose edges are tested alone


@dataclass(frozen=True)
class LastEdges:
    """A prompt's run, and the edges into its last position, weighed by MEASURES, shares signed.

    values: [measure, layer, head, key]. neurons: [measure, layer, neuron], the last axis empty
    without MLPs. aim: the logit of the target less the mean or its rival, in the whole run.
    """

    run: Run
    prompt: Prompt
    values: Float[Tensor, "measure layer head key"]
    neurons: Float[Tensor, "measure layer neuron"]
    aim: float

    @cached_property
    def unpruned(self) -> Graph:
        """The graph of the prompt, with the edges that any measure keeps."""
        return flow_graph(self.run, [self.prompt.target], MOST, LEAST, against=self.prompt.rival)

    @cached_property
    def graph(self) -> Graph:
        """The graph of the prompt that is tested: by the share of the target's logit."""
        return prune(self.unpruned, "share", MOST, LEAST)

    @cached_property
    def graph_without_keys(self) -> Graph:
        """The same without why heads look."""
        target, rival = self.prompt.target, self.prompt.rival
        whole = flow_graph(self.run, [target], MOST, LEAST, keys=False, against=rival)
        return prune(whole, "share", MOST, LEAST)

    def graph_for(self, target: int) -> Graph:
        """The graph that is drawn for another token's logit, from the mean logit."""
        return prune(flow_graph(self.run, [target], MOST, LEAST), "share", MOST, LEAST)

    @cached_property
    def second_guess(self) -> int:
        """The token with the largest logit beside the target's."""
        logits = self.run.cache["logits"][0, -1].clone()
        logits[self.prompt.target] = -torch.inf
        return int(logits.argmax())

    @cached_property
    def graph_for_second_guess(self) -> Graph:
        """The graph that is drawn for the second guess."""
        return self.graph_for(self.second_guess)

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
