"""Notebook 06: a random Markov chain and its exact entropies."""

import pytest
import torch

from chapters.nb06_zero_layers_bigrams.markov import markov_chain


def test_the_chain_is_stationary_and_its_entropies_are_those_of_its_samples():
    chain = markov_chain(20, seed=3)
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


def test_impossible_chains_say_so():
    with pytest.raises(ValueError, match="d_vocab >= 3.*got 2"):
        markov_chain(2)
    with pytest.raises(ValueError, match="concentration > 0.*-1"):
        markov_chain(5, concentration=-1)
