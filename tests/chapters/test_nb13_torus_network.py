"""Notebook 13: changes per turn, random heads; its figures, its exercises."""

import math

import numpy as np
import pytest
import torch

from chapters.nb13_torus_network import diagrams, exercises, figures, strips
from chapters.torus import networks as torus
from chapters.torus import winding as torus_winding
from chapters.torus.palette import CLASS_COLORS, predictor
from chapters.torus.training import list_runs, load_run
from chapters.torus.winding import changes
from figure_checks import check_figures

NETS = torus.new_nets([0, 1])


def test_changes_are_counted_once_around():
    stripes = (torch.arange(20) // 4).expand(1, 20, 20)
    assert changes(stripes).tolist() == [2.5]  # 5 along each row, none along a column


@pytest.mark.parametrize(
    ("kind", "product"),
    [
        ("large random QK", lambda nets: nets.W_Q @ nets.W_K.mT),
        ("large random QK and OV", lambda nets: nets.W_V @ nets.W_O),
        ("random heads, rest trained", lambda nets: nets.W_V @ nets.W_O),
    ],
)
def test_random_heads_are_as_large_as_trained_ones(kind, product):
    trained = torus.TorusNets(**{name: 3 * W for name, W in NETS.tensors().items()})
    found = torus_winding.random_nets(trained)[kind]
    assert torch.allclose(product(found).norm(dim=(2, 3)), product(trained).norm(dim=(2, 3)))
    assert torch.equal(found.W_U, trained.W_U) == (kind == "random heads, rest trained")


# ---- figures ----

NET, FACTS = load_run("heads3-dim3").nets[0], list_runs()["heads3-dim3"].targets()[0]
THETA, PREDICT = torus.angles(NET)[0], predictor(NET)


def test_flat_maps_have_the_colors_of_the_answers():
    def predict(theta1, theta2):
        east = torch.broadcast_tensors(theta1 < torch.pi, theta2)[0]
        return torch.stack([east, ~east], dim=-1).float()

    colors = strips.flat(predict, cells=4)
    expected = (255 * CLASS_COLORS[:2]).round()
    assert colors.dtype == np.uint8
    assert np.array_equal(colors, np.broadcast_to(expected[[0, 0, 1, 1]], (4, 4, 3)))


def test_figures_can_be_read():
    classes = torch.arange(16).view(4, 4) % 5
    check_figures(
        strips.moved_and_ablated(NET, FACTS, 3, [0, 9], 1, [1, 0], "a"),
        figures.class_map(PREDICT, THETA, FACTS, "a", (1, 1)),
        figures.growing({0: NET, 1: NET}, np.eye(2), FACTS, "a"),
        figures.growing({0: NET, 1: NET}, np.eye(2), FACTS, "a", np.eye(2)),
        figures.held_maps({"a": classes, "b": classes}, THETA, title="title"),
        diagrams.drawn_whole(NET, title="title"),
        diagrams.onto_circle(NET.W_E[0], THETA, titles=("left", "right")),
    )


# ---- exercises ----


def weight(x1, x2, W_Q, W_K, root=None):
    """By a softmax over two keys."""
    q, root = x2 @ W_Q, root or math.sqrt(W_Q.shape[1])
    scores = torch.broadcast_tensors(*((q * (x @ W_K)).sum(dim=-1) / root for x in (x1, x2)))
    return torch.stack(scores).softmax(dim=0)[0]


CROSS = [["A", "B"], ["B", "A"]]
STAYS = dict.fromkeys(exercises.MOVES, False) | {"W_Q doubled": True, "W_V doubled": True}
GIVEN = {"13.3": lambda: {"net": NET}}
ANSWERS = [
    ("13.1", weight, "solved"),
    ("13.1", lambda *given: 1 - weight(*given), "That is the weight on the second"),
    ("13.1", lambda *given: weight(*given, root=1), "Divide the score by √d_head"),
    ("13.1", lambda *given: weight(*given).logit(), "That is the score"),
    ("13.1", lambda x1, x2, Q, K: weight(x1, x2, K, Q), "W_Q belongs to the query"),
    ("13.1", lambda x1, x2, Q, K: 1 - weight(x2, x1, Q, K), "The second position"),
    ("13.2", CROSS, "solved"),
    ("13.2", [["E", "C"], ["C", "E"]], "solved"),
    ("13.2", [["A", "B"], ["A", "B"]], "Two equal next words"),
    ("13.2", [["A", "A"], ["A", "A"]], "Two equal next words"),
    ("13.2", [["A", "B"], ["C", "A"]], "Sums can give"),
    ("13.2", "ABBA", "Two rows"),
    ("13.2", [1, 2], "Two rows of two letters"),
    ("13.2", ..., "not attempted"),
    ("13.3", STAYS, "solved"),
    ("13.3", STAYS | {"W_E doubled": True}, "W_E doubled: layer norm"),
    ("13.3", STAYS | {"W_Q doubled": False}, "W_Q doubled: the scores double"),
    ("13.3", STAYS | {"W_V doubled": ...}, "Five answers"),
    ("13.3", dict.fromkeys(STAYS, ...), "not attempted"),
]
