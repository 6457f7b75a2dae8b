"""Heads and values zero-ablated at the last position, and tokens changed: what a model says then.

The causal tests that VISIT lacks (notebook 20), and the same with norm-matched random vectors: a
sum lies near its largest term, and taking the largest away takes its words along, whatever it is.
What a removal says about heads is only what random vectors do not do as well.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Model
from chapters.nb20_logit_lens.measure import centered, written_by
from chapters.nb20_logit_lens.templates import Prompts, at_last
from evidence.support.nb20.readings import (
    Readings,
    each_head,
    favorites,
    lengths_of,
    overlap,
)
from evidence.support.nb20.stream_vectors import words


class Clean(NamedTuple):
    """What an undisturbed run holds at the last position of each prompt."""

    prompts: Prompts
    logits: Float[Tensor, "prompt d_vocab"]
    z: Float[Tensor, "prompt layer head d_head"]
    keys: Int[Tensor, "prompt layer head rank"]  # with the highest attention
    by_key: Float[Tensor, "prompt layer head key d_head"]  # attention times value: they add up to z
    written: Float[Tensor, "prompt layer d_model"]  # attention outputs

    def of_keys(self, keys: Int[Tensor, "prompt layer head rank"]) -> Tensor:
        """What z holds of the values at some keys: [prompt, layer, head, rank, d_head]."""
        return self.by_key.gather(3, keys[..., None].expand(*keys.shape, self.z.shape[-1]))


@torch.no_grad()
def clean_run(model: Model, prompts: Prompts) -> Clean:
    """One undisturbed run. Raises ValueError for prompts that are too long."""
    found, layers, n_pos = [], range(model.config.n_layers), prompts.tokens.shape[1]
    for _, piece in prompts.pieces(model):
        logits, cache = model.run_with_cache(piece.tokens)
        shares = torch.stack(
            [at_last(cache[f"L{i}.pattern"].transpose(1, 2), piece) for i in layers], dim=1
        )  # [prompt, layer, head, key]
        v = torch.stack([cache[f"L{i}.v"].transpose(1, 2) for i in layers], dim=1)
        room = (0, 0, 0, n_pos - v.shape[3])  # pieces are as long as their longest prompt
        z, written = (
            torch.stack([at_last(cache[f"L{i}.{name}"], piece) for i in layers], dim=1)
            for name in ("z", "attn_out")
        )
        by_key = torch.nn.functional.pad(shares[..., None] * v, room)
        found.append((at_last(logits, piece).clone(), z, favorites(shares)[1], by_key, written))
    return Clean(prompts, *(torch.cat(part) for part in zip(*found, strict=True)))


@torch.no_grad()
def run_with(
    model: Model, prompts: Prompts, layer: int, z: Float[Tensor, "prompt head d_head"]
) -> Float[Tensor, "prompt d_vocab"]:
    """The centered final logits once all heads of a layer have other z at the last position."""
    found = []
    for rows, piece in prompts.pieces(model):

        def edit(old, piece=piece, rows=rows):
            new = old.clone()
            new[torch.arange(len(piece.last)), piece.last] = z[rows]
            return new

        found.append(at_last(model(piece.tokens, edits={f"L{layer}.z": edit}), piece))
    return centered(torch.cat(found))


def mean_of(
    values: Float[Tensor, "prompt d_vocab"], ids: Int[Tensor, "prompt k"]
) -> Float[Tensor, " prompt"]:
    """The mean value of each prompt's tokens; -1 is no token, and none at all is NaN."""
    kept = ids >= 0
    picked = values.gather(-1, ids.clamp(min=0)).masked_fill(~kept, 0)
    return picked.sum(dim=-1) / torch.where(kept.any(-1), kept.sum(-1), torch.nan)


def without(ids: Int[Tensor, "prompt k"], others: Int[Tensor, "prompt k"]) -> Tensor:
    """The ids [prompt, k], those that are among the others as -1."""
    return ids.masked_fill((ids[..., None] == others[..., None, :]).any(-1), -1)


def specific_fall(
    lost: Float[Tensor, "prompt d_vocab"], ids: Int[Tensor, "prompt k"]
) -> dict[str, Float[Tensor, " prompt"]]:
    """How far some words fall ("words"), and the next prompt's without these ("other words")."""
    others = without(ids.roll(1, dims=0), ids)
    return {"words": mean_of(lost, ids), "other words": mean_of(lost, others)}


def random_z(
    model: Model, layer: int, z: Float[Tensor, "prompt head d_head"], draw: torch.Generator
) -> Float[Tensor, "prompt head d_head"]:
    """Random z, of which each head writes a vector as long as from its real z."""
    return as_long(model, layer, torch.randn(z.shape, generator=draw), z)


def as_long(model: Model, layer: int, made: Tensor, real: Tensor) -> Tensor:
    """Made-up z [prompt, head, d_head], of which each head writes as long a vector as of `real`."""
    long, wanted = (written_by(model, layer, z).norm(dim=-1) for z in (made, real))
    return made * (wanted / long.clamp_min(1e-9))[..., None]


def chosen_heads(
    share: Float[Tensor, "prompt head"],
    norms: Float[Tensor, "prompt head"],
    draw: torch.Generator,
) -> dict[str, Bool[Tensor, "prompt head"]]:
    """A quarter of a layer's heads: those that share most, the largest, two draws of others."""
    n = max(1, share.shape[1] // 4)
    order = (share + 1e-6 * torch.rand(share.shape, generator=draw)).argsort(1, descending=True)
    rest = order[:, n:]
    rest = rest.gather(1, torch.rand(rest.shape, generator=draw).argsort(dim=1))
    heads = {
        "sharing": order[:, :n],
        "largest": norms.argsort(dim=1, descending=True)[:, :n],
        "others": rest[:, :n],
        "more others": rest[:, n : 2 * n],
    }
    none = torch.zeros(share.shape, dtype=torch.bool)
    return {said: none.scatter(1, each, True) for said, each in heads.items()}


def heads_off(
    model: Model, clean: Clean, readings: Readings, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 2: a quarter of a layer's heads zero-ablated, chosen in the ways of `chosen_heads`.

    Counted are the attention output's words. The keys are "which, whose words".
    """
    at, draw = readings.layers.index(layer), torch.Generator().manual_seed(seed)
    ids = [readings.ids[name][:, at] for name in ("head", "attention output")]
    return _quarters_off(model, clean, layer, clean.z[:, layer], *ids, draw)


def random_heads_off(
    model: Model, clean: Clean, layer: int, k: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """The same with random vectors: each head writes what a random z gives, with its own norm."""
    draw, z = torch.Generator().manual_seed(seed), clean.z[:, layer]
    made = random_z(model, layer, z, draw)
    parts = written_by(model, layer, made)
    bias = clean.written[:, layer] - written_by(model, layer, z).sum(dim=1)
    ids = [words(model, x, k).ids for x in (parts, parts.sum(dim=1) + bias)]
    return _quarters_off(model, clean, layer, made, *ids, draw)


def _quarters_off(model, clean, layer, z, ids_of_heads, ids, draw) -> dict[str, Tensor]:
    """What goes with a quarter of the heads of a run in which they have these z."""
    share, whole = overlap(ids_of_heads, ids[:, None]), run_with(model, clean.prompts, layer, z)
    norms, found = written_by(model, layer, z).norm(dim=-1), {}
    for said, mask in chosen_heads(share, norms, draw).items():
        left = run_with(model, clean.prompts, layer, z * ~mask[..., None])
        falls = specific_fall(whole - left, ids)
        found |= {f"{said}, {whose}": lost for whose, lost in falls.items()}
    return found


def head_off(
    model: Model, clean: Clean, readings: Readings, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Items 1 and 3: of one head, drawn at random for each prompt, all of z or a part goes.

    Keys are "what is gone, whose words": "head" (words read through W_O, without it, and others),
    "first value" of the key with the highest attention, "last value" of the third.
    """
    rows, draw = torch.arange(len(clean.z)), torch.Generator().manual_seed(seed + layer)
    at = torch.randint(model.config.n_heads, (len(rows),), generator=draw)
    here = rows, readings.layers.index(layer), at
    ids, naked = (readings.ids[name][here] for name in ("head", "head without W_O"))
    z, values = clean.z[rows, layer, at], clean.of_keys(clean.keys)[rows, layer, at]
    gone, found = {"head": z, "first value": values[:, 0], "last value": values[:, -1]}, {}
    for said, part in gone.items():
        lost = _fall(model, clean, layer, at, z, z - part)
        falls = specific_fall(lost, ids)
        if said == "head":
            falls["naked words"] = mean_of(lost, without(naked, ids))
        found |= {f"{said}, {whose}": each for whose, each in falls.items()}
    return found


def random_head_off(
    model: Model, clean: Clean, layer: int, k: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """The same with random vectors in the place of the head.

    "head": a random z; "first value": the sum of two random parts of a z, as long as the head's
    value with the highest attention and as the rest of it, loses the first.
    """
    rows, draw = torch.arange(len(clean.z)), torch.Generator().manual_seed(seed + layer)
    at = torch.randint(model.config.n_heads, (len(rows),), generator=draw)
    z, first = clean.z[:, layer], clean.of_keys(clean.keys)[:, layer, :, 0]
    whole, made, rest = (
        random_z(model, layer, each, draw)[rows, at] for each in (z, first, z - first)
    )
    zero, found = torch.zeros_like(whole), {}
    for said, put, left in (("head", whole, zero), ("first value", made + rest, rest)):
        ids = words(model, (put[:, None] @ model.layer_weights(layer).W_O[at])[:, 0], k).ids
        falls = specific_fall(_fall(model, clean, layer, at, put, left), ids)
        found |= {f"{said}, {whose}": lost for whose, lost in falls.items()}
    return found


def _fall(model, clean, layer, at, put, left) -> Float[Tensor, "prompt d_vocab"]:
    """How far logits fall when the z of each prompt's head `at` goes from `put` to `left`."""
    runs = []
    for each in (put, left):
        z = clean.z[:, layer].clone()
        z[torch.arange(len(z)), at] = each
        runs.append(run_with(model, clean.prompts, layer, z))
    return runs[0] - runs[1]


def value_off(
    model: Model, clean: Clean, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 4: all heads lose the value of one token; does the logit of that token fall?

    The token is the favorite of a head drawn at random; beside it as much of the value of another
    position goes, drawn twice, and the same token is asked for. "more than by lot": how much more
    the own token falls than another prompt's, with the favorite minus with the first draw; "lots
    apart": with the first draw minus with the second.
    """
    n, rows, last = len(clean.z), torch.arange(len(clean.z)), clean.prompts.last
    draw = torch.Generator().manual_seed(seed + layer)
    drawn = torch.randint(model.config.n_heads, (n,), generator=draw)
    favorite = clean.keys[rows, layer, drawn, 0]
    own = clean.prompts.tokens.gather(1, favorite[:, None])
    lots = (torch.rand(3, n, generator=draw)[1:] * (last - 1)).long().clamp(max=last - 2)
    lots = 1 + lots + (1 + lots >= favorite)  # not the first, not the favorite
    whole, falls = clean.by_key[rows, layer, :, favorite], []
    for place in (favorite, *lots):
        part = lengths_of(whole.flatten(1), clean.by_key[rows, layer, :, place].flatten(1))
        left = run_with(model, clean.prompts, layer, clean.z[:, layer] - part.view_as(whole))
        fall = specific_fall(centered(clean.logits) - left, own)
        falls.append(fall["words"] - fall["other words"])
    return {"more than by lot": falls[0] - falls[1], "lots apart": falls[1] - falls[2]}


@torch.no_grad()
def changed_tokens(
    model: Model, clean: Clean, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 5: does a head attend to the word that its query reads as, if it stands there?

    One head, drawn at random for each prompt. The token at its favorite key, other than the first
    and the last, is exchanged for the top word of the query's reading through W_U ("asked for"),
    for the token whose embedding it scores highest ("embedding") and for two random ones. The
    numbers are the attention that the place then gets.
    """
    n, rows = len(clean.z), torch.arange(len(clean.z))
    draw = torch.Generator().manual_seed(seed + layer)
    head = torch.randint(model.config.n_heads, (n,), generator=draw)
    keys = clean.keys[rows, layer, head]
    inner = keys < clean.prompts.last[:, None]
    place = keys.gather(1, inner.float().argmax(dim=1, keepdim=True))[:, 0]
    asked, best, norm = [], [], model.attention_norm(layer)
    for at, piece in clean.prompts.pieces(model):
        cache = model.run_with_cache(piece.tokens)[1]
        query = at_last(each_head(model, cache, "query", layer), piece)
        query = query[torch.arange(len(query)), head[at]]
        asked.append(words(model, query, 1).ids[:, 0])
        scores = [query @ norm(some).T for some in model.W_E.split(4096)]
        best.append(torch.cat(scores, dim=-1).argmax(dim=-1))
    lots = torch.randint(model.config.d_vocab, (2, n), generator=draw)
    new = {"asked for": torch.cat(asked), "embedding": torch.cat(best)}
    new |= {"by lot": lots[0], "by lot again": lots[1]}
    found = {}
    for said, tokens in new.items():
        put = clean.prompts._replace(tokens=clean.prompts.tokens.clone())
        put.tokens[rows, place] = tokens
        weights = []
        for at, piece in put.pieces(model):
            pattern = model.run_with_cache(piece.tokens)[1][f"L{layer}.pattern"].transpose(1, 2)
            weights.append(at_last(pattern, piece)[torch.arange(len(pattern)), head[at], place[at]])
        found[said] = torch.cat(weights).masked_fill(~inner.any(dim=1), torch.nan)
    return found
