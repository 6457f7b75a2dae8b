"""The faults of the training report S0 one by one, and set-ups that have some of them.

A set-up is a set of faults. Without any it is an ordinary small transformer; evidence 16 draws the
ladder from there to all of them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn

from aot_helpers.base.errors import unknown_name
from aot_helpers.models.transformer import ModelConfig
from chapters.nb16_too_good.report_model import (
    ReportModel,
    Rows,
    loss_over_time,
    next_token_loss,
)

SWEEP = {
    "notebook": "notebooks/trials/autopsy.ipynb",
    "grid": {
        "max_length": [20, 50, 80],
        "learning_rate": [1e-4, 1e-3],
        "n_heads": [4, 8],
        "d_model": [128, 256],
        "mended": [False, True],
    },
    "fixed": {"steps": 100, "corpus": "imdb"},
}


class Fault(NamedTuple):
    """What the field calls a fault of the report's code, and how it is put into a new model."""

    term: str
    put_into: Callable[[ReportModel], None] | None = None


def _tie_layers(model: ReportModel) -> None:
    blocks = model.transformer.blocks
    for i in range(1, len(blocks)):
        blocks[i] = blocks[0]


def _drop_stream(model: ReportModel) -> None:
    for block in model.transformer.blocks:
        block.adds = False


def _straighten(model: ReportModel) -> None:
    for block in model.transformer.blocks:
        block.bends = False


def _drop_norms(model: ReportModel) -> None:
    model.transformer.ln_final = nn.Identity()
    for block in model.transformer.blocks:
        block.ln1 = nn.Identity()
        if hasattr(block, "ln2"):
            block.ln2 = nn.Identity()


def _shorten_tokens(model: ReportModel) -> None:
    """nn.Embedding(…, max_norm=1) beside positions of standard deviation 1, as S0 has them."""
    inner = model.transformer
    inner.W_E.data.normal_()
    inner.W_pos.data.normal_()

    def shorten(module, arguments):
        module.W_E.data.renorm_(p=2, dim=0, maxnorm=1.0)

    inner.register_forward_pre_hook(shorten)


FAULTS = {
    # For each token of the vocabulary, the softmax runs over the positions of a text.
    "loss over time": Fault("softmax over positions"),
    # The filling after a short text is a token to be predicted.
    "padding counts": Fault("padding in the loss"),
    # Both layers are the same block.
    "one block twice": Fault("tied layers", _tie_layers),
    # No nonlinearity between the two matrices.
    "straight MLP": Fault("linear MLP", _straighten),
    # Each layer replaces what it reads, where it is usual to add to it.
    "no stream": Fault("no residual stream", _drop_stream),
    # Layers read the numbers as they are.
    "no layer norm": Fault("no layer norm", _drop_norms),
    # Token vectors are 1 long at most, positions about as long as the root of d_model.
    "short tokens": Fault("short embeddings", _shorten_tokens),
}

LEARNED = [name for name in FAULTS if name != "short tokens"]  # of that no combination was tried


@dataclass(frozen=True)
class Setup:
    """One training run: its faults, its shape, its steps. The rest is the report's.

    faults: names among FAULTS. d_mlp: 0 leaves the MLP out. steps are batches of 50 texts.
    """

    faults: frozenset[str] = frozenset()
    n_layers: int = 2
    d_model: int = 128
    n_heads: int = 4
    d_mlp: int = 128
    learning_rate: float = 1e-3
    batch_size: int = 50
    steps: int = 600
    seed: int = 0

    def __post_init__(self):
        for fault in self.faults:
            if fault not in FAULTS:
                raise unknown_name("fault", fault, FAULTS)
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model must be a multiple of n_heads, got {self.d_model} and {self.n_heads}"
            )


class Learned(NamedTuple):
    """A trained model, its own loss at every step, and the seconds it took."""

    model: ReportModel
    losses: list[float]
    seconds: float


def learn(setup: Setup, rows: Rows) -> Learned:
    """A new model trained on the rows, with the set-up's faults in model, loss and targets."""
    torch.manual_seed(setup.seed)
    width, n_heads, n_ctx = setup.d_model, setup.n_heads, rows.tokens.shape[1]
    shape = rows.tokenizer.d_vocab, setup.n_layers, width, n_heads, width // n_heads, n_ctx
    model = ReportModel(ModelConfig(*shape, "standard", d_mlp=setup.d_mlp))
    for name in FAULTS:
        if name in setup.faults and FAULTS[name].put_into:
            FAULTS[name].put_into(model)
    loss_of = loss_over_time if "loss over time" in setup.faults else next_token_loss
    optimizer = torch.optim.AdamW(model.parameters(), setup.learning_rate)
    losses, started = [], time.perf_counter()
    for _ in range(setup.steps):
        at = torch.randint(len(rows.tokens), (setup.batch_size,))
        inputs, targets, real = rows.batch(at)
        logits = model(inputs)
        if "padding counts" in setup.faults:
            real = torch.ones_like(real)
        loss = loss_of(logits, targets, real)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return Learned(model, losses, time.perf_counter() - started)


@torch.no_grad()
def examine(model: ReportModel, rows: Rows, batch_size: int = 50) -> dict[str, float]:
    """The next-token loss (nats) and accuracy over real tokens, and the loss as S0 takes it."""
    sums = dict.fromkeys(("loss", "accuracy", "over time"), 0.0)
    n_real = 0
    for at in torch.arange(len(rows.tokens)).split(batch_size):
        inputs, targets, real = rows.batch(at)
        logits, n = model(inputs), int(real.sum())
        n_real += n
        sums["loss"] += next_token_loss(logits, targets, real).item() * n
        sums["accuracy"] += (logits.argmax(-1) == targets)[real].sum().item()
        sums["over time"] += loss_over_time(logits, targets).item() * len(at)
    found = {"loss": sums["loss"] / n_real, "accuracy": sums["accuracy"] / n_real}
    return found | {"over time": sums["over time"] / len(rows.tokens)}
