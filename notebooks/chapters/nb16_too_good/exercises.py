"""The exercises of notebook 16: a loss to mend, a loss to fool, a guard to set up."""

import torch
import torch.nn.functional as F

from aot_helpers.teaching.exercises import NotYet, attempted
from chapters.nb16_too_good.report_model import chance_over_time, floor_over_time, loss_over_time


def _examples(batch=3, n_pos=7, d_vocab=50, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(batch, n_pos, d_vocab, generator=generator)
    return logits, torch.randint(d_vocab, (batch, n_pos), generator=generator)


def _by_hand(logits, targets):
    picked = logits.log_softmax(dim=-1).gather(-1, targets[..., None])
    return -picked.mean()


def _over_batch(logits, targets):
    one_hot = F.one_hot(targets, logits.shape[-1]).to(logits.dtype)
    return -(one_hot * logits.log_softmax(dim=0)).sum() / one_hot[0].numel()


def _mended(answer):
    logits, targets = _examples()
    found = _tried(answer, "logits [3, 7, 50] and targets [3, 7]", logits.clone(), targets.clone())
    attempted(found)
    if not isinstance(found, torch.Tensor) or found.numel() != 1:
        raise NotYet(f"Return one number, the mean over all tokens; you return {found!r}.")
    wanted = _by_hand(logits, targets)
    mistakes = {
        "That is the report's loss: dimension 1 is still time.": loss_over_time(logits, targets),
        "That is the sum over all tokens: take their mean.": wanted * targets.numel(),
    }
    for said, wrong in mistakes.items():
        if torch.isclose(found, wrong):
            raise NotYet(said)
    if abs(found - wanted) > 1e-4:
        raise NotYet(f"By hand, these logits cost {wanted:.4f} nats a token; you get {found:.4f}.")


def _tried(answer, said, *given):
    """What the answer returns. Raises NotYet with what was given where it raises an error."""
    try:
        return answer(*given)
    except (RuntimeError, IndexError, TypeError) as error:
        raise NotYet(f"With {said} it raises {type(error).__name__}: {error}") from None


def _fool(answer):
    d_vocab = 64
    targets = torch.tensor([5, 9, 5, 11, 23, 5, 40, 9, 2, 17, 33, 8, 60, 4, 21, 50, 5, 30, 12])
    found, shape = attempted(answer(targets.clone(), d_vocab)), (len(targets), d_vocab)
    if not isinstance(found, torch.Tensor) or found.shape != shape:
        said = f"Return logits of shape {list(shape)}, [time, vocabulary]"
        raise NotYet(f"{said}; you return {found!r}.")
    if right := int((found.argmax(dim=-1) == targets).sum()):
        said = f"The first guess is right at {right} of {len(targets)} places"
        raise NotYet(f"{said}; it should be at none.")
    cost = loss_over_time(found[None].double(), targets[None]).item()
    floor, chance = floor_over_time(targets[None], d_vocab), chance_over_time(*shape)
    if not cost <= floor + 0.01 * (chance - floor):
        raise NotYet(f"The report's loss is {cost:.4f}; its floor here is {floor:.4f}.")
    usual = _by_hand(found.double(), targets).item()
    return f"report's loss {cost:.4f}, at its floor; the usual loss is {usual:.0f} nats"


def _guard(answer):
    losses = {
        "the usual loss": _by_hand,
        "the report's loss": loss_over_time,
        "a softmax over the batch": _over_batch,
        "a sum over the tokens": lambda logits, targets: (
            _by_hand(logits, targets) * targets.numel()
        ),
    }
    for name, loss_of in losses.items():
        allows, wanted = attempted(_tried(answer, name, loss_of)), loss_of is _by_hand
        if bool(allows) != wanted:
            hint = " Ask for the loss of knowing nothing itself, with fewer places than words."
            said = f"Your guard says {bool(allows)} to {name}; it should say {wanted}."
            raise NotYet(said + hint * (loss_of is loss_over_time))
    return "it lets one loss through and stops three"


CHECKS = {"16.1": _mended, "16.2": _fool, "16.3": _guard}
