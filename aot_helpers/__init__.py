"""Helpers of the attention-only transformer notebooks: a thin package, read in an afternoon.

1 text: stories, planted, wikitext, corpora, tokenization
2 models: model, handmade, torus, checkpoints    3 training: train, memorization
4 reading: lowrank, circuits, interventions, heads
5 showing: plots, torus_plots, widgets    6 teaching: claims, exercises
"""

__version__ = "0.1.0"


def setup(seed: int = 0, threads: int | None = None):
    """Seed everything, set the number of threads, and return the device to work on.

    threads: CPU threads for torch; None keeps OMP_NUM_THREADS, or 1 where that is not set (small
        models are often faster with one). On Colab, custom widgets are switched on.
    """
    import ctypes
    import os
    import platform
    import random
    import sys

    import numpy
    import torch

    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise ValueError(f"seed must be a whole number from 0 to 2**32 - 1, got {seed!r}")
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    # OpenMP allows a list such as "2,1", one number per level of nesting.
    torch.set_num_threads(threads or int(os.environ.get("OMP_NUM_THREADS", "1").split(",")[0]))
    if platform.libc_ver()[0] == "glibc":
        # Keep freed memory: giving each large tensor back to Linux makes small models train a third
        # slower. -1 is M_TRIM_THRESHOLD, -3 is M_MMAP_THRESHOLD.
        for option in (-1, -3):
            ctypes.CDLL(None).mallopt(option, 1 << 30)
    if "google.colab" in sys.modules:
        from google.colab import output

        output.enable_custom_widget_manager()
    accelerator = (
        torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    )
    return accelerator or torch.device("cpu")
