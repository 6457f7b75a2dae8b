"""Notebook 14: scores as lines; its figures, its live view and exercises."""

import json
import math
import shutil
import subprocess

import pytest
import torch

from chapters.nb14_attention_polynomial import exercises, figures, view
from chapters.torus import networks as torus
from chapters.torus.networks import init_nets
from chapters.torus.runs import load_run
from figure_checks import check_figures

NETS = init_nets([0, 1]).double()
TURN = torch.arange(50, dtype=torch.float64) * 2 * math.pi / 50
THETA, HEADS, P = torus.angles(NETS)[0], NETS.qk()[0], NETS.W_pos[0]


@pytest.mark.parametrize("head", [0, 1, 2])
def test_the_line_of_a_second_word_gives_the_scores_of_its_row(head):
    found = figures.lines(HEADS[head], P, TURN)
    row = found @ torch.stack([TURN.cos(), TURN.sin(), torch.ones_like(TURN)])  # [second, first]
    first, second = (
        torus.circle(t.flatten())[None] for t in torch.meshgrid(TURN, TURN, indexing="xy")
    )
    assert torch.allclose(row.flatten(), torus.attend(NETS[0], first, second).scores[0, head])
    plane = torus.circle(torch.tensor([0, math.pi / 2], dtype=torch.float64)).T
    written = [exercises.line_of(x + P[1], HEADS[head], plane, P[0]) for x in torus.circle(TURN)]
    assert torch.allclose(torch.stack(written), found)


@pytest.mark.parametrize("line", [(3.0, 4.0, 2.5), (-1.0, 2.0, 0.0), (1.0, 0.0, 2.0)])
def test_a_line_cuts_the_circle_where_the_score_is_zero(line):
    g0, g1, h = line
    found = figures.cuts(g0, g1, h)
    assert len(found) == 2 * (abs(h) < math.hypot(g0, g1))
    for angle in found:
        assert 0 <= angle < 2 * math.pi
        assert g0 * math.cos(angle) + g1 * math.sin(angle) + h == pytest.approx(0, abs=1e-9)


def test_the_lines_of_a_head_with_one_number_are_parallel():
    thin = init_nets([0, 1], n_heads=2, d_head=1).double()
    found = figures.lines(thin.qk()[1, 0], thin.W_pos[1], TURN)
    along = (thin.W_K[1, 0, :, 0] @ torus.PLANE.T).flip(0) * torch.tensor([1.0, -1.0])
    assert (found[:, :2] @ along).abs().max() < 1e-9 < found[:, :2].norm(dim=1).max()


# ---- figures and the live view ----


def test_the_live_view_draws_the_same_lines():
    still = figures.tried(THETA, {"a": [1, 0, 0]}, "b")
    data = view.SweepView(HEADS[0], P, THETA, 1.0, still).data
    if shutil.which("node") is None:
        pytest.skip("no node on this machine to run the script; `make browser` runs it, too")
    script = (view.Path(view.__file__).with_name("sweep.js")).read_text("utf-8")
    body = script[script.index("  const dot") : script.index("  const make")]
    program = f"const data = {json.dumps(data)}; {body} console.log(JSON.stringify(line(0.7)));"
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    expected = figures.lines(HEADS[0], P, torch.tensor([0.7]).double())[0]
    assert json.loads(done.stdout) == pytest.approx(expected.tolist(), abs=1e-3)


def test_figures_can_be_read():
    right = torch.tensor([19, 23, 23, 25, *[24] * 46])
    check_figures(
        figures.rows_and_lines(HEADS[0], P, THETA, "a"),
        figures.sweeping(HEADS[0], P, THETA, [0.0, 1.0, 2.0], "a"),
        figures.tried(THETA, {"a": [-0.6, 0.8, -0.4], "b": [0.87, -0.5, 0.7]}, "c"),
        figures.each_word({"a": (HEADS[0], P), "b": (HEADS[1], P)}, THETA, "d"),
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
    ("14.1", line, "solved"),
    ("14.1", lambda *given: (line(*given)[:2], line(*given)[2]), "not yet"),
    ("14.1", lambda *given: line(*given)[:2], "not yet"),
    ("14.1", lambda x2, W, E, p1: line(x2, W.T, E, p1), "not yet"),
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
    ("14.4", lambda two, A: [[2 * n for n in each] for each in cut_off(two, A)], "solved"),
    ("14.4", lambda two, A: cut_off(A, A), "not yet"),
    ("14.4", lambda two, A: cut_off(two, A, h=0.0), "not yet"),
    ("14.4", lambda two, A: cut_off(two, A, h=-1.1), "not yet"),
]
