"""The same removals with impostors: unrelated vectors that have the norms of the real ones.

A sum lies near its largest term, and taking the largest away takes its words along, whatever it is.
What a removal says about heads is only what impostors do not do as well (notebook 20). The last
test here is of another kind: what a head wrote in one prompt is given to another.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.lens import lens, overlap, words
from aot_helpers.studies.lens_prompts import Prompts
from aot_helpers.studies.lens_readings import K, others
from aot_helpers.studies.lens_removals import (
    Clean,
    centered,
    chosen_heads,
    clean_run,
    run_with,
    specific_fall,
)

PATCHED = ("says it", "as large")
WHOSE = ("its answer", "a third's", "a fourth's")


def written_by(
    model: Model, layer: int, z: Float[Tensor, "prompt head d_head"]
) -> Float[Tensor, "prompt head d_model"]:
    """What heads with these z add to the stream."""
    W_O = torch.stack([model.head_weights(Head(layer, h)).W_O for h in range(z.shape[1])])
    return torch.einsum("phd,hdm->phm", z, W_O)


def _as_large(model: Model, layer: int, made: Tensor, real: Tensor) -> Tensor:
    """Made-up z, of which each head writes a vector as long as from its real z."""
    long, wanted = (written_by(model, layer, z).norm(dim=-1) for z in (made, real))
    return made * (wanted / long.clamp_min(1e-9))[..., None]


def heads_off(
    model: Model, clean: Clean, layer: int, k: int = K, seed: int = 0
) -> dict[str, Float[Tensor, " prompt"]]:
    """Item 2 with impostors: each head writes what it wrote in another prompt, with its own norm.

    They are put into the run, and then some of them are set to zero, chosen by the words that they
    share with the sum that they make. Keys as those of `lens_removals.heads_off`.
    """
    draw, z = torch.Generator().manual_seed(seed), clean.z[:, layer]
    made = _as_large(model, layer, others(z, draw), z)
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
    """Items 1 and 3 with impostors, in the place of one head drawn by lot for each prompt.

    "head": a random z; "first value": the sum of two parts of that head's z in two other prompts,
    as long as the head's value with the highest attention and as the rest of it, loses the first.
    """
    n, rows = len(clean.z), torch.arange(len(clean.z))
    draw = torch.Generator().manual_seed(seed + layer)
    at = torch.randint(model.config.n_heads, (n,), generator=draw)
    z, first = clean.z[:, layer], clean.parts[:, layer, :, 0]
    by_lot = _as_large(model, layer, torch.randn(z.shape, generator=draw), z)
    made = _as_large(model, layer, first.roll(1, dims=0), first)
    rest = _as_large(model, layer, (z - first).roll(2, dims=0), z - first)
    zero, found = torch.zeros_like(z), {}
    for said, put, left in (("head", by_lot, zero), ("first value", made + rest, rest)):
        runs = []
        for each in (put, left):
            new = z.clone()
            new[rows, at] = each[rows, at]
            runs.append(run_with(model, clean.prompts, layer, new))
        ids = words(model, written_by(model, layer, put)[rows, at], k).ids
        falls = specific_fall(runs[0] - runs[1], ids)
        found |= {f"{said}, {whose}": lost for whose, lost in falls.items()}
    return found


def next_with_other_answers(answers: Int[Tensor, " prompt"], n: int = 3) -> Int[Tensor, "prompt n"]:
    """Of each prompt the next n whose answers differ from its own and each other's; else -1."""
    found = torch.full((len(answers), n), -1)
    for row in range(len(answers)):
        seen = [int(answers[row])]
        for step in range(1, len(answers)):
            other = (row + step) % len(answers)
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


def patched(model: Model, clean: Clean, layer: int) -> dict[str, Float[Tensor, " prompt"]]:
    """What a head wrote in another prompt, given to this one: does it bring that prompt's answer?

    The head that likes this prompt's answer most ("says it"), and the one of the others that is
    nearest to it in norm ("as large"). Answers are what the model says. Keys "which, whose": the
    rise of the final logit of the answer of the prompt it came from ("its answer"), and of two more
    prompts for comparison ("a third's", "a fourth's"). "which, brought": its answer's rise minus a
    third's; "which, by chance": a third's minus a fourth's; both without "which": of the one head
    minus the other. NaN where there are not as many answers.
    """
    rows, z, answers = torch.arange(len(clean.z)), clean.z[:, layer], clean.logits.argmax(dim=-1)
    come_from = next_with_other_answers(answers)
    says = likes_of(model, layer, z, answers).argmax(dim=1)
    norms = written_by(model, layer, z).norm(dim=-1).log()
    apart = (norms - norms.gather(1, says[:, None])).abs()
    as_large = apart.scatter(1, says[:, None], torch.inf).argmin(dim=1)
    found = {}
    for said, head in zip(PATCHED, (says, as_large), strict=True):
        new = z.clone()
        new[rows, head] = z[come_from[:, 0], head]
        rise = run_with(model, clean.prompts, layer, new) - centered(clean.logits)
        for i, whose in enumerate(WHOSE):
            other = answers[come_from[:, i]]
            each = rise.gather(1, other[:, None])[:, 0]
            found[f"{said}, {whose}"] = each.masked_fill((come_from < 0).any(dim=1), torch.nan)
    for said, (one, two) in {"brought": WHOSE[:2], "by chance": WHOSE[1:]}.items():
        for head in PATCHED:
            found[f"{head}, {said}"] = found[f"{head}, {one}"] - found[f"{head}, {two}"]
        found[said] = found[f"says it, {said}"] - found[f"as large, {said}"]
    return found


def names_moved(model: Model, prompts: Prompts) -> dict[str, Float[Tensor, " prompt"]]:
    """Heads of the last layer write what they wrote in a prompt with another name: 1 where the
    model then says that other name, else 0. Half of the heads at a time: those that like the
    answer most in the prompt itself ("say it"), and the others ("do not").
    """
    clean, layer = clean_run(model, prompts), model.config.n_layers - 1
    z, answers = clean.z[:, layer], clean.logits.argmax(dim=-1)
    come_from = next_with_other_answers(answers, 1)[:, 0]
    order = likes_of(model, layer, z, answers).argsort(dim=1, descending=True)
    n, found = order.shape[1] // 2, {}
    for said, heads in {"say it": order[:, :n], "do not": order[:, n:]}.items():
        chosen = torch.zeros(order.shape, dtype=torch.bool).scatter(1, heads, True)
        new = torch.where(chosen[..., None], z[come_from], z)
        now = run_with(model, prompts, layer, new).argmax(dim=-1)
        found[said] = (now == answers[come_from]).float()
    return found
