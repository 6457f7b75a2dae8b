"""Evidence of notebook 24: the logits of the names, as the model is and with patches, for the tour.

Kept for readers without the model, who can then measure for themselves what a patch does.
"""

import torch
from torch import Tensor

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS
from aot_helpers.models.protocol import Model
from chapters.nb24_who_says_mary.measure import ASKED, SETS
from chapters.nb24_who_says_mary.name_logits import DONORS, EARLY, L23H3, MOVERS, ROLES
from chapters.nb24_who_says_mary.patches import end_outputs, give
from evidence.support.nb24 import three_names
from evidence.support.nb24.names import read_names
from evidence.support.nb24.patching import swapped_roles
from evidence.support.nb24.prompts import TEMPLATES, name_prompts, single_names
from evidence.support.nb24.three_names import cases
from evidence.support.nb24.two_names import halves

ALL = "all three"
FORMS = ("two names", "third gives", "third owns", "third gives, owned")


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
    return three_names.pretrained(model, name, seed)
