"""Notebook 16: the report's losses and data, the figures and the exercises."""

import math

import pytest
import torch
import torch.nn.functional as F

from aot_helpers.base import results
from aot_helpers.text.tokenization import train_bpe
from chapters.nb16_too_good import figures, report_model
from chapters.nb16_too_good.report_model import (
    chance_over_time,
    loss_over_time,
    next_token_loss,
    report_rows,
)
from figure_checks import check_figures

TEXTS = [
    f"This movie is {what}, and {who} liked it."
    for what in ("good", "bad", "long", "odd")
    for who in ("we", "they", "Ann", "nobody")
]
TOKENIZER = train_bpe(TEXTS, 300)


@pytest.mark.parametrize("n_pos, expected", [(19, 0.00111317), (49, 0.00379448), (79, 0.00686842)])
def test_constant_logits_cost_t_log_t_over_v(n_pos, expected):
    assert chance_over_time(n_pos, 50257) == pytest.approx(expected, abs=5e-9)
    targets = torch.randint(97, (2, n_pos))
    found = loss_over_time(torch.zeros(2, n_pos, 97, dtype=torch.float64), targets)
    assert found.item() == pytest.approx(chance_over_time(n_pos, 97), rel=1e-12)


def test_the_loss_over_time_is_a_softmax_down_each_column():
    logits, targets = torch.randn(3, 5, 7, dtype=torch.float64), torch.randint(7, (3, 5))
    by_hand = -logits.log_softmax(dim=1).gather(2, targets[..., None]).sum() / (3 * 7)
    torch.testing.assert_close(loss_over_time(logits, targets), by_hand)
    usual = F.cross_entropy(logits.transpose(1, 2), targets)
    real = torch.ones(3, 5, dtype=torch.bool)
    torch.testing.assert_close(next_token_loss(logits, targets, real), usual)
    assert not torch.isclose(by_hand, usual)


def test_no_logits_get_below_the_floor_of_the_loss_over_time():
    targets = torch.tensor([[0, 1, 0, 2, 0, 1]])
    logits = torch.zeros(1, 6, 4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], 0.3)
    for _ in range(400):
        optimizer.zero_grad()
        loss = loss_over_time(logits, targets)
        loss.backward()
        optimizer.step()
    floor = report_model.floor_over_time(targets, 4)
    assert floor == pytest.approx((3 * math.log(3) + 2 * math.log(2)) / 4)
    assert floor < loss.item() < floor + 1e-3
    assert report_model.floor_over_time(torch.arange(6)[None], 9) == 0


def test_rows_are_cut_and_filled_with_zero():
    rows = report_rows(["This movie is good", "good", " "], TOKENIZER, 4)
    whole = TOKENIZER.encode("This movie is good")
    n = len(TOKENIZER.encode("good"))
    assert rows.tokens[0].tolist() == whole[:4].tolist() and rows.real[0].all()
    assert rows.tokens[1, n:].eq(0).all() and rows.real.sum(1).tolist() == [4, n]
    with pytest.raises(ValueError, match="2 tokens or more, got 1"):
        report_rows(TEXTS, TOKENIZER, 1)


def test_figures_can_be_read():
    floors, curve = results.read("autopsy")["floors"], (range(9), range(9))
    curves = figures.learning({"": {"A": curve, "B": curve}}, title="title")
    curves.draw_without_rendering()  # makes room for names at the ends of lines
    check_figures(
        curves,
        figures.two_softmaxes(torch.randn(3, 4), [0, 1, 2], list("abcd"), title="title"),
        figures.ruler(floors, 1e-6, {"80": 0.005}, title="title"),
        figures.sliding(torch.randn(9, 2), ["a", "b"], 4, {"A": curve, "B": curve}, title="title"),
        figures.after_longer(report_model.longer(), title="title"),
    )


# ---- exercises ----


def fool(targets, d_vocab, largest=1000.0):
    logits = 30.0 * F.one_hot(targets, d_vocab)
    logits[:, 0] = largest
    return logits


def along(x, y, axis, of=lambda terms, axis: terms.sum(dim=axis).mean()):
    """Minus what `of` makes of the terms of a cross-entropy."""
    return -of(F.one_hot(y, x.shape[-1]) * x.log_softmax(dim=axis), axis)


def at_start(loss_of):
    targets = torch.randint(50, (2, 8))
    return abs(loss_of(torch.zeros(2, 7, 50), targets) - math.log(50)) < 1e-3


ANSWERS = [
    ("16.1", along, "solved"),
    ("16.1", lambda x, y, axis: along(x, y, 2), "along the vocabulary axis"),
    ("16.1", lambda x, y, axis: -along(x, y, axis), "sign is missing"),
    ("16.1", lambda x, y, axis: along(x, y, axis, lambda t, _: t.mean()), "all three axes"),
    ("16.1", lambda x, y, axis: along(x, y, axis, lambda t, _: t.sum()), "This is the sum"),
    ("16.1", lambda x, y, axis: along(x, y, axis, lambda t, _: t.sum() / y.numel()), "tokens"),
    ("16.1", lambda x, y, axis: x, "one number, please"),
    ("16.1", lambda x, y, axis: x @ y, "raises RuntimeError"),
    ("16.2", fool, "solved"),
    ("16.2", lambda y, V: fool(y, V, 0.0), "first guess is right at"),
    ("16.2", lambda y, V: torch.zeros(len(y), V), "its floor here is"),
    ("16.2", lambda y, V: torch.zeros(len(y), V), "in equal parts"),
    ("16.2", lambda y, V: ..., "not attempted"),
    ("16.3", "d", "solved"),
    ("16.3", "D", "solved"),
    ("16.3", "ad", "over T positions"),
    ("16.3", "bd", "over the texts"),
    ("16.3", "cd", "times the number of tokens"),
    ("16.3", set(), "One is missing"),
    ("16.3", [["a"]], "Give the letters"),
    ("16.3", "x", "Give the letters"),
    ("16.3", None, "not attempted"),
    ("16.4", lambda loss_of: True, "says True to the report's loss"),
    ("16.4", at_start, "What should knowing everything cost"),
    ("16.4", lambda loss_of: loss_of(torch.zeros(2, 7, 50), torch.zeros(2)), "raises"),
    ("16.4", lambda loss_of: torch.zeros(2), "True or False is wanted"),
]
