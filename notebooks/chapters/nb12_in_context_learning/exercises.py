"""The exercises of notebook 12: the in-context score, a score that lies, a trick, one layer.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

from functools import partial

import torch
import torch.nn.functional as F

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, near
from chapters.nb12_in_context_learning.measure import LENGTH, losses_of

EARLY, LATE = (4, 12), (96, 127)  # tokens 5 to 12 and 97 to 127, counted from 1
LEAST_STARTS, MOST_STARTS = 100, 600  # of 12.2
NEAR = 0.02  # of 12.4


def in_context_score(losses, early=(4, 12), late=(96, 127)):
    """Losses [text, index] -> mean loss of the late tokens minus that of the early ones (nats)."""
    return losses[:, late[0] : late[1]].mean() - losses[:, early[0] : early[1]].mean()


PAGES = {"12.1": in_context_score}


def _flawed(mean=torch.mean, begin=0, end=0):
    """A score with a mistake that many make: another mean, ranges that are shifted."""

    def score(losses, early=EARLY, late=LATE):
        parts = [losses[:, a + begin : b + end] for a, b in (early, late)]
        return mean(parts[1]) - mean(parts[0])

    return score


_MISTAKES = {
    "The sign is turned round: it is late minus early.": lambda *given: -in_context_score(*given),
    "You count from 1: in Python the first column is 0.": _flawed(begin=-1, end=-1),
    "You take one column too many: the end of a range is left out.": _flawed(end=1),
    "One number is wanted: take the mean over the texts, too.": _flawed(lambda x: x.mean(dim=1)),
    "Take means, not sums: the ranges differ in length.": _flawed(torch.sum),
    "You compare two single columns; average over each range.": _flawed(lambda x: x[:, 0].mean()),
}
_TRIALS = [
    (draw(3, 127),),
    (draw(5, 128, seed=1), (2, 6), (40, 100)),
    (draw(1, 20, seed=2), (0, 1), (19, 20)),
]


def _cheat(answer, model, line, goal):
    attempted(answer)
    try:
        starts = torch.as_tensor(answer).unique()
    except (TypeError, ValueError, RuntimeError):
        starts = torch.zeros(0)  # of the wrong type
    if starts.dtype != torch.int64:
        raise NotYet(f"A list of places where pieces begin, whole numbers, please; got {answer!r}.")
    if not LEAST_STARTS <= len(starts) <= MOST_STARTS:
        limits = f"{LEAST_STARTS} to {MOST_STARTS}"
        raise NotYet(f"These are {len(starts)} different places; take {limits}.")
    last = len(line) - LENGTH
    if starts.min() < 0 or starts.max() > last:
        raise NotYet(f"A piece must lie in the line: places are 0 to {last}.")
    texts = F.pad(line.unfold(0, LENGTH, 1)[starts], (1, 0), value=model.tokenizer.bos)
    score = in_context_score(losses_of(model, texts)).item()
    said = f"without layers the score is {score:+.2f} nats"
    if score <= goal:
        return f"{said}, and nothing was learned in context: your early tokens are harder"
    raise NotYet(f"{said}; {goal:+.2f} or less is wanted.")


def _patterns(distances, n=41):
    """Patterns of heads that attend mostly so far back, and the last one to itself."""
    scores = 0.1 * draw(len(distances), n, n)
    for head, distance in zip(scores, distances, strict=True):
        head.diagonal(-distance).add_(5)
    scores[-1].diagonal().add_(6)
    return scores.masked_fill(torch.ones(n, n).triu(1).bool(), -1e9).softmax(dim=-1)


def _favorite_distances(pattern, least=1):
    n = pattern.shape[-1]
    return [max(range(least, n), key=lambda d: head.diagonal(-d).mean()) for head in pattern]


_compare_distances = against(
    _favorite_distances,
    [(_patterns([3, 1, 12, 7]),)],
    {
        "A head that attends to itself attends 0 back; only distances from 1 on count.": partial(
            _favorite_distances, least=0
        )
    },
)


def _find_distances(answer):
    _compare_distances(answer)
    return "a favorite distance is no induction, which has none"


def _one_layer(score, copied, copies, texts):
    """What is left of one layer's score with other tokens for names, and what it copies of them.

    copies: the notebook's measure, a function of a model and a text; texts: as they are, changed.
    """
    one, (plain, changed) = load_checkpoint("stories-1l"), texts
    left = in_context_score(losses_of(one, changed)).item()
    truth = {"score with names of other tokens": left, "share copied": copies(one, plain)}
    near(dict(zip(truth, (score, copied), strict=True)), truth, NEAR)
    said = f"{copied:.2f} of the tokens inside known names, and a score of {left:+.2f} with"
    return f"{said} other names: this score, too, is made of names that training has shown"


CHECKS = {
    "12.1": against(in_context_score, _TRIALS, _MISTAKES),
    "12.2": _cheat,
    "12.3": _find_distances,
    "12.4": _one_layer,
}
