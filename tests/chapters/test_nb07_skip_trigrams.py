"""Notebook 07: skip-trigrams from the weights of a head are those of brute force."""

import pytest
import torch

from aot_helpers.models.protocol import Head
from aot_helpers.reading import factored as lowrank
from aot_helpers.reading.circuits import full_ov, full_qk
from aot_helpers.reading.factored import FactoredMatrix
from chapters.nb07_one_layer_skip_trigrams.skip_trigrams import skip_trigrams, top_triples

close = torch.testing.assert_close


def low_rank(rows, rank, columns, seed=0):
    draw = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, rank, generator=draw)
    return FactoredMatrix(left, torch.randn(rank, columns, generator=draw))


def brute_force(qk, ov, k, context):
    """Every triple, [destination, source, out]: its value, and the k largest above 0."""
    scores, logits = qk.dense().double(), ov.dense().double()
    rivals = scores[:, context].exp().sum(dim=1, keepdim=True)
    attention = scores.exp() / (scores.exp() + rivals)
    boost = logits - logits.mean(dim=1, keepdim=True)
    value = attention[:, :, None] * boost[None]
    largest = value.flatten().sort(descending=True).values
    return attention, boost, value, largest[largest > 0][:k].float()


@pytest.mark.parametrize("k", [1, 2, 5, 30, 200, 5000])
@pytest.mark.parametrize("seed", range(4))
def test_top_triples_are_those_of_brute_force(k, seed, monkeypatch):
    qk, ov = low_rank(13, 3, 13, seed), low_rank(13, 2, 13, seed + 10)
    context = torch.tensor([3, 1, 3, 8])
    attention, boost, value, largest = brute_force(qk, ov, k, context)
    for rows in (1000, 1, 4):
        monkeypatch.setattr(lowrank, "BLOCK_ENTRIES", 13 * rows)
        found = top_triples(qk, ov, k, context)
        source, destination, out = found[:3]
        close(found.value, largest, atol=1e-5, rtol=1e-5)
        close(found.value, value[destination, source, out].float(), atol=1e-5, rtol=1e-5)
        close(found.attention, attention[destination, source].float(), atol=1e-5, rtol=1e-5)
        close(found.boost, boost[source, out].float(), atol=1e-5, rtol=1e-5)
        triples = set(zip(source.tolist(), destination.tolist(), out.tolist(), strict=True))
        assert len(triples) == len(largest)


@pytest.mark.parametrize("k", [3, 20, 400])
def test_ties_and_heads_that_do_little_are_counted_right(k):
    context = torch.tensor([0])
    same = FactoredMatrix(torch.zeros(6, 1), torch.zeros(1, 6))  # equal scores everywhere
    some = FactoredMatrix(torch.ones(6, 1), torch.tensor([[1.0, 1.0, 0.0, 0.0, -1.0, -1.0]]))
    one = FactoredMatrix(torch.eye(6)[:, 2:3], some.B)  # only one source raises anything
    for ov in (some, one):
        close(top_triples(same, ov, k, context).value, brute_force(same, ov, k, context)[3])
    assert len(top_triples(same, same, k, context).value) == 0


def test_the_strongest_triples_may_each_have_a_source_of_their_own():
    qk = FactoredMatrix(torch.diag(torch.tensor([8.0, 9, 10, 11, 12, 13])), torch.eye(6))
    ov, context = FactoredMatrix(torch.eye(6), torch.eye(6)), torch.tensor([0, 0])
    found = top_triples(qk, ov, 5, context)
    close(found.value, brute_force(qk, ov, 5, context)[3])
    for tokens in (found.source, found.destination, found.out):
        assert sorted(tokens.tolist()) == [1, 2, 3, 4, 5]


def test_skip_trigrams_of_a_model_are_those_of_its_full_circuits(make_model):
    model, context = make_model(n_layers=1), torch.tensor([1, 2, 3, 4])
    found = skip_trigrams(model, Head(0, 1), 7, context)
    qk, ov = full_qk(model, Head(0, 1)), full_ov(model, Head(0, 1))
    close(found.value, brute_force(qk, ov, 7, context)[3], atol=1e-5, rtol=1e-5)


def test_skip_trigrams_never_hold_more_than_blocks(monkeypatch):
    made = []

    def count(self, whole=FactoredMatrix.row_blocks):
        for start, part in whole(self):
            made.append(part.numel())
            yield start, part

    monkeypatch.setattr(FactoredMatrix, "row_blocks", count)
    monkeypatch.setattr(FactoredMatrix, "dense", lambda self: pytest.fail("built the whole matrix"))
    n = 20_000
    qk, ov = low_rank(n, 2, n), low_rank(n, 2, n, seed=1)
    found = top_triples(qk, ov, 10, torch.arange(50))
    assert len(found.value) == 10 and max(made) <= lowrank.BLOCK_ENTRIES < n * n / 90
    score = qk.entries(found.destination, found.source)
    rival = qk.columns(torch.arange(50))[found.destination].logsumexp(dim=1)
    close(found.attention, (score - rival).sigmoid(), atol=1e-4, rtol=1e-4)
    close(found.boost, ov.centered_columns().entries(found.source, found.out), atol=1e-4, rtol=1e-4)


def test_what_gives_no_triples_is_refused():
    qk = low_rank(13, 3, 13)
    for ov, k, context, said in (
        (qk, 0, [1], "k must be .*>= 1, got 0"),
        (qk, 1, [], "context .*got none"),
        (qk, 1, [13], "no token 13: ids are 0 … 12"),
        (qk, 1, [-1, 2], "no token -1: ids are 0 … 12"),
        (low_rank(12, 3, 13), 1, [1], r"got \(13, 13\) and \(12, 13\)"),
    ):
        with pytest.raises(ValueError, match=said):
            top_triples(qk, ov, k, torch.tensor(context, dtype=torch.long))
