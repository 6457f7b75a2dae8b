"""Notebook 20, the tour: heads beside their sum, what a head adds and what it is worth."""

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Head, Model, all_heads
from aot_helpers.reading.interventions import ablate
from chapters.nb20_logit_lens.readings import written_by
from chapters.nb20_logit_lens.removals import centered, clean_run
from chapters.nb20_logit_lens.results import OTHER
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


def print_shared(result: dict, layers: tuple[int, ...]) -> None:
    """Of k top tokens, how many a head shares with three vectors, and with another prompt's."""
    table, k = result["shares"]["right"], result["k"]
    targets = {
        "its layer's output": "attention output",
        "the stream after the layer": "block output",
        "the final output": "final",
    }
    for said, target in targets.items():
        own, other = (table[f"head | {target}{which}"]["layers"] for which in ("", OTHER))
        at = [(layer, result["layers"].index(layer)) for layer in layers]
        told = [f"L{layer} {k * own[i]:.1f} ({k * other[i]:.1f})" for layer, i in at]
        print(f"shared with {said} (with another prompt's): {', '.join(told)}")


def print_ranges(found: dict[int, dict[str, list]]) -> None:
    """The ranges of {k: {kind: [(with, without)]}}, whose pairs are of layers 0 and 1 in turn."""
    for k, kinds in found.items():
        for kind, pairs in kinds.items():
            shared, alone = zip(*pairs, strict=True)
            print(
                f"k = {k}, {kind}: {_range(shared)} with the head in the sum, "
                f"{_range(alone)} without it, in layer 1 alone {_range(alone[1::2])}"
            )


def _range(values) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"
