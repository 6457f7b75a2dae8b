"""The exercises of notebook 14: a straight line, what moves a frontier, and a wild one."""

import dataclasses

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet
from aot_helpers.teaching.exercises.references import against, draw, read_numbers
from chapters.torus import networks as torus

CHANGES = {  # what is multiplied by what, and why the frontier moves or stays
    "W_Q times 2": ("W_Q", 2, "twice the score is zero at the same places"),
    "W_K times -1": ("W_K", -1, "dark and white swap sides, and what lies between them?"),
    "W_V times 2": ("W_V", 2, "values are carried; does the score know them?"),
    "W_pos times 2": ("W_pos", 2, "positions stand in the score beside words, which do not double"),
}


def _line_of(x2, W, E, p1):
    at = torch.cat([E, (p1 - x2)[:, None]], dim=1)  # the columns that x2 W is multiplied with
    return x2 @ W @ at


def _joined(answer):
    apart = []

    def tried(*arguments):
        given = answer(*arguments)
        if not isinstance(given, tuple | list) or len(given) == 3:
            return given
        apart.append(given)
        return torch.zeros(0)

    try:
        LINES(tried)
    except NotYet:
        if not apart:
            raise
    if apart:
        raise NotYet(
            "Three numbers in one tensor, please: g0, g1 and h. (`torch.cat` joins tensors.)"
        )


def _moves(answer, net):
    if not isinstance(answer, dict) or set(answer) != set(CHANGES):
        raise NotYet(f"A dictionary with True or False for each of {', '.join(CHANGES)}, please.")
    if any(each is ... for each in answer.values()):
        raise NotAttempted
    first = torus.attend(net, *torus.on_grid(60)).scores > 0
    wrong = []
    for name, (weights, factor, why) in CHANGES.items():
        changed = dataclasses.replace(net, **{weights: factor * getattr(net, weights)})
        then = torus.attend(changed, *torus.on_grid(60)).scores > 0
        same = (first == then).all() or (first != then).all()
        if answer[name] is not (not bool(same)):
            wrong.append(f"{name} ({why})")
    if wrong:
        raise NotYet(f"Not right yet: {'; '.join(wrong)}.")


def _wild(answer):
    if answer is ...:
        raise NotAttempted
    given = read_numbers(answer, 11)
    if (given[7:9] + given[9:]).abs().max() > 1e-6:
        raise NotYet(
            "No head can have these: the last two are the two before them with the other sign."
        )
    turn = (torch.arange(360) + 0.31) * torch.pi / 180
    around = torus.crossings(torus.polynomial(given, turn[::3, None] + 0.005, turn))
    share = (around == 4).float().mean().item()
    if share < 0.9:
        raise NotYet(
            f"The head changes sides four times at {share:.0%} of the first words; make it 90%."
        )


LINES = against(
    _line_of,
    [
        tuple(draw(*shape, seed=10 * i + j) for j, shape in enumerate([(3,), (3, 3), (3, 2), (3,)]))
        for i in range(3)
    ],
)
CHECKS = {
    "14.1": _joined,
    "14.2": _moves,
    "14.3": _wild,
}
