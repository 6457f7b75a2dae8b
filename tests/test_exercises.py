"""Checks of exercises that try an answer out: right answers, near misses and nonsense."""

import functools
import math
import sys

import pytest
import torch

from answers import graded
from aot_helpers.teaching.exercises import write
from chapters.nb00_start_here.exercises import PAGES

INF, NAN = math.inf, math.nan


def losses_at(rate):
    """Losses like those of notebook 05: falling, exploding, or NaN."""
    if rate < 0.06:
        return [7.0, 10.5, *[4.0] * 38]
    return [7.0, 70.0 if rate < 100 else NAN, *[50.0 if rate < 100 else NAN] * 38]


STREAM = torch.arange(181)  # ln 181 = 5.2, as in the stories
GIVEN = {
    "05.1": {"stream": STREAM},
    "05.2": {"losses_at": losses_at},
    "05.3": {"places": {"a": torch.tensor([0.95, 0.05]), "b": torch.tensor([0.5, 0.5])}},
}


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


ANSWERS = [  # exercise, answer, a part of what is said of it
    ("05.1", (1.04, 5.0), "solved"),
    ("05.1", (torch.tensor(1.04), 5.6), "solved"),
    ("05.2", ("worse than the die", 2.0), "solved"),
    ("05.2", ("nan", 1e30), "solved"),
    ("05.3", (top_p,), "solved"),
    ("05.3", (lambda shares, p: top_p(shares, p).tolist(),), "solved"),
    ("05.3", (lambda shares, p: top_p(shares, p).numpy(),), "solved"),
    ("05.1", (1.04, ...), "not attempted"),
    ("05.2", (..., 2.0), "not attempted"),
    ("05.3", (...,), "not attempted"),
    ("05.3", (lambda shares, p: None,), "not attempted"),
    ("05.3", (lambda shares, p: ...,), "not attempted"),
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
    found = graded(number, *answer, **GIVEN[number])
    kind = said if said in ("solved", "not attempted") else "not yet. "
    assert found.startswith(kind) and said in found


def test_what_a_right_answer_measured_is_said():
    found = graded("05.1", 1.04, 5.0, **GIVEN["05.1"])
    assert found == f"solved (stories: your 5.00, measured {math.log(181):.2f})"
    found = graded("05.3", top_p, **GIVEN["05.3"])
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
    assert [graded("77.1", n) for n in (3, 4, ...)] == [
        "solved",
        "not yet. It is 3.",
        "not attempted",
    ]
    with pytest.raises(ValueError, match="no exercise is called '77.2'.*77.1"):
        graded("77.2", 3)
    for name in [name for name in sys.modules if name.split(".")[0] == "chapters"]:
        del sys.modules[name]
