"""Causal tests of whole flow graphs, of single edges, and of heads by what a graph says of them."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model
from aot_helpers.reading import lens
from aot_helpers.reading.flow import run_of
from aot_helpers.reading.flow_graph import MEASURES, Graph, logit_directions
from aot_helpers.studies.flow_ablation import LastEdges, aims, chunk, keep, last_edges
from aot_helpers.studies.flow_prompts import Prompt

SHARE, NORM = MEASURES.index("share"), MEASURES.index("norm")


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


def by_lot(
    values: Bool[Tensor, "layer head query key"],
    neurons: Bool[Tensor, "layer pos neuron"],
    seed: int,
) -> tuple[Bool[Tensor, "layer head query key"], Bool[Tensor, "layer pos neuron"]]:
    """As many edges by lot: the same number in each layer, at the last and at earlier positions."""
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


def mask_edits(
    values: Bool[Tensor, "layer head query key"], neurons: Bool[Tensor, "layer pos neuron"]
) -> Edits:
    """Edits that set everything else in patterns and neurons to zero, for a batch of 1.

    A head whose values are all dropped writes nothing; what others write is read by all.
    """
    edits = {f"L{i}.pattern": lambda old, m=m: old * m for i, m in enumerate(values)}
    if neurons.shape[-1]:
        edits |= {f"L{i}.mlp_hidden": lambda old, m=m: old * m for i, m in enumerate(neurons)}
    return edits


def with_only(model: Model, edges: LastEdges, graph: Graph, draws: int, seed: int) -> list[float]:
    """The aim with a graph's edges alone, and with as many by lot, draw by draw."""
    kept = graph_masks(graph)
    each = [kept, *(by_lot(*kept, seed=seed + i) for i in range(draws))]
    return [aims(model, edges, mask_edits(*masks), 1)[0].item() for masks in each]


def without_all(model: Model, edges: LastEdges, graph: Graph) -> float:
    """The aim without any edge, at any position: the floor of `with_only`."""
    none = (torch.zeros_like(mask) for mask in graph_masks(graph))
    return aims(model, edges, mask_edits(*none), 1)[0].item()


def one_edge(
    model: Model, edges: LastEdges, draws: int, seed: int
) -> tuple[bool, list[bool], Float[Tensor, " run"]]:
    """Does the strongest value stand on the target, do random ones, and the aim without each.

    The strongest is the one that adds most to the aim. The first of the runs is without it, the
    others each without a random other one.
    """
    share, target = edges.values[SHARE], edges.prompt.target
    draw = torch.Generator().manual_seed(seed)
    best = int(share.argmax())
    others = torch.randperm(share.numel(), generator=draw).tolist()
    chosen = [best, *[i for i in others if i != best][:draws]]
    stands = [int(edges.run.tokens[i % share.shape[-1]]) == target for i in chosen]
    masks = torch.ones(len(chosen), share.numel(), dtype=torch.bool)
    masks[range(len(chosen)), chosen] = False
    edits = keep(masks.view(-1, *share.shape), None)
    return stands[0], stands[1:], aims(model, edges, edits, len(chosen))[0]


def head_facts(
    model: Model, edges: LastEdges, other: int
) -> dict[str, Float[Tensor, "layer head"]]:
    """What the graph says of each head at the last position, and what the head is worth.

    "rank" and "share" of the target, "other rank" and "other share" of the token `other`, the
    "norm" of what the head writes, and "lost": how much lower the aim is with the head at zero.
    """
    run, c = edges.run, model.config
    wrote = torch.stack([run.heads(layer)[:, -1] for layer in range(c.n_layers)])
    tokens = [edges.prompt.target, other]
    both = logit_directions(run, tokens, edges.prompt.rival)
    # A layer at a time: a large vocabulary takes room.
    logits = (lens.lens(model, layer) for layer in wrote)
    ranks = torch.stack([torch.stack([lens.rank(x, t) for t in tokens], -1) for x in logits])
    ranks = ranks.float()
    shares = (wrote @ both).unbind(dim=-1)
    n = c.n_layers * c.n_heads
    masks = torch.ones(n, n, dtype=torch.bool).fill_diagonal_(False)
    masks = masks.view(n, c.n_layers, c.n_heads, 1).expand(-1, -1, -1, len(run.tokens))
    aim = torch.cat(
        [aims(model, edges, keep(m, None), len(m))[0] for m in masks.split(chunk(edges))]
    )
    return {
        "rank": ranks[..., 0],
        "other rank": ranks[..., 1],
        "share": shares[0],
        "other share": shares[1],
        "norm": wrote.norm(dim=-1),
        "lost": (edges.aim - aim).view(c.n_layers, c.n_heads),
    }


def rank_correlation(a: Float[Tensor, "*shape"], b: Float[Tensor, "*shape"]) -> float:
    """Spearman's correlation: of the ranks, equal values sharing theirs."""

    def ranks(x):
        x = x.flatten()
        return (x[:, None] > x).float().sum(1) + 0.5 * (x[:, None] == x).float().sum(1)

    pair = torch.stack([ranks(a), ranks(b)])
    return torch.corrcoef(pair)[0, 1].nan_to_num(0).item()


def kept_writers(
    model: Model, prompts: Sequence[Prompt], part: float, draws: int, seed: int
) -> dict[str, Float[Tensor, "prompt run"]]:
    """The aim with part of the heads and MLPs at the last position, the rest at their mean.

    The mean is that over the other prompts' last positions. "share" and "norm": those that add most
    to the target's logit, those that write the longest vectors; "random": draw by draw; "whole" and
    "none": all stay, and none.
    """
    draw, c = torch.Generator().manual_seed(seed), model.config
    found = {name: [] for name in ("whole", "none", "share", "norm", "random")}
    last = [_last_writes(model, prompt) for prompt in prompts]
    for i, prompt in enumerate(prompts):
        rest = [last[j] for j in range(len(last)) if j != i]
        means = [torch.stack(parts).mean(dim=0) for parts in zip(*rest, strict=True)]
        edges = last_edges(model, prompt)
        heads = torch.stack([edges.run.heads(layer)[:, -1] for layer in range(c.n_layers)])
        each = torch.cat([heads.flatten(0, 1), last[i][1]])
        toward = logit_directions(edges.run, [prompt.target], prompt.rival)[:, 0]
        sizes = (each @ toward).abs(), each.norm(dim=-1)
        orders = [size.argsort(descending=True) for size in sizes]
        orders += [torch.randperm(len(each), generator=draw) for _ in range(draws)]
        stays = torch.zeros(2 + len(orders), len(each), dtype=torch.bool)
        stays[0] = True
        for row, order in zip(stays[2:], orders, strict=True):
            row[order[: round(part * len(each))]] = True
        aim = _at_means(model, edges, stays, *means)
        for name, values in zip(found, aim.split([1, 1, 1, 1, draws]), strict=True):
            found[name].append(values)
    return {name: torch.stack(values) for name, values in found.items()}


def _last_writes(model: Model, prompt: Prompt) -> tuple[Tensor, Tensor]:
    """The z [layer, head, d_head] and what MLPs write [layer or none, d_model], at the end."""
    cache, c = run_of(model, prompt.tokens).cache, model.config
    z = torch.stack([cache[f"L{i}.z"][0, -1] for i in range(c.n_layers)])
    mlps = [cache[f"L{i}.mlp_out"][0, -1] for i in range(c.n_layers if c.d_mlp else 0)]
    return z, torch.stack(mlps) if mlps else torch.zeros(0, c.d_model)


def _at_means(model, edges, stays, mean_z, mean_mlp) -> Float[Tensor, " run"]:
    c = model.config
    n_heads = c.n_layers * c.n_heads
    heads = stays[:, :n_heads].view(-1, c.n_layers, c.n_heads, 1)
    edits = {}
    for i in range(c.n_layers):
        edits[f"L{i}.z"] = _last(heads[:, i], mean_z[i])
        if c.d_mlp:
            edits[f"L{i}.mlp_out"] = _last(stays[:, n_heads + i, None], mean_mlp[i])
    return aims(model, edges, edits, len(stays))[0]


def _last(stays: Tensor, mean: Tensor):
    def edit(old):
        new = old.clone()
        new[:, -1] = torch.where(stays, old[:, -1], mean)
        return new

    return edit
