"""The exercises of notebook 18: each answer is tried out on queries and keys."""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from chapters.nb18_queries_meet_keys.geometry import distances, placed


def _liked_by_all(answer, map_changes, queries, keys):
    """All queries are moved by the answer; the key that all should like most is the last one.

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
        said = ", ".join(f"{each:.2f}" for each in k @ shift)
        raise NotYet(
            f"It adds {said} to the scores of the four keys; mice is liked most by {right} of 4."
        )
    if not isinstance(map_changes, bool):
        raise NotYet(
            f"The move is right. As map_changes give True or False; you give {map_changes!r}."
        )
    if map_changes:
        raise NotYet(
            "The move is right, but not the guess: the keys are shifted onto the mean query. "
            "Where is that now?"
        )
    before, after = (distances(*placed(each, k, 1.0, shift=True)) for each in (q, q + shift))
    return (
        "all four like mice most; on the map with shifted keys, a distance changes by "
        f"{(after - before).abs().max():.2f}"
    )


def _pairs(seed):
    """Queries and keys of quite different lengths: [12, 3] and [9, 3]."""
    draw = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(n, 3, generator=draw, dtype=torch.float64) for n in (12, 9))
    return q, k * torch.linspace(0.2, 4, 9, dtype=torch.float64)[:, None]


def _two_tensors(found):
    """Raises NotYet unless it is a pair of tensors, 12 queries and 9 keys of four columns."""
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise NotYet(f"Return two tensors, queries and keys; you return {type(found).__name__}.")
    if not all(isinstance(each, torch.Tensor) for each in found):
        raise NotYet("Return two tensors, queries and keys.")
    shapes = [tuple(each.shape) for each in found]
    if shapes != [(12, 4), (9, 4)]:
        raise NotYet(
            f"Of 12 queries and 9 keys, shapes (12, 4) and (9, 4) are wanted; yours are {shapes}."
        )
    if not all(each.isfinite().all() for each in found):
        raise NotYet("Yours has NaN or infinity.")


def _lift(answer):
    for seed in range(3):
        q, k = _pairs(seed)
        found = attempted(answer(q.clone(), k.clone()))
        _two_tensors(found)
        high_q, high_k = (each.double() for each in found)
        for what, given, high in (("queries", q, high_q), ("keys", k, high_k)):
            if (change := (high[:, :3] - given).abs().max().item()) > 1e-5:
                raise NotYet(
                    f"The first three columns of the {what} must stay as they are; a number "
                    f"there has changed by {change:.2g}."
                )
        dots = q @ k.T
        if (high_q @ high_k.T - dots).abs().max() > 1e-4:
            raise NotYet("The dot products have changed, so attention has, too.")
        nearest = distances(high_q, high_k).argmin(dim=1)
        right = int((nearest == dots.argmax(dim=1)).sum())
        if right < len(q):
            raise NotYet(f"Of {len(q)} queries, {right} are nearest to the key they like most.")
    return "all 36 queries are nearest to the key they like most"


def _survivors(q, k, found, right):
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
        found = attempted(answer(q.clone(), k.clone()))
        if not isinstance(found, torch.Tensor) or found.shape != k.shape:
            said = tuple(getattr(found, "shape", ())) or type(found).__name__
            raise NotYet(f"Return the new keys alone, a tensor of shape (9, 3); yours is {said}.")
        if not found.isfinite().all():
            raise NotYet("Yours has NaN or infinity.")
        apart = distances(q, found.double(), "cosine")
        if (change := (apart - distances(q, k, "cosine")).abs().max().item()) > 1e-5:
            raise NotYet(f"A cosine distance has changed by {change:.2g}: the map would show it.")
        likes = (q @ found.double().T).argmax(dim=1)
        right = apart.argmin(dim=1) == likes
        left.append(int(right.sum()))
        if left[-1] > 2 and not why:
            why = _survivors(q, k, found.double(), right)
    said = ", ".join(map(str, left))
    if max(left) > 2:
        raise NotYet(
            f"In three sets of 12 queries, the map is still right for {said}: 2 at most.{why}"
        )
    return f"in three sets of 12 queries, the map is right for {said}"


CHECKS = {"18.1": _liked_by_all, "18.2": _lift, "18.3": _broken}
