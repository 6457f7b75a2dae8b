"""Notebook 06: pairs of letters, a model of two matrices, and how well it agrees with a table."""

import math
import re

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from aot_helpers.text.corpora import load_corpus

VOWELS = "aeiou"
SIGNS = " " + VOWELS + "bcdfghjklmnpqrstvwxyz"  # what a text is made of here
Table = Float[Tensor, "present next"]


def shown(sign: str) -> str:
    """A sign as a label; the space as ␣."""
    return "␣" if sign == " " else sign


def letters_of(corpus: str, split: str = "train") -> Int[Tensor, " n"]:
    """A corpus as the numbers of its letters in SIGNS.

    Small letters only; everything between two words is one space.
    """
    texts = load_corpus(corpus, split, quiet=True).texts
    text = re.sub(r"[^a-z]+", " ", " ".join(texts).lower())
    number = {sign: i for i, sign in enumerate(SIGNS)}
    return torch.tensor([number[sign] for sign in text])


def count_pairs(stream: Int[Tensor, " n"], d_vocab: int) -> Float[Tensor, "d_vocab d_vocab"]:
    """How often each token (row) is followed by each token (column)."""
    pairs = stream[:-1] * d_vocab + stream[1:]
    return torch.bincount(pairs, minlength=d_vocab**2).view(d_vocab, d_vocab).double()


def context_losses(
    stream: Int[Tensor, " n"], unread: Int[Tensor, " m"], d_vocab: int, most: int
) -> list[float]:
    """Loss per token on an unread text, of counting what follows the last 0, 1, ... `most` tokens.

    Each count is added to five more that are shared out as the next shorter context says.
    """
    losses, shares = [], torch.full((1, d_vocab), 1 / d_vocab, dtype=torch.double)
    for n in range(most + 1):
        read, asked = (_contexts(text, d_vocab, n) for text in (stream, unread))
        rows = d_vocab**n
        counts = torch.bincount(read * d_vocab + stream[n:], minlength=rows * d_vocab)
        counts = counts.view(rows, d_vocab).double()
        counts += 5 * shares.repeat(rows // len(shares), 1)
        shares = counts / counts.sum(dim=1, keepdim=True)
        losses.append(-shares[asked, unread[n:]].log().mean().item())
    return losses


def _contexts(stream: Int[Tensor, " n"], d_vocab: int, length: int) -> Int[Tensor, " place"]:
    """For each token that has so many before it, these as one number, the latest as last digit."""
    code = torch.zeros(len(stream) - length, dtype=torch.long)
    for i in range(length):
        code = code * d_vocab + stream[i : i + len(code)]
    return code


def train_pairs(
    stream: Int[Tensor, " n"],
    d_vocab: int,
    d_model: int,
    steps: int = 500,
    seed: int = 0,
    tied: bool = False,
) -> tuple[Float[Tensor, "d_vocab d_model"], Float[Tensor, "d_model d_vocab"]]:
    """W_E and W_U of a model without layers, trained on pairs drawn from a text.

    Adam on 2,000 pairs a step; its learning rate falls from 0.05 to 0. tied: W_U is W_E turned.
    """
    dice = torch.Generator().manual_seed(seed)
    W_E = 0.1 * torch.randn(d_vocab, d_model, generator=dice)
    W_U = W_E.T if tied else 0.1 * torch.randn(d_model, d_vocab, generator=dice)
    with torch.enable_grad():
        W_E.requires_grad_()
        W_U = W_E.T if tied else W_U.requires_grad_()
        optimizer = torch.optim.Adam([W_E] if tied else [W_E, W_U])
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / steps)
            at = torch.randint(len(stream) - 1, (2000,), generator=dice)
            loss = cross_entropy(W_E[stream[at]] @ W_U, stream[at + 1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return W_E.detach(), W_U.detach()


def cut_by_frequency(
    log_table: Table, rows: Float[Tensor, " present"], columns: Float[Tensor, " next"], rank: int
) -> Table:
    """The table of a rank that is nearest by squared error, row means taken off.

    An entry weighs its row's weight times its column's; with equal ones it is the truncated SVD.
    """
    rows, columns = rows.double(), columns.double()
    centered = log_table.double()
    centered = centered - (centered * columns).sum(dim=1, keepdim=True) / columns.sum()
    left, right = (each.clamp(min=1e-12).sqrt() for each in (rows[:, None], columns))
    U, S, Vh = torch.linalg.svd(left * centered * right)
    return (U[:, :rank] * S[:rank]) @ Vh[:rank] / left / right


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
