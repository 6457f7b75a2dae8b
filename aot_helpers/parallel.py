"""One training run in several processes: each has its rows of a batch, all take the same steps.

torchrun or accelerate launch starts them, `aot_helpers.setup()` joins them, and PyTorch's
DistributedDataParallel gives all of them the weights of process 0 and the mean of the gradients. In
a process of its own a run has everything, and nothing here changes it.
"""

import atexit
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn


def join() -> None:
    """Join the processes that a launcher started, each with its own GPU, until Python ends."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or world_size() > 1:
        return
    if cuda := torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())


def world_size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is. Process 0 prints, draws and writes for all."""
    return dist.get_rank() if world_size() > 1 else 0


def print0(text: str, quiet: bool = False) -> None:
    """Print, in process 0 alone."""
    if rank() == 0 and not quiet:
        print(text)


def barrier() -> None:
    """Go on when all processes have come here."""
    if world_size() > 1:
        dist.barrier()


def shard(tokens: Tensor) -> Tensor:
    """The rows of this process. Raises ValueError for a batch that cannot be divided evenly."""
    if len(tokens) % world_size():
        raise ValueError(
            f"a batch of {len(tokens)} rows cannot be shared evenly by {world_size()} processes: "
            "make batch_size a multiple of their number, or start another number of processes"
        )
    return tokens[rank() :: world_size()]


def replicated(model: nn.Module) -> nn.Module:
    """The model, whose backward pass averages the gradients of all processes."""
    return nn.parallel.DistributedDataParallel(model) if world_size() > 1 else model


def all_reduce_mean(*values: Tensor | float) -> list[float]:
    """The mean of each value over all processes."""
    means = torch.tensor([float(value) for value in values]) / world_size()
    if world_size() > 1:
        dist.all_reduce(means)
    return means.tolist()
