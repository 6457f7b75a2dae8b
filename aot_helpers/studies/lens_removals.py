"""What a model says once a head, a value or a layer's attention is taken away at the last position.

The causal tests that VISIT lacks, one for each of its findings (notebook 20).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.lens import lens, overlap, read, words
from aot_helpers.studies.lens_prompts import Prompts, at_last
from aot_helpers.studies.lens_readings import RANKS, Readings


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
            keys = shares.topk(RANKS, dim=-1).indices
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


def _edited(model: Model, clean: Clean, name: str, part: Tensor):
    """(piece, rows, logits, cache) of each piece, with a part taken off one activation."""
    for rows, piece in clean.prompts.pieces(model):

        def minus(old, piece=piece, rows=rows):
            new = old.clone()
            new[torch.arange(len(piece.last)), piece.last] -= part[rows]
            return new

        with torch.no_grad():
            run = model.run_with_cache(piece.tokens, edits={name: minus})
        yield piece, rows, *run


def fall(
    model: Model, clean: Clean, name: str, part: Tensor, ids: dict[str, Tensor]
) -> dict[str, Float[Tensor, " prompt"]]:
    """How far the mean logit of some tokens falls when a part of an activation is taken away.

    name: the activation, such as "L1.z"; part: what is subtracted at the last position, [prompt,
    …]. ids: {name: tokens [prompt, k]}, where -1 is none. Logits are centered: the model's own, and
    under "name, here" those of the lens on the layer's output. "prediction" is the fall of the
    log-probability of what the model says.
    """
    layer = int(name[1 : name.index(".")])
    found = {said: [] for each in ids for said in (each, f"{each}, here")} | {"prediction": []}
    for piece, rows, logits, cache in _edited(model, clean, name, part):
        before, after = clean.logits[rows], at_last(logits, piece)
        said = before.argmax(dim=-1)[:, None]
        sure = [each.log_softmax(dim=-1).gather(-1, said)[:, 0] for each in (before, after)]
        found["prediction"].append(sure[0] - sure[1])
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


def _chosen(order: Tensor, n: int, start: int = 0) -> Tensor:
    """True at the heads at places start … start + n of an order [prompt, head]."""
    mask = torch.zeros(order.shape, dtype=torch.bool)
    return mask.scatter_(1, order[:, start : start + n], True)


def heads_off(
    model: Model, clean: Clean, readings: Readings, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 2: the heads that share most of the attention output's words, and as many others.

    A quarter of the layer's heads go at a time: set to zero, or to their mean over prompts. The
    keys are "which, how, whose words": which are "sharing", "others", "more others", "largest".
    """
    at = readings.layers.index(layer)
    words_of = {"words": readings.ids["attention output"][:, at]}
    words_of["other words"] = other_words(words_of["words"])
    share = overlap(readings.ids["head"][:, at], words_of["words"][:, None])
    z, n = clean.z[:, layer], max(1, model.config.n_heads // 4)
    draw = torch.Generator().manual_seed(seed)
    order = (share + 1e-6 * torch.rand(share.shape, generator=draw)).argsort(1, descending=True)
    rest = order[:, n:]
    rest = rest.gather(1, torch.rand(rest.shape, generator=draw).argsort(dim=1))
    norms = readings.numbers["norm"][:, at].argsort(dim=1, descending=True)
    which = {"sharing": _chosen(order, n), "largest": _chosen(norms, n)}
    for said, start in (("others", 0), ("more others", n)):
        mask = torch.zeros(share.shape, dtype=torch.bool)
        which[said] = mask.scatter_(1, rest[:, start : start + n], True)
    found = {}
    for said, mask in which.items():
        for how, taken in (("zero", z), ("mean", z - z.mean(dim=0))):
            part = taken * mask[..., None]
            lost = fall(model, clean, f"L{layer}.z", part, words_of)
            found |= {f"{said}, {how}, {each}": values for each, values in lost.items()}
    return found


def head_off(
    model: Model, clean: Clean, readings: Readings, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Items 1 and 3: one head, drawn by lot for each prompt, goes as a whole or in part.

    Keys are "what is gone, whose words": "head" (words read through W_O, without it, and others),
    "first value" of the key with the highest attention, "other values", "last value" of RANKS.
    """
    n, rows = len(clean.z), torch.arange(len(clean.z))
    draw, here = torch.Generator().manual_seed(seed + layer), readings.layers.index(layer)
    at = torch.randint(model.config.n_heads, (n,), generator=draw)
    own = readings.ids["head"][rows, here, at]
    words_of = {"words": own, "other words": other_words(own)}
    naked = readings.ids["head without W_O"][rows, here, at]
    naked = naked.masked_fill((naked[..., None] == own[..., None, :]).any(-1), -1)
    whole, parts = clean.z[rows, layer, at], clean.parts[rows, layer, at]
    gone = {
        "head": whole,
        "first value": parts[:, 0],
        "other values": whole - parts[:, 0],
        "last value": parts[:, -1],
    }
    found = {}
    for said, each in gone.items():
        part = torch.zeros_like(clean.z[:, layer])
        part[rows, at] = each
        asked = words_of | {"naked words": naked} if said == "head" else words_of
        lost = fall(model, clean, f"L{layer}.z", part, asked)
        found |= {f"{said}, {name}": values for name, values in lost.items()}
    return found


def value_off(
    model: Model, clean: Clean, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 4: all heads lose the value of one token; does the logit of that token fall?

    The token is the favorite, other than the first, of a head drawn by lot. Keys: "own token" and
    "another's token", each with ", at random" for a position drawn by lot instead.
    """
    n, rows = len(clean.z), torch.arange(len(clean.z))
    draw = torch.Generator().manual_seed(seed + layer)
    keys = clean.keys[rows, layer, torch.randint(model.config.n_heads, (n,), generator=draw)]
    first = torch.where(keys[:, 0] > 0, keys[:, 0], keys[:, 1])
    last = clean.prompts.last
    lot = 1 + (torch.rand(n, generator=draw) * last).long().clamp(max=last - 1)
    found = {}
    own = clean.prompts.tokens.gather(1, first[:, None])
    ids = {"own token": own, "another's token": other_words(own)}
    for said, at in (("", first), (", at random", lot)):
        part = torch.cat(
            [
                each[torch.arange(len(each)), layer, at[rows]]
                for (rows, _), each in zip(clean.prompts.pieces(model), clean.by_key, strict=True)
            ]
        )
        # A position drawn by lot that is the favorite itself tests nothing.
        skip = (lot == first) & (said != "")
        lost = fall(model, clean, f"L{layer}.z", part, ids)
        found |= {f"{n}{said}": v.masked_fill(skip, torch.nan) for n, v in lost.items()}
    return found


def attention_off(model: Model, clean: Clean, layer: int) -> Float[Tensor, " prompt"]:
    """Item 6: how far the prediction's log-probability falls without a layer's attention output."""
    return fall(model, clean, f"L{layer}.attn_out", clean.written[:, layer], {})["prediction"]


def previous_off(
    model: Model, clean: Clean, readings: Readings, layer: int
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 4: the words that an attention output shares with the one before it.

    "as it is"; once that was taken away ("gone"); and once as much of another prompt's was, for the
    control ("another's gone").
    """
    before, at = clean.written[:, layer - 1], readings.layers.index(layer)
    theirs = before.roll(1, dims=0)
    theirs = theirs * (before.norm(dim=-1) / theirs.norm(dim=-1))[:, None]
    now_ids, ids = readings.ids["attention output"][:, at], readings.ids["one before"][:, at]
    found = {"as it is": overlap(now_ids, ids)}
    for said, part in (("gone", before), ("another's gone", theirs)):
        now = []
        for piece, _, _, cache in _edited(model, clean, f"L{layer - 1}.attn_out", part):
            written = at_last(cache[f"L{layer}.attn_out"], piece)
            now.append(words(model, written, ids.shape[-1]).ids)
        found[said] = overlap(torch.cat(now), ids)
    return found


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
    inner = (clean.keys > 0) & (clean.keys < clean.prompts.last[:, None, None, None])
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
