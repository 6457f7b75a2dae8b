"""Attention-only transformers: text → tokens → model → training → reading → pictures.

Layers are folders, and imports point one way: base, offline, text, models, parallel, training,
reading, showing, teaching. The names that people type first are here as well,
`aot.load_checkpoint("stories-2l")`, and each module under its own name, `aot.plots`; nothing is
imported before it is used.
"""

import difflib
import importlib
import os
import sys
from pathlib import Path

__version__ = "0.1.0"

# Threads that wait should sleep: with more of them than free cores OpenMP otherwise spins, and tiny
# models train many times slower. PyTorch reads this once, when it is loaded.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
for _stream in (sys.stdout, sys.stderr):  # a C locale, and a pipe of Windows, have no "■" or "…"
    if getattr(_stream, "errors", "") == "strict" and "utf" not in _stream.encoding.lower():
        _stream.reconfigure(errors="replace")

# Where the names stand that people type first; nothing is imported before it is used.
_NAMES = {
    "models.checkpoints": "load_checkpoint list_checkpoints checkpoint_steps load_measurements "
    "save_model load_model",
    "models.losses": "next_token_losses copy_losses copy_accuracy",
    "models.pretrained": "load_pretrained",
    "models.protocol": "Head all_heads",
    "models.sampling": "generate",
    "models.transformer": "AttentionOnlyTransformer ModelConfig",
    "reading.circuits": "full_ov full_qk k_composition_circuit copying_score",
    "reading.head_table": "head_table",
    "reading.heads": "by_length head_scores induction_scores",
    "reading.interventions": "ablate cut_path cut_paths merge",
    "showing.widgets": "Explorer",
    "teaching.checks": "check",
    "teaching.claims": "claim claims_table",
    "teaching.exercises": "grade write",
    "teaching.progress": "progress",
    "text.batches": "Windows pad_batch repeat_segments repeated_tokens token_stream",
    "text.corpora": "load_corpus",
    "text.tokenization": "load_tokenizer",
    "training.config": "TrainConfig",
    "training.copying": "learn_to_copy",
    "training.train": "train",
}
# Fonts for scripts that matplotlib's own lacks: those of them that are installed are asked in turn.
FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Droid Sans Fallback", "WenQuanYi Micro Hei",
    "PingFang SC", "Hiragino Sans GB", "Microsoft YaHei", "Malgun Gothic", "Arial Unicode MS",
    "Noto Sans Devanagari", "Nirmala UI", "Noto Sans Thai", "Leelawadee UI", "Noto Sans Hebrew",
    "Noto Sans Bengali", "Noto Sans Tamil", "Noto Emoji", "Segoe UI Emoji",
)  # fmt: skip
_FIRST = {name: module for module, names in _NAMES.items() for name in names.split()}
# And every module of the library by its own name, so that `aot.circuits` needs no import.
_MODULES = {
    path.stem: f"{path.parent.name}.{path.stem}"
    for path in sorted(Path(__file__).parent.glob("[a-z]*/[a-z]*.py"))
} | {"exercises": "teaching.exercises", "parallel": "parallel"}


def __getattr__(name: str):
    if name in _FIRST:
        return getattr(importlib.import_module(f"aot_helpers.{_FIRST[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"aot_helpers.{_MODULES[name]}")
    near = difflib.get_close_matches(name, __dir__(), n=3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise AttributeError(f"aot_helpers has no {name!r}; {hint}dir(aot_helpers) lists what it has")


def __dir__():
    return sorted({*_FIRST, *_MODULES, "setup"})


def setup(seed: int = 0, threads: int | None = None):
    """Seed everything, set threads and the look of figures, and return the device to work on.

    threads: for torch; None keeps OMP_NUM_THREADS, or 1 where that is not set. Small models are
        often faster with one, and `train` gives them one unless TrainConfig.threads says otherwise.
    On Colab, custom widgets are switched on. In a process that torchrun or accelerate launch
    started, join the others; the device is its own.
    """
    import ctypes
    import platform
    import random
    import warnings

    import matplotlib.font_manager
    import numpy
    import torch

    from aot_helpers.base.errors import check_whole
    from aot_helpers.parallel import join

    check_whole("seed", seed, 0, 2**32 - 1)
    if threads is not None:
        check_whole("threads", threads, 1, 1024)
    fonts = {font.name for font in matplotlib.font_manager.fontManager.ttflist}
    families = [*matplotlib.rcParams["font.family"], *(name for name in FONTS if name in fonts)]
    matplotlib.rcParams.update(
        {"figure.dpi": 90, "axes.spines.top": False, "axes.spines.right": False}
        | {"font.family": list(dict.fromkeys(families))}
    )
    warnings.filterwarnings("ignore", "Glyph .* missing from font")  # labels say so, and once
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
