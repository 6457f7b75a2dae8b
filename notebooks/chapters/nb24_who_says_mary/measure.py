"""Notebook 24: prompts with three names, in which hypotheses on one head name different people.

In "…, John gave a drink to", John came twice, was mentioned last and is the subject. Here each form
of prompt sets these properties apart. A head's output at the end is patched with that of the same
prompt with one name replaced; what the replaced name gains is what the head took from it.
"""

import json
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas
import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS, plain, read
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.heads import head_output
from chapters.nb24_who_says_mary.patches import end_outputs, give
from chapters.nb24_who_says_mary.templates import single_names
from chapters.nb24_who_says_mary.two_names import read_names

OPENING = "When Mary and John went to the store, John gave a drink to"
# A and B in this order; S is one of them, C and D come once.
STARTS = (
    "When {A} and {B} went to the store, ",
    "After {A} and {B} came home, ",
    "Then {A} and {B} had a long talk, and ",
    "While {A} and {B} were at the office, ",
)
GAVE = ("gave a drink to", "handed the keys to", "gave a book to", "sent a letter to")
GAVE_OF = ("gave {}'s drink to", "handed the keys of {} to", "gave a book from {} to",
           "sent {}'s letter to")  # fmt: skip
TIRED = ("was tired, and", "was hungry, so", "was sad, so", "fell asleep, and")
ENDS = {
    "two names": ["{S} " + gave for gave in GAVE],
    "third gives": ["{C} " + gave for gave in GAVE],
    "third owns": ["{S} " + gave.format("{C}") for gave in GAVE_OF],
    "third gives, owned": ["{C} " + gave.format("{S}") for gave in GAVE_OF],
    "all apart": [
        "{S} " + tired + " {C} " + gave.format("{D}")
        for tired, gave in zip(TIRED, GAVE_OF, strict=True)
    ],
    # Declared and measured after the others, to test what they suggested.
    "someone gives": ["someone " + gave for gave in GAVE],
    "two give": ["{C} and {D} " + gave for gave in GAVE],
    "tired": ["{S} " + tired + " someone " + gave for tired, gave in zip(TIRED, GAVE, strict=True)],
}
# Of each form, the names that are replaced in turn, and what is true of them.
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
PEOPLE = ("IO", "S", "C", "D", "E")
EXAMPLE = {"IO": "Mary", "S": "John", "C": "Anna", "D": "Paul"}
LATER = ("someone gives", "two give", "tired")


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


def read_opening(name: str = "smollm2") -> tuple[list[str], dict[str, Tensor]]:
    """The parts of the opening prompt, and its tensors as floats."""
    path = RESULTS / f"pretrained/24-{name}-opening.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        return json.loads(file.metadata()["aot"])["parts"].split(","), tensors


class Asked(NamedTuple):
    """One name of one form of prompt: what is true of it, and what heads do to it; means."""

    form: str
    who: str
    true: tuple[str, ...]
    lowers: dict[str, float]  # by how many logits each set of heads lowers it
    others: dict[str, list[float]]  # the same of other heads as large
    attention: dict[str, float]  # from the end to this mention, {head: weight}

    @property
    def prompt(self) -> str:
        """The end of an example."""
        return "… " + ENDS[self.form][0].format(**EXAMPLE)

    @property
    def name(self) -> str:
        """The name in that example: John (S), Anna, Paul, or Mary (IO)."""
        who, *order = self.who.split(",")
        return ",".join([EXAMPLE[who], *order])


def read_asked(name: str = "smollm2", later: bool = False) -> list[Asked]:
    """The names of the forms that came first, or of the later ones.

    Where the property hangs on the order of the first two names, the orders stand apart.
    """
    found = []
    for form, row in read(f"pretrained/24-{name}")["forms"].items():
        if (form in LATER) != later:
            continue
        for slot, measured in row["slots"].items():
            true = tuple(measured["true"])
            if true == ("last in half",):
                orders = zip(
                    ("first", "second"), ((), ("last",)), row["attention_by_order"], strict=True
                )
                for order, (which, now, attention) in enumerate(orders):
                    found.append(_asked(form, f"{slot}, {which}", now, measured, attention, order))
            else:
                found.append(_asked(form, slot, true, measured, row["attention"]))
    return found


def _asked(form, who, true, measured, attention, order: int | None = None) -> Asked:
    """The means of all prompts or, of four templates with two orders each, of those of one."""

    def mean(values: list[float]) -> float:
        prompts = torch.tensor(values).view(len(STARTS), 2, -1)
        return (prompts if order is None else prompts[:, order]).mean().item()

    lowers = {heads: mean(each) for heads, each in measured["lowers"].items()}
    others = {heads: [mean(x) for x in each] for heads, each in measured["others"].items()}
    mention = "S 2" if who == "S" else f"{who.split(',')[0]} 1"
    weights = {head: row[mention] for head, row in attention.items()}
    return Asked(form, who, true, lowers, others, weights)


SETS = {"L23H3": ("suppress", ["L23H3"]), "L20H0 and L19H2": ("s_inhibition", ["L20H0", "L19H2"])}


def attention_and_effect(asked: Sequence[Asked]) -> dict[str, dict[str, tuple]]:
    """Of names that came twice and once: {heads: {which names: (attentions, logits)}}."""
    kinds = {"came twice": [], "came once": []}
    for one in asked:
        kinds["came twice" if "twice" in one.true else "came once"].append(one)
    return {
        title: {
            said: ([weight(one, heads) for one in some], [one.lowers[role] for one in some])
            for said, some in kinds.items()
        }
        for title, (role, heads) in SETS.items()
    }


def as_table(names: Sequence[Asked], heads: str) -> pandas.DataFrame:
    """How often each name came, the attention of heads to it, and by how much they lower it.

    heads: a key of SETS.
    """
    role, each = SETS[heads]
    rows = {
        (one.prompt, one.name): {
            "came": "twice" if "twice" in one.true else "once",
            "attention": weight(one, each),
            "lowered": one.lowers[role],
        }
        for one in names
    }
    table = pandas.DataFrame.from_dict(rows, orient="index")
    return table.rename_axis(index=("prompt", "name"))


def weight(one: Asked, heads: Sequence[str]) -> float:
    """The attention of some heads to a name, added up."""
    return sum(one.attention[head] for head in heads)


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
