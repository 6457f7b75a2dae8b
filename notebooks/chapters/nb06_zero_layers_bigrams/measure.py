"""Notebook 06: pairs of letters, a model of two matrices, and how well it agrees with a table."""

import math
import re
from collections import defaultdict

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text.corpora import Corpus, load_corpus
from aot_helpers.text.planted import FILLERS
from aot_helpers.text.tokenization import Tokenizer
from chapters.nb06_zero_layers_bigrams.markov import MarkovChain

VOWELS = "aeiou"


def shown(sign: str) -> str:
    """A sign as a label; the space as ␣."""
    return "␣" if sign == " " else sign


def letters_of(corpus: str) -> tuple[str, Int[Tensor, " n"]]:
    """The signs of a corpus's training text and the text as their numbers.

    Small letters only; everything between two words is one space. Signs: the space, the vowels,
    the consonants that occur.
    """
    text = re.sub(r"[^a-z]+", " ", " ".join(load_corpus(corpus, quiet=True).texts).lower())
    signs = " " + VOWELS + "".join(sorted(set(text) - set(" " + VOWELS)))
    number = {sign: i for i, sign in enumerate(signs)}
    return signs, torch.tensor([number[sign] for sign in text])


def count_pairs(stream: Int[Tensor, " n"], d_vocab: int) -> Float[Tensor, "d_vocab d_vocab"]:
    """How often each token (row) is followed by each token (column)."""
    pairs = stream[:-1] * d_vocab + stream[1:]
    return torch.bincount(pairs, minlength=d_vocab**2).view(d_vocab, d_vocab).double()


def train_pairs(
    stream: Int[Tensor, " n"], d_vocab: int, d_model: int, steps: int = 500, seed: int = 0
) -> tuple[Float[Tensor, "d_vocab d_model"], Float[Tensor, "d_model d_vocab"]]:
    """W_E and W_U of a model without layers, trained on pairs drawn from a text.

    Adam on 2,000 pairs a step; its learning rate falls from 0.05 to 0.
    """
    dice = torch.Generator().manual_seed(seed)
    W_E = 0.1 * torch.randn(d_vocab, d_model, generator=dice)
    W_U = 0.1 * torch.randn(d_model, d_vocab, generator=dice)
    with torch.enable_grad():
        W_E.requires_grad_(), W_U.requires_grad_()
        optimizer = torch.optim.Adam([W_E, W_U])
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / steps)
            at = torch.randint(len(stream) - 1, (2000,), generator=dice)
            loss = cross_entropy(W_E[stream[at]] @ W_U, stream[at + 1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return W_E.detach(), W_U.detach()


def as_model(
    W_E: Float[Tensor, "d_vocab d_model"], W_U: Float[Tensor, "d_model d_vocab"], n_ctx: int = 64
) -> AttentionOnlyTransformer:
    """The package's model without layers, with these two matrices."""
    shape = ModelConfig(*W_E.shape[:1], 0, W_E.shape[1], n_ctx, positions="none", layer_norm=False)
    model = AttentionOnlyTransformer(shape).requires_grad_(False)
    model.W_E.copy_(W_E)
    model.W_U.copy_(W_U)
    return model


def kept(occurrences: Float[Tensor, "row next"], least: float) -> Bool[Tensor, "row next"]:
    """True for pairs with enough occurrences, in rows that have two of them or more.

    Row 0, the token that marks the beginning, is left out.
    """
    keep = occurrences >= least
    keep[0] = False
    return keep & (keep.sum(dim=1, keepdim=True) > 1)


def centered(
    table: Float[Tensor, "row next"], keep: Bool[Tensor, "row next"]
) -> Float[Tensor, " pair"]:
    """The kept entries, each minus the mean of the kept entries of its row."""
    n = keep.sum(dim=1, keepdim=True).clamp(min=1)
    return (table - (table * keep).sum(dim=1, keepdim=True) / n)[keep]


def correlation(
    table: Float[Tensor, "row next"],
    log_table: Float[Tensor, "row next"],
    keep: Bool[Tensor, "row next"],
) -> Float[Tensor, ""]:
    """Correlation of two tables over the kept entries, row means taken off."""
    both = [centered(each.double(), keep) for each in (table, log_table)]
    return torch.corrcoef(torch.stack(both))[0, 1]


def often_enough(
    chain: MarkovChain, n_tokens: int, least: float = 10
) -> Bool[Tensor, "present next"]:
    """True for pairs that a text of n_tokens should show at least so often, as `kept` says."""
    return kept(n_tokens * chain.stationary[:, None] * chain.P, least)


def against_chain(
    table: Float[Tensor, "present next"], chain: MarkovChain, n_tokens: int
) -> tuple[float, float]:
    """Two measures of a table of logits that has read n_tokens of a chain.

    Its expected loss above the chain's entropy (nats); its correlation with ln P, row means taken
    off, over the pairs that come often enough.
    """
    above = chain.expected_loss(table) - chain.entropy
    log_P = chain.P.clamp(min=1e-9).log()
    return above, float(correlation(table, log_P, often_enough(chain, n_tokens)))


def line_between(
    points: Float[Tensor, "point 2"], inside: Bool[Tensor, " point"]
) -> tuple[float, float, float] | None:
    """(a, b, c) with a x + b y > c for the points inside and < c for the others; None without one.

    Of 720 directions the one with the widest gap is taken, and the line is in its middle.
    """
    if inside.all() or not inside.any():
        return None
    angles = torch.arange(720) * (2 * math.pi / 720)
    normals = torch.stack([angles.cos(), angles.sin()])  # [2, direction]
    along = points @ normals  # [point, direction]
    lowest, highest = along[inside].amin(dim=0), along[~inside].amax(dim=0)
    best = int((lowest - highest).argmax())
    if lowest[best] <= highest[best]:
        return None
    return (*normals[:, best].tolist(), float(lowest[best] + highest[best]) / 2)


def paid_by_kind(
    models: dict, words: Tokenizer, corpus: Corpus
) -> dict[str, Float[Tensor, "word payer"]]:
    """What each word of a planted corpus costs, by what decides it: {kind: [word, payer]}.

    Payers: each model of {name: model}, in order, then one who knows all rules. Whatever follows an
    adverb, another one or the word that ends them, is of kind "bigram": the adverb alone decides.
    """
    paid, truth = defaultdict(list), corpus.truth
    for text, kinds, true in zip(corpus.texts, truth.kinds, truth.log_probs, strict=True):
        tokens = words.encode(text, bos=True)[None]
        costs = [next_token_losses(each(tokens), tokens)[0] for each in models.values()]
        costs = torch.stack([*costs, -torch.tensor(true)], dim=1)  # [word, payer]
        before = [None, *text.split()]
        for present, kind, row in zip(before, kinds, costs, strict=False):
            paid["bigram" if present in FILLERS else kind].append(row)
    return {kind: torch.stack(rows) for kind, rows in paid.items()}
