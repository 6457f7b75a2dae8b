"""Heads and MLPs set to their mean instead of zero."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Model
from chapters.nb21_information_flow.ablation import aims, last_edges
from chapters.nb21_information_flow.flow import run_of
from chapters.nb21_information_flow.flow_graph import logit_directions
from chapters.nb21_information_flow.templates import Prompt


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
