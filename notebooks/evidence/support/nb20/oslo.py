"""Which head of a model from outside says the capital: what each one writes, and what it costs.

Kept for readers without the model, who can then read the heads of one prompt for themselves.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS, rounded
from aot_helpers.models.protocol import Head, Model, all_heads
from aot_helpers.reading.interventions import ablate
from aot_helpers.reading.norms import frozen_norm
from chapters.nb20_logit_lens.measure import (
    Prompts,
    at_last,
    gather,
    predictions,
    read_oslo,
    subset,
)
from evidence.support.nb20.interventions import centered, clean_run
from evidence.support.nb20.prompts import FACTS, facts, our_facts
from evidence.support.nb20.readings import written_by

EXAMPLE = "The capital of Norway is"
CAPITALS = "The capital of {} is"
N, TOPS = 24, 5  # capitals asked for, top tokens kept of each head


def answered(model: Model, template: str = CAPITALS) -> Prompts:
    """At most N prompts of a template that this model answers rightly, in a random order."""
    prompts = facts(model, our_facts([template]))
    return subset(subset(prompts, predictions(model, prompts) == prompts.answers), slice(N))


@torch.no_grad()
def readings_and_effects(
    model: Model, prompts: Prompts, heads: Sequence[Head] | None = None
) -> tuple[Float[Tensor, "prompt layer head"], Float[Tensor, "prompt layer head"]]:
    """Of each head, for the answers: what it adds to the logit itself, and what is lost without it.

    The first with the final norm's σ frozen; the second with the head zero-ablated everywhere. Both
    in logits above their mean. heads: of which the second is measured, NaN elsewhere; None: all.
    """
    rows, clean = torch.arange(len(prompts.last)), clean_run(model, prompts)
    columns = (model.W_U[:, prompts.answers] - model.W_U.mean(dim=1, keepdim=True)).T
    frozen = frozen_norm(model.final_norm(), clean.final[:, None])
    reading = torch.stack(
        [
            # [prompt, head, d_model] along the answer's column
            (frozen(written_by(model, layer, clean.z[:, layer])) * columns[:, None]).sum(dim=-1)
            for layer in range(model.config.n_layers)
        ],
        dim=1,
    )
    effect = torch.full_like(reading, torch.nan)
    for head in all_heads(model) if heads is None else heads:
        edits = ablate(model, [head])
        left = [at_last(model(p.tokens, edits=edits), p) for _, p in prompts.pieces(model)]
        lost = centered(clean.logits) - centered(torch.cat(left))
        effect[:, head.layer, head.head] = lost[rows, prompts.answers]
    return reading, effect


def written_parts(model: Model, cache: dict[str, Tensor]) -> dict[str, Float[Tensor, " d_model"]]:
    """What each part of a model writes at the end of a run on one text."""
    found = {"embedding": cache["L0.resid_pre"][0, -1]}
    for i in range(model.config.n_layers):
        heads = written_by(model, i, cache[f"L{i}.z"][0, -1])  # [head, d_model]
        found |= {str(Head(i, h)): heads[h] for h in range(len(heads))}
        found[f"L{i} MLP"] = cache[f"L{i}.mlp_out"][0, -1]
    return found


def without(
    model: Model, tokens: Int[Tensor, " pos"], column: Float[Tensor, " d_model"], head: Head
) -> dict[str, float]:
    """What the other parts add less to a logit, of this column of W_U, once a head is ablated.

    In logits, the σ of each run frozen; parts that change by 0.3 or more.
    """
    adds = []
    for edits in ({}, ablate(model, [head])):
        _, cache = model.run_with_cache(tokens[None], edits=edits)
        frozen = frozen_norm(model.final_norm(), cache["final_resid"][0, -1:])
        parts = written_parts(model, cache)
        adds.append(frozen(torch.stack([*parts.values()])) @ column)
    lost = dict(zip(parts, (adds[0] - adds[1]).tolist(), strict=True))
    return {part: x for part, x in lost.items() if abs(x) >= 0.3}


@torch.no_grad()
def pretrained(model: Model, name: str = "") -> dict:
    """Entry 20-heads of `make data WHAT=pretrained`, and the vectors of one prompt beside it.

    The file keeps, in half precision, what each part writes at the end of EXAMPLE, writes
    [part, d_model], and what reads it: the final norm's gain; column, the answer's column of W_U
    above the mean column. Raises ValueError for a model that answers too few of the questions.
    """
    strings, heads = model.tokenizer.token_strings, list(all_heads(model))
    tokens, names = model.tokenizer.encode(EXAMPLE), list(map(str, heads))
    logits, cache = model.run_with_cache(tokens[None])
    logits, parts = logits[0, -1], written_parts(model, cache)
    answer = int(logits.argmax())
    column, norm = model.W_U[:, answer] - model.W_U.mean(dim=1), model.final_norm()
    kept = {"writes": torch.stack([*parts.values()]), "gain": norm.weight, "column": column}
    kept = {key: x.detach().half().contiguous() for key, x in kept.items()}
    path = RESULTS / f"pretrained/20-{name}-oslo.safetensors"
    write_safetensors(path, kept, {"parts": ",".join(parts)})

    tops = (norm(torch.stack([parts[each] for each in names])) @ model.W_U).topk(TOPS).indices
    _, effect = readings_and_effects(model, gather([tokens], [answer]))
    most = int(effect.argmax())
    ablated = model(tokens[None], edits=ablate(model, [heads[most]]))[0, -1].softmax(dim=-1)
    attention = cache[f"L{heads[most].layer}.pattern"][0, heads[most].head, -1]
    asked = answered(model)
    reading, falls = readings_and_effects(model, asked)
    first, needed = (x.flatten(1).argmax(dim=1).tolist() for x in (reading, falls))
    return rounded(
        {
            "text": EXAMPLE,
            "said": strings(logits.argmax()[None])[0],
            "p": logits.softmax(dim=-1)[answer].item(),
            "logit": centered(logits)[answer].item(),
            "effect": dict(zip(names, effect.flatten().tolist(), strict=True)),
            "top tokens": dict(zip(names, map(strings, tops), strict=True)),
            "without": {
                "head": names[most],
                "p": ablated[answer].item(),
                "attends": dict(zip(strings(tokens), attention.tolist(), strict=True)),
                "lost": without(model, tokens, column, heads[most]),
            },
            "capitals": {
                "answers": strings(asked.answers),
                "reads most": [names[i] for i in first],
                "needed most": [names[i] for i in needed],
                "its reading": reading.flatten(1)[:, most].tolist(),  # missed most in EXAMPLE
                "its effect": falls.flatten(1)[:, most].tolist(),
                "reading": reading.mean(dim=0).tolist(),  # [layer, head]
                "effect": falls.mean(dim=0).tolist(),
                "correlation": [
                    torch.corrcoef(torch.stack([reading[:, i], falls[:, i]]).flatten(1))[
                        0, 1
                    ].item()
                    for i in range(model.config.n_layers)
                ],
            },
        }
    )


@torch.no_grad()
def relations(model: Model, name: str = "") -> dict:
    """Entry 20-relations: the head of entry 20-heads, asked of other relations and in other words.

    Of each template's answers: which head reads most, what this head reads as, and what is lost
    without it and without each other head of its layer, [prompt].
    """
    head = Head.parse(read_oslo(name)[0]["without"]["head"])
    found, layer = {}, [each for each in all_heads(model) if each.layer == head.layer]
    for template in (each for each in FACTS if each != CAPITALS):
        asked = answered(model, template)
        reading, effect = readings_and_effects(model, asked, layer)
        most = [divmod(int(i), model.config.n_heads) for i in reading.flatten(1).argmax(dim=1)]
        found[template] = {
            "answers": model.tokenizer.token_strings(asked.answers),
            "reads most": [str(Head(*each)) for each in most],
            "reading": reading[:, head.layer, head.head].tolist(),
            "effect": {str(each): effect[:, each.layer, each.head].tolist() for each in layer},
        }
    return rounded({"head": str(head), "templates": found})
