"""Attention-only transformers: text → tokens → model → training → reading → pictures.

Layers are folders, and imports point one way: base, text, models, training, reading, showing;
then studies (what one family of notebooks needs) and teaching (claims and exercises).
The names that people type first are here as well: `aot_helpers.load_checkpoint("stories-2l")`.
"""

import importlib

__version__ = "0.1.0"

# Where the names stand that people type first; nothing is imported before it is used.
_FIRST = {
    "load_checkpoint": "models.checkpoints",
    "list_checkpoints": "models.checkpoints",
    "load_corpus": "text.corpora",
    "load_tokenizer": "text.tokenization",
    "load_pretrained": "models.pretrained",
    "train": "training.train",
    "battery": "reading.battery",
    "claim": "teaching.claims",
}


def __getattr__(name: str):
    if name not in _FIRST:
        raise AttributeError(f"aot_helpers has no {name!r}; at the top there are {__dir__()}")
    return getattr(importlib.import_module(f"aot_helpers.{_FIRST[name]}"), name)


def __dir__():
    return sorted([*_FIRST, "setup"])


def setup(seed: int = 0, threads: int | None = None):
    """Seed everything, set the number of threads, and return the device to work on.

    threads: for torch; None keeps OMP_NUM_THREADS, or 1 where that is not set (small models are
        often faster with one). On Colab, custom widgets are switched on. In a process that
        torchrun or accelerate launch started, join the others; the device is its own.
    """
    import ctypes
    import os
    import platform
    import random
    import sys

    import numpy
    import torch

    from aot_helpers.base.errors import check_whole
    from aot_helpers.training.parallel import join

    check_whole("seed", seed, 0, 2**32 - 1)
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
    join()
    available = torch.accelerator.is_available()
    return torch.accelerator.current_accelerator() if available else torch.device("cpu")
