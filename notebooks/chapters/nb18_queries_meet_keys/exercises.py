"""The exercises of notebook 18: each answer is tried out on queries and keys."""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from chapters.nb18_queries_meet_keys.geometry import distances, placed


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
        raise NotYet(f"{said}; mice is liked most by {right} of 4.")
    if map_changes is not False:
        said = "The move is right, but not the guess: the keys are shifted onto the mean query."
        raise NotYet(f"{said} Where is that now?")
    before, after = (distances(*placed(each, k, 1.0, shift=True)) for each in (q, q + shift))
    change = (after - before).abs().max()
    said = "all four like mice most; on the map with shifted keys, a distance changes by"
    return f"{said} {change:.2f}"


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


def _lift(answer):
    for seed in range(3):
        q, k = _pairs(seed)
        high_q, high_k = _tensors(answer(q.clone(), k.clone()), (12, 4), (9, 4))
        for what, given, high in (("queries", q, high_q), ("keys", k, high_k)):
            if (change := (high[:, :3] - given).abs().max().item()) > 1e-5:
                said = f"The first three columns of the {what} must stay as they are"
                raise NotYet(f"{said}; a number there has changed by {change:.2g}.")
        dots = q @ k.T
        if (high_q @ high_k.T - dots).abs().max() > 1e-4:
            raise NotYet("The dot products have changed, so attention has, too.")
        right = int((distances(high_q, high_k).argmin(dim=1) == dots.argmax(dim=1)).sum())
        if right < len(q):
            raise NotYet(f"Of {len(q)} queries, {right} are nearest to the key they like most.")
    return "all 36 queries are nearest to the key they like most"


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
    return f"in three sets of 12 queries, the map is right for {said}"


CHECKS = {"18.1": _move, "18.2": _lift, "18.3": _broken}
