"""Notebook 13: the network that it writes out, its figures and its exercises."""

import ast
import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from chapters.nb13_torus_network import exercises, figures
from chapters.torus import networks as torus
from chapters.torus.figures import predictor
from chapters.torus.runs import list_runs, load_run
from evidence.support import nb13 as support
from figure_checks import check_figures

NETS = load_run("heads3-dim3").nets
NET, FACTS = NETS[0], list_runs()["heads3-dim3"].targets()[0]
THETA, PREDICT = torus.angles(NET)[0], predictor(NET)


@pytest.fixture(scope="module")
def tour():
    """What the tour's cells define: its network, its circle, its counts of changes."""
    (path,) = (Path(exercises.__file__).parents[2]).glob("13_*.ipynb")
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    functions = [node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)]
    u, v = torus.PLANE.float()
    names = {"torch": torch, "F": F, "math": math, "product": product, "u": u, "v": v}
    exec(compile(ast.Module(functions, []), str(path), "exec"), names)
    names["attention_weight"] = exercises.attention_weight  # the cell leaves it blank
    names["W"] = {name: each[0] for name, each in NET.tensors().items()}
    return names


def test_the_network_of_the_tour_is_the_shared_one(tour):
    ours = torch.vmap(tour["logits_of"])(NETS.tensors()).flatten(1, 2)
    theirs = torus.logits(NETS, *torus.pairs(NETS))
    assert torch.allclose(ours, theirs, rtol=1e-3, atol=0.02)  # they reach 100
    first, second = torch.rand(2, 50, generator=torch.Generator().manual_seed(0)) * 2 * math.pi
    ours = tour["answer"](first, second)
    assert torch.allclose(ours, PREDICT(first, second), atol=1e-3)


def test_the_changes_of_the_tour_are_those_of_the_evidence(tour):
    W, vary = tour["W"], tour["around"](40)
    words = torus.words(NET)[0]
    hold = words[0], words[1]
    found = [
        tour["changes_per_turn"](tour["mixed"](W, *way)) for way in ((vary, hold), (hold, vary))
    ]
    _, pattern, values = support.winding(NET, pairs=[1]).flatten()
    assert torch.allclose(torch.stack(found), torch.stack([pattern, values]), atol=0.05)


# ---- figures ----


def test_figures_can_be_read():
    classes = torch.arange(16).view(4, 4) % 5
    check_figures(
        figures.moved_and_ablated(NET, FACTS, 3, [0, 9], 1, [1, 0], "a"),
        figures.class_map(PREDICT, THETA, FACTS, "a", (1, 1)),
        figures.growing({0: NET, 1: NET}, np.eye(2), FACTS, "a", np.eye(2)),
        figures.held_maps({"a": classes, "b": classes}, THETA, title="title"),
        figures.drawn_whole(NET, title="title"),
        figures.onto_circle(NET.W_E[0], THETA, titles=("left", "right")),
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
