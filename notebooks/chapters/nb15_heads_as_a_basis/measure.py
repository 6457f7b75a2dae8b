"""Do heads share out what a torus network knows? What each knows alone, against chance."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from chapters.torus.networks import TorusNets, attend, is_correct_with_shares, pairs

Answers = Bool[Tensor, "net head pair"]
Compared = tuple[Float[Tensor, " net"], Float[Tensor, " net"], float]
ENDS = torch.tensor([0.025, 0.975])
# What S2 sees over a triangle of mixtures of three heads, and three high corners, which it omits.
PATTERNS = ("one corner", "two corners", "between", "none", "three corners")


def terms(
    nets: TorusNets,
) -> tuple[Float[Tensor, "net head pair word"], Float[Tensor, "net pair word"]]:
    """Logits of all pairs from each head, and from the residual; their sum is the network's."""
    seen = attend(nets, *pairs(nets))
    return seen.out @ nets.W_U[:, None], seen.residual @ nets.W_U


def right_alone(
    nets: TorusNets, targets: Int[Tensor, "net pair"], residual: bool = False
) -> Answers:
    """Where each head alone, or with the residual, has the target on top."""
    head_terms, residual_terms = terms(nets)
    guess = head_terms + residual_terms[:, None] if residual else head_terms
    return guess.argmax(dim=-1) == targets[:, None]


def right_without(
    nets: TorusNets, targets: Int[Tensor, "net pair"], by_mean: bool = False
) -> Answers:
    """Where the network without one head is right; by_mean: the head writes its mean instead."""
    head_terms, residual_terms = terms(nets)
    all_but = (head_terms.sum(dim=1) + residual_terms)[:, None] - head_terms
    if by_mean:
        all_but = all_but + head_terms.mean(dim=2, keepdim=True)
    return all_but.argmax(dim=-1) == targets[:, None]


def needed(nets: TorusNets, targets: Int[Tensor, "net pair"], by_mean: bool = False) -> Answers:
    """Where the network is right, and wrong without the head; by_mean: see `right_without`."""
    head_terms, residual_terms = terms(nets)
    whole = (head_terms.sum(dim=1) + residual_terms).argmax(dim=-1) == targets
    return whole[:, None] & ~right_without(nets, targets, by_mean)


def known_and_lost(nets: TorusNets, targets: Int[Tensor, "net pair"]) -> dict[str, float]:
    """How many pairs a head knows alone, how many are lost without it, and which: over all heads.

    The last three are shares: of the pairs that only this head knows alone, of those that another
    head knows alone, too, and of those that it does not know alone, how many are lost.
    """
    alone, lost = right_alone(nets, targets), needed(nets, targets)
    shared = alone & (alone.sum(dim=1, keepdim=True) > 1)
    kinds = {"only it knows": alone & ~shared, "others know too": shared}
    kinds["it does not know"] = ~alone
    found = {"known alone": alone.sum(dim=-1).float().mean().item()}
    found["lost without it"] = lost.sum(dim=-1).float().mean().item()
    return found | {
        f"lost, of what {name}": (lost[some].sum() / some.sum()).item()
        for name, some in kinds.items()
    }


def covered(answers: Answers) -> Float[Tensor, " net"]:
    """Share of pairs on which at least one head alone is right."""
    return answers.any(dim=1).float().mean(dim=-1)


def by_lot(answers: Answers, measure: Callable, n_draws: int = 50, seed: int = 0) -> Tensor:
    """The mean of a measure [net] if the right answers of each head stood at random pairs."""
    draw = torch.Generator().manual_seed(seed)
    orders = (torch.rand(answers.shape, generator=draw).argsort(dim=-1) for _ in range(n_draws))
    return torch.stack([measure(answers.gather(-1, order)) for order in orders]).mean(dim=0)


def compare_with_lots(answers: Answers, seed: int = 0) -> Compared:
    """(covered, covered by lot, division).

    Division is 0 if the heads cover as many pairs as by lot, and 1 if they cover all: a ratio of
    means over the networks.
    """
    found, lot = covered(answers), by_lot(answers, covered, seed=seed)
    return found, lot, ((found.mean() - lot.mean()) / (1 - lot.mean())).item()


def drawn_again(n_nets: int, seed: int = 0) -> Int[Tensor, "draw net"]:
    """2,000 times as many networks as there are, drawn with replacement."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(n_nets, (2000, n_nets), generator=draw)


def resampled_division(
    found: Float[Tensor, " net"], lot: Float[Tensor, " net"], seed: int = 0
) -> Float[Tensor, " draw"]:
    """Division in 2,000 resamplings of the networks."""
    drawn = drawn_again(len(found), seed)
    found, lot = found[drawn].mean(dim=1), lot[drawn].mean(dim=1)
    return (found - lot) / (1 - lot)


def division_ends(compared: Compared, seed: int = 0) -> list[float]:
    """Low end of the 95% interval, division, high end, of what `compare_with_lots` gives."""
    low, high = resampled_division(*compared[:2], seed=seed).quantile(ENDS).tolist()
    return [low, compared[2], high]


def by_assigned(
    nets: TorusNets, targets: Int[Tensor, "net pair"], owners: Int[Tensor, "net pair"]
) -> Float[Tensor, " net"]:
    """Share of pairs that the head to which each is assigned knows alone."""
    alone = right_alone(nets, targets)
    return alone.gather(1, owners[:, None])[:, 0].float().mean(dim=-1)


def right_with_and_without(
    nets: TorusNets, targets: Int[Tensor, "net pair"]
) -> tuple[Bool[Tensor, "net pair"], Bool[Tensor, "net pair"], Bool[Tensor, "head net pair"]]:
    """(what the network knows, what it knows without all heads, what is lost without each head)."""
    head_terms, residual_terms = terms(nets)
    whole = (head_terms.sum(dim=1) + residual_terms).argmax(dim=-1) == targets
    lost = needed(nets, targets).transpose(0, 1)
    return whole, residual_terms.argmax(dim=-1) == targets, lost


def known_by_word(
    nets: TorusNets, targets: Int[Tensor, "net pair"], shares: Float[Tensor, "point head"]
) -> Float[Tensor, "net point word"]:
    """Of the pairs with each next word, the share that mixtures of the heads alone get right."""
    answers = is_correct_with_shares(nets, targets, shares, residual=False).float()
    member = F.one_hot(targets, nets.W_U.shape[-1]).float()
    return torch.einsum("nsp,npw->nsw", answers, member) / member.sum(dim=1)[:, None]


def patterns(
    nets: TorusNets, targets: Int[Tensor, "net pair"], high: float = 0.75
) -> Int[Tensor, "net word"]:
    """Which of PATTERNS the triangle of mixtures shows for each next word.

    A corner is one head alone, the middle of an edge two heads half and half. One, two or three
    corners: so many corners reach `high`; between: no corner, but a middle; none: neither.
    """
    return _patterns(nets, targets, high)[0]


def clearest(
    nets: TorusNets, targets: Int[Tensor, "net pair"], least: int = 4
) -> list[tuple[int, int]]:
    """(network, next word) of the clearest example of each of the first four of PATTERNS.

    Among next words of `least` facts or more. Clear is, for corners, a large step to the next
    corner; for a middle, one to the best corner and the center; for none, that all are low. Where
    two are as clear, the one with more facts.
    """
    kinds, places = _patterns(nets, targets, 0.75)
    corners, edge, center = places[:, :3], places[:, 3:6].amax(dim=1), places[:, 6]
    low, middle, most = corners.sort(dim=1).values.unbind(dim=1)
    steps = [most - middle, middle - low, edge - torch.maximum(most, center), -most - edge]
    n_facts = F.one_hot(targets, nets.W_U.shape[-1]).sum(dim=1)
    at = [
        int((step + n_facts / 1000).where((kinds == k) & (n_facts >= least), -9).argmax())
        for k, step in enumerate(steps)
    ]
    return [divmod(each, n_facts.shape[1]) for each in at]


def _patterns(nets, targets, high):
    shares = torch.cat([torch.eye(3), (1 - torch.eye(3)) / 2, torch.ones(1, 3) / 3])
    places = known_by_word(nets, targets, shares)  # corners, middles of edges, center
    is_high = places >= high - 1e-6
    n_corners, middle = is_high[:, :3].sum(dim=1), is_high[:, 3:6].any(dim=1)
    otherwise = torch.where(middle, 2, 3)
    return torch.where(n_corners > 0, torch.tensor([0, 0, 1, 4])[n_corners], otherwise), places
