"""Notebook 13: changes per turn, random heads; its figures, its exercises."""

import math

import numpy as np
import pytest
import torch

from answers import graded
from chapters.nb13_torus_network import diagrams, figures, strips
from chapters.torus import networks as torus
from chapters.torus import palette as torus_colors
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


@pytest.mark.parametrize("turns", [2, -3, 0])
def test_the_favorite_words_are_one_line_from_edge_to_edge(turns):
    drawn = figures.attention(NET, PREDICT, lambda theta2, Q, K: turns * theta2 + 1, "title")
    copies = [line.get_xdata() for line in drawn.axes[0].lines]
    inside = sum((each >= 0) & (each < torus_colors.TURN) for each in copies)
    assert (inside == 1).all()  # every second word has one favorite in the picture


def test_figures_can_be_read():
    classes = torch.arange(16).view(4, 4) % 5
    check_figures(
        strips.moved_and_ablated(NET, FACTS, 3, [0, 9], 1, [1, 0], "a"),
        figures.class_map(PREDICT, THETA, FACTS, "a", (1, 1)),
        figures.growing({0: NET, 1: NET}, np.eye(2), FACTS, "a"),
        figures.growing({0: NET, 1: NET}, np.eye(2), FACTS, "a", np.eye(2)),
        figures.attention(NET, PREDICT, lambda theta2, Q, K: 2 * theta2, "title"),
        figures.held_maps({"a": classes, "b": classes}, 0, THETA, title="title"),
        diagrams.drawn_whole(NET, title="title"),
        diagrams.onto_circle(NET.W_E[0], THETA, titles=("left", "right")),
    )


# ---- exercises ----


def wanted(theta2, Q, K, position=NET.W_pos[0, 1]):
    return (torus.circle(theta2) + position) @ Q @ K.T @ torus.PLANE.T.float()


def favorite(*given, **where):
    across, up = wanted(*given, **where).unbind(-1)
    return torch.atan2(up, across)


def searched(theta2, Q, K, n=20_000):
    angles = torch.arange(n) * 2 * math.pi / n
    scores = (torus.circle(theta2) + NET.W_pos[0, 1]) @ Q @ (torus.circle(angles) @ K).T
    return angles[scores.argmax(dim=-1)]


def weight(x1, x2, W_Q, W_K, root=None):
    """By a softmax over two keys."""
    q, root = x2 @ W_Q, root or math.sqrt(W_Q.shape[1])
    scores = torch.broadcast_tensors(*((q * (x @ W_K)).sum(dim=-1) / root for x in (x1, x2)))
    return torch.stack(scores).softmax(dim=0)[0]


CROSS = [["A", "B"], ["B", "A"]]
GIVEN = {"13.3": {"net": NET}}
ANSWERS = [
    ("13.1", [weight], "solved"),
    ("13.1", [lambda *given: 1 - weight(*given)], "not yet. That is the weight on the second"),
    ("13.1", [lambda *given: weight(*given, root=1)], "not yet. Divide the score by √d_head"),
    ("13.1", [lambda *given: weight(*given).logit()], "not yet. That is the score"),
    ("13.1", [lambda x1, x2, Q, K: weight(x1, x2, K, Q)], "not yet. W_Q belongs to the query"),
    ("13.1", [lambda x1, x2, Q, K: 1 - weight(x2, x1, Q, K)], "not yet. The second position"),
    ("13.2", [CROSS], "solved"),
    ("13.2", [[["E", "C"], ["C", "E"]]], "solved"),
    ("13.2", [[["A", "B"], ["A", "B"]]], "not yet. Two equal next words"),
    ("13.2", [[["A", "A"], ["A", "A"]]], "not yet. Two equal next words"),
    ("13.2", [[["A", "B"], ["C", "A"]]], "not yet. Sums can give"),
    ("13.2", ["ABBA"], "not yet. Two rows"),
    ("13.2", [...], "not attempted"),
    ("13.3", [favorite], "solved"),
    ("13.3", [lambda *given: favorite(*given) + 2 * math.pi], "solved"),
    ("13.3", [lambda *given: favorite(*given) + math.pi], "not yet. There the head attends"),
    ("13.3", [lambda *given: favorite(*given).rad2deg()], "not yet. These are degrees"),
    ("13.3", [searched], "not yet. Close"),
    ("13.3", [lambda *given: favorite(*given, position=0)], "not yet. Does the second place"),
    ("13.3", [lambda *given: favorite(*given, position=NET.W_pos[0, 0])], "not yet. The second"),
    ("13.3", [lambda theta2, Q, K: favorite(theta2, Q, K.T)], "not yet. `x1 @ K` is what"),
    ("13.3", [lambda theta2, Q, K: favorite(theta2, K, Q)], "not yet. The second word asks"),
    ("13.3", [lambda *given: torch.atan2(*wanted(*given).unbind(-1))], "not yet. `torch.atan2`"),
    ("13.3", [lambda *given: 0.5], "not yet. The angles: a torch tensor is wanted"),
    ("13.3", [lambda *given: None], "not attempted"),
    ("13.4", [[[0, 0, 0], [-1, 2, 0], [-1, -2, 0]]], "solved"),
    ("13.4", [[[0, 0, 0], [-1, 0, 2.0], [-1, 0, -2]]], "solved"),
    ("13.4", [[[0, 1, 0], [0, -1, 0], [0, 0, 1]]], "not yet. The winner changes 3 times; one"),
    (
        "13.4",
        [[[1, 0, 0], [0, 2, 0], [-5, 1, 1]]],
        "not yet. The winner changes 2 times, and row 2",
    ),
    ("13.4", [[[1, 0], [0, 1]]], "not yet. Three rows of three"),
    ("13.4", ["waves"], "not yet. Three rows of three"),
    ("13.4", [...], "not attempted"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged_and_a_slip_named(number, answer, expected):
    assert graded(number, *answer, **GIVEN.get(number, {})).startswith(expected)


def test_a_page_is_the_readers_once_it_is_right(check_page):
    check_page("13.1")
