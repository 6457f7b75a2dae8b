"""Notebook 03: its exercises on a head of five tokens, and its drawings."""

import math

import pytest
import torch

from chapters.nb03_one_attention_head import figures
from figure_checks import check_figures

RESID = torch.tensor(
    [[0.0, 0, 0, 0], [1, 0, 4, 2], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 3]]
)  # the cat chased the mouse
QK = torch.tensor([[0.0, 4], [4, 0], [0, 0], [0, 0]]) @ torch.eye(2, 4)
SCORES = RESID @ QK @ RESID.T / math.sqrt(2)


def leaky_head(resid):
    pattern = (resid @ QK @ resid.T / math.sqrt(2)).softmax(dim=-1).tril()
    return pattern @ (resid * torch.tensor([0.0, 0, 1, 1]))


def diagonal(value, offset=-1, other=0.0):
    bias = torch.full((5, 5), other)
    bias.diagonal(offset).fill_(value)
    return bias


HALVES, THIRDS = [0, 0.5, 0, 0, 0.5], [0.33, 0, 0.33, 0.33, 0]
ONLY_ONE_BACK = diagonal(0.0, other=-math.inf)
ONLY_ONE_BACK[0, 0] = 0.0
GIVEN = {"03.1": {"scores": SCORES}, "03.2": {"head": leaky_head, "resid": RESID}}


@pytest.mark.parametrize(
    ("number", "answer", "expected"),
    [
        ("03.1", (HALVES, THIRDS), "solved"),
        ("03.1", (HALVES, ...), "not attempted"),
        ("03.1", ([0.2] * 5, THIRDS), "not yet"),
        ("03.1", (HALVES, [0.3, 0.3, 0.3, 0]), "not yet"),
        ("03.2", ([10.0, 0, 0, 0],), "solved"),
        ("03.2", ([3.0, 0, 0, 0],), "not yet"),
        ("03.2", ([2e38, 0, 0, 0],), "not yet"),
        ("03.3", (diagonal(20.0).tolist(),), "solved"),
        ("03.3", (ONLY_ONE_BACK,), "solved"),
        ("03.3", (...,), "not attempted"),
        ("03.3", (torch.zeros(5, 5),), "not yet"),
        ("03.3", (diagonal(20.0, 1),), "not yet"),
        ("03.3", (diagonal(0.0, other=-math.inf),), "not yet"),
    ],
)
def test_an_answer_is_judged(verdict, number, answer, expected):
    assert verdict(number, *answer, **GIVEN.get(number, {"scores": SCORES})) == expected


def test_figures_can_be_read():
    tokens, names = ["the", "cat", "ran", "home"], ["a", "b", "c", "d"]
    check_figures(
        figures.one_head(tokens, 1, [0.2, 0.8, 0, 0], "title"),
        figures.hardening({4: torch.randn(9, 20), 16: torch.randn(9, 20)}, title="title"),
        figures.qk_ov(QK, torch.eye(4), names, "cat", "ran", 0.9, "title"),
        figures.patterns({"a": torch.eye(4)}, tokens, "title"),
        figures.changed_outputs({"a": torch.rand(4)}, tokens, "title"),
    )
