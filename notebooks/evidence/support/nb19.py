"""Evidence of notebook 19: sides and neighbors taken away, who feeds a head, S1's own score."""

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor, nn

from aot_helpers.base.errors import check_one_of, unknown_name
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
from aot_helpers.showing import plots
from chapters.nb19_induction_both_ways.measure import high_heads, highest
from chapters.nb19_induction_both_ways.repeats import (
    Hidden,
    hide,
    in_copy,
    keys_at,
    logits_of,
    with_random_tokens,
)

AT_ONCE = 16  # texts in one run, where their number is not given by edits
PLACES_NEAR = (1, 2, 3)  # how far a neighbor may be
SIDES = ("both", "before", "after", "neither")


def one_side(hidden: Hidden, side: str, seed: int = 0) -> Hidden:
    """Of the second copy, only what stands on one side of the hidden token; the rest is other.

    side: "before", "after", "both" (nothing is replaced) or "neither" (all of it is). Raises
    ValueError for another.
    """
    if side not in SIDES:
        raise unknown_name("side", side, SIDES)
    at, own = torch.arange(hidden.tokens.shape[1]), hidden.at[:, None]
    lost = {"both": at < 0, "before": at > own, "after": at < own, "neither": at != own}[side]
    return with_random_tokens(hidden, in_copy(hidden, 1) & lost, seed)


def only_neighbors(hidden: Hidden, steps: tuple[int, ...], seed: int = 0) -> Hidden:
    """Of the second copy, only the tokens at these steps from the hidden one; the rest is other."""
    away = torch.arange(hidden.tokens.shape[1]) - hidden.at[:, None]
    kept = torch.isin(away, torch.tensor([0, *steps]))
    return with_random_tokens(hidden, in_copy(hidden, 1) & ~kept, seed)


def hide_more(hidden: Hidden, reach: int) -> Hidden:
    """The tokens up to `reach` on either side of the hidden one are hidden as well."""
    mask = int(hidden.seen[0, hidden.at[0]])
    near = (torch.arange(hidden.tokens.shape[1]) - hidden.at[:, None]).abs() <= reach
    return replace(hidden, seen=hidden.seen.masked_fill(near, mask))


def cross_entropy(
    logits: Float[Tensor, "text pos d_vocab"], tokens: Int[Tensor, "text pos"]
) -> Float[Tensor, "text pos"]:
    """What each token costs, in nats."""
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten(), reduction="none").view_as(tokens)


def all_losses(
    model: Model, hidden: Hidden, edits: Edits | None = None
) -> Float[Tensor, "text pos"]:
    """What the token at every position costs, in nats; all but one of them are visible.

    AT_ONCE texts at a time, to save memory: edits must fit any number of texts.
    """
    losses = []
    for rows in torch.arange(len(hidden.tokens)).split(AT_ONCE):
        some = replace(hidden, tokens=hidden.tokens[rows], seen=hidden.seen[rows])
        logits = logits_of(model, some, edits)
        losses.append(cross_entropy(logits, some.tokens))
    return torch.cat(losses)


def nested_losses(
    model: Model,
    texts: Int[Tensor, "text pos"],
    sizes: list[int],
    mask: int,
    n_hidden: int = 4,
    seed: int = 0,
    edits: Edits | None = None,
) -> Float[Tensor, "size text"]:
    """Mean loss of the same `n_hidden` tokens, hidden at once, in windows of several sizes.

    They stand at random in the smallest window, which begins every larger one. Fewer runs than one
    hidden token at a time. AT_ONCE texts at a time, to save memory: edits must fit any number.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(len(texts), sizes[0] - 1, generator=generator).argsort(dim=1)
    at, found = 1 + order[:, :n_hidden], []
    for size in sizes:
        losses = []
        for some, places in zip(texts[:, :size].split(AT_ONCE), at.split(AT_ONCE), strict=True):
            hidden = Hidden(some, some.scatter(1, places, mask), places[:, 0])
            logits = logits_of(model, hidden, edits)[torch.arange(len(some))[:, None], places]
            losses.append(cross_entropy(logits, some.gather(1, places)).mean(dim=1))
        found.append(torch.cat(losses))
    return torch.stack(found)


def other_ending(
    texts: Int[Tensor, "text pos"], size: int, shift: int = 1
) -> Int[Tensor, "text pos"]:
    """A control: the first `size` tokens of each text, and the rest of another."""
    return torch.cat([texts[:, :size], texts.roll(shift, dims=0)[:, size:]], dim=1)


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


def head_maps(rows: dict[str, dict[str, Float[Tensor, "layer head"]]], title: str) -> Figure:
    """Layer × head maps of attention, {row of panels: {panel: scores}}; a number from 0.10 on."""
    return plots.grids(
        rows,
        title,
        number=".2f",
        least=0.095,
        row_names="L{}",
        column_names="{}",
        cell=(0.37, 0.29),
        note="columns: heads, rows: layers; a number from 0.10 on",
    )
