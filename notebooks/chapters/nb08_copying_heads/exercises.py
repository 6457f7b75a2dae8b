"""The exercises of notebook 08: z against v, tables that mislead, lists that go wrong, a trap."""

import torch
from torch import Tensor

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import read_entries, read_numbers

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


def _score(name, table):
    """The copying score of a table whose rows are taken less their means, as in the tour."""
    table = table.double()
    centered = table - table.mean(dim=1, keepdim=True)
    values = torch.linalg.eigvals(centered)
    if values.abs().sum() <= 1e-9 * table.abs().max():
        raise NotYet(
            f"{name}: with each row less its mean all eigenvalues are 0, and 0 / 0 is no score. "
            "The sum of the diagonal has to differ from 0: say a word louder in its own row."
        )
    return (values.real.sum() / values.abs().sum()).item()


def _tables_that_mislead(low, high):
    tables = [read_numbers(each, 4, 4, name=name) for each, name in ((low, "low"), (high, "high"))]
    raised = []
    for table in tables:
        others = table.masked_fill(torch.eye(4, dtype=torch.bool), -torch.inf).amax(dim=1)
        raised.append(
            (int((table.diagonal() > others).sum()), int((table.diagonal() < others).sum()))
        )
    if raised[0][0] < 3:
        raise NotYet(f"low: {raised[0][0]} of the four words raise themselves most; make it three.")
    if (low_score := _score("low", tables[0])) > LOW:
        raise NotYet(
            f"low: the score is {low_score:+.2f}. What can the fourth word do to a *sum* of four?"
        )
    if raised[1][1] < 3:
        raise NotYet(
            f"high: {raised[1][1]} of the four words raise another more than themselves; make it "
            "three. Which table always says the same word?"
        )
    if (high_score := _score("high", tables[1])) < HIGH:
        raise NotYet(
            f"high: the score is {high_score:+.2f}. Only one eigenvalue needs to be left, if all "
            "rows are multiples of one row."
        )
    return f"scores {low_score:+.2f} and {high_score:+.2f}"


def _predictions(answer, truth):
    """answer, truth: {codes in the list: the word that the model predicts}."""
    wrong = {
        n: attempted(word)
        for n, word in read_entries(answer, truth).items()
        if attempted(word) != truth[n]
    }
    if not wrong:
        return "where the farthest code in reach has had its turn, the model goes back to it"
    if "le" in wrong.values():
        raise NotYet("le is the present code, and no code follows itself: who lowers it?")
    for n, word in wrong.items():
        if word == "ki":
            raise NotYet(
                f"list of {n}: ki is not the farthest code within three to six words back. Which "
                "one is, and who lowers it now?"
            )
    n, word = next(iter(wrong.items()))
    raise NotYet(
        f"list of {n}: how many words back does {word} stand? The others look three to six words "
        "back, and raise the farthest code most."
    )


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
    "08.3": _predictions,
    "08.4": _crossed_off,
}
