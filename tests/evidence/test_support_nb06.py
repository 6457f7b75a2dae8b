"""Evidence of notebook 06: a random Markov chain, a model of two matrices, tables that agree."""

import pytest
import torch

from evidence.support import nb06 as support

pytestmark = pytest.mark.usefixtures("seeded")


def test_the_chain_is_stationary_and_its_entropies_are_those_of_its_samples():
    chain = support.markov_chain(20, seed=3)
    assert torch.allclose(chain.P.sum(dim=1), torch.ones(20))
    assert torch.allclose(chain.stationary @ chain.P, chain.stationary, atol=1e-5)
    assert (chain.P[:, 0] == 0).all()  # BOS never returns
    tokens = chain.sample(20_000, seed=1)
    share = torch.bincount(tokens, minlength=20) / len(tokens)
    assert torch.allclose(share, chain.stationary, atol=0.02)
    log_probs = chain.P[tokens[:-1], tokens[1:]].log()
    assert -log_probs.mean().item() == pytest.approx(chain.entropy, abs=0.04)
    assert -chain.stationary[tokens].log().mean().item() == pytest.approx(
        chain.unigram_entropy, abs=0.04
    )
    assert chain.entropy < chain.unigram_entropy
    assert torch.equal(chain.sample(100, seed=1), tokens[:100])


def test_a_chain_of_two_tokens_is_refused():
    with pytest.raises(ValueError, match="d_vocab must be a whole number >= 3, got 2"):
        support.markov_chain(2, seed=0)


def test_a_trained_product_comes_near_the_entropy_and_a_narrow_one_less():
    chain = support.markov_chain(12, seed=0)
    stream = chain.sample(20_000)
    full, narrow = (support.train_pairs(stream, 12, d, steps=300) for d in (12, 1))
    assert [each.shape for each in narrow] == [(12, 1), (1, 12)]
    off = [chain.expected_loss(W_E @ W_U) - chain.entropy for W_E, W_U in (full, narrow)]
    assert 0 <= off[0] < 0.05 and off[1] > off[0] + 0.1
    again = support.train_pairs(stream, 12, 12, steps=300)
    assert torch.equal(full[0], again[0]) and not full[0].requires_grad


def test_a_tied_product_is_symmetric():
    stream = support.markov_chain(12, seed=0).sample(5_000)
    W_E, W_U = support.train_pairs(stream, 12, 12, steps=50, tied=True)
    assert torch.equal(W_U, W_E.T) and not W_U.requires_grad


def test_pairs_unlike_chance_are_found_on_both_sides_and_none_with_a_missing_letter():
    share = torch.tensor([[2.0, 8, 0], [8, 2, 0], [0, 0, 0]]).double() / 20  # chance: 5 of 20 each
    more, fewer = support.unlike_chance(share)
    assert not more.any() and fewer.tolist() == [
        [True, False, False],
        [False, True, False],
        [False] * 3,
    ]
    share = torch.tensor([[0.0, 3], [3, 14]]).double() / 20  # chance: 0.45, 2.55, 2.55, 14.45
    more, fewer = support.unlike_chance(share)
    assert not more.any() and fewer.tolist() == [[True, False], [False, False]]
    share = torch.tensor([[3.0, 0], [0, 17]]).double() / 20  # chance of the first: 0.45
    more, fewer = support.unlike_chance(share)
    assert more.tolist() == [[True, False], [False, False]]
    assert fewer.tolist() == [[False, True], [True, False]]


def test_a_pair_is_kept_from_half_of_the_way_on():
    share = torch.tensor([[0.1, 0.4], [0.4, 0.1]]).double()  # after 0: 1 has 0.8, by chance 0.5
    for p, kept in ((0.64, False), (0.66, True), (0.9, True), (0.4, False)):
        table = torch.tensor([[1 - p, p], [p, 1 - p]]).log()
        assert (support.at_least_half_way(table, share) == kept).all()


def test_a_rule_is_held_against_the_pairs_that_break_it():
    kind = torch.tensor([True, True, False])
    more = torch.tensor([[0, 1, 1], [0, 0, 1], [1, 0, 0]]).bool()  # one within a kind, three across
    fewer = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 1, 0]]).bool()  # two within a kind, one across
    found = torch.tensor([[1, 1, 1], [0, 0, 1], [0, 0, 0]]).bool()
    # With the rule: three across, two within, of which three are found; against: one of two.
    got = support.more_with_the_rule(found, more, fewer, kind)
    assert got == pytest.approx(3 / 5 - 1 / 2)


def test_correlation_ignores_what_is_added_to_a_row_and_pairs_left_out():
    table, keep = torch.randn(6, 6), torch.rand(6, 6) > 0.3
    keep = support.kept(keep.float(), least=1)
    assert not keep[0].any() and (keep.sum(dim=1) != 1).all()
    other = 3 * table + torch.randn(6, 1)
    other[~keep] = 99.0
    assert support.correlation(table, other, keep) == pytest.approx(1, abs=1e-6)
    assert support.centered(table, keep).sum() == pytest.approx(0, abs=1e-5)


def test_a_cut_is_the_svd_where_weights_are_equal_and_better_where_they_are_large():
    table, alike = torch.randn(7, 7).double(), torch.ones(7)
    W_E, W_U = support.factor(table, 2)
    assert torch.allclose(
        support.cut_by_frequency(table, alike, 3 * alike, 2), W_E @ W_U, atol=1e-6
    )
    rows, columns = torch.rand(7), torch.rand(7)
    weights = rows[:, None] * columns
    cut = support.cut_by_frequency(table, rows, columns, 2)
    errors = []
    for each in (cut, W_E @ W_U):  # up to a constant for each row, which is free
        off = table - each
        off = off - (off * columns).sum(dim=1, keepdim=True) / columns.sum()
        errors.append((weights * off**2).sum())
    assert errors[0] < errors[1] and torch.linalg.matrix_rank(cut) == 2
