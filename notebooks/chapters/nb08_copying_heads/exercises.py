"""The exercises of notebook 08: z against v, tables that mislead, a mean, a trap."""

import torch
from torch import Tensor

from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import against, draw, read_numbers

KEPT, LOST = 0.8, 0.35  # of 08.1: the probability of the name, with v patched and with z
LOW, HIGH = -0.5, 0.9  # of 08.2: the scores to reach
LEFT = 0.1  # of 08.4: the probability below which a word is not said any more


def _patched(model, texts, donors, head, what):
    """The logits of texts when one head has an activation, "v" or "z", that it has in donors."""
    name, mine = f"L{head.layer}.{what}", (slice(None), slice(None), head.head)
    _, cache = model.run_with_cache(donors)

    def patch(old):
        new = old.clone()
        new[mine] = cache[name][mine]
        return new

    return model(texts, edits={name: patch})


def _one_word_changed(answer, model, text) -> tuple[Tensor, Tensor, int]:
    """The ids of a text [1, pos] and of an answer that differs in one word, and which word."""
    words, given = text.split(), answer.split() if isinstance(answer, str) else []
    if len(given) != len(words):
        raise NotYet(f"A text of {len(words)} words is wanted, got {answer!r}.")
    ids, donor = (model.tokenizer.encode(each, bos=True)[None] for each in (text, answer))
    if model.tokenizer.token_strings(donor[0, 1:]) != given:
        raise NotYet("Your donor has a word that is not of this language.")
    changed = [i for i, (a, b) in enumerate(zip(given, words, strict=True)) if a != b]
    if len(changed) != 1:
        raise NotYet(f"One word of the text is to be exchanged; you exchanged {len(changed)}.")
    return ids, donor, changed[0]


def _z_and_not_v(answer, model, text, head):
    """answer: the donor as words; text: the words that the model reads; the first is the name."""
    ids, donor, changed = _one_word_changed(answer, model, text)
    with_v, with_z = (
        _patched(model, ids, donor, head, what)[0, -1].softmax(dim=-1)[ids[0, 1]].item()
        for what in ("v", "z")
    )
    name = text.split()[0]
    measured = f"{name} has {with_v:.2f} with v patched and {with_z:.2f} with z patched"
    if changed == 0:
        raise NotYet(f"You exchanged what {head} carries; {measured}. Leave the name alone.")
    if with_v < KEPT or with_z > LOST:
        raise NotYet(f"{measured}. In your donor {head} still looks at {name}: how do you move it?")
    return f"{measured}: z brings along where the head looks in the donor"


def _tables_that_mislead(low, high):
    tables = [read_numbers(each, 4, 4, name=name) for each, name in ((low, "low"), (high, "high"))]
    scores, raised = [], []
    for name, table in zip(("low", "high"), tables, strict=True):
        if not table.any():
            raise NotYet(f"{name}: all numbers are 0, so that there is nothing to divide by.")
        values = torch.linalg.eigvals(table.double())
        scores.append((values.real.sum() / values.abs().sum()).item())
        others = table.masked_fill(torch.eye(4, dtype=torch.bool), -torch.inf).amax(dim=1)
        raised.append(
            (int((table.diagonal() > others).sum()), int((table.diagonal() < others).sum()))
        )
    if raised[0][0] < 3:
        raise NotYet(f"low: {raised[0][0]} of the four words raise themselves most; make it three.")
    if scores[0] > LOW:
        raise NotYet(
            f"low: the score is {scores[0]:+.2f}. What can the fourth word do to a *sum* of four?"
        )
    if raised[1][1] < 3:
        raise NotYet(
            f"high: {raised[1][1]} of the four words raise another more than themselves; make it "
            "three. Which table always says the same word?"
        )
    if scores[1] < HIGH:
        raise NotYet(
            f"high: the score is {scores[1]:+.2f}. Only one eigenvalue needs to be left, if all "
            "rows are multiples of one row."
        )
    return f"scores {scores[0]:+.2f} and {scores[1]:+.2f}"


def averaged(v, here):
    """Values [text, pos, d_head] of one head that are the same at all places in `here`."""
    v = v.clone()
    v[here] = v[here].mean(dim=0)
    return v


def _filled(v, here, value):
    v = v.clone()
    v[here] = value
    return v


WRONG_AVERAGES = {
    "These are the values as they were.": lambda v, here: v,
    "You put zeros there. The head should still carry what all codes have in common: their mean.": (
        lambda v, here: _filled(v, here, 0)
    ),
    "Your mean is of all places; take it over the places in `here` only.": (
        lambda v, here: _filled(v, here, v.mean(dim=(0, 1)))
    ),
    "You put one number there. The mean is a vector: average over places, not over d_head.": (
        lambda v, here: _filled(v, here, v[here].mean())
    ),
    "All values are exchanged; those outside `here` should stay.": (
        lambda v, here: v[here].mean(dim=0).expand_as(v)
    ),
    "You exchanged the places outside `here`.": lambda v, here: averaged(v, ~here),
}


def _averaged(answer):
    trials = []
    for s in (1, 2):
        v = draw(3, 5, 4, seed=s)
        trials.append((v, draw(3, 5, seed=s + 7) > 0))
    against(averaged, trials, WRONG_AVERAGES)(lambda v, here: answer(v.clone(), here.clone()))
    v, here = trials[0]
    before = v.clone()
    answer(v, here)
    if not torch.equal(v, before):
        raise NotYet("Your function changes the values that it was given: work on `v.clone()`.")
    return "the head still carries “a code”, but not which one"


def _crossed_off(answer, model, text, head):
    """answer: the donor as words; text: the words that the model reads."""
    ids, donor, changed = _one_word_changed(answer, model, text)
    words = text.split()
    due = words[words.index(words[-1]) + 1]
    logits = _patched(model, ids, donor, head, "v")[0, -1]
    left = logits.softmax(dim=-1)[model.tokenizer.encode(due)[0]].item()
    if left < LEFT:
        (best,) = model.tokenizer.token_strings(logits.argmax()[None])
        return f"{due} falls to {left:.2f}, the model says {best}: {head} crosses off {due}"
    pattern = model.run_with_cache(ids)[1][f"L{head.layer}.pattern"][0, head.head]
    attended = pattern[-1, changed + 1]  # BOS comes first
    raise NotYet(
        f"The model still gives {due} a probability of {left:.2f}. From the last word {head} puts "
        f"{attended:.2f} of its attention where you changed the text. What does it lower there?"
    )


CHECKS = {
    "08.1": _z_and_not_v,
    "08.2": _tables_that_mislead,
    "08.3": _averaged,
    "08.4": _crossed_off,
}
PAGES = {"08.3": averaged}
