"""The exercises of notebook 13: a head, an impossible square, three waves.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import math

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw


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


CHECKS = {"13.1": _weight, "13.2": _square, "13.3": _waves}
