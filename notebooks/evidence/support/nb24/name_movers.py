"""Evidence of notebook 24: which heads raise or lower a name, by attribution, reading and gradient.

The task is that of Wang et al. 2022: "When Mary and John went to the store, John gave a drink to".
VISIT, section 5.1, reads its heads through the logit lens.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Edits, Head, Model
from aot_helpers.reading.logit_lens import lens, rank
from aot_helpers.reading.norms import frozen_norm
from evidence.support.nb24.names import HeadTable, Roles
from evidence.support.nb24.patching import gap
from evidence.support.nb24.prompts import Group

MOVES, NEGATIVE, INHIBITS = 0.05, -0.02, 0.02  # fractions of the logit difference
HIGH, LOW = 5, 10  # so many tokens count as a reading's highest, and as its lowest
PLACES = (
    "end to IO",
    "end to S1",
    "end to S2",
    "end to first",
    "end to end",
    "most at IO",
    "most at S2",
    "S2 to S1",
    "S2 to after S1",
    "after S1 to S1",
)
EditsOf = Callable[[Group], Edits]


def logit_differences(
    model: Model, groups: list[Group], edits_of: EditsOf | None = None
) -> Float[Tensor, " prompt"]:
    """Of all prompts; edits_of: a function from a group to edits, if any."""
    with torch.no_grad():
        runs = [model(g.tokens, edits=edits_of and edits_of(g))[:, -1] for g in groups]
    return torch.cat([gap(logits, g.io, g.s) for logits, g in zip(runs, groups, strict=True)])


@torch.no_grad()
def head_table(
    model: Model, groups: list[Group], edits_of: EditsOf | None = None, readings: bool = True
) -> HeadTable:
    """Attribution, attention and readings of every head; readings: False leaves the lens out."""
    layers, rows = range(model.config.n_layers), []
    for g in groups:
        logits, cache = model.run_with_cache(g.tokens, edits=edits_of and edits_of(g))
        columns = (model.W_U.T[name] - model.W_U.mean(dim=1) for name in (g.io, g.s))
        (on_io, rest_io), (on_s, rest_s) = (
            direct_contributions(model, cache, toward) for toward in columns
        )
        pattern = torch.stack([cache[f"L{i}.pattern"].transpose(0, 1) for i in layers])
        ranks = _ranks(model, cache, g) if readings else torch.full_like(on_io[None], torch.nan)
        of_prompts = gap(logits[:, -1], g.io, g.s)
        rows.append((on_io, on_s, rest_io - rest_s, _attention(pattern, g), ranks, of_prompts))
    on_io, on_s, rest, attention, ranks, whole = (
        torch.cat(each, dim=-1) for each in zip(*rows, strict=True)
    )
    high, low = ranks < HIGH, ranks >= model.config.d_vocab - LOW
    mlps = [f"L{i} mlp" for i in layers if model.config.d_mlp]
    return HeadTable(
        on_io=on_io.mean(dim=-1),
        on_s=on_s.mean(dim=-1),
        attention=dict(zip(PLACES, attention.mean(dim=-1), strict=True)),
        reads_io=high[0].float().mean(dim=-1),
        reads_s=high[-1].float().mean(dim=-1),
        rank_io=ranks[0].median(dim=-1).values,
        low_io=low[0].float().mean(dim=-1),
        low_s=low[-1].float().mean(dim=-1),
        parts=dict(zip(["embeddings", *mlps, "bias"], rest.mean(dim=-1).tolist(), strict=True)),
        difference=whole,
        sum_error=((on_io - on_s).sum(dim=(0, 1)) + rest.sum(dim=0) - whole).abs().max().item(),
    )


def _written(model: Model, cache: dict) -> Float[Tensor, "layer head prompt d_model"]:
    """What every head writes at the end."""
    z = torch.stack([cache[f"L{i}.z"][:, -1] for i in range(model.config.n_layers)])
    return torch.einsum("lphd,lhdm->lhpm", z, model.W_O)


def direct_contributions(
    model: Model, cache: dict, toward: Float[Tensor, "prompt d_model"]
) -> tuple[Float[Tensor, "layer head prompt"], Float[Tensor, "part prompt"]]:
    """What every head adds along `toward` at the end; and embeddings, each MLP and biases.

    With the final norm's σ frozen.
    """
    layers, norm, writes = range(model.config.n_layers), model.final_norm(), _written(model, cache)
    final = cache["final_resid"][None, :, -1]
    normed = frozen_norm(norm, final)
    b_O = sum(cache[f"L{i}.attn_out"][:, -1] for i in layers) - writes.sum(dim=(0, 1))
    mlps = [cache[f"L{i}.mlp_out"][:, -1] for i in layers if model.config.d_mlp]
    rest = normed(torch.stack([cache["L0.resid_pre"][:, -1], *mlps, b_O]))
    rest[-1] += (norm(final) - normed(final))[0]  # the final norm's bias
    return (normed(writes) * toward).sum(dim=-1), (rest * toward).sum(dim=-1)


def _attention(
    pattern: Float[Tensor, "layer head prompt query key"], g: Group
) -> Float[Tensor, "place layer head prompt"]:
    """Attention between the places of the names, in the order of PLACES."""
    end = pattern[..., -1, :]
    most = end[..., 1:].argmax(dim=-1) + 1  # of all keys but the first token's
    found = [end[..., at] for at in (g.io_at, g.s1_at, g.s2_at, 0, -1)]
    found += [(most == at).float() for at in (g.io_at, g.s2_at)]
    pairs = (g.s2_at, g.s1_at), (g.s2_at, g.s1_at + 1), (g.s1_at + 1, g.s1_at)
    return torch.stack([*found, *(pattern[..., query, key] for query, key in pairs)])


def _ranks(model: Model, cache: dict, g: Group) -> Float[Tensor, "name layer head prompt"]:
    """The rank of IO and of S in what each head writes."""
    writes = _written(model, cache)
    readings = (lens(model, each) for each in writes.flatten(0, 1))
    found = [torch.stack([rank(logits, name) for name in (g.io, g.s)]) for logits in readings]
    return torch.stack(found, dim=1).view(2, *writes.shape[:3]).float()


def roles(table: HeadTable, estimate: Float[Tensor, "layer head"]) -> Roles:
    """Fill the roles of Wang et al. 2022 by rule.

    estimate: what replacing each head's output does to the logit difference. A mover attends from
    the end to IO more than to anything but the first token in half of the prompts and adds MOVES of
    the logit difference; a negative one takes NEGATIVE. A head that suppresses attends to S2 so,
    and adds MOVES; one of S-inhibition attends there, adds less, and its replacement costs
    INHIBITS. The last three attend, from S2 and after S1, with 0.3 of their weight.
    """
    total, to = table.difference.mean(), table.attention
    at_io, at_s2 = to["most at IO"] >= 0.5, to["most at S2"] >= 0.5
    by, costs = table.direct / total, -estimate / total
    return Roles(
        movers=_heads(at_io & (by >= MOVES), by),
        negative=_heads(at_io & (by <= NEGATIVE), -by),
        suppress=_heads(at_s2 & (by >= MOVES), by),
        s_inhibition=_heads(at_s2 & (by < MOVES) & (costs >= INHIBITS), costs),
        duplicate=_heads(to["S2 to S1"] >= 0.3, to["S2 to S1"]),
        induction=_heads(to["S2 to after S1"] >= 0.3, to["S2 to after S1"]),
        previous=_heads(to["after S1 to S1"] >= 0.3, to["after S1 to S1"]),
    )


def _heads(chosen: Tensor, by: Tensor) -> list[Head]:
    places = [Head(*place) for place in chosen.nonzero().tolist()]
    return sorted(places, key=lambda head: -by[head].item())


def gradients(model: Model, groups: list[Group]) -> Float[Tensor, "layer head"]:
    """First-order estimate of what a head's output on other names does to the logit difference.

    The gradient by the head's z at every position, times the change of z.
    """
    names, n = [f"L{i}.z" for i in range(model.config.n_layers)], 0
    total = torch.zeros(model.config.n_layers, model.config.n_heads)
    for g in groups:
        with torch.no_grad():
            _, other = model.run_with_cache(g.other)
        with torch.enable_grad():
            start = {"embed": lambda value: value.detach().requires_grad_()}
            logits, cache = model.run_with_cache(g.tokens, edits=start)
            z = [cache[name] for name in names]
            slopes = torch.autograd.grad(gap(logits[:, -1], g.io, g.s).sum(), z)
        for i, (name, slope) in enumerate(zip(names, slopes, strict=True)):
            total[i] += (slope * (other[name] - cache[name].detach())).sum(dim=(0, 1, 3))
        n += len(g.tokens)
    return total / n


def change_by_sigma(model: Model, groups: list[Group], edits_of: EditsOf) -> float:
    """What edits change of the mean logit difference through the final norm's σ alone.

    The edited stream is read with the σ of its own run, and with that of the run without edits.
    """
    norm, found = model.final_norm(), []
    for g in groups:
        with torch.no_grad():
            runs = (model.run_with_cache(g.tokens, edits=edits) for edits in (None, edits_of(g)))
            before, after = (cache["final_resid"][:, -1:] for _, cache in runs)
            toward = model.W_U.T[g.io] - model.W_U.T[g.s]
            change = frozen_norm(norm, after)(after) - frozen_norm(norm, before)(after)
            found.append((change[:, 0] * toward).sum(dim=-1))
    return torch.cat(found).mean().item()
