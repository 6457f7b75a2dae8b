"""Evidence of notebook 16: the faulty set-ups, what was measured of them, and its figures."""

import itertools

import pandas
import pytest
import torch

from aot_helpers.base import results
from aot_helpers.models.transformer import ModelConfig
from aot_helpers.text.tokenization import train_bpe, train_wordpiece
from chapters.nb16_too_good.report_model import SWEEP, ReportModel, examine, report_rows
from evidence.support.nb16 import figures
from evidence.support.nb16 import runs as tool
from evidence.support.nb16.results import ON_REVIEWS, held_out, named, pieces, runs
from figure_checks import check_figures

TEXTS = [f"This movie is {what}, and {who} liked it." for what in ("good", "bad", "long", "odd")
         for who in ("we", "they", "Ann", "nobody")]  # fmt: skip
TOKENIZER = train_bpe(TEXTS, 300)


def test_pieces_that_go_on_a_word_are_counted():
    bert = train_wordpiece(["movies moving"], 17)
    tokens = bert.encode("moves")
    marked = sum(s.startswith("##") for s in bert.token_strings(tokens))
    assert tool.continuation_share(tokens, bert) == marked / len(tokens) > 0
    assert tool.continuation_share(TOKENIZER.encode(" movie"), TOKENIZER) == 0


def test_fitted_constants_change_the_bias_and_one_scale_alone():
    rows = report_rows(TEXTS, TOKENIZER, 12)
    torch.manual_seed(0)
    model = ReportModel(ModelConfig(TOKENIZER.d_vocab, 2, 16, 2, 8, 12, "standard", d_mlp=16))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    first = examine(model, rows)["loss"]
    tool.fit_constants(model, rows, steps=60)
    after = dict(model.named_parameters())
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {"b_U", "transformer.W_U"} and examine(model, rows)["loss"] < first
    ratio = after["transformer.W_U"] / before["transformer.W_U"]
    torch.testing.assert_close(ratio, ratio[0, 0].expand_as(ratio))


def run(faults, seed, loss):
    measured = {"written": 0.2, "in the reviews": 0.1, "in the vocabulary": 0.3}
    known = {"loss": loss, "accuracy": loss / 100, "over time": 0.01}
    given = {"faults": sorted(faults), "seed": seed, "d_mlp": 0}
    return {**given, "held out": known, "pieces": measured, "sample": f"text {seed}"}


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
    (first,) = named(usual[:1])
    assert first == "ladder/()/seed-0"


def test_runs_that_were_not_trained_are_named(found):
    for group, faults in (("ladders", []), ("ladder", ["no streams"])):
        with pytest.raises(ValueError, match=r"groups are ladder; faults are loss over time"):
            runs(found, group, faults)


def test_the_shipped_results_are_those_that_the_commands_make():
    found, sweep = (results.read(name) for name in ("autopsy", "sweep"))
    known = tool.set_ups()
    assert found["runs"].keys() == known.keys()
    for name, (_, setup) in known.items():
        one = found["runs"][name]
        assert set(one["faults"]) == setup.faults and one["steps"] == setup.steps
    assert all(sweep[key] == SWEEP[key] for key in ("grid", "fixed"))
    points = [tuple(trial[name] for name in sweep["grid"]) for trial in sweep["trials"]]
    assert sorted(points) == sorted(itertools.product(*sweep["grid"].values()))


def test_figures_can_be_read(found):
    losses = held_out(runs(found, "ladder"))
    rows_of_losses = {"no fault": {"as trained": losses, "calibrated": losses - 0.1}}
    check_figures(
        figures.costs(rows_of_losses, found, title="title"),
        figures.all_combinations(found, title="title"),
        figures.sweep_map(pandas.DataFrame(results.read("sweep")["trials"]), 7.6, title="title"),
    )
