"""The exercises of notebook 23: count active neurons, replace one, build one, hush a layer."""

import torch
from torch.nn.functional import gelu

from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import compared, draw, read_numbers, read_tensors

NEAR = 0.06  # so near an estimate has to be


def how_often(hidden, k):
    """The share of texts [text, neuron] in which each neuron is among the k largest by size."""
    top = hidden.abs().topk(k, dim=-1).indices
    return torch.zeros_like(hidden).scatter(-1, top, 1.0).mean(dim=0)


def _counts(answer):
    hidden = draw(20, 12)
    right = how_often(hidden, 3)
    mistakes = {
        "A strongly negative activation is active, too: compare sizes.": torch.zeros_like(hidden)
        .scatter(-1, hidden.topk(3, dim=-1).indices, 1.0)
        .mean(dim=0),
        "You count; divide by the number of texts.": 20 * right,
        "You take the k largest of a neuron over texts: take the k largest of a text.": (
            torch.zeros_like(hidden).scatter(0, hidden.abs().topk(3, dim=0).indices, 1.0).mean(0)
        ),
    }
    compared(answer(hidden, 3), right, mistakes)
    return f"random numbers come near chance, 3 / 12 (here {right.max():.2f} at most)"


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


def into_neuron(W_in, b_in, values, b, act):
    """An MLP with one neuron more, which is always on and does the work of the bias b."""
    reads = torch.cat([W_in, torch.zeros(1, W_in.shape[1])])  # no token changes its activation
    biases = torch.cat([b_in, torch.ones(1)])
    value = b / act(torch.ones(1))  # the activation, times this, is b
    return reads, biases, torch.cat([values, value[None]]), torch.zeros_like(b)


def _builds(answer):
    W_in, b_in, values, b = draw(6, 4), draw(6, seed=1), draw(6, 4, seed=2), draw(4, seed=3)
    found = answer(W_in, b_in, values, b, gelu)
    found = read_tensors(found, W_in=(7, 4), b_in=(7,), values=(7, 4), b=(4,))  # a neuron more
    for given, new in zip((W_in, b_in, values), found, strict=False):
        if not torch.equal(given, new[:-1]):
            raise NotYet("The neurons that were there stay as they are; put the new one last.")
    if found[3].any():
        raise NotYet("The MLP still has its bias: return zeros for b.")
    if found[0][-1].any():
        raise NotYet("The new neuron reads the stream: a constant must not. Which weights read?")
    x = draw(9, 4, seed=4)
    old, new = _mlp(x, W_in, b_in, values, b, gelu), _mlp(x, *found, gelu)
    undivided = _mlp(x, *found[:2], torch.cat([values, b[None]]), found[3], gelu)
    mistakes = {
        "Its activation is not 1: divide its value by what act makes of its bias.": undivided
    }
    compared(new, old, mistakes)
    return "the two MLPs agree on every input, so that one neuron is all that a bias takes"


def _mlp(x, W_in, b_in, values, b, act):
    return act(x @ W_in.T + b_in) @ values + b


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


CHECKS = {"23.1": _counts, "23.2": _replaces, "23.3": _builds, "23.4": _turned_down}
PAGES = {"23.1": how_often, "23.2": into_bias, "23.3": into_neuron}
