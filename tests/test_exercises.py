"""Checks of exercises that try an answer out: right answers, near misses and nonsense."""

import functools
import math
import sys

import numpy as np
import pytest
import torch

from answers import verdict
from aot_helpers.teaching.exercises import write
from chapters.nb00_start_here.exercises import PAGES

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
ANSWERS = [  # exercise, answer, a part of what is said of it
    ("03.1", (HALVES, THIRDS), "solved"),
    ("03.1", (HALVES, [0.3, 0, 0.3, 0.3, 0]), "solved"),
    ("03.1", (torch.tensor(HALVES), np.array(THIRDS)), "solved"),
    ("03.2", ([10.0, 0, 0, 0],), "solved"),
    ("03.2", (torch.tensor([10.0, 0, 0, 0]),), "solved"),
    ("03.3", (diagonal(20.0),), "solved"),
    ("03.3", (diagonal(20.0).tolist(),), "solved"),
    ("03.3", (ANYWHERE_ELSE,), "solved"),
    ("05.1", (1.04, 5.0), "solved"),
    ("05.1", (torch.tensor(1.04), 5.6), "solved"),
    ("05.2", ("worse than the die", 2.0), "solved"),
    ("05.2", ("nan", 1e30), "solved"),
    ("05.3", (top_p,), "solved"),
    ("05.3", (lambda shares, p: top_p(shares, p).tolist(),), "solved"),
    ("05.3", (lambda shares, p: top_p(shares, p).numpy(),), "solved"),
    ("03.1", (..., ...), "not attempted"),
    ("03.1", (HALVES, ...), "not attempted"),
    ("03.2", (...,), "not attempted"),
    ("03.3", (...,), "not attempted"),
    ("05.1", (1.04, ...), "not attempted"),
    ("05.2", (..., 2.0), "not attempted"),
    ("05.3", (...,), "not attempted"),
    ("05.3", (lambda shares, p: None,), "not attempted"),
    ("05.3", (lambda shares, p: ...,), "not attempted"),
    ("03.1", ([0.2] * 5, THIRDS), "position 1 gets more"),
    ("03.1", (HALVES, [0.4] * 5), "add up to 2.00"),
    ("03.1", (HALVES, [0.3, 0.3, 0.3, 0]), "W_Q * -10: 5 numbers"),
    ("03.1", ("half", THIRDS), "5 numbers"),
    ("03.1", ([NAN] * 5, THIRDS), "has NaN"),
    ("03.2", ([3.0, 0, 0, 0],), "0.014"),
    ("03.2", ([10.0, 0, 0],), "4 numbers"),
    ("03.2", ([NAN, 0, 0, 0],), "has NaN"),
    ("03.2", ([INF, 0, 0, 0],), "an infinity"),
    ("03.2", ([2e38, 0, 0, 0],), "overflow"),
    ("03.3", (torch.zeros(5, 5),), "Position 4 gives position 3 only"),
    ("03.3", (diagonal(20.0, 1),), "above the main one: row 1"),
    ("03.3", (torch.zeros(4, 4),), "5 by 5 numbers"),
    ("03.3", (diagonal(NAN),), "has NaN"),
    ("03.3", (diagonal(INF),), "NaN (step 5)"),
    ("03.3", (diagonal(0.0, other=-INF),), "Row 0 of the pattern is NaN"),
    ("05.1", (0.5, 5.0), "three tokens costs more than 0.50"),
    ("05.1", (1.04, 6.9), "stories cost less than 6.90"),
    ("05.1", (NAN, 5.0), "tiny: one number, please; yours has NaN"),
    ("05.1", (1.04, [5.0, 5.0]), "in_stories: one number"),
    ("05.2", ("flat", 2.0), "one of 'nan'"),
    ("05.2", ("nan", 2.0), "first bad loss is 70"),
    ("05.2", ("worse than the die", 1e4), "first bad loss is nan"),
    ("05.2", ("worse than the die", 0.05), "training can live with it"),
    ("05.2", ("worse than the die", -1), "above 0"),
    ("05.2", ("nan", NAN), "has NaN"),
    ("05.2", ("nan", INF), "an infinity"),
    ("05.2", ("nan", "high"), "one number"),
    ("05.3", (kept_by_value,), "the 2 likeliest stay, not [0.25, 0.25, 0.25, 0.25]"),
    ("05.3", (lambda s, p: s * (top_p(s, p) > 0),), "divide them by their sum"),
    ("05.3", (lambda s, p: s,), "stay, not"),
    ("05.3", (lambda s, p: s * NAN,), "has NaN"),
    ("05.3", (lambda s, p: s[:2],), "4 numbers"),
]


@pytest.mark.parametrize(
    ("number", "answer", "said"), ANSWERS, ids=lambda part: part if isinstance(part, str) else ""
)
def test_an_answer_is_told_what_it_is_worth(number, answer, said):
    found = verdict(number, *answer, **GIVEN[number])
    kind = said if said in ("solved", "not attempted") else "not yet. "
    assert found.startswith(kind) and said in found


def test_what_a_right_answer_measured_is_said():
    found = verdict("05.1", 1.04, 5.0, **GIVEN["05.1"])
    assert found == f"solved (stories: your 5.00, measured {math.log(181):.2f})"
    found = verdict("05.3", top_p, **GIVEN["05.3"])
    assert found == "solved (tokens that stay at p = 0.9: 1 after a, 2 after b)"


def test_a_page_goes_on_with_the_readers_once_it_is_right(capsys):
    def copy_rule(tokens): ...

    ours = PAGES["00.1"]
    assert write("00.1", copy_rule) is ours
    assert capsys.readouterr().out.endswith("`copy_rule` is the package's version\n")
    yours = functools.partial(ours)
    yours.__name__ = "copy_rule"
    assert write("00.1", yours) is yours
    assert capsys.readouterr().out.endswith("`copy_rule` is yours\n")


def test_exercises_are_found_beside_their_notebook(tmp_path, monkeypatch):
    chapter = tmp_path / "chapters" / "nb77_a_name"
    chapter.mkdir(parents=True)
    for folder in (chapter, chapter.parent):
        (folder / "__init__.py").touch()
    code = "from aot_helpers.teaching.exercises import NotYet\n\n\ndef check(answer):\n"
    code += "    if answer != 3:\n        raise NotYet('It is 3.')\n\n\nCHECKS = {'77.1': check}\n"
    (chapter / "exercises.py").write_text(code)
    for name in [name for name in sys.modules if name.split(".")[0] == "chapters"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    assert [verdict("77.1", n) for n in (3, 4, ...)] == [
        "solved",
        "not yet. It is 3.",
        "not attempted",
    ]
    with pytest.raises(ValueError, match="no exercise is called '77.2'.*77.1"):
        verdict("77.2", 3)
    for name in [name for name in sys.modules if name.split(".")[0] == "chapters"]:
        del sys.modules[name]
