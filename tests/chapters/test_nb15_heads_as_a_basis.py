"""Notebook 15: its figures and exercises, against what its evidence measures."""

import re

import pytest
import torch
import torch.nn.functional as F

from chapters.nb15_heads_as_a_basis import exercises as nb15
from chapters.nb15_heads_as_a_basis import figures
from chapters.torus import networks as torus
from chapters.torus.networks import init_nets
from chapters.torus.runs import list_runs, targets
from evidence.support import nb15 as support
from figure_checks import check_figures

NETS, FACTS = init_nets([0, 1]), targets("random", [0, 1])
WHOLE = torus.logits(NETS, *torus.pairs(NETS))


def test_chance_of_the_tour_is_the_mean_of_lots():
    answers = torch.rand(40, 3, 25, generator=torch.Generator().manual_seed(0)) < 0.4
    lot = 25 * support.permuted_mean(answers, support.covered, n_draws=400)
    assert (lot - nb15.by_chance(answers)).abs().max() < 0.5


def test_a_loss_without_heads_is_that_of_the_facts_of_the_others():
    heads, own = support.terms(NETS)
    owners = list_runs()["specialists"].owners()[:2]
    owns = F.one_hot(owners, 3).transpose(1, 2).bool()
    by_hand = [
        -(WHOLE[0] - heads[0, head])[pair].log_softmax(dim=-1)[FACTS[0, pair]]
        for head in range(3)
        for pair in range(25)
        if owners[0, pair] != head
    ]
    found = nb15.ask_without(torch.cat([own[:, None], heads], dim=1), owns, FACTS)
    assert found.shape == (2,)
    assert found[0] == pytest.approx(torch.stack(by_hand).mean().item(), abs=1e-4)


# ---- figures and exercises ----


def test_figures_can_be_read():
    facts = torch.arange(25) % 5
    words, owners = torch.arange(75).view(3, 25) % 5, torch.arange(25) % 3
    owns = owners == torch.arange(3)[:, None]
    check_figures(
        figures.hoped(facts, owners, "a"),
        figures.said(facts, words, facts, "a"),
        figures.said(facts, words, facts, "a", ["AB", "CD", "E"]),
        figures.covered(torch.linspace(12, 25, 20), torch.linspace(13, 21, 20), "a"),
        figures.sum_of_terms(torch.linspace(-20, 20, 20).view(4, 5), "a"),
        figures.sum_of_terms(torch.linspace(-20, 20, 20).view(4, 5), "a", [[1], [0, 2]]),
        figures.lost({"a": words < 2, "b": owns}, owns, facts, "a"),
    )


def test_the_tables_lie_as_the_map_does():
    facts = torch.arange(25) % 5  # the next word is the second word
    for axis in figures.hoped(facts, 0 * facts, "a").axes[:2]:
        for letter in axis.texts:
            across, up = map(round, letter.get_position())
            assert letter.get_text() == "ABCDE"[up]
            assert facts[5 * across + up] == up
        assert (axis.get_xlabel(), axis.get_ylabel()) == ("first word", "second word")
        assert axis.get_ylim()[0] < axis.get_ylim()[1]


def test_a_sum_leaves_out_the_heads_that_are_named():
    terms = torch.tensor([[0.0, 0, 0, 0, 1], [5, 0, 0, 0, 0], [0, 9, 0, 0, 0], [0, 0, 7, 0, 0]])
    axis = figures.sum_of_terms(terms, "a", without=[[1], [0, 2], [0, 1, 2]]).axes[0]
    says = [label.get_text().split(" says ")[-1] for label in axis.get_yticklabels()]
    assert says == list("EABC" + "B" + "CBE")


def left_out(terms):
    return terms.sum(dim=1, keepdim=True) - terms[:, 1:]


def asked(chosen, logits, facts):
    badly = -(logits.log_softmax(dim=-1) * F.one_hot(facts[:, None], logits.shape[-1])).sum(dim=-1)
    return (badly * chosen).sum(dim=(1, 2)) / chosen.sum(dim=(1, 2))


ANSWERS = [
    ("15.1", lambda alone: alone.float().sum(dim=(-2, -1)), "not yet"),
    ("15.1", lambda alone: nb15.by_chance(alone) / alone.shape[-1], "not yet"),
    ("15.1", lambda alone: alone.shape[-1] - nb15.by_chance(alone), "not yet"),
    ("15.1", lambda alone: alone.any(dim=-2).float().sum(dim=-1), "not yet"),
    ("15.2", [[1, 0, 0], [4, 5, 0], [2, 0, 4]], "solved"),
    ("15.2", torch.tensor([[1, 0, 0], [4, 5, 0], [2, 0, 4]]) / 10, "solved"),
    ("15.2", [[1, 0, 0], [4, 5, 0], [2, 0, 8]], "not yet"),  # together they say C
    ("15.2", [[0, 1, 0], [4, 5, 0], [4, 0, 4.5]], "not yet"),  # head 0 is wrong
    ("15.2", [[3, 0, 0], [4, 5, 0], [0, 0, 4]], "not yet"),  # not needed
    ("15.2", [[1, 0, 0], [5, 4, 0], [2, 0, 4]], "not yet"),  # head 1 knows it
    ("15.2", [[1, 0, 0], [4, 5, 0], [2, 0, 3]], "not yet"),  # a tie without head 1
    ("15.3", lambda terms, owns, facts: asked(~owns, left_out(terms), facts), "solved"),
    ("15.3", lambda terms, owns, facts: asked(owns | True, left_out(terms), facts), "not yet"),
    ("15.3", lambda terms, owns, facts: asked(owns, left_out(terms), facts), "not yet"),
    ("15.3", lambda terms, owns, facts: asked(~owns, terms[:, 1:], facts), "not yet"),
    ("15.3", lambda *given: nb15.ask_without(*given).mean(), "not yet"),
]


@pytest.mark.parametrize("said", nb15.WITHOUT_MISTAKES)
def test_a_mistake_with_removable_heads_is_named(said):
    with pytest.raises(nb15.NotYet, match=re.escape(said)):
        nb15.CHECKS["15.3"](nb15.WITHOUT_MISTAKES[said])
