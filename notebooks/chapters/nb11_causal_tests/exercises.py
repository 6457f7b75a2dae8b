"""The exercises of notebook 11: a pattern that is kept, a fact that is patched, a shared job."""

import math

from aot_helpers.models.losses import copy_losses
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate, freeze_patterns, merge
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import near, read_numbers

NEAR = 0.2  # of 11.2
LITTLE, MUCH = 0.1, 2  # nats, of 11.3


def _pattern_kept(answer, model, tokens):
    shown = None
    for head in (3, 1):
        zeroed = ablate(model, [Head(0, head)], "zero")
        kept = copy_losses(model, tokens, merge(freeze_patterns(model, tokens), zeroed))
        free, whole = copy_losses(model, tokens, zeroed), copy_losses(model, tokens)
        found = attempted(answer(model, tokens, head))
        found = read_numbers(found, name=f"For head {head}")
        if abs(found - kept[1]) > 1e-3:
            known = {
                free[1]: "the pattern of layer 1 has changed with it",
                whole[1]: "the head is not ablated",
            }
            known[kept[0]] = "this is the first copy's loss, the second's is wanted"
            known[kept[1] - whole[1]] = "this is the rise, the loss itself is wanted"
            why = [said for value, said in known.items() if abs(found - value) < 1e-3]
            raise NotYet(
                f"For head {head}: {found:.3f}; {why[0] if why else 'mine is another number'}."
            )
        shown = shown or f"L0H{head} zero-ablated: {free[1]:.2f}; pattern kept: {kept[1]:.2f}"
    return shown


def _facts(answer, truth):
    near(answer, truth, NEAR)


def _shared_job(answer):
    found = read_numbers(answer, 3, name="The leads by the rest, by one head and by the other")
    rest, one, two = found.tolist()

    def loss(lead):
        return math.log1p(math.exp(-abs(lead))) + max(-lead, 0)

    whole = loss(rest + one + two)
    alone = [loss(rest + two) - whole, loss(rest + one) - whole]
    both = loss(rest) - whole
    said = f"Without one head the loss rises by {alone[0]:.2f}, without the other by {alone[1]:.2f}"
    said += f", without both by {both:.2f}"
    if max(map(abs, alone)) > LITTLE or both < MUCH:
        raise NotYet(f"{said}: at most {LITTLE}, {LITTLE} and at least {MUCH} are wanted.")
    return said


CHECKS = {"11.1": _pattern_kept, "11.2": _facts, "11.3": _shared_job}
