"""Evidence of notebook 13: directions over a sphere, maps of which one part is held, capacity."""

import pytest
import torch

from chapters.torus import networks as torus
from evidence.support import nb13 as support

NETS = torus.init_nets([0, 1])


def test_directions_lie_evenly_over_the_sphere():
    directions = support.sphere(5000)
    assert torch.allclose(directions.norm(dim=1), torch.ones(5000, dtype=torch.float64))
    for axis in torch.eye(3, dtype=torch.float64):  # a cap of height 1/2 has a quarter of the area
        assert ((directions @ axis) > 0.5).double().mean() == pytest.approx(0.25, abs=0.005)


def test_looking_and_carrying_the_same_pair_is_the_network():
    pairs = torus.pairs(NETS)
    found = support.look_and_carry(NETS, pairs, pairs)
    assert torch.allclose(found, torus.logits(NETS, *pairs), atol=1e-4)


def test_with_the_shares_held_each_logit_is_a_constant_and_one_wave_in_each_angle():
    n, fixed = 12, tuple(each[:, 7:8] for each in torus.pairs(NETS))
    logits = support.look_and_carry(NETS, fixed, torus.on_grid(n)).view(2, n, n, 5).double()
    size = torch.fft.fft2(logits, dim=(1, 2)).abs().amax(dim=(0, 3))
    waves = [(0, 0), (0, 1), (0, n - 1), (1, 0), (n - 1, 0)]
    assert {(i, j) for i, j in (size > 1e-3 * size.max()).nonzero().tolist()} <= set(waves)


def test_changes_are_counted_once_around():
    stripes = (torch.arange(20) // 4).expand(1, 20, 20)
    assert support.changes(stripes).tolist() == [2.5]  # 5 along each row, none along a column


@pytest.mark.parametrize(
    "kind", ["large random QK", "large random QK and OV", "random heads, rest trained"]
)
def test_random_heads_are_as_large_as_trained_ones(kind):
    trained = torus.TorusNets(**{name: 3 * W for name, W in NETS.tensors().items()})
    found = support.random_nets(trained)[kind]
    for a, b in [("W_Q", "W_K"), ("W_V", "W_O")][
        : 2 if "QK and OV" in kind or "heads" in kind else 1
    ]:
        sizes = [
            (W[a] @ (W[b].mT if b == "W_K" else W[b])).norm(dim=(2, 3))
            for W in (found.tensors(), trained.tensors())
        ]
        assert torch.allclose(*sizes)
    assert torch.equal(found.W_U, trained.W_U) == (kind == "random heads, rest trained")


def test_boundaries_that_are_a_heads_edges_lie_near_them():
    heads = NETS[0].first_heads(1).tensors()
    heads |= {"W_V": 100 * heads["W_V"], "W_Q": 100 * heads["W_Q"]}  # a jump at the edge
    still = {"W_U": heads["W_U"][:, :, :2]}  # two next words
    along, anywhere = support.near_edges(torus.TorusNets(**heads | still))
    assert along.item() > 2 * anywhere.item()
    flat = torus.TorusNets(**heads | still | {"W_Q": 0 * heads["W_Q"]})
    assert support.near_edges(flat).tolist() == [[0], [0]]
