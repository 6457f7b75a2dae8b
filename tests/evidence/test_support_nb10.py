"""Evidence of notebook 10: texts with two places, and matches that are kept or taken out."""

import pytest
import torch

from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.models.handmade import induction_model
from aot_helpers.models.protocol import Head
from aot_helpers.reading.heads import induction_scores
from aot_helpers.text.batches import repeated_tokens
from chapters.nb10_induction_heads import measure
from evidence.support import nb10 as support


@pytest.fixture(scope="module")
def hand():
    return induction_model(d_vocab=30, n_ctx=64)


def test_two_places_stand_where_they_are_said_to_stand():
    torch.manual_seed(1)
    tokens, b, c = support.two_places(40, 6)
    assert (tokens[:, 0] == 0).all() and (b.sum(dim=1) == 1).all() and (c.sum(dim=1) == 1).all()
    for row, at_b, at_c in zip(tokens, b, c, strict=True):
        i, j = int(at_b.nonzero()), int(at_c.nonzero())
        assert row[i - 1] == row[j - 1] == row[-1]  # A
        assert row[i - 2] == row[-2] != row[j - 2]  # x, and y
    assert (b.int().argmax(dim=1) < c.int().argmax(dim=1)).tolist() == [True, False] * 3


def test_a_hand_set_head_does_not_prefer_either_place(hand):
    torch.manual_seed(2)
    text = support.two_places(30, 20)
    found = support.attention_to_places(hand, [0], text)[0]
    assert found[:2].tolist() == pytest.approx([0.5, 0.5], abs=0.01)


MATCHES = [("embed", "L0H3"), ("L0H3", "L0H0")]


@pytest.fixture(scope="module")
def trained():
    return load_checkpoint("stories-2l").requires_grad_(False)


def test_a_diagonal_is_that_of_the_scores_of_all_pairs(trained):
    head, note = trained.head_weights(Head(1, 0)), trained.head_weights(Head(0, 3))
    keys = trained.W_E @ note.W_V @ note.W_O @ head.W_K
    table = trained.W_E @ head.W_Q @ keys.T
    right = sum(int(row.argmax()) == i for i, row in enumerate(table)) / len(table)
    assert right > 0.99
    assert support.on_diagonal(trained, Head(1, 0), *MATCHES[0]) == pytest.approx(right)
    assert support.on_diagonal(trained, Head(1, 0), "embed", "embed") < 0.01


def test_each_test_takes_out_what_its_name_says():
    terms = [*MATCHES, ("embed", "embed"), measure.BIAS]
    gone = support.selections(terms, MATCHES)
    assert gone["both alone"] == [("embed", "embed")] and gone["all but both"] == MATCHES
    assert gone["the first alone"] == [MATCHES[1], ("embed", "embed")]
    assert gone["all but the second"] == [MATCHES[1]]


def test_the_stripe_that_is_left_is_that_of_the_model_without_these_terms(trained):
    tokens = repeated_tokens(1024, 22, 6, trained.tokenizer.bos, seed=4)
    _, cache = trained.run_with_cache(tokens)
    terms = measure.score_terms(trained, tokens, Head(1, 0))
    left = support.stripes_left(cache["L1.scores"][:, 0], terms, MATCHES)
    without = cache["L1.scores"].clone()
    without[:, 0] -= terms[MATCHES[1]]
    _, cut = trained.run_with_cache(tokens, edits={"L1.scores": lambda _: without})
    whole = float(induction_scores(trained, tokens)[1, 0])
    score = measure.induction_score(cut["L1.pattern"][:, 0])
    assert left["all but the second"] == pytest.approx(score / whole, abs=0.02)
    singles = (t for t in terms if t not in (*MATCHES, measure.BIAS))
    each = [support.stripes_left(cache["L1.scores"][:, 0], terms, [t, t]) for t in singles]
    lowest = min(found["all but the first"] for found in each)
    assert left["all but the worst other"] == pytest.approx(lowest)


def test_surnames_are_those_that_the_model_says(trained):
    groups = measure.name_sentences(trained.tokenizer, 3, seed=0)
    found = support.surnames(trained, groups, [0, 2], MATCHES)
    own, other, on_bos = torch.zeros(3).tolist()
    for tokens, at_own, at_other in groups:
        for row, a, b in zip(tokens, at_own.tolist(), at_other.tolist(), strict=True):
            logits, cache = trained.run_with_cache(row[None])
            p = logits[0, -1].softmax(dim=-1)[row[[a, b]]]
            own, other = own + p[0].item() / 6, other + p[1].item() / 6
            on_bos += cache["L1.pattern"][0, [0, 2], -1, 0].mean().item() / 6
    assert found["all 25 terms"] == pytest.approx((own, other, on_bos), abs=1e-4)
    first = found["the first alone"]
    assert first[0] == pytest.approx(first[1], rel=0.2)  # each pair comes with either at the end
