"""The exercises of notebook 00: a rule of copying, an induction score, a text, a better rule.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, read_numbers
from chapters.nb00_start_here import measure

INDUCTION = [Head(1, 0), Head(1, 2)]  # of stories-2l
TWO_BACK, NOT_TWO_BACK = Head(0, 0), Head(0, 1)  # copying loses as much without either
MOST_TOKENS, LEAST_HARM = 60, 3.0  # of 00.3; the harm in nats
LEAST_RIGHT = 500 / 528  # of 00.4: of the tokens of a second mention


def copy_rule(tokens):
    """What came after the last earlier place of the final token, or -1: a list -> a number."""
    for i in range(len(tokens) - 2, -1, -1):
        if tokens[i] == tokens[-1]:
            return tokens[i + 1]
    return -1


def induction_score(pattern, length):
    """Mean attention weight from the second copy to the token after the first copy's twin.

    pattern: [1 + 2 * length, 1 + 2 * length], of one marker and a segment written twice.
    """
    query = torch.arange(length + 1, 2 * length + 1)
    return pattern[query, query - length + 1].mean()


PAGES = {"00.1": copy_rule, "00.2": induction_score}


def _copy_rule(answer):
    mistakes = {
        "You take the first earlier place; take the last one.": (
            lambda tokens: [*tokens, -1][tokens.index(tokens[-1]) + 1]
        ),
        "You return the token itself; return the one that came after it.": (
            lambda tokens: tokens[-1]
        ),
    }
    trials = [([3, 5, 9, 3, 7, 3],), ([4, 4],), ([1, 2, 3],), ([6],), ([8, 2, 8, 1, 2],)]
    against(copy_rule, trials, mistakes)(lambda tokens: answer(list(tokens)))
    return "this is what an induction head does; you wrote it in a few lines"


def _induction_score(answer):
    for length, seed in ((6, 0), (3, 1)):
        pattern = draw(2 * length + 1, 2 * length + 1, seed=seed).softmax(dim=-1)
        query = torch.arange(length + 1, 2 * length + 1)
        twin = query - length
        early = torch.arange(length - 1, 2 * length + 1)  # two rows of the first copy
        short = query[:-1]  # without the last row
        mistakes = {
            "This is the weight on the twin itself; take the token after it.": (query, twin),
            "This is the weight on the token before the twin; add 1, do not subtract it.": (
                (query, twin - 1)
            ),
            "Your last row is forgotten: the second copy ends at 2 * length, and `arange` stops "
            "before its end.": (short, short - length + 1),
            "This is the weight on the token just before; the twin stands `length` back.": (
                (query, query - 1)
            ),
            "`pattern[query][:, key]` takes every query with every key: `pattern[query, key]` "
            "takes them in pairs.": (query[:, None], twin + 1),
            "Rows are queries and columns are keys: yours are exchanged.": (twin + 1, query),
            "The second copy begins at length + 1, since the marker stands at 0.": (
                (query - 1, twin)
            ),
            "Your diagonal begins before the second copy: drop its first two entries.": (
                (early, early - length + 1)
            ),
            "This diagonal leads to the twin itself, and begins too early: take "
            "-(length - 1), without its first two entries.": (early[1:], early[1:] - length),
        }
        given = read_numbers(attempted(answer(pattern, length)), name="The mean")
        expected = induction_score(pattern, length)
        if abs(given - expected) < 1e-5:
            continue
        if abs(given - length * expected) < 1e-5:
            raise NotYet("This is the sum; take the mean.")
        for said, places in mistakes.items():
            if abs(given - pattern[places].mean()) < 1e-5:
                raise NotYet(said)
        raise NotYet(f"For segments of {length} it should be {expected:.4f}; yours is {given:.4f}.")
    return "you can now find induction heads in any model that shows you its attention"


def _misleading(text, model, names):
    if not isinstance(text, str) or not text.strip():
        raise NotYet(f"A text is wanted, in quotation marks; got {text!r}.")
    for name in names:
        if name in text:
            raise NotYet(f"{name!r} is in it: use something else.")
    tokens = model.tokenizer.encode(text, bos=True)
    if len(tokens) > MOST_TOKENS + 1:
        raise NotYet(f"It has {len(tokens) - 1} tokens; at most {MOST_TOKENS} are allowed.")
    if len(tokens) < 3:
        raise NotYet("It is too short for anything to come twice.")
    without = measure.losses(model, tokens, ablate(model, INDUCTION))
    harm = measure.losses(model, tokens) - without
    worst = int(harm.argmax())
    where = repr(model.tokenizer.token_strings(tokens[[worst + 1]])[0])
    said = f"{where} costs {harm[worst]:.1f} nats more with the two heads than without"
    p = model(tokens[None])[0, worst].softmax(dim=-1)
    expected = repr(model.tokenizer.token_strings(p.argmax()[None])[0])
    if harm[worst] < LEAST_HARM:
        raise NotYet(f"At most: {said}.")
    return f"{said}; with them the model expected {expected}, with probability {p.max():.2f}"


def _better_rule(answer, model, names, friend):
    """How often the rule is right about the tokens of second mentions, and the model."""
    found = measure.second_mentions(model, names, friend)
    answers = [attempted(answer(list(before))) for before, _, _ in found]
    right = sum(given == token for given, (_, token, _) in zip(answers, found, strict=True))
    none = sum(given == -1 for given in answers)
    best = sum(choice == token for _, token, choice in found)
    said = f"your rule is right about {right} of {len(found)} tokens, the model about {best}"
    if right < LEAST_RIGHT * len(found) and none:
        raise NotYet(f"So far {said}. For {none} it says -1: there, do as the first rule does.")
    if right < LEAST_RIGHT * len(found):
        raise NotYet(f"So far {said}. Where several earlier places fit, which one fits best?")
    missed = [copy_rule(before) != token for before, token, _ in found]
    whole, without, other = (
        measure.right_where(missed, model, names, friend, heads)
        for heads in ([], [TWO_BACK], [NOT_TWO_BACK])
    )
    return (
        f"{said}. The model does it, too: of the {sum(missed)} tokens that the first rule misses "
        f"it gets {whole}, without {TWO_BACK}, which attends two back, {without}, and without "
        f"{NOT_TWO_BACK} {other}"
    )


CHECKS = {"00.1": _copy_rule, "00.2": _induction_score, "00.3": _misleading, "00.4": _better_rule}
