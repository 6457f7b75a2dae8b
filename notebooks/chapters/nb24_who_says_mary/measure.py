"""Notebook 24: prompts with three names, in which hypotheses on one head name different people.

In "…, John gave a drink to", John came twice, was mentioned last and is the subject. Here each form
of prompt sets these properties apart. A head's output at the end is patched with that of the same
prompt with one name replaced; what the replaced name gains is what the head took from it.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

import pandas
import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor

from aot_helpers.base.results import RESULTS, read

_PEOPLE = """
Mary John Tom James Anna Paul Sarah Peter Emma David Laura Mark Alice Robert Jack Kate Daniel
Michael George Henry Jane Susan Simon Helen
"""
NAMES = tuple(_PEOPLE.split())
OPENING = "When Mary and John went to the store, John gave a drink to"
# A and B in this order; S is one of them, C and D come once.
STARTS = (
    "When {A} and {B} went to the store, ",
    "After {A} and {B} came home, ",
    "Then {A} and {B} had a long talk, and ",
    "While {A} and {B} were at the office, ",
)
GAVE = ("gave a drink to", "handed the keys to", "gave a book to", "sent a letter to")
GAVE_OF = (
    "gave {}'s drink to",
    "handed the keys of {} to",
    "gave a book from {} to",
    "sent {}'s letter to",
)
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
AGAIN = (
    "{S} saw {IO} and gave a drink to",
    "{S} called {IO} and handed the keys to",
    "{S} thanked {IO} and gave a book to",
    "{S} missed {IO} and sent a letter to",
)
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
EXAMPLE = {"IO": "Mary", "S": "John", "C": "Anna", "D": "Paul"}
LATER = ("someone gives", "two give", "tired")


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
        ends = AGAIN if self.form == "again" else ENDS[self.form]
        return "… " + ends[0].format(**EXAMPLE)

    @property
    def name(self) -> str:
        """The name in that example: John (S), Anna, Paul, or Mary (IO)."""
        who, *order = self.who.split(",")
        return ",".join([EXAMPLE[who], *order])


class Above(NamedTuple):
    """What parts add to IO and S above names that are not in the prompt; means of 48 prompts."""

    io: Float[Tensor, "layer head"]
    s: Float[Tensor, "layer head"]
    rest: dict[str, float]  # what embeddings and MLPs add: {"io": logits, "s": logits}


def read_above(name: str = "smollm2") -> Above:
    """What `make data WHAT=pretrained` measured."""
    found = read(f"pretrained/24-above-{name}")
    io, s = (torch.tensor(found[key]) for key in ("io", "s"))
    return Above(io, s, found["rest"])


class Again(NamedTuple):
    """48 prompts such as "…, John saw Mary and gave a drink to", and what follows some examples.

    first: what is said first, as the model is ("whole") and with heads patched: 0 the name, 1 the
    one in its place in the donor, 2 the pronoun, -1 anything else. says: the likeliest tokens after
    some examples, {prompt: {run: [(token, probability)]}}.
    """

    first: dict[str, Int[Tensor, " prompt"]]
    names: list[Asked]  # the indirect object and the subject, at their last mention
    says: dict[str, dict[str, list[tuple[str, float]]]]


def read_again(name: str = "smollm2") -> Again:
    """What `make data WHAT=pretrained` measured where the name has just come again."""
    found = read(f"pretrained/24-again-{name}")
    first = {who: torch.tensor(run["first"]) for who, run in found["runs"].items()}
    rows = {"IO": ("", ("twice", "last")), "S": (", the subject", ("twice", "subject"))}
    names = []
    for slot, (of, true) in rows.items():
        lowers = lowered(found[f"runs{of}"])
        means = {who: x.mean().item() for who, x in lowers.items()}
        own = {"suppress": means["L23H3"], "s_inhibition": means["early"]}
        others = {
            role: [means[who] for who in found[key] if who in means]
            for role, key in (("suppress", "beside"), ("s_inhibition", "pairs"))
        }
        weights = {head: sum(x) / len(x) for head, x in found[f"attention{of}"].items()}
        names.append(Asked("again", slot, true, own, others, weights))
    return Again(first, names, found["says"])


def lowered(runs: dict[str, dict]) -> dict[str, Float[Tensor, " prompt"]]:
    """By how many logits patched heads lower the name: {heads: [prompt]}."""
    leads = {}
    for who, run in runs.items():
        name, instead, _ = torch.tensor(run["logits"]).unbind(dim=1)
        leads[who] = name - instead
    return {who: lead - leads["whole"] for who, lead in leads.items() if who != "whole"}


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
