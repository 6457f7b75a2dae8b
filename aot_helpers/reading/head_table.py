"""Every head of a model, measured in every way, each number beside its null: one table."""

from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor

from aot_helpers.base.errors import unknown_name
from aot_helpers.models.protocol import Head, Model, all_heads, check_tokens
from aot_helpers.reading.circuits import (
    check_unembedding,
    compose,
    copying_score,
    folded,
    ov_circuit,
    random_heads,
    unit_factors,
    unit_reads,
    unit_writes,
)
from aot_helpers.reading.factored import FactoredMatrix
from aot_helpers.reading.heads import (
    HEAD_PATTERNS,
    counted_queries,
    uniform_pattern,
    uniform_score,
)
from aot_helpers.reading.norms import check_norm, frozen_norm

PARTS = {  # the parts of the battery, and the columns that each fills
    "attention": ["previous", "current", "first", "duplicate", "induction"],
    "eigenvalues": ["copying eigenvalues"],
    "evaluator": ["copying evaluator"],
    "composition": ["composition"],
    "ablation": ["zero cost", "mean cost"],
}
NOT_SCORED = -100  # the label of a token that costs nothing, as in torch and transformers


def battery(
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
    zero cost, mean cost: nats per token that are lost when the head's z is replaced by zero, or by
        its mean over all texts and positions. Null: the cost of adding, at each position, a random
        vector as long as what is taken away.

    tokens: texts without padding in which tokens return, such as `repeated_tokens`, run one by one.
    labels: for models that see both ways: the true token where `tokens` hides it, -100 elsewhere.
        Loss is on these tokens; for causal models, which take no labels, on every next token.
    leave_out: keys of PARTS to skip; "ablation" runs the model four times for each head and text.
    What a model has not is NaN, and table.attrs["notes"] says why. Raises ValueError for labels
    that do not fit, an unknown part, a model without layers, texts where no token returns.
    """
    import pandas

    _check(model, tokens, labels, leave_out)
    missing, columns = _missing(model, labels), {}
    parts = [part for part in PARTS if part not in leave_out]
    for part in parts:
        if part in missing:
            columns |= {name: torch.nan for each in PARTS[part] for name in (each, f"{each} null")}
        else:
            draw = torch.Generator().manual_seed(seed)  # so that no null depends on leave_out
            with torch.no_grad():
                columns |= MEASURES[part](model, tokens, labels, draw)
    heads = [range(model.config.n_layers), range(model.config.n_heads)]
    table = pandas.DataFrame(
        {n: c.flatten().tolist() if isinstance(c, Tensor) else c for n, c in columns.items()},
        index=pandas.MultiIndex.from_product(heads, names=["layer", "head"]),
    )
    table.attrs["notes"] = [f"{part}: {missing[part]}" for part in parts if part in missing]
    return table


def _check(model, tokens, labels, leave_out) -> None:
    """Raise ValueError for what cannot be measured at all."""
    check_tokens(tokens)
    for part in leave_out:
        if part not in PARTS:
            raise unknown_name("part of the battery", part, PARTS)
    if model.config.n_layers == 0:
        raise ValueError("a model without layers has no heads: load one with n_layers >= 1")
    causal = model.config.causal
    if labels is not None and (causal or labels.shape != tokens.shape):
        raise ValueError(
            f"labels of shape {tuple(labels.shape)} do not fit tokens of {tuple(tokens.shape)} and "
            f"causal = {causal}: give one per token, and only to a model that sees both ways"
        )


def _missing(model, labels) -> dict[str, str]:
    """{part: why it cannot be measured}."""
    missing = {}
    try:
        check_unembedding(model)
        check_norm(model.final_norm())
    except ValueError as why:
        missing = {"eigenvalues": str(why), "evaluator": str(why)}
    if model.W_U is None or (labels is None and not model.config.causal):
        missing["ablation"] = "no loss: give labels, to a model with a language head"
    return missing


def _attention(model, tokens, labels, draw) -> dict:
    c, columns = model.config, {}
    true = tokens if labels is None else torch.where(labels == NOT_SCORED, tokens, labels)
    targets = {name: HEAD_PATTERNS[name](true) for name in PARTS["attention"]}
    for name, keys in targets.items():
        columns[name] = torch.zeros(c.n_layers, c.n_heads, device=tokens.device)
        columns[f"{name} null"] = uniform_score(keys, causal=c.causal)
    for row in range(len(tokens)):
        _, cache = model.run_with_cache(tokens[row, None])
        for i in range(c.n_layers):
            for name, keys in targets.items():
                seen = (cache[f"L{i}.pattern"][0] * keys[row]).sum(dim=(1, 2))
                columns[name][i] += seen / counted_queries(keys, 0).sum()
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
    even, W_O = uniform_pattern(tokens.shape[1], c.causal).to(tokens.device), model.W_O
    for text in tokens:
        _, cache = model.run_with_cache(text[None])
        found, place = text.unique(return_inverse=True)
        holds, toward = F.one_hot(place).to(even), model.W_U[:, found] - model.W_U.mean(1)[:, None]
        normed = frozen_norm(model.final_norm(), cache["final_resid"])
        for i in range(c.n_layers):
            written = torch.einsum("phe,hed->hpd", cache[f"L{i}.z"][0], W_O[i])
            raised = (normed(written) @ toward).relu()  # [head, pos, token of this text]
            real[i] += (raised * (cache[f"L{i}.pattern"][0] @ holds)).sum(dim=(1, 2))
            null[i] += (raised * (even @ holds)).sum(dim=(1, 2))
            whole[i] += raised.sum(dim=(1, 2))
    shares = {"copying evaluator": real, "copying evaluator null": null}
    return {name: 4 * share / (share + whole) - 1 for name, share in shares.items()}


def _composition(model, tokens, labels, draw) -> dict:
    c, names = model.config, ["composition", "composition null", "partner", "route"]
    writes, chance, found = [], [], [(torch.nan, torch.nan, None, None)] * model.config.n_heads
    for layer in range(1, c.n_layers):
        writes.append(unit_writes(model, layer - 1))
        random = random_heads(c.n_heads, c.d_model, c.d_head, draw)
        chance.append(unit_factors(random).to(writes[0]))
        reads = unit_reads(model, layer).values()
        real = torch.cat([compose(torch.cat(writes), read) for read in reads])
        # Random heads look alike from all sides: what readers read may be their first axes.
        turned = [torch.linalg.qr(read.mT).R.mT for read in reads]
        null = torch.cat([compose(torch.cat(chance)[..., : R.shape[-1]], R) for R in turned])
        for best, at, by_chance in zip(*real.max(dim=0), null.amax(dim=0), strict=True):
            route, writer = divmod(at.item(), layer * c.n_heads)
            partner = str(Head(*divmod(writer, c.n_heads)))
            found.append((best.item(), by_chance.item(), partner, "QKV"[route]))
    return dict(zip(names, map(list, zip(*found, strict=True)), strict=True))


def _ablation(model, tokens, labels, draw) -> dict:
    c = model.config
    if labels is None:  # the next token, and none at the end
        labels = F.pad(tokens[:, 1:], (0, 1), value=NOT_SCORED)
    means, n_scored = [0] * c.n_layers, (labels != NOT_SCORED).sum()
    for text in tokens:
        _, cache = model.run_with_cache(text[None])
        means = [m + cache[f"L{i}.z"].mean((0, 1)) / len(tokens) for i, m in enumerate(means)]
    W_O = model.W_O
    costs = torch.zeros(2, 2, c.n_layers, c.n_heads)  # [zero or mean, real or null, layer, head]
    for text, goal in zip(tokens, labels, strict=True):

        def loss(edits, text=text, goal=goal):
            logits = model(text[None], edits=edits)[0].float()
            return (F.cross_entropy(logits, goal, reduction="sum") / n_scored).cpu()

        _, cache = model.run_with_cache(text[None])
        whole, all_z = loss({}), [cache[f"L{i}.z"] for i in range(c.n_layers)]
        for i, z in enumerate(all_z):
            for h in range(c.n_heads):
                this = (torch.arange(c.n_heads, device=z.device) == h)[:, None]
                for by, new in enumerate((torch.zeros_like(means[i]), means[i])):
                    taken = ((z[:, :, h] - new[h]) @ W_O[i, h]).norm(dim=-1, keepdim=True)
                    random = torch.randn(*text[None].shape, c.d_model, generator=draw).to(taken)
                    add = partial(torch.add, F.normalize(random, dim=-1) * taken)
                    costs[by, 0, i, h] += loss({f"L{i}.z": torch.where(this, new, z)}) - whole
                    costs[by, 1, i, h] += loss({f"L{i}.attn_out": add}) - whole
    names = [name for each in PARTS["ablation"] for name in (each, f"{each} null")]
    return dict(zip(names, costs.flatten(0, 1), strict=True))


MEASURES = {  # the same keys as PARTS; each takes (model, tokens, labels, generator)
    "attention": _attention,
    "eigenvalues": _eigenvalues,
    "evaluator": _evaluator,
    "composition": _composition,
    "ablation": _ablation,
}
