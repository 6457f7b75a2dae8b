"""The logits of the names at the end of notebook 24's prompts, as the model is and with patches.

Kept for readers without the model, who can then measure for themselves what a patch does.
"""

from typing import NamedTuple

from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor

from aot_helpers.base.results import RESULTS
from chapters.nb24_who_says_mary.measure import SETS

L23H3, EARLY = SETS
MOVERS, NEGATIVE = "name movers", "L24H4"
ROLES = {L23H3: "suppress", EARLY: "s_inhibition", MOVERS: "movers", NEGATIVE: "negative"}
DONORS = ("same names", "other names", "roles swapped")


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
