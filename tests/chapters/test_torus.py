"""The networks on a torus: logits, training, their colors, maps, surfaces and live page."""

import base64
import dataclasses
import json
import math
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure

from aot_helpers.teaching.ledger import weights_of
from chapters.torus import naming, torus_maps
from chapters.torus import networks as torus
from chapters.torus import palette as torus_colors
from chapters.torus import render as torus_render
from chapters.torus import surfaces as torus_surfaces
from chapters.torus import training as torus_training
from chapters.torus.journey import STAGES, Journey
from chapters.torus.networks import TorusNets, new_nets
from chapters.torus.surfaces import ring, turns
from chapters.torus.training import (
    TARGETS,
    TorusRun,
    boost,
    list_runs,
    load_run,
    targets,
    train_nets,
)
from chapters.torus.views import SurfaceView, TorusView
from figure_checks import check_figures

SHAPES = [(5, 3, 3), (2, 1, 1), (12, 2, 2), (7, 4, 5)]  # d_vocab, n_heads, d_head


def by_hand(nets, i, j):
    """One network's logits for the pair (i, j), written out with a softmax over two keys."""
    W = {name: tensor[0].double() for name, tensor in nets.tensors().items()}
    norm = torch.nn.LayerNorm(3, eps=0, elementwise_affine=False, dtype=torch.float64)
    x1, x2 = norm(W["W_E"][i]) + W["W_pos"][0], norm(W["W_E"][j]) + W["W_pos"][1]
    stream = x2.clone()
    for W_Q, W_K, W_V, W_O in zip(W["W_Q"], W["W_K"], W["W_V"], W["W_O"], strict=True):
        keys = torch.stack([x1 @ W_K, x2 @ W_K])
        pattern = (keys @ (x2 @ W_Q) / math.sqrt(W_Q.shape[1])).softmax(dim=0)
        stream += (pattern[0] * x1 + pattern[1] * x2) @ W_V @ W_O
    return stream @ W["W_U"]


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_those_of_attention_written_out(shape):
    nets = new_nets([3], *shape).double()
    got = torus.logits(nets, *torus.pairs(nets))[0]
    n = shape[0]
    expected = torch.stack([by_hand(nets, i, j) for i in range(n) for j in range(n)])
    assert torch.allclose(got, expected, atol=1e-9)


def test_words_lie_on_the_circle_at_their_angles():
    nets = new_nets([0, 1, 2], 12)
    points = torus.words(nets)
    assert torch.allclose(points.norm(dim=-1), torch.tensor(math.sqrt(3)))
    assert torch.allclose(points.sum(dim=-1), torch.tensor(0.0), atol=1e-5)
    assert torch.allclose(torus.circle(torus.angles(nets)), points, atol=1e-5)
    layer_norm = torch.nn.functional.layer_norm(nets.W_E, (3,), eps=0.0)
    assert torch.allclose(layer_norm, points, atol=1e-5)


def test_a_row_of_equal_numbers_is_refused():
    nets = new_nets([0])
    nets.W_E[0, 2] = 1.5
    with pytest.raises(ValueError, match="three equal numbers"):
        torus.words(nets)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(d_vocab=1), "d_vocab must be a whole number from 2 to 12, got 1"),
        (dict(n_heads=0), "n_heads must be a whole number >= 1, got 0"),
    ],
)
def test_impossible_sizes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        new_nets(**{"seeds": [0], **changes})


def test_networks_and_heads_that_do_not_exist_are_refused():
    nets = new_nets([0, 1])
    for net in (2, -1):
        with pytest.raises(ValueError, match="they are 0 … 1"):
            nets[net]
    for first, last in [(0, 4), (1, 1), (-1, 2)]:
        with pytest.raises(ValueError, match="<= 3 heads"):
            nets.heads(first, last)


def test_the_hard_heads_are_the_limit_of_large_scores():
    nets = new_nets([0]).double()
    sharper = TorusNets(**{**nets.tensors(), "W_Q": nets.W_Q * 1e6})
    hard = torus.logits(nets, *torus.on_grid(9), hard=True)
    assert torch.allclose(hard, torus.logits(sharper, *torus.on_grid(9)), atol=1e-6)


def test_shares_and_residual_take_parts_of_the_logits():
    nets = new_nets([0]).double()
    at = torus.pairs(nets)
    whole, none = torus.logits(nets, *at), torus.logits(nets, *at, shares=torch.zeros(3))
    alone = [torus.logits(nets, *at, torch.eye(3)[h].double(), residual=False) for h in range(3)]
    assert torch.allclose(sum(alone) + none, whole)
    assert torch.allclose(none, torus.attend(nets, *at).residual @ nets.W_U)
    first = nets.heads(0, 1)
    assert torch.allclose(torus.logits(first, *at, residual=False), alone[0])


def test_grid_and_on_grid_agree_and_the_grid_closes():
    theta1, theta2 = torus.grid(6)
    first, second = torus.on_grid(6)
    assert torch.allclose(torus.circle(theta1).reshape(-1, 3), first[0])
    assert torch.allclose(torus.circle(theta2).reshape(-1, 3), second[0])
    assert theta1[0, -1] + 2 * math.pi / 6 == pytest.approx(2 * math.pi)
    assert torch.equal(theta1[0], theta1[3]) and torch.equal(theta2[:, 0], theta2[:, 3])
    with pytest.raises(ValueError, match="at least 2"):
        torus.grid(1)


@pytest.mark.parametrize("d_head", [1, 2, 3, 5])
def test_the_polynomial_of_the_weights_is_the_score(d_head):
    nets = new_nets([0, 1], 5, 2, d_head).double()
    theta1, theta2 = torus.grid(8)
    scores = torus.attend(nets, *torus.on_grid(8)).scores.view(2, 2, 8, 8)
    found = torus.coefficients(nets)
    assert (torus.polynomial(found, theta1, theta2) - scores).abs().max() < 1e-9
    # Eleven harmonics are independent, so that no other coefficients give the same scores.
    values = torch.stack([f(theta1, theta2).flatten() for f in torus.HARMONICS.values()])
    fitted = torch.linalg.lstsq(values.T, scores.reshape(4, -1).T).solution.T
    assert torch.allclose(fitted, found.reshape(4, 11), atol=1e-9)


def test_crossings_are_counted_around_the_line():
    turn = torch.arange(60) * 2 * math.pi / 60 + 0.01
    for waves in (1, 2, 5):
        assert torus.crossings((waves * turn).sin()) == 2 * waves
    assert torus.crossings(torch.ones(2, 9)).tolist() == [0, 0]


def test_logits_that_are_not_finite_are_refused():
    nets, asked = new_nets([0]), targets("random", [0])
    nets.W_U[0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match="a logit is not finite"):
        torus.is_correct(torus.logits(nets, *torus.pairs(nets)), asked)


def test_targets_are_what_they_say():
    first = targets("first", [0, 1], 4).view(2, 4, 4)
    assert (first == first[:, :, :1]).all()
    assert first[0, :, 0].sort().values.tolist() == [0, 1, 2, 3]
    total = targets("sum", [0], 3)[0].view(3, 3)
    assert total.tolist() == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    random = targets("random", list(range(40)))
    assert len(random.unique(dim=0)) == 40
    assert random.float().mean() == pytest.approx(2, abs=0.2)
    assert set(TARGETS) == {"first", "sum", "random"}
    with pytest.raises(ValueError, match="no target is called"):
        targets("product", [0])


SEEDS = [0, 1]


def test_learning_lowers_the_loss_and_measures_what_it_returns():
    asked = targets("random", SEEDS)
    found = train_nets(new_nets(SEEDS), asked, steps=120, every=50)
    assert found.steps == [0, 50, 100, 120]
    assert found.accuracy.shape == found.loss.shape == (4, 2)
    assert (found.loss[-1] < found.loss[0] - 0.3).all()
    guesses = torus.logits(found.nets, *torus.pairs(found.nets))
    assert torch.equal(torus.is_correct(guesses, asked).float().mean(dim=1), found.accuracy[-1])


def test_networks_are_kept_on_their_way():
    nets, asked = new_nets(SEEDS), targets("random", SEEDS)
    found = train_nets(nets, asked, steps=12, keep=[0, 5, 12])
    assert list(found.kept) == [0, 5, 12]
    assert torch.equal(found.kept[0].W_Q, nets.W_Q)
    assert torch.equal(found.kept[12].W_Q, found.nets.W_Q)
    between = found.kept[5].W_Q
    assert not torch.allclose(between, nets.W_Q) and not torch.allclose(between, found.nets.W_Q)
    assert not between.requires_grad


def test_networks_do_not_influence_each_other():
    asked = targets("random", SEEDS)
    both = train_nets(new_nets(SEEDS), asked, steps=20)
    alone = train_nets(new_nets([1]), asked[1:], steps=20)
    for name, W in alone.nets.tensors().items():
        assert torch.allclose(both.nets.tensors()[name][1:], W, atol=1e-4), name


def test_what_is_frozen_stays():
    nets, asked = new_nets(SEEDS), targets("random", SEEDS)
    found = train_nets(nets, asked, steps=5, frozen_heads=2, train_words=False).nets.tensors()
    for name, W in nets.tensors().items():
        if name in torus_training.HEAD_WEIGHTS:
            assert torch.equal(found[name][:, :2], W[:, :2])
            assert not torch.allclose(found[name][:, 2:], W[:, 2:])
        else:
            assert torch.equal(found[name], W)
    found = train_nets(nets, asked, steps=5, frozen_heads=3).nets.tensors()
    assert torch.equal(found["W_Q"], nets.W_Q) and not torch.allclose(found["W_U"], nets.W_U)
    assert not any(W.requires_grad for W in found.values())


@pytest.mark.parametrize("train_words", [True, False])
def test_boosting_is_learning_head_after_head(train_words):
    nets, asked = new_nets(SEEDS), targets("random", SEEDS)
    found = boost(nets, asked, [10, 6, 4], train_words=train_words, every=5)
    first = train_nets(nets.heads(0, 1), asked, 10, every=5)
    assert torch.equal(found.accuracy[:3], first.accuracy)
    for name in torus_training.HEAD_WEIGHTS:  # the first head stays as its stage left it
        assert torch.equal(found.nets.tensors()[name][:, :1], first.nets.tensors()[name])
        assert not torch.allclose(found.nets.tensors()[name][:, 1:], nets.tensors()[name][:, 1:])
    same = torch.equal(found.nets.W_U, first.nets.W_U)
    assert same is not train_words
    assert found.steps == [0, 5, 10, 10, 15, 16, 16, 20]
    guesses = torus.logits(found.nets, *torus.pairs(found.nets))
    assert torch.equal(torus.is_correct(guesses, asked).float().mean(dim=1), found.accuracy[-1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(targets=targets("random", [0])),
            "targets .* of shape \\(2, 25\\), got .*\\(1, 25\\)",
        ),
        (dict(owners=targets("random", SEEDS)), "owners must be whole numbers 0 … 2"),
        (dict(steps=0), "steps >= 1"),
        (dict(steps=3, keep=[2, 4]), "keep has the steps .4., but training has only 0 … 3"),
        (dict(frozen_heads=3, train_words=False), "nothing is left to train"),
    ],
)
def test_learning_refuses_what_it_cannot_do(changes, message):
    arguments = {"nets": new_nets(SEEDS), "targets": targets("random", SEEDS), **changes}
    with pytest.raises(ValueError, match=message):
        train_nets(**arguments)


@pytest.mark.parametrize("division", torus_training.DIVISIONS)
def test_owners_divide_the_pairs(division):
    asked = targets("random", SEEDS)
    found = torus_training.owners(division, asked, SEEDS, 3)
    assert found.shape == asked.shape and found.unique().tolist() == [0, 1, 2]
    for owner, target in zip(found, asked, strict=True):
        heads_of_word = [owner[target == word].unique() for word in range(5)]
        assert (max(map(len, heads_of_word)) == 1) is (division == "word")
        if division == "lot":
            assert owner.bincount().tolist() == [9, 8, 8]
    with pytest.raises(ValueError, match="division of labor"):
        torus_training.owners("head", asked, SEEDS, 3)


def test_owners_learn_to_know_their_pairs_alone():
    asked = targets("random", SEEDS)
    own = torus_training.owners("lot", asked, SEEDS, 3)

    def known_alone(nets):
        says = torus.attend(nets, *torus.pairs(nets)).out @ nets.W_U[:, None]
        right = says.argmax(dim=-1) == asked[:, None]
        return right.gather(1, own[:, None]).float().mean()

    made = train_nets(new_nets(SEEDS), asked, steps=400, owners=own)
    plain = train_nets(new_nets(SEEDS), asked, steps=400)
    assert known_alone(made.nets) > known_alone(plain.nets) + 0.2
    guesses = torus.logits(made.nets, *torus.pairs(made.nets))
    assert torch.equal(torus.is_correct(guesses, asked).float().mean(dim=1), made.accuracy[-1])


def test_a_penalty_of_ones_own_is_what_owners_add():
    asked = targets("random", SEEDS)
    own = torus_training.owners("lot", asked, SEEDS, 3)

    def penalty(from_heads, owners, facts):
        return F.cross_entropy(from_heads[owners, torch.arange(len(facts))], facts)

    made = train_nets(new_nets(SEEDS), asked, steps=20, owners=own)
    alike = train_nets(new_nets(SEEDS), asked, steps=20, owners=own, penalty=penalty)
    other = train_nets(new_nets(SEEDS), asked, 20, owners=own, penalty=lambda *all: all[0].sum())
    assert torch.allclose(alike.loss, made.loss, atol=1e-3)
    assert not torch.allclose(other.loss, made.loss, atol=1e-1)


def test_boosting_needs_steps_for_each_head():
    with pytest.raises(ValueError, match="one number for each of 3 heads"):
        boost(new_nets([0]), targets("random", [0]), [5, 5])


def test_every_shipped_run_is_what_it_says():
    for name, run in list_runs().items():
        found = load_run(name)
        assert found.nets.W_Q.shape == (run.n_seeds, run.n_heads, 3, run.d_head), name
        assert found.nets.W_E.shape == (run.n_seeds, run.d_vocab, 3), name
        guesses = torus.logits(found.nets, *torus.pairs(found.nets))
        right = torus.is_correct(guesses, run.targets()).float().mean(dim=1)
        # The last digits of another machine can turn a pair whose two best logits are equal.
        assert (right - found.accuracy[-1]).abs().max() < 0.05, name
        assert found.steps[-1] == sum(run.steps), name


def test_a_damaged_run_is_refused(tmp_path):
    with pytest.raises(ValueError, match="did you mean"):
        load_run("heads3-dim33")
    facts = {"made": {"steps": [3]}, "measured_at": [0, 3], "sha256": "0" * 64}
    (tmp_path / "runs.json").write_text(json.dumps({"mine": facts}))
    with pytest.raises(ValueError, match="mine.safetensors is missing, truncated or damaged"):
        load_run("mine", tmp_path)


def test_a_run_can_be_trained_again():
    run = replace(TorusRun(), n_seeds=2, steps=(3,))
    assert torch.equal(
        run.train().accuracy, train_nets(new_nets([0, 1]), run.targets(), 3).accuracy
    )
    boosted = replace(run, steps=(3, 2, 1))
    assert boosted.boosted and not run.boosted
    assert boosted.train().steps[-1] == 6


# ---- colors, maps and surfaces ----

PNG = b"\x89PNG\r\n\x1a\n"
TURN = np.arange(12) * 2 * np.pi / 12
WAVE = np.cos(TURN)[None, :] + np.sin(TURN)[:, None]
ANGLES = torus_maps.tinted((WAVE > 0).astype(int), np.abs(WAVE) / 2)
CLOSED = ring(*turns(9, 9))[:-1, :-1]


def gray(n):
    """Colors of a surface."""
    return np.full((n, n, 3), 0.5)


def test_a_map_is_drawn_with_the_first_angle_across_and_the_second_up():
    across = np.broadcast_to(np.arange(12.0), (12, 12))
    image = torus_maps.show_map(Figure().subplots(), across)
    assert image.origin == "lower"
    assert np.array_equal(image.get_array()[:12, :12], across)
    # The middle of the first pixel is at angle 0; it comes back at 2π.
    assert np.array_equal(image.get_array()[:, 12], np.zeros(13))
    half = np.pi / 12
    assert image.get_extent() == pytest.approx([-half, 2 * np.pi + half] * 2)


def test_the_painted_map_has_the_winners_colors_and_is_pale_where_unsure():
    def ask(theta1, theta2):
        east = torch.broadcast_to(
            theta1 < torch.pi, torch.broadcast_shapes(theta1.shape, theta2.shape)
        )
        sure, unsure = torch.tensor([0.0, 1, 0]), torch.full((3,), 1 / 3)
        return torch.where(east[..., None], sure, unsure)

    colors = torus_colors.painted(ask, cells=4)
    assert np.allclose(colors[:, :2], torus_colors.CLASS_COLORS[1], atol=1e-6)
    assert np.allclose(colors[:, 2:], 1)


def test_the_ring_is_a_torus():
    x, y, z = np.moveaxis(CLOSED, -1, 0)
    assert np.allclose((np.hypot(x, y) - torus_surfaces.RING) ** 2 + z**2, torus_surfaces.TUBE**2)


def test_the_renderer_sees_the_nearest_sheet_and_where_on_it():
    view = torus_render.camera(90, -90)  # from above: x to the right, y up
    across, up = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 3))
    sheet = np.stack([across, up, 0 * up], -1)
    seen = torus_render.look(sheet, view, 10, (40, 40))
    assert np.allclose(view, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert np.isfinite(seen.depth).sum() == 20 * 20
    assert np.allclose(seen.place[0], [0.975, 0.025])  # the picture's upper left: last row
    assert np.allclose(seen.normal, [0, 0, 1])
    both = np.concatenate([sheet, sheet[::-1] + [0, 0, 0.5]])  # folded over: the upper part is near
    assert np.allclose(torus_render.look(both, view, 10, (40, 40)).depth[20, 20], 0.5)


@pytest.mark.parametrize("stretch", [False, True])
def test_a_surface_is_sent_inside_a_ball_with_its_picture(stretch):
    view = SurfaceView(CLOSED + [5, 0, 0], gray(12), "a torus", stretch=stretch)
    packed = np.frombuffer(base64.b64decode(view.data["points"]), dtype="<i2") / 32767
    sent = packed.reshape(8, 8, 3)
    assert np.linalg.norm(sent, axis=-1).max() == pytest.approx(1, abs=1e-3)
    extents = np.ptp(sent, axis=(0, 1)) / np.ptp(CLOSED, axis=(0, 1))
    assert np.allclose(extents, extents[0], atol=1e-3) is not stretch
    assert view.picture().startswith(PNG)
    assert repr(view) == "SurfaceView: a torus"


def test_a_surface_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"got \(8, 7, 3\)"):
        SurfaceView(CLOSED[:, :7], gray(8), "no square")
    with pytest.raises(ValueError, match="colors in 0 … 1: scale them"):
        SurfaceView(CLOSED, 3 * gray(8), "too bright")
    with pytest.raises(ValueError, match="points must be finite"):
        SurfaceView(CLOSED * np.nan, gray(8), "nowhere")


# ---- the live page ----

CHAPTERS = Path(torus.__file__).parent.parent
SCRIPT = (CHAPTERS / "torus" / "torus.js").read_text(encoding="utf-8")
ASK = """
const [data, questions] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const network = SCRIPT(null, data);
process.stdout.write(JSON.stringify(questions.map(([angles, outputs, scores]) => {
  outputs.forEach((s, h) => { network.outputs[h] = s; });
  scores.forEach((s, h) => { network.scores[h] = s; });
  return network.answer(...angles); })));
"""
NET = load_run("heads3-dim3").nets[0]
FACTS = list_runs()["heads3-dim3"].targets()[0]


@pytest.fixture(scope="module")
def view():
    still = torus_maps.color_maps([ANGLES], ["a"])
    return TorusView(NET, FACTS, still)


def sent(view) -> torus.TorusNets:
    """The network that the page has, in double precision."""
    names = [field.name for field in dataclasses.fields(torus.TorusNets)]
    given = {name: torch.tensor(view.data[name], dtype=torch.float64)[None] for name in names}
    return torus.TorusNets(**given)


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
    rng = np.random.default_rng(0)
    angles = view.data["theta"]
    questions = [[[t, s], [1, 1, 1], [1, 1, 1]] for t in angles for s in angles]
    questions += [
        [rng.uniform(0, 2 * np.pi, 2).tolist(), *rng.uniform(0, 3, (2, 3)).tolist()]
        for _ in range(75)
    ]
    answers, net = in_node(view, questions), sent(view)
    for (asked, outputs, scores), answer in zip(questions, answers, strict=True):
        factors = torch.tensor(scores, dtype=torch.float64)[:, None, None]
        changed = dataclasses.replace(net, W_Q=net.W_Q * factors)
        places = [torus.circle(torch.tensor([[t]], dtype=torch.float64)) for t in asked]
        shares = torus.attend(changed, *places).a1.flatten()
        logits = torus.logits(changed, *places, torch.tensor(outputs, dtype=torch.float64))[0, 0]
        assert np.allclose(answer["shares"], shares, atol=1e-6)
        assert np.allclose(answer["chances"], logits.softmax(dim=-1), atol=1e-6)
        assert answer["best"] == logits.argmax()
    assert [answer["best"] for answer in answers[:25]] == FACTS.tolist()


def test_a_page_holds_its_script_its_data_and_a_picture_and_loads_nothing(view):
    bundle = view._repr_mimebundle_()
    page, picture = bundle["text/html"], bundle["image/png"]
    assert base64.b64decode(picture) == view.picture()
    assert picture in page and json.dumps(view.data) in page
    for path in (*CHAPTERS.glob("torus/*.js"), *CHAPTERS.glob("nb14*/*.js")):
        script = path.read_text(encoding="utf-8").lower()
        assert not any(w in script for w in ("http", "//cdn", "import ", "fetch(", "url("))


def test_figures_can_be_read():
    dots = ([0.1, 3.0], [2.0, 6.2], [0, 1])
    predict, theta = torus_colors.predictor(NET), torus.angles(NET)[0]
    resid = torus.attend(NET, *torus.pairs(NET)).residual[0]
    check_figures(
        torus_maps.color_maps([ANGLES] * 3, ["a", "b", "c"], 2, 2, dots, words=[0.3, 2.0]),
        torus_surfaces.gluing(predict, title="title"),
        torus_surfaces.torus_in_space(predict, theta, FACTS, "a", [(1, 1)]),
        torus_surfaces.globe(NET.W_U[0], resid, FACTS, "a"),
        torus_surfaces.surface(CLOSED, gray(5), "a", dots=([[0, 0, 1]], [0])),
    )


def test_names_of_networks_and_of_what_sums_them_up():
    assert naming.nets("words3", n_nets=2) == ["words3 net 0", "words3 net 1"]
    assert naming.nets("sum", ["head 0", "head 1"], n_nets=1) == [
        "sum net 0 head 0",
        "sum net 0 head 1",
    ]
    low, *_ = naming.summed_up("longer")
    assert low == "longer nets 0 to 49, low end, 95 %"
    assert list(weights_of({"": {"of": [low]}})) == ["longer"]


# ---- the way from the map to the globe ----


@pytest.fixture(scope="module")
def journey():
    return Journey(NET, FACTS, n=12)


def test_the_journey_begins_flat_and_ends_on_the_cells_of_the_unembedding(journey):
    mesh, pearls = journey.shape(0)
    assert np.abs(mesh[..., 2]).max() < 0.01 and np.ptp(mesh[..., 0]) == pytest.approx(
        np.ptp(mesh[..., 1]), rel=0.01
    )
    # as on every map, the first word runs to the right and the second up
    view = torus_render.camera(*STAGES[0])
    for axis, along in ((0, mesh @ view[0]), (1, mesh @ view[1])):
        steps = np.diff(along, axis=1 - axis)
        assert (steps > 0).all() and np.abs(np.diff(along, axis=axis)).max() < 0.02 * steps.min()
    torus_mesh, _ = journey.shape(2)
    for first, last in ((torus_mesh[0], torus_mesh[-1]), (torus_mesh[:, 0], torus_mesh[:, -1])):
        assert np.abs(first - last).max() < 1e-6
    heads = torus.attend(NET.double(), *torus.on_grid(12))
    stream = (heads.out.sum(dim=1) + heads.residual)[0].view(12, 12, 3).numpy() @ journey.turned.T
    assert np.abs(journey.place(3, *journey.grid, journey.heads)[:-1, :-1] - stream).max() < 1e-6
    mesh, pearls = journey.shape(5)
    assert np.allclose(np.linalg.norm(mesh, axis=-1), 1)
    assert (pearls @ journey.cells().T).argmax(-1).tolist() == FACTS.tolist()


def test_the_journey_s_film_begins_with_a_pause(journey):
    (picture, long), *_ = journey.film(side=40, frames=60)
    assert picture.shape == (40, 40, 3) and long == 800
