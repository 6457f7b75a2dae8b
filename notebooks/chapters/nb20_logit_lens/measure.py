"""Notebook 20, the tour: heads beside their sum, what a head adds and what it is worth."""

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Head, Model, all_heads
from aot_helpers.reading.interventions import ablate
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
def direct_and_total(
    model: Model, prompts: Prompts
) -> dict[Head, tuple[Float[Tensor, " prompt"], Float[Tensor, " prompt"]]]:
    """Of each head: its direct effect on the answer's logit, and the fall once it is ablated.

    Both at the last position, above the mean over the vocabulary. The head is zero-ablated at all
    positions, so that what it wrote for later heads is gone as well.
    """

    def answers(logits):
        return centered(logits).gather(1, prompts.answers[:, None])[:, 0]

    def run(edits=None):
        pieces = prompts.pieces(model)
        return answers(torch.cat([at_last(model(p.tokens, edits=edits), p) for _, p in pieces]))

    written, clean = head_outputs(model, prompts), run()
    return {
        at: (answers(written[:, at.layer, at.head] @ model.W_U), clean - run(ablate(model, [at])))
        for at in all_heads(model)
    }


def print_ranges(found: dict[int, dict[str, list]]) -> None:
    """The ranges over models of {k: {kind: [(with, without)]}}."""
    for k, kinds in found.items():
        for kind, pairs in kinds.items():
            shared, alone = (f"{min(x):.2f} to {max(x):.2f}" for x in zip(*pairs, strict=True))
            print(f"k = {k}, {kind}: {shared} with the head in the sum, {alone} without it")
