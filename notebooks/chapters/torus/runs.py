"""The facts that torus networks learn, and the shipped networks that have learned them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from safetensors.torch import load as load_safetensors
from torch import Tensor

from aot_helpers.base import files
from aot_helpers.base.errors import unknown_name
from aot_helpers.base.files import read_json, read_verified
from chapters.torus.networks import TorusNets


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


def owners(
    division: str, targets: Int[Tensor, "net pair"], seeds: list[int], n_heads: int
) -> Int[Tensor, "net pair"]:
    """The head that each pair is assigned to at random, for each seed.

    division: "lot" assigns single pairs, equally many to each head, and "word" the next tokens.
    Raises ValueError for another.
    """
    if division not in ("lot", "word"):
        raise unknown_name("division of labor", division, ("lot", "word"))
    rows = []
    for row, seed in zip(targets, seeds, strict=True):
        draw = torch.Generator().manual_seed(2_000_000 + seed)
        if division == "lot":
            rows.append(torch.randperm(len(row), generator=draw) % n_heads)
        else:
            rows.append((torch.randperm(int(row.max()) + 1, generator=draw) % n_heads)[row])
    return torch.stack(rows)


@dataclass(frozen=True)
class Trained:
    """Trained networks, and after every `every` steps the accuracy and the loss of each."""

    nets: TorusNets
    steps: list[int]
    accuracy: Float[Tensor, "time net"]  # fraction of the d_vocab² pairs
    loss: Float[Tensor, "time net"]  # nats per pair


@dataclass(frozen=True)
class TorusRun:
    """How the networks of one shipped run were made.

    steps: of Adam; one number for heads trained at once, one for each head if they are boosted.
    train_words: see `boost`. division: None, or how the pairs are assigned to heads (see `owners`).
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
    def seeds(self) -> list[int]:
        """0, 1, …: the seed of each network and of its targets."""
        return list(range(self.n_seeds))

    def targets(self) -> Int[Tensor, "net pair"]:
        """What follows each pair, for each seed."""
        return targets(self.target, self.seeds, self.d_vocab)

    def owners(self) -> Int[Tensor, "net pair"] | None:
        """The head that each pair is assigned to, for each seed; None where none is."""
        if self.division is None:
            return None
        return owners(self.division, self.targets(), self.seeds, self.n_heads)


def list_runs(folder: Path | None = None) -> dict[str, TorusRun]:
    """{name: how it was made} of every shipped run of torus networks."""
    made = {name: facts["made"] for name, facts in _runs(folder).items()}
    return {
        name: TorusRun(**{**each, "steps": tuple(each["steps"])}) for name, each in made.items()
    }


def load_run(name: str, folder: Path | None = None) -> Trained:
    """The networks of a shipped run, with their accuracy and loss while they were trained.

    Raises ValueError for an unknown name and for weights that differ from their sha256.
    """
    runs = _runs(folder)
    if name not in runs:
        raise unknown_name("run of torus networks", name, runs)
    path = (folder or files.DATA / "torus") / f"{name}.safetensors"
    tensors = load_safetensors(read_verified(path, runs[name]["sha256"], path.name, "data/torus"))
    accuracy, loss = tensors.pop("accuracy"), tensors.pop("loss")
    return Trained(TorusNets(**tensors), runs[name]["measured_at"], accuracy, loss)


def _runs(folder: Path | None) -> dict[str, dict]:
    return read_json((folder or files.DATA / "torus") / "runs.json")
