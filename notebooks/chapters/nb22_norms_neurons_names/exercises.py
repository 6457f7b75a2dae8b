"""The exercises of notebook 22: hush a neuron, fold a norm, write a story with the wrong answer."""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw

QUIET, LOUD = 0.1, 3.0  # activations that count as silence, and as loud
LEAST_WORDS, LEAST_LETTERS = 6, 4  # of a text, of its last word


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


def _wrong_giver(answer, model):
    """A story that ends in "to", who gives, and the other one, who is named more often."""
    try:
        text, giver, taker = answer
        names = [model.tokenizer.encode(" " + name)[0].item() for name in (giver, taker)]
    except (TypeError, ValueError):
        raise NotYet('Give three texts: ("… to", who gives, the other one).') from None
    if not str(text).rstrip().endswith(" to") or any(text.count(n) < 1 for n in (giver, taker)):
        raise NotYet('The text has to end in " to" and hold both names as you write them.')
    last = text[text.rstrip()[:-3].rfind(".") + 1 :]
    if giver not in last or taker in last:
        raise NotYet(f"In the last sentence {giver} alone has to stand, as the one who gives.")
    if (often := text.count(giver)) >= text.count(taker):
        raise NotYet(f"{giver} stands there {often} times: {taker} has to be named more often.")
    if names[0] == names[1]:
        raise NotYet("The names begin with the same piece: take others.")
    with torch.no_grad():
        logits = model(model.tokenizer.encode(text.rstrip(), bos=True)[None])[0, -1]
    lead = (logits[names[0]] - logits[names[1]]).item()
    if lead > 0:
        return f"it prefers {giver}, who gives, by {lead:.1f}"
    raise NotYet(f"It prefers {taker} by {-lead:.1f}: it should be {giver}, who gives.")


CHECKS = {"22.1": _hushed, "22.2": _folds, "22.3": _wrong_giver}
