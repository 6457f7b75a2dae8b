"""The exercises of notebook 00: a rule of copying, an induction score, a text, a better rule.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ablate
from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import draw
from chapters.nb00_start_here import measure as first_look

INDUCTION = [Head(1, 0), Head(1, 2)]  # of stories-2l
MOST_TOKENS, LEAST_HARM = 60, 3.0  # of 00.3; the harm in nats
TWO_BACK = Head(0, 0)  # of stories-2l: attends to the token two back
LEAST_RIGHT = 0.95  # of 00.4: of the tokens of a second mention


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
    cases = ([3, 5, 9, 3, 7, 3], [4, 4], [1, 2, 3], [6], [8, 2, 8, 1, 2])
    given = [answer(list(tokens)) for tokens in cases]
    if all(each is None or each is ... for each in given):
        raise NotAttempted
    for tokens, got in zip(cases, given, strict=True):
        expected = copy_rule(tokens)
        if isinstance(got, Tensor) and got.numel() == 1:
            got = got.item()
        if got == expected:
            continue
        seen = f"For {tokens} the answer is {expected}, yours is {got}."
        if expected == -1:
            raise NotYet(f"{seen} {tokens[-1]} does not stand earlier: return -1.")
        if got == tokens[tokens.index(tokens[-1]) + 1]:
            raise NotYet(f"{seen} You take the first earlier place; take the last one.")
        if got == tokens[-1]:
            raise NotYet(f"{seen} You return the token itself; return the one that came after it.")
        if got is None:
            raise NotYet(f"{seen} Does every way through your function end in a `return`?")
        raise NotYet(seen)
    return "this is what an induction head does; you wrote it in a few lines"


def _induction_score(answer):
    for length, seed in ((6, 0), (3, 1)):
        size = 2 * length + 1
        pattern = draw(size, size, seed=seed).softmax(dim=-1)
        given = attempted(answer(pattern, length))
        if isinstance(given, Tensor) and given.numel() > 1:
            raise NotYet(
                f"One number is wanted, the mean; yours has the shape {tuple(given.shape)}."
            )
        query = torch.arange(length + 1, size)
        key = query - length  # the twin
        mistakes = {
            "": pattern[query, key + 1].mean(),
            "This is the weight on the twin itself; take the token after it.": (
                pattern[query, key].mean()
            ),
            "This is the weight on the token before the twin; add 1, do not subtract it.": (
                pattern[query, key - 1].mean()
            ),
            "Rows are queries and columns are keys: yours are exchanged.": (
                pattern[key + 1, query].mean()
            ),
            "This is the sum; take the mean.": pattern[query, key + 1].sum(),
            "The second copy begins at length + 1, since the marker stands at 0.": (
                pattern[query - 1, key].mean()
            ),
        }
        gaps = {said: abs(float(given) - float(value)) for said, value in mistakes.items()}
        best = min(gaps, key=gaps.get)
        if gaps[best] > 1e-5:
            right = float(mistakes[""])
            raise NotYet(
                f"For segments of {length} it should be {right:.4f}; yours is {float(given):.4f}."
            )
        if best:
            raise NotYet(best)
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
    without = first_look.losses(model, tokens, ablate(model, INDUCTION))
    harm = first_look.losses(model, tokens) - without
    worst = int(harm.argmax())
    where = repr(model.tokenizer.token_strings(tokens[[worst + 1]])[0])
    said = f"{where} costs {harm[worst]:.1f} nats more with the two heads than without"
    if harm[worst] < LEAST_HARM:
        raise NotYet(f"At most: {said}.")
    return f"{said}: a head that copies cannot know when to stop"


def _better_rule(answer, model, names, friend):
    """How often the rule is right about the tokens of second mentions, and the model."""
    right = {"rule": 0, "model": 0, "all": 0, "hard": 0, "hard, model": 0, "hard, without": 0}
    without = ablate(model, [TWO_BACK])
    for name in names:
        tokens = first_look.encode(model, first_look.sentence(name, friend))
        choice, lesser = (model(tokens[None], edits=e)[0].argmax(-1) for e in (None, without))
        _, second = first_look.mentions(model, tokens, name)
        for place in second[1:].tolist():
            before, came = tokens[:place].tolist(), tokens[place].item()
            given = attempted(answer(list(before)))
            right["rule"] += int(given == came)
            right["model"] += int(choice[place - 1] == came)
            right["all"] += 1
            if copy_rule(before) != came:
                right["hard"] += 1
                right["hard, model"] += int(choice[place - 1] == came)
                right["hard, without"] += int(lesser[place - 1] == came)
    found = f"your rule is right about {right['rule']} of {right['all']} tokens, the model about "
    found += f"{right['model']}"
    if right["rule"] < LEAST_RIGHT * right["all"]:
        raise NotYet(f"So far {found}. Where several earlier places fit, which one fits best?")
    return (
        f"{found}. Of the {right['hard']} tokens on which one token is not enough the model gets "
        f"{right['hard, model']}, and {right['hard, without']} without L0H0, which attends two back"
    )


CHECKS = {
    "00.1": _copy_rule,
    "00.2": _induction_score,
    "00.3": _misleading,
    "00.4": _better_rule,
}
