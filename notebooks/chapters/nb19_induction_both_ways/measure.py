"""Notebook 19: heads that attend to a copy, what they lose by cut paths, and what they gain."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from aot_helpers.base.errors import check_one_of
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.circuits import check_earlier
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.interventions import ablate
from chapters.nb19_induction_both_ways.repeats import AT_ONCE, Hidden, keys_at, nested_losses

HIGH = 0.3  # of its attention: what we call a high score, or a neighbor head


def highest(scores: Float[Tensor, "layer head"]) -> Head:
    """The head with the highest score."""
    return Head(*divmod(int(scores.argmax()), scores.shape[1]))


def high_heads(scores: Float[Tensor, "layer head"], least: float = HIGH) -> list[Head]:
    """The heads whose score is `least` or more."""
    return [Head(*place) for place in (scores >= least).nonzero().tolist()]


def later_others(
    model: Model, heads: list[Head], n: int | None = None, seed: int = 0
) -> list[Head]:
    """The heads after layer 0 that are not among the heads: all, or n of them drawn at random."""
    n_layers, n_heads = model.config.n_layers, model.config.n_heads
    every = [Head(layer, head) for layer in range(1, n_layers) for head in range(n_heads)]
    free = [head for head in every if head not in heads]
    if n is None:
        return free
    order = torch.randperm(len(free), generator=torch.Generator().manual_seed(seed))
    return [free[i] for i in order[:n].tolist()]


@torch.no_grad()
def attention_lost(
    model: Model, hidden: Hidden, reader: Head, cuts: list[tuple[list[Head], str]]
) -> list[float]:
    """The share of the reader's attention to the earlier instance that is lost by each cut.

    A cut is (writers, route): what the writers wrote is taken out of the reader's "Q" or "K"; their
    mean stays. One run serves all cuts, because without layer norm a score is linear in what its
    query reads, and in what its key reads. Raises ValueError for other routes and for a model that
    is causal or has layer norms.
    """
    layer, head = reader
    if model.config.causal or not isinstance(model.attention_norm(layer), nn.Identity):
        raise ValueError("this model is causal or has layer norms: cut its paths by cut_paths")
    cache, rows = model.run_with_cache(hidden.seen)[1], torch.arange(len(hidden.at))
    scores = cache[f"L{layer}.scores"][rows, head, hidden.at]  # [text, key]
    q, k = cache[f"L{layer}.q"][rows, hidden.at, head], cache[f"L{layer}.k"][:, :, head]
    W, earlier = model.head_weights(reader), keys_at(hidden, "earlier instance").any(dim=1)
    whole, lost = scores.softmax(dim=-1)[earlier].mean(), []
    for writers, route in cuts:
        check_one_of("route", route, ("Q", "K"))
        wrote = torch.zeros_like(cache["embed"])
        for writer in writers:
            check_earlier(writer, reader)
            wrote = wrote + head_output(model, cache, writer)
        wrote = wrote - wrote.mean(dim=(0, 1))
        q_less = wrote[rows, hidden.at] @ W.W_Q if route == "Q" else q
        k_less = wrote @ W.W_K if route == "K" else k
        less = torch.einsum("td,tkd->tk", q_less, k_less) / math.sqrt(model.config.d_head)
        lost.append(1 - ((scores - less).softmax(dim=-1)[earlier].mean() / whole).item())
    return lost


def context_gain(
    model: Model,
    texts: Int[Tensor, "text pos"],
    sizes: tuple[int, int],
    mask: int,
    without: list[Head] | None = None,
    seed: int = 0,
) -> Float[Tensor, " text"]:
    """How much less hidden tokens cost in the longer context, in nats, text by text.

    without: heads replaced by their mean over the first AT_ONCE of these texts, in both contexts.
    """
    edits = ablate(model, without, "mean", texts[:AT_ONCE]) if without else None
    short, long = nested_losses(model, texts, list(sizes), mask, seed=seed, edits=edits)
    return short - long
