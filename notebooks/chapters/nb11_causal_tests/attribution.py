"""Notebook 11: what an ablation does to attention and to the right token's logit, by its parts."""

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.models.losses import repeat_length
from aot_helpers.models.protocol import Head, Model, all_heads
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.interventions import ablate
from aot_helpers.reading.norms import frozen_norm

Texts = Int[Tensor, "text pos"]
OtherTexts = Int[Tensor, "other_text other_pos"]


def in_both_copies(run: dict, tokens: Texts, heads: list[int]) -> dict[str, float]:
    """What the induction heads of layer 1 attend to in a run, and what the model then guesses.

    run: a cache; tokens: BOS, then a segment twice; heads: numbers of heads, of which the mean is
    taken. "guesses already read": the share of the first copy's best guesses that are tokens read
    before, without BOS; "their probability": the mean that the model gives to a best guess there.
    """
    length = repeat_length(tokens)
    pattern = run["L1.pattern"][:, heads].mean(dim=(0, 1))
    at = torch.arange(length + 1, 2 * length)  # the right token is length - 1 places before
    p, guesses = run["logits"][:, 1:length].softmax(dim=-1).max(dim=-1)
    read = (guesses[:, :, None] == tokens[:, None, 1:length]).tril().any(dim=-1)
    return {
        "first copy, attention to BOS": pattern[1 : length + 1, 0].mean().item(),
        "guesses already read": read.float().mean().item(),
        "their probability": p.mean().item(),
        "second copy, attention to the right token": pattern[at, at - length + 1].mean().item(),
    }


def logit_changes(
    model: Model, tokens: Texts, before: dict, after: dict, start: int
) -> dict[str, float]:
    """By how much the right token's logit differs between two runs, by the head that writes it.

    before, after: caches of two runs on `tokens`. Logits above their average, of the next tokens
    from place `start` on. "in all": of the logits themselves, which the heads add up to if the
    model has neither MLPs nor norms.
    """
    right = tokens[:, start + 1 :]
    to_right = (model.W_U - model.W_U.mean(dim=1, keepdim=True)).T[right]
    changes = {}
    with torch.no_grad():
        for head in all_heads(model):
            less, more = (head_output(model, run, head)[:, start:-1] for run in (before, after))
            changes[str(head)] = ((more - less) * to_right).sum(dim=-1).mean().item()
        change = (after["logits"] - before["logits"])[:, start:-1]
        above = change - change.mean(dim=-1, keepdim=True)
    return changes | {"in all": above.gather(-1, right[..., None]).mean().item()}


def self_repair(
    model: Model, tokens: Texts, others: OtherTexts | dict[str, Tensor], head: Head, start: int
) -> tuple[dict[str, float], float]:
    """By how much the right token's logit changes with a head of the last layer mean-ablated.

    others: texts for the mean, or the cache of a run on them.
    Logits above their average, next tokens from place `start` on. "direct": what the head writes
    less, through the final norm of the whole run; "MLP": what the last MLP writes otherwise;
    "layer norm": what the norm's new scale does to everything; "in all": their sum. And the mean
    ratio, ablated to whole, of the standard deviation that the final norm divides by.
    """
    mlp, needed = f"L{head.layer}.mlp_out", ("final_resid", "ln_final_out")
    with torch.no_grad():
        runs = []
        for edits in (None, ablate(model, [head], "mean", others)):
            run = model.run_with_cache(tokens, edits=edits)[1]
            kept = {name: run[name] for name in (mlp, *needed)}  # a whole run takes much memory
            runs.append(kept | {"head": head_output(model, run, head)})
            del run
        whole, cut = runs
        norm = frozen_norm(model.final_norm(), whole["final_resid"])
        right = tokens[:, start + 1 :]

        def logit(x):
            rows = model.W_U.T[right] - model.W_U.mean(dim=1)
            return (x[:, start:-1] * rows).sum(dim=-1).mean()

        direct, by_mlp = (logit(norm(cut[name] - whole[name])) for name in ("head", mlp))
        total = logit(cut["ln_final_out"]) - logit(whole["ln_final_out"])
        large, small = (r["final_resid"][:, start:-1].std(dim=-1, correction=0) for r in runs)
    parts = {"direct": direct, "MLP": by_mlp, "layer norm": total - direct - by_mlp}
    parts["in all"] = total
    parts = {part: change.item() for part, change in parts.items()}
    return parts, (small / large).mean().item()
