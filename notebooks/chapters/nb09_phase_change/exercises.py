"""The exercises of notebook 09: each answer is tried out, or compared with a reference."""

import math
from collections.abc import Callable
from functools import partial

import torch

from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.reading.trajectories import reached
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, where_to_look
from aot_helpers.text.batches import repeated_tokens
from chapters.nb09_phase_change.measure import middle_half


def _pairs_of_losses(model, tokens) -> dict[str, tuple]:
    """What is wrong: the two numbers that many would return instead of the losses of the copies."""
    n = tokens.shape[1] // 2
    losses = next_token_losses(model(tokens), tokens)
    first, second = losses[:, :n], losses[:, n + 1 :]
    own = -model(tokens).log_softmax(dim=-1).gather(2, tokens[..., None])[..., 1:, 0]
    return {
        "Leave out the first token of the second copy: nothing tells of a repeat yet.": (
            first.mean(),
            losses[:, n:].mean(),
        ),
        "These are sums; take the means.": (first.sum(), second.sum()),
        "The signs are wrong: a loss is minus the logarithm.": (-first.mean(), -second.mean()),
        "The two are in the wrong order: first copy, second copy.": (second.mean(), first.mean()),
        "The logits at a position are about the next token, not about its own.": (
            own[:, :n].mean(),
            own[:, n + 1 :].mean(),
        ),
        "These are losses in bits: take the natural logarithm.": (
            first.mean() / math.log(2),
            second.mean() / math.log(2),
        ),
        "The second copy is cut short: it ends with the last token.": (
            first.mean(),
            losses[:, n + 1 : -1].mean(),
        ),
    }


@torch.no_grad()
def _copy_losses(answer, model, tokens):
    shorter = repeated_tokens(model.config.d_vocab, 7, 3, int(tokens[0, 0]), seed=5)
    for texts in (tokens, shorter):
        found = attempted(answer(model, texts))
        try:
            found = torch.tensor([float(each) for each in found])
        except (TypeError, ValueError):
            raise NotYet(
                "Return two numbers: the mean loss of the first copy and that of the second."
            ) from None
        if len(found) != 2:
            raise NotYet(f"Return two numbers, one for each copy; you return {len(found)}.")
        if not torch.allclose(found, torch.tensor(copy_losses(model, texts)), atol=1e-4):
            for said, wrong in _pairs_of_losses(model, texts).items():
                if torch.allclose(found, torch.tensor(wrong), atol=1e-4):
                    raise NotYet(said)
            n, right = texts.shape[1] // 2, copy_losses(model, texts)
            raise NotYet(
                "On {} tokens written twice: {:.3f}, {:.3f} expected, got {:.3f}, {:.3f}".format(
                    n, *right, *found.tolist()
                )
            )
    first, second = copy_losses(model, tokens)
    return f"the finished model: {first:.2f} nats, and {second:.2f} the second time"


def _middle_half(answer: Callable):
    _compare_middle(answer)
    return "a steady change would take half of all steps"


def _by_value(steps, values):
    """Shares of the first value, where shares of the change are meant."""
    pairs = list(zip(steps, values, strict=True))
    done = [next((s for s, v in pairs if v <= part * values[0]), 0) for part in (0.75, 0.25)]
    return done[1] - done[0]


_compare_middle = against(
    middle_half,
    [
        ([0, 15, 30, 45, 60, 75], [7.0, 6.8, 5.4, 3.5, 2.0, 1.0]),
        ([0, 100, 200, 300], [2.0, 1.0, 0.4, 0.0]),
        ([200, 250, 300, 350, 400], [0.0, 0.1, 0.5, 0.9, 1.0]),
    ],
    {
        "Take shares of the whole change, from the first value to the last.": _by_value,
        "This is the step at which a quarter is done; subtract it from that of 3/4.": partial(
            reached, share=0.25
        ),
        "This is the step at which three quarters are done; subtract that of 1/4.": partial(
            reached, share=0.75
        ),
        "This is the half-way step; the steps between 1/4 and 3/4 are asked.": partial(
            reached, share=0.5
        ),
    },
)


def _shift(answer):
    k = torch.arange(2 * 5 * 4 * 3.0).reshape(2, 5, 4, 3)  # [batch, pos, head, d_head]
    found = attempted(answer(k.clone()))
    if not isinstance(found, torch.Tensor):
        raise NotYet(f"Return a tensor of keys; you return {found!r}.")
    if found.shape != k.shape:
        raise NotYet(f"The keys had shape {list(k.shape)}, yours have {list(found.shape)}.")
    if not torch.equal(found[:, :, 2:], k[:, :, 2:]):
        raise NotYet("Heads 2 and 3 should keep their keys.")
    if not torch.equal(found[:, 1:, :2], k[:, :-1, :2]):
        raise NotYet(
            "From position 1 on, heads 0 and 1 should hold the key of the position before."
        )
    if not torch.equal(found[:, 0], k[:, 0]):
        raise NotYet("Position 0 should keep its key.")
    return "in one layer, two heads can now find a token by the one before it"


def _favorite_distances(answer):
    wanted, n = [3, 1, 12, 7], 41  # each head looks mostly so far back, and the last one at itself
    scores = 0.1 * draw(len(wanted), n, n)
    for head, distance in zip(scores, wanted, strict=True):
        head.diagonal(-distance).add_(5)
    scores[-1].diagonal().add_(6)
    found = attempted(
        answer(scores.masked_fill(torch.ones(n, n).triu(1).bool(), -1e9).softmax(dim=-1))
    )
    try:
        found = [int(each) for each in found]
    except (TypeError, ValueError):
        raise NotYet(
            f"Return a list with one distance for each head; you return {found!r}."
        ) from None
    if found[-1:] == [0]:
        raise NotYet("A head that looks at itself looks 0 back; only distances of 1 or more count.")
    right = found == wanted
    if not right:
        raise NotYet(f"Heads that look mostly {wanted} back: your function says {found}.")


def _honest_score(pattern, tokens, back):
    at = torch.arange(len(tokens))
    wanted = where_to_look(tokens) & (at[:, None] - at != back)
    return (pattern * wanted).sum(dim=1)[wanted.any(dim=1)].mean()


CHECKS = {
    "09.1": _copy_losses,
    "09.2": _middle_half,
    "09.3": _shift,
    "09.4": _favorite_distances,
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

PAGES = {"09.1": copy_losses, "09.2": middle_half}
