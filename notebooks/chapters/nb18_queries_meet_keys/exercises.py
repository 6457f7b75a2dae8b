"""The exercises of notebook 18: each answer is tried out on queries and keys.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import read_tensor


def stands_out(scores):
    """How far each score exceeds what its key gets from all queries on average: [query, key]."""
    return scores - scores.mean(dim=0)


PAGES = {"18.1": stands_out}


def _stands_out_check(answer):
    q, k = _pairs(0)
    q = q + torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)  # what all queries share
    scores = q @ k.T
    (found,) = _tensors(answer(scores.clone()), (12, 9))
    # Keys so small that their lengths do not count: the nearest one, after the shift.
    nearest = distances(1e4 * q, _shifted(1e4 * q, k / 1e4)).argmin(dim=-1)
    right = int((found.argmax(dim=-1) == nearest).sum())
    if right == len(q):
        other = int((scores.argmax(dim=-1) != nearest).sum())
        said = "your largest entry is the nearest key for all 12 queries"
        return f"{said}; for {other} of them it is not the key with the largest score"
    known = {
        "That is the key with the largest score: the nearest one before the shift.": scores,
        "The mean of a row is the same for all keys of its query and changes no order: "
        "which mean belongs to a key?": scores - scores.mean(dim=1, keepdim=True),
        "One number for the whole table changes no order.": scores - scores.mean(),
        "These are the averages alone: what is left of a score without them?": (
            scores.mean(dim=0).expand(scores.shape)
        ),
        "The sign is the wrong way round: the nearest key should have the largest entry.": (
            -stands_out(scores)
        ),
        "The average goes the other way: the shift takes it away.": scores + scores.mean(dim=0),
    }
    for said, mistake in known.items():
        if torch.equal(found.argmax(dim=-1), mistake.argmax(dim=-1)):
            raise NotYet(said)
    raise NotYet(f"Your largest entry is the nearest key for {right} of 12 queries.")


def _move(answer, map_changes, queries, keys):
    """All queries are moved by the answer, so that each has its top score with the last key.

    map_changes: whether the reader expects the map with shifted keys to change.
    """
    try:
        shift = torch.as_tensor(answer, dtype=torch.float64)
    except (TypeError, ValueError):
        raise NotYet(f"Give two numbers, such as [1.0, 1.0]; you give {answer!r}.") from None
    if shift.shape != (2,) or not shift.isfinite().all():
        raise NotYet(f"Give two finite numbers, one for each column; you give {answer!r}.")
    q, k = (torch.as_tensor(each, dtype=torch.float64) for each in (queries, keys))
    right = int((((q + shift) @ k.T).argmax(dim=1) == len(k) - 1).sum())
    if right < len(q):
        added = ", ".join(f"{each:.2f}" for each in k @ shift)
        said = f"It adds {added} to the scores of the four keys"
        raise NotYet(f"{said}; mice has the largest score for {right} of 4 queries.")
    if map_changes is not False:
        said = "The move is right, but not the guess: the keys are shifted onto the mean query."
        raise NotYet(f"{said} Where is that now?")
    before, after = (distances(each, _shifted(each, k)) for each in (q, q + shift))
    change = (after - before).abs().max()
    said = "all four attend most to mice, and on the map with shifted keys distances change by"
    return f"{said} {change:.2f}: what all queries share is not on it"


def distances(q, k):
    """The Euclidean distance of each query to each key, exact also where the vectors are long."""
    return torch.cdist(q, k, compute_mode="donot_use_mm_for_euclid_dist")


def _cosines(q, k):
    return torch.cosine_similarity(q[:, None], k, dim=-1)


def _shifted(q, k):
    """The keys, all moved by one vector, so that their mean is that of the queries."""
    return k + q.mean(dim=0) - k.mean(dim=0)


def _pairs(seed):
    """Queries and keys of quite different lengths: [12, 3] and [9, 3]."""
    draw = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, 3, generator=draw, dtype=torch.float64) for n in (12, 9))
    return q, k * torch.linspace(0.2, 4, 9, dtype=torch.float64)[:, None]


def _tensors(found, *wanted):
    """What a function returned, as tensors. Raises NotYet for other shapes, NaN and infinity."""
    found = [*attempted(found)] if isinstance(found, tuple) else [attempted(found)]
    if len(found) != len(wanted):
        raise NotYet(f"Return tensors of the shapes {' and '.join(map(str, wanted))}, as a tuple.")
    return [read_tensor(each, *shape).double() for each, shape in zip(found, wanted, strict=True)]


def _why_right(q, k, found, right):
    """Why the map is still right for some queries, as the key that has grown most tells it."""
    grown = (found.norm(dim=-1) / k.norm(dim=-1)).argmax()
    repelled = int((q @ k[grown] < 0)[right].sum())
    nearest = int((_cosines(q, k).argmax(dim=1) == grown)[right].sum())
    return (
        f" Of the {int(right.sum())} that it is right for in the first such set, {repelled} have "
        f"a negative score with the key that has grown most, and {nearest} lie nearest to it."
    )


def _broken(answer):
    left, why = [], ""
    for seed in (1, 2, 3):
        q, k = _pairs(seed)
        k = torch.nn.functional.normalize(k, dim=-1)
        (found,) = _tensors(answer(q.clone(), k.clone()), (9, 3))
        cosines = _cosines(q, found)
        if (change := (cosines - _cosines(q, k)).abs().max().item()) > 1e-5:
            raise NotYet(f"A cosine distance has changed by {change:.2g}: the map would show it.")
        right = cosines.argmax(dim=1) == (q @ found.T).argmax(dim=1)
        left.append(int(right.sum()))
        if left[-1] > 2:
            why = why or _why_right(q, k, found, right)
    said = ", ".join(map(str, left))
    if why:
        said = f"In three sets of 12 queries, the map is still right for {said}: 2 at most."
        raise NotYet(said + why)
    said = f"in three sets of 12 queries, the map is right for {said}"
    return f"{said}: lengths decide what is attended to, and cosine distance cannot show them"


def _fooled(answer, weighted_correlation):
    """weighted_correlation: that of the tour, of distances and scores [query, key]."""
    q, k = _tensors(answer(), (100, 8), (100, 8))
    apart, scores = distances(q, k), q @ k.T
    if len(apart.unique()) < 0.9 * apart.numel():
        raise NotYet("Many of your distances are equal: make no two vectors alike.")
    r = weighted_correlation(apart, scores)
    close = apart < apart.quantile(0.005)
    right = int((apart.argmin(dim=1) == scores.argmax(dim=1)).sum())
    said = f"The correlation is {r:.2f}, and the nearest key is the argmax key for {right} of 100"
    if not r <= -0.9:
        raise NotYet(f"{said} queries: it should be -0.9 or less. Whose pairs are the closest?")
    if right > 5:
        why = "for short keys the nearest one has the largest score. What if keys are long?"
        raise NotYet(f"{said} queries, 5 at most: {why}")
    owner = min(close.any(dim=d).sum() for d in (0, 1))
    said = said[0].lower() + said[1:]
    return f"{said} queries; its {int(close.sum())} pairs share {int(owner)} of your vectors"


CHECKS = {"18.1": _stands_out_check, "18.2": _move, "18.3": _broken, "18.4": _fooled}
