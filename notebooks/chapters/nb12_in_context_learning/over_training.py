"""Notebook 12: how context comes to be worth something, and the path of losses, over training."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.checkpoints import checkpoint_steps, load_checkpoint
from aot_helpers.models.protocol import Model
from chapters.nb12_in_context_learning.measure import last_losses, losses_of

RANGES = ((1, 2), (2, 3), (3, 5), (5, 9), (9, 17), (17, 33), (33, 65), (65, 128))  # of the index
NEAR, FAR = 8, 64  # tokens of context
PACES = torch.logspace(math.log10(20), math.log10(20_000), 80, dtype=torch.float64)  # in steps


def losses_by_step(name: str, texts: Tensor) -> tuple[list[int], Float[Tensor, "step text pos"]]:
    """The losses (nats) of every shipped snapshot of a run on the same texts."""
    steps = checkpoint_steps(name)
    return steps, torch.stack([losses_of(load_checkpoint(name, step), texts) for step in steps])


def per_doubling(losses: Float[Tensor, "*step text pos"]) -> Float[Tensor, "*step range"]:
    """How much the loss falls with each doubling of the token's index, between RANGES.

    Minus the derivative of the mean loss by the log (base 2) of the index: from the mean of one
    range to that of the next.
    """
    by_index = losses.mean(dim=-2)
    means = torch.stack([by_index[..., a - 1 : b - 1].mean(dim=-1) for a, b in RANGES], dim=-1)
    middle = torch.tensor([math.log2(math.sqrt(a * (b - 1))) for a, b in RANGES])
    return -means.diff(dim=-1) / middle.diff()


def context_slope(model: Model, texts: Tensor, far: Tensor | None = None) -> float:
    """Nats that a doubling of context saves, from 8 to 64 tokens, for the same 8 tokens.

    far: the texts that give the longer context, if they are others.
    """
    short = last_losses(model, texts, NEAR).mean()
    long = last_losses(model, texts if far is None else far, FAR).mean()
    return ((short - long) / math.log2(FAR / NEAR)).item()


def plane(vectors: Float[Tensor, "point token"]) -> tuple[Tensor, Tensor, list[float]]:
    """The mean [token], the first two principal components [2, token], and their shares."""
    mean = vectors.mean(dim=0)
    _, values, directions = torch.linalg.svd(vectors - mean, full_matrices=False)
    shares = values**2 / (values**2).sum()
    return mean, directions[:2], shares[:2].tolist()


def turn(steps: list[int], path: Float[Tensor, "step axis"], at: int, reach: int = 200) -> float:
    """The angle (degrees) between the ways from `at` - reach to `at` and on to `at` + reach.

    Raises ValueError where one of the three is no step of the path.
    """
    wanted = [at - reach, at, at + reach]
    if missing := [step for step in wanted if step not in steps]:
        raise ValueError(f"the path has no step {missing[0]}; it has {steps}")
    before, here, after = (path[steps.index(step)] for step in wanted)
    ways = here - before, after - here
    return math.degrees(torch.cosine_similarity(*ways, dim=0).clamp(-1, 1).acos())


def at_its_own_pace(
    steps: list[int], losses: Float[Tensor, "step token"]
) -> Float[Tensor, "step token"]:
    """Each token's loss as one exponential, c + d exp(-step / pace), fitted by least squares.

    What the path would be if every token were learned gradually, each at its own pace.
    """
    losses, time = losses.double(), torch.tensor(steps, dtype=torch.float64)
    best = torch.full((losses.shape[1],), math.inf, dtype=torch.float64)
    fitted = losses.clone()
    for pace in PACES:
        basis = torch.stack([torch.ones_like(time), (-time / pace).exp()], dim=1)
        found = basis @ torch.linalg.lstsq(basis, losses).solution
        error = ((found - losses) ** 2).sum(dim=0)
        fitted = torch.where(error < best, found, fitted)
        best = torch.minimum(best, error)
    return fitted.float()


def drawn_tokens(n_texts: int, n_each: int, length: int, seed: int) -> Int[Tensor, "text drawn"]:
    """So many different places in each text, by lot: a fixed set of tokens."""
    generator = torch.Generator().manual_seed(seed)
    return torch.stack(
        [torch.randperm(length, generator=generator)[:n_each] for _ in range(n_texts)]
    )
