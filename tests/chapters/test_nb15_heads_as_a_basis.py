"""Notebook 15: what heads know alone, covered facts against lots; its figures and exercises."""

import pytest
import torch
import torch.nn.functional as F

from aot_helpers.showing.forms import Interval
from chapters.nb15_heads_as_a_basis import exercises as nb15
from chapters.nb15_heads_as_a_basis import figures, measure
from chapters.torus import networks as torus
from chapters.torus.networks import new_nets
from chapters.torus.training import list_runs, load_run, targets
from figure_checks import check_figures

NETS, FACTS = new_nets([0, 1]), targets("random", [0, 1])
WHOLE = torus.logits(NETS, *torus.pairs(NETS))


def test_terms_add_up_to_the_logits():
    heads, own = measure.terms(NETS)
    assert torch.allclose(heads.sum(dim=1) + own, WHOLE, atol=1e-5)


@pytest.mark.parametrize("residual", [True, False])
def test_a_head_alone_is_the_network_with_shares_for_one(residual):
    alone = measure.right_alone(NETS, FACTS, residual)
    expected = torus.is_correct_with_shares(NETS, FACTS, torch.eye(3), residual)
    assert torch.equal(alone, expected)


def test_without_a_head_is_the_network_with_shares_for_the_others():
    expected = torus.is_correct_with_shares(NETS, FACTS, 1 - torch.eye(3))
    assert torch.equal(measure.right_without(NETS, FACTS), expected)
    heads, _ = measure.terms(NETS)
    by_mean = measure.right_without(NETS, FACTS, by_mean=True)[:, 1]
    without = WHOLE - heads[:, 1] + heads[:, 1].mean(dim=1, keepdim=True)
    assert torch.equal(by_mean, without.argmax(dim=-1) == FACTS)


def test_lots_keep_the_numbers_and_give_the_formula_of_chance():
    answers = torch.rand(40, 3, 25, generator=torch.Generator().manual_seed(0)) < 0.4
    counts = measure.permuted_mean(answers, lambda moved: moved.sum(dim=-1).float())
    assert torch.allclose(counts, answers.sum(dim=-1).float())
    chance = 1 - (1 - answers.float().mean(dim=-1)).prod(dim=1)
    lot = measure.permuted_mean(answers, measure.covered, n_draws=200)
    assert (lot - chance).abs().mean() < 0.01


def test_division_is_one_where_all_is_covered_and_near_zero_by_lot():
    owner = torch.arange(25) % 3
    divided = (torch.arange(3)[:, None] == owner).expand(20, 3, 25)
    assert measure.coverage_of(divided).corrected() == pytest.approx(1)
    draw = torch.Generator().manual_seed(0)
    found = measure.coverage_of(torch.rand(400, 3, 25, generator=draw) < 0.4).interval()
    assert found.low < found.value < found.high and abs(found.value) < 0.06


def beyond(alone):
    covered, chance = (each.mean(dim=-1) for each in nb15.coverage(alone))
    return (covered - chance) / (1 - chance)


def test_an_interval_of_a_measure_is_that_of_coverage_and_a_lead_over_itself_is_zero():
    draw = torch.Generator().manual_seed(0)
    by_lot = torch.rand(40, 3, 25, generator=draw) < 0.4
    expected = measure.Coverage(*nb15.coverage(by_lot)).interval()
    assert measure.interval(beyond, by_lot) == pytest.approx(expected, abs=1e-5)
    assert tuple(measure.lead(beyond, by_lot, by_lot)) == (0, 0, 0)
    divided = (torch.arange(3)[:, None] == torch.arange(25) % 3).expand(40, 3, 25)
    found = measure.lead(beyond, divided, by_lot)
    assert found.value == pytest.approx(1 - expected.value, abs=1e-5)
    assert found.low < found.value < found.high


def test_coverage_over_texts_is_that_of_all_their_predictions_that_are_needed():
    draw = torch.Generator().manual_seed(0)
    alone = torch.rand(4, 30, 20, generator=draw) < 0.3
    need = torch.rand(30, 20, generator=draw) < 0.5
    found = measure.over_texts(alone, need)
    covered, chance = nb15.coverage(alone[:, need])
    assert found.value == pytest.approx(((covered - chance) / (1 - chance)).item(), abs=1e-5)
    assert found.low < found.value < found.high
    assert measure.over_texts(alone.any(dim=0).expand(4, 30, 20), need).value < -0.5  # all the same


def test_what_is_known_alone_and_what_is_lost():
    nets, facts = load_run("heads3-dim3").nets[3], list_runs()["heads3-dim3"].targets()[3:4]
    alone, lost = (f(nets, facts)[0] for f in (measure.right_alone, measure.needed))
    whole = torus.logits(nets, *torus.pairs(nets))[0].argmax(dim=-1) == facts[0]
    for head in range(3):
        others = 1 - torch.eye(3)[head]
        kept = torus.is_correct_with_shares(nets, facts, others[None])[0, 0]
        assert torch.equal(lost[head], whole & ~kept)
    found = measure.known_and_lost(nets, facts)
    assert found.known_alone == pytest.approx(alone.sum() / 3)
    assert found.lost_without_it == pytest.approx(lost.sum() / 3)
    n_knowing = alone.sum(dim=0).expand(3, 25)
    for share, kind in (
        (found.lost_of_what_only_it_knows, alone & (n_knowing == 1)),
        (found.lost_of_what_others_know_too, alone & (n_knowing > 1)),
        (found.lost_of_what_it_does_not_know, ~alone),
    ):
        assert share == pytest.approx(lost[kind].float().mean())


def test_chance_of_the_tour_is_the_mean_of_lots():
    answers = torch.rand(40, 3, 25, generator=torch.Generator().manual_seed(0)) < 0.4
    covered, chance = nb15.coverage(answers)
    assert torch.equal(covered, measure.covered(answers))
    lot = measure.permuted_mean(answers, measure.covered, n_draws=400)
    assert (lot - chance).abs().max() < 0.02


def test_an_interval_is_told_with_its_value_first():
    assert measure.told(Interval(-0.1, 0.25, 1)) == "0.25 (-0.10 to 1.00)"


def test_the_terms_are_the_packages():
    net = torus.new_nets([4])
    found = nb15.logit_terms(*measure.parts(net))
    heads, residual = measure.terms(net)
    assert torch.allclose(found, torch.cat([residual, heads[0]]), atol=1e-5)


def test_the_penalty_is_the_loss_of_each_owner():
    heads = measure.terms(load_run("specialists").nets)[0][0]
    owners, facts = list_runs()["specialists"].owners()[0], FACTS[0]
    by_hand = [
        -heads[owner, pair].log_softmax(dim=-1)[fact]
        for pair, (owner, fact) in enumerate(zip(owners, facts, strict=True))
    ]
    assert torch.allclose(nb15.penalty(heads, owners, facts), torch.stack(by_hand).mean())


# ---- figures and exercises ----


def test_figures_can_be_read():
    net, facts = NETS[0], torch.arange(25) % 5
    answers = torch.arange(75).view(3, 25) % 4 < 2  # [head, pair]
    score = Interval(0.1, 0.2, 0.3)
    check_figures(
        figures.alone(net, facts, "a"),
        figures.hoped(facts, facts % 3, "a"),
        figures.permutation_null(torch.tensor([18, 20, 20]), 21, 19.3, "a"),
        figures.coverage({"a": (torch.linspace(-1, 1, 20), score)}, "b"),
        figures.knowledge({"a": (answers, score, score)}, facts, "b"),
    )


@pytest.mark.parametrize("number", ["15.1", "15.2", "15.4"])
def test_a_page_is_the_readers_once_it_is_right(check_page, number):
    check_page(number)


def counted_twice(alone):
    return alone.float().mean(dim=-1).sum(dim=-1), nb15.coverage(alone)[1]


def added_shares(alone):
    return nb15.coverage(alone)[0], alone.float().mean(dim=-1).sum(dim=-1)


def of_all_heads(heads, owners, facts):
    return sum(F.cross_entropy(each, facts) for each in heads) / 3


def summed(heads, owners, facts):
    return len(facts) * nb15.penalty(heads, owners, facts)


ANSWERS = [
    ("15.1", nb15.logit_terms, "solved"),
    ("15.1", lambda x1, x2, *more: nb15.logit_terms(x2, x1, *more), "not yet"),
    ("15.1", lambda x1, x2, a, *W: nb15.logit_terms(x1, x2, 1 - a, *W), "not yet"),
    ("15.1", lambda *given: nb15.logit_terms(*given)[1:], "not yet"),
    ("15.1", lambda *given: nb15.logit_terms(*given).flip(0), "not yet"),
    ("15.1", lambda *given: nb15.logit_terms(*given).sum(dim=0), "not yet"),
    ("15.2", lambda alone: list(nb15.coverage(alone)), "solved"),
    ("15.2", counted_twice, "not yet"),
    ("15.2", added_shares, "not yet"),
    ("15.2", lambda alone: nb15.coverage(alone)[::-1], "not yet"),
    ("15.2", lambda alone: nb15.coverage(alone)[0], "not yet"),
    ("15.3", [[1, 0, 0], [4, 5, 0], [2, 0, 4]], "solved"),
    ("15.3", torch.tensor([[1, 0, 0], [4, 5, 0], [2, 0, 4]]) / 10, "solved"),
    ("15.3", [[1, 0, 0], [4, 5, 0], [2, 0, 8]], "not yet"),  # together they say C
    ("15.3", [[0, 1, 0], [4, 5, 0], [4, 0, 4.5]], "not yet"),  # head 0 is wrong
    ("15.3", [[3, 0, 0], [4, 5, 0], [0, 0, 4]], "not yet"),  # not needed
    ("15.3", [[1, 0, 0], [5, 4, 0], [2, 0, 4]], "not yet"),  # head 1 knows it
    ("15.3", [[1, 0, 0], [4, 5, 0], [2, 0, 3]], "not yet"),  # a tie without head 1
    ("15.4", lambda heads, owners, facts: F.cross_entropy(heads.sum(dim=0), facts), "not yet"),
    ("15.4", of_all_heads, "not yet"),
    ("15.4", summed, "not yet"),
]


@pytest.mark.parametrize(("number", "answer", "expected"), ANSWERS)
def test_an_answer_is_judged(verdict, number, answer, expected):
    assert verdict(number, answer) == expected
