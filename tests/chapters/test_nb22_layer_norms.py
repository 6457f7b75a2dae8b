"""Notebook 22: what a norm changes in words; two derivations each."""

import json

import pytest
import torch
import torch.nn.functional as F

from aot_helpers.base.results import plain, rounded
from aot_helpers.reading.logit_lens import lens
from chapters.nb22_layer_norms import figures, norms, results, rewriting
from chapters.passages import texts, verdicts
from figure_checks import check_figures
from tiny_models import tiny_30 as tiny

both = pytest.mark.parametrize("family", ["gpt2", "llama"])


@both
def test_folded_gains_leave_the_logits_and_come_back(family, tokens):
    model = tiny(family)
    before = model(tokens)
    gains = [norms.norm_at(model, 1, site).weight.clone() for site in norms.SITES]
    with norms.folded(model, [0, 1]):
        torch.testing.assert_close(model(tokens), before, atol=1e-4, rtol=0)
        for site in norms.SITES:
            norm = norms.norm_at(model, 1, site)
            assert norm.weight.eq(1).all()
            x = torch.randn(5, 16)
            torch.testing.assert_close(norm(x), norms.normalized(norm, x))
    for site, gain in zip(norms.SITES, gains, strict=True):
        assert torch.equal(norms.norm_at(model, 1, site).weight, gain)
    assert torch.equal(model(tokens), before)


@both
def test_a_norm_whose_gain_is_even_changes_no_reading(family):
    model, x = tiny(family), 5 * torch.randn(6, 16)
    norm = norms.norm_at(model, 0, "ln1")
    assert norms.change(model, norm, x).largest > 0.01
    for part in (norms.plain, norms.even):
        with part(norm):
            assert norms.change(model, norm, x).largest < 1e-4
    with pytest.raises(RuntimeError), norms.plain(norm):
        raise RuntimeError  # the gain comes back all the same
    assert norms.change(model, norm, x).largest > 0.01


def test_the_change_of_a_norm_is_the_difference_of_two_lenses():
    model, x = tiny("gpt2"), torch.randn(6, 16)
    norm, words = norms.norm_at(model, 1, "ln2"), torch.arange(30) < 7
    found = norms.change(model, norm, x)
    before, after = (lens(model, v).softmax(dim=-1).mean(dim=0) for v in (x, norm(x)))
    torch.testing.assert_close(found.difference, after - before)
    assert found.kept(words) == pytest.approx((after[:7].sum() / before[:7].sum()).item())
    assert found.falls(1)[0] == found.difference.argmin()
    assert found.rises(1)[0] == found.difference.argmax()


def test_made_up_vectors_have_the_length_or_the_mean_and_covariance():
    x = torch.randn(400, 5) @ torch.randn(5, 5) + 3
    random, alike = norms.isotropic(x), norms.alike(x.repeat(20, 1))
    torch.testing.assert_close(random.norm(dim=-1), x.norm(dim=-1))
    torch.testing.assert_close(alike.mean(dim=0), x.mean(dim=0), atol=0.2, rtol=0)
    torch.testing.assert_close(alike.T.cov(), x.T.cov(), atol=0.5, rtol=0.2)


@both
def test_edits_undo_the_uneven_gain_along_one_direction_or_are_as_long(family, tokens):
    model, words = tiny(family), torch.arange(30) < 7
    toward = norms.words_direction(model, words)
    assert toward.norm() == pytest.approx(1)
    norm, resid = norms.norm_at(model, 1, "ln1"), model.run_with_cache(tokens)[1]["L1.resid_pre"]
    even = norms.normalized(norm, resid) * norm.weight.mean()

    def read(edits):
        return model.run_with_cache(tokens, edits=edits)[1]["L1.ln1_out"]

    now = read(norms.words_put_back(model, 1, toward, toward))
    torch.testing.assert_close(now @ toward, even @ toward, atol=1e-4, rtol=0)
    across = norm(resid) - now
    torch.testing.assert_close(across, (across @ toward)[..., None] * toward, atol=1e-4, rtol=0)
    length = (read(norms.evened_as_far(model, 1)) - norm(resid)).norm(dim=-1)
    torch.testing.assert_close(length, (even - norm(resid)).norm(dim=-1), rtol=1e-3, atol=1e-4)


def test_a_norm_is_taken_apart_and_vectors_are_read_one_by_one():
    model, x = tiny("gpt2"), torch.randn(6, 16)
    norm, words = norms.norm_at(model, 0, "ln1"), torch.arange(30) < 7
    bare = norms.normalized(norm, x)
    for part, by_hand in (
        (norms.gain_only, bare * norm.weight),
        (norms.bias_only, bare + norm.bias),
        (norms.even, bare * norm.weight.mean()),
    ):
        with part(norm):
            torch.testing.assert_close(norm(x), by_hand)
    alike, kept = norms.one_by_one(model, norm, x, words)
    one, rest = (norms.change(model, norm, x[at]) for at in ([2], [0, 1, 3, 4, 5]))
    assert kept[2].item() == pytest.approx(one.kept(words), rel=1e-4)
    by_hand = norms.correlation(one.difference, rest.difference)
    assert alike[2].item() == pytest.approx(by_hand, abs=1e-3)


def test_a_model_without_norms_or_another_family_is_named(make_model):
    with pytest.raises(ValueError, match="no norms: load one with them, such as docstrings-gpt2"):
        norms.norm_at(make_model(layer_norm=False), 0, "ln1")
    with pytest.raises(ValueError, match="family 'ours': take gpt2 or llama"):
        norms.folded(make_model(), [0]).__enter__()


def test_words_are_compared_with_others_as_likely():
    before = torch.tensor([0.4, 0.2, 0.21, 0.01, 0.38])
    after = torch.tensor([0.2, 0.2, 0.105, 0.01, 0.19])
    change = norms.Change(before, after, 0.0)
    words = torch.tensor([True, True, False, False, False])
    kept, others = norms.as_probable(change, words)
    assert kept == pytest.approx(0.4 / 0.6) and others == pytest.approx(0.295 / 0.59)


def test_all_of_it_is_measured_kept_and_read(shipped, monkeypatch):
    """`make data WHAT=pretrained`, on a random model with the vocabulary of the shipped one."""
    monkeypatch.setattr(results, "passages", lambda seed: texts.passages(6, seed))
    size = dict(vocab_size=4096, max_position_embeddings=128, num_key_value_heads=2)
    model = tiny("llama", shipped.tokenizer, noise=0, **size)
    kept = json.loads(json.dumps(results.pretrained(model)))
    found = results.parsed(kept)
    assert rounded(plain(found)) == kept and found.passages == 6
    assert len(found.norms.ln1) == 2
    assert max(row.bare for row in found.norms.ln2) < 0.01


UNSEEN, FOLDS, FORGOTTEN, FILTERS = "22.1", "22.2", "22.3", "22.4"

ANSWERS = [
    (UNSEEN, "abd", "solved"),
    (UNSEEN, "DBA", "solved"),
    (UNSEEN, "abcd", "not yet"),
    (UNSEEN, "ab", "not yet"),
    (UNSEEN, "x", "not yet"),
    (FOLDS, lambda gain, bias, W, b: (gain[:, None] * W, b + bias @ W), "solved"),
    (FOLDS, lambda gain, bias, W, b: (gain[:, None] * W, b), "not yet"),
    (FOLDS, lambda gain, bias, W, b: (W.T, b), "not yet"),
    (FOLDS, lambda *parts: None, "not attempted"),
]


def test_what_a_norm_cannot_see_is_what_leaves_its_output():
    x = torch.randn(192)
    largest = torch.ones(192).index_fill(0, x.argmax(), 3)
    changes = {"a": x + 5, "b": 3 * x, "c": -x, "d": x + 2 * (x - x.mean()), "e": x * largest}
    same = {k for k, y in changes.items() if torch.allclose(F.layer_norm(x, (192,)),
            F.layer_norm(y, (192,)), atol=1e-3)}  # fmt: skip
    assert same == set("abd")


@torch.no_grad()
def test_the_writer_that_was_forgotten_is_found(verdict):
    model = rewriting.forgetful(tiny("gpt2"), 7)
    writers = rewriting.writers(model)
    means = {name: W.mean(dim=-1).abs().max().item() for name, W in writers.items()}
    assert sum(mean > 1e-6 for mean in means.values()) == 1
    for answer, said in (
        (max(means, key=means.get), "solved"),
        ("layer 1 heads, matrix", "not yet"),
        ("positions", "not yet"),
        ("somebody", "not yet"),
    ):
        assert verdict(FORGOTTEN, answer, writers=writers, which=7) == said


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(verdict, number, answer, expected):
    assert verdict(number, answer) == expected


def test_a_bias_is_judged_by_what_it_filters(shipped, verdict):
    x = texts.read_ends(shipped, ["Return the graph", "and so on"]).ln1[3]
    given = dict(model=shipped, norm=shipped.attention_norm(3), stream=x)
    strings = shipped.tokenizer.token_strings(list(range(4096)))
    graphs = torch.tensor([any(k in s.lower() for k in ("graph", "node", "edge")) for s in strings])
    toward = shipped.W_U[:, graphs].mean(dim=1)
    given |= dict(words=graphs, others=texts.function_words(shipped.tokenizer))
    for bias, said in (
        (-3 * toward / toward.norm(), "solved"),
        (3 * toward / toward.norm(), "not yet"),  # they rise
        (-9 * toward / toward.norm(), "not yet"),  # too long
        (-0.5 * toward / toward.norm(), "not yet"),  # too little
        (toward[:5], "not yet"),
    ):
        assert verdict(FILTERS, bias, **given) == said


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


def test_figures_can_be_read_and_words_are_those_that_move(shipped):
    x = texts.read_ends(shipped, ["Return the graph", "and so on"]).ln1[2]
    norm, words = shipped.attention_norm(2), texts.function_words(shipped.tokenizer)
    before, after = (lens(shipped, v).softmax(dim=-1).mean(dim=0) for v in (x, norm(x)))
    rows = norms.moved(shipped, before, after, words, n=3)
    assert [len(each) for each in rows.values()] == [3, 3]
    token, was, now, _ = rows["fall most"][0]
    worst = (after - before).argmin()
    assert token == shipped.tokenizer.token_strings([int(worst)])[0] and was > now
    still = norms.moved(shipped, before, before, words, n=3, ranked_by=after - before)
    assert [[row[:2] for row in each] for each in still.values()] == [
        [row[:2] for row in each] for each in rows.values()
    ]
    assert all(row[1] == row[2] for each in still.values() for row in each)
    check_figures(figures.words_moved(rows, "words"))
    step = {"input": [1.0, -2.0], "centered": [1.5, -1.5]}
    check_figures(figures.steps({"x": step, "2 x": step}, "steps"))
    check_figures(figures.learned(rewriting.layer_norms(shipped), "learned"))
    sigma = {name: 1 + torch.rand(3, 5) for name in rewriting.layer_norms(shipped)}
    check_figures(figures.growth(sigma, sigma, "growth"))


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
