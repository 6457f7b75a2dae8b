"""Attention-only transformers: text → tokens → model → training → reading → pictures.

Layers are folders, and imports point one way: base, offline, text, models, parallel, training,
reading, showing, teaching. The names that people type first are here as well,
`aot.load_checkpoint("stories-2l")`, and so are the modules that they type, `aot.plots`; nothing is
imported before it is used.
"""

import difflib
import importlib
import os

from aot_helpers.base import machine

__version__ = "0.1.0"

machine.let_waiting_threads_sleep()
machine.print_what_a_stream_lacks()

# Where the names stand that people type first.
_NAMES = {
    "models.checkpoints": "load_checkpoint list_checkpoints checkpoint_steps load_measurements "
    "save_model load_model",
    "models.losses": "next_token_losses copy_losses copy_accuracy",
    "models.pretrained": "load_pretrained",
    "models.protocol": "Head all_heads",
    "models.sampling": "generate",
    "models.transformer": "AttentionOnlyTransformer ModelConfig",
    "reading.circuits": "full_ov k_composition_circuit copying_score",
    "reading.head_table": "head_table",
    "reading.heads": "by_length head_scores induction_scores",
    "reading.interventions": "ablate cut_path cut_paths merge",
    "showing.widgets": "Explorer",
    "teaching.checks": "check",
    "teaching.exercises": "grade write",
    "teaching.ledger": "claim claims_table",
    "teaching.progress": "progress",
    "text.batches": "Windows pad_batch repeat_segments repeated_tokens token_stream",
    "text.corpora": "load_corpus",
    "training.config": "TrainConfig",
    "training.train": "train",
}
# And the modules that they type, `aot.circuits.full_qk(…)`.
_MODULES = {
    "base": "results statistics",
    "text": "planted stories tokenization",
    "models": "handmade losses",
    "training": "copying",
    "reading": "circuits heads interventions logit_lens norms paths",
    "showing": "diagrams plots texts",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}
_LAYER_OF = {name: layer for layer, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str):
    if name in _MODULE_OF:
        return getattr(importlib.import_module(f"aot_helpers.{_MODULE_OF[name]}"), name)
    if name in _LAYER_OF:
        return importlib.import_module(f"aot_helpers.{_LAYER_OF[name]}.{name}")
    near = difflib.get_close_matches(name, __dir__(), n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise AttributeError(f"aot_helpers has no {name!r}; {hint}dir(aot_helpers) lists what it has")


def __dir__():
    return sorted({*_MODULE_OF, *_LAYER_OF, "setup"})


def setup(seed: int = 0, threads: int | None = None):
    """Seed everything, set threads and the look of figures, and return the device to work on.

    threads: for torch; None keeps OMP_NUM_THREADS, or 1 where that is not set: small models are
        often faster with one. In a process that torchrun or accelerate launch started, join the
        others; the device is its own.
    """
    import random

    import numpy
    import torch

    from aot_helpers.base.errors import check_whole
    from aot_helpers.parallel import join
    from aot_helpers.showing.style import use_style

    check_whole("seed", seed, 0, 2**32 - 1)
    if threads is None:  # OpenMP allows a list such as "2,1", one number per level of nesting
        threads = int(os.environ.get("OMP_NUM_THREADS", "1").split(",")[0])
    check_whole("threads", threads, 1, 1024)
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    machine.keep_freed_memory()
    machine.show_widgets_on_colab()
    use_style()
    join()
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
