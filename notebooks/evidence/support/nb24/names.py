"""What notebook 24 shows of one model's heads on prompts with two names.

Heads get their roles on one half of the prompts; what they add, and what patching them does, is
measured on the other half.
"""

import re
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.base.results import read
from aot_helpers.models.protocol import Head


class HeadTable(NamedTuple):
    """Of every head, at the end of the prompts: what it attends to and adds; means of prompts."""

    on_io: Float[Tensor, "layer head"]  # what it adds to the logit of IO, measured from the mean
    on_s: Float[Tensor, "layer head"]  # and to that of S; σ frozen
    attention: dict[str, Float[Tensor, "layer head"]]  # from and to places of the names
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

    def adds(self, heads: list[Head]) -> float:
        """What some heads add together."""
        return sum(self.direct[head].item() for head in heads)


class Roles(NamedTuple):
    """Heads by what they do, by rules that ask for attention and effect; the strongest first."""

    movers: list[Head]
    negative: list[Head]
    suppress: list[Head]
    s_inhibition: list[Head]
    duplicate: list[Head]
    induction: list[Head]
    previous: list[Head]


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
