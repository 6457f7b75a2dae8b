"""What is kept of a run: the edges of graphs, as many random ones, and runs with these alone."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits
from chapters.nb21_information_flow.flow import Run
from chapters.nb21_information_flow.flow_graph import Graph, prune
from evidence.support.nb21.edges import LastEdges, aim_of

RANDOM = "random"
ROOM = 4_000_000  # logits at once: 16 MB

# True at what is kept: values [layer, head, query, key] and neurons [layer, pos, neuron].
Masks = tuple[Tensor, Tensor]


def graph_masks(graph: Graph) -> Masks:
    """True at the values and neurons that a graph shows, at every position of the text."""
    c, n_pos = graph.run.model.config, len(graph.run.tokens)
    values = torch.zeros(c.n_layers, c.n_heads, n_pos, n_pos, dtype=torch.bool)
    neurons = torch.zeros(c.n_layers, n_pos, c.d_mlp, dtype=torch.bool)
    for edge in graph.edges:
        into, source = graph.nodes[edge.into], graph.nodes[edge.source]
        if into.kind == "head" and edge.kind == "part":
            values[into.layer, into.number, into.pos, source.pos] = True
        elif source.kind == "neuron":
            neurons[source.layer, source.pos, source.number] = True
    return values, neurons


def n_kept(masks: Masks) -> int:
    """How many values and neurons are kept."""
    return sum(int(mask.sum()) for mask in masks)


def random_masks(
    values: Bool[Tensor, "layer head query key"],
    neurons: Bool[Tensor, "layer pos neuron"],
    seed: int,
) -> Masks:
    """As many random edges: the same number in each layer, at the last and at earlier positions."""
    draw, n_pos = torch.Generator().manual_seed(seed), values.shape[-1]
    seen = torch.ones(n_pos, n_pos, dtype=torch.bool).tril().expand(values.shape)
    last = (torch.arange(n_pos) == n_pos - 1)[:, None]
    new = []
    for old, allowed in ((values, seen), (neurons, torch.ones_like(neurons))):
        drawn = torch.zeros_like(old)
        for layer in range(len(old)):
            for where in (last, ~last):
                free = (allowed[layer] & where).flatten().nonzero().flatten()
                n = int((old[layer] & where).sum())
                some = free[torch.randperm(len(free), generator=draw)[:n]]
                drawn[layer].view(-1)[some] = True
        new.append(drawn)
    return new[0], new[1]


def pruned_to_size(graph: Graph, by: str, n: int) -> Graph:
    """The graph pruned by a measure to about n values and neurons, as near as pruning comes."""
    best = None
    for most in range(1, graph.most + 1):
        for least in (x / 20 for x in range(round(20 * graph.least), 21)):
            small = prune(graph, by, most, max(least, graph.least))
            off = abs(n_kept(graph_masks(small)) - n)
            if best is None or off < best[0]:
                best = off, small
    return best[1]


def graphs_and_masks(
    edges: LastEdges, other: int, draws: int, seed: int
) -> tuple[list[str], list[Masks]]:
    """The graphs of a prompt by name, and their masks. other: a target of another prompt."""
    masks = {
        "with keys": graph_masks(edges.graph),
        "without keys": graph_masks(edges.graph_without_keys),
        "another target": graph_masks(edges.graph_for(other)),
    }
    own, without = masks["with keys"], masks["without keys"]
    masks["attention"] = graph_masks(pruned_to_size(edges.unpruned, "coefficient", n_kept(own)))
    more = [a & ~b for a, b in zip(own, without, strict=True)]
    filled = zip(without, random_masks(*more, seed=seed), strict=True)
    masks["without keys, filled by lot"] = tuple(a | b for a, b in filled)
    masks["nothing"] = tuple(torch.zeros_like(mask) for mask in own)
    lots = [random_masks(*own, seed=seed + i) for i in range(draws)]
    return [*masks, *[RANDOM] * draws], [*masks.values(), *lots]


def another_target(measured: Sequence[LastEdges], i: int) -> int:
    """A target of another prompt."""
    mine = measured[i].prompt.target, measured[i].prompt.rival
    others = [e.prompt.target for e in measured if e.prompt.target not in mine]
    return others[i % len(others)]


def keep(
    values: Bool[Tensor, "run layer head key"], neurons: Bool[Tensor, "run layer neuron"] | None
) -> Edits:
    """Edits that keep only these edges into the last position, in a batch of as many runs.

    neurons: None keeps all.
    """
    runs, layers, heads, n_pos = values.shape
    every = torch.ones(runs, layers, heads, n_pos, n_pos, dtype=torch.bool)
    every[..., -1, :] = values
    n_neurons = 0 if neurons is None else neurons.shape[-1]
    active = torch.ones(runs, layers, n_pos, n_neurons, dtype=torch.bool)
    if n_neurons:
        active[:, :, -1] = neurons
    return mask_edits(every, active)


@torch.no_grad()
def aims(
    edges: LastEdges, edits: Callable[..., Edits], *masks: Bool[Tensor, "run ..."]
) -> tuple[Float[Tensor, " run"], Int[Tensor, " run"]]:
    """The aim in each run with its masks, and the first guess.

    edits: makes the edits of some runs of their masks, such as `keep`.
    """
    model = edges.run.model
    size = len(edges.run.tokens) * model.config.d_vocab
    found, at_once = [], max(1, min(48, ROOM // size))
    for some in zip(*(mask.split(at_once) for mask in masks), strict=True):
        tokens = edges.run.tokens.expand(len(some[0]), -1)
        logits = model(tokens, edits=edits(*some))[:, -1]
        found.append((aim_of(logits, edges.prompt), logits.argmax(dim=-1)))
    aim, guess = (torch.cat(part) for part in zip(*found, strict=True))
    return aim, guess


class Means(NamedTuple):
    """Mean values and activations: at the first position (0), and at all others (1)."""

    values: Float[Tensor, "layer place head d_head"]
    neurons: Float[Tensor, "layer place neuron"]  # the last axis is empty without MLPs


def means_of(runs: Sequence[Run]) -> Means:
    """The means over some runs, the first position apart: many heads use it as a sink."""
    c = runs[0].model.config

    def by_place(name):
        rows = [run.cache[name][0] for run in runs]
        first = torch.stack([row[0] for row in rows]).mean(dim=0)
        return torch.stack([first, torch.cat([row[1:] for row in rows]).mean(dim=0)])

    values = torch.stack([by_place(f"L{i}.v") for i in range(c.n_layers)])
    if not c.d_mlp:
        return Means(values, torch.zeros(c.n_layers, 2, 0))
    return Means(values, torch.stack([by_place(f"L{i}.mlp_hidden") for i in range(c.n_layers)]))


def mask_edits(
    values: Bool[Tensor, "run layer head query key"], neurons: Bool[Tensor, "run layer pos neuron"]
) -> Edits:
    """Edits that set everything else in patterns and neurons to zero, for a batch of as many runs.

    A head whose values are all dropped writes nothing; what others write is read by all.
    """
    edits = {}
    for i in range(values.shape[1]):
        edits[f"L{i}.pattern"] = lambda old, m=values[:, i]: old * m
        if neurons.shape[-1]:
            edits[f"L{i}.mlp_hidden"] = lambda old, m=neurons[:, i]: old * m
    return edits


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


def alone(
    edges: LastEdges,
    kept: Sequence[Masks],
    others: Sequence[LastEdges] | None = None,
) -> tuple[Float[Tensor, " masks"], Int[Tensor, " masks"]]:
    """The aim and the first guess with nothing but what each of some masks keeps.

    others: the rest is at its mean over these runs; None: at zero.
    """
    edits = mask_edits
    if others is not None:
        edits = partial(mean_edits, means=means_of([each.run for each in others]))
    return aims(edges, edits, *map(torch.stack, zip(*kept, strict=True)))
