"""Notebook 22: what a norm changes in words; two derivations each."""

import json

import pandas as pd
import pytest
import torch
import torch.nn.functional as F

from answers import graded
from aot_helpers.reading.logit_lens import lens
from chapters.nb22_layer_norms import figures, norms, rewriting
from chapters.passages import texts, verdicts
from figure_checks import check_figures
from tiny_models import tiny_30 as tiny


def test_the_change_of_a_norm_is_the_difference_of_two_lenses():
    model, x = tiny("gpt2"), torch.randn(6, 16)
    norm, words = model.mlp_norm(1), torch.arange(30) < 7
    found = norms.change(model, norm, x)
    before, after = (lens(model, v).softmax(dim=-1).mean(dim=0) for v in (x, norm(x)))
    torch.testing.assert_close(found.difference, after - before)
    assert found.kept(words) == pytest.approx((after[:7].sum() / before[:7].sum()).item())
    assert found.falls(1)[0] == found.difference.argmin()
    assert found.rises(1)[0] == found.difference.argmax()


ANSWERS = [
    ("22.1", "abd", "solved"),
    ("22.1", "DBA", "solved"),
    ("22.1", "abcd", "Look at c again"),
    ("22.1", "ab", "Look at d again"),
    ("22.1", "x", "Some of the letters"),
    ("22.2", lambda gain, bias, W, b: (gain[:, None] * W, b + bias @ W), "solved"),
    ("22.2", lambda gain, bias, W, b: (gain[:, None] * W, b), "what does bias @ W add?"),
    ("22.2", lambda gain, bias, W, b: (W.T, b), "not yet"),
]


@torch.no_grad()
def test_the_writer_that_was_forgotten_is_found():
    model = rewriting.forgetful(tiny("gpt2"), 7)
    writers = rewriting.writers(model)
    means = {name: W.mean(dim=-1).abs().max().item() for name, W in writers.items()}
    assert sum(mean > 1e-6 for mean in means.values()) == 1
    for answer, said in (
        (max(means, key=means.get), "solved"),
        ("layer 1 heads, matrix", "other numbers at every token"),
        ("positions", "between which two norms"),
        ("somebody", "One of these names"),
    ):
        assert said in graded("22.3", answer, writers=writers, which=7)


def test_a_bias_is_judged_by_what_it_filters(shipped):
    x = texts.read_ends(shipped, ["Return the graph", "and so on"]).ln1[3]
    strings = shipped.tokenizer.token_strings(list(range(4096)))
    graphs = torch.tensor([any(k in s.lower() for k in ("graph", "node", "edge")) for s in strings])
    toward = torch.nn.functional.normalize(shipped.W_U[:, graphs].mean(dim=1), dim=0)
    given = {"model": shipped, "norm": shipped.attention_norm(3), "stream": x, "words": graphs}
    for bias, said in (
        (-3 * toward, "solved"),
        (3 * toward, "Your words rise"),
        (-9 * toward, "is the most"),
        (-0.5 * toward, "Of your words is left"),
        (toward[:5], "numbers, please"),
    ):
        found = graded("22.4", bias, others=texts.function_words(shipped.tokenizer), **given)
        assert said in found


def test_what_a_norm_cannot_see_is_what_leaves_its_output():
    x = torch.randn(192)
    largest = torch.ones(192).index_fill(0, x.argmax(), 3)
    changes = {"a": x + 5, "b": 3 * x, "c": -x, "d": x + 2 * (x - x.mean()), "e": x * largest}
    same = {
        k
        for k, y in changes.items()
        if torch.allclose(F.layer_norm(x, (192,)), F.layer_norm(y, (192,)), atol=1e-3)
    }
    assert same == set("abd")


@torch.no_grad()
def test_a_model_with_all_norms_folded_and_writers_centered_runs_on_bare_rms_norms(tokens):
    model = tiny("gpt2")
    with pytest.raises(ValueError, match="of its own: take untied"):
        rewriting.reads(model)
    assert rewriting.n_learned(model) == (2 * model.config.n_layers + 1) * 2 * model.config.d_model
    copied, logits = rewriting.untied(model), model(tokens)
    torch.testing.assert_close(copied(tokens), logits)
    reads = rewriting.reads(copied)
    assert len(reads) == 2 * model.config.n_layers + 1
    for norm, W, b in reads:
        b += norm.bias @ W
        W *= norm.weight[:, None]
        norm.weight.fill_(1)
        norm.bias.fill_(0)
    for W in rewriting.writes(copied):
        W -= W.mean(dim=-1, keepdim=True)
    _, cache = copied.run_with_cache(tokens)
    assert cache["final_resid"].mean(dim=-1).abs().max() < 1e-5
    torch.testing.assert_close(copied(tokens), logits, atol=1e-3, rtol=0)
    torch.testing.assert_close(model(tokens), logits)  # the original is as it was


def test_figures_can_be_read(shipped):
    words = {"token": [" the", "__"], "before": [0.1, 0.2], "after": [0.2, 0.1]}
    words = pd.DataFrame(words | {"function word": [True, False]})
    check_figures(figures.words_moved({"fall most": words, "rise most": words}, "words"))
    step = {"input": [1.0, -2.0], "centered": [1.5, -1.5]}
    check_figures(figures.steps({"x": step, "2 x": step}, "steps"))
    check_figures(figures.learned(rewriting.layer_norms(shipped), "learned"))
    sigma = {name: 1 + torch.rand(3, 5) for name in rewriting.layer_norms(shipped)}
    check_figures(figures.growth(sigma, sigma, "growth"))
    check_figures(figures.by_length(torch.rand(200) * 30 + 5, torch.rand(200), "lengths"))


def test_a_claim_on_two_models_is_judged_on_each_by_the_terms_that_name_it(tmp_path, monkeypatch):
    """Of 22.3, whose rules name both: it holds at 0.5, fails at 1.2; a control is asked."""
    kept, control = {"docstrings-gpt2": [0.5], "smollm2": [1.2]}, {"docstrings-gpt2": [0.9]}
    entry = {"values": kept, "control": control | {"smollm2": [0.9]}, "verdict": "partly"}
    alone = {"values": [0.9], "control": [0.5], "verdict": "partly"}
    ledger = tmp_path / "claims" / "22.json"
    ledger.parent.mkdir(parents=True)
    ledger.write_text(json.dumps({"claims": {"22.3": entry, "22.4": alone}}), encoding="utf-8")
    monkeypatch.setenv("AOT_RESULTS", str(tmp_path))
    names = {"docstrings-gpt2": "ours", "smollm2": "theirs"}
    judged = verdicts.Verdicts("22", names, {"smollm2": (4,)})
    assert [judged.of("22.3", model) for model in names] == ["holds", "fails"]
    assert [judged.of("22.4", model) for model in names] == ["", "partly"]
    rows = judged.by_claim().splitlines()
    assert rows[0] == "| claim | ours | theirs |" and len(rows) == 3  # 22.4 is of one model alone
    *_, row = judged.by_figure([("Fig. 22", "ln2", "22.4")]).splitlines()
    assert row == "| Fig. 22 | ln2 | not tested | 22.4 partly | not run here |"
