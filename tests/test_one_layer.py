"""Notebook 07: frames, raises, prices of a planted corpus; its exercises and drawings."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.reading import circuits
from aot_helpers.studies import one_layer, one_layer_drawings
from aot_helpers.teaching.exercises import grade
from aot_helpers.text.batches import pad_batch
from aot_helpers.text.planted import BUG, BUG_OBJECTS, FILLERS, NAMES, write_planted
from aot_helpers.training.losses import next_token_losses


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


def test_terms_of_the_last_word_add_up_to_its_logits(model):
    words = ["put", "so", "then", "onto"]
    terms = one_layer.last_terms(model, words)
    number = one_layer.word_ids(model.tokenizer)
    tokens = torch.tensor([[model.tokenizer.bos, *(number[word] for word in words)]])
    logits = model(tokens)[0, -1]
    assert list(terms) == ["direct", "L0H0", "L0H1"]
    assert torch.allclose(sum(terms.values()), logits - logits.mean(), atol=1e-4)


def test_a_forced_look_is_that_of_the_other_texts(model):
    at, as_in = (one_layer.frames(model.tokenizer, ["keep"], [word]) for word in ("at", "in"))
    _, cache = model.run_with_cache(at, edits=one_layer.looking_as_from(model, as_in, head=0))
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
    number, tokens = one_layer.word_ids(model.tokenizer), model.tokenizer
    p = model(one_layer.frames(tokens, ["hold"], ["at"]))[:, -1].softmax(dim=-1)
    assert chances["hold", "at"]["bay"] == pytest.approx(p[:, number["bay"]].mean().item())


def test_fillers_are_counted_back_to_the_first_other_word(model):
    texts = model.tokenizer.encode("ada keep so then at bay . so", bos=True)[None]
    assert one_layer.fillers_before(model.tokenizer, texts).tolist() == [
        [0, 0, 0, 0, 1, 2, 0, 0, 0]
    ]


def test_a_head_looks_at_its_own_verb_and_at_others(model):
    text = "ada keep so then at bay . bela put now at mind ."
    texts = model.tokenizer.encode(text, bos=True)[None]
    number = one_layer.word_ids(model.tokenizer)
    here = texts[:, :-1] == number["at"]
    own, others = one_layer.looks_at_verbs(model, 0, texts, here)
    first, second = model.run_with_cache(texts)[1]["L0.pattern"][0, 0, [5, 11]]
    assert own == pytest.approx((first[2] + second[9]).item() / 2, abs=1e-6)
    assert others == pytest.approx(second[2].item() / 2, abs=1e-6)


def test_a_name_takes_the_attention_that_again_would_give_a_list(model):
    encode, number = model.tokenizer.encode, one_layer.word_ids(model.tokenizer)
    written = write_planted(200, seed=5)[0]
    texts, _ = pad_batch([encode(t, bos=True) for t in written], model.tokenizer.pad, 96)
    pattern = model.run_with_cache(texts)[1]["L0.pattern"][:, 0]
    lists = texts == number["list"]
    here = (texts == number["again"]) & (lists.cumsum(dim=1) > 0)
    names = torch.isin(texts, torch.tensor([number[name] for name in NAMES]))
    assert here.sum() > 10
    assert (pattern * lists[:, None]).sum(dim=-1)[here].max() < 1e-3
    assert (pattern * names[:, None]).sum(dim=-1)[here].min() > 0.7


def test_looks_are_shares_of_the_source(model):
    looks = one_layer.looks(model, 0, "put", ["of", "at"])
    assert list(looks) == ["of", "at"]
    assert looks["of"] > 0.9 and 0 <= looks["at"] < 0.1


def test_tables_of_a_head_are_its_looks_and_what_it_adds(model):
    number = one_layer.word_ids(model.tokenizer)
    destinations = ["of", "again"]
    every = one_layer.frames(model.tokenizer, list(number), destinations)
    attention, boost = one_layer.head_tables(model, 0, every, len(destinations))
    looks = one_layer.looks(model, 0, "put", destinations)
    assert attention[:, number["put"]].tolist() == pytest.approx(list(looks.values()), abs=1e-5)
    OV = circuits.full_ov(model, Head(0, 0)).dense()
    assert torch.allclose(boost, OV - OV.mean(dim=1, keepdim=True), atol=1e-4)


def strongest(attention, boost):
    look, destination = attention.max(dim=0)
    lift, out = boost.max(dim=1)
    source = int((look * lift).argmax())
    return [source, int(destination[source]), int(out[source])]


def all_triples(attention, boost):
    values = torch.einsum("ds,so->sdo", attention, boost)
    return torch.stack(torch.unravel_index(values.argmax(), values.shape))


def source_after_source(attention, boost):
    best = (-1.0,)
    for s in range(len(boost)):
        value, place = (attention[:, s, None] * boost[s]).flatten().max(dim=0)
        best = max(best, (float(value), s, *divmod(int(place), boost.shape[1])))
    return best[1:]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (strongest, "solved\n"),
        (lambda a, b: torch.tensor(strongest(a, b)), "solved\n"),
        (all_triples, "not yet. That is the strongest, but of 24,000 triples: you made "),
        (source_after_source, "not yet. That is the strongest, but of 24,000 triples"),
        (lambda a, b: [0, 0, 1], "not yet. Of 4 sources your triple [0, 0, 1] has the value "),
        (lambda a, b: [0, 3, 0], "not yet. [source, destination, out] is wanted, the first below"),
        (lambda a, b: strongest(a, b)[:2], "not yet. 3 numbers, please; yours has the shape [2]."),
        (lambda a, b: strongest(a.T, b), "not yet. It stops with “The size of tensor a (3) must"),
        (lambda a, b: [a[9, 0], 0, 0], "not yet. It stops with “index 9 is out of bounds"),
        (lambda a, b: None, "not attempted"),
    ],
)
def test_a_strongest_triple_is_found_without_making_all(capsys, answer, said):
    grade("07.1", answer)
    assert capsys.readouterr().out.startswith(f"exercise 07.1: {said}")


def test_the_strongest_triple_of_a_head_is_said_in_words(capsys):
    attention, boost = torch.tensor([[0.1, 0.9]]), torch.tensor([[5.0, 0.0], [2.0, 1.0]])
    grade("07.1", strongest, head=(attention, boost, ["put", "rain"], ["of"]))
    said = "exercise 07.1: solved (in this head: rain … of → put)\n"
    assert capsys.readouterr().out == said


def test_whole_texts_pay_a_strongest_triple_no_attention(capsys):
    tables = torch.tensor([[0.1, 0.9]]), torch.tensor([[5.0, 0.0], [2.0, 1.0]])
    words = ["put", "rain", "of", *NAMES]
    texts, pattern = torch.tensor([[3, 1, 2], [0, 4, 2]]), torch.zeros(2, 3, 3)
    pattern[:, 2] = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.9, 0.0]])
    grade("07.1", strongest, head=(*tables, words, ["of"]), read=(texts, pattern))
    said = capsys.readouterr().out
    assert "of gives rain 0.20 of its attention at most, and names 0.80 on average)" in said


FORCED = {"keep … at": 0.21, "hold … at": 0.06}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (FORCED, "solved (keep … at: 0.21, hold … at: 0.06)"),
        ({"keep … at": 0.18, "hold … at": 0.1}, "solved"),
        (FORCED | {"keep … at": 0.79}, "not yet. keep … at: to which of the two nouns"),
        ({"keep … at": 0.11, "hold … at": 0.11}, "not yet. keep … at: not so near 0.11."),
        (FORCED | {"hold … at": 0.4}, "not yet. hold … at: not so near 0.40."),
        (FORCED | {"keep … at": 1.6}, "not yet. keep … at: a probability from 0 to 1"),
        (FORCED | {"keep … at": "low"}, "not yet. keep … at: one number, please"),
        ([0.2, 0.1], "not yet. A dict with the keys keep … at, hold … at"),
        (dict.fromkeys(FORCED, ...), "not attempted"),
    ],
)
def test_a_forced_look_is_predicted(capsys, answer, said):
    grade("07.2", answer, forced=FORCED)
    assert capsys.readouterr().out.startswith(f"exercise 07.2: {said}")


@pytest.mark.parametrize(
    ("looks", "says", "leans", "said"),
    [
        ([[1, 0], [0, 1]], [6, 6], [-3, -3], "solved (each right noun has at least 0.95)"),
        ([[0, 1], [1, 0]], [-6, -6], [3, 3], "solved"),
        ([[1, 1], [1, 1]], [6, -6], [0, 0], "not yet. keep … at → bay has the probability 0.00"),
        ([[1, 0], [0, 1]], [2, 2], [-1, -1], "not yet. keep … in → mind has the probability 0.73"),
        ([[2, 0], [0, 1]], [6, 6], [-3, -3], "not yet. looks: attention lies between 0 and 1."),
        ([1, 0], [6, 6], [-3, -3], "not yet. looks: 2 by 2 numbers, please"),
        ([[1, 0], [0, 1]], 6, [-3, -3], "not yet. says: 2 numbers, please"),
        (..., [6, 6], ..., "not attempted"),
    ],
)
def test_one_head_for_four_promises(capsys, looks, says, leans, said):
    grade("07.3", looks, says, leans)
    assert capsys.readouterr().out.startswith(f"exercise 07.3: {said}")


def texts_of(axis):
    return [text.get_text() for text in axis.texts]


def test_drawings_say_what_they_show():
    chances = {pair: {"mind": 0.7, "bay": 0.3} for pair in BUG}
    figure = one_layer_drawings.promises(chances, BUG, "title")
    said = figure.axes[0].texts
    assert texts_of(figure.axes[0]).count("0.70") == 4
    right = {text.get_color() for text in said if text.get_weight() == "bold"}
    assert one_layer_drawings.FALSE not in right
    figure = one_layer_drawings.fan("put", {"of": 1.0, "at": 0.0}, {"rain": 3.8}, "title")
    assert {"put", "of", "at", "0.00", "rain", "+3.8"} <= set(texts_of(figure.axes[0]))
    maps = torch.rand(2, 3), torch.rand(1, 3), torch.rand(2, 3)
    names = ["put", "walk"], ["of"], ["rain", "music", "silk"]
    figure = one_layer_drawings.meeting(*maps, *names, "of", "title")
    assert [label.get_text() for label in figure.axes[2].get_xticklabels()] == names[2]
    scales = [axis.child_axes[0].get_ylabel() for axis in figure.axes[:3]]
    assert scales == ["logits", "logits", "probability"]
    prices = {"first": (0.0, 1.0), "second": (0.9, 0.1), "third": (0.02, 0.1)}
    figure = one_layer_drawings.two_prices(prices, ("in", "at"), "first", "title")
    said = texts_of(figure.axes[0])
    assert "a coin toss" in said and all(said.count(model) == 2 for model in prices)
    lows = [t.get_position()[1] for t in figure.axes[0].texts if t.get_text() in ("first", "third")]
    assert lows[1] - lows[0] == pytest.approx(0.085) and sum(lows[:2]) == pytest.approx(0.02)


def test_a_choosing_head_is_drawn_with_what_comes_of_it():
    rows = [
        (["keep", "so", "then", "at"], [0.8, 0.0, 0.01, 0.2], {"direct": -1.3, "L0H1": -0.3}),
        (["hold", "so", "then", "at"], [0.0, 0.0, 0.0, 1.0], {"direct": -1.3, "L0H1": 2.0}),
    ]
    offers = {"keep": -0.78, "hold": -0.28, "at": 1.98}
    figure = one_layer_drawings.choosing(rows, offers, BUG_OBJECTS, "title")
    said = texts_of(figure.axes[0])
    assert {"0.80", "0.20", "1.00", "-0.78", "+1.98", "bay 0.83", "mind 0.67"} <= set(said)
    assert "-0.28" not in said and "0.01" not in said  # not looked at, not said
