"""The precision of a training run: bf16 where the machine has it and it was measured to pay."""

import time

import torch
from torch import Tensor, nn

from aot_helpers.training.config import TrainConfig
from aot_helpers.training.objectives import loss_function


def choose_bf16(model: nn.Module, batch: Tensor, config: TrainConfig) -> tuple[bool, dict]:
    """Whether to train in bf16, as config says or as measured now, and the measured seconds."""
    if config.bf16 is not None or not has_fast_bf16(model.W_E.device):
        return bool(config.bf16), {}
    measured = measured_seconds(model, batch, config)
    return measured["fp32"] >= 1.2 * measured["bf16"], measured


def has_fast_bf16(device: torch.device) -> bool:
    """True for a CUDA GPU that has bf16 and for a CPU with AMX: there bf16 may be faster."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return device.type == "cpu" and torch.cpu._is_amx_tile_supported()


def measured_seconds(model: nn.Module, batch: Tensor, config: TrainConfig) -> dict[str, float]:
    """Seconds of a loss and its gradients in "fp32" and in "bf16": the quickest of three, in turns.

    Weights, gradients and the state of random numbers are afterwards what they were.
    """
    batch, weights = batch.to(model.W_E.device), list(model.parameters())
    losses = {
        name: loss_function(model, config.objective, name == "bf16", config.compile)
        for name in ("fp32", "bf16")
    }
    seconds = {name: [] for name in losses}
    with torch.random.fork_rng():
        for _ in range(4):  # the first turn warms up
            for name, loss_of in losses.items():
                started = time.perf_counter()
                gradients = torch.autograd.grad(loss_of(batch), weights, allow_unused=True)
                gradients[0].sum().item()  # awaits GPUs
                seconds[name].append(time.perf_counter() - started)
    return {name: min(times[1:]) for name, times in seconds.items()}
