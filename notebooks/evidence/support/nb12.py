"""Evidence of notebook 12: what context is worth, a copying rule, and both over training."""

import itertools
import math

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.checkpoints import load_measurements
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Head, Model, all_heads
from aot_helpers.reading.heads import earlier_copies, head_scores, induction_scores
from chapters.nb12_in_context_learning.measure import LENGTH, Losses, Texts, losses_of

N_LAST = 8  # the tokens that are predicted with every length of context
RANGES = ((1, 2), (2, 3), (3, 5), (5, 9), (9, 17), (17, 33), (33, 65), (65, 128))  # of the index
NEAR, FAR = 8, 64  # tokens of context
PACES = torch.logspace(math.log10(20), math.log10(20_000), 80, dtype=torch.float64)  # in steps
WEIGHTS = torch.tensor([0, *(0.01 + i * 0.0245 for i in range(41))], dtype=torch.float64)


def logged(name: str) -> pd.DataFrame:
    """What a run wrote down while it trained, by step.

    induction score: the best of the last layer's heads. copy accuracy: of 32 random tokens.
    """
    log = load_measurements(name)
    rows = [
        {
            "in-context score": found["in-context score"],
            "induction score": max(found["induction"][-1]),
            "copy accuracy": found["copy accuracy"]["32"],
        }
        for found in log["measured"]
    ]
    return pd.DataFrame(rows, index=log["steps"])


def half_way_steps(names: list[str], last: int = 1500) -> pd.DataFrame:
    """For each run and column of `logged`: the first measured step at which half of its change from
    step 200 to `last` is done. Runs may differ in their steps.

    Raises ValueError for a run whose induction score is below 0.4 at step `last`: nothing changed.
    """
    halves = {}
    for name in names:
        log = logged(name).loc[200:last]
        start, end = log.iloc[0], log.iloc[-1]
        if end["induction score"] < 0.4:
            raise ValueError(
                f"{name} has an induction score of {end['induction score']:.2f} at step {last}, so "
                "there is no half-way step: take runs with 0.4 or more"
            )
        halves[name] = ((log - start) / (end - start) >= 0.5).idxmax()
    return pd.DataFrame(halves).T


@torch.no_grad()
def last_losses(
    model: Model, texts: Texts, k: int, edits: Edits | None = None
) -> Float[Tensor, " text"]:
    """Mean loss of the last 8 tokens when k to k + 7 tokens of text stand before them.

    Raises ValueError for a k that the texts do not have.
    """
    most = texts.shape[1] - 1 - N_LAST
    if not 0 <= k <= most:
        raise ValueError(f"k must be 0 to {most}, what these texts have; got {k}")
    nested = torch.cat([texts[:, :1], texts[:, -(k + N_LAST) :]], dim=1)
    end = slice(-N_LAST - 1, None)
    found = [next_token_losses(model(t, edits=edits)[:, end], t[:, end]) for t in nested.split(50)]
    return torch.cat(found).mean(dim=1)


def gain_by_context(
    model: Model, texts: Texts, edits: Edits | None = None
) -> Float[Tensor, " text"]:
    """What the same 8 tokens cost less with 119 to 126 tokens of context than with 4 to 11."""
    return last_losses(model, texts, 4, edits) - last_losses(model, texts, LENGTH - N_LAST, edits)


def with_foreign_context(texts: Texts) -> Texts:
    """The last 12 tokens of each text after the beginning of another one of them."""
    foreign = texts.roll(len(texts) // 2, dims=0).clone()
    foreign[:, -N_LAST - 4 :] = texts[:, -N_LAST - 4 :]
    return foreign


def guesses(texts: Texts) -> tuple[Int[Tensor, "text next"], Int[Tensor, "text next"]]:
    """The copying rule's guess for each next token (-1: none), how many tokens matched (0 to 2).

    The rule: what followed the last earlier place of the last two tokens; if there is none, of
    the last one.
    """
    one = earlier_copies(texts)  # [text, query, key]: the key holds the query's token
    two = one & F.pad(one, (1, -1, 1, -1))  # and the token before the key that before the query
    after, found = torch.arange(1, texts.shape[1] + 1), []
    for match in (one, two):
        last = (match * after).amax(dim=-1)  # one past the last match; 0: no match
        guess = texts.gather(1, last.clamp(max=texts.shape[1] - 1))
        found.append(torch.where(last > 0, guess, -1)[:, :-1])
    matched = (found[0] >= 0).long() + (found[1] >= 0)
    return torch.where(found[1] >= 0, found[1], found[0]), matched


def trust_groups(texts: Texts, matched: Int[Tensor, "text next"], d_vocab: int) -> Tensor:
    """A number for each present token and count of matching tokens: [text, pos-1]."""
    return matched * d_vocab + texts[:, :-1]


def mixed_losses(base: Tensor, extra: Tensor, group: Tensor) -> Float[Tensor, "text next"]:
    """-ln((1 - w) base + w extra), with one w for each group, fitted on the other texts.

    base, extra: probabilities of what came [text, pos-1]; each quarter of the texts gets the
    weights that are best on the other three.
    """
    losses, quarter = torch.empty_like(base), torch.arange(len(base)) * 4 // len(base)
    for fit in [quarter != part for part in range(4)]:
        total = torch.zeros(len(WEIGHTS), int(group.max()) + 1, dtype=base.dtype)
        for row, w in zip(total, WEIGHTS, strict=True):
            logs = ((1 - w) * base[fit] + w * extra[fit]).log()
            row.scatter_add_(0, group[fit].flatten(), logs.flatten())
        w = WEIGHTS[total.argmax(dim=0)][group[~fit]]
        losses[~fit] = -((1 - w) * base[~fit] + w * extra[~fit]).log()
    return losses


def with_copier(losses: Losses, texts: Texts, d_vocab: int) -> Losses:
    """The losses of a model that may lean on the copying rule, more or less for each token."""
    guess, matched = guesses(texts)
    right = (guess == texts[:, 1:]).double()
    return mixed_losses((-losses.double()).exp(), right, trust_groups(texts, matched, d_vocab))


def fraction_of_gap(reached: Tensor, one: Tensor, two: Tensor) -> float:
    """How far from one model to another: 0 is as the one, 1 as the two. Each a mean of losses."""
    return round(((one.mean() - reached.mean()) / (one.mean() - two.mean())).item(), 3) + 0.0


def roles(model: Model, repeats: Texts) -> tuple[list[Head], list[Head], list[Head]]:
    """The induction heads of layer 1, the previous-token head of layer 0, and all other heads.

    Found on random tokens written twice; an induction head has a score above 0.5 there.
    """
    found = induction_scores(model, repeats)[1]
    induction = [Head(1, head) for head in range(len(found)) if found[head] > 0.5]
    previous = [Head(0, head_scores(model, repeats, "previous").scores[0].argmax().item())]
    others = [head for head in all_heads(model) if head not in induction + previous]
    return induction, previous, others


def name_copy_accuracy(
    model: Model,
    texts: Texts,
    follows: Bool[Tensor, "text query key"],
    edits: Edits | None = None,
) -> float:
    """How often the best guess is right where a name goes on that was read before; see `Cast`."""
    again = follows.any(dim=-1)[:, :-1]
    with torch.no_grad():
        right = model(texts, edits=edits)[:, :-1].argmax(dim=-1) == texts[:, 1:]
    return right[again].float().mean().item()


def forced_attention(follows: Bool[Tensor, "text query key"], back: int = 0) -> Edits:
    """Edits that put the attention of layer 1, where a name goes on, on what followed last time.

    back: so many places before that.
    """
    again, where = follows.any(dim=-1), follows.roll(-back, dims=-1).float()
    place = where / where.sum(dim=-1, keepdim=True).clamp(min=1)

    def tell(pattern):
        return torch.where(again[:, None, :, None], place[:, None], pattern)

    return {"L1.pattern": tell}


def first_and_later(
    model: Model, texts: Texts, follows: Bool[Tensor, "text query key"]
) -> tuple[float, float]:
    """Mean loss (nats) of the tokens inside a name: when first mentioned, and when it goes on."""
    losses = losses_of(model, texts)
    text, query = follows.any(dim=-1).nonzero(as_tuple=True)
    first = follows[text, query].float().argmax(dim=-1)  # where the token stood the first time
    return losses[text, first - 1].mean().item(), losses[text, query].mean().item()


def largest_rise(values: pd.Series, within: int = 200) -> tuple[float, int]:
    """The largest rise of values by step between two at most so far apart, and where it begins."""
    pairs = itertools.combinations(values.items(), 2)
    return max((v - u, s) for (s, u), (t, v) in pairs if t - s <= within)


def per_doubling(losses: Float[Tensor, "*step text pos"]) -> Float[Tensor, "*step range"]:
    """How much the loss falls with each doubling of the token's index, between RANGES.

    Minus the derivative of the mean loss by the log (base 2) of the index: from the mean of one
    range to that of the next.
    """
    by_index = losses.mean(dim=-2)
    means = torch.stack([by_index[..., a - 1 : b - 1].mean(dim=-1) for a, b in RANGES], dim=-1)
    middle = torch.tensor([math.log2(math.sqrt(a * (b - 1))) for a, b in RANGES])
    return -means.diff(dim=-1) / middle.diff()


def context_slope(model: Model, texts: Tensor, far: Tensor | None = None) -> float:
    """Nats that a doubling of context saves, from 8 to 64 tokens, for the same 8 tokens.

    far: the texts that give the longer context, if they are others.
    """
    short = last_losses(model, texts, NEAR).mean()
    long = last_losses(model, texts if far is None else far, FAR).mean()
    return ((short - long) / math.log2(FAR / NEAR)).item()


def plane(vectors: Float[Tensor, "point token"]) -> tuple[Tensor, Tensor, list[float]]:
    """The mean [token], the first two principal components [2, token], and their shares."""
    mean = vectors.mean(dim=0)
    _, values, directions = torch.linalg.svd(vectors - mean, full_matrices=False)
    shares = values**2 / (values**2).sum()
    return mean, directions[:2], shares[:2].tolist()


def turning_angle(steps: list[int], path: Float[Tensor, "step axis"], at: int) -> float:
    """The angle (degrees) between the ways from `at` - 200 to `at` and on to `at` + 200.

    Raises ValueError where one of the three is no step of the path.
    """
    wanted = [at - 200, at, at + 200]
    if missing := [step for step in wanted if step not in steps]:
        raise ValueError(f"the path has no step {missing[0]}; it has {steps}")
    before, here, after = (path[steps.index(step)] for step in wanted)
    ways = here - before, after - here
    return math.degrees(torch.cosine_similarity(*ways, dim=0).clamp(-1, 1).acos())


def at_its_own_pace(
    steps: list[int], losses: Float[Tensor, "step token"]
) -> Float[Tensor, "step token"]:
    """Each token's loss as one exponential, c + d exp(-step / pace), fitted by least squares.

    What the path would be if every token were learned gradually, each at its own pace.
    """
    losses, time = losses.double(), torch.tensor(steps, dtype=torch.float64)
    best = torch.full((losses.shape[1],), math.inf, dtype=torch.float64)
    fitted = losses.clone()
    for pace in PACES:
        basis = torch.stack([torch.ones_like(time), (-time / pace).exp()], dim=1)
        found = basis @ torch.linalg.lstsq(basis, losses).solution
        error = ((found - losses) ** 2).sum(dim=0)
        fitted = torch.where(error < best, found, fitted)
        best = torch.minimum(best, error)
    return fitted.float()
