"""Graphs to be run alone: which edges each of them keeps, and as many random ones."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool
from torch import Tensor

from chapters.nb21_information_flow.flow_graph import Graph, flow_graph, prune
from chapters.nb21_information_flow.measure import Traced

MOST, LEAST = 4, 0.1  # of the graphs whose edges are tested alone
RANDOM = "random"


def pruned(edges: Traced, keys: bool = True, target: int | None = None) -> Graph:
    """The graph of a prompt that is tested: by the share of the target's logit, or of another's,
    from the mean logit. Drawn once.
    """
    token, rival = (edges.prompt.target, edges.prompt.rival) if target is None else (target, None)
    if (keys, token, rival) not in edges.drawn:
        whole = flow_graph(edges.run, [token], MOST, LEAST, keys, rival)
        edges.drawn[keys, token, rival] = prune(whole, "share", 0, MOST, LEAST)
    return edges.drawn[keys, token, rival]


def graph_masks(
    graph: Graph,
) -> tuple[Bool[Tensor, "layer head query key"], Bool[Tensor, "layer pos neuron"]]:
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


def n_kept(graph: Graph) -> int:
    """How many values and neurons a graph shows."""
    ends = ((e, graph.nodes[e.into].kind, graph.nodes[e.source].kind) for e in graph.edges)
    return sum(
        (e.kind == "part" and into == "head") or source == "neuron" for e, into, source in ends
    )


def random_masks(
    values: Bool[Tensor, "layer head query key"],
    neurons: Bool[Tensor, "layer pos neuron"],
    seed: int,
) -> tuple[Bool[Tensor, "layer head query key"], Bool[Tensor, "layer pos neuron"]]:
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
            small = prune(graph, by, 0, most, max(least, graph.least))
            off = abs(n_kept(small) - n)
            if best is None or off < best[0]:
                best = off, small
    return best[1]


def graphs_of(
    measured: Sequence[Traced], i: int, draws: int = 5, seed: int = 0
) -> list[tuple[str, Tensor]]:
    """Of prompt i of a model without MLPs: graphs to be run alone, [(name, the values kept)]."""
    names, kept, _ = graphs_and_masks(measured[i], another_target(measured, i), draws, seed + i)
    return [(name, values) for name, (values, _) in zip(names, kept, strict=True)]


def graphs_and_masks(
    edges: Traced, other: int, draws: int, seed: int
) -> tuple[list[str], list[tuple[Tensor, Tensor]], Graph]:
    """The graphs of a prompt by name, their `graph_masks`, and the first as it is.

    other: a target of another prompt.
    """
    prompt = edges.prompt
    whole = flow_graph(edges.run, [prompt.target], MOST, LEAST, against=prompt.rival)
    own = prune(whole, "share", 0, MOST, LEAST)
    edges.drawn[True, prompt.target, prompt.rival] = own
    masks = {
        "with keys": graph_masks(own),
        "without keys": graph_masks(pruned(edges, keys=False)),
        "another target": graph_masks(pruned(edges, target=other)),
    }
    n = sum(int(mask.sum()) for mask in masks["with keys"])
    same_size = pruned_to_size(whole, "coefficient", n)
    masks["attention"] = graph_masks(same_size)
    more = [a & ~b for a, b in zip(masks["with keys"], masks["without keys"], strict=True)]
    filled = zip(masks["without keys"], random_masks(*more, seed=seed), strict=True)
    masks["without keys, filled by lot"] = tuple(a | b for a, b in filled)
    masks["nothing"] = tuple(torch.zeros_like(mask) for mask in masks["with keys"])
    lots = [random_masks(*masks["with keys"], seed=seed + i) for i in range(draws)]
    return [*masks, *[RANDOM] * draws], [*masks.values(), *lots], own


def another_target(measured: Sequence[Traced], i: int) -> int:
    """A target of another prompt."""
    mine = measured[i].prompt.target, measured[i].prompt.rival
    others = [e.prompt.target for e in measured if e.prompt.target not in mine]
    return others[i % len(others)]
