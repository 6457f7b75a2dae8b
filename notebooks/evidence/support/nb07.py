"""Evidence of notebook 07: skip-trigrams from weights, and what one layer's mistakes cost."""

import copy
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_token_ids, check_whole
from aot_helpers.models.handmade import STRENGTH, blank_model, score_tokens, stream_block
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Head, Model
from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.reading.circuits import full_ov, full_qk
from aot_helpers.text.planted import FILLERS, P_VERB
from aot_helpers.text.tokenization import word_ids
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import train

# Does "keep" raise "bay" after "in" in a pretrained model, too? What `pretrained` asks.
VERB, RIGHT = "keep", {"in": "mind", "at": "bay"}
STARTS = ("We should", "They will", "You must", "I want to")
OBJECTS = ("them", "it", "the enemy", "this")
OTHER_VERBS = ("find", "see", "put", "leave", "bring", "send", "meet", "show")
# Nouns that follow one preposition and are no idiom with "keep": controls after the other one. Of
# love, risk and stake the values were known when the list was made, of the others not.
NOUNS = {
    "in": ("love", "vain", "advance", "debt", "doubt", "theory", "public", "general"),
    "at": ("risk", "stake", "random", "dawn", "noon", "war", "once", "last"),
}


def frames(tokenizer, sources: list[str], destinations: list[str]) -> Int[Tensor, "frame 5"]:
    """Short texts BOS, source, filler, filler, destination: all pairs of fillers that may follow.

    Ordered by source, then destination, then fillers.
    """
    number = word_ids(tokenizer)
    return torch.tensor(
        [
            [tokenizer.bos, number[source], number[a], number[b], number[destination]]
            for source in sources
            for destination in destinations
            for a in FILLERS
            for b in FILLERS[a]
        ]
    )


def raises(
    logits: Float[Tensor, "frame out"], n_destinations: int
) -> Float[Tensor, "source destination out"]:
    """How far each source lifts the probability of each out, above the mean over all sources.

    logits: after the last word of `frames`, with every word of the vocabulary as a source.
    """
    n_pairs = sum(map(len, FILLERS.values()))
    p = logits.softmax(dim=-1).view(-1, n_destinations, n_pairs, logits.shape[-1]).mean(dim=2)
    return p - p.mean(dim=0)


def fillers_before(tokenizer, texts: Int[Tensor, "text pos"]) -> Int[Tensor, "text pos"]:
    """How many fillers stand directly before each word."""
    number = word_ids(tokenizer)
    filler = torch.isin(texts, torch.tensor([number[word] for word in FILLERS]))
    n_before = torch.zeros_like(texts)
    for at in range(1, texts.shape[1]):
        n_before[:, at] = (n_before[:, at - 1] + 1) * filler[:, at - 1]
    return n_before


def looks_at_verbs(
    model: AttentionOnlyTransformer,
    head: int,
    texts: Int[Tensor, "text pos"],
    here: Bool[Tensor, "text word"],
) -> tuple[float, float]:
    """A head's mean attention to the word before the fillers, and to all other verbs.

    here: True at the places that it looks from, each with a verb before its fillers.
    """
    number = word_ids(model.tokenizer)
    row, place = here.nonzero(as_tuple=True)
    _, cache = model.run_with_cache(texts)
    shares = cache["L0.pattern"][row, head, place]  # [place, pos]
    before = place - fillers_before(model.tokenizer, texts)[row, place] - 1
    own = shares.gather(1, before[:, None])[:, 0]
    verbs = torch.isin(texts[row], torch.tensor([number[verb] for verb in P_VERB]))
    return own.mean().item(), ((shares * verbs).sum(dim=1) - own).mean().item()


def with_new_attention(
    model: AttentionOnlyTransformer,
    head: int,
    draw: int,
    like: int | None = None,
    sign: int = 1,
) -> AttentionOnlyTransformer:
    """A copy of a one-layer model in which one head looks afresh.

    It has new random queries and keys, as of a model just made, and no bias for distances. draw:
    their seed. like: a head whose W_V and W_O, the latter times sign, it takes over; None: it keeps
    its own.
    """
    young = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(draw)
        fresh = AttentionOnlyTransformer(model.config).blocks[0].attn
        attn = young.blocks[0].attn
        for name in ("W_Q", "W_K", "b_rel"):
            getattr(attn, name)[head] = getattr(fresh, name)[head]
        if like is not None:
            attn.W_V[head], attn.W_O[head] = attn.W_V[like], sign * attn.W_O[like]
    return young


@torch.no_grad()
def attending_like(
    model: AttentionOnlyTransformer, head: int, like: int, here: int, there: int
) -> AttentionOnlyTransformer:
    """A copy of a one-layer model in which one head looks from `here` as `like` does from `there`.

    here, there: token ids. Its values are its own. From words whose rows of W_E are orthogonal to
    that of `here` it looks as `like` does.
    """
    young = copy.deepcopy(model)
    attn, row = young.blocks[0].attn, model.W_E[here]
    instead = torch.outer(
        row / (row @ row), model.W_E[there] - row
    )  # row @ instead: the difference
    attn.W_Q[head] = attn.W_Q[like] + instead @ attn.W_Q[like]
    attn.W_K[head], attn.b_rel[head] = attn.W_K[like], attn.b_rel[like]
    return young


def trained_on(
    model: AttentionOnlyTransformer, batches, steps: int = 300
) -> AttentionOnlyTransformer:
    """A copy of a model, trained on for some steps."""
    young = copy.deepcopy(model).requires_grad_(True)
    config = TrainConfig(steps, learning_rate=4e-3, warmup_steps=10, log_every=steps)
    with torch.enable_grad():
        train(young, batches, config, resume=False, quiet=True)
    return young.requires_grad_(False)


def excess_loss(
    model: Model,
    words: Bool[Tensor, "text word"],
    texts: Int[Tensor, "text pos"],
    floor: Float[Tensor, "text word"],
    edits: Edits | None = None,
    on: Int[Tensor, "text pos"] | None = None,
) -> float:
    """Mean loss above the floor (nats per word) where `words` is True.

    on: other texts for the model to read, while it is asked for the words of `texts`.
    """
    losses = next_token_losses(model(texts if on is None else on, edits=edits), texts)
    return (losses - floor)[words].mean().item()


class SkipTrigrams(NamedTuple):
    """The strongest "source … destination → out", sorted by value, which is attention × boost."""

    source: Int[Tensor, " k"]
    destination: Int[Tensor, " k"]
    out: Int[Tensor, " k"]
    value: Float[Tensor, " k"]
    attention: Float[Tensor, " k"]
    boost: Float[Tensor, " k"]


def skip_trigrams(
    model: Model, head: Head, k: int, context: Int[Tensor, " context"]
) -> SkipTrigrams:
    """The k strongest skip-trigrams of one head, straight from its weights: see `top_triples`.

    In layer 0 they are all that the head does, up to positions; in later layers, what it does with
    bare embeddings. With layer norm they hold up to σ and bias (see `folded_weights`). Framework
    paper, "Interpretation as Skip-Trigrams".
    """
    return top_triples(full_qk(model, head).dense(), full_ov(model, head).dense(), k, context)


def top_triples(
    qk: Float[Tensor, "destination source"],
    ov: Float[Tensor, "source out"],
    k: int,
    context: Int[Tensor, " context"],
) -> SkipTrigrams:
    """The k triples with the largest value = attention × boost > 0; fewer if there are fewer.

    qk: scores. ov: logits. context: token ids, for example 50 tokens of a text.
    attention(destination, source) is what the source would get from the destination beside the
    tokens of the context, e^s / (e^s + Σ e^c) of their scores, positions left out.
    boost(source, out) is the logit above its mean over all outs. Raises ValueError for a k < 1 and
    an empty context or one with unknown tokens.
    """
    check_whole("k", k, 1)
    check_token_ids(context, qk.shape[1])
    if len(context) == 0:
        raise ValueError("context must be one or more token ids, got none: give those of a text")
    attention = (qk - qk[:, context].logsumexp(dim=1, keepdim=True)).sigmoid().T
    boost = ov - ov.mean(dim=1, keepdim=True)
    attention, destination = attention.topk(min(k, attention.shape[1]))  # sorted, for each source
    boost, out = boost.topk(min(k, boost.shape[1]))
    # The product of the i-th and the j-th of sorted lists (from 1) has i · j - 1 others at least as
    # large, so that only those with i · j <= k are needed.
    n_looks, n_boosts = attention.shape[1], boost.shape[1]
    pairs = [(i, j) for i in range(n_looks) for j in range(min(n_boosts, k // (i + 1)))]
    i, j = torch.tensor(pairs).T
    value = attention[:, i] * boost[:, j]  # [source, pair]
    strongest = value.flatten().topk(min(k, value.numel()))
    source, pair = torch.unravel_index(strongest.indices[strongest.values > 0], value.shape)
    i, j = i[pair], j[pair]
    columns = destination[source, i], out[source, j], value[source, pair]
    return SkipTrigrams(source, *columns, attention[source, i], boost[source, j])


def log_probs(
    model: Model, verb: str, preposition: str, nouns: list[str]
) -> Float[Tensor, "text noun"]:
    """The log-probability of each noun after 16 texts such as "We should VERB them PREPOSITION"."""
    encode, rows = model.tokenizer.encode, []
    ids = [encode(f" {noun}", bos=False) for noun in nouns]
    if long := [noun for noun, each in zip(nouns, ids, strict=True) if len(each) > 1]:
        raise ValueError(f"{long} are not single tokens of this model: take other nouns")
    for text in (f"{start} {verb} {thing} {preposition}" for start in STARTS for thing in OBJECTS):
        rows.append(model(encode(text, bos=True)[None])[0, -1].log_softmax(dim=-1))
    return torch.stack(rows)[:, torch.cat(ids)]


def pretrained(model: Model, name: str = "") -> dict:
    """What the entry 07 of `make data WHAT=pretrained` writes: for each preposition, by noun.

    p: mean probability after "keep"; raised: how much larger its mean log-probability is than after
    eight other verbs (nats).
    """
    found = {}
    for preposition in RIGHT:
        other = next(each for each in RIGHT if each != preposition)
        nouns = [RIGHT[preposition], RIGHT[other], *NOUNS[other]]
        kept = log_probs(model, VERB, preposition, nouns)
        others = [log_probs(model, verb, preposition, nouns).mean(dim=0) for verb in OTHER_VERBS]
        raised = kept.mean(dim=0) - torch.stack(others).mean(dim=0)
        found[preposition] = {
            noun: {"p": float(f"{p:.4g}"), "raised": round(more, 4)}
            for noun, p, more in zip(
                nouns, kept.exp().mean(dim=0).tolist(), raised.tolist(), strict=True
            )
        }
    return {"texts": len(STARTS) * len(OBJECTS), "verbs": OTHER_VERBS, "after": found}


@torch.no_grad()
def skip_trigram_model(
    triples: list[tuple[int, int, int]],
    d_vocab: int,
    bigrams: dict[int, int] | None = None,
    n_heads: int | None = None,
) -> AttentionOnlyTransformer:
    """One layer that knows skip-trigrams "source … destination → out", given as token triples.

    The destination attends to the source, which raises the logit of `out` by STRENGTH; several
    sources in one text share that between them. Token 0 is BOS and in no triple. `bigrams` {token:
    next token} are written into the direct path W_E W_U at half that logit.

    n_heads: None gives each destination a head of its own, so exactly the triples are known. With
    fewer, destination i goes to head i % n_heads. A head decides where to look (QK) and what
    to copy (OV) apart, so it raises everything that a source announces for *any* of its
    destinations: from "keep … in → mind" and "keep … at → bay" it also makes "keep … in → bay".
    These are the skip-trigram bugs of the framework paper, "One-Layer Attention-Only Transformers".
    """
    destinations = list(dict.fromkeys(destination for _, destination, _ in triples))
    n_heads = len(destinations) if n_heads is None else n_heads
    model = blank_model(d_vocab, 1, n_heads)
    token, output = stream_block(d_vocab, "token"), stream_block(d_vocab, "output")
    attn = model.blocks[0].attn
    wanted = torch.zeros(n_heads, d_vocab, d_vocab)
    for source, destination, out in triples:
        head = destinations.index(destination) % n_heads
        wanted[head, destination, source] = 1.0
        attn.W_V[head, token][source, source] = 1.0
        attn.W_O[head][source, output][out] = 1.0
    score_tokens(attn, wanted)
    attn.b_rel[:, 0] = -2 * STRENGTH  # a destination is not its own source
    for before, after in (bigrams or {}).items():
        model.W_U[token][before, after] = STRENGTH / 2
    return model
