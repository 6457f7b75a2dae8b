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
from evidence.support.nb24.names import (
    HeadTable,
    NameResults,
    Preference,
    Received,
    Repair,
    Roles,
)
from evidence.support.nb24.patching import backup_heads, held, patched, size_matched, sizes
from evidence.support.nb24.prompts import RECEIVED, TEMPLATES, name_prompts, single_names
from evidence.support.nb24.templates import Group

DRAWS = 5  # sets of other heads
PATCHED = ("movers", "negative", "suppress", "s_inhibition")  # roles
SWAPPED = "roles swapped"


def measured(model: Model, seed: int = 0, tried: int = 12) -> NameResults:
    """Attribution, attention, readings and patches of one model."""
    single = single_names(model.tokenizer)
    groups, elsewhere = (
        name_prompts(model, single, seed=seed, templates=templates)
        for templates in (TEMPLATES, TEMPLATES[1:] + TEMPLATES[:1])
    )
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
    return NameResults(
        chosen_by=chosen.difference,
        other_names=logit_differences(model, [g._replace(tokens=g.other) for g in groups]),
        total=total,
        table=table,
        estimate=estimate,
        tried=_tried(model, test, estimate, seed, tried),
        roles=of,
        patched=patched(model, test, elsewhere, some, seed=seed),
        others=others,
        falls_of_others={
            way: {
                role: torch.stack([total - controls[role, i][way].mean() for i in range(DRAWS)])
                for role in some
            }
            for way in ways
        },
        size={role: torch.stack([size[head] for head in some[role]]) for role in some},
        received=_received(model, single, some, others, seed),
        held=held(model, test, of.s_inhibition, kept) if of.s_inhibition else {},
        repair=_repair(model, choose, test, chosen, table, of, others) if of.movers else None,
        preference=_preference(model, test, table, of, others),
    )


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 24-names of `make data WHAT=pretrained`, of any model alike, as JSON has it."""
    return rounded(plain(measured(model, seed), Head))


def halves(groups: list[Group]) -> tuple[list[Group], list[Group]]:
    """The first half of each group's prompts, and the second."""
    n = len(groups[0].tokens) // 2
    return tuple([_prompts(g, at) for g in groups] for at in (slice(n), slice(n, None)))


def _prompts(group: Group, at: slice) -> Group:
    return Group(*(part[at] for part in group[:4]), *group[4:])


def _tried(model: Model, test: list[Group], estimate: Tensor, seed: int, tried: int) -> list[dict]:
    """Heads with large estimates and others: what a gradient foretells, and what patching does."""
    order = estimate.abs().flatten().argsort(descending=True)
    tried = min(tried, len(order) // 2)
    generator = torch.Generator().manual_seed(seed)
    rest = order[tried:][torch.randperm(len(order) - tried, generator=generator)[:tried]]
    sample = [Head(*divmod(int(i), model.config.n_heads)) for i in [*order[:tried], *rest]]
    few = [_prompts(g, slice(2)) for g in test]
    slopes, whole = gradients(model, few), logit_differences(model, few).mean()
    found = []
    for head in sample:
        after = logit_differences(model, few, lambda g, at=head: patch_heads(model, g.other, [at]))
        change = (after.mean() - whole).item()
        found.append({"head": str(head), "estimate": slopes[head].item(), "change": change})
    return found


def _received(model: Model, single: list[str], some: dict, others: dict, seed: int) -> Received:
    """The same heads, patched where the name that comes twice is given something."""
    groups = name_prompts(model, single, seed=seed, templates=RECEIVED)
    found = [role for role in ("suppress", "s_inhibition") if role in some]
    sets = {role: some[role] for role in found}
    sets |= {(role, i): one for role in found for i, one in enumerate(others[role])}
    after = patched(model, groups, groups, sets, (SWAPPED,), seed)
    return Received(
        logit_differences(model, groups),
        {role: after[role][SWAPPED] for role in found},
        {role: torch.stack([after[role, i][SWAPPED] for i in range(DRAWS)]) for role in found},
    )


def without(model: Model, groups: list[Group], heads: list[Head]) -> HeadTable:
    """The table with heads patched, at the end, from the texts with other names."""
    return head_table(model, groups, _edits_without(model, heads), readings=False)


def _edits_without(model: Model, heads: list[Head]):
    return lambda g: patch_heads(model, g.other, heads, [g.other.shape[1] - 1])


def _repair(model, choose, test, chosen, table, of: Roles, others: dict) -> Repair:
    """The same prompts with the movers patched, and with other heads as large."""
    edits_of = _edits_without(model, of.movers)
    after = without(model, test, of.movers)
    early = without(model, choose, of.movers).direct - chosen.direct
    backup = backup_heads(early, of.movers, sum(of, []))
    some = {"backup": backup, "negative": of.negative}
    removed = others["movers"]
    controls = [without(model, test, heads) for heads in removed]
    names = {"IO": (table.on_io, after.on_io), "S": (table.on_s, after.on_s)}
    return Repair(
        added=table.adds(of.movers),
        left=after.adds(of.movers),
        fall=(table.difference.mean() - after.difference.mean()).item(),
        change=after.direct - table.direct,
        backup=backup,
        grows={who: after.adds(heads) - table.adds(heads) for who, heads in some.items()},
        grows_without_others={
            who: torch.tensor([each.adds(heads) - table.adds(heads) for each in controls])
            for who, heads in some.items()
        },
        negative_writes={
            name: torch.tensor([sum(on[head].item() for head in of.negative) for on in pair])
            for name, pair in names.items()
        },
        by_sigma=change_by_sigma(model, test, edits_of),
        rest_grows=sum(after.parts.values()) - sum(table.parts.values()),
        made_up_without_others=torch.tensor(
            [_made_up(table, each, heads) for each, heads in zip(controls, removed, strict=True)]
        ),
    )


def _made_up(table: HeadTable, after: HeadTable, heads: list[Head]) -> float:
    """What heads add less, minus what the logit difference falls."""
    fall = (table.difference.mean() - after.difference.mean()).item()
    return table.adds(heads) - after.adds(heads) - fall


def _preference(model, test, table, of: Roles, others: dict) -> Preference | None:
    """What patching the heads of S-inhibition does to the attention of the movers."""
    if not (of.movers and of.s_inhibition):
        return None

    def preference(of_heads: HeadTable) -> float:
        lead = of_heads.attention["end to IO"] - of_heads.attention["end to S1"]
        return torch.stack([lead[head] for head in of.movers]).mean().item()

    return Preference(
        preference(table),
        preference(without(model, test, of.s_inhibition)),
        torch.tensor([preference(without(model, test, x)) for x in others["s_inhibition"]]),
    )
