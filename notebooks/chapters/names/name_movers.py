"""Notebook 22, section 3: which heads say the name, against it, and who tells them.

VISIT, section 5.1, reads heads through the logit lens on the task of Wang et al. 2022: "When Mary
and John went to the store, John gave a drink to". Here the reading is put beside attribution and
patching.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Edits, Head, Model
from aot_helpers.reading.logit_lens import lens, rank
from aot_helpers.reading.norms import frozen_norm
from chapters.names.pieces import pieces
from chapters.names.templates import Group

MOVES, AGAINST, TELLS = 0.05, -0.02, 0.02  # shares of the logit difference
HIGH, LOW = 5, 10  # so many tokens count as a reading's highest, and as its lowest


def cut(groups: list[Group], d_vocab: int) -> list[Group]:
    """The same prompts in groups small enough for their logits."""
    return [
        group._replace(
            **{name: getattr(group, name)[at] for name in ("tokens", "other", "io", "s")}
        )
        for group in groups
        for at in pieces(group.tokens, d_vocab)
    ]


def difference(logits: Float[Tensor, "prompt pos d_vocab"], group: Group) -> Tensor:
    """The logit of the indirect object less that of the subject, at the end: [prompt]."""
    end = logits[:, -1]
    return (end.gather(-1, group.io[:, None]) - end.gather(-1, group.s[:, None]))[:, 0]


def logit_differences(
    model: Model, groups: list[Group], other: bool = False
) -> Float[Tensor, " prompt"]:
    """Of all prompts; other: after the texts with other names, between the same two tokens."""
    with torch.no_grad():
        return torch.cat(
            [
                difference(model(g.other if other else g.tokens), g)
                for g in cut(groups, model.config.d_vocab)
            ]
        )


class Table(NamedTuple):
    """Of every head, at the end of the prompts: where it looks, what it adds; means of prompts."""

    on_io: Float[Tensor, "layer head"]  # what it adds to the logit of IO, measured from the mean
    on_s: Float[Tensor, "layer head"]  # and to that of S; σ frozen
    to: dict[str, Float[Tensor, "layer head"]]  # attention, from and to places of the names
    reads_io: Float[Tensor, "layer head"]  # share of prompts with IO among its 5 highest tokens
    reads_s: Float[Tensor, "layer head"]
    rank_io: Float[Tensor, "layer head"]  # median rank of IO, 0 the highest
    low_io: Float[Tensor, "layer head"]  # share of prompts with IO among its 10 lowest tokens
    low_s: Float[Tensor, "layer head"]
    parts: dict[str, float]  # what embeddings, biases and MLPs add
    difference: Float[Tensor, " prompt"]
    sum_error: float  # how far the parts' sum is from the logit difference, at most

    @property
    def direct(self) -> Float[Tensor, "layer head"]:
        """What every head adds to the logit difference."""
        return self.on_io - self.on_s


def head_table(model: Model, groups: list[Group], edits_of=None, readings: bool = True) -> Table:
    """Attribution, attention and readings of every head.

    edits_of: a function from a group to edits, if any. readings: False leaves the lens out (NaN).
    """
    c, rows = model.config, []
    for g in cut(groups, c.d_vocab):
        with torch.no_grad():
            logits, cache = model.run_with_cache(g.tokens, edits=edits_of and edits_of(g))
            mean = model.W_U.mean(dim=1)
            (on_io, writes), (on_s, _) = (
                _parts(model, cache, model.W_U.T[name] - mean) for name in (g.io, g.s)
            )
            direct = torch.stack(
                [torch.stack([on.pop(str(head)) for head in writes]) for on in (on_io, on_s)]
            )  # [IO or S, head, prompt]
            parts = {name: on_io[name] - on_s[name] for name in on_io}
            unread = torch.full_like(direct, torch.nan)
            ranks = _ranks(model, writes, g) if readings else unread
            looks = _looks(torch.stack([cache[f"L{i}.pattern"] for i in range(c.n_layers)]), g)
            rows.append((direct, parts, looks, ranks, difference(logits, g)))
    direct, parts, looks, ranks, found = zip(*rows, strict=True)
    direct, ranks, found = torch.cat(direct, -1), torch.cat(ranks, -1), torch.cat(found)
    parts = {name: torch.cat([each[name] for each in parts]) for name in parts[0]}
    looks = {name: torch.cat([each[name] for each in looks], dim=1) for name in looks[0]}
    shape = c.n_layers, c.n_heads
    whole = (direct[0] - direct[1]).sum(dim=0) + sum(parts.values())
    return Table(
        on_io=direct[0].mean(dim=-1).view(shape),
        on_s=direct[1].mean(dim=-1).view(shape),
        to={name: each.mean(dim=1) for name, each in looks.items()},
        reads_io=(ranks[0] < HIGH).float().mean(dim=-1).view(shape),
        reads_s=(ranks[1] < HIGH).float().mean(dim=-1).view(shape),
        rank_io=ranks[0].median(dim=-1).values.view(shape),
        low_io=(ranks[0] >= c.d_vocab - LOW).float().mean(dim=-1).view(shape),
        low_s=(ranks[1] >= c.d_vocab - LOW).float().mean(dim=-1).view(shape),
        parts={name: each.mean().item() for name, each in parts.items()},
        difference=found,
        sum_error=(whole - found).abs().max().item(),
    )


def _parts(model: Model, cache: dict, toward: Tensor) -> tuple[dict[str, Tensor], dict]:
    """What every part adds along `toward` [prompt, d_model] at the end; what the heads write."""
    c, final, norm = model.config, cache["final_resid"][:, -1:], model.final_norm()
    normed = frozen_norm(norm, final)

    def adds(part: Tensor) -> Tensor:
        return (normed(part[:, None])[:, 0] * toward).sum(dim=-1)

    parts = {"embeddings": adds(cache["L0.resid_pre" if c.n_layers else "final_resid"][:, -1])}
    bias, writes = ((norm(final) - normed(final))[:, 0] * toward).sum(dim=-1), {}
    for i in range(c.n_layers):
        left = cache[f"L{i}.attn_out"][:, -1]
        for head in (Head(i, h) for h in range(c.n_heads)):
            writes[head] = cache[f"L{i}.z"][:, -1, head.head] @ model.head_weights(head).W_O
            parts[str(head)], left = adds(writes[head]), left - writes[head]
        bias = bias + adds(left)  # b_O
        if c.d_mlp:
            parts[f"L{i} mlp"] = adds(cache[f"L{i}.mlp_out"][:, -1])
    return parts | {"bias": bias}, writes


def _looks(pattern: Float[Tensor, "layer prompt head query key"], g: Group) -> dict[str, Tensor]:
    """Attention between the places of the names: {what: [layer, prompt, head]}."""
    end = pattern[:, :, :, -1]
    among = end[..., 1:].clone()  # all keys but the first token's
    best = among.argmax(dim=-1) + 1
    return {
        "end to IO": end[..., g.io_at],
        "end to S1": end[..., g.s1_at],
        "end to S2": end[..., g.s2_at],
        "end to first": end[..., 0],
        "end to end": end[..., -1],
        "most at IO": (best == g.io_at).float(),
        "most at S2": (best == g.s2_at).float(),
        "S2 to S1": pattern[..., g.s2_at, g.s1_at],
        "S2 to after S1": pattern[..., g.s2_at, g.s1_at + 1],
        "after S1 to S1": pattern[..., g.s1_at + 1, g.s1_at],
    }


def _ranks(model: Model, writes: dict[Head, Tensor], g: Group) -> Tensor:
    """The rank of IO and of S in what each head writes: [2, head, prompt]."""
    found = [
        torch.stack([rank(logits, name) for name in (g.io, g.s)])
        for logits in (lens(model, part) for part in writes.values())
    ]
    return torch.stack(found, dim=1).float()


class Roles(NamedTuple):
    """Heads by what they do, by rules that ask for attention and effect; the strongest first."""

    movers: list[Head]
    against: list[Head]
    suppress: list[Head]
    tells: list[Head]  # S-inhibition
    duplicate: list[Head]
    induction: list[Head]
    previous: list[Head]


def roles(table: Table, estimate: Float[Tensor, "layer head"]) -> Roles:
    """Fill the roles of Wang et al. 2022 by rule.

    estimate: what replacing each head's output does to the logit difference. A mover looks from the
    end at IO more than at anything but the first token in half of the prompts and adds MOVES of the
    logit difference; one against takes AGAINST. A head that suppresses looks at S2 so, and adds
    MOVES; one that tells looks there, adds less, and its replacement costs TELLS. The last three
    look, at S2 and after S1, with 0.3 of their attention.
    """
    total, to = table.difference.mean(), table.to
    looks, at_s2 = to["most at IO"] >= 0.5, to["most at S2"] >= 0.5
    by = table.direct / total
    return Roles(
        movers=_heads(looks & (by >= MOVES), by),
        against=_heads(looks & (by <= AGAINST), -by),
        suppress=_heads(at_s2 & (by >= MOVES), by),
        tells=_heads(at_s2 & (by < MOVES) & (-estimate / total >= TELLS), -estimate),
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
    c = model.config
    total, n = torch.zeros(c.n_layers, c.n_heads), 0
    for g in cut(groups, 2 * c.d_vocab):
        with torch.no_grad():
            _, other = model.run_with_cache(g.other)
        with torch.enable_grad():
            start = {"embed": lambda value: value.detach().requires_grad_()}
            logits, cache = model.run_with_cache(g.tokens, edits=start)
            z = [cache[f"L{i}.z"] for i in range(c.n_layers)]
            slopes = torch.autograd.grad(difference(logits, g).sum(), z)
        for i, slope in enumerate(slopes):
            step = other[f"L{i}.z"] - z[i].detach()
            total[i] += (slope * step).sum(dim=(0, 1, 3))
        n += len(g.tokens)
    return total / n


def with_others(
    model: Model, heads: list[Head], group: Group, end_only: bool = False, zero: bool = False
) -> Edits:
    """Edits that give heads the output z that they have on the texts with other names.

    end_only: at the last position alone. zero: nothing instead.
    """
    with torch.no_grad():
        cache = {} if zero else model.run_with_cache(group.other)[1]
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head)
    at = slice(-1, None) if end_only else slice(None)

    def edit(name: str, which: list[int]):
        def replaced(z: Tensor) -> Tensor:
            z = z.clone()
            z[:, at, which] = 0 if zero else cache[name][:, at, which]
            return z

        return replaced

    return {f"L{i}.z": edit(f"L{i}.z", which) for i, which in by_layer.items()}


def replaced(model: Model, groups: list[Group], heads: list[Head], **how) -> Tensor:
    """The logit differences [prompt] once heads are replaced; how: as `with_others` takes it."""
    with torch.no_grad():
        return torch.cat(
            [
                difference(model(g.tokens, edits=with_others(model, heads, g, **how)), g)
                for g in cut(groups, model.config.d_vocab)
            ]
        )


def by_sigma(model: Model, groups: list[Group], edits_of) -> float:
    """What edits change of the mean logit difference through the final norm's σ alone.

    The edited stream is read with the σ of its own run, and with that of the run without edits.
    """
    norm, found = model.final_norm(), []
    for g in cut(groups, model.config.d_vocab):
        with torch.no_grad():
            runs = (model.run_with_cache(g.tokens, edits=edits) for edits in (None, edits_of(g)))
            before, after = (cache["final_resid"][:, -1:] for _, cache in runs)
            toward = model.W_U.T[g.io] - model.W_U.T[g.s]
            change = frozen_norm(norm, after)(after) - frozen_norm(norm, before)(after)
            found.append((change[:, 0] * toward).sum(dim=-1))
    return torch.cat(found).mean().item()


def first_of_each(groups: list[Group], n: int) -> list[Group]:
    """The first n prompts of every group."""
    return [Group(*(part[:n] for part in g[:4]), *g[4:]) for g in groups]


def names_lead(table: Table, movers: list[Head]) -> float:
    """By how much the movers look more at IO than at S's first mention, from the end."""
    lead = table.to["end to IO"] - table.to["end to S1"]
    return torch.stack([lead[head] for head in movers]).mean().item()
