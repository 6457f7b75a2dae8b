"""What winds the boundaries of a torus network: where its heads attend, or what they move?"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets

QK, OV = ("W_Q", "W_K"), ("W_V", "W_O")
Points = tuple[Float[Tensor, "#net #pair 3"], Float[Tensor, "#net #pair 3"]]  # two words


def carry_with(
    nets: TorusNets, a1: Float[Tensor, "net head #pair"], carry: Points
) -> Float[Tensor, "net pair word"]:
    """Logits if the heads have the shares a1 of the first word, and carry a pair of points."""
    x1, x2 = (e.to(p) + p[:, None] for e, p in zip(carry, nets.W_pos.unbind(1), strict=True))
    share = a1[..., None].to(x1)
    heads = (share * x1[:, None] + (1 - share) * x2[:, None]) @ nets.W_V @ nets.W_O
    return (heads.sum(dim=1) + x2) @ nets.W_U


def changes(winners: Int[Tensor, "net n n"]) -> Float[Tensor, " net"]:
    """How often the winner changes on a walk once around: mean of all rows and columns."""
    return sum((winners != winners.roll(1, d)).float().sum(d).mean(dim=-1) for d in (-1, -2)) / 2


def winding(nets: TorusNets, pairs=range(25), n: int = 40) -> Float[Tensor, "3 net"]:
    """`changes` if both vary, only where the heads look, only what they carry.

    Means over the pairs of words, at each of which the other part is held in turn.
    """
    vary, stays = torus.on_grid(n), [_pair(nets, held) for held in pairs]
    a1 = torus.attend(nets, *vary).a1

    def changes_with(a1, carry):
        return changes(carry_with(nets, a1, carry).argmax(dim=-1).view(-1, n, n))

    look = torch.stack([changes_with(a1, stay) for stay in stays]).mean(0)
    held_a1 = [torus.attend(nets, *stay).a1 for stay in stays]
    carry = torch.stack([changes_with(each, vary) for each in held_a1]).mean(0)
    return torch.stack([changes_with(a1, vary), look, carry])


def with_norms_of(
    nets: TorusNets, trained: TorusNets, circuits: list[tuple[str, str]]
) -> TorusNets:
    """The networks with each head's circuits (QK, OV) scaled to the norm of the trained ones."""
    new, old = nets.tensors(), trained.tensors()
    for a, b in circuits:
        size = [(W[a] @ (W[b].mT if b == "W_K" else W[b])).norm(dim=(2, 3)) for W in (old, new)]
        new[a] = new[a] * (size[0] / size[1])[..., None, None]
    return TorusNets(**new)


def random_nets(trained: TorusNets) -> dict[str, TorusNets]:
    """Four kinds of random networks, from "untrained" to random heads among trained parts."""
    n, heads = len(trained.W_E), trained.W_Q.shape[1]
    start = torus.new_nets(list(range(n)), n_heads=heads)
    fresh = torus.new_nets(list(range(1000, 1000 + n)), n_heads=heads).tensors()
    strangers = TorusNets(**{**trained.tensors(), **{name: fresh[name] for name in QK + OV}})
    return {
        "untrained": start,
        "large random QK": with_norms_of(start, trained, [QK]),
        "large random QK and OV": with_norms_of(start, trained, [QK, OV]),
        "random heads, rest trained": with_norms_of(strangers, trained, [QK, OV]),
    }


def _pair(nets, held):
    first, second = torus.pairs(nets)
    return first[:, held : held + 1], second[:, held : held + 1]
