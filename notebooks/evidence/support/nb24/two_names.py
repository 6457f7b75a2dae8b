"""Evidence of notebook 24: one model's heads on prompts with two names, measured.

Heads get their roles on one half of the prompts; what they add, and what patching them does, is
measured on the other half.
"""

import torch
from torch import Tensor

from aot_helpers.base.results import plain, rounded
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.interventions import patch_heads
from evidence.support.nb24.name_movers import (
    change_by_sigma,
    gradients,
    head_table,
    logit_differences,
    roles,
)
from evidence.support.nb24.names import HeadTable, Roles
from evidence.support.nb24.patching import backup_heads, held, patched, size_matched, sizes
from evidence.support.nb24.prompts import (
    RECEIVED,
    Group,
    halves,
    in_two_sentences,
    name_prompts,
    single_names,
    subset,
)

DRAWS = 5  # sets of other heads
TRIED = 12  # heads with the largest estimates, and as many others
PATCHED = ("movers", "negative", "suppress", "s_inhibition")  # roles
SWAPPED = "roles swapped"


def measured(model: Model, seed: int = 0) -> dict:
    """Attribution, attention, readings and patches of one model; falls are in logits.

    chosen_by: logit differences of the half that chose the heads; other_names: of all texts with
    other names, between the same tokens; total: their mean on the other half, and of that half all
    that follows. estimate: by gradients, on the half that chose the heads; tried: some heads, with
    the change once they are replaced. patched: {role: {donor: [prompt]}}; others: by role, sets of
    other heads whose output changes alike; falls_of_others: {donor: {role: [set]}}; size: of a
    role's heads. held: S-inhibition swapped, these roles held. repair, preference: None where there
    are no movers.
    """
    groups, elsewhere = in_two_sentences(model, seed)
    (choose, test), (_, elsewhere) = halves(groups), halves(elsewhere)
    chosen, table = head_table(model, choose, readings=False), head_table(model, test)
    estimate, size = gradients(model, choose), sizes(model, choose)
    of = roles(chosen, estimate)
    some = {role: heads for role in PATCHED if (heads := getattr(of, role))}
    every, first = sum(of, []), model.config.n_layers // 2
    others = {
        role: [size_matched(heads, size, every, 2 * draw, first) for draw in range(DRAWS)]
        for role, heads in some.items()
    }
    sets = {(role, i): one for role, each in others.items() for i, one in enumerate(each)}
    ways = ("other names", SWAPPED)
    controls = patched(model, test, elsewhere, sets, ways, seed)
    total = table.difference.mean().item()
    kept = {"none": [], "suppress": of.suppress, "movers": of.movers}
    kept["both"] = of.suppress + of.movers
    return {
        "chosen_by": chosen.difference,
        "other_names": logit_differences(model, [g._replace(tokens=g.other) for g in groups]),
        "total": total,
        "table": table,
        "estimate": estimate,
        "tried": _tried(model, test, estimate, seed),
        "roles": of,
        "patched": patched(model, test, elsewhere, some, seed=seed),
        "others": others,
        "falls_of_others": {
            way: {
                role: torch.stack([total - controls[role, i][way].mean() for i in range(DRAWS)])
                for role in some
            }
            for way in ways
        },
        "size": {role: torch.stack([size[head] for head in some[role]]) for role in some},
        "received": _received(model, some, others, seed),
        "held": held(model, test, of.s_inhibition, kept) if of.s_inhibition else {},
        "repair": _repair(model, choose, test, chosen, table, of, others) if of.movers else None,
        "preference": _preference(model, test, table, of, others),
    }


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 24-names of `make data WHAT=pretrained`, of any model alike, as JSON has it."""
    return rounded(plain(measured(model, seed), Head))


def _tried(model: Model, test: list[Group], estimate: Tensor, seed: int) -> list[dict]:
    """Heads with large estimates and others: what a gradient predicts, and what patching does."""
    order = estimate.abs().flatten().argsort(descending=True)
    tried = min(TRIED, len(order) // 2)
    generator = torch.Generator().manual_seed(seed)
    rest = order[tried:][torch.randperm(len(order) - tried, generator=generator)[:tried]]
    sample = [Head(*divmod(int(i), model.config.n_heads)) for i in [*order[:tried], *rest]]
    few = [subset(g, slice(2)) for g in test]
    slopes, whole = gradients(model, few), logit_differences(model, few).mean()
    found = []
    for head in sample:
        after = logit_differences(model, few, lambda g, at=head: patch_heads(model, g.other, [at]))
        change = (after.mean() - whole).item()
        found.append({"head": str(head), "estimate": slopes[head].item(), "change": change})
    return found


def _received(model: Model, some: dict, others: dict, seed: int) -> dict:
    """The same heads, patched where the name that comes twice is given something."""
    single = single_names(model.tokenizer)
    groups = name_prompts(model, single, seed=seed, templates=RECEIVED)
    found = [role for role in ("suppress", "s_inhibition") if role in some]
    sets = {role: some[role] for role in found}
    sets |= {(role, i): one for role in found for i, one in enumerate(others[role])}
    after = patched(model, groups, groups, sets, (SWAPPED,), seed)
    after = {which: each[SWAPPED] for which, each in after.items()}
    return {
        "difference": logit_differences(model, groups),
        "swapped": {role: after[role] for role in found},
        "others": {role: torch.stack([after[role, i] for i in range(DRAWS)]) for role in found},
    }


def _edits_without(model: Model, heads: list[Head]):
    """Heads patched, at the end, from the texts with other names."""
    return lambda g: patch_heads(model, g.other, heads, [g.other.shape[1] - 1])


def without(model: Model, groups: list[Group], heads: list[Head]) -> HeadTable:
    """The table with heads patched, at the end, from the texts with other names."""
    return head_table(model, groups, _edits_without(model, heads), readings=False)


def _repair(model, choose, test, chosen, table, of: Roles, others: dict) -> dict:
    """What becomes of the movers' work once they are patched from the texts with other names.

    added, left: what they add to the logit difference, before and then; fall: what that loses;
    change: what every head adds more. backup: the three heads that grow most, found on the other
    half of the prompts; grows: what these and the negative ones add more, and without other heads
    as large. negative_writes: to the logits of IO and S, before and after. by_sigma: what the final
    norm's σ alone changes; rest_grows: what MLPs and embeddings add more; made_up_without_others:
    what others make up for where other heads, as large, are patched.
    """
    after = without(model, test, of.movers)
    early = without(model, choose, of.movers).direct - chosen.direct
    backup = backup_heads(early, of.movers, sum(of, []))
    some = {"backup": backup, "negative": of.negative}
    removed = others["movers"]
    controls = [without(model, test, heads) for heads in removed]
    names = {"IO": (table.on_io, after.on_io), "S": (table.on_s, after.on_s)}

    def fall(left: HeadTable) -> float:
        return (table.difference.mean() - left.difference.mean()).item()

    def grows(left: HeadTable, heads: list[Head]) -> float:
        return left.adds(heads) - table.adds(heads)

    return {
        "added": table.adds(of.movers),
        "left": after.adds(of.movers),
        "fall": fall(after),
        "change": after.direct - table.direct,
        "backup": backup,
        "grows": {who: grows(after, heads) for who, heads in some.items()},
        "grows_without_others": {
            who: [grows(left, heads) for left in controls] for who, heads in some.items()
        },
        "negative_writes": {
            name: [sum(on[head].item() for head in of.negative) for on in pair]
            for name, pair in names.items()
        },
        "by_sigma": change_by_sigma(model, test, _edits_without(model, of.movers)),
        "rest_grows": sum(after.parts.values()) - sum(table.parts.values()),
        "made_up_without_others": [
            -grows(left, heads) - fall(left) for left, heads in zip(controls, removed, strict=True)
        ],
    }


def _preference(model, test, table, of: Roles, others: dict) -> dict | None:
    """By how much the movers attend more to IO than to S's first mention, from the end.

    Also with the heads of S-inhibition patched, and with other heads, as large.
    """
    if not (of.movers and of.s_inhibition):
        return None

    def preference(of_heads: HeadTable) -> float:
        lead = of_heads.attention["end to IO"] - of_heads.attention["end to S1"]
        return torch.stack([lead[head] for head in of.movers]).mean().item()

    return {
        "whole": preference(table),
        "patched": preference(without(model, test, of.s_inhibition)),
        "others_patched": [preference(without(model, test, x)) for x in others["s_inhibition"]],
    }
