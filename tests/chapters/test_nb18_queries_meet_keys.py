"""Notebook 18: what its cells read and compute, its drawings and its exercises."""

import math

import numpy as np
import torch

from aot_helpers.base import results
from aot_helpers.models.protocol import Head
from chapters.nb18_queries_meet_keys import figures as drawings
from chapters.nb18_queries_meet_keys.exercises import PAGES
from chapters.nb18_queries_meet_keys.measure import QueriesKeys
from figure_checks import check_figures

MINILM = results.read("geometry/minilm")


def points(n_texts=3, n=10, d_head=6, seed=0):
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, n_texts * n, d_head, generator=draw, dtype=torch.float64)
    text, pos = torch.arange(n_texts).repeat_interleave(n), torch.arange(n).repeat(n_texts)
    return QueriesKeys(2 * q, k, text, pos)


# ---- figures ----


def test_figures_can_be_read():
    v, words = points(), ["x", "y"]
    q, k = v.q[:, :2], v.k[:, :2]
    near, far = (q[:2], 0.01 * k[:2]), (q[:2], 5 * k[:2])
    scales = [0.2, 1, 5]
    found = {"in all 32 numbers": [0.1, 0.5, 0.9], "on the map": [0.1, 0.8, 0.1]}
    check_figures(
        drawings.toy({"near": near, "far": far}, words, "title"),
        drawings.at_a_glance(MINILM, "title", notes={Head(0, 2): "before"}),
        drawings.at_scales({"c = 1": (q, k), "c = 5": (q, k)}, torch.arange(len(q)), v, "title"),
        drawings.choosing(scales, found, [-0.9, 0.5, -1], 1.1, "title"),
        drawings.shift_steps(MINILM, 13, "title"),
    )


def test_the_view_of_moved_keys_fits_in_a_page():
    assert len(drawings.shift_view(MINILM, 13, "a title").html()) < 80_000


# ---- exercises ----

TOY = {
    "queries": [[1.6, 1.6], [-1.2, 1.6], [2.2, 0.2], [-0.6, 1.0]],
    "keys": [[0.4, 0.6], [1.2, -0.8], [0.1, 2.2], [2.0, -1.2]],
}


def lengthened(q, k):
    nearest = (q @ k.T).argmax(dim=1)  # all keys have length 1
    unwanted = torch.bincount(nearest, minlength=len(k)) == 0
    return torch.where(unwanted[:, None], 100 * k, k)


def random_pair(of_q, of_k):
    draw = torch.Generator().manual_seed(0)
    return lambda: tuple(c * torch.randn(100, 8, generator=draw) for c in (of_q, of_k))


def weighted_correlation(x, y):
    weights = (x.quantile(0.005) - x).clamp(min=0) ** 2
    cov = np.cov(np.stack([x.flatten(), y.flatten()]), aweights=weights.flatten())
    return cov[0, 1] / math.sqrt(cov[0, 0] * cov[1, 1])


GIVEN = {
    "18.2": lambda: TOY,
    "18.4": lambda: {"weighted_correlation": weighted_correlation},
}
ANSWERS = [
    ("18.1", lambda scores: PAGES["18.1"](scores) + scores.amax(dim=1, keepdim=True), "solved"),
    ("18.1", lambda scores: scores, "nearest one before the shift"),
    ("18.1", lambda scores: scores - scores.mean(dim=1, keepdim=True), "before the shift"),
    ("18.1", lambda scores: -PAGES["18.1"](scores), "the wrong way round"),
    ("18.1", lambda scores: scores + scores.mean(dim=0), "takes it away"),
    ("18.1", lambda scores: scores.mean(dim=0).expand(scores.shape), "averages alone"),
    ("18.1", lambda scores: scores.mean(dim=0), "A tensor of shape (12, 9) is wanted, got (9,)"),
    ("18.2", ([6.0, 0.0], False), "solved"),
    ("18.2", ([6.0, 0.0], True), "not the guess"),
    ("18.2", ([0.0, 0.0], True), "for 1 of 4 queries"),
    ("18.2", ([1.0], True), "Give two"),
    ("18.3", lengthened, "solved"),
    ("18.3", lambda q, k: 10 * k, "still right for 12, 12, 12"),
    ("18.3", lambda q, k: torch.cat([100 * k[:1], k[1:]]), "still right"),
    ("18.3", lambda q, k: k.flip(0), "A cosine distance has changed"),
    ("18.3", lambda q, k: None, "not attempted"),
    ("18.4", random_pair(0.2, 5), "solved"),
    ("18.4", random_pair(1, 1), "-0.9 or less"),
    ("18.4", random_pair(8, 0.125), "What if keys are long?"),
    ("18.4", lambda: (torch.ones(100, 8), torch.ones(100, 8)), "no two vectors alike"),
    ("18.4", lambda: None, "not attempted"),
]
