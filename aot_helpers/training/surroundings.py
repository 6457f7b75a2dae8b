"""The process around a training run: its stop button and its threads, lent and given back."""

import contextlib
import signal
import threading
from collections.abc import Iterator

import torch
from torch import nn

# Below so many weights a second thread costs more than it gives, above all beside busy neighbors.
SMALL_MODEL = 1_000_000


@contextlib.contextmanager
def stop_button() -> Iterator[list]:
    """Hold the stop button (SIGINT) back, so that no step is cut in two; yield the presses.

    Where the button does nothing, as in threads and in the background of a shell, that stays.
    """
    presses, handler = [], signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or handler == signal.SIG_IGN:
        yield presses
        return
    signal.signal(signal.SIGINT, lambda *_: presses.append(True))
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def threads_for(model: nn.Module, threads: int | None = None) -> Iterator[None]:
    """Let PyTorch have so many threads on the CPU; None: one for a small model, else as it was."""
    before = torch.get_num_threads()
    small = sum(parameter.numel() for parameter in model.parameters()) < SMALL_MODEL
    torch.set_num_threads(threads or (1 if small else before))
    try:
        yield
    finally:
        torch.set_num_threads(before)
