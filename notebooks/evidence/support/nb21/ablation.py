"""Are a flow graph's kept edges the ones that count: runs of the model with only some of them.

The edges here are those into the last position: each head's values (one per key) and each MLP's
neurons there. A dropped edge adds nothing in a real run: its entry of the attention pattern, or its
neuron's activation, is 0; later layers see what is left. VISIT prunes such edges and tests none.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.base.errors import unknown_name
from chapters.nb21_information_flow.flow_graph import MEASURES
from evidence.support.nb21.edges import LastEdges
from evidence.support.nb21.masks import aims, keep

# How edges are ordered, the strongest first. "per step": each head's and each MLP's strongest, then
# each one's second …, as VISIT keeps so many at each step; "overall": all heads' values in one
# list, all neurons in one.
ORDERS = (
    "coefficient per step",
    "norm per step",
    "share per step",
    "coefficient overall",
    "norm overall",
    "share overall",
    "smallest first",
)
LEVELS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


def ordered(
    weights: Float[Tensor, "measure layer *edge"], order: str
) -> Int[Tensor, "layer *edge"]:
    """The place of every edge in an order of ORDERS: 0 for the one that is kept to the end."""
    if order not in ORDERS:
        raise unknown_name("order", order, ORDERS)
    measure = "coefficient" if order == "smallest first" else order.split()[0]
    size = weights[MEASURES.index(measure)].abs()
    if not size.numel():  # no MLPs
        return size.long()
    if order.endswith("overall"):
        places = size.flatten().argsort(descending=True).argsort()
        return places.view_as(size)
    down = order != "smallest first"
    within = size.argsort(dim=-1, descending=down).argsort(dim=-1).double()
    # Among those of one rank, the larger (for the smallest first, the smaller) comes first.
    tie = size.double() / (size.max().double() + 1e-9) * (-1 if down else 1)
    places = (within + 0.49 * tie).flatten().argsort().argsort()
    return places.view_as(size)


def masks(
    edges: LastEdges, orders: tuple[str, ...], levels: tuple[float, ...], draws: int, seed: int
) -> tuple[Bool[Tensor, "run layer head key"], Bool[Tensor, "run layer neuron"]]:
    """Which edges are kept: order by order, then draw by draw, level by level.

    A level is a share of the values and of the neurons, so every order and draw keeps as many of
    each.
    """
    draw = torch.Generator().manual_seed(seed)
    kept = []
    for weights in (edges.values, edges.neurons):
        one = weights[0]
        places = [ordered(weights, order) for order in orders]
        for _ in range(draws):
            places.append(torch.randperm(one.numel(), generator=draw).view_as(one))
        counts = [round(level * one.numel()) for level in levels]
        kept.append(torch.stack([place < n for place in places for n in counts]))
    return kept[0], kept[1]


def curves(
    edges: LastEdges,
    orders: tuple[str, ...] = ORDERS,
    levels: tuple[float, ...] = LEVELS,
    draws: int = 5,
    seed: int = 0,
    only_neurons: bool = False,
) -> tuple[Float[Tensor, "order level"], Float[Tensor, "order level"]]:
    """(aim, 1 where the target is first) with only the strongest edges; the draws come last.

    only_neurons: all values stay.
    """
    values, neurons = masks(edges, orders, levels, draws, seed)
    if only_neurons:
        values = torch.ones_like(values)
    shape = (len(orders) + draws, len(levels))
    # Without any edge, and with all of them, one run serves every order.
    flat = torch.cat([values.flatten(1), neurons.flatten(1)], dim=1)
    distinct, of = flat.unique(dim=0, return_inverse=True)
    row = torch.zeros(len(distinct), dtype=torch.long).scatter_(0, of, torch.arange(len(of)))
    aim, guess = aims(edges, keep, values[row], neurons[row])
    first = (guess == edges.prompt.target).float()
    return aim[of].view(shape), first[of].view(shape)


def on_paper(edges: LastEdges, orders: tuple[str, ...], levels: tuple[float, ...]) -> Tensor:
    """The aim with only the strongest edges if nothing else changed: attention, activations, σ.

    [order, level]: the whole aim less the shares of what is dropped.
    """
    values, neurons = masks(edges, orders, levels, 0, 0)
    share = MEASURES.index("share")
    lost = (edges.values[share] * ~values).flatten(1).sum(dim=1)
    lost = lost + (edges.neurons[share] * ~neurons).flatten(1).sum(dim=1)
    return (edges.aim - lost).view(len(orders), len(levels))


def recovered(aim: Tensor, whole: int = -1, none: int = 0) -> Tensor:
    """Of [prompt, order, level] aims: the share of what all edges together add that is there.

    The means over prompts are compared: 1 is the whole run, 0 the run without any edge. Also
    below 0 and above 1.
    """
    mean = aim.mean(dim=0)
    return (mean - mean[:, none, None]) / (mean[:, whole, None] - mean[:, none, None])


def spread(
    aim: Float[Tensor, "prompt order level"], n: int = 1000, seed: int = 0
) -> Float[Tensor, "order level two"]:
    """The middle 90 % of `recovered` if the prompts are drawn anew, with return, n times."""
    draw = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(aim), (n, len(aim)), generator=draw)
    again = torch.stack([recovered(aim[rows]) for rows in drawn])
    return again.quantile(torch.tensor([0.05, 0.95]), dim=0).permute(1, 2, 0)
