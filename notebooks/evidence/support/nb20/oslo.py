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
from chapters.nb20_logit_lens.measure import centered, read_oslo, written_by
from chapters.nb20_logit_lens.templates import (
    FACTS,
    Prompts,
    at_last,
    facts,
    gather,
    our_facts,
    predictions,
    some,
)
from evidence.support.nb20.removals import clean_run

EXAMPLE = "The capital of Norway is"
CAPITALS = "The capital of {} is"
N, TOPS = 24, 5  # capitals asked for, top tokens kept of each head


def answered(model: Model, template: str = CAPITALS, n: int = N, seed: int = 0) -> Prompts:
    """At most n prompts of a template that this model answers rightly, in an order drawn by lot."""
    known = [fact for fact in our_facts() if fact.prompt == template.format(fact.subject)]
    asked = facts(model, seed, known)
    return some(some(asked, predictions(model, asked) == asked.answers), slice(n))


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
    streams = [
        at_last(model.run_with_cache(piece.tokens)[1]["final_resid"], piece)
        for _, piece in prompts.pieces(model)
    ]
    frozen = frozen_norm(model.final_norm(), torch.cat(streams)[:, None])

    def answer(logits):
        return centered(logits)[rows, prompts.answers]

    shape = len(rows), model.config.n_layers, model.config.n_heads
    reading, effect = torch.zeros(shape), torch.full(shape, torch.nan)
    for layer in range(model.config.n_layers):
        written = written_by(model, layer, clean.z[:, layer])  # [prompt, head, d_model]
        reading[:, layer] = (frozen(written) * columns[:, None]).sum(dim=-1)
    for layer, head in all_heads(model) if heads is None else heads:
        edits = ablate(model, [Head(layer, head)])
        left = [at_last(model(p.tokens, edits=edits), p) for _, p in prompts.pieces(model)]
        effect[:, layer, head] = answer(clean.logits) - answer(torch.cat(left))
    return reading, effect


def _parts(model: Model, cache: dict[str, Tensor]) -> dict[str, Float[Tensor, " d_model"]]:
    """What each part of a model writes at the end of a run on one text."""
    found = {"embedding": cache["L0.resid_pre"][0, -1]}
    for i in range(model.config.n_layers):
        heads = written_by(model, i, cache[f"L{i}.z"][0, -1])  # [head, d_model]
        found |= {str(Head(i, h)): heads[h] for h in range(len(heads))}
        found[f"L{i} MLP"] = cache[f"L{i}.mlp_out"][0, -1]
    return found


def without(model: Model, tokens: Int[Tensor, " pos"], answer: int, head: Head) -> dict:
    """One head: what it attends to, and what the other parts add less once it is ablated.

    In logits above the mean, the σ of each run frozen; parts that change by 0.3 or more.
    """
    runs = (
        model.run_with_cache(tokens[None], edits=edits) for edits in ({}, ablate(model, [head]))
    )
    (_, clean), (logits, ablated) = runs
    column, adds = model.W_U[:, answer] - model.W_U.mean(dim=1), []
    for run in (clean, ablated):
        frozen = frozen_norm(model.final_norm(), run["final_resid"][0, -1:])
        parts = _parts(model, run)
        written = frozen(torch.stack([*parts.values()])) @ column
        adds.append(dict(zip(parts, written.tolist(), strict=True)))
    lost = {part: x - adds[1][part] for part, x in adds[0].items()}
    weights = clean[f"L{head.layer}.pattern"][0, head.head, -1]
    return {
        "head": str(head),
        "p": logits[0, -1].softmax(dim=-1)[answer].item(),
        "attends": dict(zip(model.tokenizer.token_strings(tokens), weights.tolist(), strict=True)),
        "lost": {part: x for part, x in lost.items() if abs(x) >= 0.3},
    }


@torch.no_grad()
def write_example(model: Model, name: str, tokens: Int[Tensor, " pos"], answer: int) -> dict:
    """Keep what each part writes at the end of a text, and all that is needed to read it.

    In half precision: writes [part, d_model]; the final norm's gain; column, the answer's column of
    W_U above the mean column. Returns the top tokens of each head.
    """
    parts = _parts(model, model.run_with_cache(tokens[None])[1])
    heads = [str(head) for head in all_heads(model)]
    logits = model.final_norm()(torch.stack([parts[head] for head in heads])) @ model.W_U
    tops = [model.tokenizer.token_strings(ids) for ids in logits.topk(TOPS).indices]
    column = model.W_U[:, answer] - model.W_U.mean(dim=1)
    kept = {"writes": torch.stack([*parts.values()]), "gain": model.final_norm().weight}
    kept["column"] = column
    kept = {key: x.detach().half().contiguous() for key, x in kept.items()}
    path = RESULTS / f"pretrained/20-{name}-oslo.safetensors"
    write_safetensors(path, kept, {"parts": ",".join(parts)})
    return dict(zip(heads, tops, strict=True))


@torch.no_grad()
def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 20-heads of `make data WHAT=pretrained`, and the vectors of one prompt beside it.

    Raises ValueError for a model that answers too few of the questions.
    """
    tokens = model.tokenizer.encode(EXAMPLE)
    logits = model(tokens[None])[0, -1]
    answer = int(logits.argmax())
    tops = write_example(model, name, tokens, answer)
    one = gather([tokens], [answer])
    _, effect = readings_and_effects(model, one)
    asked = answered(model, seed=seed)
    reading, falls = readings_and_effects(model, asked)
    heads = list(all_heads(model))
    names = [str(head) for head in heads]
    said, needed = (x.flatten(1).argmax(dim=1).tolist() for x in (reading, falls))
    found = {
        "text": EXAMPLE,
        "said": model.tokenizer.token_strings(logits.argmax()[None])[0],
        "p": logits.softmax(dim=-1).max().item(),
        "logit": centered(logits)[answer].item(),
        "effect": dict(zip(names, effect.flatten().tolist(), strict=True)),
        "top tokens": tops,
        "without": without(model, tokens, answer, heads[int(effect.argmax())]),
        "capitals": {
            "answers": model.tokenizer.token_strings(asked.answers),
            "reads most": [names[i] for i in said],
            "needed most": [names[i] for i in needed],
            "its reading": reading.flatten(1)[:, int(effect.argmax())].tolist(),  # missed most here
            "its effect": falls.flatten(1)[:, int(effect.argmax())].tolist(),
            "reading": reading.mean(dim=0).tolist(),  # [layer, head]
            "effect": falls.mean(dim=0).tolist(),
            "correlation": [_correlation(reading[:, i], falls[:, i]) for i in range(len(falls[0]))],
        },
    }
    return rounded(found)


@torch.no_grad()
def relations(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 20-relations: the head of entry 20-heads, asked of other relations and in other words.

    Of each template's answers: which head reads most, what this head reads as, and what is lost
    without it and without each other head of its layer, [prompt].
    """
    kept = read_oslo(name)[0]["without"]["head"]
    found, layer = {}, Head.parse(kept).layer
    heads = [head for head in all_heads(model) if head.layer == layer]
    for template in (each for each in FACTS if each != CAPITALS):
        asked = answered(model, template, seed=seed)
        reading, effect = readings_and_effects(model, asked, heads)
        most = [int(i) for i in reading.flatten(1).argmax(dim=1)]
        found[template] = {
            "answers": model.tokenizer.token_strings(asked.answers),
            "reads most": [str(Head(*divmod(i, model.config.n_heads))) for i in most],
            "reading": reading[:, layer, Head.parse(kept).head].tolist(),
            "effect": {str(head): effect[:, layer, head.head].tolist() for head in heads},
        }
    return rounded({"head": kept, "templates": found})


def _correlation(a: Tensor, b: Tensor) -> float:
    return torch.corrcoef(torch.stack([a.flatten(), b.flatten()]))[0, 1].item()
