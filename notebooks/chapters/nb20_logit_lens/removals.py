"""What a model says once a head or a value is taken away at the last position, or a word exchanged.

The causal tests that VISIT lacks (notebook 20); what random vectors do in the same places is in
`lens_controls`.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.logit_lens import lens, read, words
from chapters.nb20_logit_lens.readings import Readings, favorites, overlap
from chapters.nb20_logit_lens.templates import Prompts, at_last

LOTS = ("", ", value by lot", ", again")


class Clean(NamedTuple):
    """What an undisturbed run holds at the last position of each prompt."""

    prompts: Prompts
    logits: Float[Tensor, "prompt d_vocab"]
    z: Float[Tensor, "prompt layer head d_head"]
    parts: Float[Tensor, "prompt layer head rank d_head"]  # attention times value, top keys first
    keys: Int[Tensor, "prompt layer head rank"]
    by_key: list[Float[Tensor, "piece layer pos head d_head"]]  # the same of every key, by piece
    written: Float[Tensor, "prompt layer d_model"]  # attention outputs
    left: Float[Tensor, "prompt layer d_model"]  # block outputs


def clean_run(model: Model, prompts: Prompts) -> Clean:
    """One undisturbed run. Raises ValueError for prompts that are too long."""
    found, by_key, n_layers = [], [], model.config.n_layers
    with torch.no_grad():
        for _, piece in prompts.pieces(model):
            logits, cache = model.run_with_cache(piece.tokens)
            shares = torch.stack(
                [at_last(cache[f"L{i}.pattern"].transpose(1, 2), piece) for i in range(n_layers)], 1
            )  # [prompt, layer, head, key]
            v = torch.stack([cache[f"L{i}.v"] for i in range(n_layers)], dim=1)
            all_parts = shares.transpose(2, 3)[..., None] * v  # [prompt, layer, key, head, d_head]
            keys = favorites(shares)[1]
            at = keys[..., None].expand(*keys.shape, v.shape[-1])
            rows = {
                "z": [at_last(cache[f"L{i}.z"], piece) for i in range(n_layers)],
                "written": [at_last(cache[f"L{i}.attn_out"], piece) for i in range(n_layers)],
                "left": [
                    at_last(read(model, cache, "block output", Head(i, 0)), piece)
                    for i in range(n_layers)
                ],
            }
            rows = {name: torch.stack(each, dim=1) for name, each in rows.items()}
            rows |= {"parts": all_parts.transpose(2, 3).gather(3, at), "keys": keys}
            found.append(rows | {"logits": at_last(logits, piece).clone()})
            by_key.append(all_parts)
    joined = {name: torch.cat([each[name] for each in found]) for name in found[0]}
    return Clean(prompts=prompts, by_key=by_key, **joined)


def centered(logits: Float[Tensor, "*places d_vocab"]) -> Float[Tensor, "*places d_vocab"]:
    """Logits from their mean over the vocabulary: all that a softmax sees of them."""
    return logits - logits.mean(dim=-1, keepdim=True)


def edited(model: Model, prompts: Prompts, name: str, change: Callable[[Tensor, slice], Tensor]):
    """(piece, rows, logits, cache) of each piece, an activation changed at the last position.

    change: of the activation there, [row, …], and the rows of these prompts, its new value.
    """
    for rows, piece in prompts.pieces(model):

        def edit(old, piece=piece, rows=rows):
            new, at = old.clone(), (torch.arange(len(piece.last)), piece.last)
            new[at] = change(old[at], rows)
            return new

        with torch.no_grad():
            run = model.run_with_cache(piece.tokens, edits={name: edit})
        yield piece, rows, *run


def run_with(
    model: Model, prompts: Prompts, layer: int, z: Float[Tensor, "prompt head d_head"]
) -> Float[Tensor, "prompt d_vocab"]:
    """The centered final logits once all heads of a layer hand on other z at the last position."""
    runs = edited(model, prompts, f"L{layer}.z", lambda old, rows: z[rows])
    return torch.cat([centered(at_last(logits, piece)) for piece, _, logits, _ in runs])


def fall(
    model: Model, clean: Clean, name: str, part: Tensor, ids: dict[str, Tensor]
) -> dict[str, Float[Tensor, " prompt"]]:
    """How far the mean logit of some tokens falls when a part of an activation is taken away.

    name: the activation, such as "L1.z"; part: what is subtracted at the last position, [prompt,
    …]. ids: {name: tokens [prompt, k]}, where -1 is none. Logits are centered: the model's own, and
    under "name, here" those of the lens on the layer's output.
    """
    layer = int(name[1 : name.index(".")])
    found = {said: [] for each in ids for said in (each, f"{each}, here")}
    changed = edited(model, clean.prompts, name, lambda old, rows: old - part[rows])
    for piece, rows, logits, cache in changed:
        before, after = clean.logits[rows], at_last(logits, piece)
        here = at_last(read(model, cache, "block output", Head(layer, 0)), piece)
        lost = centered(before) - centered(after)
        lost_here = centered(lens(model, clean.left[rows, layer])) - centered(lens(model, here))
        for each, tokens in ids.items():
            found[each].append(mean_of(lost, tokens[rows]))
            found[f"{each}, here"].append(mean_of(lost_here, tokens[rows]))
    return {said: torch.cat(each) for said, each in found.items()}


def mean_of(
    values: Float[Tensor, "prompt d_vocab"], ids: Int[Tensor, "prompt k"]
) -> Float[Tensor, " prompt"]:
    """The mean value of each prompt's tokens; -1 is no token, and none at all is NaN."""
    kept = ids >= 0
    picked = values.gather(-1, ids.clamp(min=0)).masked_fill(~kept, 0)
    return picked.sum(dim=-1) / torch.where(kept.any(-1), kept.sum(-1), torch.nan)


def other_words(ids: Int[Tensor, "prompt k"]) -> Int[Tensor, "prompt k"]:
    """The next prompt's words without those of this one (-1): as frequent, but not its own."""
    theirs = ids.roll(1, dims=0)
    return theirs.masked_fill((theirs[..., None] == ids[..., None, :]).any(-1), -1)


def chosen_heads(
    share: Float[Tensor, "prompt head"],
    norms: Float[Tensor, "prompt head"],
    draw: torch.Generator,
) -> dict[str, Bool[Tensor, "prompt head"]]:
    """A quarter of a layer's heads: those that share most, the largest, two draws of others."""
    n, n_heads = max(1, share.shape[1] // 4), share.shape[1]
    order = (share + 1e-6 * torch.rand(share.shape, generator=draw)).argsort(1, descending=True)
    rest = order[:, n:]
    rest = rest.gather(1, torch.rand(rest.shape, generator=draw).argsort(dim=1))
    heads = {
        "sharing": order[:, :n],
        "largest": norms.argsort(dim=1, descending=True)[:, :n],
        "others": rest[:, :n],
        "more others": rest[:, n : 2 * n],
    }
    none = torch.zeros(len(share), n_heads, dtype=torch.bool)
    return {said: none.scatter(1, each, True) for said, each in heads.items()}


def specific_fall(
    lost: Float[Tensor, "prompt d_vocab"], ids: Int[Tensor, "prompt k"]
) -> dict[str, Float[Tensor, " prompt"]]:
    """How far some words fall ("words"), and another prompt's ("other words")."""
    return {"words": mean_of(lost, ids), "other words": mean_of(lost, other_words(ids))}


def heads_off(
    model: Model, clean: Clean, readings: Readings, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 2: a quarter of a layer's heads set to zero, chosen in the ways of `chosen_heads`.

    Counted are the attention output's words. The keys are "which, whose words".
    """
    at, z = readings.layers.index(layer), clean.z[:, layer]
    ids = readings.ids["attention output"][:, at]
    share = overlap(readings.ids["head"][:, at], ids[:, None])
    draw, found = torch.Generator().manual_seed(seed), {}
    for said, mask in chosen_heads(share, readings.numbers["norm"][:, at], draw).items():
        left = run_with(model, clean.prompts, layer, z * ~mask[..., None])
        for whose, lost in specific_fall(centered(clean.logits) - left, ids).items():
            found[f"{said}, {whose}"] = lost
    return found


def head_off(
    model: Model, clean: Clean, readings: Readings, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Items 1 and 3: one head, drawn by lot for each prompt, goes as a whole or in part.

    Keys are "what is gone, whose words": "head" (words read through W_O, without it, and others),
    "first value" of the key with the highest attention, "last value" of the third.
    """
    n, rows = len(clean.z), torch.arange(len(clean.z))
    draw, here = torch.Generator().manual_seed(seed + layer), readings.layers.index(layer)
    at = torch.randint(model.config.n_heads, (n,), generator=draw)
    own = readings.ids["head"][rows, here, at]
    naked = readings.ids["head without W_O"][rows, here, at]
    naked = naked.masked_fill((naked[..., None] == own[..., None, :]).any(-1), -1)
    parts, found = clean.parts[rows, layer, at], {}
    gone = {"head": clean.z[rows, layer, at]}
    gone |= {"first value": parts[:, 0], "last value": parts[:, -1]}
    for said, part in gone.items():
        left = clean.z[:, layer].clone()
        left[rows, at] -= part
        lost = centered(clean.logits) - run_with(model, clean.prompts, layer, left)
        falls = specific_fall(lost, own)
        if said == "head":
            falls["naked words"] = mean_of(lost, naked)
        found |= {f"{said}, {whose}": each for whose, each in falls.items()}
    return found


def value_off(
    model: Model, clean: Clean, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 4: all heads lose the value of one token; does the logit of that token fall?

    The token is the favorite of a head drawn by lot. Keys: "own token" and "another's token"; both
    also ", value by lot" and ", again": there as much of another position's value goes instead
    (the favorite's own norm), and the same tokens are asked for. "more than by lot": how much more
    the own token falls than another's, of the favorite minus the lot; "lots apart": of both lots.
    """
    n, rows, last = len(clean.z), torch.arange(len(clean.z)), clean.prompts.last
    draw = torch.Generator().manual_seed(seed + layer)
    drawn = torch.randint(model.config.n_heads, (n,), generator=draw)
    favorite = clean.keys[rows, layer, drawn, 0]
    own = clean.prompts.tokens.gather(1, favorite[:, None])
    ids, found = {"own token": own, "another's token": other_words(own)}, {}
    whole = _values_at(model, clean, layer, favorite)
    for said in LOTS:
        lot = (torch.rand(n, generator=draw) * (last - 1)).long().clamp(max=last - 2)
        lot = 1 + lot + (1 + lot >= favorite)  # not the first, not the favorite
        part = _values_at(model, clean, layer, lot) if said else whole
        size = whole.flatten(1).norm(dim=1) / part.flatten(1).norm(dim=1).clamp_min(1e-9)
        lost = fall(model, clean, f"L{layer}.z", part * size[:, None, None], ids)
        found |= {f"{name}{said}": lost[name] for name in ids}
    own = [found[f"own token{said}"] - found[f"another's token{said}"] for said in LOTS]
    return found | {"more than by lot": own[0] - own[1], "lots apart": own[1] - own[2]}


def _values_at(model: Model, clean: Clean, layer: int, at: Tensor) -> Tensor:
    """What each head's z holds of the value at one position: [prompt, head, d_head]."""
    pieces = zip(clean.prompts.pieces(model), clean.by_key, strict=True)
    return torch.cat([e[torch.arange(len(e)), layer, at[rows]] for (rows, _), e in pieces])


def swapped(
    model: Model, clean: Clean, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 5: is the word that a query asks for looked at, if it stands there?

    One head, drawn by lot for each prompt. The token at its favorite key, other than the first and
    the last, is exchanged for the top word of the query's reading through W_U ("asked for"), for
    the token whose embedding it scores highest ("embedding") and for two drawn by lot. The numbers
    are the attention that the place then gets.
    """
    draw = torch.Generator().manual_seed(seed + layer)
    n, rows = len(clean.z), torch.arange(len(clean.z))
    head = torch.randint(model.config.n_heads, (n,), generator=draw)
    inner = clean.keys < clean.prompts.last[:, None, None, None]
    keys = clean.keys[rows, layer, head]
    place = keys.gather(1, inner[rows, layer, head].float().argmax(dim=1, keepdim=True))[:, 0]
    there = inner[rows, layer, head].any(dim=1)
    asked, best = [], []
    with torch.no_grad():
        for at, piece in clean.prompts.pieces(model):
            _, cache = model.run_with_cache(piece.tokens)
            heads = range(model.config.n_heads)
            query = torch.stack(
                [at_last(read(model, cache, "query", Head(layer, h)), piece) for h in heads], 1
            )
            query = query[torch.arange(len(query)), head[at]]
            asked.append(words(model, query, 1).ids[:, 0])
            norm = model.attention_norm(layer)
            likes = [query @ norm(some).T for some in model.W_E.split(4096)]
            best.append(torch.cat(likes, dim=-1).argmax(dim=-1))
    lot = torch.randint(model.config.d_vocab, (2, n), generator=draw)
    new = {"asked for": torch.cat(asked), "embedding": torch.cat(best)}
    new |= {"by lot": lot[0], "by lot again": lot[1]}
    found = {}
    for said, tokens in new.items():
        put = clean.prompts._replace(tokens=clean.prompts.tokens.clone())
        put.tokens[rows, place] = tokens
        looks = []
        with torch.no_grad():
            for at, piece in put.pieces(model):
                pattern = model.run_with_cache(piece.tokens)[1][f"L{layer}.pattern"]
                shares = at_last(pattern.transpose(1, 2), piece)
                looks.append(shares[torch.arange(len(shares)), head[at], place[at]])
        found[said] = torch.cat(looks).masked_fill(~there, torch.nan)
    return found
