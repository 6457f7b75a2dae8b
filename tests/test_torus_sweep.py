import math

import numpy as np
import pytest
import torch
from PIL import Image

from chapters.nb14_attention_polynomial import bending as torus_bending
from chapters.nb14_attention_polynomial import lines as torus_sweep
from chapters.nb14_attention_polynomial import waves as torus_waves
from chapters.torus import networks as torus
from chapters.torus import palette as torus_colors
from chapters.torus import winding as torus_winding
from chapters.torus.networks import new_nets

NETS = new_nets([0, 1]).double()
TURN = torch.arange(50, dtype=torch.float64) * 2 * math.pi / 50


@pytest.mark.parametrize("head", [0, 1, 2])
def test_the_line_of_a_second_word_gives_the_scores_of_its_row(head):
    found = torus.coefficients(NETS)[0, head]
    g0, g1, h = torus_sweep.lines(found, TURN[:, None]).unbind(dim=-1)
    row = g0 * TURN.cos() + g1 * TURN.sin() + h
    assert torch.allclose(row, torus.polynomial(found, TURN, TURN[:, None]))


@pytest.mark.parametrize("line", [(3.0, 4.0, 2.5), (-1.0, 2.0, 0.0), (1.0, 0.0, 2.0)])
def test_a_line_cuts_the_circle_where_the_score_is_zero(line):
    g0, g1, h = line
    found = torus_sweep.cuts(g0, g1, h)
    assert len(found) == 2 * (abs(h) < math.hypot(g0, g1))
    for angle in found:
        assert 0 <= angle < 2 * math.pi
        assert g0 * math.cos(angle) + g1 * math.sin(angle) + h == pytest.approx(0, abs=1e-9)


def test_the_pictures_of_waves_keep_gray_below_zero_and_purple_above():
    waves, shares = torus_waves.SCORES, torus_colors.SHARES
    kept = torus_colors.palette_of(waves, shares, n=37)  # as in `sum_of_waves`
    at = np.concatenate([np.linspace(0, 0.48, 100), np.linspace(0.52, 1, 100)])
    shades = (255 * waves(at)[None, :, :3]).round().astype("uint8")
    shown = np.asarray(torus_colors._nearest(Image.fromarray(shades), kept).convert("RGB"), int)[0]
    purple = shown[:, 0] - shown[:, 1] > 2
    assert not purple[:100].any() and purple[100:].all()
    with pytest.raises(ValueError, match="at most 256 colors"):
        torus_colors.palette_of(waves, shares, n=120)


def test_a_head_with_one_number_is_a_product_whose_lines_are_parallel():
    thin = new_nets([0, 1], n_heads=2, d_head=1).double()
    product = torus_sweep.product_of(thin)
    whole = torus_sweep.Product(*(each[..., None, None] for each in product))
    scores = torus.attend(thin, *torus.on_grid(9)).scores.unflatten(-1, (9, 9))
    assert torch.allclose(whole.score(*torus.grid(9)), scores)
    g0, g1, _ = torus_sweep.lines(torus.coefficients(thin)[1, 0], TURN).unbind(dim=-1)
    psi = product.psi[1, 0]
    assert (g0 * psi.sin() - g1 * psi.cos()).abs().max() < 1e-9
    with pytest.raises(ValueError, match="d_head 1, got 3"):
        torus_sweep.product_of(NETS)


def test_the_groups_of_waves_hold_each_harmonic_once():
    assert sorted(sum(torus_waves.GROUPS.values(), [])) == list(range(len(torus.HARMONICS)))


def test_given_shares_are_carried():
    pairs = torus.pairs(NETS)
    shares = torus.attend(NETS, *pairs).a1
    said = torus_winding.carry_with(NETS, shares, pairs)
    assert torch.allclose(said, torus.logits(NETS, *pairs))
    hard = torus_winding.carry_with(NETS, (shares > 0.5).float(), pairs)
    assert torch.allclose(hard, torus.logits(NETS, *pairs, hard=True))


def test_without_heads_the_torus_is_a_ring_and_with_them_the_stream():
    ring, bent = (torus_bending.streams(NETS[0], strength, n=8) for strength in (0, 1))
    assert torch.allclose(ring, ring[:, :1].expand(8, 8, 3))
    logits = torus.logits(NETS[0], *torus.on_grid(8))[0]
    assert torch.allclose(bent.reshape(64, 3) @ NETS.W_U[0], logits)
    facts = torus_bending.of_facts(NETS[0]) @ NETS.W_U[0]
    assert torch.allclose(facts, torus.logits(NETS[0], *torus.pairs(NETS[0]))[0])


def test_a_thickened_ring_is_closed_and_as_thick_as_said():
    ring = torch.stack([TURN.cos(), TURN.sin(), 0 * TURN], dim=-1)
    ring = torch.cat([ring, ring[:1]])
    tube = torch.from_numpy(torus_bending.thickened(ring.numpy(), 0.1))
    assert torch.allclose(tube[0], tube[-1])
    assert torch.allclose((tube - ring[:, None]).norm(dim=-1), torch.tensor(0.1).double())
