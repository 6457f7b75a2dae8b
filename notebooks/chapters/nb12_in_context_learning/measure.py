"""Notebook 12: what more text before a token is worth, and how far a rule of copying goes."""

import itertools
import random
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.checkpoints import load_measurements
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Head, Model, all_heads
from aot_helpers.reading.heads import earlier_copies, head_scores, induction_scores
from aot_helpers.text.batches import token_stream
from aot_helpers.text.corpora import load_corpus

LENGTH = 127  # tokens of text in a piece, after BOS
N_LAST = 8  # the tokens that are predicted with every length of context
SKILLS = {  # of an entry of a run's log; higher is better
    "score": lambda found: -found["in-context score"],
    "copying": lambda found: found["copy accuracy"]["32"],
}
WEIGHTS = torch.tensor([0, *(0.01 + i * 0.0245 for i in range(41))], dtype=torch.float64)
WORDS = """
tower harbour island garden hills mill sea forest market school river bridge winter night day
evening afternoon morning kite key bell drum lamp book clock flute boat map rain snow wind sun
fog thunder bread soup apples cheese honey fish
""".split()  # of the stories, each of them one token after a space  # noqa: SIM905
Texts = Int[Tensor, "text pos"]
Losses = Float[Tensor, "text next"]


def cut(texts: list[Int[Tensor, " _"]], n: int, bos: int) -> Int[Tensor, "n 128"]:
    """N disjoint pieces of a line of texts, cut anywhere: BOS and 127 tokens each.

    Raises ValueError where the texts are too short for that.
    """
    line = token_stream(texts, bos)
    if not 1 <= n <= len(line) // LENGTH:
        raise ValueError(f"n must be 1 to {len(line) // LENGTH}, the pieces there are; got {n}")
    return F.pad(line[: n * LENGTH].view(n, LENGTH), (1, 0), value=bos)


@torch.no_grad()
def losses_of(model: Model, texts: Texts, edits: Edits | None = None, at_once: int = 25) -> Losses:
    """Loss (nats) of every next token, so many texts at a time.

    Entry t of a row is the loss of the token with t tokens of text (and BOS) before it.
    """
    return torch.cat([next_token_losses(model(t, edits=edits), t) for t in texts.split(at_once)])


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


def share_of_way(reached: Tensor, one: Tensor, two: Tensor) -> float:
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


@torch.no_grad()
def pattern_and_guesses(
    model: Model, texts: Texts, head: Head
) -> tuple[Float[Tensor, "query key"], Int[Tensor, "text pos"]]:
    """The mean attention pattern of a head on the texts, and the model's best guesses there."""
    logits, cache = model.run_with_cache(texts)
    return cache[f"L{head.layer}.pattern"][:, head.head].mean(dim=0), logits.argmax(dim=-1)


def at_step(name: str, step: int, length: int = 32) -> tuple[float, float, float]:
    """What a run had at a step: in-context score, best induction score, copy accuracy.

    The score is late minus early loss; the copies are of so many random tokens, as logged.
    """
    log = load_measurements(name)
    found = log["measured"][log["steps"].index(step)]
    best = max(map(max, found["induction"]))
    return found["in-context score"], best, found["copy accuracy"][str(length)]


def largest_rise(steps: list[int], values: list[float], within: int = 200) -> tuple[float, int]:
    """The largest rise between two steps at most so far apart, and where it begins."""
    pairs = itertools.combinations(zip(steps, values, strict=True), 2)
    return max((v - u, s) for (s, u), (t, v) in pairs if t - s <= within)


def largest_gain(name: str, value_of, within: int = 200) -> float:
    """The most that a run gained within so many steps. value_of: of one entry of its log."""
    log = load_measurements(name)
    return largest_rise(log["steps"], list(map(value_of, log["measured"])), within)[0]


class Cast(NamedTuple):
    """Stories with two people each, and where a name that was read before goes on.

    hero, friend: [text, query, key], True at the keys that followed the query's token in earlier
    mentions of that person.
    """

    tokens: Int[Tensor, "text pos"]
    hero: Bool[Tensor, "text query key"]
    friend: Bool[Tensor, "text query key"]


def cast(tokenizer, renamed: bool = False, n_texts: int = 60, n_words: int = 3) -> Cast:
    """The beginnings of unread stories: BOS and up to 127 tokens, filled up with BOS.

    renamed: the friend, who never opens a story, is called by words that stand nowhere else in it.
    """
    found = load_corpus("stories", "test", quiet=True)
    rng, rows, follows = random.Random(0), [], []
    for text, (hero, friend) in zip(found.texts, found.truth.names, strict=True):
        if text.startswith(friend) or set(hero.split()) & set(friend.split()):
            continue
        words = rng.sample([word for word in WORDS if word not in text], n_words)
        name = " ".join(words) if renamed else friend
        tokens = tokenizer.encode(text.replace(friend, name), bos=True)[: LENGTH + 1]
        rows.append(F.pad(tokens, (0, LENGTH + 1 - len(tokens)), value=tokenizer.bos))
        people = [tokenizer.encode(f" {who}").tolist() for who in (hero, name)]
        follows.append(torch.stack([_goes_on(rows[-1].tolist(), who) for who in people]))
        if len(rows) == n_texts:
            break
    return Cast(torch.stack(rows), *torch.stack(follows, dim=1))


def _goes_on(text: list[int], name: list[int]) -> Bool[Tensor, "query key"]:
    """True where a query inside a later mention of the name meets what followed in earlier ones."""
    follows = torch.zeros(len(text), len(text), dtype=torch.bool)
    starts = [i for i in range(len(text)) if text[i : i + len(name)] == name]
    for i, j in itertools.combinations(starts, 2):
        for k in range(len(name) - 1):
            follows[j + k, i + k + 1] = True
    return follows
