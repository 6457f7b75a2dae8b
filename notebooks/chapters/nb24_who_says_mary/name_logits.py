"""The logits of the names at the end of notebook 24's prompts, as the model is and with patches.

Kept for readers without the model, who can then measure for themselves what a patch does.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS
from aot_helpers.models.protocol import Model
from chapters.nb24_who_says_mary import measure
from chapters.nb24_who_says_mary.measure import ASKED, SETS, cases
from chapters.nb24_who_says_mary.patches import end_outputs, give, swapped_roles
from chapters.nb24_who_says_mary.templates import TEMPLATES, name_prompts, single_names
from chapters.nb24_who_says_mary.two_names import NameResults, halves, read_names

L23H3, EARLY = SETS
MOVERS, NEGATIVE, ALL = "name movers", "L24H4", "all three"
ROLES = {L23H3: "suppress", EARLY: "s_inhibition", MOVERS: "movers", NEGATIVE: "negative"}
DONORS = ("same names", "other names", "roles swapped")
FORMS = ("two names", "third gives", "third owns", "third gives, owned")


class Patched(NamedTuple):
    """Prompts with two names: logits [prompt, name], and which columns are IO and S.

    patched: {heads: {donor: logits}}. held: with the early heads patched from swapped roles, while
    other heads keep their output: {which: logits}.
    """

    before: Float[Tensor, "prompt name"]
    io: Int[Tensor, " prompt"]
    s: Int[Tensor, " prompt"]
    patched: dict[str, dict[str, Float[Tensor, "prompt name"]]]
    held: dict[str, Float[Tensor, "prompt name"]]


class Replaced(NamedTuple):
    """Prompts of one form: logits, before and with heads patched, where the donor has `instead`."""

    before: Float[Tensor, "prompt name"]
    after: dict[str, Float[Tensor, "prompt name"]]  # {heads: logits}
    name: Int[Tensor, " prompt"]  # a column, as is
    instead: Int[Tensor, " prompt"]  # the name that stands in its place in the donor


def _two_names(model: Model, ids: Tensor, name: str, seed: int) -> dict[str, Tensor]:
    roles, rows = read_names(name).roles, {}
    sets = {who: getattr(roles, role) for who, role in ROLES.items()}
    groups, elsewhere = (
        halves(name_prompts(model, single_names(model.tokenizer), seed=seed, templates=templates))
        for templates in (TEMPLATES, TEMPLATES[1:] + TEMPLATES[:1])
    )
    for group, other in zip(groups[1], elsewhere[1], strict=True):

        def end(heads=(), outputs=None, tokens=group.tokens):
            return model(tokens, edits=give([*heads], outputs))[:, -1, ids]

        texts = other.tokens, group.other, swapped_roles(group)
        given = {way: end_outputs(model, x) for way, x in zip(DONORS, texts, strict=True)}
        found = {"before": end(), "io": _columns(group.io, ids), "s": _columns(group.s, ids)}
        for who, heads in sets.items():
            found |= {f"patched/{who}/{way}": end(heads, given[way]) for way in DONORS}
        mixed, swapped = end_outputs(model, group.tokens), given["roles swapped"]
        for layer, head in sets[EARLY]:
            mixed[layer, :, head] = swapped[layer, :, head]
        for who in (L23H3, MOVERS):
            found[f"held/{who}"] = end([*sets[EARLY], *sets[who]], mixed)
        for key, x in found.items():
            rows.setdefault(f"two/{key}", []).append(x)
    return {key: torch.cat(each) for key, each in rows.items()}


def _replaced(model: Model, ids: Tensor, name: str, seed: int) -> dict[str, Tensor]:
    roles, rows = read_names(name).roles, {}
    sets = {who: getattr(roles, role) for who, role in ROLES.items() if who in SETS}
    sets[ALL] = sum(sets.values(), [])
    for form in FORMS:
        for slot in ASKED[form]:
            for case in cases(model, form, slot, seed=seed):
                outputs = end_outputs(model, case.changed)
                found = {"before": model(case.tokens)[:, -1, ids]}
                found["name"], found["instead"] = (_columns(x, ids) for x in case[2:4])
                for who, heads in sets.items() if form == "two names" else [*sets.items()][:2]:
                    logits = model(case.tokens, edits=give([*heads], outputs))
                    found[f"after/{who}"] = logits[:, -1, ids]
                for key, x in found.items():
                    rows.setdefault(f"{form}/{slot}/{key}", []).append(x)
    return {key: torch.cat(each) for key, each in rows.items()}


def _columns(tokens: Tensor, ids: Tensor) -> Tensor:
    return (tokens[:, None] == ids).int().argmax(dim=1)


def write_logits(model: Model, name: str, seed: int = 0) -> None:
    """Keep the logits of the names: of the prompts of entries 24-names (those that test) and 24."""
    names = single_names(model.tokenizer)
    ids = torch.tensor([int(model.tokenizer.encode(" " + each)[0]) for each in names])
    with torch.no_grad():
        kept = _two_names(model, ids, name, seed) | _replaced(model, ids, name, seed)
    path = RESULTS / f"pretrained/24-{name}-logits.safetensors"
    write_safetensors(path, kept, {"names": ",".join(names)})


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 24 of `make data WHAT=pretrained`, and the logits beside it."""
    write_logits(model, name, seed)
    return measure.pretrained(model, name, seed)


def read_logits(name: str = "smollm2") -> tuple[Patched, dict[str, dict[str, Replaced]]]:
    """The prompts with two names, and those of each form: {form: {who is replaced: logits}}."""
    tree = {}
    with safe_open(RESULTS / f"pretrained/24-{name}-logits.safetensors", "pt") as file:
        for key in file.keys():  # noqa: SIM118
            *folders, last = key.split("/")
            at = tree
            for folder in folders:
                at = at.setdefault(folder, {})
            at[last] = file.get_tensor(key)
    two = tree.pop("two")
    patched = {who: {way: two["patched"][who][way] for way in DONORS} for who in ROLES}
    return Patched(**two | {"patched": patched}), {
        form: {slot: Replaced(**each) for slot, each in slots.items()}
        for form, slots in tree.items()
    }


def lost_by_others(two: NameResults) -> dict[str, dict[str, dict[str, float]]]:
    """What the logit difference loses with other heads patched: {who: {donor: {heads: logits}}}.

    who: whose output changes as much as theirs.
    """
    return {
        who: {
            donor: {
                " ".join(map(str, heads)): fall.item()
                for heads, fall in zip(two.others[role], falls[role], strict=True)
            }
            for donor, falls in two.falls_of_others.items()
        }
        for who, role in ROLES.items()
    }
