"""Notebook 14: scores as lines, waves and products; its figures and exercises."""

import json
import math

import pytest
import torch

from chapters.nb14_attention_polynomial import exercises, figures, lines
from chapters.nb14_attention_polynomial.view import SweepView
from chapters.torus import networks as torus
from chapters.torus import surfaces, winding
from chapters.torus.networks import new_nets
from chapters.torus.training import load_run
from figure_checks import check_figures

NETS = new_nets([0, 1]).double()
TURN = torch.arange(50, dtype=torch.float64) * 2 * math.pi / 50


@pytest.mark.parametrize("head", [0, 1, 2])
def test_the_line_of_a_second_word_gives_the_scores_of_its_row(head):
    found = torus.coefficients(NETS)[0, head]
    g0, g1, h = lines.lines(found, TURN[:, None]).unbind(dim=-1)
    row = g0 * TURN.cos() + g1 * TURN.sin() + h
    assert torch.allclose(row, torus.polynomial(found, TURN, TURN[:, None]))


@pytest.mark.parametrize("line", [(3.0, 4.0, 2.5), (-1.0, 2.0, 0.0), (1.0, 0.0, 2.0)])
def test_a_line_cuts_the_circle_where_the_score_is_zero(line):
    g0, g1, h = line
    found = lines.cuts(g0, g1, h)
    assert len(found) == 2 * (abs(h) < math.hypot(g0, g1))
    for angle in found:
        assert 0 <= angle < 2 * math.pi
        assert g0 * math.cos(angle) + g1 * math.sin(angle) + h == pytest.approx(0, abs=1e-9)


def test_the_lines_of_a_head_with_one_number_are_parallel():
    thin = new_nets([0, 1], n_heads=2, d_head=1).double()
    found = lines.lines(torus.coefficients(thin)[1, 0], TURN)
    along = (thin.W_K[1, 0, :, 0] @ torus.PLANE.T).flip(0) * torch.tensor([1.0, -1.0])
    assert (found[:, :2] @ along).abs().max() < 1e-9 < found[:, :2].norm(dim=1).max()


def test_given_shares_are_carried():
    pairs = torus.pairs(NETS)
    shares = torus.attend(NETS, *pairs).a1
    said = winding.carry_with(NETS, shares, pairs)
    assert torch.allclose(said, torus.logits(NETS, *pairs))
    hard = winding.carry_with(NETS, (shares > 0.5).float(), pairs)
    assert torch.allclose(hard, torus.logits(NETS, *pairs, hard=True))


def test_the_reader_s_pages_agree_with_the_weights():
    theta1, theta2 = torus.grid(12)
    waves = torch.stack([wave(theta1, theta2).flatten() for wave in torus.HARMONICS.values()])
    scores = torus.attend(NETS, *torus.on_grid(12)).scores
    found = scores @ waves.T / (waves * waves).sum(dim=1)  # the waves are orthogonal
    assert torch.allclose(found, torus.coefficients(NETS))
    E = torus.circle(torch.tensor([0, math.pi / 2]).double()).T
    at, (p1, p2) = torus.circle(TURN), NETS.W_pos[0]
    drawn = torch.stack([exercises.line_of(x + p2, NETS.qk()[0, 1], E, p1) for x in at])
    assert torch.allclose(drawn, lines.lines(torus.coefficients(NETS)[0, 1], TURN))


def test_a_thickened_ring_is_closed_and_as_thick_as_said():
    ring = torch.stack([TURN.cos(), TURN.sin(), 0 * TURN], dim=-1)
    ring = torch.cat([ring, ring[:1]])
    tube = torch.from_numpy(surfaces.thickened(ring.numpy(), 0.1))
    assert torch.allclose(tube[0], tube[-1])
    assert torch.allclose((tube - ring[:, None]).norm(dim=-1), torch.tensor(0.1).double())


# ---- figures and the live view ----

THETA, HEAD = torus.angles(NETS)[0], torus.coefficients(NETS)[0, 0]


def test_a_swept_head_is_sent_with_its_coefficients():
    data = SweepView(HEAD, THETA, 1.0, figures.tried(THETA, {"a": [1, 0, 0]}, "b")).data
    json.dumps(data)
    assert data["coefficients"] == pytest.approx(HEAD.tolist(), abs=1e-5)


def test_figures_can_be_read():
    right = torch.tensor([19, 23, 23, 25, *[24] * 46])
    check_figures(
        figures.rows_and_lines(HEAD, THETA, "a"),
        figures.sweeping(HEAD, THETA, [0.0, 1.0, 2.0], "a"),
        figures.tried(THETA, {"a": [-0.6, 0.8, -0.4], "b": [0.87, -0.5, 0.7]}, "c"),
        figures.each_word(
            {"a": lines.lines(HEAD, THETA), "b": lines.lines(HEAD, THETA)}, THETA, "d"
        ),
        figures.reached({"a": right, "b": right}, 23, "e", control="b"),
    )


# ---- exercises ----


def line(x2, W, E, p1):
    """The line by differences of the score, which is linear in the plane of the circle."""
    score = [x2 @ W @ (E @ at + p1 - x2) for at in (torch.zeros(2), *torch.eye(2))]
    return torch.stack([score[1] - score[0], score[2] - score[0], score[0]])


def cut_off(*angles, h=-0.95):
    """A line for each angle, with its arrow there."""
    return [[math.cos(angle), math.sin(angle), h] for angle in angles]


RULED = {"BE": [-0.6, 0.8, -0.4], "ACD": [0.6, -0.8, 0.4], "BC": None, "AE": None}
SETS = {"any line": 22, "lines of one direction": 10}
GIVEN = {"14.2": lambda: {"theta": torus.angles(load_run("heads3-dim3").nets[0])[0]}}
ANSWERS = [
    ("14.1", exercises.line_of, "solved"),
    ("14.1", line, "solved"),
    ("14.1", lambda *given: (line(*given)[:2], line(*given)[2]), "not yet"),
    ("14.1", lambda *given: line(*given)[:2], "not yet"),
    ("14.1", lambda x2, W, E, p1: line(x2, W.T, E, p1), "not yet"),
    ("14.1", lambda *given: None, "not attempted"),
    ("14.2", RULED, "solved"),
    ("14.2", RULED | {"BE": [0.6, -0.8, 0.4]}, "not yet"),
    ("14.2", RULED | {"BE": None}, "not yet"),
    ("14.2", RULED | {"BC": [0.0, 1.0, 0.0]}, "not yet"),
    ("14.2", RULED | {"AE": ...}, "not yet"),
    ("14.2", dict.fromkeys(RULED, ...), "not attempted"),
    ("14.3", SETS, "solved"),
    ("14.3", SETS | {"any line": 20}, "not yet"),
    ("14.3", SETS | {"lines of one direction": 6}, "not yet"),
    ("14.3", SETS | {"any line": ...}, "not attempted"),
    ("14.4", exercises.two_lines, "solved"),
    ("14.4", lambda two, A: [[2 * n for n in each] for each in cut_off(two, A)], "solved"),
    ("14.4", lambda two, A: cut_off(A, A), "not yet"),
    ("14.4", lambda two, A: cut_off(two, A, h=0.0), "not yet"),
    ("14.4", lambda two, A: cut_off(two, A, h=-1.1), "not yet"),
    ("14.4", lambda two, A: ..., "not attempted"),
]
