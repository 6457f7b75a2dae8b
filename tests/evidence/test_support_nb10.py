"""Evidence of notebook 10: texts with two places, and a hand-set head that prefers neither."""

import pytest
import torch

from aot_helpers.models.handmade import induction_model
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
