"""The exercises of notebook 13: a head, an impossible square, favorite words, three waves.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import math

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw, read_tensor
from chapters.torus import networks as torus

EXACT = 0.002  # degrees by which float32 may miss an angle


def attention_weight(x1, x2, W_Q, W_K):
    """One head's attention weight on the first of two positions, [...]; x1, x2: [..., d_model].

    The second position attends. W_Q, W_K: [d_model, d_head].
    """
    score = ((x2 @ W_Q) * ((x1 - x2) @ W_K)).sum(dim=-1) / math.sqrt(W_Q.shape[1])
    return score.sigmoid()


PAGES = {"13.1": attention_weight}


def _weight(answer):
    for d_head in (3, 2):
        x1, x2 = draw(4, 1, 3, seed=1), draw(1, 5, 3, seed=2)
        Q, K = draw(3, d_head, seed=3), draw(3, d_head, seed=4)
        q, root = x2 @ Q, math.sqrt(d_head)
        both = torch.stack(torch.broadcast_tensors((q * (x1 @ K)).sum(-1), (q * (x2 @ K)).sum(-1)))
        first, less = both[0] / root, (both[0] - both[1]) / root
        given = attempted(answer(x1, x2, Q, K))
        if isinstance(given, torch.Tensor) and given.shape == (4, 5, 2):
            raise NotYet("Only the weight on the first word is wanted; the other is 1 minus it.")
        asked_by_first = ((x1 @ Q) * ((x1 - x2) @ K)).sum(-1) / root
        mistakes = {
            "That is the weight on the second word.": (-less).sigmoid(),
            "That is the score; the softmax of two scores is a sigmoid of their difference.": less,
            f"Divide the score by √d_head, here √{d_head}.": (root * less).sigmoid(),
            "The softmax compares two scores: subtract the second word's.": first.sigmoid(),
            "The second position attends: the query is x2 @ W_Q.": asked_by_first.sigmoid(),
            "W_Q belongs to the query, W_K to the keys.": attention_weight(x1, x2, K, Q),
        }
        compared(given, both.div(root).softmax(dim=0)[0], mistakes)
    return "with two keys, a softmax is a sigmoid of the difference of two scores"


def _square(answer):
    if answer is ...:
        raise NotAttempted
    rows = answer if isinstance(answer, list | tuple) else ()
    sizes = [len(row) for row in rows if isinstance(row, str | list | tuple)]
    if (
        sizes != [2, 2]
        or len(rows) != 2
        or not all(isinstance(word, str) and word in tuple("ABCDE") for row in rows for word in row)
    ):
        raise NotYet(f"Two rows of two letters from A to E are wanted, not {answer!r}.")
    (here, right), (below, across) = rows
    if here == across != right == below:
        return "facts that cross like this need a head whose attention depends on both words"
    if here in (right, below) or across in (right, below):
        raise NotYet("Two equal next words side by side: then sums can give the other two as well.")
    raise NotYet("Sums can give three or four different next words; look for two.")


def _favorite(favorite, net):
    theta2 = 7 * torch.rand(40, generator=torch.Generator().manual_seed(0))
    best = _best(net.double(), theta2.double())
    for h, (Q, K) in enumerate(zip(net.W_Q[0], net.W_K[0], strict=True)):
        yours = read_tensor(favorite(theta2, Q, K), *theta2.shape, name="The angles")
        off = _apart(yours, best[h])
        if off <= EXACT:
            continue
        if off <= 5:
            raise NotYet(
                f"Close, but off by up to {off:.2g} degrees, as a search is. A formula is exact."
            )
        slips = _slips(net, theta2, Q, K) | {
            "There the head attends to the first word least.": best[h] + math.pi,
            "`torch.atan2` takes the height first: (up, across).": math.pi / 2 - best[h],
            "These are degrees; give radians.": best[h].rad2deg(),
        }
        found = (said for said, slip in slips.items() if _apart(yours, slip) <= 1)
        raise NotYet(next(found, f"Head {h} is off by up to {off:.0f} degrees."))
    return "as the first word goes around, its score is one plain wave, with a single top"


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


def _waves(answer):
    if answer is ...:
        raise NotAttempted
    try:
        c, a, b = torch.tensor(answer, dtype=torch.float64).reshape(3, 3).T[..., None]
    except (TypeError, ValueError, RuntimeError):
        raise NotYet(f"Three rows of three numbers are wanted, not {answer!r}.") from None
    theta = (torch.arange(3600) + 0.31) * math.pi / 1800
    winner = (c + a * theta.cos() + b * theta.sin()).argmax(dim=0)
    changes = int((winner != winner.roll(1)).sum())
    if changes == 4:
        return "each wave wins around its top, and a constant can win on both sides of it"
    never = sorted(set(range(3)) - set(winner.tolist()))
    if never:
        rows = " and ".join(str(row) for row in never)
        raise NotYet(f"The winner changes {changes} times, and row {rows} (from 0) never wins.")
    raise NotYet(f"The winner changes {changes} times; one of the three has to win at two places.")


CHECKS = {"13.1": _weight, "13.2": _square, "13.3": _favorite, "13.4": _waves}
