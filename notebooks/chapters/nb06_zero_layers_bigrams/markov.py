"""A Markov chain over words, whose entropies are known exactly."""

import bisect
import random
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class MarkovChain:
    """A corpus of bigrams and nothing else: each token depends on the one before it alone.

    P [token, next token] are probabilities; each row adds up to 1. Token 0 begins a text (BOS): it
    never returns, and its row is the chain's stationary distribution, so that every later token is
    distributed alike. Entropies are exact, in nats.
    """

    P: Float[Tensor, "d_vocab d_vocab"]

    @property
    def stationary(self) -> Float[Tensor, " d_vocab"]:
        """How often each token occurs."""
        return self.P[0]

    @property
    def entropy(self) -> float:
        """Of the next token given the present one: the loss of a perfect bigram table."""
        return float((self.stationary[:, None] * -torch.xlogy(self.P, self.P)).sum())

    @property
    def unigram_entropy(self) -> float:
        """Of a token about which nothing is known."""
        return float(-torch.xlogy(self.stationary, self.stationary).sum())

    def expected_loss(self, table: Float[Tensor, "d_vocab d_vocab"]) -> float:
        """Loss (nats per token) of a table of logits on endless new text of this chain."""
        pairs = self.stationary.double()[:, None] * self.P.double()
        return float(-(pairs * table.double().log_softmax(dim=-1)).sum())

    def sample(self, n_tokens: int, seed: int = 0) -> Int[Tensor, " n_tokens"]:
        """One text of n_tokens, without BOS."""
        generator = torch.Generator().manual_seed(seed)
        at = torch.rand(n_tokens, generator=generator, dtype=torch.float64).tolist()
        rows, tokens, token = self.P.double().cumsum(dim=1).tolist(), [], 0
        for uniform in at:
            token = min(bisect.bisect_right(rows[token], uniform), len(rows) - 1)
            tokens.append(token)
        return torch.tensor(tokens)


def markov_chain(d_vocab: int = 64, concentration: float = 0.1, seed: int = 0) -> MarkovChain:
    """A random chain; each row is Dirichlet: the smaller the concentration, the fewer successors.

    Raises ValueError for fewer than 3 tokens or a concentration that is not above 0.
    """
    if d_vocab < 3 or not concentration > 0:
        raise ValueError(
            f"need d_vocab >= 3 and concentration > 0, got {d_vocab} and {concentration}"
        )
    rng = random.Random(seed)
    n = d_vocab - 1  # without BOS
    draws = [[rng.gammavariate(concentration, 1) + 1e-6 for _ in range(n)] for _ in range(n)]
    P = torch.tensor(draws, dtype=torch.float64)
    P = P / P.sum(dim=1, keepdim=True)
    # The stationary distribution solves π P = π, Σ π = 1.
    equations = torch.cat([P.T - torch.eye(n, dtype=torch.float64), torch.ones(1, n)])
    right = torch.cat([torch.zeros(n, dtype=torch.float64), torch.ones(1, dtype=torch.float64)])
    stationary = torch.linalg.lstsq(equations, right[:, None]).solution[:, 0].clamp(min=0)
    whole = torch.zeros(d_vocab, d_vocab, dtype=torch.float64)
    whole[1:, 1:], whole[0, 1:] = P, stationary / stationary.sum()
    return MarkovChain(whole.float())
