"""One training run in several processes: each has its rows of a batch, all take the same steps.

torchrun or accelerate launch starts them, `aot_helpers.setup()` joins them. In a process of its
own a run has everything, and nothing here changes it.
"""

import atexit
import os

import torch
import torch.distributed as dist
from torch import Tensor


def join() -> None:
    """Join the processes that a launcher started, each with its own GPU, until Python ends."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or size() > 1:
        return
    if cuda := torch.cuda.is_available():
        own, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if own >= there:
            raise ValueError(f"process {own} has no GPU, there are {there}: start {there} or fewer")
        torch.cuda.set_device(own)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())


def size() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Which of them this one is. Process 0 prints, draws and writes for all."""
    return dist.get_rank() if size() > 1 else 0


def say(text: str, quiet: bool = False) -> None:
    """Print, in process 0 alone."""
    if rank() == 0 and not quiet:
        print(text)


def wait() -> None:
    """Go on when all processes have come here."""
    if size() > 1:
        dist.barrier()


def share(tokens: Tensor) -> Tensor:
    """The rows of this process. Raises ValueError for a batch that cannot be shared out evenly."""
    if len(tokens) % size():
        raise ValueError(
            f"a batch of {len(tokens)} rows cannot be shared evenly by {size()} processes: make "
            "batch_size a multiple of their number, or start another number of processes"
        )
    return tokens[rank() :: size()]


def start_alike(model, facts: dict, history):
    """Process 0's history, and its weights in all models. Raises ValueError if facts differ."""
    if size() == 1:
        return history
    everyone = [None] * size()
    dist.all_gather_object(everyone, ({**facts, "steps taken": history.steps}, history))
    told = {name: [other[name] for other, _ in everyone] for name in everyone[0][0]}
    if differ := [f"{n} {v}" for n, v in told.items() if any(x != v[0] for x in v)]:
        raise ValueError(
            f"the processes differ in {', '.join(differ)}: give all of them the same settings, "
            "data and checkpoint"
        )
    for parameter in model.parameters():
        dist.broadcast(parameter.detach(), 0)
    return everyone[0][1]


def agree(loss: Tensor, presses: list) -> float:
    """The mean loss of all processes. Raises KeyboardInterrupt in all if one has presses."""
    both = torch.stack([loss.detach(), loss.new_tensor(float(len(presses)))])
    if size() > 1:
        dist.all_reduce(both)
    total, stops = both.tolist()
    if stops:
        raise KeyboardInterrupt
    return total / size()


def average_gradients(model) -> None:
    """Give every process the mean gradients of all, as if it had seen the whole batch."""
    if size() > 1:
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        means = torch.cat([grad.flatten() for grad in grads]) / size()
        dist.all_reduce(means)
        for grad, mean in zip(grads, means.split([g.numel() for g in grads]), strict=True):
            grad.copy_(mean.view_as(grad))
