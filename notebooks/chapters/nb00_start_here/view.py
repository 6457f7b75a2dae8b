"""What the first figure and the live view of notebook 00 show."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.results import rounded
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.interventions import ablate
from chapters.nb00_start_here.measure import mentions


def braces(
    model: Model, tokens: Int[Tensor, " pos"], losses: Float[Tensor, " pos-1"], name: str
) -> list[tuple[int, int, str]]:
    """For each mention of a name: its first and last token, counted as the losses, and its mean."""
    found = []
    for which, places in zip(("first", "second"), mentions(model, tokens, name), strict=True):
        said = f"{which} mention: {losses[places - 1].mean():.1f} nats a token"
        found.append((int(places[0]) - 1, int(places[-1]) - 1, said))
    return found


@torch.no_grad()
def to_point_at(model: Model, tokens: Int[Tensor, " pos"], groups: dict[str, list[Head]]) -> dict:
    """What the live view of a text shows, with each group of heads ablated.

    runs: for each, the losses, the three likeliest next tokens of each position, and what each head
    attends to from there, as [position, percent] from 2 % on.
    """
    strings, runs = model.tokenizer.token_strings, []
    for name, group in groups.items():
        logits, cache = model.run_with_cache(tokens[None], edits=ablate(model, group))
        best = logits[0].softmax(dim=-1).topk(3)
        expected = [
            [[strings(i[None])[0], _in_hundredths(p)] for i, p in zip(*row, strict=True)]
            for row in zip(best.indices, best.values, strict=True)
        ]
        layers = range(model.config.n_layers)
        percents = torch.cat([cache[f"L{i}.pattern"][0] for i in layers]).mul(100).round().int()
        attends = [[_at_least(row, 2) for row in head] for head in percents.tolist()]
        loss = next_token_losses(logits, tokens[None])[0]
        run = {"name": name, "loss": rounded(loss.tolist(), ".2f")}
        runs.append(run | {"expected": expected, "attends": attends})
    heads = [f"L{i}H{j}" for i in layers for j in range(model.config.n_heads)]
    return {"tokens": strings(tokens), "heads": heads, "runs": runs}


def _in_hundredths(p: float) -> str:
    return f"{p:.2f}" if p >= 0.005 else "<0.01"


def _at_least(row: list[int], percent: int) -> list[list[int]]:
    return [[k, weight] for k, weight in enumerate(row) if weight >= percent]
