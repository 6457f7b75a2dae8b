"""The exercises of notebook 18: each answer is tried out on queries and keys.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import compared
from chapters.nb18_queries_meet_keys.geometry import distances, placed


def shift_keys(q, k):
    """All keys [key, d] plus one vector, so that their mean is that of the queries [query, d]."""
    return k + q.mean(dim=0) - k.mean(dim=0)


def squared_distances(scores, q, k):
    """Squared distances [query, key] from the scores [query, key], q [query, d] and k [key, d]."""
    of_q, of_k = (q**2).sum(dim=-1), (k**2).sum(dim=-1)
    return of_q[:, None] + of_k - 2 * scores


PAGES = {"18.1": shift_keys, "18.2": squared_distances}


def _shift_check(answer):
    q, k = _pairs(0)
    wanted = shift_keys(q, k)
    known = {
        "Nothing has moved.": k,
        "The mean of the keys is now zero; it should be that of the queries.": k - k.mean(dim=0),
        "The mean of the queries is added, but that of the keys not taken off.": k + q.mean(dim=0),
        "The keys have gone the other way: their mean is now farther off.": 2 * k - wanted,
        "You moved by single numbers: take the means over the tokens alone (dim=0).": (
            k + q.mean() - k.mean()
        ),
        "All keys are the same now: add one vector to them, so that they stay apart.": (
            q.mean(dim=0).expand(k.shape)
        ),
    }
    compared(answer(q.clone(), k.clone()), wanted, known)
    before, after = ((q @ each.T).softmax(dim=-1) for each in (k, wanted))
    change = (after - before).abs().max()
    return f"the two means coincide, and the attention weights have changed by {change:.0e} at most"


def _squares_check(answer):
    q, k = _pairs(0)
    scores, of_q, of_k = q @ k.T, (q**2).sum(dim=-1), (k**2).sum(dim=-1)
    wanted = squared_distances(scores, q, k)
    known = {
        "The scores count twice: q · k comes up two times when you multiply out.": wanted + scores,
        "A large score should bring q and k nearer: look at its sign.": wanted + 4 * scores,
        "These are distances; leave them squared.": wanted.sqrt(),
        "Take the squares of the lengths, not the lengths.": (
            q.norm(dim=-1)[:, None] + k.norm(dim=-1) - 2 * scores
        ),
        "Both lengths are needed: the keys' are missing.": of_q[:, None] - 2 * scores,
        "Both lengths are needed: the queries' are missing.": of_k - 2 * scores,
    }
    compared(answer(scores.clone(), q.clone(), k.clone()), wanted, known)
    far = int((wanted.argmin(dim=-1) != scores.argmax(dim=-1)).sum())
    said = f"with keys of quite different lengths, {far} of {len(q)} queries are nearest to another"
    return f"{said} key than the one with the largest score"


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
    before, after = (distances(*placed(each, k, 1.0, shift=True)) for each in (q, q + shift))
    change = (after - before).abs().max()
    said = "all four attend most to mice, and on the map with shifted keys distances change by"
    return f"{said} {change:.2f}: what all queries share is not on it"


def _pairs(seed):
    """Queries and keys of quite different lengths: [12, 3] and [9, 3]."""
    draw = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, 3, generator=draw, dtype=torch.float64) for n in (12, 9))
    return q, k * torch.linspace(0.2, 4, 9, dtype=torch.float64)[:, None]


def _tensors(found, *wanted):
    """What a function returned, as tensors. Raises NotYet for other shapes, NaN and infinity."""
    found = list(attempted(found)) if isinstance(found, tuple | list) else [attempted(found)]
    shapes = [tuple(getattr(each, "shape", ())) for each in found]
    if shapes != [*wanted]:
        said = " and ".join(map(str, wanted))
        raise NotYet(f"Of 12 queries and 9 keys, return {said}; your shapes are {shapes}.")
    if not all(each.isfinite().all() for each in found):
        raise NotYet("Yours has NaN or infinity.")
    return [each.double() for each in found]


def _why_right(q, k, found, right):
    """Why the map is still right for some queries, as the key that has grown most tells it."""
    grown = (found.norm(dim=-1) / k.norm(dim=-1)).argmax()
    repelled = int((q @ k[grown] < 0)[right].sum())
    nearest = int((distances(q, k, "cosine").argmin(dim=1) == grown)[right].sum())
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
        apart = distances(q, found, "cosine")
        if (change := (apart - distances(q, k, "cosine")).abs().max().item()) > 1e-5:
            raise NotYet(f"A cosine distance has changed by {change:.2g}: the map would show it.")
        right = apart.argmin(dim=1) == (q @ found.T).argmax(dim=1)
        left.append(int(right.sum()))
        if left[-1] > 2:
            why = why or _why_right(q, k, found, right)
    said = ", ".join(map(str, left))
    if why:
        said = f"In three sets of 12 queries, the map is still right for {said}: 2 at most."
        raise NotYet(said + why)
    said = f"in three sets of 12 queries, the map is right for {said}"
    return f"{said}: lengths decide what is attended to, and cosine distance cannot show them"


CHECKS = {"18.1": _shift_check, "18.2": _squares_check, "18.3": _move, "18.4": _broken}
