"""The exercises of notebook 05: each answer is tried out."""

import math

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import read_numbers

NAN, WORSE = "nan", "worse than the die"


def _frequencies(tiny, stories, stream):
    tiny, stories = read_numbers(tiny, name="tiny"), read_numbers(stories, name="in_stories")
    if abs(tiny - 1.5 * math.log(2)) > 0.02:
        side = "less" if tiny > 1.5 * math.log(2) else "more"
        raise NotYet(f"The language of three tokens costs {side} than {tiny:.2f}.")
    truth = torch.special.entr(torch.bincount(stream) / len(stream)).sum()
    if abs(stories - truth) > 0.75:
        raise NotYet(
            f"The stories cost {'less' if stories > truth else 'more'} than {stories:.2f}."
        )
    return f"stories: your {stories:.2f}, measured {truth:.2f}"


def _too_fast(first, rate, losses_at):
    if first not in (NAN, WORSE):
        raise NotYet(f"first is one of {NAN!r} and {WORSE!r}, not {first!r}.")
    rate = read_numbers(rate)
    if not 0 < rate <= 1e30:
        raise NotYet(f"A learning rate lies above 0, and here up to 1e30; yours is {rate:g}.")
    losses, die = losses_at(float(rate)), math.log(1024)
    print(f"at {rate:g}:", " ".join(f"{loss:.3g}" for loss in losses[::4]))
    last = sum(losses[-10:]) / 10
    if last < die:
        raise NotYet(
            f"The last ten losses, {last:.2f}, are below the die's: training can live with it."
        )
    bad = next(loss for loss in losses if not loss <= die + 1)  # NaN too
    seen = WORSE if math.isfinite(bad) else NAN
    if first != seen:
        raise NotYet(f"Your rate is too high, but the first bad loss is {bad:.3g}.")


def _rounded(numbers):
    return [round(number, 3) for number in numbers.tolist()]


def _nucleus(keep_top_p, places):
    # places: {what comes before: the probabilities of the next token}
    trials = ([5, 3, 1, 1], 0.7), ([1, 2, 3, 4], 0.8), ([1, 9], 0.5), ([1, 2, 1], 1.0)
    for odds, p in (*trials, ([1, 4, 2, 1], 0.75), ([1, 1, 1, 1], 0.5)):
        shares = torch.tensor(odds) / sum(odds)
        ours = attempted(keep_top_p(shares.clone(), p))
        given = f"{_rounded(shares)} and p = {p}"
        ours = read_numbers(ours, len(odds), name=f"For {given}")
        sums = shares.sort(descending=True).values.cumsum(0)
        n = int((sums < p - 1e-6).sum()) + 1  # of two that tie, either may be kept
        kept = ours != 0
        if kept.sum() != n or abs(shares[kept].sum() - sums[n - 1]) > 1e-5:
            raise NotYet(f"For {given} the {n} likeliest stay, not {_rounded(shares[kept])}.")
        if (ours - shares * kept / sums[n - 1]).abs().max() > 1e-5:
            raise NotYet(
                f"For {given} those kept add up to {ours.sum():.2f}: divide them by their sum."
            )
    left = {text: keep_top_p(shares.clone(), 0.9) for text, shares in places.items()}
    stay = [f"{sum(float(p) > 0 for p in kept)} after {text}" for text, kept in left.items()]
    return f"tokens that stay at p = 0.9: {', '.join(stay)}" if stay else None


CHECKS = {"05.1": _frequencies, "05.2": _too_fast, "05.3": _nucleus}
