"""The page's way into TransformerLens: the same logits, where it is installed."""

import re
from pathlib import Path

import pytest
import torch

import aot_helpers as aot

WHY = "TransformerLens before 4 is no dependency; install it beside the pins to run this"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "using.md"


@pytest.mark.filterwarnings("ignore:HookedTransformer is deprecated")
@pytest.mark.parametrize("name", ["stories-2l-standard", "stories-2l-shortformer"])
def test_the_pages_code_gives_the_same_logits(name):
    lens = pytest.importorskip("transformer_lens", reason=WHY)
    if not hasattr(lens, "HookedTransformer"):
        pytest.skip(WHY)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    (code,) = (block for block in blocks if "transformer_lens" in block)
    there = {"aot": aot}
    exec(code.replace("stories-2l-standard", name), there)
    tokens = aot.repeated_tokens(1024, length=30, batch=4)
    with torch.no_grad():
        ours, theirs = there["model"](tokens), there["hooked"](tokens)
    torch.testing.assert_close(theirs, ours, atol=1e-4, rtol=0)
