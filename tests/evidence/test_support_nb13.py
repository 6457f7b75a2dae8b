"""Evidence of notebook 13: directions over a sphere, maps of which one part is held, capacity."""

import pytest
import torch

from chapters.torus import networks as torus
from chapters.torus.winding import changes, winding
from evidence.support import nb13 as support
from figure_checks import check_figures

NETS = torus.new_nets([0, 1])


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


def test_winding_is_the_mean_over_the_held_pairs():
    maps = [[changes(each) for each in support.three_maps(NETS, held, 8)] for held in (0, 3)]
    both = torch.stack([torch.stack(three) for three in maps]).mean(dim=0)
    assert torch.allclose(winding(NETS, (0, 3), 8), both)


def test_boundaries_that_are_a_heads_edges_lie_near_them():
    heads = NETS[0].heads(0, 1).tensors()
    heads |= {"W_V": 100 * heads["W_V"], "W_Q": 100 * heads["W_Q"]}  # a jump at the edge
    still = {"W_U": heads["W_U"][:, :, :2]}  # two next words
    along, anywhere = support.near_edges(torus.TorusNets(**heads | still))
    assert along.item() > 2 * anywhere.item()
    flat = torus.TorusNets(**heads | still | {"W_Q": 0 * heads["W_Q"]})
    assert support.near_edges(flat).tolist() == [[0], [0]]


def test_the_figure_of_capacity_can_be_read():
    by_heads, by_words = ({n: torch.rand(4) for n in each} for each in ((1, 3), (2, 5)))
    check_figures(
        support.capacity(by_heads, by_words, title="a"),
        support.capacity(by_heads, by_words, [0.5, 0.4], title="b"),
    )
