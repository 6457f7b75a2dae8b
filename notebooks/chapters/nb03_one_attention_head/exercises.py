"""The exercises of notebook 03: each answer is tried out."""

import torch

from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import read_numbers

ROUNDED = 0.06  # half a decimal, and a little


def _shares(loud, opposite, scores):
    for name, guess, factor in (("W_Q * 10", loud, 10), ("W_Q * -10", opposite, -10)):
        guess = read_numbers(guess, 5, name=name)
        truth = (factor * scores)[2].softmax(dim=-1)
        wrong = (guess - truth).abs()
        if wrong.max() > ROUNDED:
            if abs(guess.sum() - 1) > 0.15:
                raise NotYet(f"{name}: your weights add up to {guess.sum():.2f}, not to 1.")
            worst = int(wrong.argmax())
            more = "more" if truth[worst] > guess[worst] else "less"
            raise NotYet(f"{name}: position {worst} gets {more} than {guess[worst]:.2f}.")


def _leak(last, head, resid):
    last = read_numbers(last, 4)
    size = head(torch.cat([resid[:-1], last[None]]))[2, 2]
    if not size.isfinite():
        raise NotYet("Your numbers are so large that the scores overflow: smaller ones will do.")
    if size.abs() >= 0.01:
        raise NotYet(f"chased still receives the size {size:.3f}.")


def _one_back(bias, scores):
    bias = read_numbers(bias, 5, 5, infinite=True)
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    trials = {"": scores, ", with the scores mirrored": scores.flip(0, 1)}
    trials[", with the scores negated"] = -scores
    for tried, each in trials.items():  # whatever the tokens are
        pattern = (each + bias).masked_fill(future, float("-inf")).softmax(dim=-1)
        broken = pattern.isnan().any(dim=-1)
        if broken.any():
            row = int(broken.int().argmax())
            raise NotYet(
                f"Row {row} of the pattern is NaN (step 5): use large finite numbers instead."
            )
        back = pattern.diagonal(-1)
        if back.min() < 0.95:
            row = int(back.argmin()) + 1
            above = bias.diagonal(1).mean() > bias.diagonal(-1).mean()
            side = " Your diagonal is above the main one: row 1 needs column 0." if above else ""
            raise NotYet(
                f"Position {row} gives position {row - 1} only {back.min():.2f}{tried}.{side}"
            )


CHECKS = {"03.1": _shares, "03.2": _leak, "03.3": _one_back}
