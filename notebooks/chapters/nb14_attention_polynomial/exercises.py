"""The exercises of notebook 14: a line, Fourier coefficients, a wild head, and zero sets."""

import dataclasses

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw, read_numbers
from chapters.torus import networks as torus

CHANGES = {  # what is multiplied by what, and why the zero set moves or stays
    "W_Q times 2": ("W_Q", 2, "twice the score is zero at the same places"),
    "W_K times -1": ("W_K", -1, "dark and white change places, and what lies between them?"),
    "W_V times 2": ("W_V", 2, "values are averaged with the weights; do they stand in the score?"),
    "W_pos times 2": ("W_pos", 2, "positions stand in the score beside words, which do not double"),
}


def line_of(x2, W, E, p1):
    """The straight line of one second word; see the notebook."""
    g, h = x2 @ W @ E, x2 @ W @ (p1 - x2)
    return torch.cat([g, h[None]])


def fourier(values, waves):
    """The Fourier coefficients of some functions; see the notebook."""
    return values @ waves.T / (waves * waves).sum(dim=1)


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


def _fourier(page):
    theta1, theta2 = torus.grid(12)
    waves = torch.stack([wave(theta1, theta2).flatten() for wave in torus.HARMONICS.values()])
    right = draw(4, 11).double()  # of four functions
    values = right @ waves
    product, size = values @ waves.T, (waves * waves).sum(dim=1)
    mistakes = {
        "Divide by the waves' own squares: those of a cosine have the mean 1/2, not 1.": product
        / waves.shape[1],
        "The constant wave's squares have the mean 1, not 1/2: divide by each wave's own.": 2
        * product
        / waves.shape[1],
        "A sum over all places grows with their number: divide by the waves' squares.": product,
        "Divide by the sum of the waves' squares, not by its root.": product / size.sqrt(),
    }
    gap = compared(page(values, waves), right, mistakes)
    return (
        f"eleven numbers found again in four functions, to {gap:.0e}: no wave is in another's way, "
        "so each can be measured alone"
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
    return "the size and the sign of a score do not move its zero set, and values are not in it"


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
    return f"four changes at {share:.0%} of the first words: no head can do more"


PAGES = {"14.1": line_of, "14.2": fourier}
CHECKS = {
    "14.1": _line,
    "14.2": _fourier,
    "14.3": _wild,
    "14.4": _moves,
}
