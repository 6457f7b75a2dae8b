"""The exercises of notebook 13: each answer is tried out, and what is still wrong is said."""

import math
import numbers

import torch

from aot_helpers.studies import torus

WORDS = "ABCDE"
COLORS = {  # of the words on the map, as a reader may call them
    "blue": "A", "yellow": "B", "gold": "B", "green": "C", "teal": "C", "red": "D", "orange": "D",
    "violet": "E", "purple": "E", "lilac": "E", "pink": "E",
}  # fmt: skip


def _letters(answer) -> str:
    """The words that an answer names: "AA", "a a", ("A", "A") and ["a", "a"] are all "AA"."""
    parts = answer if isinstance(answer, tuple | list) else [answer]
    return "".join(each for each in "".join(map(str, parts)).upper() if each.isalnum())


def _center(pair, color, theta, opinion):
    if pair is ... or color is ...:
        return None
    away = [min(float(angle), 2 * math.pi - float(angle)) for angle in theta]
    nearest = WORDS[away.index(min(away))]
    named, said = _letters(pair), COLORS.get(str(color).strip().lower(), _letters(color))
    if len(named) != 2 or not set(named) <= set(WORDS):
        return f'The dot is a pair of words, such as "CE", not {pair!r}.'
    if said not in tuple(WORDS):
        return f'The color is a word or its color, such as "D" or "red", not {color!r}.'
    if said != WORDS[int(opinion(torch.zeros(1), torch.zeros(1)).argmax())]:
        return "The color is not right: which single point are the four corners?"
    return "" if named == nearest * 2 else f"{named} is not the dot nearest to the corners."


def _breaks(word, degrees, facts_lost):
    if word is ... or degrees is ...:
        return None
    if _letters(word) not in tuple(WORDS):
        return f"The word is one of A, B, C, D, E, not {word!r}."
    if not isinstance(degrees, numbers.Real) or not float(degrees).is_integer():
        return f"The turn is a whole number of degrees, such as 25 or -25, not {degrees!r}."
    degrees = int(degrees)
    lost = facts_lost(WORDS.index(_letters(word)), degrees)
    if not lost:
        return f"After {degrees} degrees of {_letters(word)} all facts are still known."
    for smaller in range(1, abs(degrees)):
        for k, sign in ((k, sign) for k in range(5) for sign in (1, -1)):
            if facts_lost(k, sign * smaller):
                return f"That breaks {', '.join(lost)}, but a smaller turn breaks something, too."
    return ""


def _favorite(favorite, net):
    theta2 = 7 * torch.rand(40, generator=torch.Generator().manual_seed(0))
    places = torch.arange(360).repeat_interleave(40) * math.pi / 180  # every degree, for each θ2
    points = (torus.circle(each)[None] for each in (places, theta2.repeat(360)))
    best = torus.attend(net, *points).scores[0].view(-1, 360, 40).argmax(dim=1)  # [head, place]
    for h, (Q, K) in enumerate(zip(net.W_Q[0], net.W_K[0], strict=True)):
        yours = favorite(theta2, Q, K)
        if yours is None or yours is ...:
            return None
        if not isinstance(yours, torch.Tensor) or yours.shape != theta2.shape:
            shape = tuple(getattr(yours, "shape", ()))
            return f"The angles have the shape {shape}, not {tuple(theta2.shape)}."
        off, least, radians = (
            _apart(angle, best[h]) for angle in (yours.rad2deg(), yours.rad2deg() + 180, yours)
        )
        if off <= 1:
            continue
        if least <= 1:
            return "There the head looks at the first word least."
        if radians <= 1:
            return "These are degrees; give radians."
        return (
            f"Head {h} is off by up to {off:.0f} degrees. Does the second place know its position?"
        )
    return ""


def _apart(degrees, truth) -> float:
    """The largest angle between two lists of directions, in degrees, 0 to 180."""
    return ((degrees - truth + 180).remainder(360) - 180).abs().max().item()


CHECKS = {"13.1": _center, "13.2": _breaks, "13.3": _favorite}
