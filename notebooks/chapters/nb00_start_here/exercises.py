"""The exercises of notebook 00: a rule of copying, an induction score, a text, a better rule.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, read_text
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


WRONG_RULES = {  # what to say: what many write instead
    "You take the first earlier place; take the last one.": (
        lambda tokens: [*tokens, -1][tokens.index(tokens[-1]) + 1]
    ),
    "You return the token itself; return the one that came after it.": lambda tokens: tokens[-1],
}
WRONG_SCORES = {  # of a pattern p and segments of n: the diagonal -k has the keys k back
    "This is the sum; take the mean.": lambda p, n: p.diagonal(1 - n)[2:].sum(),
    "This is the weight on the twin itself; take the token after it.": (
        lambda p, n: p.diagonal(-n)[1:].mean()
    ),
    "This is the weight on the token before the twin; add 1, do not subtract it.": (
        lambda p, n: p.diagonal(-n - 1).mean()
    ),
    "Your last row is forgotten: the second copy ends at 2 * length, and `arange` stops before "
    "its end.": lambda p, n: p.diagonal(1 - n)[2:-1].mean(),
    "This is the weight on the token just before; the twin stands `length` back.": (
        lambda p, n: p.diagonal(-1)[n:].mean()
    ),
    "`pattern[query][:, key]` takes every query with every key: `pattern[query, key]` takes them "
    "in pairs.": lambda p, n: p[n + 1 :, 2 : n + 2].mean(),
    "Rows are queries and columns are keys: yours are exchanged.": (
        lambda p, n: p.diagonal(n - 1)[2:].mean()
    ),
    "The second copy begins at length + 1, since the marker stands at 0.": (
        lambda p, n: p.diagonal(1 - n)[1:-1].mean()
    ),
    "Your diagonal begins before the second copy: drop its first two entries.": (
        lambda p, n: p.diagonal(1 - n).mean()
    ),
    "This diagonal leads to the twin itself, and begins too early: take -(length - 1), without "
    "its first two entries.": lambda p, n: p.diagonal(-n).mean(),
}


def _misleading(text, model, names):
    text = read_text(text)
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
    cost = f"{where} costs {harm[worst]:.1f} nats more with the two heads than without"
    p = model(tokens[None])[0, worst].softmax(dim=-1)
    expected = repr(model.tokenizer.token_strings(p.argmax()[None])[0])
    if harm[worst] < LEAST_HARM:
        raise NotYet(f"At most: {cost}.")
    return f"{cost}; with them the model expected {expected}, with probability {p.max():.2f}"


def _better_rule(answer, model, names, friend):
    """How often the rule is right about the tokens of second mentions, and the model."""
    mentions = measure.second_mentions(model, names, friend)
    answers = [attempted(answer(list(before))) for before, _, _ in mentions]
    right = sum(given == token for given, (_, token, _) in zip(answers, mentions, strict=True))
    none = sum(given == -1 for given in answers)
    best = sum(choice == token for _, token, choice in mentions)
    counts = f"your rule is right about {right} of {len(mentions)} tokens, the model about {best}"
    if right < LEAST_RIGHT * len(mentions):
        hint = "Where several earlier places fit, which one fits best?"
        if none:
            hint = f"For {none} it says -1: there, do as the first rule does."
        raise NotYet(f"So far {counts}. {hint}")
    missed = [copy_rule(before) != token for before, token, _ in mentions]
    whole, without, other = (
        measure.right_where(missed, model, names, friend, heads)
        for heads in ([], [TWO_BACK], [NOT_TWO_BACK])
    )
    return (
        f"{counts}. The model does it, too: of the {sum(missed)} tokens that the first rule misses "
        f"it gets {whole}, without {TWO_BACK}, which attends two back, {without}, and without "
        f"{NOT_TWO_BACK} {other}"
    )


CHECKS = {
    "00.1": against(
        copy_rule,
        [([3, 5, 9, 3, 7, 3],), ([4, 4],), ([1, 2, 3],), ([6],), ([8, 2, 8, 1, 2],)],
        WRONG_RULES,
        solved="this is what an induction head does; you wrote it in a few lines",
    ),
    "00.2": against(
        induction_score,
        [(draw(13, 13).softmax(dim=-1), 6), (draw(7, 7, seed=1).softmax(dim=-1), 3)],
        WRONG_SCORES,
        solved="you can now find induction heads in any model that shows you its attention",
    ),
    "00.3": _misleading,
    "00.4": _better_rule,
}
