"""The exercises of notebook 23: count how often a neuron is active, hold it, hush it."""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw

QUIET, LOUD = 0.1, 3.0  # activations that count as silence, and as loud
LEAST_WORDS, LEAST_LETTERS = 6, 4  # of a text, of its last word


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


def hold(hidden, neurons, values):
    """Activations [text, pos, neuron] with the neurons held at values."""
    hidden = hidden.clone()
    hidden[..., neurons] = values
    return hidden


def _holds(answer):
    hidden, neurons, values = draw(2, 3, 6), [4, 1], torch.tensor([0.5, -2.0])
    given = hidden.clone()
    found = attempted(answer(given, neurons, values))
    if not torch.equal(given, hidden):
        raise NotYet("The activations that you were given have changed: clone them first.")
    added = hidden.clone()
    added[..., neurons] += values
    at_end = hidden.clone()
    at_end[:, -1, neurons] = values
    mistakes = {
        "You add the values: set the neurons to them.": added,
        "You hold them at the last position only: at every position, please.": at_end,
    }
    compared(found, hold(hidden, neurons, values), mistakes)
    return "with values 0 this is zero ablation, with the means over texts it is mean ablation"


def _hushed(answer, model, neuron):
    """Two texts with different last words: the neuron is silent after one, loud after the other."""
    if not isinstance(answer, tuple | list) or list(map(type, answer)) != [str, str]:
        raise NotYet(f'Give two texts, ("silent …", "loud …"); you give {answer!r}.')
    (*start, quiet), (*same, loud) = ((text.split() or [""]) for text in answer)
    if start != same or len(start) < LEAST_WORDS - 1:
        raise NotYet(
            f"Of {LEAST_WORDS} words or more, all but the last have to be the same in both."
        )
    for last in (quiet, loud):
        if not last.isalpha() or len(last) < LEAST_LETTERS:
            raise NotYet(
                f"The last words have {LEAST_LETTERS} letters or more, and only letters: {last}."
            )
    layer, at = neuron
    found = []
    for text in answer:
        _, cache = model.run_with_cache(model.tokenizer.encode(text, bos=True)[None])
        found.append(cache[f"L{layer}.mlp_hidden"][0, -1, at].item())
    said = f"{found[0]:.2f} after {quiet!r}, {found[1]:.2f} after {loud!r}"
    if found[0] <= QUIET and found[1] >= LOUD:
        return said
    raise NotYet(f"It is {said}: {QUIET} or less is silent, {LOUD} or more is loud.")


CHECKS = {"23.1": _counts, "23.2": _holds, "23.3": _hushed}
PAGES = {"23.1": how_often, "23.2": hold}
