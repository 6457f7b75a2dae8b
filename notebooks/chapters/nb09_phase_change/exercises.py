"""The exercises of notebook 09: each answer is tried out, or compared with a reference."""

from functools import partial

import torch

from aot_helpers.models.losses import copy_losses, next_token_losses
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, where_to_look
from aot_helpers.text.batches import repeated_tokens
from chapters.nb09_phase_change.measure import middle_half, middle_span

WRONG_LOSSES = {  # what to say: two numbers of the losses, of those of each own token, and n
    "Leave out the first token of the second copy: nothing tells of a repeat yet.": (
        lambda losses, _, n: (losses[:, :n].mean(), losses[:, n:].mean())
    ),
    "The signs are wrong: a loss is minus the logarithm.": (
        lambda losses, _, n: (-losses[:, :n].mean(), -losses[:, n + 1 :].mean())
    ),
    "The two are in the wrong order: first copy, second copy.": (
        lambda losses, _, n: (losses[:, n + 1 :].mean(), losses[:, :n].mean())
    ),
    "The second copy is cut short: it ends with the last token.": (
        lambda losses, _, n: (losses[:, :n].mean(), losses[:, n + 1 : -1].mean())
    ),
    "The logits at a position are about the next token, not about its own.": (
        lambda _, own, n: (own[:, :n].mean(), own[:, n + 1 :].mean())
    ),
}


def _wrong_losses(change, model, tokens):
    logits = model(tokens)
    own = -logits.log_softmax(dim=-1).gather(2, tokens[..., None])[..., 1:, 0]
    return change(next_token_losses(logits, tokens), own, tokens.shape[1] // 2)


@torch.no_grad()
def _copy_losses(answer, model, tokens):
    shorter = repeated_tokens(model.config.d_vocab, 7, 3, int(tokens[0, 0]), seed=5)
    mistakes = {said: partial(_wrong_losses, f, model) for said, f in WRONG_LOSSES.items()}
    against(partial(copy_losses, model), [(tokens,), (shorter,)], mistakes)(partial(answer, model))
    first, second = copy_losses(model, tokens)
    return f"the finished model: {first:.2f} nats, and {second:.2f} the second time"


def _by_value(steps, values):
    """Shares of the first value, where shares of the change are meant."""
    begin, end = (steps[values <= part * values[0]] for part in (0.75, 0.25))
    return end.min() - begin.min() if len(end) and len(begin) else torch.tensor(-1)


_compare_middle = against(
    middle_half,
    [
        (torch.tensor(steps), torch.tensor(values))
        for steps, values in (
            ([0, 15, 30, 45, 60, 75], [7.0, 6.8, 5.4, 3.5, 2.0, 1.0]),
            ([0, 100, 200, 300], [2.0, 1.0, 0.4, 0.0]),
            ([200, 250, 300, 350, 400], [0.0, 0.1, 0.5, 0.9, 1.0]),
        )
    ],
    {
        "Take shares of the whole change, from the first value to the last.": _by_value,
        "This is the step at which a quarter is done; subtract it from that of 3/4.": (
            lambda steps, values: middle_span(steps, values)[0]
        ),
        "This is the step at which three quarters are done; subtract that of 1/4.": (
            lambda steps, values: middle_span(steps, values)[1]
        ),
        "You took the quarter's step minus that of three quarters: the other way round.": (
            lambda steps, values: -middle_half(steps, values)
        ),
    },
)


def _middle_half(answer):
    _compare_middle(answer)
    return "of a steady change it is half of all steps; the fewer, the more sudden"


def _shift(answer):
    k = torch.arange(2 * 5 * 4 * 3.0).reshape(2, 5, 4, 3)  # [batch, pos, head, d_head]
    found = attempted(answer(k.clone()))
    if not isinstance(found, torch.Tensor) or found.shape != k.shape:
        got = list(getattr(found, "shape", [])) or repr(found)
        raise NotYet(f"Keys of the shape {list(k.shape)} are wanted; yours: {got}.")
    before = torch.cat([k[:, :1], k[:, :-1]], dim=1)
    wanted = {
        "Heads 2 and 3 should keep their keys.": (found[:, :, 2:], k[:, :, 2:]),
        "From position 1 on, heads 0 and 1 should hold the key of the position before.": (
            found[:, 1:, :2],
            before[:, 1:, :2],
        ),
        "Position 0 should keep its key.": (found[:, 0], k[:, 0]),
    }
    for said, (given, right) in wanted.items():
        if not torch.equal(given, right):
            raise NotYet(said)
    return "in one layer, two heads can now find a token by the one before it"


def _honest_score(pattern, tokens, back):
    at = torch.arange(len(tokens))
    wanted = where_to_look(tokens) & (at[:, None] - at != back)
    return (pattern * wanted).sum(dim=1)[wanted.any(dim=1)].mean()


CHECKS = {
    "09.1": _copy_losses,
    "09.2": _middle_half,
    "09.3": _shift,
    "09.4": against(
        lambda tokens, back: ([-1] * back + tokens)[: len(tokens)],
        [([7, 8, 9, 7, 8, 9], 2), ([4, 5], 3), ([1, 2, 3], 0)],
    ),
    "09.5": against(
        _honest_score,
        [
            (draw(6, 6).softmax(-1), [3, 5, 3, 5, 3, 7], 1),
            (draw(7, 7, seed=1).softmax(-1), [1, 2, 3, 1, 2, 3, 1], 5),
            (draw(5, 5, seed=2).softmax(-1), [4, 4, 4, 9, 4], 3),  # several keys to one query
        ],
    ),
}

PAGES = {"09.1": copy_losses, "09.2": middle_half}
