"""Activation patching: a head writes what it wrote in another prompt (notebook 20)."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.logit_lens import lens
from chapters.nb20_logit_lens.measure import centered, written_by
from chapters.nb20_logit_lens.templates import Prompts
from evidence.support.nb20.removals import Clean, as_long, clean_run, mean_of, run_with

PATCHED = ("says it", "as large")
BROUGHT = ("brought", "by chance")


def shuffled_z(
    model: Model, layer: int, z: Float[Tensor, "prompt head d_head"], draw: torch.Generator
) -> Float[Tensor, "prompt head d_head"]:
    """The z of prompts drawn at random, another for each head, writing as long as its own."""
    order = torch.rand(z.shape[:2], generator=draw).argsort(dim=0)
    return as_long(model, layer, z.gather(0, order[..., None].expand_as(z)), z)


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
    few, asked = (come_from < 0).any(dim=1), answers[come_from]
    says = direct_logits(model, layer, z, answers).argmax(dim=1)
    norms = written_by(model, layer, z).norm(dim=-1).log()
    apart = (norms - norms.gather(1, says[:, None])).abs()
    closest_size = apart.scatter(1, says[:, None], torch.inf).argmin(dim=1)
    change = z[come_from[:, 0]] - z
    long = written_by(model, layer, change).norm(dim=-1).clamp_min(1e-9)
    every, found = answers.unique().expand(len(rows), -1), {}
    rest = every.masked_fill((every == answers[:, None]) | (every == asked[:, :1]), -1)
    for said, head in zip(PATCHED, (says, closest_size), strict=True):
        new = z.clone()
        new[rows, head] += change[rows, head] * (long[rows, says] / long[rows, head])[:, None]
        rise = run_with(model, clean.prompts, layer, new) - centered(clean.logits)
        for i, what in enumerate(BROUGHT):
            others = rest.masked_fill(rest == asked[:, i, None], -1)
            more = rise.gather(1, asked[:, i, None])[:, 0] - mean_of(rise, others)
            found[f"{said}, {what}"] = more.masked_fill(few, torch.nan)
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
    answers = run_with(model, prompts, layer, z).argmax(dim=-1)
    come_from = with_other_answers(answers, 1, draw)[:, 0]
    wanted, theirs = answers[come_from], z[come_from]

    def moved(heads: Tensor) -> Tensor:
        chosen = torch.zeros(z.shape[:2], dtype=torch.bool).scatter(1, heads, True)
        new = torch.where(chosen[..., None], theirs, z)
        return (run_with(model, prompts, layer, new).argmax(dim=-1) == wanted).float()

    each = torch.stack([moved(torch.full((len(z), 1), h)) for h in range(z.shape[1])], dim=1)
    says = direct_logits(model, layer, theirs, wanted).argmax(dim=1, keepdim=True)
    size = written_by(model, layer, z).norm(dim=-1).argsort(dim=1, descending=True)
    found = {str(Head(layer, h)): each[:, h] for h in range(each.shape[1])}
    found["says it"] = each.gather(1, says)[:, 0]
    found["others"] = (each.sum(dim=1) - found["says it"]) / (each.shape[1] - 1)
    found["largest"] = each.gather(1, size[:, :1])[:, 0]
    return found | {"two largest": moved(size[:, :2])}


def run_patched(
    model: Model, prompts: Prompts, other: Int[Tensor, " prompt"], head: Head
) -> Float[Tensor, "prompt d_vocab"]:
    """The centered last logits of each prompt once a head ends with its z of the prompt `other`."""
    z = clean_run(model, prompts).z[:, head.layer]
    new = z.clone()
    new[:, head.head] = z[other, head.head]
    return run_with(model, prompts, head.layer, new)


def prediction_error(model: Model, prompts: Prompts, head: int, seed: int = 0) -> float:
    """How far a patched head of the last layer leaves the logits from what the lens foretells.

    That is: the logits before, minus the head's reading here, plus its reading in the other prompt.
    """
    clean, at = clean_run(model, prompts), Head(model.config.n_layers - 1, head)
    draw = torch.Generator().manual_seed(seed)
    other = with_other_answers(clean.logits.argmax(dim=-1), 1, draw)[:, 0]
    reading = lens(model, written_by(model, at.layer, clean.z[:, at.layer])[:, head])
    after = run_patched(model, prompts, other, at)
    return (centered(clean.logits - reading + reading[other]) - after).abs().max().item()
