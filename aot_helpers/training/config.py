"""How to train: steps, rates, logs and checkpoints, checked before any work."""

import math
from dataclasses import dataclass

from aot_helpers.base.errors import check_flag, check_one_of, check_whole, is_number


@dataclass(frozen=True)
class TrainConfig:
    """How to train: the optimizer and its rates, a linear warm-up, then a linear decay.

    final_fraction: of learning_rate; the rate would reach it one step after the last.
    optimizer: "adamw", or "muon": orthogonalized momentum for the matrices of heads at
        learning_rate_heads, AdamW for the rest (see optimizers.Muon).
    learning_rate_relative: a factor for relative position biases, which start at 0 and go far.
    checkpoint: a file, written every checkpoint_every steps and at the end.
    bf16: run the model in half precision, which a GPU of Nvidia and a CPU with AMX do faster.
    """

    steps: int = 1000
    learning_rate: float = 4e-3
    warmup_steps: int = 50
    final_fraction: float = 0.1
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    clip_norm: float = 1.0
    learning_rate_relative: float = 10.0
    log_every: int = 100
    checkpoint: str | None = None
    checkpoint_every: int = 500
    bf16: bool = False
    optimizer: str = "adamw"
    learning_rate_heads: float = 0.02

    def __post_init__(self):
        for name in ("steps", "log_every", "checkpoint_every"):
            check_whole(name, getattr(self, name), 1, unit=" of steps")
        check_whole("warmup_steps", self.warmup_steps, 0, unit=" of steps")
        check_flag("bf16", self.bf16)
        check_one_of("optimizer", self.optimizer, ("adamw", "muon"))
        for name in ("learning_rate", "clip_norm", "learning_rate_relative", "learning_rate_heads"):
            value = getattr(self, name)
            if not is_number(value) or not 0 < value < math.inf:
                raise ValueError(f"{name} must be a number above 0, got {value!r}")
        fractions = {"final_fraction": self.final_fraction, "weight_decay": self.weight_decay}
        if not isinstance(self.betas, tuple | list) or len(self.betas) != 2 or 1 in self.betas:
            raise ValueError(f"betas must be two numbers from 0 to below 1, got {self.betas!r}")
        fractions |= {f"betas[{i}]": beta for i, beta in enumerate(self.betas)}
        for name, value in fractions.items():
            if not is_number(value) or not 0 <= value <= 1:
                raise ValueError(f"{name} must be a number from 0 to 1, got {value!r}")

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        warm = min(1.0, (step + 1) / max(self.warmup_steps, 1))
        return self.learning_rate * warm * (1 - (1 - self.final_fraction) * step / self.steps)
