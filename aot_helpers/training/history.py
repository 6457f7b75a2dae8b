"""What a training run leaves behind: the loss of every step, how fast, and how it ended."""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


@dataclass
class History:
    """The loss of every step (nats per token, before its update) and how training ended.

    ended: "finished" or "interrupted" (the stop button). seconds: of the training steps alone.
    """

    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    ended: str = "running"
    tokens_per_step: int = 0

    @property
    def steps(self) -> int:
        """How many steps have been taken."""
        return len(self.losses)

    def smoothed(self, n: int = 50) -> Float[Tensor, " steps"]:
        """At each step, the mean loss of the last n steps (fewer at the start)."""
        sums = F.pad(torch.tensor(self.losses, dtype=torch.float64).cumsum(0), (1, 0))
        ends = torch.arange(1, self.steps + 1)
        starts = (ends - n).clamp(min=0)
        return (sums[ends] - sums[starts]) / (ends - starts)

    def line(self, steps: int) -> str:
        """Where a run of so many steps is: its loss, its speed, and how long it will take."""
        seconds = self.seconds / self.steps
        return (
            f"step {self.steps:5d} of {steps}   loss {self.smoothed()[-1]:.3f} nats   "
            f"{self.tokens_per_step / seconds:,.0f} tokens/s   "
            f"{seconds * (steps - self.steps):.0f} s left"
        )
