"""Evidence of notebook 15: what heads know alone, in mixtures and asked for, against chance."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from torch import Tensor

from aot_helpers.showing.plots import Interval
from chapters.torus.color_maps import painting
from chapters.torus.networks import TorusNets, attend, is_correct, pairs

Answers = Bool[Tensor, "net head pair"]
ENDS = torch.tensor([0.025, 0.975])


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
    """Means over heads: pairs that a head knows alone, and pairs that are lost without it.

    And the fractions that are lost without it: of the pairs that only it knows alone, of those that
    others know, too, and of those that it does not know alone.
    """
    alone, lost = right_alone(nets, targets), needed(nets, targets)
    shared = alone & (alone.sum(dim=1, keepdim=True) > 1)
    kinds = {
        "only it knows": alone & ~shared,
        "others know too": shared,
        "it does not know": ~alone,
    }
    per_head = {"known alone": alone, "lost without it": lost}
    means = {name: each.sum(dim=-1).float().mean().item() for name, each in per_head.items()}
    return means | {name: (lost[of].sum() / of.sum()).item() for name, of in kinds.items()}


def covered(answers: Answers) -> Float[Tensor, " net"]:
    """Share of pairs on which at least one head alone is right."""
    return answers.any(dim=1).float().mean(dim=-1)


def permuted_mean(
    answers: Answers, measure: Callable, n_draws: int = 50, seed: int = 0
) -> Float[Tensor, " net"]:
    """The mean of a measure [net] if the right answers of each head stood at random pairs."""
    draw = torch.Generator().manual_seed(seed)
    orders = (torch.rand(answers.shape, generator=draw).argsort(dim=-1) for _ in range(n_draws))
    return torch.stack([measure(answers.gather(-1, order)) for order in orders]).mean(dim=0)


class Coverage(NamedTuple):
    """The share of pairs that heads alone cover in each network, and the same by chance."""

    covered: Float[Tensor, " net"]
    chance: Float[Tensor, " net"]

    def corrected(self) -> float:
        """Chance-corrected coverage: 0 if the heads cover as many as by chance, 1 if all.

        It is a ratio of means over the networks.
        """
        found, chance = self.covered.mean(), self.chance.mean()
        return ((found - chance) / (1 - chance)).item()

    def resampled(self, seed: int = 0) -> Float[Tensor, " draw"]:
        """Chance-corrected coverage in 2,000 resamplings of the networks."""
        drawn = resampled_nets(len(self.covered), seed)
        found, chance = self.covered[drawn].mean(dim=1), self.chance[drawn].mean(dim=1)
        return (found - chance) / (1 - chance)

    def interval(self, seed: int = 0) -> Interval:
        """Chance-corrected coverage with its 95% interval."""
        low, high = self.resampled(seed).quantile(ENDS).tolist()
        return Interval(low, self.corrected(), high)


def coverage_of(answers: Answers, seed: int = 0) -> Coverage:
    """What the heads alone cover, and the same with the answers of each head permuted."""
    return Coverage(covered(answers), permuted_mean(answers, covered, seed=seed))


def resampled_nets(n_nets: int, seed: int = 0) -> Int[Tensor, "draw net"]:
    """2,000 times as many networks as there are, drawn with replacement."""
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(n_nets, (2000, n_nets), generator=draw)


def simplex(n: int) -> Float[Tensor, "point 3"]:
    """All shares (c0, c1, c2) >= 0 of three heads with sum 1 that are multiples of 1/n."""
    if n < 1:
        raise ValueError(f"n must be >= 1, got {n}")
    counts = [[i, j, n - i - j] for i in range(n + 1) for j in range(n + 1 - i)]
    return torch.tensor(counts) / n


def mixture_is_correct(
    nets: TorusNets,
    targets: Int[Tensor, "#net pair"],
    shares: Float[Tensor, "point head"],
    residual: bool = True,
) -> Bool[Tensor, "net point pair"]:
    """Which pairs are right when the heads count with these shares (1 each is the whole network).

    Shares that sum to 1 have the whole network nowhere; times n_heads, it lies in their center.
    Without the residual the sum does not matter: it scales all logits.
    """
    heads = attend(nets, *pairs(nets))
    stream = torch.einsum("sh,nhpi->nspi", shares.to(heads.out.dtype), heads.out)
    if residual:
        stream = stream + heads.residual[:, None]
    return is_correct(stream @ nets.W_U[:, None], targets[:, None])


def triangles(
    values: Sequence[Float[np.ndarray, " point"]],
    shares: Float[np.ndarray, "point 3"],
    titles: Sequence[str],
) -> Figure:
    """Accuracies over triangles of three heads, at shares such as those of `simplex`.

    A white cross marks the center, where the heads have equal shares.
    """
    shares, tall = np.asarray(shares), np.sqrt(3) / 2
    mesh = Triangulation(shares[:, 1] + shares[:, 2] / 2, shares[:, 2] * tall)
    figure, axes = painting(titles, 6, 1.9, 2.4)
    for axis, each in zip(axes, values, strict=True):
        image = axis.tripcolor(mesh, each, shading="gouraud", cmap="cividis", vmin=0, vmax=1)
        axis.plot(0.5, tall / 3, "+", color="white", markersize=7)
        for head, place in enumerate(((0, -0.06), (1, -0.06), (0.5, tall + 0.06))):
            side = "bottom" if head == 2 else "top"
            axis.text(*place, f"head {head}", ha="center", va=side, fontsize=9)
        axis.set(aspect="equal", xlim=(-0.15, 1.15), ylim=(-0.2, 1.1))
        axis.axis("off")
    figure.colorbar(image, ax=axes, label="accuracy", shrink=0.8)
    return figure


def _nats(logits: Float[Tensor, "*at word"], targets: Int[Tensor, "*#at"]) -> Float[Tensor, "*at"]:
    """-log p of each target."""
    right = F.one_hot(targets, logits.shape[-1])
    return -(logits.log_softmax(dim=-1) * right).sum(dim=-1)


@torch.enable_grad()
def trained_with_owners(
    nets: TorusNets,
    targets: Int[Tensor, "net pair"],
    owners: Int[Tensor, "net pair"],
    missing: str = "",
    steps: int = 1000,
    learning_rate: float = 0.02,
) -> TorusNets:
    """Networks trained to be right, with each owner right alone, on all pairs at once.

    missing: "zero" or "mean" asks also that they know the pairs of the others without each head,
    which writes nothing or its mean over the pairs; "" does not. Raises ValueError for others.
    """
    if missing not in ("", "zero", "mean"):
        raise ValueError(f'missing must be "zero", "mean" or "", got {missing!r}')
    weights = {name: W.detach().clone().requires_grad_() for name, W in nets.tensors().items()}
    owns = F.one_hot(owners, nets.W_Q.shape[1]).transpose(1, 2)
    optimizer = torch.optim.Adam(weights.values(), learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        heads, residual = terms(TorusNets(**weights))
        whole = heads.sum(dim=1) + residual
        loss = _nats(whole, targets).mean(dim=1) + _mean_where(owns, heads, targets)
        if missing:
            rest = whole[:, None] - heads
            if missing == "mean":
                rest = rest + heads.mean(dim=2, keepdim=True)
            loss = loss + _mean_where(1 - owns, rest, targets)
        optimizer.zero_grad()
        loss.sum().backward()  # each network gets the gradient of its own loss
        optimizer.step()
        schedule.step()
    return TorusNets(**{name: W.detach() for name, W in weights.items()})


def _mean_where(which, logits, targets) -> Float[Tensor, " net"]:
    """The mean cross entropy of logits [net, head, pair, word] where `which` is 1."""
    badly = _nats(logits, targets[:, None])
    return (badly * which).sum(dim=(1, 2)) / which.sum(dim=(1, 2))


def lost_of_owned(
    nets: TorusNets,
    targets: Int[Tensor, "net pair"],
    owners: Int[Tensor, "net pair"],
    by_mean: bool = False,
) -> dict[str, Float[Tensor, " net"]]:
    """Of the pairs that a network knows, those lost without their owner, and without another head.

    Without another head: the mean over the heads that do not own a pair. by_mean: see `needed`.
    """
    head_terms, residual_terms = terms(nets)
    known = is_correct(head_terms.sum(dim=1) + residual_terms, targets)
    lost = needed(nets, targets, by_mean).float()
    owns = F.one_hot(owners, nets.W_Q.shape[1]).transpose(1, 2)
    kinds = {"own": owns * known[:, None], "others": (1 - owns) * known[:, None]}
    return {name: (lost * of).sum(dim=(1, 2)) / of.sum(dim=(1, 2)) for name, of in kinds.items()}


class LostTo(NamedTuple):
    """Pairs that are lost without one head that does not own them, counted in each network."""

    losses: Int[Tensor, " net"]
    third: Int[Tensor, " net"]  # of them, lost to a word of the head that is left besides the owner
    chance: Float[Tensor, " net"]  # as many as `third`, if the four wrong words were equally likely

    def beyond_chance(self, seed: int = 0) -> list[float]:
        """Share of the losses beyond chance, in all networks: low end of 95 %, value, high end."""
        gained, losses = self.third - self.chance, self.losses.float()
        drawn = resampled_nets(len(losses), seed)
        low, high = (gained[drawn].sum(dim=1) / losses[drawn].sum(dim=1)).quantile(ENDS).tolist()
        return [low, (gained.sum() / losses.sum()).item(), high]


def lost_to_third(
    nets: TorusNets,
    targets: Int[Tensor, "net pair"],
    owners: Int[Tensor, "net pair"],
    words_of: Int[Tensor, "net word"],
) -> LostTo:
    """Whose word a network of three heads says where it loses a pair without a head not its owner.

    words_of: the head that each next word is assigned to, -1 for none.
    """
    head_terms, residual_terms = terms(nets)
    rest = (head_terms.sum(dim=1) + residual_terms)[:, None] - head_terms
    removed = torch.arange(3)[:, None]  # [head, 1]
    third = (3 - owners[:, None] - removed).clamp(0, 2)  # [net, head, pair]; for owners no matter
    lost = needed(nets, targets) & (owners[:, None] != removed)
    said = words_of.gather(1, rest.argmax(dim=-1).flatten(1)).view(lost.shape)
    its = (words_of[:, None, None] == third[..., None]).sum(dim=-1)  # the third head's words
    its = its - (words_of.gather(1, targets)[:, None] == third).int()  # without the right one
    hits, chance = (lost & (said == third)), lost * its / 4
    return LostTo(lost.sum(dim=(1, 2)), hits.sum(dim=(1, 2)), chance.sum(dim=(1, 2)))
