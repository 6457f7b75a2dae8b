"""What notebook 22 measures of a model in its section 3: who says the name, and who tells them.

Heads get their roles on one half of the prompts; what they add, and what replacing them does, is
measured on the other half.
"""

import torch
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from chapters.names import name_movers
from chapters.names import patches as name_patches
from chapters.names.name_movers import roles as roles_of
from chapters.names.templates import RECEIVED, TEMPLATES, Group, name_prompts, single_names

DRAWS = 5  # sets of other heads


def halves(groups: list[Group]) -> tuple[list[Group], list[Group]]:
    """The first half of each group's prompts, and the second."""
    n = len(groups[0].tokens) // 2
    rest = [Group(*(part[n:] for part in g[:4]), *g[4:]) for g in groups]
    return name_movers.first_of_each(groups, n), rest


def names(model: Model, seed: int = 0, tried: int = 12) -> dict:
    """Section 3: attribution, attention, readings, patches of one model, as plain numbers."""
    single = single_names(model.tokenizer)
    groups = name_prompts(model, single, seed=seed)
    choose, test = halves(groups)
    estimate = name_movers.gradients(model, choose)
    chosen_by = name_movers.head_table(model, choose, readings=False)
    by_role = roles_of(chosen_by, estimate)
    table = name_movers.head_table(model, test)
    found = {
        "prompts": sum(len(g.tokens) for g in groups),
        "tested": len(table.difference),
        "difference": torch.cat([chosen_by.difference, table.difference]).tolist(),
        "with other names": name_movers.logit_differences(model, groups, other=True).tolist(),
        "total": table.difference.mean().item(),
        "sum error": max(table.sum_error, chosen_by.sum_error),
        "parts": table.parts,
        "on IO": table.on_io.tolist(),
        "on S": table.on_s.tolist(),
        "attention": {name: each.tolist() for name, each in table.to.items()},
        "reads IO": table.reads_io.tolist(),
        "reads S": table.reads_s.tolist(),
        "rank of IO": table.rank_io.tolist(),
        "low IO": table.low_io.tolist(),
        "low S": table.low_s.tolist(),
        "estimate": estimate.tolist(),
        "measured": _foretold(model, test, estimate, seed, tried),
        "roles": {role: [str(h) for h in heads] for role, heads in by_role._asdict().items()},
    }
    shifted = name_prompts(model, single, seed=seed, templates=TEMPLATES[1:] + TEMPLATES[:1])
    found |= _patches(model, choose, test, halves(shifted)[1], table, by_role, seed)
    found |= routes(model, test, by_role) | received(model, single, found, seed)
    return found | _without_movers(model, choose, test, chosen_by, table, by_role)


def routes(model: Model, test: list[Group], by_role: name_movers.Roles) -> dict:
    """The heads that tell, given the swapped roles, while heads that may pass it on stay."""
    if not by_role.tells:
        return {}
    unsays, movers = by_role.suppress, by_role.movers
    kept = {"none": [], "suppress": unsays, "movers": movers, "both": [*unsays, *movers]}
    held = name_patches.held(model, test, by_role.tells, kept)
    return {"told, held": {name: each.tolist() for name, each in held.items()}}


def received(model: Model, names: list[str], found: dict, seed: int = 0) -> dict:
    """Prompts in which the name that comes twice is given something: the same heads, patched.

    found: the roles and the other heads of their size, as `names` has them.
    """
    sets = {role: found["roles"][role] for role in ("suppress", "tells")}
    sets |= {
        f"{role} {i}": one
        for role in sets
        for i, one in enumerate(found.get("others", {}).get(role, ()))
    }
    sets = {name: [Head.parse(who) for who in heads] for name, heads in sets.items() if heads}
    if not sets:
        return {}
    groups = name_prompts(model, names, seed=seed, templates=RECEIVED)
    patched = name_patches.patched(model, groups, groups, sets, ("roles swapped",), seed)
    whole = next(iter(patched.values())).whole
    after = {name: each.after["roles swapped"].tolist() for name, each in patched.items()}
    return {"received": {"difference": whole.tolist(), "roles swapped": after}}


def _foretold(model: Model, test: list[Group], estimate: Tensor, seed: int, tried: int) -> list:
    """Heads with large estimates and others: what a gradient foretells, and what patching does."""
    order = estimate.abs().flatten().argsort(descending=True)
    tried = min(tried, len(order) // 2)
    generator = torch.Generator().manual_seed(seed)
    rest = order[tried:][torch.randperm(len(order) - tried, generator=generator)[:tried]]
    sample = [Head(*divmod(int(i), model.config.n_heads)) for i in [*order[:tried], *rest]]
    few = name_movers.first_of_each(test, 2)
    whole = name_movers.logit_differences(model, few).mean()
    slopes = name_movers.gradients(model, few)
    return [
        {
            "head": str(head),
            "estimate": slopes[head].item(),
            "change": (name_movers.replaced(model, few, [head]).mean() - whole).item(),
        }
        for head in sample
    ]


def _others(by_role: name_movers.Roles, heads: list[Head], size: Tensor) -> list[list[Head]]:
    """Sets of as many heads without a role whose output changes as much, of the later half."""
    every = [head for role in by_role for head in role]
    first = size.shape[0] // 2
    return [name_patches.as_large(heads, size, every, 2 * draw, first) for draw in range(DRAWS)]


def _patches(model, choose, test, elsewhere, table, by_role, seed: int) -> dict:
    """Heads of each role given what they wrote on other prompts, and other heads of their size."""
    roles = {role: getattr(by_role, role) for role in ("movers", "against", "suppress", "tells")}
    roles = {role: heads for role, heads in roles.items() if heads}
    if not roles:
        return {}
    size = name_patches.sizes(model, choose)
    others = {role: _others(by_role, heads, size) for role, heads in roles.items()}
    found = name_patches.patched(model, test, elsewhere, roles, seed=seed)
    sets = {f"{role} {i}": one for role, each in others.items() for i, one in enumerate(each)}
    control = name_patches.patched(
        model, test, elsewhere, sets, ("other names", "roles swapped"), seed
    )
    mean = table.difference.mean()
    return {
        "patched": {role: {w: d.tolist() for w, d in p.after.items()} for role, p in found.items()},
        "others": {role: [[str(h) for h in one] for one in each] for role, each in others.items()},
        "falls of others": {
            way: {
                role: [
                    (mean - control[f"{role} {i}"].after[way].mean()).item()
                    for i in range(len(each))
                ]
                for role, each in others.items()
            }
            for way in ("other names", "roles swapped")
        },
        "size": {role: [size[head].item() for head in heads] for role, heads in roles.items()},
        "size of others": {
            role: [[size[head].item() for head in one] for one in each]
            for role, each in others.items()
        },
    }


def _without_movers(model, choose, test, chosen_by, table, by_role) -> dict:
    """What becomes of the movers' work without them, and of their attention without the tellers."""
    movers, tells, found = by_role.movers, by_role.tells, {}
    if not movers:
        return found
    every = [head for heads in by_role for head in heads]

    def without(heads):
        return lambda group: name_movers.with_others(model, heads, group, end_only=True)

    def table_without(heads, groups=test):
        return name_movers.head_table(model, groups, without(heads), readings=False)

    after = table_without(movers)
    backup = name_patches.growing(chosen_by, table_without(movers, choose), movers, every)
    size = name_patches.sizes(model, choose)
    others = _others(by_role, movers, size)
    tables = [table_without(each) for each in others]
    change = after.direct - table.direct
    found |= {
        "movers added": sum(table.direct[head].item() for head in movers),
        "movers left": sum(after.direct[head].item() for head in movers),
        "fall without movers": (table.difference.mean() - after.difference.mean()).item(),
        "change without movers": change.tolist(),
        "backup": [str(head) for head in backup],
        "backup grows": name_patches.growth(table, after, backup),
        "backup grows without others": [name_patches.growth(table, t, backup) for t in tables],
        "against grows": name_patches.growth(table, after, by_role.against),
        "against writes": against_writes(table, after, by_role.against),
        "by sigma": name_movers.by_sigma(model, test, without(movers)),
        "against grows without others": [
            name_patches.growth(table, t, by_role.against) for t in tables
        ],
        "rest grows": sum(after.parts[part] - table.parts[part] for part in table.parts),
    }
    if tells:
        found["lead"] = name_movers.names_lead(table, movers)
        found["lead without tells"] = name_movers.names_lead(table_without(tells), movers)
        found["lead without others"] = [
            name_movers.names_lead(table_without(each), movers)
            for each in _others(by_role, tells, size)
        ]
    return found


def against_writes(before, after, heads: list[Head]) -> dict:
    """What the negative movers add to IO and to S, before and after the movers are gone."""
    return {
        name: [sum(getattr(table, on)[head].item() for head in heads) for table in (before, after)]
        for name, on in (("IO", "on_io"), ("S", "on_s"))
    }
