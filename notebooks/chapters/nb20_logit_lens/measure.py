"""Notebook 20, the tour: what heads write, beside their sum and in the logits."""

from collections.abc import Sequence

import pandas
import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Head, Model
from aot_helpers.showing.forms import Interval
from chapters.nb20_logit_lens.patching import names_patched, with_other_answers
from chapters.nb20_logit_lens.readings import written_by
from chapters.nb20_logit_lens.removals import centered, clean_run, random_z
from chapters.nb20_logit_lens.results import summary
from chapters.nb20_logit_lens.templates import Prompts, at_last, named


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


def other_prompts(prompts: Prompts, seed: int) -> Int[Tensor, " prompt"]:
    """For each prompt a random one with another answer."""
    draw = torch.Generator().manual_seed(seed)
    return with_other_answers(prompts.answers, 1, draw)[:, 0]


def random_names(
    model: Model, seed: int
) -> tuple[Float[Tensor, " head"], dict[str, Float[Tensor, ""]]]:
    """How often random vectors of the heads' norms bring the other name, in the place of each head
    of the last layer; and in that of the head whose reading there names it most.
    """
    found = names_patched(model, named(model), random_z, seed)
    each = [found[str(Head(model.config.n_layers - 1, h))] for h in range(model.config.n_heads)]
    return torch.stack(each).mean(dim=1), {"reading there": found["says it"].mean()}


def intervals(values: Sequence[Float[Tensor, " prompt"]]) -> list[Interval]:
    """The means of some values over prompts, with the middle 95 % of those of resampled prompts."""
    found = summary(torch.stack(list(values), dim=1))
    return [
        Interval(*ends) for ends in zip(found["low"], found["layers"], found["high"], strict=True)
    ]


def ranges(found: dict[int, dict[str, list]]) -> pandas.DataFrame:
    """The ranges over models of {k: {kind: [(with, without)]}}."""
    rows = {
        f"k = {k}, {kind}": [f"{min(x):.2f} to {max(x):.2f}" for x in zip(*pairs, strict=True)]
        for k, kinds in found.items()
        for kind, pairs in kinds.items()
    }
    columns = ["with the head in the sum", "without it"]
    return pandas.DataFrame.from_dict(rows, orient="index", columns=columns)
