"""Evidence of notebook 13: directions over a sphere, maps of which one part is held, capacity."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import forms
from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets
from chapters.torus.palette import PALE
from chapters.torus.winding import Points, carry_with


def sphere(n: int) -> Float[Tensor, "n 3"]:
    """Unit vectors evenly over the sphere: equal steps of height, each a golden angle further."""
    height = 1 - (2 * torch.arange(n, dtype=torch.float64) + 1) / n
    turn, out = torch.arange(n) * math.pi * (3 - math.sqrt(5)), (1 - height**2).sqrt()
    return torch.stack([out * turn.cos(), out * turn.sin(), height], dim=1)


def look_and_carry(nets: TorusNets, look: Points, carry: Points) -> Float[Tensor, "net pair word"]:
    """Logits if the heads take their shares from one pair of points and carry another."""
    return carry_with(nets, torus.attend(nets, *look).a1, carry)


def three_maps(nets: TorusNets, held: int, n: int = 40) -> list[Int[Tensor, "net n n"]]:
    """Winners if both vary, only where the heads look, only what they carry.

    held: the pair of words at which the other one stays.
    """
    vary, fixed = torus.on_grid(n), tuple(each[:, held : held + 1] for each in torus.pairs(nets))
    return [_winners(nets, *way, n) for way in ((vary, vary), (vary, fixed), (fixed, vary))]


def _winners(nets, look, carry, n):
    return look_and_carry(nets, look, carry).argmax(dim=-1).view(-1, n, n)


def near_edges(nets: TorusNets, n: int = 120) -> Float[Tensor, "2 net"]:
    """Shares of places near a head's edge: of those on a decision boundary, and of all places.

    An edge is where a head's score changes its sign; near: at most one step of the grid away.
    """
    heads = torus.attend(nets, *torus.on_grid(n))
    classes = ((heads.out.sum(dim=1) + heads.residual) @ nets.W_U).argmax(dim=-1).view(-1, 1, n, n)
    edges = _turns(heads.scores.view(len(classes), -1, n, n) > 0).any(dim=1, keepdim=True)
    around = torch.nn.functional.pad(edges.float(), (1, 1, 1, 1), mode="circular")
    near, boundary = torch.nn.functional.max_pool2d(around, 3, 1), _turns(classes).float()
    along = (near * boundary).sum(dim=(1, 2, 3)) / boundary.sum(dim=(1, 2, 3))
    return torch.stack([along, near.mean(dim=(1, 2, 3))])


def _turns(values):
    """Where values [.., n, n] differ from those one step before, along either angle."""
    return (values != values.roll(1, -1)) | (values != values.roll(1, -2))


def capacity(
    by_heads: Mapping[int, Float[Tensor, " net"]],
    by_words: Mapping[int, Float[Tensor, " net"]],
    tables: Sequence[float] | None = None,
    *,
    title: str,
) -> Figure:
    """Accuracy of every network by the number of heads and by the number of words.

    by_heads, by_words: {how many: accuracies}. tables: the accuracy of the best table of the second
    word, for each number of words, drawn as a dashed line.
    """
    note = "Line and band: median and range of 50 networks."
    if tables is None:
        flat = None
    else:
        flat = [tables[list(by_words).index(5)]] * len(by_heads)
        note = "Networks: median and range of 50. Best table: of the second word alone."
    panels = {}
    for name, groups, table in (("five words", by_heads, flat), ("three heads", by_words, tables)):
        runs = np.stack([np.asarray(each) for each in groups.values()], axis=1)
        panels[name] = {"networks": (list(groups), runs)}
        if table is not None:
            panels[name]["best table"] = (list(groups), table)
    figure = forms.lines(
        panels, title, "number of heads", "fraction of facts known", colors={"best table": PALE},
        styles={"best table": "--"}, y_range=(0, 1.05), width=10,
        note=note,
    )  # fmt: skip
    figure.axes[1].set_xlabel("number of words")
    return figure
