"""The exercises of notebook 12: a score without context, a share, a text for two layers."""

import itertools

import torch
import torch.nn.functional as F

from aot_helpers.studies.in_context import LENGTH, losses_of
from aot_helpers.teaching.exercises import Solved
from aot_helpers.teaching.exercises.references import read_numbers
from aot_helpers.training.losses import in_context_score

NEAR = 0.05  # of 12.2: the share printed just before is 0.08 off
LEAST_STARTS, MOST_STARTS = 100, 600  # of 12.1
MOST_TOKENS, MOST_LOSS, LEAST_LEAD = 40, 2.0, 1.5  # of 12.3; nats


def _whole_numbers(answer, what):
    """A list of whole numbers, and what is wrong with it ("" if nothing is)."""
    try:
        given = torch.as_tensor(answer)
    except (TypeError, ValueError, RuntimeError):
        return None, f"A list of whole numbers is wanted, {what}; got {answer!r}."
    if given.dtype.is_floating_point or given.dtype == torch.bool or given.dim() != 1:
        return None, f"A list of whole numbers is wanted, {what}; got {answer!r}."
    return given, ""


def _cheat(answer, model, line, early, late, goal):
    if answer is None or answer is ...:
        return None
    starts, problem = _whole_numbers(answer, "the places where pieces begin")
    if problem:
        return problem
    starts = starts.unique()
    if not LEAST_STARTS <= len(starts) <= MOST_STARTS:
        limits = f"{LEAST_STARTS} to {MOST_STARTS}"
        return f"These are {len(starts)} different places; take {limits}."
    last = len(line) - LENGTH
    if starts.min() < 0 or starts.max() > last:
        return f"A piece must lie in the line: places are 0 to {last}."
    texts = torch.stack([line[i : i + LENGTH] for i in starts.tolist()])
    texts = F.pad(texts, (1, 0), value=model.tokenizer.bos)
    score = -in_context_score(losses_of(model, texts), early, late).mean().item()  # early - late
    said = f"without a layer the score is {score:+.2f} nats"
    return Solved(said) if score >= goal else f"{said}; {goal:+.2f} is wanted."


def _share(answer, truth):
    if answer is None or answer is ...:
        return None
    guess, problem = read_numbers(answer)
    if problem:
        return problem
    if abs(guess - truth) <= NEAR:
        return Solved(f"it is {truth:.2f}")
    return f"{'More' if guess < truth else 'Less'} than {guess:.2f}."


def _only_two_layers(answer, two, smeared):
    if answer is None or answer is ...:
        return None
    tokens, problem = _whole_numbers(answer, "the tokens of a text")
    if problem:
        return problem
    bos, most = two.tokenizer.bos, two.config.d_vocab - 1  # BOS is 0
    if not 3 <= len(tokens) <= MOST_TOKENS:
        return f"It has {len(tokens)} tokens; take 3 to {MOST_TOKENS}."
    if tokens.min() <= bos or tokens.max() > most:
        return f"Tokens are whole numbers from {bos + 1} to {most}; {bos} is BOS."
    text = F.pad(tokens, (1, 0), value=bos)[None]
    losses = [losses_of(model, text)[0, -1].item() for model in (two, smeared)]
    said = f"the last token costs two layers {losses[0]:.1f} nats, the smeared one {losses[1]:.1f}"
    if losses[0] > MOST_LOSS:
        return f"{said}; two layers should pay at most {MOST_LOSS:g}."
    if losses[1] - losses[0] < LEAST_LEAD:
        return f"{said}: too close."
    *before, last = tokens.tolist()
    with torch.no_grad():
        favorite = smeared(text)[0, -2].argmax().item()
    if favorite == last:
        return f"{said}, but {last} is its favorite: it is unsure, not misled."
    present = before[-1]
    followed = {after for token, after in itertools.pairwise(before) if token == present}
    if favorite not in followed:
        problem = f"its favorite is {favorite}, which never followed {present} in your text"
        return f"{said}, but you did not mislead it: {problem}."
    return Solved(f"{said}; it expects {favorite}")


CHECKS = {
    "12.1": _cheat,
    "12.2": _share,
    "12.3": _only_two_layers,
}
