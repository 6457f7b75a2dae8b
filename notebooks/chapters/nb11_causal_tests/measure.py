"""Notebook 11: heads scaled and taken out, constants and thresholds, texts for them."""

import math
import random
from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.losses import copy_losses
from aot_helpers.models.protocol import Edits, Head, Model
from aot_helpers.reading.heads import head_scores, induction_scores
from aot_helpers.reading.interventions import ABLATIONS, ablate
from aot_helpers.text.batches import repeat_segments
from aot_helpers.text.corpora import load_corpus

Texts = Int[Tensor, "text pos"]


def scaled(head: Head, factor: float) -> Edits:
    """Edits that multiply what a head writes."""
    layer, number = head

    def louder(z):
        z = z.clone()
        z[:, :, number] *= factor
        return z

    return {f"L{layer}.z": louder}


def boxes(model: Model, tokens: Texts, others: Texts, seed: int) -> dict[str, Callable]:
    """Ablations without labels, {"A": box, …}: one by zero, one by the mean, one resampled.

    box(heads) says by how much the losses of both copies rise without the heads; see `copy_losses`.
    """
    with torch.no_grad():
        reference, whole = model.run_with_cache(others)[1], copy_losses(model, tokens)
    ways = random.Random(seed).sample(ABLATIONS, len(ABLATIONS))

    def box(heads, way):
        now = copy_losses(model, tokens, ablate(model, heads, way, reference))
        return tuple(after - before for after, before in zip(now, whole, strict=True))

    return {name: partial(box, way=way) for name, way in zip("ABC", ways, strict=True)}


def docstrings_twice(model: Model, n: int = 10, length: int = 40) -> tuple[Texts, Texts]:
    """Segments of docstrings that no model has read, each written twice after BOS; and others."""
    texts = model.tokenizer.encode_many(load_corpus("docstrings", "test", quiet=True).texts)
    segments = torch.stack([each[:length] for each in texts if len(each) >= length][: 2 * n])
    return repeat_segments(segments, model.tokenizer.bos).split(n)


def lifts(model: Model, cache: dict, writer: Head, reader: Head) -> Float[Tensor, " token"]:
    """By how much the reader's score of BOS rises above that of other keys when the writer, in an
    earlier layer, attends to each token of the vocabulary: through the reader's query alone.

    cache: of a run on texts that begin with BOS. For models without norms and MLPs.
    """
    w, r = model.head_weights(writer), model.head_weights(reader)
    k = cache[f"L{reader.layer}.k"][:, :, reader.head]
    apart = (k[0, 0] - k[:, 1:].mean(dim=(0, 1))) / math.sqrt(k.shape[-1])
    with torch.no_grad():
        return model.W_E @ w.W_V @ w.W_O @ r.W_Q @ apart


def thresholds(model: Model, tokens: Texts, others: Texts, least: float = 2) -> dict[str, str]:
    """What a model of two layers keeps on BOS by a constant, and what it costs to take it away.

    The heads of layer 0 that write it: whose notes lift BOS by `least` or more for the average
    token and induction head. The costs: by how much losses on `tokens` rise, in nats.
    """
    with torch.no_grad():
        cache, reference = (model.run_with_cache(each)[1] for each in (tokens, others))
    scores = induction_scores(model, tokens)[1]
    readers = [Head(1, h) for h in range(len(scores)) if scores[h] > 0.5]
    earlier = [Head(0, h) for h in range(model.config.n_heads)]
    lift = {w: torch.stack([lifts(model, cache, w, r) for r in readers]) for w in earlier}
    writers = [w for w in earlier if lift[w].mean() >= least]
    previous = Head(0, int(head_scores(model, tokens, "previous").scores[0].argmax()))
    whole = copy_losses(model, tokens)

    def cost(heads, way, copy):
        edits = ablate(model, heads, way, reference)
        return f"{round(copy_losses(model, tokens, edits)[copy] - whole[copy], 2) + 0.0:.2f}"

    together = sum(lift[w] for w in writers).mean(dim=0)
    one_out = " ".join(cost([r], "mean", 1) for r in readers)
    return {
        "heads that write the constant": " ".join(map(str, writers)),
        "lift of BOS, average token": f"{together.mean():.1f}",
        "first copy without them, zeros": cost(writers, "zero", 0),
        "first copy without them, mean": cost(writers, "mean", 0),
        "first copy, zeros, previous-token head out too": cost([*writers, previous], "zero", 0),
        "second copy, each induction head out alone": one_out,
        "second copy, both induction heads resampled": cost(readers, "resample", 1),
    }
