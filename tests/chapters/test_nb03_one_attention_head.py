"""Notebook 03: its exercises on a head of five tokens, its blank pages, and its drawings."""

import math

import torch

from aot_helpers import load_checkpoint
from aot_helpers.teaching.exercises.attention import flawed_attention
from chapters.nb03_one_attention_head import exercises, figures
from figure_checks import check_figures

RESID = torch.tensor(
    [[0.0, 0, 0, 0], [1, 0, 4, 2], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 3]]
)  # the cat chased the mouse
QK = torch.tensor([[0.0, 4], [4, 0], [0, 0], [0, 0]]) @ torch.eye(2, 4)
SCORES = RESID @ QK @ RESID.T / math.sqrt(2)


def leaky_head(resid):
    pattern = (resid @ QK @ resid.T / math.sqrt(2)).softmax(dim=-1).tril()
    return pattern @ (resid * torch.tensor([0.0, 0, 1, 1]))


HALVES, THIRDS = [0, 0.5, 0, 0, 0.5], [0.33, 0, 0.33, 0.33, 0]


def flawed(**flaw):
    return lambda *arguments: flawed_attention(*arguments, **flaw)


def without_W_O(x, W_Q, W_K, W_V, W_O, bias):
    _, pattern = exercises.attention_head(x, W_Q, W_K, W_V, W_O, bias)
    return pattern @ x @ W_V, pattern


def zeros_for_the_future(x, W_Q, W_K, W_V, W_O, bias=0.0):
    scores = (x @ W_Q) @ (x @ W_K).T / W_Q.shape[1] ** 0.5 + bias
    pattern = scores.tril().softmax(dim=-1)
    return pattern @ x @ W_V @ W_O, pattern


def with_a_divided_bias(x, W_Q, W_K, W_V, W_O, bias=0.0):
    return exercises.attention_head(x, W_Q, W_K, W_V, W_O, bias / W_Q.shape[1] ** 0.5)


def with_x(x, *weights):
    written, pattern = exercises.attention_head(x, *weights)
    return x + written, pattern


def stories_head():
    return {"model": load_checkpoint("stories-2l").requires_grad_(False), "head": 3}


GIVEN = {
    "03.1": lambda: {"scores": SCORES},
    "03.3": lambda: {"head": leaky_head, "resid": RESID},
    "03.4": stories_head,
}
ANSWERS = [
    ("03.1", (HALVES, THIRDS), "solved"),
    ("03.1", (HALVES, ...), "not attempted"),
    ("03.1", ([0.2] * 5, THIRDS), "not yet"),
    ("03.1", ([0, 1, 0, 0, 0], THIRDS), "positions 1 and 4 have equal scores"),
    ("03.1", (HALVES, [0.3, 0.3, 0.3, 0]), "5 numbers"),
    ("03.2", lambda x, *_: x, "not yet"),
    ("03.2", flawed(mask="none"), "causal mask"),
    ("03.2", flawed(mask="after"), "after the softmax"),
    ("03.2", flawed(mask="own"), "from itself"),
    ("03.2", flawed(root=1.0), "not divided"),
    ("03.2", flawed(over=-2), "over the queries"),
    ("03.2", flawed(swap=True), "changed places"),
    ("03.2", without_W_O, "W_O is missing"),
    ("03.2", zeros_for_the_future, "later scores to 0"),
    ("03.2", with_a_divided_bias, "divide the bias"),
    ("03.2", with_x, "x is in your result"),
    ("03.2", lambda *given: exercises.attention_head(*given)[::-1], "The other way round"),
    ("03.3", [10.0, 0, 0, 0], "solved"),
    ("03.3", [3.0, 0, 0, 0], "chased still receives"),
    ("03.3", [2e38, 0, 0, 0], "scores overflow"),
    ("03.4", [".", "ov", " thanked"], "solved"),
    ("03.4", ..., "not attempted"),
    ("03.4", [" the", " red", " kite"], "the bias is ahead by 3.99"),
    ("03.4", [" the", " kite"], "Three tokens"),
    ("03.4", ["no token", " red", " kite"], "is no token"),
]


def test_figures_can_be_read():
    tokens = ["the", "cat", "ran", "home"]
    check_figures(
        figures.one_head(tokens, 1, [0.2, 0.8, 0, 0], "title"),
        figures.taken_apart({"a": {"b": torch.eye(4)}}, tokens, "title"),
    )
