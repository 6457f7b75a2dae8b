"""Notebook 24: prompts with three names, in which hypotheses on one head name different people.

In "…, John gave a drink to", John came twice, was mentioned last and is the subject. Here each form
of prompt sets these properties apart. A head's output at the end is patched with that of the same
prompt with one name replaced; what the replaced name gains is what the head took from it.
"""

import json
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from safetensors import safe_open
from torch import Tensor

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS, read
from aot_helpers.models.protocol import Head, Model
from chapters.names.patches import end_outputs, give
from chapters.names.templates import single_names

OPENING = "When Mary and John went to the store, John gave a drink to"
# A and B in this order; S is one of them, C and D come once.
STARTS = (
    "When {A} and {B} went to the store, ",
    "After {A} and {B} came home, ",
    "Then {A} and {B} had a long talk, and ",
    "While {A} and {B} were at the office, ",
)
ENDS = {
    "two names": ("{S} gave a drink to", "{S} handed the keys to", "{S} gave a book to",
                  "{S} sent a letter to"),
    "third gives": ("{C} gave a drink to", "{C} handed the keys to", "{C} gave a book to",
                    "{C} sent a letter to"),
    "third owns": ("{S} gave {C}'s drink to", "{S} handed the keys of {C} to",
                   "{S} gave a book from {C} to", "{S} sent {C}'s letter to"),
    "third gives, owned": ("{C} gave {S}'s drink to", "{C} handed the keys of {S} to",
                           "{C} gave a book from {S} to", "{C} sent {S}'s letter to"),
    "all apart": ("{S} was tired, and {C} gave {D}'s drink to",
                  "{S} was hungry, so {C} handed the keys of {D} to",
                  "{S} was sad, so {C} gave a book from {D} to",
                  "{S} fell asleep, and {C} sent {D}'s letter to"),
    # Declared and measured after the others, to test what they suggested.
    "someone gives": ("someone gave a drink to", "someone handed the keys to",
                      "someone gave a book to", "someone sent a letter to"),
    "two give": ("{C} and {D} gave a drink to", "{C} and {D} handed the keys to",
                 "{C} and {D} gave a book to", "{C} and {D} sent a letter to"),
    "tired": ("{S} was tired, and someone gave a drink to",
              "{S} was hungry, so someone handed the keys to",
              "{S} was sad, so someone gave a book to",
              "{S} fell asleep, and someone sent a letter to"),
}  # fmt: skip
# Of each form, the names that are replaced in turn, and what is true of them.
DONORS = ("same names", "other names", "roles swapped")  # of notebook 22's patches
ASKED = {
    "two names": {"S": ("twice", "last", "subject")},
    "third gives": {"C": ("last", "subject")},
    "third owns": {"S": ("twice", "subject"), "C": ("last",)},
    "third gives, owned": {"S": ("twice", "last"), "C": ("subject",)},
    "all apart": {"S": ("twice",), "C": ("subject",), "D": ("last",)},
    "someone gives": {"IO": ("last in half",)},
    "two give": {"C": ("subject",), "D": ("last", "subject")},
    "tired": {"S": ("twice", "last"), "IO": ()},
}
LATER = ("someone gives", "two give", "tired")
PROPERTIES = ("twice", "last", "subject")


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
        for s_first in (False, True):
            texts, rows = [], []
            for A, B, C, D, E in (rng.sample(single, 5) for _ in range(n)):
                S, IO = (A, B) if s_first else (B, A)
                who = {"IO": IO, "S": S, "C": C, "D": D, "E": E}
                other = who | {slot: IO if slot == "S" else E}
                second = {"A": A, "B": B} if slot == "S" else _first_names(other, s_first)
                texts.append(
                    [
                        start.format(**each) + end.format(**names)
                        for each, names in (({"A": A, "B": B}, who), (second, other))
                    ]
                )
                rows.append(who | {"name": who[slot], "instead": other[slot]})
            tokens, changed = (
                torch.stack([encode(text, bos=True) for text in each])
                for each in zip(*texts, strict=True)
            )
            ids = {
                key: torch.tensor([int(encode(" " + row[key])[0]) for row in rows])
                for key in rows[0]
            }
            found.append(Case(tokens, changed, ids.pop("name"), ids.pop("instead"), ids))
    return found


def _first_names(who: dict[str, str], s_first: bool) -> dict[str, str]:
    """The two names of the first clause, of which S and IO are one each."""
    pair = (who["S"], who["IO"]) if s_first else (who["IO"], who["S"])
    return dict(zip("AB", pair, strict=True))


def suppressed(model: Model, some: list[Case], sets: Mapping[str, Sequence[Head]]) -> dict:
    """How far each set of heads lowers the name that is replaced, in logits: {set: [prompt]}.

    A set's output at the end is patched with that after `changed`: the rise of logit(name) −
    logit(instead). "the model": the same of the model that reads `changed` itself.
    """
    found = {name: [] for name in (*sets, "the model")}
    for case in some:
        outputs = end_outputs(model, case.changed)
        with torch.no_grad():
            before = _lead(model(case.tokens), case)
            for name, heads in sets.items():
                after = _lead(model(case.tokens, edits=give([*heads], outputs)), case)
                found[name].append(after - before)
            found["the model"].append(_lead(model(case.changed), case) - before)
    return {name: torch.cat(each) for name, each in found.items()}


def _lead(logits: Tensor, case: Case) -> Float[Tensor, " prompt"]:
    end = logits[:, -1]
    return (end.gather(-1, case.name[:, None]) - end.gather(-1, case.instead[:, None]))[:, 0]


def attended(model: Model, some: list[Case], heads: Sequence[Head]) -> dict[str, dict[str, float]]:
    """Mean attention from the end to each mention of each name: {head: {"S 1": weight}}."""
    sums: dict[str, dict[str, float]] = {str(head): {} for head in heads}
    for case in some:
        with torch.no_grad():
            _, cache = model.run_with_cache(case.tokens)
        for layer, head in heads:
            row = sums[str(Head(layer, head))]
            end = cache[f"L{layer}.pattern"][:, head, -1]
            for who, ids in case.people.items():
                places = (case.tokens == ids[:, None]).all(dim=0).nonzero()[:, 0].tolist()
                for i, at in enumerate(places):
                    row[f"{who} {i + 1}"] = row.get(f"{who} {i + 1}", 0.0) + end[:, at].sum().item()
    n = sum(len(case.tokens) for case in some)
    return {head: {who: x / n for who, x in row.items()} for head, row in sums.items()}


def answers(model: Model, some: list[Case]) -> dict:
    """Mean logits of the people less that of E, whom no prompt names, and who is likeliest."""
    rows = []
    for case in some:
        with torch.no_grad():
            end = model(case.tokens)[:, -1]
        of_each = [end.gather(-1, ids[:, None])[:, 0] for ids in case.people.values()]
        rows.append(torch.stack(of_each))
    logits, people = torch.cat(rows, dim=1), list(case.people)
    there = [who for who, ids in case.people.items() if (case.tokens == ids[:, None]).any()]
    best = logits[[people.index(who) for who in there]].argmax(dim=0)
    return {
        "logits": {who: (logits[people.index(who)] - logits[-1]).mean().item() for who in there},
        "likeliest": {who: (best == i).float().mean().item() for i, who in enumerate(there)},
    }


def opening(model: Model, text: str = OPENING, io: str = "Mary", s: str = "John") -> dict:
    """What each part writes at the end of one prompt, and all that reads it: tensors by name.

    unembed: the rows of IO, of S, and the mean of all tokens.
    """
    tokens = model.tokenizer.encode(text, bos=True)[None]
    with torch.no_grad():
        logits, cache = model.run_with_cache(tokens)
    c, rows = model.config, {"embedding": cache["L0.resid_pre"][0, -1]}
    for i in range(c.n_layers):
        for h in range(c.n_heads):
            rows[f"L{i}H{h}"] = cache[f"L{i}.z"][0, -1, h] @ model.head_weights(Head(i, h)).W_O
        rows[f"L{i} MLP"] = cache[f"L{i}.mlp_out"][0, -1]
    names = [int(model.tokenizer.encode(" " + name)[0]) for name in (io, s)]
    return {
        "writes": torch.stack([*rows.values()]),  # [part, d_model]
        "gain": model.final_norm().weight.detach(),
        "unembed": torch.stack([*model.W_U.detach()[:, names].T, model.W_U.mean(dim=1)]),
        "logits": logits[0, -1, names],
    } | {"parts": list(rows)}


def write_opening(model: Model, name: str) -> None:
    """Keep what each part writes in half precision, 350 kB, for readers without the model."""
    kept = opening(model)
    parts = kept.pop("parts")
    logits = kept.pop("logits")
    half = {key: x.half().contiguous() for key, x in kept.items()} | {"logits": logits.contiguous()}
    path = RESULTS / f"pretrained/24-{name}-opening.safetensors"
    write_safetensors(path, half, {"parts": ",".join(parts)})


def read_opening(name: str = "smollm2") -> tuple[list[str], dict[str, Tensor]]:
    """The parts of the opening prompt, and its tensors as floats."""
    path = RESULTS / f"pretrained/24-{name}-opening.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        return json.loads(file.metadata()["aot"])["parts"].split(","), tensors


def read_forms(name: str = "smollm2") -> dict:
    """What `make data WHAT=pretrained` measured for notebook 24."""
    return read(f"pretrained/24-{name}")


class TwoNames(NamedTuple):
    """What notebook 22 measured on prompts with two names, half of which chose the heads."""

    lead: Float[Tensor, " prompt"]  # logit of IO − logit of S, on the other half
    io_first: Bool[Tensor, " prompt"]
    to_io: Float[Tensor, "layer head"]  # mean direct contribution to a logit, above all tokens'
    to_s: Float[Tensor, "layer head"]
    rest: dict[str, float]  # what MLPs and the embedding add to the difference
    attends: dict[str, Float[Tensor, "layer head"]]  # from the end: to IO, S1, S2
    roles: dict[str, list[str]]  # heads by role
    after: dict[str, dict[str, Float[Tensor, " prompt"]]]  # {role: {patched from: lead}}
    others: dict[str, dict[str, list[float]]]  # falls of the lead, of other heads as large
    held: dict[str, Float[Tensor, " prompt"]]  # tells swapped, others kept
    repair: dict[str, float | list[float]]  # without the name movers


def read_two_names(name: str = "smollm2") -> TwoNames:
    """The part of notebook 22's results that 24 goes on with, as tensors."""
    r = read(f"pretrained/22-{name}")["names"]
    order = torch.arange(r["tested"]) // 4 % 2 == 0  # in fours: IO first, S first, and again
    repair = ("movers added", "movers left", "fall without movers", "by sigma", "rest grows")
    repair += ("against grows", "against writes")
    falls = r["falls of others"]
    return TwoNames(
        torch.tensor(r["difference"][-r["tested"] :]),
        order,
        torch.tensor(r["on IO"]),
        torch.tensor(r["on S"]),
        r["parts"],
        {where: torch.tensor(r["attention"][f"end to {where}"]) for where in ("IO", "S1", "S2")},
        r["roles"],
        {role: {way: torch.tensor(x) for way, x in p.items()} for role, p in r["patched"].items()},
        {role: {way: falls[way][role] for way in falls} for role in r["patched"]},
        {who: torch.tensor(x) for who, x in r["told, held"].items()},
        {key: r[key] for key in repair},
    )


class Asked(NamedTuple):
    """One name of one form of prompt: what is true of it, and what heads do to it; means."""

    form: str
    who: str
    true: tuple[str, ...]
    lowers: dict[str, float]  # by how many logits each set of heads lowers it
    others: dict[str, list[float]]  # the same of other heads as large, where measured
    attention: dict[str, float]  # from the end to this mention, {head: weight}


def read_asked(name: str = "smollm2", later: bool = False) -> list[Asked]:
    """The names of the forms that came first, or of the later ones.

    Where the property hangs on the order of the first two names, the orders stand apart.
    """
    found = []
    for form, row in read(f"pretrained/24-{name}")["forms"].items():
        if (form in LATER) != later:
            continue
        for slot, measured in row["slots"].items():
            true = tuple(measured["true of it"])
            values = {who: x for who, x in measured.items() if who != "true of it"}
            place = "S 2" if slot == "S" else f"{slot} 1"
            if true == ("last in half",):
                for order, each in enumerate(row["attention by order"]):
                    half = {who: _of_order(x, order) for who, x in values.items()}
                    which, now = (("first", ()), ("second", ("last",)))[order]
                    found.append(_asked(form, f"{slot}, {which}", now, half, each, place))
            else:
                found.append(_asked(form, slot, true, values, row["attention"], place))
    return found


def _of_order(values: list[float], order: int) -> list[float]:
    """Of four templates with two orders each, the prompts of one order."""
    return torch.tensor(values).view(len(STARTS), 2, -1)[:, order].flatten().tolist()


def _asked(form, who, true, values, attention, place) -> Asked:
    means = {name: sum(x) / len(x) for name, x in values.items()}
    others: dict[str, list[float]] = {}
    for name in [name for name in means if name.startswith("like ")]:
        others.setdefault(name.split()[1], []).append(means.pop(name))
    weights = {head: row[place] for head, row in attention.items()}
    return Asked(form, who, true, means, others, weights)


LABELS = {
    ("two names", "S"): "John gave a drink to",
    ("third gives", "C"): "Anna gave a drink to",
}

TEXTS = {
    "two names": "… John gave a drink to",
    "third gives": "… Anna gave a drink to",
    "third owns": "… John gave Anna's drink to",
    "third gives, owned": "… Anna gave John's drink to",
}


def rows(asked: Sequence[Asked]) -> list[tuple]:
    """For a figure: (prompt, name, properties, two numbers, their controls) of each name."""
    both = ("suppress", "tells")
    return [
        (
            TEXTS[one.form],
            "John" if one.who == "S" else "Anna",
            one.true,
            [one.lowers[role] for role in both],
            [one.others[role] for role in both],
        )
        for one in asked
    ]


def points(asked: Sequence[Asked], later: Sequence[Asked]) -> dict[str, list[tuple]]:
    """For two panels: (attention, logits, a label, came twice, measured later) of each name."""
    panels = {"L23H3": ("suppress", ["L23H3"]), "L20H0 and L19H2": ("tells", ["L20H0", "L19H2"])}
    return {
        title: [
            (
                sum(one.attention[head] for head in heads),
                one.lowers[role],
                LABELS.get((one.form, one.who), ""),
                "twice" in one.true,
                one in later,
            )
            for one in (*asked, *later)
        ]
        for title, (role, heads) in panels.items()
    }


def slope(role: str, heads: Sequence[str], some: Sequence[Asked]) -> float:
    """Logits per unit of attention: a line through the origin, by least squares."""
    x = torch.tensor([sum(one.attention[head] for head in heads) for one in some])
    y = torch.tensor([one.lowers[role] for one in some])
    return ((x * y).sum() / (x * x).sum()).item()


def places(names: Sequence[str]) -> list[tuple[str, Head]]:
    """Heads with their names, to index tensors [layer, head]."""
    return list(zip(names, heads_of(names), strict=True))


def heads_of(names: Sequence[str]) -> list[Head]:
    """The heads of names such as L2H3."""
    return [Head.parse(name) for name in names]


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 24 of `make data WHAT=pretrained`; the heads are those that notebook 22 has found."""
    known = read(f"pretrained/22-{name}")["names"]
    roles, others = known["roles"], known["others"]
    few = ("suppress", "tells")
    sets = {role: roles[role] for role in (*few, "movers")}
    sets["suppress and tells"] = [*roles["suppress"], *roles["tells"]]
    sets |= {f"like {role} {i}": others[role][i] for role in few for i in range(3)}
    by_set = {each: heads_of(heads) for each, heads in sets.items()}
    look = [*by_set["suppress and tells"], *by_set["movers"]]
    found = {"sets": sets, "forms": {}}
    for form, slots in ASKED.items():
        later, row = form in LATER, {"slots": {}}
        for slot, true in slots.items():
            some = cases(model, form, slot, seed=seed)
            tried = {who: by_set[who] for who in (few if later else by_set)}
            row["slots"][slot] = {"true of it": list(true)} | {
                who: [round(x, 3) for x in each.tolist()]
                for who, each in suppressed(model, some, tried).items()
            }
        row["example"] = model.tokenizer.decode(some[0].tokens[0, 1:])
        row |= answers(model, some) | {"attention": attended(model, some, look)}
        if later:  # S second, S first
            row["attention by order"] = [attended(model, some[i::2], look) for i in (0, 1)]
        found["forms"][form] = row
    write_opening(model, name)
    return found
