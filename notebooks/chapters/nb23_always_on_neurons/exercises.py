"""The exercises of notebook 23: count active neurons, replace one, build one, hush a layer."""

import torch
from torch.nn.functional import gelu, normalize

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


def into_neuron(W_in, values, b, act, x):
    """An MLP without biases, and one neuron more that adds b to every text of x [text, d_model]."""
    always = torch.linalg.lstsq(x, torch.ones(len(x), 1)).solution.T  # x @ always.T is 1 in each
    value = b / act(torch.ones(1))  # the activation, times this, is b
    return torch.cat([W_in, always]), torch.cat([values, value[None]])


def _alike(n, seed):
    """Texts [n, 4] that differ in all directions but one, in which each of them is 2."""
    x, shared = draw(n, 4, seed=seed), normalize(draw(4, seed=5), dim=0)
    return x + (2 - x @ shared)[:, None] * shared


def _builds(answer):
    W_in, values, b = draw(6, 4), draw(6, 4, seed=1), draw(4, seed=2)
    given, x = (W_in.clone(), values.clone()), _alike(9, seed=4)  # other texts than those given
    found = answer(*given, b, gelu, _alike(40, seed=3))
    found = read_tensors(found, W_in=(7, 4), values=(7, 4))  # a neuron more
    for before, new in zip((W_in, values), found, strict=True):
        if not torch.equal(before, new[:-1]):
            raise NotYet("The neurons that were there stay as they are; put the new one last.")
    if not found[0][-1].any():
        raise NotYet("The new neuron reads nothing, so its activation is act(0), which is 0.")
    read = x @ found[0][-1]
    if read.max() - read.min() > 1e-3:
        raise NotYet(
            f"In other texts the new neuron reads {read.min():.2f} to {read.max():.2f}: it needs a "
            "mix of entries that is the same number in all of them."
        )
    old, new = _mlp(x, W_in, values, gelu) + b, _mlp(x, *found, gelu)
    mistakes = {
        "Its activation is not 1: divide b by what act makes of the number that it reads.": (
            _mlp(x, found[0], torch.cat([values, b[None]]), gelu)
        ),
        "It adds nothing: what is its output vector?": _mlp(x, W_in, values, gelu),
    }
    compared(new, old, mistakes)
    return "in new texts it adds b as well: what all inputs share is all that a bias takes"


def _mlp(x, W_in, values, act):
    return act(x @ W_in.T) @ values


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
