"""Evidence of notebook 15: what heads know alone, in mixtures and asked for, against chance."""

import math

import numpy as np
import pytest
import torch

from chapters.torus import networks as torus
from chapters.torus.networks import init_nets
from chapters.torus.runs import list_runs, load_run, owners, targets
from chapters.torus.training import train_nets
from evidence.support import nb15 as support
from figure_checks import check_figures

NETS, FACTS = init_nets([0, 1]), targets("random", [0, 1])
WHOLE = torus.logits(NETS, *torus.pairs(NETS))


def test_terms_add_up_to_the_logits():
    heads, own = support.terms(NETS)
    assert torch.allclose(heads.sum(dim=1) + own, WHOLE, atol=1e-5)


@pytest.mark.parametrize("residual", [True, False])
def test_a_head_alone_is_the_network_with_shares_for_one(residual):
    alone = support.right_alone(NETS, FACTS, residual)
    expected = support.mixture_is_correct(NETS, FACTS, torch.eye(3), residual)
    assert torch.equal(alone, expected)


def test_without_a_head_is_the_network_with_shares_for_the_others():
    expected = support.mixture_is_correct(NETS, FACTS, 1 - torch.eye(3))
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
        kept = support.mixture_is_correct(nets, facts, others[None])[0, 0]
        assert torch.equal(lost[head], whole & ~kept)
    found = support.known_and_lost(nets, facts)
    assert found["known alone"] == pytest.approx(alone.sum() / 3)
    assert found["lost without it"] == pytest.approx(lost.sum() / 3)
    n_knowing = alone.sum(dim=0).expand(3, 25)
    for share, kind in (
        (found["only it knows"], alone & (n_knowing == 1)),
        (found["others know too"], alone & (n_knowing > 1)),
        (found["it does not know"], ~alone),
    ):
        assert share == pytest.approx(lost[kind].float().mean())


def test_a_simplex_has_all_shares_once():
    shares = support.simplex(6)
    assert torch.allclose(shares.sum(dim=1), torch.ones(len(shares))) and (shares >= 0).all()
    assert len(shares.unique(dim=0)) == len(shares) == math.comb(8, 2)


def test_right_with_shares_is_right_of_the_logits_with_these_shares():
    nets = init_nets([0, 1])
    asked = targets("random", [0, 1])
    shares = torch.tensor([[1.0, 1, 1], [0.2, 0.3, 0.5], [1, 0, 0]])
    for residual in (True, False):
        found = support.mixture_is_correct(nets, asked, shares, residual)
        for i, each in enumerate(shares):
            logits = torus.logits(nets, *torus.pairs(nets), each, residual)
            assert torch.equal(found[:, i], torus.is_correct(logits, asked))
    scaled = support.mixture_is_correct(nets, asked, 5 * shares, residual=False)
    assert torch.equal(scaled, support.mixture_is_correct(nets, asked, shares, residual=False))


def test_figures_can_be_read():
    shares = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]])
    check_figures(support.triangles([[0, 0.5, 1, 1]] * 2, shares, ["a", "b"]))


# ---- heads that are asked for more ----

MADE = list_runs()["specialists-by-word"]
DIVIDED, GOALS, OWNERS = load_run("specialists-by-word").nets, MADE.targets(), MADE.owners()


def test_heads_asked_to_be_right_alone_take_the_step_of_owners():
    ours = support.trained_with_owners(NETS, FACTS, owners("word", FACTS, [0, 1], 3), steps=1)
    theirs = train_nets(NETS, FACTS, 1, owners=owners("word", FACTS, [0, 1], 3)).nets
    for name, W in theirs.tensors().items():
        assert torch.allclose(W, ours.tensors()[name], atol=1e-6)


@pytest.mark.parametrize("missing", ["zero", "mean"])
def test_heads_asked_to_be_removable_are_more_so(missing):
    start, goals = init_nets([0, 1, 2]), targets("random", [0, 1, 2])
    its = owners("word", goals, [0, 1, 2], 3)
    made = (
        support.trained_with_owners(start, goals, its, each, steps=150) for each in ("", missing)
    )
    before, after = (
        support.lost_of_owned(nets, goals, its, missing == "mean")["others"].mean() for nets in made
    )
    assert after < before


def test_an_unknown_way_to_leave_out_a_head_is_refused():
    with pytest.raises(ValueError, match='"zero", "mean" or "", got \'median\''):
        support.trained_with_owners(NETS, FACTS, FACTS % 3, "median")


def test_losses_are_counted_pair_by_pair():
    heads, own = support.terms(DIVIDED)
    words_of = torch.full((50, 5), -1).scatter(1, GOALS, OWNERS)
    found = support.lost_to_third(DIVIDED, GOALS, OWNERS, words_of)
    per_net = support.lost_of_owned(DIVIDED, GOALS, OWNERS)
    for net in range(3):
        losses, third, chance, known, own_lost = 0, 0, 0.0, 0, 0
        for fact, (word, owner) in enumerate(zip(GOALS[net], OWNERS[net], strict=True)):
            whole = heads[net, :, fact].sum(dim=0) + own[net, fact]
            if whole.argmax() != word:
                continue
            known += 1
            for head in range(3):
                said = (whole - heads[net, head, fact]).argmax()
                if said == word:
                    continue
                if head == owner:
                    own_lost += 1
                    continue
                left = ({0, 1, 2} - {head, int(owner)}).pop()
                losses, third = losses + 1, third + int(words_of[net, said] == left)
                chance += (words_of[net] == left).sum().item() / 4
        counted = losses, third, chance
        assert tuple(each[net].item() for each in found) == pytest.approx(counted)
        assert per_net["own"][net].item() == pytest.approx(own_lost / known)
        assert per_net["others"][net].item() == pytest.approx(losses / (2 * known))
    low, share, high = found.beyond_chance()
    assert low <= share <= high
    assert share == pytest.approx(((found.third - found.chance).sum() / found.losses.sum()).item())
