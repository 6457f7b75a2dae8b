"""The exercises of notebook 22: hush a neuron, fold a norm, write a story with the wrong answer."""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from chapters.nb22_norms_neurons_names.always_on import Neuron

QUIET, LOUD = 0.1, 3.0  # activations that count as silence, and as loud
LEAST_WORDS, LEAST_LETTERS = 6, 4  # of a text, of its last word


def _hushed(answer, model, neuron):
    """Two texts with different last words: the neuron is silent after one, loud after the other."""
    pair = answer if isinstance(answer, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(text, str) for text in pair):
        raise NotYet(f'Give two texts, ("silent …", "loud …"); you give {answer!r}.')
    (*start, quiet), (*same, loud) = ((text.split() or [""]) for text in pair)
    if start != same or len(start) < LEAST_WORDS - 1:
        raise NotYet(
            f"Of {LEAST_WORDS} words or more, all but the last have to be the same in both."
        )
    for last in (quiet, loud):
        if not last.isalpha() or len(last) < LEAST_LETTERS:
            raise NotYet(
                f"The last words have {LEAST_LETTERS} letters or more, and only letters: {last}."
            )
    found = []
    for text in pair:
        tokens = model.tokenizer.encode(text, bos=True)[None]
        if tokens.shape[1] > model.config.n_ctx:
            raise NotYet(
                f"Yours has {tokens.shape[1]} tokens; the model sees {model.config.n_ctx}."
            )
        layer, at = Neuron(*neuron)
        with torch.no_grad():
            hidden = model.run_with_cache(tokens)[1][f"L{layer}.mlp_hidden"]
        found.append(hidden[0, -1, at].item())
    said = f"{found[0]:.2f} after {quiet!r}, {found[1]:.2f} after {loud!r}"
    if found[0] <= QUIET and found[1] >= LOUD:
        return said
    raise NotYet(f"It is {said}: {QUIET} or less is silent, {LOUD} or more is loud.")


def _folds(answer):
    generator = torch.Generator().manual_seed(22)
    for rows, columns in ((4, 3), (6, 8)):
        shapes = (5, rows), (rows, columns), (columns,)
        x, W, b = (torch.randn(*shape, generator=generator) for shape in shapes)
        gain, bias = torch.randn(2, rows, generator=generator)
        try:
            given = answer(gain.clone(), bias.clone(), W.clone(), b.clone())
        except (RuntimeError, TypeError) as error:
            sizes = f"gain and bias [{rows}], W [{rows}, {columns}], b [{columns}]"
            raise NotYet(
                f"With {sizes} your function stops: {str(error).splitlines()[0]}."
            ) from None
        attempted(given)
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise NotYet(f"Return two tensors, W and b; you return {type(given).__name__}.")
        new_W, new_b = given
        shapes = [tuple(getattr(each, "shape", ())) for each in given]
        if shapes != [(rows, columns), (columns,)]:
            raise NotYet(f"For W {[rows, columns]} and b {[columns]}, yours are {shapes}.")
        bare = torch.nn.functional.layer_norm(x, (rows,))
        apart = (bare @ new_W + new_b - ((bare * gain + bias) @ W + b)).abs().max().item()
        if apart > 1e-4:
            raise NotYet(f"What the matrix gives is off by {apart:.2f}.")


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
