"""What notebook 16 reads and draws: the runs of a group, the ladder, the checkboxes, a guard."""

import importlib.util
import itertools
import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from aot_helpers.base.files import DATA
from aot_helpers.teaching.exercises import grade
from chapters.nb16_too_good import figures as drawings
from chapters.nb16_too_good import report_model as autopsy
from chapters.nb16_too_good.results import ON_REVIEWS, held_out, pieces, runs

ROOT = Path(__file__).resolve().parent.parent


def run(faults, seed, loss):
    told = {"written": 0.2, "in the reviews": 0.1, "in the vocabulary": 0.3}
    known = {"loss": loss, "accuracy": loss / 100, "over time": 0.01}
    given = {"faults": sorted(faults), "seed": seed, "d_mlp": 0}
    return {**given, "held out": known, "pieces": told, "sample": f"text {seed}"}


@pytest.fixture(scope="module")
def found():
    """Made-up results: each fault costs a nat, the loss over time five."""
    every = {}
    for n in range(len(ON_REVIEWS) + 1):
        for faults in itertools.combinations(ON_REVIEWS, n):
            for seed in (1, 0):
                cost = n + 4 * ("loss over time" in faults) + seed
                every[f"ladder | {faults} | seed {seed}"] = run(faults, seed, 4.0 + cost)
    counted = {"chance": 7.6, "unigram": 6.4, "bigram": 4.5}
    return {"runs": every, "counting": {"imdb imdb-2l 20": counted}}


def test_the_runs_of_a_group_come_seed_by_seed(found):
    usual = runs(found, "ladder")
    assert [one["seed"] for one in usual] == [0, 1] and held_out(usual).tolist() == [4, 5]
    both = runs(found, "ladder", ["no stream", "loss over time"])
    assert held_out(both, "accuracy").tolist() == pytest.approx([0.10, 0.11])
    assert pieces(both).tolist() == [2, 2]


@pytest.mark.parametrize("asked", [("ladders",), ("ladder", ["no streams"]), ("ladder", [], 7)])
def test_runs_that_were_not_trained_are_named(found, asked):
    group, faults, d_mlp = (*asked, [], 0)[:3] if len(asked) < 3 else asked
    with pytest.raises(ValueError, match=r"groups are ladder; faults are loss over time"):
        runs(found, group, faults, d_mlp=d_mlp)


def test_the_checkboxes_hold_every_combination(found):
    view = drawings.FaultsView(found)
    assert sorted(view.data["table"]) == list(range(2 ** len(ON_REVIEWS)))
    all_faults = view.data["table"][2 ** len(ON_REVIEWS) - 1]
    assert all_faults == [4 + 5 + 4 + 0.5, pytest.approx(0.135), "text 0"]
    only_stream = view.data["table"][2 ** ON_REVIEWS.index("no stream")]
    assert only_stream[0] == 5.5
    bundle = view._repr_mimebundle_()
    assert json.dumps(view.data) in bundle["text/html"] and len(bundle["image/png"]) > 1000
    assert "http://www.w3.org/2000/svg" in bundle["text/html"] and "src='http" not in str(bundle)


def test_the_ladder_shows_each_seed_of_each_run(found):
    (axis,) = drawings.ladder(found).axes
    dots = sorted(x for line in axis.lines if line.get_marker() == "o" for x in line.get_xdata())
    ends = [[], ON_REVIEWS]
    ends += [[name] for name in ON_REVIEWS] + [set(ON_REVIEWS) - {name} for name in ON_REVIEWS]
    shown = [loss for faults in ends for loss in held_out(runs(found, "ladder", faults)).tolist()]
    assert dots == sorted(shown)


def test_two_softmaxes_draw_both_tables():
    logits = torch.randn(3, 4)
    (axis,) = drawings.two_softmaxes(logits, [0, 1, 2], list("abcd")).axes
    texts = [text.get_text() for text in axis.texts]
    for dim in (0, 1):
        for share in logits.softmax(dim).flatten().tolist():
            assert f"{share:.2f}" in texts


def tool():
    spec = importlib.util.spec_from_file_location("autopsy_tool", ROOT / "tools" / "autopsy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shipped_results_are_those_that_the_commands_make():
    found, sweep = (json.loads((DATA / "results" / f"{n}.json").read_text()) for n in FILES)
    known = tool().runs()
    assert found["runs"].keys() == known.keys()
    for name, (_, setup) in known.items():
        one = found["runs"][name]
        assert set(one["faults"]) == setup.faults and one["steps"] == setup.steps
    assert {key: sweep[key] for key in ("grid", "fixed")} == {
        key: autopsy.SWEEP[key] for key in ("grid", "fixed")
    }
    names = list(sweep["grid"])
    points = [tuple(trial[name] for name in names) for trial in sweep["trials"]]
    assert sorted(points) == sorted(itertools.product(*sweep["grid"].values()))


FILES = ("autopsy", "sweep")


def said(capsys, number, answer):
    grade(number, answer)
    return capsys.readouterr().out


def usual(logits, targets):
    return F.cross_entropy(logits.transpose(1, 2), targets)


def over_time(logits, targets):
    return autopsy.loss_over_time(logits, targets)


def fool(targets, d_vocab, largest=1000.0):
    logits = 30.0 * F.one_hot(targets, d_vocab)
    logits[:, 0] = largest
    return logits


def guard(loss_of):
    targets = torch.randint(50, (2, 7))
    return abs(loss_of(torch.zeros(2, 7, 50), targets) - torch.tensor(50.0).log()) < 1e-3


@pytest.mark.parametrize(
    ("number", "answer", "says"),
    [
        ("16.1", usual, "solved"),
        ("16.1", lambda x, y: F.cross_entropy(x.flatten(0, 1), y.flatten()), "solved"),
        ("16.1", over_time, "dimension 1 is still time"),
        ("16.1", lambda x, y: usual(x, y) * y.numel(), "the sum over all tokens"),
        ("16.1", lambda x, y: usual(x, y) + 1, "you get"),
        ("16.1", lambda x, y: x, "Return one number"),
        ("16.1", lambda x, y: None, "not attempted"),
        ("16.2", fool, "solved (report's loss"),
        ("16.2", lambda y, V: fool(y, V, 0.0), "right at 19 of 19"),
        ("16.2", lambda y, V: torch.zeros(len(y), V), "its floor here is"),
        ("16.2", lambda y, V: torch.zeros(V), "shape [19, 64]"),
        ("16.2", lambda y, V: ..., "not attempted"),
        ("16.3", guard, "solved (it lets one loss through and stops three)"),
        ("16.3", lambda loss_of: True, "says True to the report's loss"),
        ("16.3", lambda loss_of: False, "says False to the usual loss"),
        (
            "16.3",
            lambda loss_of: loss_of(torch.zeros(2, 7, 50), torch.zeros(2)) > 0,
            "your guard raises",
        ),
        ("16.3", lambda loss_of: None, "not attempted"),
    ],
)
def test_exercises_of_notebook_16(capsys, number, answer, says):
    assert says in said(capsys, number, answer)
