"""What heads and MLPs are worth at the last position: set to zero, and to their mean."""

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Edits
from aot_helpers.reading import logit_lens as lens
from chapters.nb21_information_flow.flow import Run
from chapters.nb21_information_flow.flow_graph import logit_directions
from evidence.support.nb21.edges import LastEdges
from evidence.support.nb21.masks import aims, keep


def head_facts(edges: LastEdges, other: int) -> dict[str, Float[Tensor, "layer head"]]:
    """What the graph says of each head at the last position, and what the head is worth.

    "rank" and "share" of the target, "other rank" and "other share" of the token `other` (counted
    from the mean logit: the target's rival is no part of it), the "norm" of what the head writes,
    and "lost": how much lower the aim is with the head at zero.
    """
    run, c = edges.run, edges.run.model.config
    wrote = run.heads[:, :, -1]
    tokens = [edges.prompt.target, other]
    given = logit_directions(run, tokens[:1], edges.prompt.rival)
    both = torch.cat([given, logit_directions(run, [other])], dim=1)
    # A layer at a time: a large vocabulary takes room.
    logits = (lens.lens(run.model, layer) for layer in wrote)
    ranks = torch.stack([torch.stack([lens.rank(x, t) for t in tokens], -1) for x in logits])
    ranks = ranks.float()
    shares = (wrote @ both).unbind(dim=-1)
    n = c.n_layers * c.n_heads
    masks = torch.ones(n, n, dtype=torch.bool).fill_diagonal_(False)
    masks = masks.view(n, c.n_layers, c.n_heads, 1).expand(-1, -1, -1, len(run.tokens))
    aim, _ = aims(edges, partial(keep, neurons=None), masks)
    return {
        "rank": ranks[..., 0],
        "other rank": ranks[..., 1],
        "share": shares[0],
        "other share": shares[1],
        "norm": wrote.norm(dim=-1),
        "lost": (edges.aim - aim).view(c.n_layers, c.n_heads),
    }


def kept_writers(
    measured: Sequence[LastEdges],
    part: float,
    draws: int,
    seed: int,
) -> dict[str, Float[Tensor, "prompt run"]]:
    """The aim with part of the heads and MLPs at the last position, the rest at their mean.

    The mean is that over the other prompts' last positions. "share" and "norm": those that add most
    to the target's logit, those that write the longest vectors; "random": draw by draw; "whole" and
    "none": all stay, and none.
    """
    draw = torch.Generator().manual_seed(seed)
    found = {name: [] for name in ("whole", "none", "share", "norm", "random")}
    last = [_last_writes(edges.run) for edges in measured]
    for i, edges in enumerate(measured):
        rest = [last[j] for j in range(len(last)) if j != i]
        means = [torch.stack(parts).mean(dim=0) for parts in zip(*rest, strict=True)]
        each = torch.cat([edges.run.heads[:, :, -1].flatten(0, 1), last[i][1]])
        toward = logit_directions(edges.run, [edges.prompt.target], edges.prompt.rival)[:, 0]
        sizes = (each @ toward).abs(), each.norm(dim=-1)
        orders = [size.argsort(descending=True) for size in sizes]
        orders += [torch.randperm(len(each), generator=draw) for _ in range(draws)]
        stays = torch.zeros(2 + len(orders), len(each), dtype=torch.bool)
        stays[0] = True
        for row, order in zip(stays[2:], orders, strict=True):
            row[order[: round(part * len(each))]] = True
        edits = partial(_at_means, model=edges.run.model, mean_z=means[0], mean_mlp=means[1])
        aim, _ = aims(edges, edits, stays)
        for name, values in zip(found, aim.split([1, 1, 1, 1, draws]), strict=True):
            found[name].append(values)
    return {name: torch.stack(values) for name, values in found.items()}


def _last_writes(run: Run) -> tuple[Tensor, Tensor]:
    """The z [layer, head, d_head] and what MLPs write [layer or none, d_model], at the end."""
    cache, c = run.cache, run.model.config
    z = torch.stack([cache[f"L{i}.z"][0, -1] for i in range(c.n_layers)])
    mlps = [cache[f"L{i}.mlp_out"][0, -1] for i in range(c.n_layers if c.d_mlp else 0)]
    return z, torch.stack(mlps) if mlps else torch.zeros(0, c.d_model)


def _at_means(stays, model, mean_z, mean_mlp) -> Edits:
    c = model.config
    n_heads = c.n_layers * c.n_heads
    heads = stays[:, :n_heads].view(-1, c.n_layers, c.n_heads, 1)
    edits = {}
    for i in range(c.n_layers):
        edits[f"L{i}.z"] = partial(_put_last, stays=heads[:, i], mean=mean_z[i])
        if c.d_mlp:
            stay = stays[:, n_heads + i, None]
            edits[f"L{i}.mlp_out"] = partial(_put_last, stays=stay, mean=mean_mlp[i])
    return edits


def _put_last(old: Tensor, stays: Tensor, mean: Tensor) -> Tensor:
    new = old.clone()
    new[:, -1] = torch.where(stays, old[:, -1], mean)
    return new
