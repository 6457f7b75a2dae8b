"""Evidence of notebook 14: shares moved elsewhere, vectors as colors, and maps of numbers."""

import numpy as np
import pytest
import torch

from evidence.support import nb14 as support
from figure_checks import check_figures


def test_shares_elsewhere_move_as_far_and_as_many():
    shares = torch.rand(4, 3, 25, generator=torch.Generator().manual_seed(1)).double()
    here = (shares > 0.3) & (shares < 0.6)
    moved = shares.where(~here, shares.round())
    found = support.moved_elsewhere(shares, moved)
    there, elsewhere = (each - shares for each in (moved, found))
    assert (elsewhere[here] == 0).all() and found.min() >= 0 and found.max() <= 1
    asked, done = (each.abs().flatten(1).sort().values for each in (there, elsewhere))
    assert torch.allclose(asked, done)
    assert (elsewhere[shares < 0.5] >= 0).all() and (elsewhere[shares > 0.5] <= 0).all()
    assert not torch.equal(found, support.moved_elsewhere(shares, moved, seed=1))
    assert torch.equal(support.moved_elsewhere(shares, shares), shares)


@pytest.mark.parametrize("moved", [0.4 * torch.ones(1, 3, 25), torch.eye(25)[None, :3]])
def test_moves_without_room_elsewhere_are_refused(moved):
    with pytest.raises(ValueError, match="choose fewer places"):
        support.moved_elsewhere(torch.full((1, 3, 25), 0.2) * (1 - torch.eye(25)[:3]), moved)


TURN = np.arange(12) * 2 * np.pi / 12
WAVE = np.cos(TURN)[None, :] + np.sin(TURN)[:, None]


def test_angle_colors_have_no_seam():
    colors = support.angle_colors(60)
    assert colors.min() >= 0 and colors.max() <= 1
    for axis in (0, 1):
        steps = np.abs(np.diff(colors, axis=axis, append=colors.take([0], axis=axis)))
        assert steps.max() < 0.06


def test_vectors_as_colors_add_up_and_end_at_their_reach():
    one, two = np.array([0.5, -0.25, 0.0]), np.array([0.25, -0.5, 1.0])
    sums = support.offset_colors(one + two, 1) - 0.5
    parts = [support.offset_colors(each, 1) - 0.5 for each in (one, two)]
    assert np.allclose(sums, sum(parts))
    with pytest.raises(ValueError, match="an entry is 1: make reach"):
        support.offset_colors(two, 0.9)


def test_figures_can_be_read():
    dots, zeros = ([0.1, 3.0], [2.0, 6.2], [0, 1]), [[WAVE], [WAVE, WAVE - 1]]
    drawn = support.number_maps([WAVE, 2 * WAVE], ["a", "b"], "score", zeros=zeros, dots=dots)
    check_figures(drawn)
