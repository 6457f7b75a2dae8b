"""Checks of exercises that try an answer out: right answers, near misses and nonsense."""

import contextlib
import io
import math

import numpy as np
import pytest
import torch

from aot_helpers.teaching.exercises import grade

INF, NAN = math.inf, math.nan
RESID = torch.tensor(
    [[0.0, 0, 0, 0], [1, 0, 4, 2], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 1, 3]]
)  # the cat chased the mouse, of notebook 03
ASKS = torch.tensor([[0.0, 4], [4, 0], [0, 0], [0, 0]]) @ torch.eye(2, 4)
SCORES = RESID @ ASKS @ RESID.T / math.sqrt(2)


def leaky_head(resid):
    pattern = (resid @ ASKS @ resid.T / math.sqrt(2)).softmax(dim=-1).tril()
    return pattern @ (resid * torch.tensor([0.0, 0, 1, 1]))


def losses_at(rate):
    """Losses like those of notebook 05: falling, exploding, or NaN."""
    if rate < 0.06:
        return [7.0, 10.5, *[4.0] * 38]
    return [7.0, 70.0 if rate < 100 else NAN, *[50.0 if rate < 100 else NAN] * 38]


STREAM = torch.arange(181)  # ln 181 = 5.2, as in the stories
GIVEN = {
    "03.1": {"scores": SCORES},
    "03.2": {"head": leaky_head, "resid": RESID},
    "03.3": {"scores": SCORES},
    "05.1": {"stream": STREAM},
    "05.2": {"losses_at": losses_at},
    "05.3": {"places": {"a": torch.tensor([0.95, 0.05]), "b": torch.tensor([0.5, 0.5])}},
}


def said(name, *answer):
    """The last line that grade prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        grade(name, *answer, **GIVEN[name])
    return out.getvalue().splitlines()[-1]


def diagonal(value, offset=-1, other=0.0):
    bias = torch.full((5, 5), other)
    bias.diagonal(offset).fill_(value)
    return bias


def top_p(probabilities, p):
    values, indices = probabilities.sort(descending=True)
    kept = torch.zeros_like(probabilities)
    kept[indices] = torch.where(values.cumsum(dim=0) - values < p, values, 0.0)
    return kept / kept.sum()


def kept_by_value(probabilities, p):
    """All tokens as likely as the last that is needed: too many where several tie."""
    values = probabilities.sort(descending=True).values
    last = values[values.cumsum(dim=0) - values < p][-1]
    kept = torch.where(probabilities >= last, probabilities, 0.0)
    return kept / kept.sum()


HALVES, THIRDS = [0, 0.5, 0, 0, 0.5], [0.33, 0, 0.33, 0.33, 0]
ANYWHERE_ELSE = diagonal(0.0, other=-INF)
ANYWHERE_ELSE[0, 0] = 0.0
SOLVED = [
    ("03.1", HALVES, THIRDS),
    ("03.1", HALVES, [0.3, 0, 0.3, 0.3, 0]),
    ("03.1", torch.tensor(HALVES), np.array(THIRDS)),
    ("03.2", [10.0, 0, 0, 0]),
    ("03.2", torch.tensor([10.0, 0, 0, 0])),
    ("03.3", diagonal(20.0)),
    ("03.3", diagonal(20.0).tolist()),
    ("03.3", ANYWHERE_ELSE),
    ("05.1", 1.04, 5.0),
    ("05.1", torch.tensor(1.04), 5.6),
    ("05.2", "worse than the die", 2.0),
    ("05.2", "nan", 1e30),
    ("05.3", top_p),
    ("05.3", lambda shares, p: top_p(shares, p).tolist()),
    ("05.3", lambda shares, p: top_p(shares, p).numpy()),
]
NOT_ATTEMPTED = [
    ("03.1", ..., ...),
    ("03.1", HALVES, ...),
    ("03.2", ...),
    ("03.3", ...),
    ("05.1", 1.04, ...),
    ("05.2", ..., 2.0),
    ("05.3", ...),
    ("05.3", lambda shares, p: None),
    ("05.3", lambda shares, p: ...),
]
NOT_YET = [  # and a part of what is said
    ("position 1 gets more", "03.1", [0.2] * 5, THIRDS),
    ("add up to 2.00", "03.1", HALVES, [0.4] * 5),
    ("W_Q * -10: 5 numbers", "03.1", HALVES, [0.3, 0.3, 0.3, 0]),
    ("5 numbers", "03.1", "half", THIRDS),
    ("has NaN", "03.1", [NAN] * 5, THIRDS),
    ("0.014", "03.2", [3.0, 0, 0, 0]),
    ("4 numbers", "03.2", [10.0, 0, 0]),
    ("has NaN", "03.2", [NAN, 0, 0, 0]),
    ("an infinity", "03.2", [INF, 0, 0, 0]),
    ("overflow", "03.2", [2e38, 0, 0, 0]),
    ("Position 4 gives position 3 only", "03.3", torch.zeros(5, 5)),
    ("above the main one: row 1", "03.3", diagonal(20.0, 1)),
    ("5 by 5 numbers", "03.3", torch.zeros(4, 4)),
    ("has NaN", "03.3", diagonal(NAN)),
    ("NaN (step 5)", "03.3", diagonal(INF)),
    ("Row 0 of the pattern is NaN", "03.3", diagonal(0.0, other=-INF)),
    ("three tokens costs more than 0.50", "05.1", 0.5, 5.0),
    ("stories cost less than 6.90", "05.1", 1.04, 6.9),
    ("tiny: one number, please; yours has NaN", "05.1", NAN, 5.0),
    ("in_stories: one number", "05.1", 1.04, [5.0, 5.0]),
    ("one of 'nan'", "05.2", "flat", 2.0),
    ("first bad loss is 70", "05.2", "nan", 2.0),
    ("first bad loss is nan", "05.2", "worse than the die", 1e4),
    ("training can live with it", "05.2", "worse than the die", 0.05),
    ("above 0", "05.2", "worse than the die", -1),
    ("has NaN", "05.2", "nan", NAN),
    ("an infinity", "05.2", "nan", INF),
    ("one number", "05.2", "nan", "high"),
    ("the 2 likeliest stay, not [0.25, 0.25, 0.25, 0.25]", "05.3", kept_by_value),
    ("divide them by their sum", "05.3", lambda s, p: s * (top_p(s, p) > 0)),
    ("stay, not", "05.3", lambda s, p: s),
    ("has NaN", "05.3", lambda s, p: s * NAN),
    ("4 numbers", "05.3", lambda s, p: s[:2]),
]


@pytest.mark.parametrize("answer", SOLVED, ids=lambda answer: answer[0])
def test_a_right_answer_is_solved(answer):
    name, *_, last = answer
    measured = {"05.3": " (tokens that stay at p = 0.9: 1 after a, 2 after b)"}
    if name == "05.1":
        measured[name] = f" (stories: your {float(last):.2f}, measured {math.log(181):.2f})"
    assert said(*answer) == f"exercise {name}: solved{measured.get(name, '')}"


@pytest.mark.parametrize("answer", NOT_ATTEMPTED, ids=lambda answer: answer[0])
def test_a_stub_is_not_attempted(answer):
    assert said(*answer) == f"exercise {answer[0]}: not attempted"


@pytest.mark.parametrize(
    ("says", "answer"),
    [(says, answer) for says, *answer in NOT_YET],
    ids=lambda part: part if isinstance(part, str) else part[0],
)
def test_another_answer_is_told_what_is_wrong(says, answer):
    line = said(*answer)
    assert line.startswith(f"exercise {answer[0]}: not yet. ") and says in line
