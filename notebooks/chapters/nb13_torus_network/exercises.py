"""The exercises of notebook 13: a head, an impossible square, changes that move nothing.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import math

import torch

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw
from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets


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


# Changes of the weights, and why each moves no decision boundary, or does.
MOVES = {
    "W_U doubled": "all five logits double, and the largest stays the largest",
    "the same vector added to all columns of W_U": "all five logits grow by the same amount",
    "W_E doubled": "layer norm divides by the length",
    "W_Q doubled": "the scores double, so the attention weights change",
    "W_V doubled": "what the heads write doubles, but the residual connection stays",
}


def _moved(answer, net):
    """Judge which changes of one network move a boundary, by its answers all over the torus."""
    if not isinstance(answer, dict) or all(each is ... for each in answer.values()):
        raise NotAttempted
    if answer.keys() != MOVES.keys() or not all(each in (True, False) for each in answer.values()):
        raise NotYet("Five answers are wanted, each True or False.")
    W, vector = net.tensors(), torch.tensor([3.0, -2.0, 1.0])[:, None]
    new = [{"W_U": 2 * W["W_U"]}, {"W_U": W["W_U"] + vector}]
    new += [{name: 2 * W[name]} for name in ("W_E", "W_Q", "W_V")]
    before = _answers(net)
    wrong = []
    for name, each in zip(MOVES, new, strict=True):
        moves = not torch.equal(before, _answers(TorusNets(**{**W, **each})))
        if answer[name] != moves:
            wrong.append(f"{name}: {MOVES[name]}")
    if wrong:
        raise NotYet("; ".join(wrong) + ".")
    return "only what changes the direction of the residual stream, or the cells, moves a boundary"


def _answers(net, n=60):
    """The answer after all pairs of words, and at n × n places of the torus."""
    both = zip(torus.pairs(net), torus.on_grid(n), strict=True)
    first, second = (torch.cat(each, dim=1) for each in both)
    return torus.logits(net.double(), first.double(), second.double()).argmax(dim=-1)


CHECKS = {"13.1": _weight, "13.2": _square, "13.3": _moved}
