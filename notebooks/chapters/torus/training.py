"""Pairs of words to remember, and how torus networks learn them: at once, or head after head."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors.torch import load as load_safetensors
from torch import Tensor

from aot_helpers.base import files
from aot_helpers.base.errors import unknown_name
from aot_helpers.base.files import read_json, read_verified
from chapters.torus.networks import TorusNets, attend, is_correct, logits, new_nets, pairs

HEAD_WEIGHTS = ("W_Q", "W_K", "W_V", "W_O")


def _random(d_vocab: int, draw: torch.Generator) -> Int[Tensor, " pair"]:
    return torch.randint(d_vocab, (d_vocab**2,), generator=draw)


def _sum(d_vocab: int, draw: torch.Generator) -> Int[Tensor, " pair"]:
    word = torch.arange(d_vocab)
    return ((word[:, None] + word) % d_vocab).flatten()


def _first(d_vocab: int, draw: torch.Generator) -> Int[Tensor, " pair"]:
    return torch.randperm(d_vocab, generator=draw).repeat_interleave(d_vocab)


# What follows a pair (first, second): "random" draws it for each pair, "sum" is their sum modulo
# d_vocab, "first" is a random one-to-one function of the first word alone.
TARGETS: dict[str, Callable] = {"random": _random, "sum": _sum, "first": _first}


def targets(kind: str, seeds: list[int], d_vocab: int = 5) -> Int[Tensor, "net pair"]:
    """The next token of each of the d_vocab² pairs, for each seed; pair d_vocab · i + j is (i, j).

    kind: a key of TARGETS. Raises ValueError for another.
    """
    if kind not in TARGETS:
        raise unknown_name("target", kind, TARGETS)
    draws = [torch.Generator().manual_seed(1_000_000 + seed) for seed in seeds]  # not the weights'
    return torch.stack([TARGETS[kind](d_vocab, draw) for draw in draws])


# Which head has to know a pair alone: "lot" deals out the pairs, "word" the next tokens.
DIVISIONS = ("lot", "word")


def owners(
    division: str, targets: Int[Tensor, "net pair"], seeds: list[int], n_heads: int
) -> Int[Tensor, "net pair"]:
    """A head for each pair, for each seed: an equal share of the pairs, or of the next tokens.

    division: one of DIVISIONS. Raises ValueError for another.
    """
    if division not in DIVISIONS:
        raise unknown_name("division of labor", division, DIVISIONS)
    rows = []
    for row, seed in zip(targets, seeds, strict=True):
        draw = torch.Generator().manual_seed(2_000_000 + seed)
        if division == "lot":
            rows.append(torch.randperm(len(row), generator=draw) % n_heads)
        else:
            rows.append((torch.randperm(int(row.max()) + 1, generator=draw) % n_heads)[row])
    return torch.stack(rows)


class Learned(NamedTuple):
    """Trained networks, and after every `every` steps the accuracy and the loss of each.

    kept: the networks at the steps that were asked for.
    """

    nets: TorusNets
    steps: list[int]
    accuracy: Float[Tensor, "time net"]  # share of the d_vocab² pairs
    loss: Float[Tensor, "time net"]  # nats per pair
    kept: dict[int, TorusNets] = MappingProxyType({})


@torch.enable_grad()  # also where a notebook has switched gradients off
def train_nets(
    nets: TorusNets,
    targets: Int[Tensor, "net pair"],
    steps: int = 3000,
    learning_rate: float = 0.02,
    frozen_heads: int = 0,
    train_words: bool = True,
    owners: Int[Tensor, "net pair"] | None = None,
    every: int = 50,
    keep: Collection[int] = (),
    penalty: Callable | None = None,
) -> Learned:
    """Adam on the mean cross entropy over all pairs, for all networks at once.

    The networks do not influence each other. The learning rate falls along half a cosine to a
    hundredth of itself. frozen_heads: so many of the first heads stay as they are. train_words:
    whether W_E, W_pos and W_U are trained as well. owners: adds, for each pair, the cross entropy
    of its owner's output alone, without the other heads and the residual. keep: steps whose
    networks come back as `kept`, 0 being the start. penalty: what owners add in place of that, a
    function of one network's logits from each head [head, pair, word], its owners [pair] and
    targets [pair]. Raises ValueError for targets and owners of
    another shape and for numbers out of range, before training.
    """
    _check_words("targets", targets, nets, n=nets.W_E.shape[1])
    if owners is not None:
        _check_words("owners", owners, nets, n=nets.W_Q.shape[1])
    _check_training(nets, steps, learning_rate, frozen_heads, train_words, every, keep)
    fixed, trained = _split(nets, frozen_heads, train_words)
    optimizer = torch.optim.Adam(trained.values(), learning_rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, learning_rate / 100)
    at, accuracies, losses, kept = [], [], [], {}
    for step in range(steps + 1):
        now = _joined(fixed, trained)
        if step in keep:
            kept[step] = _detached(now)
        guess = logits(now, *pairs(now))
        loss = _mean_loss(guess, targets)
        if step % every == 0 or step == steps:
            at.append(step)
            accuracies.append(is_correct(guess, targets).float().mean(dim=1))
            losses.append(loss.detach())
        if step < steps:
            if owners is not None:
                loss = loss + _penalties(now, owners, targets, penalty)
            optimizer.zero_grad()
            loss.sum().backward()  # the gradient of a sum: each network gets that of its own loss
            optimizer.step()
            falling.step()
    return Learned(_detached(now), at, torch.stack(accuracies), torch.stack(losses), kept)


def _detached(nets: TorusNets) -> TorusNets:
    return TorusNets(**{name: W.detach().clone() for name, W in nets.tensors().items()})


def _mean_loss(
    logits: Float[Tensor, "net pair d_vocab"], targets: Int[Tensor, "net pair"]
) -> Float[Tensor, " net"]:
    return F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(dim=1)


def _penalties(nets: TorusNets, owners, targets, penalty) -> Float[Tensor, " net"]:
    """A penalty of each network; None: the mean cross entropy of what owners say alone."""
    out = attend(nets, *pairs(nets)).out
    if penalty is not None:
        each = zip(out @ nets.W_U[:, None], owners, targets, strict=True)
        return torch.stack([penalty(*given) for given in each])
    chosen = owners[:, None, :, None].expand(-1, 1, -1, 3)
    return _mean_loss(out.gather(1, chosen)[:, 0] @ nets.W_U, targets)


def _split(nets: TorusNets, frozen_heads: int, train_words: bool) -> tuple[dict, dict]:
    """(what stays, what is trained) as {name: weights}; the heads' weights may stand in both."""
    fixed, trained = {}, {}
    for name, W in nets.tensors().items():
        W = W.detach().clone()
        if name in HEAD_WEIGHTS:
            fixed[name], trained[name] = W[:, :frozen_heads], W[:, frozen_heads:]
        elif train_words:
            trained[name] = W
        else:
            fixed[name] = W
    return fixed, {name: W.requires_grad_() for name, W in trained.items() if W.numel()}


def _joined(fixed: dict[str, Tensor], trained: dict[str, Tensor]) -> TorusNets:
    names = fixed.keys() | trained.keys()
    parts = {name: [each[name] for each in (fixed, trained) if name in each] for name in names}
    return TorusNets(**{name: torch.cat(each, dim=1) for name, each in parts.items()})


def _check_words(name: str, values: Int[Tensor, "*shape"], nets: TorusNets, n: int) -> None:
    shape = (len(nets.W_E), nets.W_E.shape[1] ** 2)
    if values.shape != shape or not 0 <= values.min() <= values.max() < n:
        raise ValueError(
            f"{name} must be whole numbers 0 … {n - 1} of shape {shape}, "
            f"got {values.min()} … {values.max()} of shape {tuple(values.shape)}"
        )


def _check_training(nets, steps, learning_rate, frozen_heads, train_words, every, keep) -> None:
    n_heads = nets.W_Q.shape[1]
    if steps < 1 or every < 1 or not learning_rate > 0 or not 0 <= frozen_heads <= n_heads:
        raise ValueError(
            "need steps >= 1, every >= 1, learning_rate > 0 and 0 <= frozen_heads <= "
            f"{n_heads}, got {steps}, {every}, {learning_rate} and {frozen_heads}"
        )
    if late := [step for step in keep if not 0 <= step <= steps]:
        raise ValueError(f"keep has the steps {late}, but training has only 0 … {steps}")
    if frozen_heads == n_heads and not train_words:
        raise ValueError("all heads and all words are frozen: nothing is left to train")


def boost(
    nets: TorusNets,
    targets: Int[Tensor, "net pair"],
    steps: list[int],
    learning_rate: float = 0.02,
    train_words: bool = True,
    every: int = 50,
) -> Learned:
    """Train head after head: each stage adds one, and the heads before it stay as they are.

    steps: how many for each head, in order. train_words: whether W_E, W_pos and W_U are trained in
    every stage; otherwise, as in the code behind S2, in the first stage only. Each stage is
    measured at its beginning and at its end: a step between two stages stands twice, before and
    after the next, untrained head comes in. Raises ValueError unless there is one number of steps
    for each head.
    """
    n_heads = nets.W_Q.shape[1]
    if len(steps) != n_heads:
        raise ValueError(f"steps must have one number for each of {n_heads} heads, got {steps}")
    start, at, accuracies, losses = 0, [], [], []
    for head, stage_steps in enumerate(steps):
        stage = train_nets(
            nets.heads(0, head + 1), targets, stage_steps, learning_rate,
            frozen_heads=head, train_words=train_words or head == 0, every=every,
        )  # fmt: skip
        kept = {
            name: torch.cat([W, nets.tensors()[name][:, head + 1 :]], dim=1)
            if name in HEAD_WEIGHTS
            else W
            for name, W in stage.nets.tensors().items()
        }
        nets = TorusNets(**kept)
        at += [start + step for step in stage.steps]
        accuracies.append(stage.accuracy)
        losses.append(stage.loss)
        start += stage_steps
    return Learned(nets, at, torch.cat(accuracies), torch.cat(losses))


@dataclass(frozen=True)
class TorusRun:
    """How the networks of one shipped run were made.

    steps: of Adam; one number for heads trained at once, one for each head if they are boosted.
    train_words: see `boost`. division: None, or how the heads are made to divide the pairs (see
    `owners`).
    """

    d_vocab: int = 5
    n_heads: int = 3
    d_head: int = 3
    target: str = "random"
    steps: tuple[int, ...] = (3000,)
    train_words: bool = True
    division: str | None = None
    n_seeds: int = 50

    @property
    def boosted(self) -> bool:
        """Whether the heads were trained one after the other."""
        return len(self.steps) > 1

    @property
    def seeds(self) -> list[int]:
        """0, 1, …: the seed of each network and of its targets."""
        return list(range(self.n_seeds))

    def targets(self) -> Int[Tensor, "net pair"]:
        """What follows each pair, for each seed."""
        return targets(self.target, self.seeds, self.d_vocab)

    def train(self) -> Learned:
        """Train the networks of this run again."""
        nets = new_nets(self.seeds, self.d_vocab, self.n_heads, self.d_head)
        if self.boosted:
            return boost(nets, self.targets(), list(self.steps), train_words=self.train_words)
        return train_nets(nets, self.targets(), self.steps[0], owners=self.owners())

    def owners(self) -> Int[Tensor, "net pair"] | None:
        """The head that is made to know each pair, for each seed; None where none is."""
        if self.division is None:
            return None
        return owners(self.division, self.targets(), self.seeds, self.n_heads)


def list_runs(folder: Path | None = None) -> dict[str, TorusRun]:
    """{name: how it was made} of every shipped run of torus networks."""
    return {name: _run(facts) for name, facts in _runs(folder).items()}


def load_run(name: str, folder: Path | None = None) -> Learned:
    """The networks of a shipped run, with their accuracy and loss while they were trained.

    Raises ValueError for an unknown name and for weights that differ from their sha256.
    """
    runs = _runs(folder)
    if name not in runs:
        raise unknown_name("run of torus networks", name, runs)
    path = (folder or files.DATA / "torus") / f"{name}.safetensors"
    tensors = load_safetensors(read_verified(path, runs[name]["sha256"], path.name, "data/torus"))
    accuracy, loss = tensors.pop("accuracy"), tensors.pop("loss")
    return Learned(TorusNets(**tensors), runs[name]["measured_at"], accuracy, loss)


def _runs(folder: Path | None) -> dict[str, dict]:
    return read_json((folder or files.DATA / "torus") / "runs.json")


def _run(facts: dict) -> TorusRun:
    made = facts["made"]
    return TorusRun(**{**made, "steps": tuple(made["steps"])})
