"""The exercises of notebook 23: busy without being constant, a neuron as a bias, a layer hushed."""

import torch

from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import compared, draw, read_numbers, read_tensors

NEAR = 0.06  # so near an estimate has to be
LEAST = 3  # so large are the activations of a neuron that is always on


def _busy_but_no_constant(answer):
    """Activations in six texts, none near zero, of which the mean is no better than zero."""
    h = read_numbers(answer, 6)
    if h.abs().min() < LEAST:
        least = h[h.abs().argmin()]
        raise NotYet(f"One of them is {least:g}: each has to be {LEAST} or more in size.")
    left = ((h - h.mean()).square().mean() / h.square().mean()).item()
    if left < 0.95:
        raise NotYet(
            f"Their mean, {h.mean():.2f}, takes away {1 - left:.0%} of the squared error that zero "
            "makes. Where would the mean have to lie, so that it is of no use?"
        )
    return "always active, and never constant: here the mean says no more than zero does"


def into_bias(values, b, neurons, mean):
    """Values and bias of an MLP in which some neurons are gone, their mean contribution in b."""
    left = values.clone()
    left[neurons] = 0
    return left, b + mean[neurons] @ values[neurons]


def _joined(values, b):
    return torch.cat([values, b[None]])


def _replaces(answer):
    values, b, neurons, mean = draw(6, 4), draw(4, seed=1), [4, 1], draw(6, seed=2)
    given = values.clone(), b.clone()
    found = read_tensors(answer(*given, neurons, mean), values=(6, 4), b=(4,))
    if not (torch.equal(given[0], values) and torch.equal(given[1], b)):
        raise NotYet("What you were given has changed: clone it first.")
    left, bias = into_bias(values, b, neurons, mean)
    mistakes = {
        "The neurons still write: set their values to 0.": _joined(values, bias),
        "The bias is the old one: take what the neurons add before you set them to 0.": (
            _joined(left, b)
        ),
        "You add the means of all neurons: the others go on writing by themselves.": (
            _joined(left, b + mean @ values)
        ),
        "Each value is added as many times as its mean activation says, not once.": (
            _joined(left, b + values[neurons].sum(dim=0))
        ),
    }
    compared(_joined(*found), _joined(left, bias), mistakes)
    return "with the new bias this is mean ablation; with the old one, zero ablation"


def _turned_down(answer, quiet, loud):
    """The one number by which a loud layer is multiplied to be as quiet as before."""
    factor = read_numbers(answer).item()
    ratio = (quiet.sum() / loud.sum()).item()
    if factor < 0:
        raise NotYet("With a negative number the layer says the opposite of what it said.")
    if abs(factor - 1 / ratio) < NEAR:
        raise NotYet("This makes a loud layer louder still: which way must the number go?")
    if abs(factor - (1 - ratio)) < NEAR:
        raise NotYet("This is the part that is too much: multiply by the part that shall stay.")
    if abs(factor - ratio) > NEAR:
        raise NotYet(
            f"With {factor:.2f} the sizes add up to {factor * loud.sum():,.0f}, and they were "
            f"{quiet.sum():,.0f} before."
        )
    return f"multiplied by {factor:.2f}, the layer is as loud as before; now see what that costs"


CHECKS = {"23.1": _busy_but_no_constant, "23.2": _replaces, "23.3": _turned_down}
PAGES = {"23.2": into_bias}
