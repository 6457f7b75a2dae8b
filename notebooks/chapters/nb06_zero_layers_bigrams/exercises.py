"""The exercises of notebook 06: two letters ahead, a false word, the price of not looking back."""

import math

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import draw, read_guesses, read_numbers

LOYALTY = 0.9  # how often the planted word comes, of two
LEAST, RIVAL = 7, "friends"  # letters of the false word; the word that it must beat


def _two_ahead(answer):
    for n, seed in ((5, 0), (9, 1)):
        P = draw(n, n, seed=seed).softmax(-1)
        table = answer(P)
        if n != 5 and table is None:
            raise NotYet("Nothing was returned.")
        attempted(table)
        given = read_numbers(table, n, n, name=f"For a P of {n} signs")
        right = P @ P
        for each, flaw in (
            (right, "These are probabilities. Of which logits are they the softmax?"),
            (P.log(), "That is the table of the next sign, not of the one after it."),
            (2 * P.log(), "ln P twice squares each entry. Sum over the sign in between."),
            (right.T.log(), "Turned round: a row is the present sign, a column the later one."),
        ):
            if torch.allclose(given, each, atol=1e-4):
                raise NotYet(flaw)
        chances = given.softmax(-1)  # the same for every number added to a row
        if not torch.allclose(chances, right, atol=1e-4):
            off = int((chances - right).abs().sum(dim=1).argmax())
            got, wanted = ([round(x, 2) for x in row[off].tolist()] for row in (chances, right))
            raise NotYet(
                f"Row {off} of {n} signs: its softmax is {got}, two steps of P give {wanted}."
            )


def _false_word(word, cost, signs, known):
    if not isinstance(word, str) or not word:
        raise NotYet(f"A word is wanted, in quotation marks; got {word!r}.")
    strange = sorted(set(word) - set(signs[1:]))
    if strange:
        raise NotYet(
            f"{', '.join(map(repr, strange))}: the model knows the letters {signs[1:]} alone."
        )
    if word in known:
        raise NotYet(f"{word!r} is a word of the text.")
    if len(word) < LEAST:
        raise NotYet(f"It has {len(word)} letters; {LEAST} are wanted.")
    pairs = [word[i : i + 2] for i in range(len(word) - 1)]
    twice = next((pair for pair in pairs if pairs.count(pair) > 1), None)
    if twice:
        raise NotYet(f"{twice!r} comes twice: each pair only once, please.")
    own, other = cost(word), cost(RIVAL)
    said = f"{word!r} costs {own:.2f} nats a letter, {RIVAL!r} {other:.2f}"
    if own >= other:
        raise NotYet(f"{said}.")
    return said


def _two_losses(answer):
    wanted = {
        "no layers": math.log(2),
        "knows the verb": -LOYALTY * math.log(LOYALTY) - (1 - LOYALTY) * math.log(1 - LOYALTY),
    }
    for name, given in read_guesses(answer, wanted):
        if abs(given - wanted[name]) > 0.03:
            chances = "1/2 and 1/2" if name == "no layers" else f"{LOYALTY} and {1 - LOYALTY:.1f}"
            rule = "Weigh −ln p by how often each comes."
            raise NotYet(f"{name}: the two words have chances {chances}. {rule}")


CHECKS = {
    "06.1": _two_ahead,
    "06.2": _false_word,
    "06.3": _two_losses,
}
