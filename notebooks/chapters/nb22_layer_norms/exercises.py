"""The exercises of notebook 22: a layer norm, a filter in its bias, its steps moved elsewhere."""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, compared, draw, read_numbers
from chapters.nb22_layer_norms import norms

LEFT, KEPT, LONGEST = 0.2, 0.6, 3.0  # of a filter: of its words, of others; its length


def layer_norm(x, gain, bias, eps):
    """X [..., d_model], centered, divided by its standard deviation, times gain, plus bias."""
    centered = x - x.mean(dim=-1, keepdim=True)
    sigma = (centered.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return centered / sigma * gain + bias


def _normed(answer):
    x, gain, bias, eps = 3 * draw(2, 5, 8) + 1, draw(8, seed=1), draw(8, seed=2), 0.5

    def by(sigma, center=True):
        return (x - center * x.mean(dim=-1, keepdim=True)) / sigma * gain + bias

    def wide(**ways):
        return (x.var(dim=-1, keepdim=True, **ways) + eps).sqrt()

    sigma = wide(correction=0)
    mistakes = {
        "You divide by d_model - 1: the variance here is the mean of the squares.": by(wide()),
        "ε is added to the variance, under the root.": by(
            x.std(-1, correction=0, keepdim=True) + eps
        ),
        "ε is missing.": by(x.std(dim=-1, correction=0, keepdim=True)),
        "The input is not centered: subtract its mean first.": by(sigma, center=False),
        "Both means are over the last axis alone, not over texts and positions.": (
            (x - x.mean()) / (x.var(correction=0) + eps).sqrt() * gain + bias
        ),
        "Gain and bias are missing.": (by(sigma) - bias) / gain,
    }
    compared(attempted(answer(x, gain, bias, eps)), layer_norm(x, gain, bias, eps), mistakes)
    return "it agrees with torch.nn.functional.layer_norm; length and mean of x leave no trace"


def _filters(answer, model, norm, stream, words, others):
    """A bias, alone in a norm: of `words` little is left, and of `others` much."""
    bias = read_numbers(answer, model.config.d_model)
    if bias.norm() > LONGEST + 1e-4:
        raise NotYet(f"Its length is {bias.norm():.1f}: {LONGEST:.0f} is the most.")
    with norms.changed(norm, torch.ones_like(bias), bias):
        real, made_up = (norms.change(model, norm, x) for x in (stream, norms.isotropic(stream)))
    left, of_made_up, kept = real.kept(words), made_up.kept(words), real.kept(others)
    said = f"{left:.2f} for texts, {of_made_up:.2f} for random vectors"
    if left > 1:
        raise NotYet(f"Your words rise ({said}): which sign has a bias that lowers them?")
    if max(left, of_made_up) > LEFT:
        raise NotYet(f"Of your words is left: {said}; {LEFT} is the most.")
    if kept < KEPT:
        raise NotYet(f"Of the function words only {kept:.2f} is left: lower your words alone.")
    return f"of these words is left {said}; of the function words {kept:.2f}"


def fold(gain, bias, W, b):
    """The matrix and the bias that read a norm without its gain and bias as W and b read it."""
    return gain[:, None] * W, b + bias @ W


def _joined(pair):
    return torch.cat([pair[0], pair[1][None]])


def _folds(answer):
    sizes = ((4, 3), (6, 8))
    trials = [(draw(d), draw(d, seed=1), draw(d, m, seed=3), draw(m, seed=2)) for d, m in sizes]
    given, shapes = attempted(answer(*trials[0])), [(4, 3), (3,)]
    if not isinstance(given, tuple) or [getattr(x, "shape", ()) for x in given] != shapes:
        raise NotYet("For W [4, 3] and b [3], return a W and a b of these shapes, as a tuple.")
    mistakes = {
        "The bias of the norm is missing: what does bias @ W add?": (
            lambda gain, bias, W, b: _joined((gain[:, None] * W, b))
        ),
        "bias goes through W as it stands, without the gain.": (
            lambda gain, bias, W, b: _joined((gain[:, None] * W, b + bias * gain @ W))
        ),
    }
    check = against(lambda *parts: _joined(fold(*parts)), trials, mistakes)
    check(lambda *parts: _joined(answer(*parts)))
    return "whatever a gain and a bias seem to do, the next matrix can do instead"


def center(W):
    """W [m, d_model] without the part of z @ W that a layer norm removes."""
    return W - W.mean(dim=-1, keepdim=True)


def _centers(answer):
    W = draw(3, 6) + 1
    mistakes = {
        "You center the columns. What is written is a sum of rows: each row needs the mean 0.": (
            W - W.mean(dim=0)
        ),
        "You subtract one number everywhere: each row has a mean of its own.": W - W.mean(),
    }
    compared(answer(W), center(W), mistakes)
    return "behind such a matrix the norm finds nothing to center"


CHECKS = {"22.1": _normed, "22.2": _filters, "22.3": _folds, "22.4": _centers}
PAGES = {"22.1": layer_norm, "22.3": fold, "22.4": center}
