"""Whatever reads a model says in one way what its tokens must be, before any work."""

import pytest
import torch

from aot_helpers.models.losses import copy_accuracy, copy_losses, next_token_losses
from aot_helpers.models.protocol import Head
from aot_helpers.reading.head_table import head_table
from aot_helpers.reading.heads import HEAD_PATTERNS, head_scores, induction_scores
from aot_helpers.reading.interventions import (
    ablate,
    cut_path,
    freeze_patterns,
    patch_heads,
    patch_stream,
)
from aot_helpers.reading.paths import direct_logit_attribution, path_terms

NO_TOKENS = {
    "a list": ([[0, 1, 2, 1, 2]], "whole numbers, got list: torch.tensor"),
    "text": ("in a word", "whole numbers, got str: .*tokenizer"),
    "decimals": (torch.ones(1, 5), r"whole numbers, got torch\.float32: .*long"),
    "one sequence": (torch.tensor([0, 1, 2, 1, 2]), r"got \(5,\); .*tokens\[None\]"),
}
READERS = {
    "logits": lambda model, tokens: model(tokens),
    "head_scores": lambda model, tokens: head_scores(model, tokens, "previous"),
    "induction_scores": induction_scores,
    "path_terms": path_terms,
    "direct_logit_attribution": direct_logit_attribution,
    "ablate": lambda model, tokens: ablate(model, [Head(0, 0)], "mean", tokens),
    "patch_heads": lambda model, tokens: patch_heads(model, tokens, [Head(0, 0)], [1]),
    "patch_stream": lambda model, tokens: patch_stream(model, tokens, "L1.resid_pre"),
    "cut_path": lambda model, tokens: cut_path(model, tokens, Head(0, 0), Head(1, 0), "K"),
    "freeze_patterns": freeze_patterns,
    "next_token_losses": lambda model, tokens: next_token_losses(torch.ones(1, 5, 11), tokens),
    "head_table": head_table,
    "copy_losses": copy_losses,
    "copy_accuracy": copy_accuracy,
}
READERS |= {name: lambda model, tokens, f=f: f(tokens) for name, f in HEAD_PATTERNS.items()}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize(("tokens", "said"), NO_TOKENS.values(), ids=NO_TOKENS)
def test_what_are_no_tokens_is_named_with_the_remedy(make_model, unchecked, read, tokens, said):
    with pytest.raises(ValueError, match=said):
        read(make_model(layer_norm=False), tokens)
