"""Runs of a pretrained model in which some modules give something else."""

import contextlib
from collections.abc import Callable, Iterator, Mapping

from torch import Tensor, nn

Change = Callable[[nn.Module, tuple, Tensor], Tensor | None]
# The module, the tuple of what it reads, what it gives: what it gives instead; None: the same.


@contextlib.contextmanager
def changed_outputs(changes: Mapping[nn.Module, Change]) -> Iterator[None]:
    """Modules of a model give something else until the block ends, in all runs."""
    handles = [module.register_forward_hook(change) for module, change in changes.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
