"""Notebook 08: values read from other tokens, what is carried, chance; its exercises, drawings."""

import copy

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.protocol import Head
from aot_helpers.reading.battery import PARTS, battery
from aot_helpers.reading.circuits import copying_score, full_ov
from aot_helpers.reading.factored import FactoredMatrix
from aot_helpers.studies import copying_drawings, copying_heads
from aot_helpers.teaching.exercises import grade
from aot_helpers.text.batches import repeated_tokens
from aot_helpers.text.corpora import Corpus
from aot_helpers.text.planted import PlantedTruth


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="module")
def model():
    return load_checkpoint("planted-1l-seed1").requires_grad_(False)


@pytest.fixture
def text():
    return torch.randint(1, 98, (3, 12))


def test_each_token_of_a_group_is_read_as_another_of_it():
    groups = [torch.tensor([3, 5, 8]), torch.tensor([1, 2])]
    other = copying_heads.each_as_the_next(10, groups)
    assert other.tolist() == [0, 2, 1, 8, 4, 3, 6, 7, 5, 9]
    for wrong in ([torch.tensor([4])], [torch.tensor([1, 2]), torch.tensor([2, 3])]):
        with pytest.raises(ValueError, match="another one"):
            copying_heads.each_as_the_next(10, wrong)


def test_other_values_are_those_of_a_text_of_other_tokens(model, text):
    other = torch.randperm(98)
    edits = copying_heads.other_values(model, text, other, 0, [2])
    v = model.run_with_cache(text, edits=edits)[1]["L0.v"]
    mine, others = (model.run_with_cache(t)[1]["L0.v"] for t in (text, other[text]))
    torch.testing.assert_close(v[:, :, 2], others[:, :, 2])
    assert torch.equal(v[:, :, [0, 1, 3]], mine[:, :, [0, 1, 3]])


def test_a_swing_is_the_other_tokens_logit_minus_the_true_ones(text):
    logits, other = torch.randn(3, 12, 98), torch.randperm(98)
    found = copying_heads.swing(logits, text, other)
    assert found.shape == (3, 11)
    wanted = logits[1, 4, other[text[1, 5]]] - logits[1, 4, text[1, 5]]
    assert found[1, 4] == wanted


def test_what_is_carried_is_attention_times_rows_of_the_table(model, text):
    other, at = torch.randperm(98), torch.rand(3, 11) > 0.5
    table = full_ov(model, Head(0, 3)).dense()
    pattern = model.run_with_cache(text)[1]["L0.pattern"][:, 3]
    change = pattern @ (table[other[text]] - table[text])
    wanted = copying_heads.swing(change, text, other)[at].mean().item() / 2
    found = copying_heads.carried(model, text, other, Head(0, 3), at)
    assert found == pytest.approx(wanted, abs=1e-4)
    unmoved = copying_heads.carried(model, text, torch.arange(98), Head(0, 3), at)
    assert unmoved == pytest.approx(0, abs=1e-5)


def test_planted_copies_are_the_words_that_the_rules_repeat(model):
    corpus = Corpus("toy", "test", ["ada so again ada .", "list pe le ; pe le ."], "", "", True)
    with pytest.raises(ValueError, match="planted"):
        copying_heads.planted_copies(corpus, model.tokenizer)
    free, again = ["free"] * 3, ["repeat", "repeat", "copy"]  # the last: no name, no copy
    corpus.truth = PlantedTruth(kinds=[[*free, "copy", "bigram"], [*free, "bigram", *again]])
    texts, tokens, copies = copying_heads.planted_copies(corpus, model.tokenizer)
    assert texts.shape == (2, 8) and texts[0, 1] == texts[0, 4] and len(tokens["codes"]) > 9
    assert copies["names"].nonzero().tolist() == [[0, 3]]
    assert copies["codes"].nonzero().tolist() == [[1, 4], [1, 5]]


def test_the_likeliest_words_come_with_their_probabilities(model):
    text = model.tokenizer.encode("ada keep so then again", bos=True)[None]
    said = copying_heads.likeliest(model, text, n=3)
    assert next(iter(said)) == "ada" and list(said.values()) == sorted(said.values(), reverse=True)
    finn = torch.arange(98)
    finn[text[0, 1]] = model.tokenizer.encode("finn")[0]
    edits = copying_heads.other_values(model, text, finn, 0, [1])
    assert next(iter(copying_heads.likeliest(model, text, edits))) == "finn"


def test_guesses_are_the_best_of_the_group():
    text, group = torch.tensor([[9, 1, 2, 1]]), torch.tensor([1, 2])
    other = copying_heads.each_as_the_next(10, [group])
    logits = torch.zeros(1, 4, 10)
    logits[0, 0, 1] = logits[0, 1, 1] = logits[0, 2, 2] = 1
    logits[0, :, 5] = 7  # not of the group
    is_copy = torch.tensor([[True, True, True]])
    found = copying_heads.guesses(logits, text, other, is_copy, group)
    assert found == pytest.approx((1 / 3, 2 / 3))


def test_a_part_is_centered_and_shuffles_lose_the_diagonal():
    copier = FactoredMatrix(torch.eye(20), torch.eye(20))
    piece = copying_heads.part_of(copier, torch.arange(5))
    torch.testing.assert_close(piece.dense(), torch.eye(5) - 0.2)
    shuffled = copying_heads.permuted_scores(copier.centered_columns(), 40)
    assert shuffled.abs().mean() < 0.4
    null = torch.randn(500) * 0.1
    assert copying_heads.beyond_chance(copying_score(copier), null, shuffled)
    assert not copying_heads.beyond_chance(0.05, null, shuffled)
    assert not copying_heads.beyond_chance(0.9, null + 1, shuffled)  # one null is not enough


def test_a_word_stands_among_the_keys_that_count_and_are_not_later():
    text = torch.tensor([[4, 5, 6, 4, 7]])
    keys = torch.ones(1, 5, 5, dtype=torch.bool)
    keys[0, 4, :2] = False  # the last place: its first two keys do not count
    word = torch.tensor([[4, 6, 5, 9, 5]])
    found = copying_heads.stands_among(word, text, keys)
    assert found.tolist() == [[True, False, True, False, False]]


def reads(v, read, W_V, head):
    v = v.clone()
    v[:, :, head] = read @ W_V
    return v


def in_place(v, read, W_V, head):
    v[:, :, head] = read @ W_V
    return v


def all_heads(v, read, W_V, head):
    return (read @ W_V)[:, :, None].expand_as(v)


GIVEN = {
    "v": torch.randn(2, 5, 4, 3, generator=torch.Generator().manual_seed(1)),
    "read": torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(2)),
    "W_V": torch.randn(7, 3, generator=torch.Generator().manual_seed(3)),
    "head": 1,
}
TRUTH = {"first saying": torch.tensor(0.1), "since the ;": torch.tensor(0.5)}
FOOLED = torch.tensor([-0.1, 1.0, 0.1])[:, None] * torch.tensor([1.0, 0.9, -1.9])


@pytest.mark.parametrize(
    ("number", "answer", "given", "says"),
    [
        ("08.1", lambda *a: None, GIVEN, "not attempted"),
        ("08.1", reads, GIVEN, "solved"),
        ("08.1", lambda v, *a: v, GIVEN, "not yet. Nothing has changed"),
        ("08.1", all_heads, GIVEN, "not yet. The values of other heads than number 1"),
        ("08.1", lambda v, r, W, h: v + reads(v * 0, r, W, h), GIVEN, "not yet. The old values"),
        ("08.1", lambda v, r, W, h: reads(v, r, -W, h), GIVEN, "not yet. The values of head 1"),
        ("08.1", lambda v, r, W, h: r @ W, GIVEN, "not yet. Values of all heads, of shape"),
        ("08.1", lambda v, r, W, h: reads(v, r, W[h], h), GIVEN, "already that of head 1"),
        ("08.1", in_place, GIVEN, "not yet. Right, but the `v`"),
        ("08.2", dict.fromkeys(TRUTH, ...), {"truth": TRUTH}, "not attempted"),
        ("08.2", {"first saying": 0.2, "since the ;": 0.6}, {"truth": TRUTH}, "solved (first"),
        ("08.2", {"first saying": 0.8, "since the ;": 0.6}, {"truth": TRUTH}, "less than 0.80"),
        ("08.2", {"first saying": 0.1, "since the ;": 0.1}, {"truth": TRUTH}, "more than 0.10"),
        ("08.2", [0.1, 0.5], {"truth": TRUTH}, "not yet. A dict"),
        (
            "08.2",
            {"first saying": 0.1, "since the ;": 0.8},
            {"truth": TRUTH},
            "0.90; there is 0.60",
        ),
        ("08.2", {"first saying": 0.5, "since the ;": 0.1}, {"truth": TRUTH}, "less than 0.50.\n"),
        ("08.2", {"first saying": 0.1, "since the ;": "?"}, {"truth": TRUTH}, "one number, please"),
        ("08.3", ..., {}, "not attempted"),
        ("08.3", FOOLED, {}, "solved (score +1.00"),
        ("08.3", (100 * FOOLED).tolist(), {}, "solved"),
        ("08.3", torch.eye(3) - 1 / 3, {}, "not yet. Word 0 raises itself most"),
        ("08.3", [[1, 0, -1], [0, 0, 0], [0, 0, 0]], {}, "not yet. Word 0 raises itself most"),
        ("08.3", [[0, 0, 0], [-2, 1, 1], [1, -2, 1]], {}, "not yet. Row 0 is a tie: word 0"),
        ("08.3", [[-1, 1, 0], [-2, 1, 1], [1, -2, 1]], {}, "not yet. Row 1 is a tie: word 1"),
        ("08.3", torch.eye(3), {}, "not yet. Each row must sum to zero"),
        ("08.3", -torch.eye(3) + 1 / 3, {}, "but the score is -1.00"),
        ("08.3", torch.zeros(3, 3), {}, "not yet. All eigenvalues are zero"),
        ("08.3", torch.eye(4), {}, "not yet. 3 by 3 numbers"),
    ],
)
def test_an_exercise_says_what_is_wrong(number, answer, given, says, capsys):
    grade(number, answer, **given)
    assert says in capsys.readouterr().out


def test_drawings_show_what_they_are_given():
    rows = [("as it is", None, {"ada": 0.9, "finn": 0.05}), ("L0H1", "finn", {"finn": 0.8})]
    figure = copying_drawings.readings(rows, ["ada", "so", "again"], "Readings")
    said = [text.get_text() for text in figure.axes[0].texts]
    assert {"ada 0.90", "finn 0.80", "finn", "Readings"} <= set(said)
    panels = {"names": {h: (torch.randn(6), torch.randn(6)) for h in ("L0H0", "L0H1")}}
    figure = copying_drawings.swings(panels, "Swings")
    assert [axis.get_title() for axis in figure.axes] == ["L0H0", "L0H1"]
    assert all(len(axis.lines) == 7 for axis in figure.axes)
    assert len(copying_drawings.swings(panels, "Swings", most=2).axes[0].lines) == 3
    panels = {"names": {"L0H0": (torch.full((6,), -8.0), torch.tensor([1.0] * 6))}}
    (axis,) = copying_drawings.swings(panels, "Swings").axes
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["−5", "0", "+5"]
    assert axis.get_ylabel() == "names, nats\nother minus true"
    tables = {kind: {"L0H0": torch.eye(n) * n} for kind, n in (("names", 4), ("codes", 5))}
    figure = copying_drawings.diagonals(tables, "Tables")
    scales = [axis.get_xlabel() for axis in figure.axes]
    assert scales == ["full color: ±4.0 nats", "full color: ±5.0 nats"]
    assert [axis.images[0].get_array().shape for axis in figure.axes] == [(4, 4), (5, 5)]
    pulled = {"L0H0": torch.tensor([9.0, 0, 0.01, 0]), "L0H1": torch.tensor([0, -1.0, 0, 0])}
    figure = copying_drawings.pulls(["a", "b", "c", "d"], pulled, ("for b", "for c"), "Pulls")
    said = [text.get_text() for text in figure.axes[0].texts]
    assert {"L0H0 +9.0", "L0H1 −1.0", "for b", "for c"} < set(said) and len(
        figure.axes[0].lines
    ) == 2
    assert {"not drawn (looks below ±1, and at itself), in all:", "L0H0 +0.0, L0H1 +0.0"} < set(
        said
    )
    above, below = (line.get_ydata() for line in figure.axes[0].lines)
    assert above.min() > below.max()
    (axis,) = copying_drawings.pulls(list("abcd"), pulled, ("", ""), "Pulls", least=2).axes
    assert len(axis.lines) == 1 and any("L0H1 −1.0" in text.get_text() for text in axis.texts)
    planes = {h: (torch.tensor([100.0, -4]), torch.zeros(2)) for h in ("L0H0", "L0H1")}
    figure = copying_drawings.eigenvalue_planes(planes, {"L0H0": 0.5, "L0H1": -1.0}, "Planes")
    assert figure.axes[1].get_title() == "L0H1\nscore -1.00"
    assert [x.get_text() for x in figure.axes[0].get_xticklabels()] == [
        "−80",
        "−20",
        "0",
        "20",
        "80",
    ]
    assert figure.axes[0].get_xticks()[3:] == pytest.approx([20**0.5, 80**0.5])
    assert [each.radius for each in figure.axes[0].patches[-2:]] == pytest.approx(
        [20**0.5, 80**0.5]
    )
    points = {"right": (0.9, 3.0, True), "missed": (-0.5, 2.0, False), "alarm": (0.3, 0.1, True)}
    figure = copying_drawings.against_score(points, 1.0, "Against")
    assert [text.get_text() for text in figure.axes[0].texts][1:] == ["missed", "alarm"]


def test_ranks_correlate_whatever_the_scale():
    one = torch.tensor([3.0, 1.0, 2.0, 10.0])
    assert copying_heads.rank_correlation(one, one.exp()) == pytest.approx(1)
    assert copying_heads.rank_correlation(one, -one) == pytest.approx(-1)
    ties = torch.tensor([1.0, 0.0, 0.0, 1.0])  # ranks 3.5, 1.5, 1.5, 3.5 against 3, 1, 2, 4
    assert copying_heads.rank_correlation(one, ties) == pytest.approx(2 / 5**0.5)
    for wrong in (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0, float("nan")])):
        with pytest.raises(ValueError, match="3 pairs"):
            copying_heads.rank_correlation(wrong, wrong)


def test_heads_are_dealt_anew_within_their_models_only():
    values, of_model = torch.arange(9.0), torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])
    deals = copying_heads.dealt_anew(values, of_model, 50)
    assert torch.equal(values, torch.arange(9.0)) and len(deals.unique(dim=0)) > 20
    for group in range(3):
        assert torch.equal(
            deals[:, of_model == group].sort(dim=1)[0].unique(dim=0)[0], values[of_model == group]
        )


def test_flags_agree_more_than_flags_that_are_dealt_to_all_heads():
    flags = torch.tensor([True, False, True, False, True, False])
    copies = torch.tensor([True, False, True, False, False, False])
    of_model = torch.tensor([0, 0, 1, 1, 1, 1])
    agree, by_lot = copying_heads.agreement(flags, copies, of_model, 2000)
    assert agree.tolist() == [1.0, 0.75]
    # half of the flags are set: a head gets a right one half the time, in every model
    assert by_lot == pytest.approx([0.5, 0.5], abs=0.03)
    uneven = torch.tensor([True] * 5 + [False])  # dealt to all: model 1 can lose its only False
    agree, by_lot = copying_heads.agreement(uneven, uneven, of_model, 2000)
    assert agree.tolist() == [1, 1]
    assert by_lot == pytest.approx([5 / 6, (3 * 5 / 6 + 1 / 6) / 4], abs=0.03)
    with pytest.raises(ValueError, match="one deal"):
        copying_heads.agreement(flags, copies, of_model, 0)


def test_the_evaluator_and_the_eigenvalues_turn_over_with_the_sign_of_a_head(model):
    tokens = repeated_tokens(98, 25, 4, bos=model.tokenizer.bos)
    keep_out = tuple(each for each in PARTS if each != "evaluator")
    whole = battery(model, tokens, leave_out=keep_out)["copying evaluator"]
    turned = copy.deepcopy(model)
    turned.blocks[0].attn.W_O[3] *= -1
    after = battery(turned, tokens, leave_out=keep_out)["copying evaluator"]
    assert whole[0, 3] > whole[0, 1] and after[0, 3] < whole[0, 3] - 0.3
    assert after[0, 1] == pytest.approx(whole[0, 1])  # the other heads' own output is as it was
    scores = [copying_score(full_ov(m, Head(0, 3)).centered_columns()) for m in (model, turned)]
    assert scores[0] == pytest.approx(-scores[1], abs=1e-4)
