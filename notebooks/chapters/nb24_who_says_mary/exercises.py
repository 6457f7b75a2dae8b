"""The exercises of notebook 24: attribute a logit difference, set three hypotheses apart, predict.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import re

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import draw, read_guesses
from chapters.names.templates import NAMES

NEAR = 1.0  # of 24.3, in logits


def attribute(writes, gain, u_io, u_s):
    """What each part adds to the logit difference: writes [part, d_model] -> [part]."""
    final = writes.sum(dim=0)  # the residual stream at the end
    sigma = final.square().mean().sqrt()
    return (writes / sigma * gain) @ (u_io - u_s)


PAGES = {"24.1": attribute}


def _mistakes(writes, gain, u_io, u_s):
    """{what to say: numbers that many get instead of the right ones}."""
    final, toward = writes.sum(dim=0), u_io - u_s
    sigma, own = (x.square().mean(dim=-1, keepdim=True).sqrt() for x in (final, writes))
    return {
        "The sign is turned: the indirect object's logit less the subject's.": -attribute(
            writes, gain, u_io, u_s
        ),
        "You divide each part by its own σ; the model has one, of the sum of all parts.": (
            (writes / own * gain) @ toward
        ),
        "The final norm is missing: divide by σ and multiply by the gain.": writes @ toward,
        "The division by σ is missing.": (writes * gain) @ toward,
        "The gain is missing.": (writes / sigma) @ toward,
        "That is Mary's logit alone; take John's off.": (writes / sigma * gain) @ u_io,
        "RMSNorm does not center: σ is the root of the mean square, not the standard deviation.": (
            writes / final.std(correction=0) * gain
        )
        @ toward,
        "You take the length of the stream; σ is the root of the MEAN square.": (
            writes / final.norm() * gain
        )
        @ toward,
    }


def _attribute(answer):
    for parts, d_model in ((5, 12), (3, 7)):
        given = draw(parts, d_model, seed=1) + 0.4, *(draw(d_model, seed=i) for i in (2, 3, 4))
        right, found = attribute(*given), answer(*(x.clone() for x in given))
        if not (parts == 5) and found is None:
            raise NotYet("Nothing was returned.")
        attempted(found)
        if not isinstance(found, torch.Tensor) or found.shape != right.shape:
            shape = list(getattr(found, "shape", [])) or type(found).__name__
            raise NotYet(
                f"For writes {[parts, d_model]} a tensor {[parts]} is wanted; yours: {shape}."
            )
        if torch.allclose(found, right, atol=1e-4):
            continue
        for said, wrong in _mistakes(*given).items():
            if torch.allclose(found, wrong, atol=1e-4):
                raise NotYet(said)
        gap = (found - right).abs().max()
        raise NotYet(f"The shape is right, the numbers are off by up to {gap:.2f}.")
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
    for what, number in read_guesses(answer, truth):
        if abs(number - truth[what]) > NEAR:
            side = "more" if truth[what] > number else "less"
            raise NotYet(
                f"{what}: it is {side} than {number:.1f}. Which rows of the figure are like it?"
            )
    said = ", ".join(f"{what} {x:+.1f}" for what, x in truth.items())
    return f"measured: {said}"


CHECKS = {"24.1": _attribute, "24.2": _apart, "24.3": _foretold}
