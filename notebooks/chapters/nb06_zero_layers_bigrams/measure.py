"""Notebook 06: the letters of a text, pairs and longer contexts, a line between two groups."""

import math
import re

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

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
