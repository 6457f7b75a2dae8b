"""Evidence of notebook 14: shares moved elsewhere, vectors as colors, and maps of numbers."""

import numpy as np
import pytest
import torch

from chapters.torus import networks as torus
from chapters.torus.networks import init_nets
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
    points = torch.rand(6, 6, 3)
    check_figures(
        support.attention_maps(torch.rand(2, 1, 8, 8) - 0.5, ["a", "b"], dots=([0.1], [3.0])),
        support.surface(points, "a", dots=(points[0], [0, 1, 2, 3, 4, 0])),
    )


@pytest.mark.parametrize("d_head", [1, 2, 3, 5])
def test_the_polynomial_of_the_weights_is_the_score(d_head):
    nets = init_nets([0, 1], 5, 2, d_head).double()
    theta1, theta2 = torus.grid(8)
    scores = torus.attend(nets, *torus.on_grid(8)).scores.view(2, 2, 8, 8)
    found = support.coefficients(nets)
    assert (support.polynomial(found, theta1, theta2) - scores).abs().max() < 1e-9
    # Eleven harmonics are independent, so that no other coefficients give the same scores.
    values = torch.stack([f(theta1, theta2).flatten() for f in support.HARMONICS.values()])
    fitted = torch.linalg.lstsq(values.T, scores.reshape(4, -1).T).solution.T
    assert torch.allclose(fitted, found.reshape(4, 11), atol=1e-9)


def test_crossings_are_counted_around_the_line():
    turn = torch.arange(60) * 2 * torch.pi / 60 + 0.01
    for waves in (1, 2, 5):
        assert support.crossings((waves * turn).sin()) == 2 * waves
    assert support.crossings(torch.ones(2, 9)).tolist() == [0, 0]


# ---- a rule for heads ----

RULE = torch.eye(5).bool()
RULE[0] = True  # A, and the word itself
NETS = init_nets([0, 1]).double()


def test_scores_of_pairs_are_those_of_the_networks():
    theirs = torus.attend(NETS, *torus.pairs(NETS)).scores.unflatten(-1, (5, 5))
    ours = support.pair_scores(torus.words(NETS), NETS.W_pos, NETS.qk())
    assert torch.allclose(ours, theirs)


@pytest.mark.parametrize(("scores", "right"), [(RULE, 25), (~RULE, 0), (torch.eye(5).bool(), 21)])
def test_pairs_are_right_where_the_rule_is_followed(scores, right):
    scores = torch.where(scores, 9.0, -9.0)[None, None]
    assert support.pairs_by_rule(scores, RULE).tolist() == [right]
    never = torch.full_like(scores, -9.0)
    assert support.pairs_by_rule(torch.cat([never, scores], dim=1), RULE).tolist() == [right]


def test_training_approaches_a_rule_that_one_line_can_follow():
    first_is_a = torch.arange(5)[:, None].expand(5, 5) == 0
    words = torus.words(NETS)
    for apart in (False, True):
        scores = support.heads_for_rule(first_is_a, words, 1, seed=0, apart=apart, steps=300)
        assert scores.shape == (2, 1, 5, 5)
        assert support.pairs_by_rule(scores, first_is_a).max() == 25
    assert torch.equal(words, torus.words(NETS))


def test_full_turns_are_counted_with_their_sense():
    turn = torch.arange(100) * 2 * np.pi / 100
    circle = torch.stack([turn.cos(), turn.sin()], dim=-1)
    aside = circle + torch.tensor([2.0, 0])
    flips = (turn.cos() + 0.5)[:, None] * torch.tensor([1.0, 2.0])  # along one line, both ways
    found = support.full_turns(torch.stack([circle, circle.flip(0), aside, flips]))
    assert found.tolist() == [1, -1, 0, 0]
