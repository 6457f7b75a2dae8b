"""The same removals on norm-matched random vectors, and activation patching (notebook 20).

A sum lies near its largest term, and taking the largest away takes its words along, whatever it is.
What a removal says about heads is only what random vectors do not do as well. The last test here is
of another kind: what a head wrote in one prompt is patched into another.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.logit_lens import lens, words
from chapters.nb20_logit_lens.readings import K, overlap, written_by
from chapters.nb20_logit_lens.removals import (
    Clean,
    centered,
    chosen_heads,
    clean_run,
    mean_of,
    run_with,
    specific_fall,
)
from chapters.nb20_logit_lens.templates import Prompts

PATCHED = ("says it", "as large")
BROUGHT = ("brought", "by chance")


def _as_large(model: Model, layer: int, made: Tensor, real: Tensor) -> Tensor:
    """Made-up z, of which each head writes a vector as long as from its real z."""
    long, wanted = (written_by(model, layer, z).norm(dim=-1) for z in (made, real))
    return made * (wanted / long.clamp_min(1e-9))[..., None]


def heads_off(
    model: Model, clean: Clean, layer: int, k: int = K, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 2 with random vectors: each head writes what a random z gives, with its own norm.

    They are put into the run, and then some of them are set to zero, chosen by the words that they
    share with the sum that they make. Keys as those of `lens_removals.heads_off`.
    """
    draw, z = torch.Generator().manual_seed(seed), clean.z[:, layer]
    made = random_z(model, layer, z, draw)
    parts = written_by(model, layer, made)
    bias = clean.written[:, layer] - written_by(model, layer, z).sum(dim=1)
    ids = words(model, parts.sum(dim=1) + bias, k).ids
    share = overlap(words(model, parts, k).ids, ids[:, None])
    whole, found = run_with(model, clean.prompts, layer, made), {}
    for said, mask in chosen_heads(share, parts.norm(dim=-1), draw).items():
        left = run_with(model, clean.prompts, layer, made * ~mask[..., None])
        for whose, lost in specific_fall(whole - left, ids).items():
            found[f"{said}, {whose}"] = lost
    return found


def head_off(
    model: Model, clean: Clean, layer: int, k: int = K, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Items 1 and 3 with random vectors, in the place of one head drawn by lot for each prompt.

    "head": a random z; "first value": the sum of two random parts of a z, as long as the head's
    value with the highest attention and as the rest of it, loses the first.
    """
    n, rows = len(clean.z), torch.arange(len(clean.z))
    draw = torch.Generator().manual_seed(seed + layer)
    at = torch.randint(model.config.n_heads, (n,), generator=draw)
    z, first = clean.z[:, layer], clean.parts[:, layer, :, 0]
    whole, made, rest = (random_z(model, layer, each, draw) for each in (z, first, z - first))
    zero, found = torch.zeros_like(z), {}
    for said, put, left in (("head", whole, zero), ("first value", made + rest, rest)):
        runs = []
        for each in (put, left):
            new = z.clone()
            new[rows, at] = each[rows, at]
            runs.append(run_with(model, clean.prompts, layer, new))
        ids = words(model, written_by(model, layer, put)[rows, at], k).ids
        falls = specific_fall(runs[0] - runs[1], ids)
        found |= {f"{said}, {whose}": lost for whose, lost in falls.items()}
    return found


def random_z(model: Model, layer: int, z: Tensor, draw: torch.Generator) -> Tensor:
    """Random z, of which each head writes a vector as long as from its real z."""
    return _as_large(model, layer, torch.randn(z.shape, generator=draw), z)


def shuffled(model: Model, layer: int, z: Tensor, draw: torch.Generator) -> Tensor:
    """What each head wrote in a prompt drawn by lot, each head in another, with its own norm."""
    order = torch.rand(z.shape[:2], generator=draw).argsort(dim=0)
    return _as_large(model, layer, z.gather(0, order[..., None].expand_as(z)), z)


def with_other_answers(
    answers: Int[Tensor, " prompt"], n: int, draw: torch.Generator
) -> Int[Tensor, "prompt n"]:
    """For each prompt n others by lot, all of different answers, its own among them; or -1."""
    found = torch.full((len(answers), n), -1)
    for row in range(len(answers)):
        seen = [int(answers[row])]
        for other in torch.randperm(len(answers), generator=draw).tolist():
            if len(seen) <= n and int(answers[other]) not in seen:
                found[row, len(seen) - 1] = other
                seen.append(int(answers[other]))
    return found


def likes_of(
    model: Model, layer: int, z: Tensor, tokens: Int[Tensor, " prompt"]
) -> Float[Tensor, "prompt head"]:
    """The centered logit of one token for each prompt in the reading of each head."""
    parts = written_by(model, layer, z).unbind(dim=1)
    return torch.cat([centered(lens(model, x)).gather(1, tokens[:, None]) for x in parts], dim=1)


def patched(
    model: Model, clean: Clean, layer: int, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """What a head wrote in another prompt, given to this one: does it bring that prompt's answer?

    The head that likes this prompt's answer most ("says it"), and of the others the one nearest to
    it in norm, its change stretched to be as long ("as large"). Answers are what the model says;
    the other prompt and a third are drawn by lot. "which, brought": the rise of the final logit of
    the other prompt's answer, minus the mean rise of all answers but both prompts'; "which, by
    chance": the same of the third's answer; both without "which": of one head minus the other. NaN
    where there are not as many answers.
    """
    rows, z, answers = torch.arange(len(clean.z)), clean.z[:, layer], clean.logits.argmax(dim=-1)
    draw = torch.Generator().manual_seed(seed + layer)
    come_from = with_other_answers(answers, 2, draw)
    few, asked = (come_from < 0).any(dim=1), answers[come_from]
    says = likes_of(model, layer, z, answers).argmax(dim=1)
    norms = written_by(model, layer, z).norm(dim=-1).log()
    apart = (norms - norms.gather(1, says[:, None])).abs()
    as_large = apart.scatter(1, says[:, None], torch.inf).argmin(dim=1)
    change = z[come_from[:, 0]] - z
    long = written_by(model, layer, change).norm(dim=-1).clamp_min(1e-9)
    every, found = answers.unique().expand(len(rows), -1), {}
    rest = every.masked_fill((every == answers[:, None]) | (every == asked[:, :1]), -1)
    for said, head in zip(PATCHED, (says, as_large), strict=True):
        new = z.clone()
        new[rows, head] += change[rows, head] * (long[rows, says] / long[rows, head])[:, None]
        rise = run_with(model, clean.prompts, layer, new) - centered(clean.logits)
        for i, what in enumerate(BROUGHT):
            others = rest.masked_fill(rest == asked[:, i, None], -1)
            more = rise.gather(1, asked[:, i, None])[:, 0] - mean_of(rise, others)
            found[f"{said}, {what}"] = more.masked_fill(few, torch.nan)
    for what in BROUGHT:
        found[what] = found[f"says it, {what}"] - found[f"as large, {what}"]
    found["length of the change"] = long[rows, as_large] / long[rows, says]
    return found


def names_patched(
    model: Model,
    prompts: Prompts,
    made: Callable | None = None,
    seed: int = 0,
) -> dict[str, Float[Tensor, " prompt"]]:
    """Heads of the last layer write what they wrote in a prompt with another answer: 1 where the
    model then says that answer, else 0.

    Keys: each head alone ("L1H0", …); "says it", the head whose reading in the other prompt likes
    its answer most, and "others", the mean of the others alone; "largest", alone; "two largest".
    made: `random_z` or `shuffled`, the z of all heads in both prompts; None: their own.
    """
    clean, layer = clean_run(model, prompts), model.config.n_layers - 1
    z, logits, draw = clean.z[:, layer], clean.logits, torch.Generator().manual_seed(seed)
    if made is not None:
        z = made(model, layer, z, draw)
        logits = run_with(model, prompts, layer, z)
    answers = logits.argmax(dim=-1)
    come_from = with_other_answers(answers, 1, draw)[:, 0]
    wanted, theirs = answers[come_from], z[come_from]

    def moved(heads: Tensor) -> Tensor:
        chosen = torch.zeros(z.shape[:2], dtype=torch.bool).scatter(1, heads, True)
        new = torch.where(chosen[..., None], theirs, z)
        return (run_with(model, prompts, layer, new).argmax(dim=-1) == wanted).float()

    each = torch.stack([moved(torch.full((len(z), 1), h)) for h in range(z.shape[1])], dim=1)
    says = likes_of(model, layer, theirs, wanted).argmax(dim=1, keepdim=True)
    size = written_by(model, layer, z).norm(dim=-1).argsort(dim=1, descending=True)
    found = {str(Head(layer, h)): each[:, h] for h in range(each.shape[1])}
    found["says it"] = each.gather(1, says)[:, 0]
    found["others"] = (each.sum(dim=1) - found["says it"]) / (each.shape[1] - 1)
    found["largest"] = each.gather(1, size[:, :1])[:, 0]
    return found | {"two largest": moved(size[:, :2])}


def foretold(model: Model, prompts: Prompts, head: int, seed: int = 0) -> float:
    """How far a patched head of the last layer leaves the logits from what the lens foretells.

    That is: the logits before, minus the head's reading here, plus its reading in the other prompt.
    """
    clean, layer = clean_run(model, prompts), model.config.n_layers - 1
    draw, z = torch.Generator().manual_seed(seed), clean.z[:, layer]
    new = z.clone()
    new[:, head] = z[with_other_answers(clean.logits.argmax(dim=-1), 1, draw)[:, 0], head]
    here, there = (lens(model, written_by(model, layer, each)[:, head]) for each in (z, new))
    after = run_with(model, prompts, layer, new)
    return (centered(clean.logits - here + there) - after).abs().max().item()


def patched_logits(
    model: Model, tokens: Int[Tensor, " pos"], other: Int[Tensor, " pos_there"], heads: list[Head]
) -> Float[Tensor, " d_vocab"]:
    """The last logits of a text in which some heads end with the z that they had in another."""
    theirs = model.run_with_cache(other[None])[1]

    def patch(z, layer):
        z = z.clone()
        for head in (each.head for each in heads if each.layer == layer):
            z[:, -1, head] = theirs[f"L{layer}.z"][:, -1, head]
        return z

    edits = {f"L{i}.z": partial(patch, layer=i) for i in {each.layer for each in heads}}
    return model(tokens[None], edits=edits)[0, -1]
