import math

import pytest
import torch

from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets, new_nets
from chapters.torus.training import TARGETS, targets

RANDOM = torch.Generator().manual_seed(5)
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


def test_a_network_does_not_depend_on_those_beside_it():
    many, alone = new_nets([4, 7]), new_nets([7])
    for name, W in alone.tensors().items():
        assert torch.equal(many[1].tensors()[name], W)
    assert torch.allclose(
        torus.logits(many, *torus.pairs(many))[1:], torus.logits(alone, *torus.pairs(alone))
    )


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
        (dict(seeds=[]), "seeds is empty"),
        (dict(d_vocab=1), "d_vocab must be a whole number from 2 to 12, got 1"),
        (dict(d_vocab=13), "from 2 to 12, got 13"),
        (dict(n_heads=0), "n_heads must be a whole number >= 1, got 0"),
        (dict(d_head=0), "d_head must be a whole number >= 1, got 0"),
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


def test_a_map_at_the_angles_of_the_words_is_the_model():
    nets = new_nets([0], 7)
    theta = torus.angles(nets)[0]
    first, second = theta.repeat_interleave(7), theta.repeat(7)
    on_map = torus.logits(nets, torus.circle(first)[None], torus.circle(second)[None])
    assert torch.allclose(on_map, torus.logits(nets, *torus.pairs(nets)), atol=1e-4)


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


def test_one_angle_can_be_given_for_all_values_of_the_other():
    found = torus.coefficients(new_nets([0], n_heads=1).double())[0, 0]
    theta1, theta2 = torus.grid(7)
    whole = torus.polynomial(found, theta1, theta2)
    assert torch.allclose(torus.polynomial(found, theta1[0], theta2[:, :1]), whole)
    assert torch.allclose(torus.polynomial(found, theta1[0], theta2[3, 3]), whole[3])


def test_the_last_two_coefficients_are_tied():
    found = torus.coefficients(new_nets([0, 1, 2]))
    assert torch.allclose(found[..., 9:], -found[..., 7:9])
    assert found[..., 7:9].abs().max() > 0.01


def test_crossings_are_counted_around_the_line():
    turn = torch.arange(60) * 2 * math.pi / 60 + 0.01
    for waves in (1, 2, 5):
        assert torus.crossings((waves * turn).sin()) == 2 * waves
    assert torus.crossings(torch.ones(2, 9)).tolist() == [0, 0]


def test_directions_lie_evenly_over_the_sphere():
    directions = torus.sphere(5000)
    assert torch.allclose(directions.norm(dim=1), torch.ones(5000, dtype=torch.float64))
    for axis in torch.eye(3, dtype=torch.float64):  # a cap of height 1/2 has a quarter of the area
        assert ((directions @ axis) > 0.5).double().mean() == pytest.approx(0.25, abs=0.005)


def test_cells_are_where_a_class_has_the_largest_logit():
    W_U = torch.tensor([[1.0, -1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]])
    directions = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [1, 0.4, 0], [1, 0.6, 0]])
    assert torus.cells(W_U, directions).tolist() == [0, 1, 2, 0, 2]
    assert torus.cells(W_U, directions * torch.tensor(9.0)).tolist() == [0, 1, 2, 0, 2]


@pytest.mark.parametrize(("n", "corners"), [(1, 3), (6, 3), (4, 2), (3, 4), (2, 1)])
def test_a_simplex_has_all_shares_once(n, corners):
    shares = torus.simplex(n, corners)
    assert torch.allclose(shares.sum(dim=1), torch.ones(len(shares)))
    assert (shares >= 0).all()
    assert len(shares.unique(dim=0)) == len(shares)
    assert len(shares) == (1 if corners == 1 else math.comb(n + corners - 1, corners - 1))


def test_right_with_shares_is_right_of_the_logits_with_these_shares():
    nets = new_nets([0, 1])
    asked = targets("random", [0, 1])
    shares = torch.tensor([[1.0, 1, 1], [0.2, 0.3, 0.5], [1, 0, 0]])
    for residual in (True, False):
        found = torus.is_correct_with_shares(nets, asked, shares, residual)
        for i, each in enumerate(shares):
            logits = torus.logits(nets, *torus.pairs(nets), each, residual)
            assert torch.equal(found[:, i], torus.is_correct(logits, asked))
    scaled = torus.is_correct_with_shares(nets, asked, 5 * shares, residual=False)
    assert torch.equal(scaled, torus.is_correct_with_shares(nets, asked, shares, residual=False))


def test_logits_that_are_not_finite_are_refused():
    nets, asked = new_nets([0]), targets("random", [0])
    nets.W_U[0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match="a logit is not finite"):
        torus.is_correct(torus.logits(nets, *torus.pairs(nets)), asked)
    with pytest.raises(ValueError, match="a logit is not finite"):
        torus.is_correct_with_shares(nets, asked, torch.ones(1, 3))


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
