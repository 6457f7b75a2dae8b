"""Notebook 19: what heads attend to from a hidden token, which heads they read, and ablations."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from aot_helpers.base.errors import check_one_of
from aot_helpers.models.losses import repeat_length
from aot_helpers.models.protocol import Edits, Head, Model
from aot_helpers.reading.circuits import check_earlier
from aot_helpers.reading.heads import (
    HEAD_PATTERNS,
    head_output,
    head_scores,
    induction_scores,
    pattern_score,
)
from aot_helpers.reading.interventions import ablate, cut_paths, merge
from chapters.nb19_induction_both_ways.repeats import (
    AT_ONCE,
    Hidden,
    all_losses,
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


def at_place(
    hidden: Hidden, looks: Float[Tensor, "text layer head key"], place: str = "earlier instance"
) -> Float[Tensor, "text layer head"]:
    """Of what `attention_to_all` found, what goes to a place, text by text."""
    keys = keys_at(hidden, place).any(dim=1)  # [text, key]: no other query has any
    return (looks * keys[:, None, None]).sum(dim=-1)


def attention_to(
    model: Model, hidden: Hidden, place: str = "earlier instance", edits: Edits | None = None
) -> Float[Tensor, "text layer head"]:
    """What every head gives from the hidden token to a place, text by text."""
    return at_place(hidden, attention_to_all(model, hidden, edits), place)


@torch.no_grad()
def looks_and_answers(
    model: Model, hidden: Hidden, edits: Edits
) -> tuple[Float[Tensor, "layer head"], float]:
    """Mean attention of every head to the earlier instance, and the share of right answers."""
    rows, found = torch.arange(len(hidden.at)), []

    def keep(logits):
        found.append(logits[rows, hidden.at].argmax(dim=-1) == hidden.answers)
        return logits

    looks = attention_to(model, hidden, edits=merge(edits, {"logits": keep}))
    return looks.mean(dim=0), found[0].float().mean().item()


@torch.no_grad()
def head_outputs(model: Model, tokens: Int[Tensor, "text pos"]) -> dict[str, Tensor]:
    """The output z of all heads on these tokens, by name: the `reference` of many ablations."""
    cache = model.run_with_cache(tokens)[1]
    return {name: value for name, value in cache.items() if name.endswith(".z")}


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


def up_to(scores: dict[int, Tensor], far: int) -> dict[int, Tensor]:
    """Of `neighbor_scores`, those of the places up to so far away."""
    return {step: each for step, each in scores.items() if abs(step) <= far}


def neighbor_heads(
    scores: dict[int, Float[Tensor, "layer head"]], before: int | None = None
) -> dict[Head, tuple[int, float]]:
    """Of `neighbor_scores`, the heads that give HIGH or more to one place: its step, share.

    before: of layers before this one; None is all.
    """
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


def causal_attention_lost(
    model: Model, tokens: Int[Tensor, "text pos"], routes: str = "QK"
) -> dict[str, float]:
    """The same, by route, of a causal model's highest induction head and previous-token heads."""
    reader = highest(induction_scores(model, tokens))
    writers = high_heads(head_scores(model, tokens, "previous").scores[: reader.layer])
    targets, first = HEAD_PATTERNS["induction"](tokens), repeat_length(tokens) + 1

    def share(edits: Edits | None = None) -> Tensor:
        with torch.no_grad():
            pattern = model.run_with_cache(tokens, edits=edits)[1][f"L{reader.layer}.pattern"]
        return pattern_score(pattern, targets, first)[reader.head]

    cuts = {
        route: cut_paths(model, tokens, [(writer, reader, route) for writer in writers], "mean")
        for route in routes
    }
    whole = share()
    return {route: (1 - share(edits) / whole).item() for route, edits in cuts.items()}


def restored(
    model: Model, hidden: Hidden, broken: Hidden, writers: list[Head], reader: Head
) -> Float[Tensor, " writer"]:
    """Patching: of the reader's attention that breaking the text cost, what each writer gives back.

    The model reads the broken text, but one writer writes what it writes on the whole one.
    """

    def share(text: Hidden, edits: Edits | None = None) -> Tensor:
        return attention_to(model, text, edits=edits)[:, reader.layer, reader.head].mean()

    low, high, whole = share(broken), share(hidden), head_outputs(model, hidden.seen)
    patched = [share(broken, ablate(model, [w], "resample", whole)) for w in writers]
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
