import pytest
import torch

from chapters.torus import networks as torus
from chapters.torus import winding as torus_winding
from chapters.torus.winding import changes, look_and_carry, moved_elsewhere, three_maps, winding

NETS = torus.new_nets([0, 1])


def test_looking_and_carrying_the_same_pair_is_the_network():
    pairs = torus.pairs(NETS)
    found = look_and_carry(NETS, pairs, pairs)
    assert torch.allclose(found, torus.logits(NETS, *pairs), atol=1e-4)


def test_shares_elsewhere_move_as_far_and_as_many():
    shares = torch.rand(4, 3, 25, generator=torch.Generator().manual_seed(1)).double()
    here = (shares > 0.3) & (shares < 0.6)
    moved = shares.where(~here, shares.round())
    found = moved_elsewhere(shares, moved)
    there, elsewhere = (each - shares for each in (moved, found))
    assert (elsewhere[here] == 0).all() and found.min() >= 0 and found.max() <= 1
    asked, done = (each.abs().flatten(1).sort().values for each in (there, elsewhere))
    assert torch.allclose(asked, done)
    assert (elsewhere[shares < 0.5] >= 0).all() and (elsewhere[shares > 0.5] <= 0).all()
    assert not torch.equal(found, moved_elsewhere(shares, moved, seed=1))
    assert torch.equal(moved_elsewhere(shares, shares), shares)


@pytest.mark.parametrize("moved", [0.4 * torch.ones(1, 3, 25), torch.eye(25)[None, :3]])
def test_moves_without_room_elsewhere_are_refused(moved):
    with pytest.raises(ValueError, match="choose fewer places"):
        moved_elsewhere(torch.full((1, 3, 25), 0.2) * (1 - torch.eye(25)[:3]), moved)


def test_changes_are_counted_once_around():
    stripes = (torch.arange(20) // 4).expand(1, 20, 20)
    assert changes(stripes).tolist() == [2.5]  # 5 along each row, none along a column


def test_with_the_shares_held_each_logit_is_a_constant_and_one_wave_in_each_angle():
    n, fixed = 12, tuple(each[:, 7:8] for each in torus.pairs(NETS))
    logits = look_and_carry(NETS, fixed, torus.on_grid(n)).view(2, n, n, 5).double()
    size = torch.fft.fft2(logits, dim=(1, 2)).abs().amax(dim=(0, 3))
    waves = [(0, 0), (0, 1), (0, n - 1), (1, 0), (n - 1, 0)]
    assert {(i, j) for i, j in (size > 1e-3 * size.max()).nonzero().tolist()} <= set(waves)


def test_winding_is_the_mean_over_the_held_pairs():
    maps = [[changes(each) for each in three_maps(NETS, held, 8)] for held in (0, 3)]
    both = torch.stack([torch.stack(three) for three in maps]).mean(dim=0)
    assert torch.allclose(winding(NETS, (0, 3), 8), both)


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
