"""Evidence of notebook 15: what heads know alone and in mixtures, against chance."""

import math

import numpy as np
import pytest
import torch

from chapters.torus import networks as torus
from chapters.torus.networks import new_nets
from chapters.torus.training import list_runs, load_run, targets
from evidence.support import nb15 as support
from figure_checks import check_figures

NETS, FACTS = new_nets([0, 1]), targets("random", [0, 1])
WHOLE = torus.logits(NETS, *torus.pairs(NETS))


def test_terms_add_up_to_the_logits():
    heads, own = support.terms(NETS)
    assert torch.allclose(heads.sum(dim=1) + own, WHOLE, atol=1e-5)


@pytest.mark.parametrize("residual", [True, False])
def test_a_head_alone_is_the_network_with_shares_for_one(residual):
    alone = support.right_alone(NETS, FACTS, residual)
    expected = support.is_correct_with_shares(NETS, FACTS, torch.eye(3), residual)
    assert torch.equal(alone, expected)


def test_without_a_head_is_the_network_with_shares_for_the_others():
    expected = support.is_correct_with_shares(NETS, FACTS, 1 - torch.eye(3))
    assert torch.equal(support.right_without(NETS, FACTS), expected)
    heads, _ = support.terms(NETS)
    by_mean = support.right_without(NETS, FACTS, by_mean=True)[:, 1]
    without = WHOLE - heads[:, 1] + heads[:, 1].mean(dim=1, keepdim=True)
    assert torch.equal(by_mean, without.argmax(dim=-1) == FACTS)


def test_lots_keep_the_numbers_and_give_the_formula_of_chance():
    answers = torch.rand(40, 3, 25, generator=torch.Generator().manual_seed(0)) < 0.4
    counts = support.permuted_mean(answers, lambda moved: moved.sum(dim=-1).float())
    assert torch.allclose(counts, answers.sum(dim=-1).float())
    chance = 1 - (1 - answers.float().mean(dim=-1)).prod(dim=1)
    lot = support.permuted_mean(answers, support.covered, n_draws=200)
    assert (lot - chance).abs().mean() < 0.01


def test_division_is_one_where_all_is_covered_and_near_zero_by_lot():
    owner = torch.arange(25) % 3
    divided = (torch.arange(3)[:, None] == owner).expand(20, 3, 25)
    assert support.coverage_of(divided).corrected() == pytest.approx(1)
    draw = torch.Generator().manual_seed(0)
    found = support.coverage_of(torch.rand(400, 3, 25, generator=draw) < 0.4).interval()
    assert found.low < found.value < found.high and abs(found.value) < 0.06


def test_what_is_known_alone_and_what_is_lost():
    nets, facts = load_run("heads3-dim3").nets[3], list_runs()["heads3-dim3"].targets()[3:4]
    alone, lost = (f(nets, facts)[0] for f in (support.right_alone, support.needed))
    whole = torus.logits(nets, *torus.pairs(nets))[0].argmax(dim=-1) == facts[0]
    for head in range(3):
        others = 1 - torch.eye(3)[head]
        kept = support.is_correct_with_shares(nets, facts, others[None])[0, 0]
        assert torch.equal(lost[head], whole & ~kept)
    found = support.known_and_lost(nets, facts)
    assert found.known_alone == pytest.approx(alone.sum() / 3)
    assert found.lost_without_it == pytest.approx(lost.sum() / 3)
    n_knowing = alone.sum(dim=0).expand(3, 25)
    for share, kind in (
        (found.lost_of_what_only_it_knows, alone & (n_knowing == 1)),
        (found.lost_of_what_others_know_too, alone & (n_knowing > 1)),
        (found.lost_of_what_it_does_not_know, ~alone),
    ):
        assert share == pytest.approx(lost[kind].float().mean())


def test_a_simplex_has_all_shares_once():
    shares = support.simplex(6)
    assert torch.allclose(shares.sum(dim=1), torch.ones(len(shares))) and (shares >= 0).all()
    assert len(shares.unique(dim=0)) == len(shares) == math.comb(8, 2)


def test_right_with_shares_is_right_of_the_logits_with_these_shares():
    nets = new_nets([0, 1])
    asked = targets("random", [0, 1])
    shares = torch.tensor([[1.0, 1, 1], [0.2, 0.3, 0.5], [1, 0, 0]])
    for residual in (True, False):
        found = support.is_correct_with_shares(nets, asked, shares, residual)
        for i, each in enumerate(shares):
            logits = torus.logits(nets, *torus.pairs(nets), each, residual)
            assert torch.equal(found[:, i], torus.is_correct(logits, asked))
    scaled = support.is_correct_with_shares(nets, asked, 5 * shares, residual=False)
    assert torch.equal(scaled, support.is_correct_with_shares(nets, asked, shares, residual=False))


def test_figures_can_be_read():
    shares = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]])
    check_figures(support.triangles([[0, 0.5, 1, 1]] * 2, shares, ["a", "b"]))
