"""Notebook 13: the network that it writes out, its figures and its exercises."""

import ast
import base64
import dataclasses
import json
import math
import shutil
import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from chapters.nb13_torus_network import exercises, figures, figures_in_space, views
from chapters.nb13_torus_network.journey import STAGES, Journey
from chapters.torus import networks as torus
from chapters.torus.figures import predictor
from chapters.torus.networks import TorusNets
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
        figures_in_space.gluing(PREDICT, title="title"),
        figures_in_space.torus_in_space(PREDICT, THETA, FACTS, "a", [(1, 1)]),
        figures_in_space.globe(NET.W_U[0], torus.words(NET)[0], FACTS[:5], "a"),
    )


def test_a_scene_shows_the_nearest_sheet_in_its_colors():
    view = figures_in_space.camera(90, -90)  # from above: x to the right, y up
    assert np.allclose(view, np.eye(3))
    across, up = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 3))
    sheet, red = np.stack([across, up, 0 * up], -1), np.array([1.0, 0, 0])
    colors = np.where(np.arange(4)[:, None, None] < 2, red, red[::-1])  # the first rows are red
    scene = figures_in_space.Scene(view, 20, 20, reach=2)
    scene.sheet(sheet, np.broadcast_to(colors, (4, 4, 3)))
    assert np.isfinite(scene.depth).sum() == 20 * 20
    picture = scene.picture()
    assert (
        picture[0, 0].min() == 1 and picture[13, 10].argmax() == 0 and picture[6, 10].argmax() == 2
    )
    assert not scene.pearl([0, 0, -1], red, 0.3) and scene.pearl([0, 0, 1], red, 0.3)
    scene.sheet(sheet + [0, 0, 0.5], np.full((4, 4, 3), 0.5))
    assert scene.depth[20, 12] == pytest.approx(0.5)


def test_a_folded_map_is_closed_in_the_end():
    theta1, theta2 = figures_in_space.angles_around(9, 9)
    closed = figures_in_space.folded(theta1, theta2, 1, 1)
    assert np.allclose(closed[0], closed[-1]) and np.allclose(closed[:, 0], closed[:, -1])
    x, y, z = np.moveaxis(figures_in_space.ring(theta1, theta2), -1, 0)
    assert np.allclose((np.hypot(x, y) - 1) ** 2 + z**2, figures_in_space.TUBE**2)
    assert np.allclose(np.sort(closed[..., 2], axis=None), np.sort(z, axis=None))


@pytest.fixture(scope="module")
def journey():
    return Journey(NET, FACTS, n=12)


def test_the_journey_begins_flat_and_ends_on_the_cells_of_the_unembedding(journey):
    mesh, pearls = journey.shape(0)
    assert np.abs(mesh[..., 2]).max() < 0.01 and np.ptp(mesh[..., 0]) == pytest.approx(
        np.ptp(mesh[..., 1]), rel=0.01
    )
    # as on every map, the first word runs to the right and the second up
    view = figures_in_space.camera(*STAGES[0])
    for axis, along in ((0, mesh @ view[0]), (1, mesh @ view[1])):
        steps = np.diff(along, axis=1 - axis)
        assert (steps > 0).all() and np.abs(np.diff(along, axis=axis)).max() < 0.02 * steps.min()
    heads = torus.attend(NET.double(), *torus.on_grid(12))
    stream = (heads.out.sum(dim=1) + heads.residual)[0].view(12, 12, 3).numpy() @ journey.turned.T
    assert np.abs(journey.place(3, *journey.grid, journey.heads)[:-1, :-1] - stream).max() < 1e-6
    mesh, pearls = journey.shape(5)
    assert np.allclose(np.linalg.norm(mesh, axis=-1), 1)
    assert (pearls @ journey.cells().T).argmax(-1).tolist() == FACTS.tolist()
    (picture, long), *_ = journey.film(side=40, frames=60)
    assert picture.shape == (40, 40, 3) and long == 800


# ---- the live page ----

CHAPTERS = Path(torus.__file__).parent.parent
SCRIPT = Path(views.__file__).with_name("torus.js").read_text(encoding="utf-8")
ASK = """
const [data, questions] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const network = SCRIPT(null, data);
process.stdout.write(JSON.stringify(questions.map(([angles, outputs, scores]) => {
  outputs.forEach((s, h) => { network.outputs[h] = s; });
  scores.forEach((s, h) => { network.scores[h] = s; });
  return network.answer(...angles); })));
"""


@pytest.fixture(scope="module")
def view():
    return views.TorusView(NET, FACTS, Figure())


def in_node(view, questions) -> list[dict]:
    """The script's answers to [angles, factors of what heads write, factors of their scores]."""
    if shutil.which("node") is None:
        pytest.skip("no node on this machine to run the script; `make browser` runs it, too")
    program = ASK.replace("SCRIPT", f"({SCRIPT[SCRIPT.index('(root') :].strip()})")
    given = json.dumps([view.data, questions])
    done = subprocess.run(["node", "-e", program], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_script_computes_the_network_of_pytorch(view):
    names = [field.name for field in dataclasses.fields(TorusNets)]
    sent = {name: torch.tensor(view.data[name], dtype=torch.float64)[None] for name in names}
    net, angles, rng = TorusNets(**sent), view.data["theta"], np.random.default_rng(0)
    questions = [[[t, s], [1, 1, 1], [1, 1, 1]] for t in angles for s in angles]
    questions += [
        [rng.uniform(0, 2 * np.pi, 2).tolist(), *rng.uniform(0, 3, (2, 3)).tolist()]
        for _ in range(75)
    ]
    answers = in_node(view, questions)
    for (asked, outputs, scores), answer in zip(questions, answers, strict=True):
        factors = torch.tensor(scores, dtype=torch.float64)[:, None, None]
        changed = dataclasses.replace(net, W_Q=net.W_Q * factors)
        places = [torus.circle(torch.tensor([[t]], dtype=torch.float64)) for t in asked]
        logits = torus.logits(changed, *places, torch.tensor(outputs, dtype=torch.float64))[0, 0]
        assert np.allclose(answer["shares"], torus.attend(changed, *places).a1.flatten(), atol=1e-6)
        assert np.allclose(answer["chances"], logits.softmax(dim=-1), atol=1e-6)
        assert answer["best"] == logits.argmax()
    assert [answer["best"] for answer in answers[:25]] == FACTS.tolist()


def test_a_page_holds_its_script_its_data_and_a_picture_and_loads_nothing(view):
    bundle = view._repr_mimebundle_()
    page, picture = bundle["text/html"], bundle["image/png"]
    assert base64.b64decode(picture) == view.picture()
    assert picture in page and json.dumps(view.data) in page
    for path in (*CHAPTERS.glob("nb13*/*.js"), *CHAPTERS.glob("nb14*/*.js")):
        script = path.read_text(encoding="utf-8").lower()
        assert not any(w in script for w in ("http", "//cdn", "import ", "fetch(", "url("))


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
