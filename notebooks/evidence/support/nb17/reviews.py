"""Heads that rest, on real reviews: where they wake, and what changes there without them.

`make data WHAT=reviews` measures this, since the reviews are not shipped.
"""

from collections import Counter

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.reading.interventions import ablate
from aot_helpers.text.tokenization import Tokenizer

MODELS = [f"imdb-1l-placed{mlp}{seed}" for mlp in ("", "-mlp") for seed in ("", "-seed1", "-seed2")]
N_REVIEWS, PER_REVIEW = 400, 2  # reviews, and windows of each, from its beginning
AT_ONCE = 100  # windows in a batch
OFTEN = 10  # times that a token is read
RESTS = 0.95  # the least that a resting head gives to BOS away from line breaks


def windows(texts: list[str], tokenizer: Tokenizer, n_ctx: int) -> Int[Tensor, "window n_ctx"]:
    """The first windows of the first reviews that are long enough, each after BOS."""
    length, rows = n_ctx - 1, []
    for text in texts:
        tokens = tokenizer.encode(text)[: PER_REVIEW * length]
        if len(tokens) == PER_REVIEW * length:
            rows.append(tokens.view(PER_REVIEW, length))
        if len(rows) == N_REVIEWS:
            break
    else:
        raise ValueError(f"{len(rows)} reviews are long enough, {N_REVIEWS} are needed: give more")
    read = torch.cat(rows)
    return torch.cat([torch.full((len(read), 1), tokenizer.bos), read], dim=1)


@torch.no_grad()
def to_bos(
    model: AttentionOnlyTransformer, tokens: Int[Tensor, "window pos"]
) -> Float[Tensor, "head window pos"]:
    """What each head of layer 0 gives to BOS, from every token but BOS."""
    some = (model.run_with_cache(each)[1]["L0.pattern"] for each in tokens.split(AT_ONCE))
    return torch.cat([each[:, :, 1:, 0] for each in some]).transpose(0, 1)


@torch.no_grad()
def changes(
    model: AttentionOnlyTransformer, tokens: Int[Tensor, "window pos"], heads: list[int]
) -> tuple[Float[Tensor, "head window pos"], Float[Tensor, "head window next"]]:
    """Without each head, by its mean: how far predictions move (nats), and the loss they add.

    The first for every token but BOS, the second for every next token, so one place less.
    """
    _, cache = model.run_with_cache(tokens)
    edits = [ablate(model, [Head(0, head)], "mean", cache) for head in heads]
    moved, added = [], []
    for some in tokens.split(AT_ONCE):
        whole = model(some)[:, 1:].log_softmax(dim=-1)
        for each in edits:
            other = model(some, edits=each)[:, 1:].log_softmax(dim=-1)
            moved.append((whole.exp() * (whole - other)).sum(dim=-1))
            came = (whole - other)[:, :-1].gather(2, some[:, 2:, None])
            added.append(came[..., 0])
    stacked = (torch.stack(all_, dim=0) for all_ in (moved, added))
    return tuple(
        each.unflatten(0, (-1, len(heads))).transpose(0, 1).flatten(1, 2) for each in stacked
    )


def line_breaks(
    tokens: Int[Tensor, "window pos"], line_break: int
) -> tuple[Bool[Tensor, "window pos"], Bool[Tensor, "window next"]]:
    """Where a line break is read, and where the second one of a blank line is to be predicted."""
    is_break = tokens == line_break
    first = is_break[:, 1:-1] & ~is_break[:, :-2]  # read, with no line break before it
    return is_break[:, 1:], first & is_break[:, 2:]


def where_awake(
    tokens: Int[Tensor, "window pos"], awake: Bool[Tensor, "window pos"], tokenizer: Tokenizer
) -> list[tuple[str, int, int]]:
    """Of the tokens that are read often, those at which a head is awake most: token, times, of."""
    all_, there = (Counter(each.flatten().tolist()) for each in (tokens, tokens[awake]))
    often = [token for token in there if all_[token] >= OFTEN]
    often = sorted(often, key=lambda token: (-there[token] / all_[token], token))[:5]
    names = tokenizer.token_strings(torch.tensor(often, dtype=torch.long))
    return [(name, there[t], all_[t]) for name, t in zip(names, often, strict=True)]


def measured(model: AttentionOnlyTransformer, texts: list[str]) -> dict:
    """What the results file holds of one model of a single layer: its heads, in order.

    Of heads that rest, and of the one that rests least: what changes without them, by place.
    """
    tokenizer = model.tokenizer
    tokens = windows(texts, tokenizer, model.config.n_ctx)
    is_break, second = line_breaks(tokens, int(tokenizer.encode("\n")))
    on_bos = to_bos(model, tokens)
    elsewhere = on_bos[:, ~is_break].mean(dim=1)
    heads = [i for i, share in enumerate(elsewhere) if share >= RESTS or share == elsewhere.min()]
    moved, added = changes(model, tokens, heads)
    rows = [
        {
            "head": str(Head(0, i)),
            "elsewhere": elsewhere[i].item(),
            "at line breaks": on_bos[i][is_break].mean().item(),
        }
        for i in range(len(on_bos))
    ]
    for i, change, cost in zip(heads, moved, added, strict=True):
        awake = (on_bos[i] < 0.5) & ~is_break
        rows[i] |= {
            "change": change.mean().item(),
            "of it at line breaks": (change[is_break].sum() / change.sum()).item(),
            "second line break": cost[second].mean().item(),
            "awake elsewhere": awake.float().mean().item(),
            "wakes at": where_awake(tokens[:, 1:], awake, tokenizer),
        }
    counts = {"tokens": tokens[:, 1:].numel(), "line breaks": int(is_break.sum())}
    return counts | {"blank lines": int(second.sum()), "heads": rows}
