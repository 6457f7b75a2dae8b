"""The exercises of notebook 16: a loss along any axis, one to fool, a prediction, a guard.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

from math import log

import torch
import torch.nn.functional as F

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import draw, read_numbers, read_tensor
from chapters.nb16_too_good.report_model import chance_over_time, floor_over_time, loss_over_time

AXES = ("batch", "position", "vocabulary")


def cross_entropy(logits, targets, axis):
    """Cross-entropy of logits [batch, pos, d_vocab] along an axis; targets [batch, pos]."""
    one_hot = F.one_hot(targets, logits.shape[-1])  # [batch, pos, d_vocab]
    return -(one_hot * logits.log_softmax(dim=axis)).sum(dim=axis).mean()


def may_train(loss_of):
    """True if a loss of logits [batch, pos, d_vocab] and tokens [batch, pos + 1] can be trusted."""
    tokens = torch.randint(50, (2, 8))
    nothing, everything = torch.zeros(2, 7, 50), 100.0 * F.one_hot(tokens[:, 1:], 50)
    right_at_start = abs(loss_of(nothing, tokens) - log(50)) < 1e-3
    return bool(right_at_start and loss_of(everything, tokens) < 1e-3)


PAGES = {"16.1": cross_entropy, "16.4": may_train}


def _along(answer):
    logits, targets = draw(2, 3, 5), torch.tensor([[0, 4, 2], [1, 1, 3]])
    one_hot = F.one_hot(targets, 5)
    for axis, name in reversed([*enumerate(AXES)]):
        found = _tried(answer, f"axis={axis}", logits.clone(), targets.clone(), axis)
        found = read_numbers(attempted(found))
        wanted, shares = cross_entropy(logits, targets, axis), logits.softmax(dim=axis)
        terms = one_hot * shares.log()
        mistakes = {
            "The sign is missing: minus the logarithm.": -wanted,
            "You take the mean over all three axes. Sum along the axis of the softmax first, then "
            "take the mean over the two others.": -terms.mean(),
            "This is the sum; the mean over the two other axes is wanted.": -terms.sum(),
            "You take the mean over the tokens. PyTorch sums along the axis of the softmax and "
            "takes the mean over the two other axes, whichever they are.": -terms.sum() / 6,
            "Take the logarithm of each share before you sum.": -(
                (one_hot * shares).sum(dim=axis).clamp_min(1e-9).log().mean()
            ),
        }
        for other, mean in enumerate(AXES):
            mistakes[f"Your softmax runs along the {mean} axis."] = cross_entropy(
                logits, targets, other
            )
        if abs(found - wanted) > 1e-4:
            for said, wrong in mistakes.items():
                if abs(found - wrong) < 1e-4:
                    raise NotYet(f"With axis={axis} (the {name} axis): {said}")
            said = f"a small example costs {wanted:.4f}; you get {found:.4f}"
            raise NotYet(f"With axis={axis} (the {name} axis) {said}.")
    return "one function, three losses: with axis=2 it is the loss of the next token"


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
    found = read_tensor(found, *shape, name="Logits [pos, d_vocab]", infinite=True)
    if right := int((found.argmax(dim=-1) == targets).sum()):
        said = f"The first guess is right at {right} of {len(targets)} positions"
        raise NotYet(f"{said}; it should be at none.")
    cost = loss_over_time(found[None].double(), targets[None]).item()
    floor, chance = floor_over_time(targets[None], d_vocab), chance_over_time(*shape)
    if not cost <= floor + 0.01 * (chance - floor):
        come = targets.unique()  # tokens; of their columns, how much falls where they come
        shares = [found.softmax(dim=0)[targets == token, token].sum().item() for token in come]
        worst = min(range(len(come)), key=shares.__getitem__)
        raise NotYet(
            f"The report's loss is {cost:.4f}; its floor here is {floor:.4f}. Its softmax runs "
            f"over positions: in the column of token {int(come[worst])}, {shares[worst]:.2f} falls "
            "where this token comes, and it should be all, in equal parts."
        )
    usual = cross_entropy(found[None].double(), targets[None], 2).item()
    return (
        f"the report's loss is {cost:.4f}, its floor, and the next token costs {usual:.0f} nats: "
        "it never asks which token is likelier than another"
    )


def _suspects() -> dict:
    """Losses of logits [batch, pos, d_vocab] and tokens [batch, pos + 1]; one is good."""
    return {
        "the usual loss": lambda logits, tokens: cross_entropy(logits, tokens[:, 1:], 2),
        "the report's loss": lambda logits, tokens: cross_entropy(logits, tokens[:, 1:], 1),
        "a softmax over the batch": lambda logits, tokens: cross_entropy(logits, tokens[:, 1:], 0),
        "a sum over the tokens": lambda logits, tokens: (
            cross_entropy(logits, tokens[:, 1:], 2) * tokens[:, 1:].numel()
        ),
        "targets that are not shifted": lambda logits, tokens: cross_entropy(
            logits, tokens[:, :-1], 2
        ),
    }


def _passes(answer):
    """Which wrong losses cost ln V where a model knows nothing; the answer: their letters."""
    if isinstance(answer, str):
        answer = set(answer.lower()) & set("abcd") or answer
    found = attempted(answer)
    if not isinstance(found, set | list | tuple) or any(
        not isinstance(each, str) or each not in tuple("abcd") for each in found
    ):
        raise NotYet(f'Give the letters of those that pass, such as "ab"; you give {answer!r}.')
    hints = {
        "a": "a passes nowhere: its softmax runs over T positions, not over V tokens.",
        "b": "b passes nowhere: its softmax runs over the texts of a batch, not over V tokens.",
        "c": "c gives ln V times the number of tokens.",
        "d": "One is missing. Logits of zero say the same of the right target and of a wrong one.",
    }
    for letter in "abcd":
        if (letter in found) != (letter == "d"):
            raise NotYet(hints[letter])
    return "d alone: knowing nothing costs ln V whatever the targets are"


def _guard(answer):
    for name, loss_of in _suspects().items():
        found, wanted = attempted(_tried(answer, name, loss_of)), name == "the usual loss"
        try:
            allows = bool(found)
        except (RuntimeError, ValueError):  # of more than one number
            raise NotYet(f"True or False is wanted, got {found!r:.60}.") from None
        if allows != wanted:
            hints = {
                "the report's loss": " Ask for the loss of knowing nothing itself, with fewer "
                "positions than tokens.",
                "targets that are not shifted": " Knowing nothing costs ln V there, too. What "
                "should knowing everything cost?",
            }
            said = f"Your guard says {allows} to {name}; it should say {wanted}."
            raise NotYet(said + hints.get(name, ""))
    return "it lets one loss through and stops four; it takes a millisecond, before the first step"


CHECKS = {"16.1": _along, "16.2": _fool, "16.3": _passes, "16.4": _guard}
