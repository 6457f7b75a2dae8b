"""Evidence of notebook 24: how far each part raises two names above one that is not in the prompt.

And what one head takes from a name for a unit of its attention, read from its values. Kept for
readers without the model.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.results import plain, rounded
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.norms import frozen_norm
from chapters.nb24_who_says_mary.measure import ASKED
from evidence.support.nb24.name_movers import direct_contributions
from evidence.support.nb24.names import read_names
from evidence.support.nb24.prompts import halves, in_two_sentences, name_ids
from evidence.support.nb24.three_names import PEOPLE, Case, cases


def _absent(model: Model, there: Int[Tensor, "prompt name"], ids: Tensor) -> Tensor:
    """The mean column of W_U of the names that a prompt does not hold: [prompt, d_model]."""
    return torch.stack([model.W_U.T[ids[~torch.isin(ids, each)]].mean(dim=0) for each in there])


def _contributions(model: Model, ids: Tensor) -> dict:
    found, groups = {"rest": {}}, halves(in_two_sentences(model)[0])[1]
    for key in ("io", "s"):
        rows = []
        for g in groups:
            absent = _absent(model, torch.stack([g.io, g.s], dim=1), ids)
            toward = model.W_U.T[getattr(g, key)] - absent
            _, cache = model.run_with_cache(g.tokens)
            rows.append(direct_contributions(model, cache, toward))
        heads, rest = (torch.cat(x, dim=-1).mean(dim=-1) for x in zip(*rows, strict=True))
        found[key], found["rest"][key] = heads, rest.sum().item()
    return found


def per_unit(model: Model, case: Case, head: Head, ids: Tensor) -> Float[Tensor, " prompt"]:
    """What a head would take from the name at its last mention, did it attend to nothing else."""
    _, cache = model.run_with_cache(case.tokens)
    layer, h = head
    v = cache[f"L{layer}.v"]
    kv_head = h * v.shape[2] // model.config.n_heads  # heads may have keys in common
    v = v[torch.arange(len(v)), case.last("name"), kv_head]
    normed = frozen_norm(model.final_norm(), cache["final_resid"][None, :, -1])
    there = torch.stack([case.ids[who] for who in PEOPLE], dim=1)
    toward = model.W_U.T[case.ids["name"]] - _absent(model, there, ids)
    return -(normed((v @ model.W_O[layer, h])[None])[0] * toward).sum(dim=-1)


def _of_forms(model: Model, head: Head, ids: Tensor) -> dict:
    """The mean of `per_unit` over the prompts of each form, for each name that is replaced."""

    def mean(form: str, who: str) -> Tensor:
        some = cases(model, form, who)
        return torch.cat([per_unit(model, case, head, ids) for case in some]).mean()

    return {form: {who: mean(form, who) for who in slots} for form, slots in ASKED.items()}


@torch.no_grad()
def pretrained(model: Model, name: str) -> dict:
    """Entry 24-above of `make data WHAT=pretrained`; the head is one of entry 24-names."""
    roles, ids = read_names(name)["roles"], name_ids(model)
    (head,) = roles.suppress
    found = _contributions(model, ids)
    found["per_unit"] = _of_forms(model, head, ids)
    found["per_unit_others"] = {
        str(other): _of_forms(model, other, ids) for other in roles.s_inhibition
    }
    return rounded(plain(found, Head))
