"""Shapes are checked while the tests run; the network and the reader's caches are never used."""

import os
import tempfile
from pathlib import Path

import jaxtyping
import pytest
import torch

# Before anything imports the hub's libraries: an empty cache, so that no test depends on what was
# downloaded earlier.
_CACHE = tempfile.TemporaryDirectory(prefix="aot-hf-")
os.environ.update(HF_HUB_OFFLINE="1", HF_HOME=_CACHE.name)
os.environ["AOT_PROGRESS"] = "off"  # what a test solves is not the reader's progress
torch.set_num_threads(1)

# Before anything imports the package: every annotated shape becomes a check, in the modules that
# annotate shapes (the many small calls of `stories` would only be slow). An int is a float here.
PACKAGE = Path(__file__).resolve().parent.parent / "aot_helpers"
SHAPED = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if "jaxtyping" in path.read_text(encoding="utf-8")
]
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
jaxtyping.install_import_hook(SHAPED, CHECKER)

SMALL = dict(d_vocab=11, n_layers=2, d_model=8, n_heads=2, d_head=4, n_ctx=10)


@pytest.fixture
def seeded():
    """Draws that are the same in every run."""
    torch.manual_seed(0)


@pytest.fixture
def make_model():
    """A tiny model whose gains, biases and relative biases are not 0 or 1, as they start."""
    from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig

    def make(seed=0, **changes):
        torch.manual_seed(seed)
        model = AttentionOnlyTransformer(ModelConfig(**{**SMALL, **changes}))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim == 1 or name.endswith("b_rel"):
                    parameter.add_(torch.randn_like(parameter))
        return model.eval()

    return make


@pytest.fixture
def some_tokens():
    """[3, 7] token ids of the tiny model."""
    return torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def unchecked():
    """Functions as readers have them, whose annotated shapes and types are not checked."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def stories():
    """The shipped model of two layers, whose weights no test may change."""
    from aot_helpers.models.checkpoints import load_checkpoint

    return load_checkpoint("stories-2l").requires_grad_(False)


@pytest.fixture(scope="session")
def shipped():
    """The shipped GPT-2, docstrings-gpt2, whose weights no test may change."""
    from aot_helpers.models.pretrained import load_pretrained

    return load_pretrained("docstrings-gpt2").requires_grad_(False)


@pytest.fixture
def linear(make_model):
    """A model whose paths add up exactly."""

    def make(**changes):
        return make_model(**{"layer_norm": False, "positions": "relative", **changes})

    return make
