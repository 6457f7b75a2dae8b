"""What a flow graph says of each head, beside what the head is worth in a run without it."""

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.reading import logit_lens as lens
from chapters.nb21_information_flow.ablation import LastEdges, aims, chunk, keep
from chapters.nb21_information_flow.flow_graph import logit_directions


def head_facts(
    model: Model, edges: LastEdges, other: int
) -> dict[str, Float[Tensor, "layer head"]]:
    """What the graph says of each head at the last position, and what the head is worth.

    "rank" and "share" of the target, "other rank" and "other share" of the token `other` (counted
    from the mean logit: the target's rival is no part of it), the "norm" of what the head writes,
    and "lost": how much lower the aim is with the head at zero.
    """
    run, c = edges.run, model.config
    wrote = torch.stack([run.heads(layer)[:, -1] for layer in range(c.n_layers)])
    tokens = [edges.prompt.target, other]
    given = logit_directions(run, tokens[:1], edges.prompt.rival)
    both = torch.cat([given, logit_directions(run, [other])], dim=1)
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
