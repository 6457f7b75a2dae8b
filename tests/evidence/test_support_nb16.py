"""Evidence of notebook 16: the faulty set-ups, what was measured of them, and its figures."""

import itertools
from dataclasses import replace

import pandas
import pytest
import torch

from aot_helpers.base import results
from aot_helpers.models.protocol import Hooks
from aot_helpers.models.transformer import ModelConfig
from aot_helpers.text.tokenization import train_bpe, train_wordpiece
from chapters.nb16_too_good.report_model import (
    ReportModel,
    Rows,
    loss_over_time,
    next_token_loss,
    report_rows,
)
from evidence.support.nb16 import figures, longer
from evidence.support.nb16 import runs as tool
from evidence.support.nb16.results import ON_REVIEWS, held_out, named, pieces, runs
from evidence.support.nb16.set_ups import FAULTS, LEARNED, SWEEP, Setup, examine, learn
from figure_checks import check_figures

TEXTS = [
    f"This movie is {what}, and {who} liked it."
    for what in ("good", "bad", "long", "odd")
    for who in ("we", "they", "Ann", "nobody")
]
TOKENIZER = train_bpe(TEXTS, 300)


@pytest.fixture(scope="module")
def rows():
    return report_rows(TEXTS, TOKENIZER, 12)


def tiny(**changes):
    return replace(Setup(d_model=16, n_heads=2, d_mlp=16, batch_size=8, steps=2), **changes)


def new_model(rows, *faults, d_mlp=16):
    torch.manual_seed(0)
    model = ReportModel(ModelConfig(TOKENIZER.d_vocab, 2, 16, 2, 8, 12, "standard", d_mlp=d_mlp))
    for name in faults:
        FAULTS[name].put_into(model)
    return model


@pytest.mark.parametrize("name", LEARNED)
def test_every_fault_changes_what_is_learned(name):
    rows = report_rows(["This movie is good", "good"] * 8, TOKENIZER, 12)
    usual, faulty, again = (learn(tiny(faults=frozenset(f)), rows) for f in ([], [name], [name]))
    assert usual.losses != faulty.losses == again.losses


def test_filling_changes_nothing_where_there_is_none():
    rows = report_rows(["This movie is good"] * 16, TOKENIZER, 4)
    free, filled = (learn(tiny(faults=frozenset(f)), rows) for f in ([], ["padding counts"]))
    assert free.losses == filled.losses


def test_each_fault_of_the_model_does_what_it_says(rows):
    inputs = rows.tokens[:4, :-1]
    tied = new_model(rows, "one block twice").transformer.blocks
    assert tied[0] is tied[1]
    straight = new_model(rows, "straight MLP")
    block, x = straight.transformer.blocks[0], torch.randn(2, 3, 16)
    folded = block.mlp_in.weight.T @ block.mlp_out.weight.T
    bias = block.mlp_in.bias @ block.mlp_out.weight.T + block.mlp_out.bias
    block.ln2 = torch.nn.Identity()
    said = block(x, None, None, Hooks())
    stream = x + block.attn(block.ln1(x))
    torch.testing.assert_close(said, stream + stream @ folded + bias)
    bare = new_model(rows, "no stream", d_mlp=0)
    _, cache = bare.transformer.run_with_cache(inputs)
    torch.testing.assert_close(cache["L1.resid_pre"], cache["L0.attn_out"])
    plain = new_model(rows, "no layer norm").transformer
    assert not any(isinstance(part, torch.nn.LayerNorm) for part in plain.modules())


def test_examine_is_a_mean_over_real_tokens():
    rows = report_rows([*TEXTS[:5], "good"], TOKENIZER, 12)
    model = new_model(rows).eval()
    with torch.no_grad():
        inputs, targets, real = rows.batch(torch.arange(6))
        logits = model(inputs)
        found = examine(model, rows, batch_size=4)
        assert found["loss"] == pytest.approx(next_token_loss(logits, targets, real).item())
        assert found["over time"] == pytest.approx(loss_over_time(logits, targets).item())
        right = (logits.argmax(-1) == targets)[real].float().mean().item()
        assert found["accuracy"] == pytest.approx(right)


def test_an_unknown_fault_and_heads_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="no seeds"):
        Setup(frozenset(["no seeds"]))
    with pytest.raises(ValueError, match="130 and 4"):
        Setup(d_model=130)


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
    rows_of_losses = {"no fault": {"as trained": losses}}
    check_figures(
        figures.costs(rows_of_losses, found, title="title"),
        figures.all_combinations(found, title="title"),
        figures.sweep_map(pandas.DataFrame(results.read("sweep")["trials"]), 7.6, title="title"),
    )


def test_knowing_nothing_costs_what_comes_to_leave_out_and_to_choose(rows):
    full = Rows(rows.tokens[:, :8], rows.real[:, :8], TOKENIZER)
    assert full.real.all()
    kinds = torch.tensor([len(row.unique()) for row in full.tokens[:, 1:]]).double()
    nothing = longer.two_parts(lambda inputs: torch.zeros(*inputs.shape, 300), full)
    by_hand = [(300 / kinds).log().mean().item(), kinds.log().mean().item()]
    assert nothing == pytest.approx(by_hand, abs=6e-4)
