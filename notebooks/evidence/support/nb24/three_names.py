"""Evidence of notebook 24: prompts with three names, in which hypotheses name different people.

In "…, John gave a drink to", John came twice, was mentioned last and is the subject. Here each form
of prompt sets these properties apart. A head's output at the end is patched with that of the same
prompt with one name replaced; what the replaced name gains is what the head took from it.
"""

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS, plain
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.heads import head_output
from chapters.nb24_who_says_mary.measure import ASKED, ENDS, LATER, OPENING, STARTS, Asked, weight
from chapters.nb24_who_says_mary.patches import end_outputs, give
from evidence.support.nb24.names import read_names
from evidence.support.nb24.prompts import single_names

PEOPLE = ("IO", "S", "C", "D", "E")


class Case(NamedTuple):
    """Prompts of one template and order, and the same with one name replaced at one place."""

    tokens: Int[Tensor, "prompt pos"]
    changed: Int[Tensor, "prompt pos"]
    name: Int[Tensor, " prompt"]  # the name that is replaced
    instead: Int[Tensor, " prompt"]  # the one in its place: IO for S, else a new name
    people: dict[str, Int[Tensor, " prompt"]]  # IO, S, C, D and E, who is in no prompt


def cases(model: Model, form: str, slot: str, n: int = 6, seed: int = 0) -> list[Case]:
    """So many prompts (n) of each of the four templates and orders of the first two names."""
    rng, encode, found = random.Random(seed), model.tokenizer.encode, []
    single = sorted(single_names(model.tokenizer))
    for start, end in zip(STARTS, ENDS[form], strict=True):
        for first, second in (("IO", "S"), ("S", "IO")):
            texts, rows = [], []
            for A, B, C, D, E in (rng.sample(single, 5) for _ in range(n)):
                who = {first: A, second: B, "C": C, "D": D, "E": E}
                other = who | {slot: who["IO"] if slot == "S" else E}
                early = who if slot == "S" else other  # S is replaced where it comes again
                texts.append(
                    [
                        start.format(A=pair[first], B=pair[second]) + end.format(**names)
                        for pair, names in ((who, who), (early, other))
                    ]
                )
                rows.append(who | {"name": who[slot], "instead": other[slot]})
            tokens, changed = (
                torch.stack([encode(text, bos=True) for text in each])
                for each in zip(*texts, strict=True)
            )
            ids = {
                key: torch.tensor([int(encode(" " + row[key])[0]) for row in rows])
                for key in ("name", "instead", *PEOPLE)
            }
            found.append(Case(tokens, changed, ids.pop("name"), ids.pop("instead"), ids))
    return found


def suppressed(model: Model, some: list[Case], sets: Mapping[str, Sequence[Head]]) -> dict:
    """How far each set of heads lowers the name that is replaced, in logits: {set: [prompt]}.

    A set's output at the end is patched with that after `changed`: the rise of logit(name) −
    logit(instead). "model": the same of the model that reads `changed` itself.
    """
    found = {name: [] for name in (*sets, "model")}
    for case in some:
        outputs = end_outputs(model, case.changed)
        with torch.no_grad():
            before = _lead(model(case.tokens), case)
            for name, heads in sets.items():
                after = _lead(model(case.tokens, edits=give([*heads], outputs)), case)
                found[name].append(after - before)
            found["model"].append(_lead(model(case.changed), case) - before)
    return {name: torch.cat(each) for name, each in found.items()}


def _lead(logits: Tensor, case: Case) -> Float[Tensor, " prompt"]:
    end = logits[:, -1]
    return (end.gather(-1, case.name[:, None]) - end.gather(-1, case.instead[:, None]))[:, 0]


def attended(model: Model, some: list[Case], heads: Sequence[Head]) -> dict[str, dict[str, float]]:
    """Mean attention from the end to each mention of each name: {head: {"S 1": weight}}."""
    found = {str(head): {} for head in heads}
    for case in some:
        with torch.no_grad():
            _, cache = model.run_with_cache(case.tokens)
        for head in heads:
            end, row = cache[f"L{head.layer}.pattern"][:, head.head, -1], found[str(head)]
            for who, ids in case.people.items():
                places = (case.tokens == ids[:, None]).all(dim=0).nonzero()[:, 0].tolist()
                for i, at in enumerate(places):
                    row.setdefault(f"{who} {i + 1}", []).append(end[:, at].sum().item())
    n = sum(len(case.tokens) for case in some)
    return {head: {who: sum(x) / n for who, x in row.items()} for head, row in found.items()}


def answers(model: Model, some: list[Case]) -> dict[str, dict[str, float]]:
    """Mean logits of the people less that of E, whom no prompt names, and who is likeliest."""
    rows = []
    for case in some:
        with torch.no_grad():
            end = model(case.tokens)[:, -1]
        rows.append(torch.stack([end.gather(-1, case.people[w][:, None])[:, 0] for w in PEOPLE]))
    logits = dict(zip(PEOPLE, torch.cat(rows, dim=1), strict=True))
    case = some[-1]
    there = [who for who in PEOPLE if (case.tokens == case.people[who][:, None]).any()]
    best = torch.stack([logits[who] for who in there]).argmax(dim=0)
    return {
        "logits": {who: (logits[who] - logits["E"]).mean().item() for who in there},
        "likeliest": {who: (best == i).float().mean().item() for i, who in enumerate(there)},
    }


def write_opening(model: Model, name: str) -> None:
    """Keep what each part writes at the end of OPENING, for readers without the model.

    In half precision (350 kB): writes [part, d_model]; all that reads it: the final norm's gain,
    and unembed, the rows of Mary, of John, and the mean of all tokens; and the logits of both.
    """
    tokens = model.tokenizer.encode(OPENING, bos=True)[None]
    with torch.no_grad():
        logits, cache = model.run_with_cache(tokens)
    parts = {"embedding": cache["L0.resid_pre"]}
    for i in range(model.config.n_layers):
        heads = [Head(i, h) for h in range(model.config.n_heads)]
        parts |= {str(head): head_output(model, cache, head) for head in heads}
        parts[f"L{i} MLP"] = cache[f"L{i}.mlp_out"]
    names = [int(model.tokenizer.encode(name)[0]) for name in (" Mary", " John")]
    half = {
        "writes": torch.stack([each[0, -1] for each in parts.values()]),
        "gain": model.final_norm().weight.detach(),
        "unembed": torch.stack([*model.W_U.detach()[:, names].T, model.W_U.mean(dim=1)]),
    }
    kept = {key: x.half().contiguous() for key, x in half.items()}
    kept["logits"] = logits[0, -1, names].contiguous()
    path = RESULTS / f"pretrained/24-{name}-opening.safetensors"
    write_safetensors(path, kept, {"parts": ",".join(parts)})


def slope(role: str, heads: Sequence[str], some: Sequence[Asked]) -> float:
    """Logits per unit of attention: a line through the origin, by least squares."""
    x = torch.tensor([weight(one, heads) for one in some])
    y = torch.tensor([one.lowers[role] for one in some])
    return ((x * y).sum() / (x * x).sum()).item()


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 24 of `make data WHAT=pretrained`; the heads are those of entry 24-names."""
    known = read_names(name)
    roles, few = known.roles, ("suppress", "s_inhibition")
    sets = {role: getattr(roles, role) for role in (*few, "movers")}
    sets["both"] = roles.suppress + roles.s_inhibition
    others = {role: known.others[role][:3] for role in few}
    look, forms = [*sets["both"], *sets["movers"]], {}
    for form, slots in ASKED.items():
        later, row = form in LATER, {"slots": {}}
        for slot, true in slots.items():
            some = cases(model, form, slot, seed=seed)
            tried = {role: sets[role] for role in few} if later else dict(sets)
            tried |= {(role, i): others[role][i] for role in few for i in range(3)}
            found = {
                who: [round(x, 3) for x in each.tolist()]
                for who, each in suppressed(model, some, tried).items()
            }
            row["slots"][slot] = {
                "true": list(true),
                "lowers": {who: each for who, each in found.items() if isinstance(who, str)},
                "others": {role: [found[role, i] for i in range(3)] for role in few},
            }
        row["example"] = model.tokenizer.decode(some[0].tokens[0, 1:])
        row |= answers(model, some) | {"attention": attended(model, some, look)}
        orders = (0, 1) if later else ()  # S second, S first
        row["attention_by_order"] = [attended(model, some[i::2], look) for i in orders]
        forms[form] = row
    write_opening(model, name)
    return plain({"sets": sets, "others": others, "forms": forms}, Head)
