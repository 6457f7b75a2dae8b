"""What notebook 24 shows of one model's heads on prompts with two names: measure and read.

Heads get their roles on one half of the prompts; what they add, and what patching them does, is
measured on the other half.
"""

import re
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.base.results import plain, read, rounded
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.interventions import patch_heads
from chapters.nb24_who_says_mary.name_movers import (
    HeadTable,
    Roles,
    change_by_sigma,
    gradients,
    head_table,
    logit_differences,
    roles,
)
from chapters.nb24_who_says_mary.patches import backup_heads, held, patched, size_matched, sizes
from chapters.nb24_who_says_mary.templates import (
    RECEIVED,
    TEMPLATES,
    Group,
    name_prompts,
    single_names,
)

DRAWS = 5  # sets of other heads
PATCHED = ("movers", "negative", "suppress", "s_inhibition")  # roles
SWAPPED = "roles swapped"


class Repair(NamedTuple):
    """What becomes of the movers' work once they are patched from the texts with other names."""

    added: float  # what the movers add to the logit difference
    left: float  # what they add then
    fall: float  # what the logit difference loses
    change: Float[Tensor, "layer head"]  # what every head adds more
    backup: list[Head]  # the three that grow most, found on the other half of the prompts
    grows: dict[str, float]  # what the heads of backup, and the negative ones, add more
    grows_without_others: dict[str, Float[Tensor, " set"]]  # other heads, as large, are patched
    negative_writes: dict[str, Float[Tensor, "2"]]  # to the logits of IO and S: before, after
    by_sigma: float  # what the final norm's σ alone changes
    rest_grows: float  # what MLPs and embeddings add more
    made_up_without_others: Float[Tensor, " set"]  # as made_up, with other heads, as large, patched

    @property
    def made_up(self) -> float:
        """What others make up for."""
        return self.added - self.left - self.fall


class Preference(NamedTuple):
    """By how much the movers attend more to IO than to S's first mention, from the end."""

    whole: float
    patched: float  # with the heads of S-inhibition patched
    others_patched: Float[Tensor, " set"]  # with other heads, as large


class Received(NamedTuple):
    """Logit differences [prompt] where the name that comes twice is given something."""

    difference: Float[Tensor, " prompt"]
    swapped: dict[str, Float[Tensor, " prompt"]]  # with a role patched from swapped roles
    others: dict[str, Float[Tensor, "set prompt"]]  # with other heads, as large


class NameResults(NamedTuple):
    """All that is measured of one model; falls are of the mean logit difference, in logits."""

    chosen_by: Float[Tensor, " prompt"]  # logit differences of the half that chose the heads
    other_names: Float[Tensor, " prompt"]  # of all texts with other names, between the same tokens
    total: float  # mean logit difference of the other half
    table: HeadTable  # of the other half, as all that follows
    estimate: Float[Tensor, "layer head"]  # by gradients, on the half that chose the heads
    tried: list[dict]  # some heads: {head, estimate, change once it is replaced}
    roles: Roles
    patched: dict[str, dict[str, Float[Tensor, " prompt"]]]  # {role: {donor: differences}}
    others: dict[str, list[list[Head]]]  # by role, sets of other heads whose output changes alike
    falls_of_others: dict[str, dict[str, Float[Tensor, " set"]]]  # {donor: {role: …}}
    size: dict[str, Float[Tensor, " head"]]  # of a role
    received: Received
    held: dict[str, Float[Tensor, " prompt"]]  # S-inhibition swapped, these roles held
    repair: Repair | None  # None: there are no movers
    preference: Preference | None

    @property
    def difference(self) -> Float[Tensor, " prompt"]:
        """The logit differences of all prompts."""
        return torch.cat([self.chosen_by, self.table.difference])

    def falls(self, role: str) -> dict[str, float]:
        """What the logit difference loses with the heads of a role patched, by donor: shares."""
        means = {donor: each.mean().item() for donor, each in self.patched[role].items()}
        return {donor: 1 - mean / self.total for donor, mean in means.items()}


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


def revived(value):
    """What JSON has, with lists of numbers as tensors and names of heads as heads."""
    if isinstance(value, dict):
        return {name: revived(each) for name, each in value.items()}
    if isinstance(value, list):
        inner = [revived(each) for each in value]
        numbers = inner and all(isinstance(each, float | int | Tensor) for each in inner)
        return torch.tensor(value) if numbers else inner
    is_head = isinstance(value, str) and re.fullmatch(r"L\d+H\d+", value)
    return Head.parse(value) if is_head else value


def parsed(found: dict) -> NameResults:
    """The results that `pretrained` has made a dict of."""
    found = revived(found)
    kinds = {"table": HeadTable, "roles": Roles, "received": Received}
    kinds |= {"repair": Repair, "preference": Preference}
    return NameResults(**found | {k: found[k] and kind(**found[k]) for k, kind in kinds.items()})


def read_names(name: str = "smollm2") -> NameResults:
    """What `make data WHAT=pretrained` measured of one model's heads on prompts with two names."""
    found = read(f"pretrained/24-names-{name}")
    return parsed({field: found[field] for field in NameResults._fields})
