"""The exercises of notebook 24: attribute a logit difference, set three hypotheses apart, predict.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import re

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, near
from chapters.nb24_who_says_mary.templates import NAMES

NEAR = 1.0  # of 24.3, in logits


def attribute(writes, gain, u_io, u_s):
    """What each part adds to the logit difference: writes [part, d_model] -> [part]."""
    final = writes.sum(dim=0)  # the residual stream at the end
    sigma = final.square().mean().sqrt()
    return (writes / sigma * gain) @ (u_io - u_s)


PAGES = {"24.1": attribute}


def _rms(x):
    return x.square().mean(dim=-1, keepdim=True).sqrt()


# {what to say: what many write instead}
MISTAKES = {
    "The sign is turned: the indirect object's logit less the subject's.": (
        lambda writes, gain, u_io, u_s: attribute(writes, gain, u_s, u_io)
    ),
    "You divide each part by its own σ; the model has one, of the sum of all parts.": (
        lambda writes, gain, u_io, u_s: (writes / _rms(writes) * gain) @ (u_io - u_s)
    ),
    "The final norm is missing: divide by σ and multiply by the gain.": (
        lambda writes, gain, u_io, u_s: writes @ (u_io - u_s)
    ),
    "The division by σ is missing.": (
        lambda writes, gain, u_io, u_s: (writes * gain) @ (u_io - u_s)
    ),
    "The gain is missing.": (
        lambda writes, gain, u_io, u_s: writes / _rms(writes.sum(dim=0)) @ (u_io - u_s)
    ),
    "That is Mary's logit alone; take John's off.": (
        lambda writes, gain, u_io, u_s: attribute(writes, gain, u_io, 0 * u_s)
    ),
}


def _attribute(answer):
    trials = [
        (draw(parts, d_model, seed=1) + 0.4, *(draw(d_model, seed=i) for i in (2, 3, 4)))
        for parts, d_model in ((5, 12), (3, 7))
    ]
    against(attribute, trials, MISTAKES)(answer)
    return "your terms add up to the logit difference, so that no part is left out"


def people(prompt: str) -> dict[str, str | None]:
    """Whom each hypothesis names: who came twice, the last one, the subject of the last clause."""
    mentions = [word for word in re.findall(r"[A-Za-z]+", prompt) if word in NAMES]
    twice = [name for name in dict.fromkeys(mentions) if mentions.count(name) > 1]
    clause = re.split(r"[,.;]", prompt)[-1]
    subject = [word for word in re.findall(r"[A-Za-z]+", clause) if word in NAMES]
    return {
        "twice": twice[0] if len(twice) == 1 and mentions.count(twice[0]) == 2 else None,
        "last": mentions[-1] if mentions else None,
        "subject": subject[0] if subject else None,
    }


def _apart(answer):
    attempted(answer)
    if not isinstance(answer, str) or not answer.endswith(" to"):
        raise NotYet(f'One prompt is wanted, a text that ends in " to"; you give {answer!r}.')
    found = people(answer)
    if not any(found.values()):
        raise NotYet(
            f"There is no name that is one token here. Take some of: {', '.join(NAMES[:12])}."
        )
    if found["twice"] is None:
        raise NotYet("Exactly one name has to come twice, all others once.")
    if found["subject"] is None:
        raise NotYet(
            "The last clause (after the last comma or full stop) has no name, so no subject."
        )
    said = "; ".join(f"{what}: {name}" for what, name in found.items())
    if len(set(found.values())) < 3:
        raise NotYet(f"{said}. Two hypotheses still name the same person.")
    return f"{said}. Whatever a head lowers here, at most one hypothesis survives"


def _foretold(answer, truth):
    """Two numbers, in logits. truth: {question: number}."""
    near(answer, truth, NEAR)
    return "measured: " + ", ".join(f"{what} {x:+.1f}" for what, x in truth.items())


CHECKS = {"24.1": _attribute, "24.2": _apart, "24.3": _foretold}
