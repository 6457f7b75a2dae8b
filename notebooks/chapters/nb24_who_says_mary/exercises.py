"""The exercises of notebook 24: predict what donors cost, set three explanations apart, predict."""

import re

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import near, read_guesses
from chapters.nb24_who_says_mary.measure import NAMES

CLOSE, NEAR = 0.7, 1.0  # of 24.1 and of 24.3, in logits
PAGES = {}


def _donors(answer, truth, writes):
    """What the lead loses by each donor. writes: what the head itself adds to the lead."""
    given = dict(read_guesses(answer, truth))
    same, other, swapped = (given[donor] for donor in truth)  # in the order of the table
    if abs(same) > CLOSE:
        raise NotYet("same names: whom does the head lower in this donor?")
    if abs(other - 2 * writes) < CLOSE:
        raise NotYet("other names: Tom is lowered there, and he counts for neither name here.")
    if abs(swapped - writes) < CLOSE:
        raise NotYet("roles swapped: John is no longer lowered, but that is half of it.")
    if abs(swapped) < CLOSE:
        raise NotYet("roles swapped: whom does the head lower in this donor, and whom not?")
    near(answer, truth, CLOSE)
    return "measured: " + ", ".join(f"{what} {x:.2f}" for what, x in truth.items())


def people(prompt: str) -> dict[str, str | None]:
    """Whom each explanation names: who came twice, the last one, the subject of the last clause."""
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
        raise NotYet(f"{said}. Two explanations still name the same person.")
    return f"{said}. Whomever a head lowers here, at most one explanation survives"


def _predicted(answer, truth):
    """Two numbers, in logits. truth: {question: number}."""
    (first, together), (second, held) = read_guesses(answer, truth)
    if abs(held) < NEAR:
        raise NotYet(
            f"{second}: so it is in a chain, where holding the second link stops the first. Do the "
            "early heads tell L23H3 whom to lower?"
        )
    if together < truth[first] - 2 * NEAR:
        raise NotYet(f"{first}: so it is in a chain. What do two separate routes cost together?")
    near(answer, truth, NEAR)
    return "measured: " + ", ".join(f"{what} {x:+.1f}" for what, x in truth.items())


CHECKS = {"24.1": _donors, "24.2": _apart, "24.3": _predicted}
