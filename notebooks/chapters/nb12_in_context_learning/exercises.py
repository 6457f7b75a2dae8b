"""The exercises of notebook 12: a score that lies, a model that counts, one text for three.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, read_entries, read_text
from chapters.nb12_in_context_learning.measure import LENGTH, losses_of

EARLY, LATE = (4, 12), (96, 127)  # tokens 5 to 12 and 97 to 127, counted from 1
LEAST_STARTS, MOST_STARTS = 100, 600  # of 12.1
COUNTS_BACK, MOST_WORDS = 31, 60  # of 12.3


def _in_context_score(losses):
    return losses[:, slice(*LATE)].mean() - losses[:, slice(*EARLY)].mean()


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
    score = _in_context_score(losses_of(model, texts)).item()
    result = f"without layers the score is {score:+.2f} nats"
    if score <= goal:
        return f"{result}, and nothing was learned in context: your early tokens are harder"
    why = "the early tokens should be the hard ones, and yours are the late ones"
    if score < 0:
        why = "the right way: are all your early tokens (5 to 12) hard, and no late ones?"
    raise NotYet(f"{result}; {goal:+.2f} or less is wanted. A score is late minus early: {why}.")


def _patterns(distances, n=41):
    """Patterns of heads that attend mostly so far back, and the last one to itself."""
    scores = 0.1 * draw(len(distances), n, n)
    for head, distance in zip(scores, distances, strict=True):
        head.diagonal(-distance).add_(5)
    scores[-1].diagonal().add_(6)
    return scores.masked_fill(torch.ones(n, n).triu(1).bool(), -1e9).softmax(dim=-1)


def favorite_distances(pattern):
    """Pattern [head, query, key] -> [head]: the distance (1 or more) with the most attention."""
    far = range(1, pattern.shape[-1])
    return [max(far, key=lambda d: head.diagonal(-d).mean()) for head in pattern]


def _from(least, total=torch.mean):
    def find(pattern):
        far = range(least, pattern.shape[-1])
        return [max(far, key=lambda d: total(head.diagonal(-d))) for head in pattern]

    return find


PAGES = {"12.2": favorite_distances}

_compare_distances = against(
    favorite_distances,
    [(_patterns([3, 1, 12, 7]),), (_patterns([38, 2, 5]),)],
    {
        "A head that attends to itself attends 0 back; only distances from 1 on count.": _from(0),
        "Take the mean over the queries, not the sum: few queries have a token far back.": (
            _from(1, torch.sum)
        ),
        "Your distances are one too small: the token before stands 1 back.": lambda pattern: [
            d - 1 for d in favorite_distances(pattern)
        ],
        "Queries are rows: `diagonal(-d)` is the attention to d back, not `diagonal(d)`.": (
            lambda pattern: favorite_distances(pattern.mT)
        ),
    },
    solved="a head that counts has a favorite distance; a head that matches has none",
)


def _distances(answer):
    def listed(pattern):
        given = answer(pattern)
        try:
            return [int(each) for each in given] if isinstance(given, Iterable) else given
        except (TypeError, ValueError, RuntimeError):
            raise NotYet(f"A distance for each head is wanted, got {given!r:.60}.") from None

    return _compare_distances(listed)


def _unmask(text, says, models):
    """One text after which two models predict the given words, and the third neither.

    says: {name: word} of the first two models, the one that matches and the one that counts.
    """
    matches, counts, neither = models
    says = {name: attempted(word) for name, word in read_entries(says, (matches, counts)).items()}
    tokenizer = models[matches].tokenizer
    tokens = tokenizer.encode(" " + " ".join(read_text(text).split()), bos=True)
    if not COUNTS_BACK < len(tokens) - 1 <= MOST_WORDS:
        limits = f"{COUNTS_BACK + 1} to {MOST_WORDS}"
        raise NotYet(f"This text has {len(tokens) - 1} tokens; {limits} are wanted.")
    if tokens[-1] not in tokens[:-1]:
        raise NotYet(f"The last token stands nowhere before, so {matches} has nothing to find.")
    predicted = {
        name: tokenizer.token_strings(model(tokens[None])[0, -1:].argmax(dim=-1))[0].strip()
        for name, model in models.items()
    }
    for name, word in says.items():
        if predicted[name] != str(word).strip():
            raise NotYet(f"{name} says {predicted[name]!r}, and not {str(word).strip()!r}.")
    if predicted[matches] == predicted[counts]:
        raise NotYet("Both say the same: what followed last time stands 31 back here.")
    if predicted[neither] in (predicted[matches], predicted[counts]):
        raise NotYet(
            f"{neither} says {predicted[neither]!r}, too: does a piece of a name come again?"
        )
    return ", ".join(f"{name}: {word!r}" for name, word in predicted.items())


CHECKS = {"12.1": _cheat, "12.2": _distances, "12.3": _unmask}
