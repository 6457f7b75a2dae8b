"""Evidence of notebook 24: the logits of the names, as the model is and with patches, for the tour.

Kept for readers without the model, who can then measure for themselves what a patch does.
"""

import torch
from torch import Tensor

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS
from aot_helpers.models.protocol import Head, Model
from chapters.nb24_who_says_mary.measure import ASKED, PAIR
from evidence.support.nb24 import three_names
from evidence.support.nb24.names import read_names
from evidence.support.nb24.patching import (
    end_logits,
    end_outputs,
    outputs_with_swapped,
    swapped_roles,
)
from evidence.support.nb24.prompts import halves, in_two_sentences, name_ids, single_names
from evidence.support.nb24.three_names import cases

LATE, MOVERS = "L23H3", "name movers"  # of two names; three are patched in two forms
ROLES = {LATE: "suppress", PAIR: "s_inhibition", MOVERS: "movers", "L24H4": "negative"}
FORMS = ("two names", "third gives", "third owns", "third gives, owned")


def _two_names(model: Model, ids: Tensor, sets: dict[str, list[Head]]) -> dict:
    rows = {}
    groups, elsewhere = (halves(each)[1] for each in in_two_sentences(model))
    for group, other in zip(groups, elsewhere, strict=True):

        def end(heads=(), outputs=None, tokens=group.tokens):
            return end_logits(model, tokens, heads, outputs)[:, ids]

        found = {"before": end(), "io": _columns(group.io, ids), "s": _columns(group.s, ids)}
        donors = {"same names": other.tokens, "other names": group.other}
        donors["roles swapped"] = swapped_roles(group)
        for donor, tokens in donors.items():
            outputs = end_outputs(model, tokens)
            found |= {f"patched/{who}/{donor}": end(heads, outputs) for who, heads in sets.items()}
        mixed = outputs_with_swapped(model, group, sets[PAIR])
        for who in (LATE, MOVERS):
            found[f"held/{who}"] = end([*sets[PAIR], *sets[who]], mixed)
        for key, x in found.items():
            rows.setdefault(f"two/{key}", []).append(x)
    return rows


def _replaced(model: Model, ids: Tensor, sets: dict[str, list[Head]]) -> dict:
    rows = {}
    for form, slot in [(each, who) for each in FORMS for who in ASKED[each]]:
        some = {who: sets[who] for who in (LATE, PAIR)}
        if form == "two names":
            some["all three"] = sum(some.values(), [])
        for case in cases(model, form, slot):
            outputs = end_outputs(model, case.changed)
            found = {"before": end_logits(model, case.tokens)[:, ids]}
            found |= {key: _columns(case.ids[key], ids) for key in ("name", "instead")}
            for who, heads in some.items():
                found[f"after/{who}"] = end_logits(model, case.tokens, heads, outputs)[:, ids]
            for key, x in found.items():
                rows.setdefault(f"{form}/{slot}/{key}", []).append(x)
    return rows


def _columns(tokens: Tensor, ids: Tensor) -> Tensor:
    return (tokens[:, None] == ids).int().argmax(dim=1)


def write_logits(model: Model, name: str) -> None:
    """Keep the logits of the names: of the prompts of entries 24-names (those that test) and 24."""
    roles, ids = read_names(name)["roles"], name_ids(model)
    sets = {who: getattr(roles, role) for who, role in ROLES.items()}
    rows = _two_names(model, ids, sets) | _replaced(model, ids, sets)
    kept = {key: torch.cat(each) for key, each in rows.items()}
    path = RESULTS / f"pretrained/24-{name}-logits.safetensors"
    write_safetensors(path, kept, {"names": ",".join(single_names(model.tokenizer))})


def pretrained(model: Model, name: str) -> dict:
    """Entry 24 of `make data WHAT=pretrained`, and the logits beside it."""
    write_logits(model, name)
    return three_names.pretrained(model, name)
