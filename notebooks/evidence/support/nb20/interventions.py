"""Heads and values ablated or patched at the last position, and tokens changed: what follows?

The causal tests that VISIT lacks (notebook 20), and the same with norm-matched random vectors: a
sum lies near its largest term, and taking the largest away takes its words along, whatever it is.
What an ablation says about heads is only what random vectors do not do as well.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.logit_lens import lens, top_tokens
from chapters.nb20_logit_lens.measure import Prompts, at_last
from evidence.support.nb20.readings import (
    Layer,
    favorites,
    norm_matched,
    overlap,
    padded,
    written_by,
)

PATCHED = ("says it", "as large")
BROUGHT = ("brought", "by chance")


class Clean(NamedTuple):
    """What an undisturbed run holds at the last position of each prompt."""

    prompts: Prompts
    logits: Float[Tensor, "prompt d_vocab"]
    z: Float[Tensor, "prompt layer head d_head"]
    keys: Int[Tensor, "prompt layer head rank"]  # with the highest attention
    by_key: Float[Tensor, "prompt layer head key d_head"]  # attention times value: they add up to z
    written: Float[Tensor, "prompt layer d_model"]  # attention outputs
    final: Float[Tensor, "prompt d_model"]  # the stream before the final norm

    def of_keys(self) -> Float[Tensor, "prompt layer head rank d_head"]:
        """What z holds of the values at the keys with the highest attention."""
        keys = self.keys[..., None].expand(*self.keys.shape, self.z.shape[-1])
        return self.by_key.gather(3, keys)


@torch.no_grad()
def clean_run(model: Model, prompts: Prompts) -> Clean:
    """One undisturbed run. Raises ValueError for prompts that are too long."""
    found, layers, n_pos = [], range(model.config.n_layers), prompts.tokens.shape[1]
    for _, piece in prompts.pieces(model):
        logits, cache = model.run_with_cache(piece.tokens)
        each = [Layer(model, cache, piece, layer) for layer in layers]
        weights = torch.stack([at.attention() for at in each], dim=1)  # [prompt, layer, head, key]
        v = torch.stack([cache[f"L{i}.v"].transpose(1, 2) for i in layers], dim=1)
        room = (0, 0, 0, n_pos - v.shape[3])  # pieces are as long as their longest prompt
        by_key = torch.nn.functional.pad(weights[..., None] * v, room)
        z, written = (
            torch.stack([at.last(name) for at in each], dim=1) for name in ("z", "attn_out")
        )
        final = at_last(cache["final_resid"], piece)
        last = at_last(logits, piece)
        found.append((last, z, favorites(weights)[1], by_key, written, final))
    return Clean(prompts, *(torch.cat(part) for part in zip(*found, strict=True)))


def centered(logits: Float[Tensor, "*places d_vocab"]) -> Float[Tensor, "*places d_vocab"]:
    """Logits from their mean over the vocabulary: all that a softmax sees of them."""
    return logits - logits.mean(dim=-1, keepdim=True)


@torch.no_grad()
def logits_with(
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


def as_long(model: Model, layer: int, made: Tensor, real: Tensor) -> Tensor:
    """Made-up z [prompt, head, d_head], of which each head writes as long a vector as of `real`."""
    long, wanted = (written_by(model, layer, z).norm(dim=-1) for z in (made, real))
    return made * (wanted / long.clamp_min(1e-9))[..., None]


def random_z(
    model: Model, layer: int, z: Float[Tensor, "prompt head d_head"], draw: torch.Generator
) -> Float[Tensor, "prompt head d_head"]:
    """Random z, of which each head writes a vector as long as from its real z."""
    return as_long(model, layer, torch.randn(z.shape, generator=draw), z)


def shuffled_z(
    model: Model, layer: int, z: Float[Tensor, "prompt head d_head"], draw: torch.Generator
) -> Float[Tensor, "prompt head d_head"]:
    """The z of prompts drawn at random, another for each head, writing as long as its own."""
    order = torch.rand(z.shape[:2], generator=draw).argsort(dim=0)
    return as_long(model, layer, z.gather(0, order[..., None].expand_as(z)), z)


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
    return {which: none.scatter(1, each, True) for which, each in heads.items()}


def heads_off(
    model: Model, clean: Clean, layer: int, k: int, seed: int = 0, random: bool = False
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 2: a quarter of a layer's heads zero-ablated, chosen in the ways of `chosen_heads`.

    Counted are the attention output's k words. The keys are "which, whose words". random: each head
    writes what a random z gives, with its own norm.
    """
    draw, z, output = (
        torch.Generator().manual_seed(seed),
        clean.z[:, layer],
        clean.written[:, layer],
    )
    if random:
        made = random_z(model, layer, z, draw)
        bias = output - written_by(model, layer, z).sum(dim=1)
        z, output = made, written_by(model, layer, made).sum(dim=1) + bias
    parts, found = written_by(model, layer, z), {}
    of_heads, ids = (top_tokens(lens(model, x), k) for x in (parts, output))
    whole = logits_with(model, clean.prompts, layer, z)
    chosen = chosen_heads(overlap(of_heads, ids[:, None]), parts.norm(dim=-1), draw)
    for which, mask in chosen.items():
        left = logits_with(model, clean.prompts, layer, z * ~mask[..., None])
        falls = specific_fall(whole - left, ids)
        found |= {f"{which}, {whose}": lost for whose, lost in falls.items()}
    return found


def head_off(
    model: Model, clean: Clean, layer: int, k: int, seed: int = 0, random: bool = False
) -> dict[str, Float[Tensor, " prompt"]]:
    """Items 1 and 3: of one head, drawn at random for each prompt, all of z or a part goes.

    Keys are "what is gone, whose words": "head" (words read through W_O, without it, and others),
    "first value" of the key with the highest attention, "last value" of the third. random: "head"
    is a random z; "first value": the sum of two random parts of a z, as long as the head's value
    with the highest attention and as the rest of it, loses the first.
    """
    rows, draw = torch.arange(len(clean.z)), torch.Generator().manual_seed(seed + layer)
    at = torch.randint(model.config.n_heads, (len(rows),), generator=draw)
    z, values = clean.z[:, layer], clean.of_keys()[:, layer]
    first, last = values[:, :, 0], values[:, :, -1]
    if random:
        whole, made, rest = (random_z(model, layer, x, draw) for x in (z, first, z - first))
        gone = {"head": (whole, 0 * whole), "first value": (made + rest, rest)}
    else:
        gone = {"head": (z, 0 * z), "first value": (z, z - first), "last value": (z, z - last)}
    found = {}
    for part, (put, left) in gone.items():  # z of all heads, before and after
        put, left = put[rows, at], left[rows, at]
        ids = top_tokens(lens(model, (put[:, None] @ model.layer_weights(layer).W_O[at])[:, 0]), k)
        lost = _fall(model, clean, layer, at, put, left)
        falls = specific_fall(lost, ids)
        if part == "head" and not random:
            naked = top_tokens(lens(model, padded(model, z)[rows, at]), k)
            falls["naked words"] = mean_of(lost, without(naked, ids))
        found |= {f"{part}, {whose}": each for whose, each in falls.items()}
    return found


def _fall(model, clean, layer, at, put, left) -> Float[Tensor, "prompt d_vocab"]:
    """How far logits fall when the z of each prompt's head `at` goes from `put` to `left`."""
    runs = []
    for each in (put, left):
        z = clean.z[:, layer].clone()
        z[torch.arange(len(z)), at] = each
        runs.append(logits_with(model, clean.prompts, layer, z))
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
        part = norm_matched(clean.by_key[rows, layer, :, place].flatten(1), whole.flatten(1))
        left = logits_with(model, clean.prompts, layer, clean.z[:, layer] - part.view_as(whole))
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
    read, best, norm = [], [], model.attention_norm(layer)
    for at, piece in clean.prompts.pieces(model):
        cache = model.run_with_cache(piece.tokens)[1]
        query = at_last(Layer(model, cache, piece, layer).heads("query"), piece)
        query = query[torch.arange(len(query)), head[at]]
        read.append(lens(model, query).argmax(dim=-1))
        scores = [query @ norm(some).T for some in model.W_E.split(4096)]
        best.append(torch.cat(scores, dim=-1).argmax(dim=-1))
    lots = torch.randint(model.config.d_vocab, (2, n), generator=draw)
    new = {"asked for": torch.cat(read), "embedding": torch.cat(best)}
    new |= {"by lot": lots[0], "by lot again": lots[1]}
    found = {}
    for which, tokens in new.items():
        put = clean.prompts._replace(tokens=clean.prompts.tokens.clone())
        put.tokens[rows, place] = tokens
        weights = []
        for at, piece in put.pieces(model):
            attention = Layer(
                model, model.run_with_cache(piece.tokens)[1], piece, layer
            ).attention()
            weights.append(attention[torch.arange(len(attention)), head[at], place[at]])
        found[which] = torch.cat(weights).masked_fill(~inner.any(dim=1), torch.nan)
    return found


def with_other_answers(
    answers: Int[Tensor, " prompt"], n: int, draw: torch.Generator
) -> Int[Tensor, "prompt n"]:
    """For each prompt n random others, all of different answers, its own among them; or -1."""
    found = torch.full((len(answers), n), -1)
    for row in range(len(answers)):
        seen = [int(answers[row])]
        for other in torch.randperm(len(answers), generator=draw).tolist():
            if len(seen) <= n and int(answers[other]) not in seen:
                found[row, len(seen) - 1] = other
                seen.append(int(answers[other]))
    return found


def direct_logits(
    model: Model, layer: int, z: Float[Tensor, "prompt head d_head"], tokens: Int[Tensor, " prompt"]
) -> Float[Tensor, "prompt head"]:
    """The centered logit of one token for each prompt in the reading of each head."""
    parts = written_by(model, layer, z).unbind(dim=1)
    return torch.cat([centered(lens(model, x)).gather(1, tokens[:, None]) for x in parts], dim=1)


def patched(
    model: Model, clean: Clean, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """What a head wrote in another prompt, given to this one: does it bring that prompt's answer?

    The head whose reading gives this prompt's answer the largest logit ("says it"), and of the
    others the one nearest to it in norm, its change stretched to be as long ("as large"). Answers
    are what the model says; the other prompt and a third are random. "which, brought": the rise of
    the final logit of the other prompt's answer, minus the mean rise of all answers but both
    prompts'; "which, by chance": the same of the third's answer; both without "which": of one head
    minus the other. NaN where there are not as many answers.
    """
    rows, z, answers = torch.arange(len(clean.z)), clean.z[:, layer], clean.logits.argmax(dim=-1)
    draw = torch.Generator().manual_seed(seed + layer)
    come_from = with_other_answers(answers, 2, draw)
    few, targets = (come_from < 0).any(dim=1), answers[come_from]
    says = direct_logits(model, layer, z, answers).argmax(dim=1)
    norms = written_by(model, layer, z).norm(dim=-1).log()
    apart = (norms - norms.gather(1, says[:, None])).abs()
    closest_size = apart.scatter(1, says[:, None], torch.inf).argmin(dim=1)
    change = z[come_from[:, 0]] - z
    long = written_by(model, layer, change).norm(dim=-1).clamp_min(1e-9)
    every, found = answers.unique().expand(len(rows), -1), {}
    rest = every.masked_fill((every == answers[:, None]) | (every == targets[:, :1]), -1)
    for which, head in zip(PATCHED, (says, closest_size), strict=True):
        new = z.clone()
        new[rows, head] += change[rows, head] * (long[rows, says] / long[rows, head])[:, None]
        rise = logits_with(model, clean.prompts, layer, new) - centered(clean.logits)
        for i, what in enumerate(BROUGHT):
            others = rest.masked_fill(rest == targets[:, i, None], -1)
            more = rise.gather(1, targets[:, i, None])[:, 0] - mean_of(rise, others)
            found[f"{which}, {what}"] = more.masked_fill(few, torch.nan)
    for what in BROUGHT:
        found[what] = found[f"says it, {what}"] - found[f"as large, {what}"]
    return found | {"length of the change": long[rows, closest_size] / long[rows, says]}


def names_patched(
    model: Model, prompts: Prompts, made: Callable | None = None, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Heads of the last layer write what they wrote in a prompt with another answer: 1 where the
    model then says that answer, else 0.

    Keys: each head alone ("L1H0", …); "says it", the head whose reading in the other prompt gives
    its answer the largest logit, and "others", the mean of the others alone; "largest", alone;
    "two largest". made: `random_z` or `shuffled_z`, the z of all heads in both prompts; None: their
    own.
    """
    clean, layer = clean_run(model, prompts), model.config.n_layers - 1
    z, draw = clean.z[:, layer], torch.Generator().manual_seed(seed)
    if made is not None:
        z = made(model, layer, z, draw)
    answers = logits_with(model, prompts, layer, z).argmax(dim=-1)
    come_from = with_other_answers(answers, 1, draw)[:, 0]
    wanted, theirs = answers[come_from], z[come_from]

    def moved(heads: Tensor) -> Tensor:
        chosen = torch.zeros(z.shape[:2], dtype=torch.bool).scatter(1, heads, True)
        new = torch.where(chosen[..., None], theirs, z)
        return (logits_with(model, prompts, layer, new).argmax(dim=-1) == wanted).float()

    each = torch.stack([moved(torch.full((len(z), 1), h)) for h in range(z.shape[1])], dim=1)
    says = direct_logits(model, layer, theirs, wanted).argmax(dim=1, keepdim=True)
    size = written_by(model, layer, z).norm(dim=-1).argsort(dim=1, descending=True)
    found = {str(Head(layer, h)): each[:, h] for h in range(each.shape[1])}
    found["says it"] = each.gather(1, says)[:, 0]
    found["others"] = (each.sum(dim=1) - found["says it"]) / (each.shape[1] - 1)
    found["largest"] = each.gather(1, size[:, :1])[:, 0]
    return found | {"two largest": moved(size[:, :2])}


def prediction_error(model: Model, prompts: Prompts, head: int, seed: int = 0) -> float:
    """How far a patched head of the last layer leaves the logits from what the lens predicts.

    That is: the logits before, minus the head's reading here, plus its reading in the other prompt.
    """
    clean, layer = clean_run(model, prompts), model.config.n_layers - 1
    z, draw = clean.z[:, layer], torch.Generator().manual_seed(seed)
    other = with_other_answers(clean.logits.argmax(dim=-1), 1, draw)[:, 0]
    reading = lens(model, written_by(model, layer, z)[:, head])
    patched_z = z.clone()
    patched_z[:, head] = z[other, head]
    after = logits_with(model, prompts, layer, patched_z)
    return (centered(clean.logits - reading + reading[other]) - after).abs().max().item()
