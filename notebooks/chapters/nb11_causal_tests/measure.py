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


def scaled(head: Head, factor: float, first: int = 0) -> Edits:
    """Edits that multiply what a head writes, from position `first` on."""
    layer, number = head

    def louder(z):
        z = z.clone()
        z[:, first:, number] *= factor
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


def docstrings_twice(model: Model, n: int = 10, length: int = 40) -> Texts:
    """Segments of docstrings that no model has read, each written twice after BOS."""
    texts = model.tokenizer.encode_many(load_corpus("docstrings", "test", quiet=True).texts)
    segments = [each[:length] for each in texts if len(each) >= length][:n]
    return repeat_segments(torch.stack(segments), model.tokenizer.bos)


def as_long_as(vectors: Float[Tensor, "*n d"], generator: torch.Generator) -> Float[Tensor, "*n d"]:
    """Vectors in random directions, each as long as the given one."""
    drawn = torch.randn(vectors.shape, generator=generator)
    return drawn * vectors.norm(dim=-1, keepdim=True) / drawn.norm(dim=-1, keepdim=True)


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


def threshold_heads(
    model: Model, tokens: Texts
) -> tuple[list[Head], list[Head], Head, Float[Tensor, "reader token"]]:
    """Of two layers: the induction heads, the heads whose constant keeps them on BOS, the
    previous-token head, and by how much those heads together lift BOS for each induction head.

    A constant: the notes of a head of layer 0 lift BOS by 2 or more, as a mean over tokens and
    induction heads. tokens: BOS, then a segment of random tokens twice.
    """
    with torch.no_grad():
        cache = model.run_with_cache(tokens)[1]
    scores = induction_scores(model, tokens)[1]
    readers = [Head(1, h) for h in range(len(scores)) if scores[h] > 0.5]
    earlier = [Head(0, h) for h in range(model.config.n_heads)]
    lift = {w: torch.stack([lifts(model, cache, w, r) for r in readers]) for w in earlier}
    writers = [w for w in earlier if lift[w].mean() >= 2]
    previous = Head(0, int(head_scores(model, tokens, "previous").scores[0].argmax()))
    return readers, writers, previous, sum(lift[w] for w in writers)


def thresholds(model: Model, tokens: Texts, others: Texts) -> dict[str, str]:
    """What a model of two layers keeps on BOS by a constant, and what it costs to take it away.

    See `threshold_heads`. The costs: by how much the loss of the first copy rises, in nats.
    """
    with torch.no_grad():
        reference = model.run_with_cache(others)[1]
    _, writers, previous, _ = threshold_heads(model, tokens)
    whole = copy_losses(model, tokens)[0]

    def cost(heads, way):
        edits = ablate(model, heads, way, reference)
        return f"{round(copy_losses(model, tokens, edits)[0] - whole, 2) + 0.0:.2f}"

    return {
        "heads that write the constant": " ".join(map(str, writers)),
        "first copy without them, zeros": cost(writers, "zero"),
        "first copy without them, mean": cost(writers, "mean"),
        "first copy, zeros, previous-token head out too": cost([*writers, previous], "zero"),
    }
