"""Every head of a model, measured in every way, each number beside its null: one table."""

import copy

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from aot_helpers.base.errors import check_one_of, check_shape
from aot_helpers.models.protocol import Model, all_heads, check_tokens
from aot_helpers.reading.circuits import (
    check_unembedding,
    compose,
    composition_scores,
    copying_score,
    folded,
    ov_circuit,
    random_heads,
    unit_factors,
    unit_reads,
)
from aot_helpers.reading.factored import FactoredMatrix
from aot_helpers.reading.heads import (
    HEAD_PATTERNS,
    check_has_heads,
    head_output,
    head_scores,
    uniform_pattern,
)
from aot_helpers.reading.interventions import ROUTES
from aot_helpers.reading.norms import check_norm, frozen_norm
from aot_helpers.text.batches import IGNORE_INDEX

PARTS = {  # the parts of the table, and the columns that each fills
    "attention": ["previous", "current", "first", "duplicate", "induction"],
    "eigenvalues": ["copying eigenvalues"],
    "evaluator": ["copying evaluator"],
    "composition": ["composition"],
}


def head_table(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    labels: Int[Tensor, "texts scored"] | None = None,
    leave_out: tuple[str, ...] = (),
    seed: int = 0,
):
    """A DataFrame with a row per head, table.loc[Head(1, 0)], and beside each number its "… null".

    previous, current, first, duplicate, induction: the share of attention, as in `head_scores`.
        Null: uniform attention over the allowed keys.
    copying eigenvalues: `copying_score` of the full OV circuit, with the norms' gains. Null: the
        95th percentile of 100 heads of random W_V and W_O between the same W_E and W_U.
    copying evaluator: what the head's output raises above the mean logit, at the tokens of the
        text; r is the share at the token attended to. 4 r / (1 + r) - 1, from -1, none, to 1, all
        (Olsson et al. 2022, "Head activation evaluators", there on 25 random tokens). NaN where
        nothing is raised. Null: the same output beside uniform attention.
    composition, partner, route: the largest composition score with a head of an earlier layer,
        that head, and what reads it, "Q", "K" or "V". Null: the largest with as many random heads.

    tokens: texts without padding in which tokens return, such as `repeated_tokens`.
    labels: for models that see both ways: the true token where `tokens` hides it, -100 elsewhere.
    leave_out: keys of PARTS to skip.
    Half precision is measured as float32. What a model has not is NaN, and table.attrs["notes"]
    says why. Raises ValueError for labels that do not fit, an unknown part, a model without layers,
    texts where no token returns.
    """
    import pandas

    _check(model, tokens, labels, leave_out)
    if model.W_E.dtype in (torch.float16, torch.bfloat16):  # sums of many terms need more digits
        model = copy.deepcopy(model).float()
    heads, missing = all_heads(model), _missing(model)
    table = pandas.DataFrame(index=pandas.MultiIndex.from_tuples(heads, names=["layer", "head"]))
    table.attrs["notes"] = []
    for part in (part for part in PARTS if part not in leave_out):
        if part in missing:
            table.attrs["notes"].append(f"{part}: {missing[part]}")
            columns = [each for name in PARTS[part] for each in (name, f"{name} null")]
            found = dict.fromkeys(columns, torch.nan)
        else:
            draw = torch.Generator().manual_seed(seed)  # so that no null depends on leave_out
            with torch.no_grad():
                found = MEASURES[part](model, tokens, labels, draw)
        for name, column in found.items():
            table[name] = column.flatten().tolist() if isinstance(column, Tensor) else column
    return table


def _check(model, tokens, labels, leave_out) -> None:
    """Raise ValueError for what cannot be measured at all."""
    check_tokens(tokens)
    for part in leave_out:
        check_one_of("part of the table", part, PARTS)
    check_has_heads(model)
    if labels is not None:
        check_shape("labels", labels.shape, tokens.shape, "give one per token")
        if model.config.causal:
            raise ValueError(
                "labels are given, and causal = True: give them only to a model that sees both ways"
            )


def _missing(model) -> dict[str, str]:
    """{part: why it cannot be measured}."""
    try:
        check_unembedding(model)
        check_norm(model.final_norm())
    except ValueError as why:
        return {"eigenvalues": str(why), "evaluator": str(why)}
    return {}


def _attention(model, tokens, labels, draw) -> dict:
    columns = {}
    true = tokens if labels is None else torch.where(labels == IGNORE_INDEX, tokens, labels)
    for name in PARTS["attention"]:
        scores, null = head_scores(model, tokens, HEAD_PATTERNS[name](true))
        columns |= {name: scores, f"{name} null": null}
    return columns


def _eigenvalues(model, tokens, labels, draw) -> dict:
    c = model.config
    # W_E OV W_U, vocabulary × vocabulary, has the eigenvalues of W_O W_U W_E W_V.
    around = folded(model.final_norm(), model.W_U @ model.W_E)

    def score(ov):
        return copying_score(FactoredMatrix(ov.A.to(around), ov.B.to(around) @ around))

    chance = torch.tensor(list(map(score, random_heads(100, c.d_model, c.d_head, draw))))
    return {
        "copying eigenvalues": [score(ov_circuit(model, head)) for head in all_heads(model)],
        "copying eigenvalues null": chance.quantile(0.95).item(),
    }


def _evaluator(model, tokens, labels, draw) -> dict:
    c = model.config
    # Raised logits of the tokens attended to, of those that an even look attends to, of all.
    real, null, whole = torch.zeros(3, c.n_layers, c.n_heads, device=tokens.device)
    even = uniform_pattern(tokens.shape[1], c.causal).to(model.W_E)
    for text in tokens:
        _, cache = model.run_with_cache(text[None])
        found, place = text.unique(return_inverse=True)
        holds, toward = F.one_hot(place).to(even), model.W_U[:, found] - model.W_U.mean(1)[:, None]
        normed = frozen_norm(model.final_norm(), cache["final_resid"])
        for head in all_heads(model):
            written = normed(head_output(model, cache, head))[0]
            raised = (written @ toward).relu()  # [pos, token of this text]
            seen = cache[f"L{head.layer}.pattern"][0, head.head]
            real[head] += (raised * (seen @ holds)).sum()
            null[head] += (raised * (even @ holds)).sum()
            whole[head] += raised.sum()
    shares = {"copying evaluator": real, "copying evaluator null": null}
    return {name: 4 * share / (share + whole) - 1 for name, share in shares.items()}


def _composition(model, tokens, labels, draw) -> dict:
    c = model.config
    chance, rows = [], [(torch.nan, torch.nan, None, None)] * c.n_heads
    for layer in range(1, c.n_layers):
        chance.append(unit_factors(random_heads(c.n_heads, c.d_model, c.d_head, draw)))
        by_writer = [composition_scores(model, layer, earlier) for earlier in range(layer)]
        scores = torch.cat([each[route] for route in ROUTES for each in by_writer])
        # Random heads look alike from all sides: what readers read may be their first axes.
        turned = [torch.linalg.qr(read.mT).R.mT for read in unit_reads(model, layer).values()]
        null = [compose(torch.cat(chance)[..., : R.shape[-1]].to(R), R) for R in turned]
        best, by_chance = scores.max(dim=0), torch.cat(null).amax(dim=0)
        for value, at, random in zip(*map(Tensor.tolist, (*best, by_chance)), strict=True):
            route, writer = divmod(at, layer * c.n_heads)
            rows.append((value, random, str(all_heads(model)[writer]), ROUTES[route]))
    names = ["composition", "composition null", "partner", "route"]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


MEASURES = {  # the same keys as PARTS; each takes (model, tokens, labels, generator)
    "attention": _attention,
    "eigenvalues": _eigenvalues,
    "evaluator": _evaluator,
    "composition": _composition,
}
