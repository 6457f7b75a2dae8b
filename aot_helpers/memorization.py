"""Pairs of words to remember, and how torus networks learn them: at once, or head after head."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from safetensors.torch import load as load_safetensors
from torch import Tensor

from aot_helpers.checkpoints import DATA, read_json
from aot_helpers.errors import unknown_name
from aot_helpers.torus import TorusNets, logits, new_nets, pairs, right

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


class Learned(NamedTuple):
    """Trained networks, and after every `every` steps the accuracy and the loss of each."""

    nets: TorusNets
    steps: list[int]
    accuracy: Float[Tensor, "time net"]  # share of the d_vocab² pairs
    loss: Float[Tensor, "time net"]  # nats per pair


def learn(
    nets: TorusNets,
    targets: Int[Tensor, "net pair"],
    steps: int = 3000,
    learning_rate: float = 0.02,
    frozen_heads: int = 0,
    train_words: bool = True,
    every: int = 50,
) -> Learned:
    """Adam on the mean cross entropy over all pairs, for all networks at once.

    The networks do not influence each other. The learning rate falls along half a cosine to a
    hundredth of itself. frozen_heads: so many of the first heads stay as they are.
    train_words: whether W_E, W_pos and W_U are trained as well. Raises ValueError for targets of
    another shape and for numbers out of range, before training.
    """
    n_nets, d_vocab, n_heads = len(nets.W_E), nets.W_E.shape[1], nets.W_Q.shape[1]
    if targets.shape != (n_nets, d_vocab**2) or not 0 <= targets.min() <= targets.max() < d_vocab:
        raise ValueError(
            f"targets must be words 0 … {d_vocab - 1} of shape {(n_nets, d_vocab**2)}, "
            f"got shape {tuple(targets.shape)}"
        )
    if steps < 1 or every < 1 or not learning_rate > 0 or not 0 <= frozen_heads <= n_heads:
        raise ValueError(
            "need steps >= 1, every >= 1, learning_rate > 0 and 0 <= frozen_heads <= "
            f"{n_heads}, got {steps}, {every}, {learning_rate} and {frozen_heads}"
        )
    if frozen_heads == n_heads and not train_words:
        raise ValueError("all heads and all words are frozen: nothing is left to train")
    fixed, trained = {}, {}
    for name, W in nets.tensors().items():
        W = W.detach().clone()
        if name in HEAD_WEIGHTS:
            fixed[name], trained[name] = W[:, :frozen_heads], W[:, frozen_heads:]
        elif train_words:
            trained[name] = W
        else:
            fixed[name] = W
    trained = {name: W.requires_grad_() for name, W in trained.items() if W.numel()}

    def assembled() -> TorusNets:
        both = {name: [part[name] for part in (fixed, trained) if name in part] for name in names}
        return TorusNets(**{name: torch.cat(parts, dim=1) for name, parts in both.items()})

    names = list(nets.tensors())
    optimizer = torch.optim.Adam(trained.values(), learning_rate)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps, learning_rate / 100)
    at, accuracies, losses = [], [], []
    for step in range(steps + 1):
        now = assembled()
        guess = logits(now, *pairs(now))
        loss = F.cross_entropy(guess.transpose(1, 2), targets, reduction="none").mean(dim=1)
        if step % every == 0 or step == steps:
            at.append(step)
            accuracies.append(right(guess, targets).float().mean(dim=1))
            losses.append(loss.detach())
        if step < steps:
            optimizer.zero_grad()
            loss.sum().backward()  # a sum, so that each network gets the gradient of its own loss
            optimizer.step()
            falling.step()
    last = TorusNets(**{name: W.detach() for name, W in now.tensors().items()})
    return Learned(last, at, torch.stack(accuracies), torch.stack(losses))


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
        stage = learn(
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
    train_words: see `boost`.
    """

    d_vocab: int = 5
    n_heads: int = 3
    d_head: int = 3
    target: str = "random"
    steps: tuple[int, ...] = (3000,)
    train_words: bool = True
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
        return learn(nets, self.targets(), self.steps[0])


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
    path = (folder or DATA / "torus") / f"{name}.safetensors"
    content = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(content).hexdigest() != runs[name]["sha256"]:
        raise ValueError(
            f"{path.name} is missing, truncated or damaged (its sha256 differs): "
            "restore it with `git checkout -- data/torus`"
        )
    tensors = load_safetensors(content)
    accuracy, loss = tensors.pop("accuracy"), tensors.pop("loss")
    return Learned(TorusNets(**tensors), runs[name]["measured_at"], accuracy, loss)


def _runs(folder: Path | None) -> dict[str, dict]:
    return read_json((folder or DATA / "torus") / "runs.json")


def _run(facts: dict) -> TorusRun:
    made = facts["made"]
    return TorusRun(**{**made, "steps": tuple(made["steps"])})
