"""The exercises of notebook 05: the loss, the loop, a rate that is too high, the sampler, a test.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import copy
import math
import re
from functools import partial
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor

from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import (
    check_mistakes,
    compared,
    draw,
    read_numbers,
    read_tensor,
)

NAN, WORSE = "nan", "worse than uniform"
N_DRAWN = 2000  # tokens that a sampler draws from a known distribution
NEAR = 0.05  # a frequency among them, more than four standard deviations; losses of about 30
SAME = 1e-3  # weights after six steps: a right loss that rounds otherwise differs by less
SURNAME = r"[A-Z][a-z]+ [A-Z][a-z]*([aeiou][nrls])\b"  # of a full name: its ending


def cross_entropy(logits, targets):
    """The mean of -ln p(target): logits [batch, pos, d_vocab], targets [batch, pos]."""
    log_probs = logits.log_softmax(dim=-1)  # [batch, pos, d_vocab]
    return -log_probs.gather(-1, targets[..., None]).mean()


def train(model, optimizer, batches, rates, watch):
    """Train the model: a step for each batch [batch, pos + 1] with its learning rate.

    watch is called with the loss of each step.
    """
    for batch, rate in zip(batches, rates, strict=True):
        loss = cross_entropy(model(batch[:, :-1]), batch[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        watch(loss.item())


@torch.no_grad()
def sample(model, ids, n, temperature=1.0, top_k=None, seed=0):
    """The token ids [pos] and n more, drawn one by one: [pos + n].

    temperature: 0 takes the likeliest token. top_k: draw among so many likeliest (None: all).
    """
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        logits = model(ids[None, -model.config.n_ctx :])[0, -1]
        if top_k:
            logits = logits.masked_fill(logits < logits.topk(top_k).values[-1], -math.inf)
        if temperature == 0:
            chosen = logits.argmax()[None]
        else:
            probabilities = (logits / temperature).softmax(dim=-1)
            chosen = torch.multinomial(probabilities, 1, generator=generator)
        ids = torch.cat([ids, chosen])
    return ids


PAGES = {"05.1": cross_entropy, "05.2": train, "05.4": sample}


def _cross_entropy(answer):
    logits, targets = draw(2, 3, 5), torch.tensor([[0, 4, 2], [1, 1, 3]])
    picked = logits.softmax(dim=-1).gather(-1, targets[..., None])
    over = {d: -logits.log_softmax(dim=d).gather(-1, targets[..., None]).mean() for d in (0, 1)}
    mistakes = {
        "Your softmax runs over the positions; it belongs over the vocabulary (dim=-1).": over[1],
        "Your softmax runs over the batch; it belongs over the vocabulary (dim=-1).": over[0],
        "The sign is missing: minus the logarithm.": picked.log().mean(),
        "This is minus the mean probability: take the logarithm before the mean.": -picked.mean(),
        "You take the logarithm of the mean; the mean of the logarithms is "
        "wanted.": -picked.mean().log(),
        "This is the sum; the mean is wanted.": -picked.log().sum(),
        "You average over all tokens; only the token that came counts.": (
            -logits.log_softmax(dim=-1).mean()
        ),
        "These are bits; nats are wanted, without dividing by ln 2.": (
            -picked.log().mean() / math.log(2)
        ),
        "The logits are no log-probabilities: log_softmax first.": (
            -logits.gather(-1, targets[..., None]).mean()
        ),
    }
    given = read_numbers(attempted(answer(logits, targets)), infinite=True)
    compared(given, F.cross_entropy(logits.flatten(0, 1), targets.flatten()), mistakes)
    sure = read_numbers(answer(200 * logits, targets), infinite=True)
    if not sure.isfinite():
        raise NotYet(
            "For a model that is sure and wrong your loss is infinite, because its probability is "
            "rounded to 0: use log_softmax in place of softmax and log."
        )
    return "the loss is the cross-entropy, also where a model is sure and wrong"


def _trained(answer, batches, rates) -> tuple[Tensor, list[float], set[int]]:
    """The weights of a tiny model after a loop in one row, the watched losses, lengths read."""
    with torch.random.fork_rng():
        torch.manual_seed(3)
        config = ModelConfig(d_vocab=11, n_layers=1, d_model=8, n_heads=2, d_head=4, n_ctx=7)
        model = AttentionOnlyTransformer(config)
        for weight in model.parameters():  # large enough for gradients that are clipped
            weight.data *= 5
    # With the usual eps of 1e-8 a gradient that is zero but for rounding would make a whole step.
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5, betas=(0.9, 0.98), eps=1e-3)
    watched, lengths = [], set()
    model.register_forward_pre_hook(lambda _, given: lengths.add(given[0].shape[-1]))
    answer(model, optimizer, copy.deepcopy(batches), rates, watched.append)
    return torch.cat([p.detach().flatten() for p in model.parameters()]), watched, lengths


def flawed(
    model,
    optimizer,
    batches,
    rates,
    watch,
    clear=True,
    inputs=-1,
    targets=1,
    clip=True,
    rate_is="set",
):
    """The loop with a mistake that many make. inputs, targets: where the two windows end, begin."""
    for batch, rate in zip(batches, rates, strict=True):
        x = batch[:, :inputs] if inputs else batch
        y = batch[:, targets:] if targets else batch[:, : x.shape[1]]
        loss = cross_entropy(model(x), y)
        if clear:
            optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if rate_is == "set":
            optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        if rate_is == "late":
            optimizer.param_groups[0]["lr"] = rate
        watch(loss.item())


def _train(answer):
    generator = torch.Generator().manual_seed(0)
    batches = [torch.randint(11, (4, 7), generator=generator) for _ in range(6)]
    rates = [0.01, 0.02, 0.02, 0.01, 0.005, 0.001]
    start, *_ = _trained(lambda *_: None, batches, rates)
    weights, watched, lengths = _trained(answer, batches, rates)
    if torch.equal(weights, start):
        if not watched:
            raise NotAttempted
        raise NotYet(
            "No weight has moved: the order is zero_grad(), loss.backward(), optimizer.step()."
        )
    if any(isinstance(each, Tensor) for each in watched):
        raise NotYet("watch was called with a tensor: loss.item() is the loss as a number.")
    expected, losses, _ = _trained(train, batches, rates)
    if torch.allclose(weights, expected, atol=SAME):
        if len(watched) != len(losses) or max(map(abs, map(float.__sub__, watched, losses))) > NEAR:
            raise NotYet(f"The weights are right, but watch was called with {watched}.")
        if max(lengths) == batches[0].shape[1]:
            raise NotYet(
                "The model reads the last token too, which has no target: give it batch[:, :-1]."
            )
        return "after six steps your loop and the package's have the same weights"
    mistakes = {
        "Your gradients add up from step to step: clear them with optimizer.zero_grad().": {
            "clear": False
        },
        "Your model learns to repeat its input: the targets are batch[:, 1:].": {"targets": 0},
        "Your model learns to repeat its input: the logits are those of batch[:, :-1], the targets "
        "batch[:, 1:].": {"inputs": 0, "targets": 0},
        "The learning rate of each step is not set.": {"rate_is": "not set"},
        "The learning rate is set after the step that it is for.": {"rate_is": "late"},
        "The gradients of the step are not clipped to length 1: clip them after backward(); before "
        "it they do not exist.": {"clip": False},
    }
    for message, flaw in mistakes.items():
        flawed_weights, *_ = _trained(partial(flawed, **flaw), batches, rates)
        check_mistakes(weights, {message: flawed_weights}, SAME)
    gap = (weights - expected).abs().max()
    raise NotYet(f"After six steps a weight differs from what is expected by {gap:.3f}.")


def _too_fast(first, rate, losses_at):
    if not isinstance(first, str) or first not in (NAN, WORSE):
        raise NotYet(f"first is one of {NAN!r} and {WORSE!r}, not {first!r}.")
    rate = read_numbers(rate)
    if not 0 < rate <= 1e30:
        raise NotYet(f"A learning rate lies above 0, and here up to 1e30; yours is {rate:g}.")
    losses, uniform = losses_at(float(rate)), math.log(1024)
    listed = f"at {rate:g}: " + " ".join(f"{loss:.3g}" for loss in losses[::4])
    last = sum(losses[-10:]) / 10
    if last < uniform:
        raise NotYet(
            f"The last ten losses, {last:.2f}, are below those of the uniform model: training can "
            f"live with this rate ({listed})."
        )
    bad = next(loss for loss in losses if not loss <= uniform + 1)  # NaN too
    if first != (WORSE if math.isfinite(bad) else NAN):
        raise NotYet(f"Your rate is too high, but the first bad loss is {bad:.3g} ({listed}).")
    return f"nothing raises an error: only the comparison with ln(vocabulary) tells; {listed}"


class _Known:
    """A model of three context tokens whose next tokens do not depend on the text."""

    config = SimpleNamespace(n_ctx=3)

    def __init__(self, probabilities: list[float]):
        self.logits = torch.tensor(probabilities).log()

    def __call__(self, ids: Tensor) -> Tensor:
        if ids.ndim != 2 or ids.shape[1] > self.config.n_ctx:
            raise NotYet(
                f"The model was given ids of the shape {list(ids.shape)}; it reads a batch of at "
                f"most model.config.n_ctx = {self.config.n_ctx} tokens: ids[None, -n_ctx:]."
            )
        return self.logits.expand(*ids.shape, -1)


def _normalized(weights: Tensor) -> Tensor:
    return weights / weights.sum()


def _sample(answer):
    probabilities = [0.1, 0.5, 0.25, 0.15]
    model, start = _Known(probabilities), torch.tensor([2, 0])
    given = answer(model, start, 5)
    read_tensor(given, 7, name="For ids [2, 0] and n = 5, seven ids")
    if given.is_floating_point() or given[:2].tolist() != [2, 0]:
        raise NotYet(
            f"For ids [2, 0] and n = 5, seven ids that begin with 2, 0 are wanted: {given}."
        )
    try:
        greedy = answer(model, start, 20, temperature=0)[2:].tolist()
    except RuntimeError as error:  # torch.multinomial was given NaN
        raise NotYet(f"At temperature 0 nothing can be divided by it ({error}).") from error
    if greedy != [1] * 20:
        raise NotYet("At temperature 0 the likeliest token must be taken each time.")
    if torch.equal(answer(model, start, 30, seed=1), answer(model, start, 30, seed=2)):
        raise NotYet("Two seeds draw the same tokens: give the seed to a torch.Generator.")
    for temperature, top_k in ((1.0, None), (0.5, None), (2.0, None), (1.0, 2), (0.5, 3)):
        ids = answer(model, start, N_DRAWN, temperature=temperature, top_k=top_k)[2:]
        frequencies = torch.bincount(ids, minlength=4) / N_DRAWN
        p = torch.tensor(probabilities)
        cut = torch.where(p >= p.topk(top_k or 4).values[-1], p, 0)
        expected = _normalized(cut ** (1 / temperature))
        if (frequencies - expected).abs().max() > NEAR:
            mistakes = {
                "The logits are divided by the temperature; yours are multiplied.": (
                    _normalized(cut**temperature)
                ),
                "Your draws do not depend on the temperature.": _normalized(cut),
                "Your draws do not depend on top_k: all other logits must become -inf.": (
                    _normalized(p ** (1 / temperature))
                ),
            }
            check_mistakes(frequencies, mistakes, NEAR)
            should, are = (
                [round(number, 2) for number in each.tolist()] for each in (expected, frequencies)
            )
            raise NotYet(
                f"temperature {temperature}, top_k {top_k}: of {N_DRAWN} draws the tokens should "
                f"get {should}; yours got {are}."
            )
    return "over 2,000 draws every token comes as often as its probability says"


def _habit_or_copy(opening, if_copied, endings):
    read = re.findall(SURNAME, str(opening))
    if not read:
        raise NotYet(
            "No full name such as Mila Golun stands in your opening, so there is no ending to copy."
        )
    if len(set(read)) > 1:
        raise NotYet(f"Your surnames end in {read}: with one name the answer is easier to read.")
    if read[0] == "un":
        raise NotYet(
            "Your surname ends in -un, too: habit and copying predict the same, so this opening "
            "cannot tell them apart."
        )
    if str(if_copied).lower().strip(" -") != read[0]:
        raise NotYet(
            f"If the model copies, it copies what it has read, and your surname ends in -{read[0]}."
        )
    counts = endings(opening)
    total, habit, copied = counts.total(), counts["un"], counts[read[0]]
    listed = f"of {total} surnames {copied} end in -{read[0]}, {habit} in -un"
    if copied <= habit:
        raise NotYet(
            f"Here the model does not copy ({listed}). Does your opening read like one of its "
            "stories?"
        )
    return f"the model has no love for -un: it writes -{read[0]} as gladly; {listed}"


CHECKS = {
    "05.1": _cross_entropy,
    "05.2": _train,
    "05.3": _too_fast,
    "05.4": _sample,
    "05.5": _habit_or_copy,
}
