"""The exercises of notebook 19: find a hidden token's place, mislead a head, turn a score."""

import math

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import read_numbers
from chapters.nb19_induction_both_ways.repeats import repeats

MASK = 99
TEXTS = (  # seen, where the mask stands, where the hidden token stood
    ([0, 11, 12, 13, 14, 11, 12, MASK, 14], 7, 3),
    ([0, 31, 32, 33, 34, 35, 41, 42, MASK, 34, 43], 8, 3),
    ([0, 31, 32, 33, 34, 35, 41, 32, MASK, 44, 45], 8, 3),
    ([0, 51, 52, 53, 54, 61, MASK, 62, 63], 6, None),
)
ENOUGH = 0.8  # of the texts that have to be misled


def _finds(answer):
    for seen, at, place in TEXTS:
        given = answer(list(seen), at)
        if given is ... or (given is None and (seen, at, place) == TEXTS[0]):
            raise NotAttempted
        if given != place:
            raise NotYet(
                f"{seen}, mask at {at}: the hidden token stood at {place}, yours is {given}."
            )


def _misleads(answer, model, mask):
    length = 20
    hidden = repeats("in order", length, mask, model.tokenizer.bos, n_texts=20, seed=77)
    changed, wanted = [], []
    for seen, at, own in zip(hidden.seen.tolist(), hidden.at.tolist(), hidden.answers, strict=True):
        near, further = (seen[1 + (at + step) % (length - 2)] for step in (6, 8))
        wanted.append(further if near == own else near)
        given = [int(token) for token in attempted(answer(list(seen), at, wanted[-1]))]
        places = [i for i, pair in enumerate(zip(given, seen, strict=False)) if len({*pair}) > 1]
        wrong = [place for place in places if place <= length or place == at]
        if len(given) != len(seen) or not 1 <= len(places) <= 2 or wrong:
            said = f"of the second copy (positions {length + 1} to {2 * length})"
            raise NotYet(
                f"Change one or two tokens, {said}, and not the mask; you changed {places}."
            )
        changed.append(given)
    with torch.no_grad():
        logits = model(torch.tensor(changed))
    guesses = logits[torch.arange(len(changed)), hidden.at].argmax(dim=-1)
    share = (guesses == torch.tensor(wanted)).float().mean().item()
    said = f"the model says the wanted token in {share:.2f} of 20 texts"
    if share < ENOUGH:
        raise NotYet(f"{said}; {ENOUGH} are enough.")
    return said


def _turns(most, times):
    largest, factor = read_numbers(most), read_numbers(times)
    if abs(largest - math.log(30522) / 50) > 1e-3:
        raise NotYet(
            f"`most` is {largest:g}: the token costs ln 30,522 with 50, and how much with 500?"
        )
    score = 3 / 50 - 3 * factor / 500
    if abs(score) > 1e-4:
        raise NotYet(
            f"3 nats with 50 tokens, {3 * factor:g} with 500: {score:.3f}; it has to be 0."
        )
    return f"at most {largest:.3f}, and 0 only at ten times the loss"


CHECKS = {
    "19.1": _finds,
    "19.2": _misleads,
    "19.3": _turns,
}
