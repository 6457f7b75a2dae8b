"""Notebook 24: prompts with three names, in which hypotheses on one head name different people.

In "…, John gave a drink to", John came twice, was mentioned last and is the subject. Here each form
of prompt sets these properties apart. A head's output at the end is patched with that of the same
prompt with one name replaced; what the replaced name gains is what the head took from it.
"""

import json

import pandas
import torch
from jaxtyping import Float
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from aot_helpers.base.results import RESULTS, read
from aot_helpers.models.protocol import Head

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
PAIR = "L20H0 and L19H2"
HEADS = {"L23H3": [Head(23, 3)], PAIR: [Head(20, 0), Head(19, 2)]}
ROLES = {"L23H3": "suppress", PAIR: "s_inhibition"}  # as the results have them


def read_opening(name: str = "smollm2") -> tuple[list[str], dict[str, Tensor]]:
    """The parts of the opening prompt, and its tensors as floats."""
    path = RESULTS / f"pretrained/24-{name}-opening.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        return json.loads(file.metadata()["aot"])["parts"].split(","), tensors


def read_logits(name: str = "smollm2") -> dict[str, Tensor]:
    """The logits of 24 names at the end of prompts [prompt, name], as the model is and patched.

    Of prompts with two names: "two/before"; "two/patched/HEADS/DONOR"; "two/held/HEADS", with the
    early heads patched from swapped roles while others keep their output; "two/io" and "two/s",
    which columns are IO and S. Of a form: "FORM/WHO/before" and "FORM/WHO/after/HEADS"; the name
    that is replaced in the donor, "FORM/WHO/name", and the one in its place, "FORM/WHO/instead".
    """
    return load_file(RESULTS / f"pretrained/24-{name}-logits.safetensors")


def lowered(runs: dict[str, dict]) -> dict[str, Float[Tensor, " prompt"]]:
    """By how many logits patched heads lower the name: {heads: [prompt]}."""
    leads = {}
    for who, run in runs.items():
        name, instead, _ = torch.tensor(run["logits"]).unbind(dim=1)
        leads[who] = name - instead
    return {who: lead - leads["whole"] for who, lead in leads.items() if who != "whole"}


def lowered_names(name: str = "smollm2") -> pandas.DataFrame:
    """Names of each form of prompt, and what each of HEADS does to them; means of prompts.

    Columns: form, who; "true", what is true of the name; "came", twice or once; "stage", whether
    the form was measured "first", "later", or where a name has come "again"; "prompt" and "name",
    an example; "heads", "attention" (from the end to the last mention, added up), "lowered"
    (logits), "others" (the same of other heads as large). Where what is true hangs on the order of
    the first two names, the orders stand apart.
    """
    rows = []
    for form, row in read(f"pretrained/24-{name}")["forms"].items():
        for slot, found in row["slots"].items():
            cases = [(slot, found["true"], row["attention"], slice(None))]
            if found["true"] == ["last in half"]:
                by_order = row["attention_by_order"]
                cases = [(f"{slot}, first", [], by_order[0], 0)]
                cases += [(f"{slot}, second", ["last"], by_order[1], 1)]
            for who, true, attention, order in cases:
                lowers = {role: _mean(found["lowers"][role], order) for role in ROLES.values()}
                others = {
                    role: [_mean(x, order) for x in each] for role, each in found["others"].items()
                }
                mention = "S 2" if slot == "S" else f"{slot} 1"
                weights = {head: each[mention] for head, each in attention.items()}
                stage = "later" if form in LATER else "first"
                rows += _rows(form, stage, who, true, lowers, others, weights)
    again = read(f"pretrained/24-again-{name}")
    for slot, of, last in (("IO", "", "last"), ("S", ", the subject", "subject")):
        means = {who: x.mean().item() for who, x in lowered(again[f"runs{of}"]).items()}
        lowers = {"suppress": means["L23H3"], "s_inhibition": means["early"]}
        others = {
            role: [means[who] for who in again[key] if who in means]
            for role, key in (("suppress", "beside"), ("s_inhibition", "pairs"))
        }
        weights = {head: sum(x) / len(x) for head, x in again[f"attention{of}"].items()}
        rows += _rows("again", "again", slot, ["twice", last], lowers, others, weights)
    return pandas.DataFrame(rows)


def _mean(prompts: list[float], order: int | slice) -> float:
    """Of four templates with two orders of the first names, the mean of one order or of both."""
    return torch.tensor(prompts).view(4, 2, -1)[:, order].mean().item()  # [template, order, prompt]


def _rows(form, stage, who, true, lowers, others, weights) -> list[dict]:
    """A row for each of HEADS; lowers and others by role, weights by head."""
    ends = AGAIN if form == "again" else ENDS[form]
    came = "twice" if "twice" in true else "once"
    row = {"form": form, "stage": stage, "who": who, "true": tuple(true), "came": came}
    row |= {"prompt": "… " + ends[0].format(**EXAMPLE), "name": EXAMPLE[who.split(",")[0]]}
    return [
        row
        | {
            "heads": heads,
            "attention": sum(weights[str(head)] for head in members),
            "lowered": lowers[ROLES[heads]],
            "others": others[ROLES[heads]],
        }
        for heads, members in HEADS.items()
    ]


def replacements(prompt: str) -> list[tuple[str, str]]:
    """Each name of a prompt, and one to put in its place at its last mention.

    For one that came twice that is one that then does, if the prompt has such a name; else it is
    one that the prompt has not.
    """
    names = sorted((each for each in NAMES if each in prompt), key=prompt.find)
    once = [name for name in names if prompt.count(name) == 1]
    absent = next(name for name in NAMES if name not in prompt)
    return [(name, once[0] if once and prompt.count(name) > 1 else absent) for name in names]
