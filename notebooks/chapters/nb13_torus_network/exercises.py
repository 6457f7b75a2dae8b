"""The exercises of notebook 13: each answer is tried out, and what is still wrong is said."""

import math
import numbers

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from chapters.torus import networks as torus

WORDS = "ABCDE"
COLORS = {  # of the words on the map, as a reader may call them
    "blue": "A", "yellow": "B", "gold": "B", "green": "C", "teal": "C", "red": "D", "orange": "D",
    "violet": "E", "purple": "E", "lilac": "E", "pink": "E",
}  # fmt: skip
EXACT = 0.002  # degrees by which float32 may miss an angle


def _letters(answer) -> str:
    """The words that an answer names: "AA", "a a", ("A", "A") and ["a", "a"] are all "AA"."""
    parts = answer if isinstance(answer, tuple | list) else [answer]
    return "".join(each for each in "".join(map(str, parts)).upper() if each.isalnum())


def _center(pair, color, theta, opinion):
    if pair is ... or color is ...:
        raise NotAttempted
    away = [min(float(angle), 2 * math.pi - float(angle)) for angle in theta]
    nearest = WORDS[away.index(min(away))]
    named, said = _letters(pair), COLORS.get(str(color).strip().lower(), _letters(color))
    if len(named) != 2 or not set(named) <= set(WORDS):
        raise NotYet(f'The dot is a pair of words, such as "CE", not {pair!r}.')
    if said not in tuple(WORDS):
        raise NotYet(f'The color is a word or its color, such as "D" or "red", not {color!r}.')
    if said != WORDS[int(opinion(torch.zeros(1), torch.zeros(1)).argmax())]:
        raise NotYet("The color is not right: which single point are the four corners?")
    if named != nearest * 2:
        raise NotYet(f"{named} is not the dot nearest to the corners.")


def _breaks(answer, facts_lost):
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        raise NotYet(f'Give a head, a word and degrees, such as (1, "D", -25), not {answer!r}.')
    head, *turn = answer
    if head is ...:
        raise NotAttempted
    if isinstance(head, bool) or head not in (0, 1, 2):
        raise NotYet(f"The head is 0, 1 or 2, not {head!r}.")
    costs = [len(facts_lost(ablated=h)) for h in range(3)]
    if costs[int(head)] < max(costs):
        raise NotYet(f"Head {head} costs {costs[int(head)]} facts, another one more.")
    if any(part is ... for part in turn):
        raise NotYet(
            f"Head {head} is right, it costs {max(costs)} facts. Now the word and its turn."
        )
    _thread(*turn, facts_lost)


def _thread(word, degrees, facts_lost):
    if _letters(word) not in tuple(WORDS):
        raise NotYet(f"The word is one of A, B, C, D, E, not {word!r}.")
    if not isinstance(degrees, numbers.Real) or not float(degrees).is_integer():
        raise NotYet(f"The turn is a whole number of degrees, such as 25 or -25, not {degrees!r}.")
    degrees = int(degrees)
    lost = facts_lost(WORDS.index(_letters(word)), degrees)
    if not lost:
        raise NotYet(f"After {degrees} degrees of {_letters(word)} all facts are still known.")
    for smaller in range(1, abs(degrees)):
        for k, sign in ((k, sign) for k in range(5) for sign in (1, -1)):
            if facts_lost(k, sign * smaller):
                said = f"That breaks {', '.join(lost)}, but a smaller turn breaks something, too."
                raise NotYet(said)


def _favorite(favorite, net):
    theta2 = 7 * torch.rand(40, generator=torch.Generator().manual_seed(0))
    best = _best(net.double(), theta2.double())
    for h, (Q, K) in enumerate(zip(net.W_Q[0], net.W_K[0], strict=True)):
        yours = attempted(favorite(theta2, Q, K))
        if not isinstance(yours, torch.Tensor) or yours.shape != theta2.shape:
            shape = tuple(getattr(yours, "shape", ()))
            raise NotYet(f"The angles have the shape {shape}, not {tuple(theta2.shape)}.")
        off = _apart(yours, best[h])
        if off <= EXACT:
            continue
        if off <= 5:
            raise NotYet(
                f"Close, but off by up to {off:.2g} degrees, as a search is. A formula is exact."
            )
        slips = _slips(net, theta2, Q, K) | {
            "There the head looks at the first word least.": best[h] + math.pi,
            "`torch.atan2` takes the height first: (up, across).": math.pi / 2 - best[h],
            "These are degrees; give radians.": best[h].rad2deg(),
        }
        found = (said for said, slip in slips.items() if _apart(yours, slip) <= 1)
        raise NotYet(next(found, f"Head {h} is off by up to {off:.0f} degrees."))


def _best(net, theta2):
    """The first word's angle [head, place] with the largest score, of the wave through four."""
    first = torch.arange(4).repeat_interleave(len(theta2)) * math.pi / 2
    points = (torus.circle(each)[None] for each in (first, theta2.repeat(4)))
    scores = torus.attend(net, *points).scores[0].unflatten(1, (4, -1))
    return torch.atan2(scores[:, 1] - scores[:, 3], scores[:, 0] - scores[:, 2])


def _slips(net, theta2, Q, K):
    """{what to say: the angles [place] of a formula with that slip}."""
    e2, first, second = torus.circle(theta2), *net.W_pos[0]
    wanted = {
        "Does the second place know its position?": e2 @ Q @ K.T,
        "The second word stands at the second place: `W_pos[1]`.": (e2 + first) @ Q @ K.T,
        "`x1 @ K` is what is multiplied: which way round does K stand beside `x2 @ Q`?": (
            (e2 + second) @ Q @ K
        ),
        "The second word asks: Q belongs to it, K to the first.": (e2 + second) @ K @ Q.T,
    }
    plane = torus.PLANE.to(e2).T
    return {said: torch.atan2(*(each @ plane).flip(-1).unbind(-1)) for said, each in wanted.items()}


def _apart(angles, truth) -> float:
    """The largest angle between two lists of directions in radians, in degrees, 0 to 180."""
    turn = 2 * math.pi
    return ((angles - truth + math.pi).remainder(turn) - math.pi).abs().max().rad2deg().item()


CHECKS = {"13.1": _center, "13.2": _breaks, "13.3": _favorite}
