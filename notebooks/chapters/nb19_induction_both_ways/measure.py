"""Notebook 19: what heads attend to from a hidden token, which heads they read, and ablations."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.losses import repeat_length
from aot_helpers.models.protocol import Edits, Head, Model
from aot_helpers.reading.heads import (
    HEAD_PATTERNS,
    head_scores,
    induction_scores,
    pattern_score,
)
from aot_helpers.reading.interventions import ablate, cut_paths, merge, patch_heads
from chapters.nb19_induction_both_ways.repeats import (
    AT_ONCE,
    Hidden,
    all_losses,
    hidden_accuracy,
    hide,
    keys_at,
    nested_losses,
)

HIGH = 0.3  # of its attention: what we call a high score, or a neighbor head
PLACES_NEAR = (1, 2, 3)  # how far a neighbor may be


def highest(scores: Float[Tensor, "layer head"]) -> Head:
    """The head with the highest score."""
    return Head(*divmod(int(scores.argmax()), scores.shape[1]))


def high_heads(scores: Float[Tensor, "layer head"], least: float = HIGH) -> list[Head]:
    """The heads whose score is `least` or more."""
    return [Head(*place) for place in (scores >= least).nonzero().tolist()]


@torch.no_grad()
def attention_to_all(
    model: Model, hidden: Hidden, edits: Edits | None = None
) -> Float[Tensor, "text layer head key"]:
    """What every head gives from the hidden token to every position."""
    rows, found = torch.arange(len(hidden.at)), []

    def keep(pattern):  # only these rows, where a cache would hold everything
        found.append(pattern[rows, :, hidden.at].clone())
        return pattern

    names = [f"L{layer}.pattern" for layer in range(model.config.n_layers)]
    model(hidden.seen, edits=merge(edits or {}, dict.fromkeys(names, keep)))
    return torch.stack(found, dim=1)


def attention_to(
    model: Model, hidden: Hidden, place: str = "earlier instance", edits: Edits | None = None
) -> Float[Tensor, "text layer head"]:
    """What every head gives from the hidden token to a place, text by text."""
    keys = keys_at(hidden, place).any(dim=1)  # [text, key]: no other query has any
    return (attention_to_all(model, hidden, edits) * keys[:, None, None]).sum(dim=-1)


@torch.no_grad()
def neighbor_scores(
    model: Model, tokens: Int[Tensor, "text pos"], places: tuple[int, ...] = PLACES_NEAR
) -> dict[int, Float[Tensor, "layer head"]]:
    """{step: mean attention of every head to the token there}; a step back is negative."""
    _, cache = model.run_with_cache(tokens)
    patterns = [cache[f"L{layer}.pattern"] for layer in range(model.config.n_layers)]
    steps = [sign * far for sign in (-1, 1) for far in places]
    return {
        step: torch.stack([p.diagonal(step, dim1=2, dim2=3).mean(dim=(0, 2)) for p in patterns])
        for step in steps
    }


def neighbor_heads(
    model: Model, tokens: Int[Tensor, "text pos"], before: int
) -> dict[Head, tuple[int, float]]:
    """Heads of layers before `before` that give HIGH or more to one place near: its step, share."""
    scores = neighbor_scores(model, tokens)
    most = torch.stack([*scores.values()]).max(dim=0)
    steps = list(scores)
    return {
        head: (steps[int(most.indices[head])], most.values[head].item())
        for head in high_heads(most.values[:before])
    }


def others_like(model: Model, heads: list[Head], seed: int) -> list[Head]:
    """In each layer of the heads, as many others as there are, drawn at random.

    Never one of the heads; where a layer has too few others, all of them.
    """
    generator, chosen = torch.Generator().manual_seed(seed), []
    for layer in sorted({head.layer for head in heads}):
        each = [Head(layer, head) for head in range(model.config.n_heads)]
        free = [head for head in each if head not in heads]
        n = sum(head.layer == layer for head in heads)
        order = torch.randperm(len(free), generator=generator)[:n]
        chosen += [free[i] for i in order.tolist()]
    return chosen


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


def answers_lost(
    model: Model, hidden: Hidden, heads: list[Head], by: str, reference: Int[Tensor, "text pos"]
) -> float:
    """The share of its right answers that the model loses without the heads.

    Raises ValueError for heads that do not exist.
    """
    without = hidden_accuracy(model, hidden, ablate(model, heads, by, reference))
    return 1 - without / max(hidden_accuracy(model, hidden), 1e-9)


def attention_lost(
    model: Model, hidden: Hidden, reader: Head, writers: list[Head], route: str
) -> float:
    """The share of the reader's attention to the earlier instance that is lost without the writers.

    What the writers wrote is taken out of the reader's "Q", "K" or "V"; their mean stays.
    """
    if not writers:
        return 0.0
    cut = cut_paths(model, hidden.seen, [(w, reader, route) for w in writers], "mean")
    with_it, without = (
        attention_to(model, hidden, edits=edits)[:, reader.layer, reader.head].mean()
        for edits in (None, cut)
    )
    return (1 - without / with_it).item()


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


def causal_attention_lost(model: Model, tokens: Int[Tensor, "text pos"], route: str) -> float:
    """The same of a causal model's highest induction head and its previous-token heads."""
    reader = highest(induction_scores(model, tokens))
    previous = head_scores(model, tokens, "previous").scores[: reader.layer]
    paths = [(writer, reader, route) for writer in high_heads(previous)]
    edits = cut_paths(model, tokens, paths, "mean")
    targets, first = HEAD_PATTERNS["induction"](tokens), repeat_length(tokens) + 1
    shares = []
    for each in (None, edits):
        with torch.no_grad():
            pattern = model.run_with_cache(tokens, edits=each)[1][f"L{reader.layer}.pattern"]
        shares.append(pattern_score(pattern, targets, first)[reader.head])
    return (1 - shares[1] / shares[0]).item()


def restored(
    model: Model, hidden: Hidden, broken: Hidden, writers: list[Head], reader: Head
) -> Float[Tensor, " writer"]:
    """Patching: of the reader's attention that breaking the text cost, what each writer gives back.

    The model reads the broken text, but one writer writes what it writes on the whole one.
    """

    def share(text: Hidden, edits: Edits | None = None) -> Tensor:
        return attention_to(model, text, edits=edits)[:, reader.layer, reader.head].mean()

    low, high = share(broken), share(hidden)
    patched = [share(broken, patch_heads(model, hidden.seen, [writer])) for writer in writers]
    return (torch.stack(patched) - low) / (high - low)


@dataclass(frozen=True)
class OwnScore:
    """S1's own score of each text, the shorter context's mean loss minus the longer's, in parts."""

    hidden: Float[Tensor, " text"]
    first: Float[Tensor, " text"]  # the token that begins the text
    visible: Float[Tensor, " text"]  # all others

    @property
    def total(self) -> Float[Tensor, " text"]:
        """The score."""
        return self.hidden + self.first + self.visible

    def share(self) -> float:
        """The hidden token's part of the sizes of the three mean parts."""
        sizes = torch.stack([self.hidden, self.first, self.visible]).mean(dim=1).abs()
        return (sizes[0] / sizes.sum()).item()


def own_score(
    model: Model, texts: Int[Tensor, "text pos"], sizes: tuple[int, int], mask: int, seed: int = 0
) -> OwnScore:
    """S1's score as its code has it: all positions count, and each context hides another token."""
    generator, parts = torch.Generator().manual_seed(seed), []
    for size in sizes:
        at = torch.randint(1, size, (len(texts),), generator=generator)
        losses = all_losses(model, hide(texts[:, :size], at, mask)) / size
        own = losses.gather(1, at[:, None])[:, 0]
        parts.append((own, losses[:, 0], losses[:, 1:].sum(dim=1) - own))
    return OwnScore(*(short - long for short, long in zip(*parts, strict=True)))
