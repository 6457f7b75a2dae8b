"""The exercises of notebook 22: hush a neuron, fold a norm, write a story with the wrong answer."""

import torch

from aot_helpers.studies.always_on import Neuron
from aot_helpers.teaching.exercises import Solved

QUIET, LEAST_WORDS = 0.1, 6  # the activation that counts as silence; of a text


def _hushed(answer, model, neuron):
    if not isinstance(answer, str) or len(answer.split()) < LEAST_WORDS:
        return f"Give a text of {LEAST_WORDS} words or more; you give {answer!r}."
    layer, at = Neuron(*neuron)
    tokens = model.tokenizer.encode(answer, bos=True)[None]
    if tokens.shape[1] > model.config.n_ctx:
        return f"Yours has {tokens.shape[1]} tokens; the model sees {model.config.n_ctx}."
    with torch.no_grad():
        hidden = model.run_with_cache(tokens)[1][f"L{layer}.mlp_hidden"][0, -1, at].item()
    if abs(hidden) < QUIET:
        return Solved(f"its activation is {hidden:.2f}")
    return f"Its activation is {hidden:.2f}: {QUIET} or less, by size, counts as silence."


def _folds(answer):
    generator = torch.Generator().manual_seed(22)
    for rows, columns in ((4, 3), (6, 8)):
        shapes = (5, rows), (rows, columns), (columns,)
        x, W, b = (torch.randn(*shape, generator=generator) for shape in shapes)
        gain, bias = torch.randn(2, rows, generator=generator)
        given = answer(gain.clone(), bias.clone(), W.clone(), b.clone())
        if given is None or given is ...:
            return None
        if not isinstance(given, tuple | list) or len(given) != 2:
            return f"Return two tensors, W and b; you return {type(given).__name__}."
        new_W, new_b = given
        shapes = [tuple(getattr(each, "shape", ())) for each in given]
        if shapes != [(rows, columns), (columns,)]:
            return f"For W {[rows, columns]} and b {[columns]}, yours are {shapes}."
        bare = torch.nn.functional.layer_norm(x, (rows,))
        apart = (bare @ new_W + new_b - ((bare * gain + bias) @ W + b)).abs().max().item()
        if apart > 1e-4:
            return f"What the matrix gives is off by {apart:.2f}."
    return ""


def _wrong_giver(answer, model):
    """A story that ends in "to", two names of the reader's, and who gives."""
    try:
        text, giver, taker = answer
        names = [model.tokenizer.encode(" " + name)[0].item() for name in (giver, taker)]
    except (TypeError, ValueError):
        return 'Give three texts: ("… to", who gives, the other one).'
    if not str(text).rstrip().endswith(" to") or any(text.count(n) < 1 for n in (giver, taker)):
        return 'The text has to end in " to" and hold both names as you write them.'
    last = text[text.rstrip()[:-3].rfind(".") + 1 :]
    if giver not in last or taker in last:
        return f"In the last sentence {giver} alone has to stand, as the one who gives."
    if names[0] == names[1]:
        return "The names begin with the same piece: take others."
    with torch.no_grad():
        logits = model(model.tokenizer.encode(text.rstrip(), bos=True)[None])[0, -1]
    lead = (logits[names[0]] - logits[names[1]]).item()
    if lead > 0:
        return Solved(f"it prefers {giver}, who gives, by {lead:.1f}")
    return f"It prefers {taker} by {-lead:.1f}: it should be {giver}, who gives."


CHECKS = {"22.1": _hushed, "22.2": _folds, "22.3": _wrong_giver}
