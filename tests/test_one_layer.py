"""Notebook 07: frames, raises, prices of a planted corpus; its exercises and drawings."""

import math

import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from aot_helpers.base import results
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Head
from aot_helpers.reading import circuits
from aot_helpers.showing import diagrams
from aot_helpers.teaching.exercises import grade, write
from aot_helpers.text import tokenization
from aot_helpers.text.batches import pad_batch
from aot_helpers.text.planted import BUG, BUG_OBJECTS, FILLERS, NAMES, write_planted
from chapters.nb07_one_layer_skip_trigrams import figures as one_layer_drawings
from chapters.nb07_one_layer_skip_trigrams import idioms
from chapters.nb07_one_layer_skip_trigrams import measure as one_layer


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def model():
    return load_checkpoint("planted-1l-2heads-seed1").requires_grad_(False)


@pytest.fixture(scope="module")
def written(model):
    texts, truth = write_planted(6, seed=3)
    encode = model.tokenizer.encode
    tokens, _ = pad_batch([encode(text, bos=True) for text in texts], model.tokenizer.pad)
    return tokens[:, :96], truth


def test_frames_are_all_pairs_of_fillers_between_source_and_destination(model):
    tokens = one_layer.frames(model.tokenizer, ["put", "keep"], ["of", "in"])
    n = sum(map(len, FILLERS.values()))
    assert tokens.shape == (4 * n, 5) and (tokens[:, 0] == model.tokenizer.bos).all()
    said = [model.tokenizer.token_strings(row)[1:] for row in tokens]
    assert [row[0] for row in said] == ["put"] * 2 * n + ["keep"] * 2 * n
    assert [row[3] for row in said] == 2 * (["of"] * n + ["in"] * n)
    assert all(row[2] in FILLERS[row[1]] for row in said)
    assert len({tuple(row) for row in said}) == len(said)


def test_raises_are_above_the_mean_of_all_sources():
    n = sum(map(len, FILLERS.values()))
    logits = torch.randn(3 * 2 * n, 7)
    raised = one_layer.raises(logits, n_destinations=2)
    by_hand = torch.stack(
        [logits.softmax(-1)[(2 * s + 1) * n : (2 * s + 2) * n].mean(dim=0) for s in range(3)]
    )
    assert torch.allclose(raised[:, 1], by_hand - by_hand.mean(dim=0), atol=1e-6)


def test_recall_counts_rules_whose_out_is_lifted_most():
    word_id = {"put": 0, "sing": 1, "rain": 2, "silk": 3}
    planted = {("put", "of"): "rain", ("sing", "of"): "silk"}
    rules = one_layer.as_ids(planted, word_id, ["in", "of"])
    assert rules == {(0, 1, 2), (1, 1, 3)}
    raised = torch.zeros(2, 2, 4)
    raised[0, 1, 2] = raised[1, 1, 2] = 0.5
    assert one_layer.recall(raised, rules) == 0.5


def test_floors_and_kinds_are_those_of_the_truth(written):
    tokens, truth = written
    shape = (len(tokens), tokens.shape[1] - 1)
    floor = one_layer.floors(truth, shape)
    for kind in ("bigram", "skip-trigram"):
        here = one_layer.of_kind(truth, kind, shape)
        assert here.sum() == sum(row.count(kind) for row in truth.kinds)
        assert floor[here].mean() == pytest.approx(truth.floor(kind), abs=1e-5)


def test_the_price_is_the_loss_above_the_floor(model, written):
    tokens, truth = written
    shape = (len(tokens), tokens.shape[1] - 1)
    floor, here = one_layer.floors(truth, shape), one_layer.of_kind(truth, "repeat", shape)
    by_hand = next_token_losses(model(tokens), tokens)[here].mean() - floor[here].mean()
    assert one_layer.above_floor(model, here, tokens, floor) == pytest.approx(
        float(by_hand), abs=1e-5
    )
    swapped = one_layer.above_floor(model, here, tokens, floor, on=tokens.flip(0))
    assert swapped != pytest.approx(float(by_hand), abs=1e-3)


def test_frames_with_one_gap_are_texts_of_source_gap_and_destination(model):
    tokens = one_layer.gap_frames(model.tokenizer, ["put", "keep"], ["of", "in", "at"])
    assert tokens.shape == (3, 2, 5)
    assert model.tokenizer.token_strings(tokens[2, 1].tolist())[1:] == ["keep", "so", "then", "at"]


def test_a_skip_trigram_table_is_the_pattern_times_the_ov_circuit(model):
    frames = one_layer.gap_frames(model.tokenizer, ["put", "keep", "sing"], ["of", "at"])
    _, cache = model.run_with_cache(frames.flatten(0, 1))
    for h in range(2):
        attention = cache["L0.pattern"][:, h, -1, 1].view(2, 3, 1)
        OV = circuits.full_ov(model, Head(0, h)).centered_columns().rows(frames[..., 1].flatten())
        table = one_layer.skip_trigram_table(model, h, frames)
        assert torch.allclose(table, attention * OV.view(2, 3, -1), atol=1e-4)
        assert torch.allclose(one_layer.skip_trigram_table(model, h, frames[1, 2]), table[1, 2])


def test_the_strongest_entries_come_by_name_and_in_order():
    table = torch.tensor([[[0.1, 0.9], [0.3, 0.2]], [[0.0, 0.8], [-1.0, 0.5]]])
    found = one_layer.strongest(table, ["of", "at"], ["put", "sing"], ["rain", "silk"], 3)
    names = [("put", "of", "silk"), ("put", "at", "silk"), ("sing", "at", "silk")]
    assert list(found) == names and list(found.values()) == pytest.approx([0.9, 0.8, 0.5])


def test_a_patched_head_reads_the_donor_and_all_else_the_text(model):
    texts, donors = one_layer.gap_frames(model.tokenizer, ["put", "walk"], ["of"])[0, :, None]
    logits, cache = model.run_with_cache(texts)
    _, other = model.run_with_cache(donors)
    written = [run["L0.z"][:, -1, 0] @ model.blocks[0].attn.W_O[0] for run in (cache, other)]
    by_hand = logits[:, -1] + (written[1] - written[0]) @ model.W_U
    assert torch.allclose(one_layer.patched(model, texts, donors, 0), by_hand, atol=1e-4)
    assert torch.allclose(one_layer.patched(model, texts, texts, 0), logits[:, -1], atol=1e-5)


def test_a_forced_head_attends_as_in_the_other_texts(model):
    at, as_in = (one_layer.frames(model.tokenizer, ["keep"], [word]) for word in ("at", "in"))
    _, cache = model.run_with_cache(at, edits=one_layer.attending_as_in(model, as_in, head=0))
    _, there = model.run_with_cache(as_in)
    _, before = model.run_with_cache(at)
    pattern = cache["L0.pattern"]
    assert torch.equal(pattern[:, 0, -1], there["L0.pattern"][:, 0, -1])
    assert torch.equal(pattern[:, 1], before["L0.pattern"][:, 1])
    assert torch.equal(pattern[:, 0, :-1], before["L0.pattern"][:, 0, :-1])


def test_chances_of_crossed_nouns_are_those_after_their_frames(model):
    chances = one_layer.crossed_chances(model)
    assert list(chances) == list(BUG)
    assert all(list(nouns) == list(BUG_OBJECTS) for nouns in chances.values())
    number, tokens = tokenization.word_ids(model.tokenizer), model.tokenizer
    p = model(one_layer.gap_frames(tokens, ["hold"], ["at"])[0])[0, -1].softmax(dim=-1)
    assert chances["hold", "at"]["bay"] == pytest.approx(p[number["bay"]].item())


def test_fillers_are_counted_back_to_the_first_other_word(model):
    texts = model.tokenizer.encode("ada keep so then at bay . so", bos=True)[None]
    assert one_layer.fillers_before(model.tokenizer, texts).tolist() == [
        [0, 0, 0, 0, 1, 2, 0, 0, 0]
    ]


def test_a_head_looks_at_its_own_verb_and_at_others(model):
    text = "ada keep so then at bay . bela put now at mind ."
    texts = model.tokenizer.encode(text, bos=True)[None]
    number = tokenization.word_ids(model.tokenizer)
    here = texts[:, :-1] == number["at"]
    own, others = one_layer.looks_at_verbs(model, 0, texts, here)
    first, second = model.run_with_cache(texts)[1]["L0.pattern"][0, 0, [5, 11]]
    assert own == pytest.approx((first[2] + second[9]).item() / 2, abs=1e-6)
    assert others == pytest.approx(second[2].item() / 2, abs=1e-6)


def test_a_name_takes_the_attention_that_again_would_give_a_list(model):
    encode, number = model.tokenizer.encode, tokenization.word_ids(model.tokenizer)
    written = write_planted(200, seed=5)[0]
    texts, _ = pad_batch([encode(t, bos=True) for t in written], model.tokenizer.pad, 96)
    pattern = model.run_with_cache(texts)[1]["L0.pattern"][:, 0]
    lists = texts == number["list"]
    here = (texts == number["again"]) & (lists.cumsum(dim=1) > 0)
    names = torch.isin(texts, torch.tensor([number[name] for name in NAMES]))
    assert here.sum() > 10
    assert (pattern * lists[:, None]).sum(dim=-1)[here].max() < 1e-3
    assert (pattern * names[:, None]).sum(dim=-1)[here].min() > 0.7


def test_attention_to_a_source_is_that_of_the_pattern(model):
    weights = one_layer.attention_to(model, 0, "put", ["of", "at"])
    assert list(weights) == ["of", "at"]
    assert weights["of"] > 0.9 and 0 <= weights["at"] < 0.1


# ---- exercises and drawings ----


def no_bias(model, h, frames):
    attn, X = model.blocks[0].attn, model.W_E[frames]
    scores = (X[..., -1:, :] @ attn.W_Q[h] @ (X @ attn.W_K[h]).mT).squeeze(-2)
    attention = (scores / math.sqrt(model.config.d_head)).softmax(dim=-1)[..., 1]
    boost = X[..., 1, :] @ attn.W_V[h] @ attn.W_O[h] @ model.W_U
    return attention[..., None] * (boost - boost.mean(dim=-1, keepdim=True))


def unscaled(model, h, frames):
    attn, X = model.blocks[0].attn, model.W_E[frames]
    scores = (X[..., -1:, :] @ attn.W_Q[h] @ (X @ attn.W_K[h]).mT).squeeze(-2)
    attention = (scores + attn.b_rel[h, : frames.shape[-1]].flip(0)).softmax(dim=-1)[..., 1]
    boost = X[..., 1, :] @ attn.W_V[h] @ attn.W_O[h] @ model.W_U
    return attention[..., None] * (boost - boost.mean(dim=-1, keepdim=True))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (one_layer.skip_trigram_table, "solved ("),
        (lambda *given: None, "not attempted"),
        (lambda *given: ..., "not attempted"),
        (no_bias, "not yet. Add to the scores the number for the distance, b_rel."),
        (unscaled, "not yet. Are the scores divided by the square root of d_head?"),
        (lambda *given: 2 * one_layer.skip_trigram_table(*given), "not yet. The shape is right"),
        (lambda *given: 0.0, "not yet. Frames [3, 4, 5] should give a tensor [3, 4, 50]; yours: f"),
        (lambda m, h, f: one_layer.skip_trigram_table(m, h, f)[0], "not yet. Frames [3, 4, 5]"),
    ],
)
def test_a_blank_page_goes_on_with_the_package_until_it_is_right(capsys, answer, said):
    taken = write("07.1", answer)
    printed = capsys.readouterr().out
    assert printed.startswith(f"exercise 07.1: {said}")
    assert taken is (answer if said.startswith("solved") else one_layer.skip_trigram_table)
    assert ("is yours" in printed) == (taken is answer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (one_layer.patched, "solved ("),
        (lambda *given: None, "not attempted"),
        (lambda m, a, b, h: one_layer.patched(m, a, b, 0), "not yet. Another head was patched"),
        (lambda m, a, b, h: m(a)[:, -1], "not yet. Nothing was patched"),
        (lambda m, a, b, h: m(b)[:, -1], "not yet. That is the whole model on the donors"),
        (lambda m, a, b, h: m(a), "not yet. Logits after the last token, [3, 50], are wanted"),
        (lambda m, a, b, h: one_layer.patched(m, b, a, h), "not yet. Patch z of head h only"),
    ],
)
def test_a_patch_is_tried_out(capsys, answer, said):
    write("07.2", answer)
    assert capsys.readouterr().out.startswith(f"exercise 07.2: {said}")


FORCED = {"keep … at": 0.21, "hold … at": 0.06}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (FORCED, "solved (keep … at: 0.21, hold … at: 0.06;"),
        ({"keep … at": 0.18, "hold … at": 0.1}, "solved"),
        (FORCED | {"keep … at": 0.79}, "not yet. keep … at: which noun does L0H0 raise"),
        ({"keep … at": 0.11, "hold … at": 0.11}, "not yet. keep … at: not so near 0.11."),
        (FORCED | {"hold … at": 0.4}, "not yet. hold … at: not so near 0.40."),
        (FORCED | {"keep … at": 1.6}, "not yet. keep … at: a probability from 0 to 1"),
        (FORCED | {"keep … at": "low"}, "not yet. keep … at: one number, please"),
        ([0.2, 0.1], "not yet. A dict with the keys keep … at, hold … at"),
        (dict.fromkeys(FORCED, ...), "not attempted"),
    ],
)
def test_a_forced_head_is_predicted(capsys, answer, said):
    grade("07.3", answer, forced=FORCED)
    assert capsys.readouterr().out.startswith(f"exercise 07.3: {said}")


@pytest.mark.parametrize(
    ("attention", "delta", "direct", "said"),
    [
        ([[1, 0], [0, 1]], [6, 6], [-3, -3], "solved (each right noun has at least 0.95:"),
        ([[0, 1], [1, 0]], [-6, -6], [3, 3], "solved"),
        ([[1, 1], [1, 1]], [6, -6], [0, 0], "not yet. keep … at → bay has the probability 0.00"),
        ([[1, 0], [0, 1]], [2, 2], [-1, -1], "not yet. keep … in → mind has the probability 0.73"),
        ([[2, 0], [0, 1]], [6, 6], [-3, -3], "not yet. attention: its weights lie between 0 and 1"),
        ([1, 0], [6, 6], [-3, -3], "not yet. attention: 2 by 2 numbers, please"),
        ([[1, 0], [0, 1]], 6, [-3, -3], "not yet. delta: 2 numbers, please"),
        (..., [6, 6], ..., "not attempted"),
    ],
)
def test_one_head_for_four_pairs(capsys, attention, delta, direct, said):
    grade("07.4", attention, delta, direct)
    assert capsys.readouterr().out.startswith(f"exercise 07.4: {said}")


def texts_of(axis):
    return [text.get_text() for text in axis.texts]


def test_drawings_say_what_they_show():
    chances = {pair: {"mind": 0.7, "bay": 0.3} for pair in BUG}
    figure = one_layer_drawings.crossed_pairs(chances, BUG, "title")
    said = figure.axes[0].texts
    assert texts_of(figure.axes[0]).count("0.70") == 4
    right = {text.get_color() for text in said if text.get_weight() == "bold"}
    assert one_layer_drawings.FALSE not in right
    figure = one_layer_drawings.fan("put", {"of": 1.0, "at": 0.0}, {"rain": 3.8}, "title")
    assert {"put", "of", "at", "0.00", "rain", "+3.8"} <= set(texts_of(figure.axes[0]))
    maps = torch.rand(2, 3), torch.rand(1, 3), torch.rand(2, 3)
    names = ["put", "walk"], ["of"], ["rain", "music", "silk"]
    figure = one_layer_drawings.circuits_add_up(*maps, names, "of", "title")
    assert [label.get_text() for label in figure.axes[2].get_xticklabels()] == names[2]
    scales = [axis.child_axes[0].get_ylabel() for axis in figure.axes[:3]]
    assert scales == ["logit", "logit", "probability"]


def test_logit_differences_are_green_towards_the_noun_of_the_rule():
    terms = {("keep", "in"): {"direct path": 0.5, "L0H0": 1.5}}
    terms |= {("hold", "in"): {"direct path": 0.5, "L0H0": -2.5}}
    figure = one_layer_drawings.logit_differences(terms, BUG, BUG_OBJECTS, "title")
    assert {"+0.50", "+1.50", "+2.00", "-2.50", "-2.00", "sum"} <= set(texts_of(figure.axes[0]))
    boxes = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    green = [to_rgb(box.get_facecolor()) == to_rgb(diagrams.VALUE) for box in boxes]
    assert green == [True, True, True, False, True, True]


def test_smollm2_is_asked_for_both_prepositions_with_eight_controls_each():
    after = results.read("pretrained/07-smollm2")["after"]
    assert list(after) == list(idioms.RIGHT)
    for preposition, nouns in after.items():
        assert len(nouns) == 10 and next(iter(nouns)) == idioms.RIGHT[preposition]
        assert not set(nouns) & set(idioms.NOUNS[preposition])
    figure = one_layer_drawings.raised_nouns(after, idioms.RIGHT, "keep", "title")
    assert {"bay +1.8 (the bug)", "mind +4.9 (the idiom)"} <= set(texts_of(figure.axes[0]))
