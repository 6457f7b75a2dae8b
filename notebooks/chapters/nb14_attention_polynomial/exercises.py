"""The exercises of notebook 14: a line, the sets that it can select, and two heads."""

import math

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw, read_numbers


def line_of(x2, W, E, p1):
    """The straight line of one second word; see the notebook."""
    g, h = x2 @ W @ E, x2 @ W @ (p1 - x2)
    return torch.cat([g, h[None]])


def _line(page):
    gap, turn = 0.0, torch.arange(60) * torch.pi / 30
    around = torch.stack([turn.cos(), turn.sin()], dim=1)  # [place, 2]
    for i in range(3):
        x2, W, E, p1 = (
            draw(*shape, seed=10 * i + j) for j, shape in enumerate([(3,), (3, 3), (3, 2), (3,)])
        )
        right = line_of(x2, W, E, p1)
        given = attempted(page(x2, W, E, p1))
        if isinstance(given, tuple | list):
            raise NotYet("g0, g1 and h in one tensor, please: `torch.cat` joins them.")
        mistakes = {
            "Your h lacks the second word's own key: the score is of x1 less x2.": torch.cat(
                [x2 @ W @ E, (x2 @ W @ p1)[None]]
            ),
            "Your h has the wrong sign: it holds p1 less x2.": right * torch.tensor([1.0, 1, -1]),
            "Queries stand at the left of W, and keys at its right: `x2 @ W`.": line_of(
                x2, W.T, E, p1
            ),
        }
        compared(given, right, mistakes)
        score = (around @ E.T + p1 - x2) @ (x2 @ W)
        gap = max(gap, (around @ given[:2] + given[2] - score).abs().max().item())
    return (
        f"your three numbers give the score of 60 first words, to {gap:.0e}; wherever it is zero, "
        "it is so on your line"
    )


def _ruled(answer, theta):
    if not isinstance(answer, dict):
        raise NotYet("A dictionary {set: its three numbers, or None}, please.")
    if all(each is ... for each in answer.values()):
        raise NotAttempted
    round_the_circle = "".join("ABCDE"[k] for k in theta.argsort())
    for wanted, line in answer.items():
        # the words of an arc stand together, and so do all others
        possible = any(
            set(wanted) == set((2 * round_the_circle)[i : i + len(wanted)]) for i in range(5)
        )
        if line is ...:
            raise NotYet(f"{wanted} is still open.")
        if line is None:
            if possible:
                raise NotYet(
                    f"There is a line for {wanted}: its words are neighbors on the circle."
                )
            continue
        found = _selected(read_numbers(line, 3, name=wanted).tolist(), theta.tolist())
        if set(found) != set(wanted):
            swapped = set(found) == set("ABCDE") - set(wanted)
            said = f"for {wanted}, your line selects {found or 'no word'}"
            raise NotYet(
                f"{said}: the right line, with its arrow on the wrong side."
                if swapped
                else f"{said}. Draw it: which words are on the side of the arrow?"
            )
    return (
        f"around the circle the words stand in the order {round_the_circle}, and a line selects "
        "neighbors; any others need more than one head"
    )


def _sets(answer):
    if not isinstance(answer, dict) or any(each is ... for each in answer.values()):
        raise NotAttempted
    right = {"any line": 22, "lines of one direction": 10}
    mistakes = {
        ("any line", 20): "the empty set and all five words are sets, too",
        ("any line", 11): "a line has an arrow: each cut selects one side or the other",
        ("any line", 10): "two cuts between neighbors: count the pairs of gaps, and both sides",
        ("lines of one direction", 6): "the dark side can change: count both arrows",
        ("lines of one direction", 5): "the dark side can change: count both arrows",
        ("lines of one direction", 12): "no word and all words are selected by both arrows",
        ("lines of one direction", 8): "the empty set and all five words are sets, too",
    }
    wrong = []
    for name, number in right.items():
        if answer.get(name) != number:
            why = mistakes.get((name, answer.get(name)), "draw five points on a circle and count")
            wrong.append(f"{name} ({why})")
    if wrong:
        raise NotYet(f"Not right yet: {'; '.join(wrong)}.")
    return "with n words n(n - 1) + 2 sets, but only 2n if the line cannot turn"


def two_lines(theta2, theta_A):
    """A line that cuts off A, and one that cuts off the second word; see the notebook."""
    return [[math.cos(angle), math.sin(angle), -0.9] for angle in (theta_A, theta2)]


def _two(page):
    for theta in ([24, 86, 166, 209, 323], [200, 80, 300, 30, 130]):  # of A to E, in degrees
        theta = [math.radians(each) for each in theta]
        for own, theta2 in zip("ABCDE", theta, strict=True):
            lines = read_numbers(attempted(page(theta2, theta[0])), 2, 3, name="The lines").tolist()
            chosen = [_selected(line, theta) for line in lines]
            found, wanted = set().union(*chosen), {"A", own}
            if found == wanted:
                continue
            both = " and ".join(each or "no word" for each in chosen)
            if wanted < found:
                why = "One takes too much along: move it outward, with a smaller h."
            elif found < wanted:
                why = "One word is missing: does its line lie between the word and the center?"
            else:
                why = "Which head looks for A, and which for the second word?"
            raise NotYet(f"For the second word {own} your lines select {both}. {why}")
    return "one head looks for A, and the line of the other turns with the second word"


def _selected(line, theta):
    """The words on the side of the arrow, in one string."""
    g0, g1, h = line
    places = zip("ABCDE", theta, strict=True)
    return "".join(word for word, at in places if g0 * math.cos(at) + g1 * math.sin(at) + h > 0)


PAGES = {"14.1": line_of, "14.4": two_lines}
CHECKS = {
    "14.1": _line,
    "14.2": _ruled,
    "14.3": _sets,
    "14.4": _two,
}
