"""The exercises of notebook 19: measure a head from the mask, find a token, mislead a model.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared
from chapters.nb19_induction_both_ways.repeats import repeats

MASK = 99
TEXTS = (  # seen, where the mask stands, where the hidden token stood
    ([0, 11, 12, 13, 14, 11, 12, MASK, 14], 7, 3),
    ([0, 31, 32, 33, 34, 35, 41, 42, MASK, 34, 43], 8, 3),
    ([0, 31, 32, 33, 34, 35, 41, 32, MASK, 44, 45], 8, 3),
    ([0, 51, 52, 53, 54, 61, MASK, 62, 63], 6, None),
)
ENOUGH = 0.8  # of the texts that have to be misled


def copy_scores(pattern, at, copy):
    """Mean attention [head, 3] from the mask to the token before the copy, to it, and after it."""
    texts = torch.arange(len(at))
    places = [pattern[texts, :, at, copy + step] for step in (-1, 0, 1)]  # each [text, head]
    return torch.stack(places, dim=-1).mean(dim=0)


PAGES = {"19.1": copy_scores}


def _scores(answer):
    pattern = torch.rand(5, 3, 9, 9, generator=torch.Generator().manual_seed(0)).softmax(dim=-1)
    at, copy = torch.tensor([6, 7, 5, 6, 7]), torch.tensor([2, 3, 1, 2, 3])
    texts, wanted = torch.arange(5), copy_scores(pattern, at, copy)
    found = attempted(answer(pattern.clone(), at.clone(), copy.clone()))
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
        shape = tuple(found.shape) if isinstance(found, torch.Tensor) else found
        raise NotYet(
            f"For 5 texts and 3 heads the shape {tuple(wanted.shape)} is wanted, got {shape!r}: "
            "a row for each head, a column for each place, a mean over texts."
        )
    steps = (-1, 0, 1)
    turned = [pattern[texts, :, copy + step, at] for step in steps]
    one = [pattern[:, :, at[0], copy[0] + step] for step in steps]
    around = [pattern[texts, :, at, at + step] for step in steps]
    known = {
        "The query is the mask and the key is the copy; yours are exchanged.": turned,
        "All texts are read at the places of the first one; each has its own.": one,
        "These are the mask's own neighbors; those of the copy are wanted.": around,
    }
    known = {said: torch.stack(each, dim=-1).mean(dim=0) for said, each in known.items()}
    order = "The columns are in the wrong order: before the copy, the copy, after it."
    compared(found, wanted, known | {order: wanted.flip(1)}, within=1e-5)
    return "it measures induction in both directions: the copy may stand before or after the mask"


def _finds(answer):
    for seen, at, place in TEXTS:
        given = answer(list(seen), at)
        if given is ... or (given is None and (seen, at, place) == TEXTS[0]):
            raise NotAttempted
        if given != place:
            raise NotYet(
                f"{seen}, mask at {at}: the hidden token stood at {place}, yours is {given}."
            )
    return "you never looked at the hidden token: its neighbors are all there is"


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
    return f"{said}: it believes the neighbors"


CHECKS = {
    "19.1": _scores,
    "19.2": _finds,
    "19.3": _misleads,
}
