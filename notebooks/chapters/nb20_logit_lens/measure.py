"""Notebook 20, the tour: what heads write, beside their sum and in the logits."""


import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model
from chapters.nb20_logit_lens.readings import written_by
from chapters.nb20_logit_lens.removals import centered, clean_run
from chapters.nb20_logit_lens.templates import Prompts, at_last


def head_outputs(model: Model, prompts: Prompts) -> Float[Tensor, "prompt layer head d_model"]:
    """What each head writes at the last position of each prompt."""
    z = clean_run(model, prompts).z
    return torch.stack([written_by(model, i, z[:, i]) for i in range(z.shape[1])], dim=1)


def top_of_sum(
    model: Model, parts: dict[str, Float[Tensor, " d_model"]], n: int = 5
) -> dict[str, tuple[list[str], list[float]]]:
    """Of some vectors and of their sum: the n top tokens, and their logits above the mean."""
    found = {}
    for name, x in (parts | {"sum": sum(parts.values())}).items():
        top = centered(x @ model.W_U).topk(n)
        found[name] = model.tokenizer.token_strings(top.indices), top.values.tolist()
    return found


@torch.no_grad()
def last_logits(
    model: Model, prompts: Prompts, edits: Edits | None = None
) -> Float[Tensor, "prompt d_vocab"]:
    """The logits at the last position of each prompt, in a run with edits."""
    pieces = prompts.pieces(model)
    return torch.cat([at_last(model(p.tokens, edits=edits), p) for _, p in pieces])
