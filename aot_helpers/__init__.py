"""Attention-only transformers: text → tokens → model → training → reading → pictures.

Layers are folders, and imports point one way: base, text, models, training, reading, showing,
teaching. The names that people type first are here as well, `aot.load_checkpoint("stories-2l")`,
and each module under its own name, `aot.plots`; nothing is imported before it is used.
"""

import importlib
import os
import sys
from pathlib import Path

__version__ = "0.1.0"

# Threads that wait should sleep: with more of them than free cores OpenMP otherwise spins, and tiny
# models train many times slower. PyTorch reads this once, when it is loaded.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Where the names stand that people type first; nothing is imported before it is used.
_FIRST = {
    "load_checkpoint": "models.checkpoints",
    "list_checkpoints": "models.checkpoints",
    "checkpoint_steps": "models.checkpoints",
    "load_measurements": "models.checkpoints",
    "load_corpus": "text.corpora",
    "load_tokenizer": "text.tokenization",
    "load_pretrained": "models.pretrained",
    "Head": "models.protocol",
    "all_heads": "models.protocol",
    "AttentionOnlyTransformer": "models.transformer",
    "ModelConfig": "models.transformer",
    "generate": "models.sampling",
    "next_token_losses": "models.losses",
    "copy_losses": "models.losses",
    "copy_accuracy": "models.losses",
    "Windows": "text.batches",
    "pad_batch": "text.batches",
    "repeat_segments": "text.batches",
    "repeated_tokens": "text.batches",
    "token_stream": "text.batches",
    "TrainConfig": "training.config",
    "train": "training.train",
    "learn_to_copy": "training.copying",
    "ablate": "reading.interventions",
    "cut_path": "reading.interventions",
    "cut_paths": "reading.interventions",
    "merge": "reading.interventions",
    "full_ov": "reading.circuits",
    "full_qk": "reading.circuits",
    "k_composition_circuit": "reading.circuits",
    "copying_score": "reading.circuits",
    "head_scores": "reading.heads",
    "induction_scores": "reading.heads",
    "battery": "reading.head_table",
    "Explorer": "showing.widgets",
    "check": "teaching.claims",
    "claim": "teaching.claims",
    "claims_table": "teaching.claims",
    "grade": "teaching.exercises",
    "write": "teaching.exercises",
}


# {module: layer.module} of the library, so that `aot.circuits` needs no import of its own.
_MODULES = {
    path.stem: f"{path.parent.name}.{path.stem}"
    for path in sorted(Path(__file__).parent.glob("[a-z]*/[a-z]*.py"))
} | {"exercises": "teaching.exercises", "parallel": "parallel"}


def __getattr__(name: str):
    if name in _FIRST:
        return getattr(importlib.import_module(f"aot_helpers.{_FIRST[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"aot_helpers.{_MODULES[name]}")
    raise AttributeError(f"aot_helpers has no {name!r}; at the top there are {__dir__()}")


def __dir__():
    return sorted({*_FIRST, *_MODULES, "setup"})


def setup(seed: int = 0, threads: int | None = None):
    """Seed everything, set threads and the look of figures, and return the device to work on.

    threads: for torch; None keeps OMP_NUM_THREADS, or 1 where that is not set (small models are
        often faster with one). On Colab, custom widgets are switched on. In a process that
        torchrun or accelerate launch started, join the others; the device is its own.
    """
    import ctypes
    import platform
    import random

    import matplotlib
    import numpy
    import torch

    from aot_helpers.base.errors import check_whole
    from aot_helpers.parallel import join

    check_whole("seed", seed, 0, 2**32 - 1)
    matplotlib.rcParams.update(
        {"figure.dpi": 90, "axes.spines.top": False, "axes.spines.right": False}
    )
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
