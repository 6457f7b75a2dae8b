"""The exercises of notebook 09: each answer is tried out, or compared with a reference."""

import torch

from aot_helpers.models.protocol import Head
from aot_helpers.reading.heads import head_scores
from aot_helpers.reading.interventions import ablate
from aot_helpers.teaching.exercises import Solved
from aot_helpers.teaching.exercises.references import against, draw, where_to_look
from aot_helpers.training.losses import copy_accuracy


def _accuracy_without(answer, model, tokens):
    found = answer(model, tokens)
    if found is None or found is ...:
        return None
    try:
        found = float(found)
    except (TypeError, ValueError):
        return f"Return one number, the copy accuracy; you return {found!r}."
    scores = head_scores(model, tokens, "previous").scores[0]
    left = [
        copy_accuracy(model, tokens, ablate(model, [Head(0, head)], "zero"))
        for head in range(len(scores))
    ]
    whole = copy_accuracy(model, tokens)
    if abs(found - left[int(scores.argmax())]) < 1e-4:
        return Solved(f"{whole:.2f} with the head, {found:.2f} without")
    said = f"You get {found:.3f}"
    if abs(found - whole) < 1e-4:
        return f"{said}, as with all heads on: are the edits of the best previous-token head given?"
    if any(abs(found - each) < 1e-4 for each in left):
        return f"{said}, without a head of layer 0 that is not the best previous-token head."
    return f"{said}, which switching off one head of layer 0 does not give."


def _shift(answer):
    k = torch.arange(2 * 5 * 4 * 3.0).reshape(2, 5, 4, 3)  # [batch, pos, head, d_head]
    found = answer(k.clone())
    if found is None or found is ...:
        return None
    if not isinstance(found, torch.Tensor):
        return f"Return a tensor of keys; you return {found!r}."
    if found.shape != k.shape:
        return f"The keys had shape {list(k.shape)}, yours have {list(found.shape)}."
    if not torch.equal(found[:, :, 2:], k[:, :, 2:]):
        return "Heads 2 and 3 should keep their keys."
    if not torch.equal(found[:, 1:, :2], k[:, :-1, :2]):
        return "From position 1 on, heads 0 and 1 should hold the key of the position before."
    return "" if torch.equal(found[:, 0], k[:, 0]) else "Position 0 should keep its key."


def _favorite_distances(answer):
    wanted, n = [3, 1, 12, 7], 41  # each head looks mostly so far back, and the last one at itself
    scores = 0.1 * draw(len(wanted), n, n)
    for head, distance in zip(scores, wanted, strict=True):
        head.diagonal(-distance).add_(5)
    scores[-1].diagonal().add_(6)
    found = answer(scores.masked_fill(torch.ones(n, n).triu(1).bool(), -1e9).softmax(dim=-1))
    if found is None or found is ...:
        return None
    try:
        found = [int(each) for each in found]
    except (TypeError, ValueError):
        return f"Return a list with one distance for each head; you return {found!r}."
    if found[-1:] == [0]:
        return "A head that looks at itself looks 0 back; only distances of 1 or more count."
    right = found == wanted
    return "" if right else f"Heads that look mostly {wanted} back: your function says {found}."


def _half_way(steps, values):
    whole = values[-1] - values[0]
    shares = [(value - values[0]) / whole for value in values]
    return next(step for step, share in zip(steps, shares, strict=True) if share >= 0.5)


def _honest_score(pattern, tokens, back):
    at = torch.arange(len(tokens))
    wanted = where_to_look(tokens) & (at[:, None] - at != back)
    return (pattern * wanted).sum(dim=1)[wanted.any(dim=1)].mean()


CHECKS = {
    "09.1": _accuracy_without,
    "09.2": _shift,
    "09.3": _favorite_distances,
    "09.4": against(
        _half_way,
        [
            ([0, 50, 100, 150], [7.0, 6.0, 2.0, 1.0]),
            ([0, 100, 200], [0.0, 0.1, 0.9]),
            ([10, 20, 30], [0.0, 0.5, 1.0]),
        ],
    ),
    "09.5": against(
        lambda tokens, back: ([-1] * back + tokens)[: len(tokens)],
        [([7, 8, 9, 7, 8, 9], 2), ([4, 5], 3), ([1, 2, 3], 0)],
    ),
    "09.6": against(
        _honest_score,
        [
            (draw(6, 6).softmax(-1), [3, 5, 3, 5, 3, 7], 1),
            (draw(7, 7, seed=1).softmax(-1), [1, 2, 3, 1, 2, 3, 1], 5),
            (draw(5, 5, seed=2).softmax(-1), [4, 4, 4, 9, 4], 3),  # several keys to one query
        ],
    ),
}
