"""The networks on a torus: logits, training, the shipped runs and maps."""

import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from chapters.torus import figures
from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets, init_nets
from chapters.torus.runs import TARGETS, TorusRun, list_runs, load_run, owners, targets
from chapters.torus.training import boost, train_nets, train_run

SHAPES = [(5, 3, 3), (2, 1, 1), (12, 2, 2), (7, 4, 5)]  # d_vocab, n_heads, d_head
SEEDS = [0, 1]
NET, FACTS = load_run("heads3-dim3").nets[0], list_runs()["heads3-dim3"].targets()[0]
PREDICT, THETA = figures.predictor(NET), torus.angles(NET)[0]


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
    nets = init_nets([3], *shape).double()
    got = torus.logits(nets, *torus.pairs(nets))[0]
    n = shape[0]
    expected = torch.stack([by_hand(nets, i, j) for i in range(n) for j in range(n)])
    assert torch.allclose(got, expected, atol=1e-9)


def test_words_lie_on_the_circle_at_their_angles():
    nets = init_nets([0, 1, 2], 12)
    points = torus.words(nets)
    assert torch.allclose(points.norm(dim=-1), torch.tensor(math.sqrt(3)))
    assert torch.allclose(points.sum(dim=-1), torch.tensor(0.0), atol=1e-5)
    assert torch.allclose(torus.circle(torus.angles(nets)), points, atol=1e-5)
    layer_norm = torch.nn.functional.layer_norm(nets.W_E, (3,), eps=0.0)
    assert torch.allclose(layer_norm, points, atol=1e-5)


def nan_logits():
    return torch.full((1, 25, 5), torch.nan)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init_nets([0], d_vocab=1), "d_vocab must be a whole number from 2 to 12, got 1"),
        (lambda: init_nets([0], n_heads=0), "n_heads must be a whole number >= 1, got 0"),
        (lambda: init_nets([0, 1])[2], "there is no network 2: they are 0 … 1"),
        (lambda: torus.words(TorusNets(**{**NET.tensors(), "W_E": torch.ones(1, 5, 3)})), "equal"),
        (lambda: torus.is_correct(nan_logits(), FACTS[None]), "a logit is not finite"),
        (lambda: targets("product", [0]), "no target is called"),
        (lambda: owners("head", FACTS[None], [0], 3), "division of labor"),
        (lambda: train_nets(init_nets(SEEDS), FACTS[None]), r"shape \(2, 25\), got .*\(1, 25\)"),
        (
            lambda: train_nets(NET, FACTS[None], owners=FACTS[None]),
            "owners must be whole numbers 0 … 2",
        ),
        (lambda: boost(NET, FACTS[None], [5, 5]), "one number for each of 3 heads"),
        (lambda: load_run("heads3-dim33"), "did you mean"),
    ],
)
def test_what_cannot_be_is_refused_at_the_door(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_parts_of_the_logits_add_up():
    nets = init_nets([0]).double()
    at = torus.pairs(nets)
    whole, none = torus.logits(nets, *at), torus.logits(nets, *at, torch.zeros(3))
    alone = [torus.logits(nets, *at, torch.eye(3)[h].double(), residual=False) for h in range(3)]
    assert torch.allclose(sum(alone) + none, whole)
    assert torch.allclose(none, torus.attend(nets, *at).residual @ nets.W_U)
    assert torch.allclose(torus.logits(nets.first_heads(1), *at, residual=False), alone[0])


def test_attention_can_be_given():
    nets = init_nets([0]).double()
    at = torus.on_grid(9)
    heads = torus.attend(nets, *at)
    assert torch.allclose(torus.logits(nets, *at, a1=heads.a1), torus.logits(nets, *at))
    sharper = TorusNets(**{**nets.tensors(), "W_Q": nets.W_Q * 1e6})  # one key takes all
    hard = torus.logits(nets, *at, a1=heads.scores > 0)
    assert torch.allclose(hard, torus.logits(sharper, *at), atol=1e-6)


def test_grid_and_on_grid_agree_and_the_grid_closes():
    theta1, theta2 = torus.grid(6)
    first, second = torus.on_grid(6)
    assert torch.allclose(torus.circle(theta1).reshape(-1, 3), first[0])
    assert torch.allclose(torus.circle(theta2).reshape(-1, 3), second[0])
    assert theta1[0, -1] + 2 * math.pi / 6 == pytest.approx(2 * math.pi)
    assert torch.equal(theta1[0], theta1[3]) and torch.equal(theta2[:, 0], theta2[:, 3])


# ---- facts, training and the shipped runs ----


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


@pytest.mark.parametrize("division", ["lot", "word"])
def test_owners_divide_the_pairs(division):
    asked = targets("random", SEEDS)
    found = owners(division, asked, SEEDS, 3)
    assert found.shape == asked.shape and found.unique().tolist() == [0, 1, 2]
    for owner, target in zip(found, asked, strict=True):
        heads_of_word = [owner[target == word].unique() for word in range(5)]
        assert (max(map(len, heads_of_word)) == 1) is (division == "word")
        if division == "lot":
            assert owner.bincount().tolist() == [9, 8, 8]


def test_learning_lowers_the_loss_and_measures_what_it_returns():
    asked = targets("random", SEEDS)
    found = train_nets(init_nets(SEEDS), asked, steps=120)
    assert found.steps == [0, 50, 100, 120]
    assert found.accuracy.shape == found.loss.shape == (4, 2)
    assert (found.loss[-1] < found.loss[0] - 0.3).all()
    guesses = torus.logits(found.nets, *torus.pairs(found.nets))
    assert torch.equal(torus.is_correct(guesses, asked).float().mean(dim=1), found.accuracy[-1])


def test_networks_do_not_influence_each_other():
    asked = targets("random", SEEDS)
    both = train_nets(init_nets(SEEDS), asked, steps=20)
    alone = train_nets(init_nets([1]), asked[1:], steps=20)
    for name, W in alone.nets.tensors().items():
        assert torch.allclose(both.nets.tensors()[name][1:], W, atol=1e-4), name


def test_what_is_frozen_stays():
    nets, asked = init_nets(SEEDS), targets("random", SEEDS)
    found = train_nets(nets, asked, steps=5, frozen_heads=2, train_words=False).nets.tensors()
    for name, W in nets.tensors().items():
        if name in torus.HEAD_WEIGHTS:
            assert torch.equal(found[name][:, :2], W[:, :2])
            assert not torch.allclose(found[name][:, 2:], W[:, 2:])
        else:
            assert torch.equal(found[name], W)
    assert not any(W.requires_grad for W in found.values())


@pytest.mark.parametrize("train_words", [True, False])
def test_boosting_is_learning_head_after_head(train_words):
    nets, asked = init_nets(SEEDS), targets("random", SEEDS)
    found = boost(nets, asked, [10, 6, 4], train_words=train_words, every=5)
    first = train_nets(nets.first_heads(1), asked, 10, every=5)
    assert torch.equal(found.accuracy[:3], first.accuracy)
    for name in torus.HEAD_WEIGHTS:  # the first head stays as its stage left it
        assert torch.equal(found.nets.tensors()[name][:, :1], first.nets.tensors()[name])
        assert not torch.allclose(found.nets.tensors()[name][:, 1:], nets.tensors()[name][:, 1:])
    assert torch.equal(found.nets.W_U, first.nets.W_U) is not train_words
    assert found.steps == [0, 5, 10, 10, 15, 16, 16, 20]
    guesses = torus.logits(found.nets, *torus.pairs(found.nets))
    assert torch.equal(torus.is_correct(guesses, asked).float().mean(dim=1), found.accuracy[-1])


def test_owners_learn_to_know_their_pairs_alone():
    asked = targets("random", SEEDS)
    own = owners("lot", asked, SEEDS, 3)

    def known_alone(nets):
        says = torus.attend(nets, *torus.pairs(nets)).out @ nets.W_U[:, None]
        right = says.argmax(dim=-1) == asked[:, None]
        return right.gather(1, own[:, None]).float().mean()

    made = train_nets(init_nets(SEEDS), asked, steps=400, owners=own)
    plain = train_nets(init_nets(SEEDS), asked, steps=400)
    assert known_alone(made.nets) > known_alone(plain.nets) + 0.2


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
    facts = {"made": {"steps": [3]}, "measured_at": [0, 3], "sha256": "0" * 64}
    (tmp_path / "runs.json").write_text(json.dumps({"mine": facts}))
    with pytest.raises(ValueError, match="mine.safetensors is missing, truncated or damaged"):
        load_run("mine", tmp_path)


def test_a_run_can_be_trained_again():
    run = TorusRun(n_seeds=2, steps=(3,))
    again = train_nets(init_nets(SEEDS), run.targets(), 3)
    assert torch.equal(train_run(run).accuracy, again.accuracy)
    assert train_run(dataclasses.replace(run, steps=(3, 2, 1))).steps[-1] == 6


# ---- pictures ----


def test_a_map_is_drawn_with_the_first_angle_across_and_the_second_up():
    across = np.broadcast_to(np.arange(12.0), (12, 12))
    image = figures.show_map(Figure().subplots(), across)
    assert image.origin == "lower"
    assert np.array_equal(image.get_array()[:12, :12], across)
    # The middle of the first pixel is at angle 0; it comes back at 2π.
    assert np.array_equal(image.get_array()[:, 12], np.zeros(13))
    half = np.pi / 12
    assert image.get_extent() == pytest.approx([-half, 2 * np.pi + half] * 2)


def test_the_painted_map_has_the_winners_colors_and_is_pale_where_unsure():
    def ask(theta1, theta2):
        east = torch.broadcast_tensors(theta1 < torch.pi, theta2)[0]
        sure, unsure = torch.tensor([0.0, 1, 0]), torch.full((3,), 1 / 3)
        return torch.where(east[..., None], sure, unsure)

    colors = figures.painted(ask, cells=4)
    assert np.allclose(colors[:, :2], figures.CLASS_COLORS[1], atol=1e-6)
    assert np.allclose(colors[:, 2:], 1)
