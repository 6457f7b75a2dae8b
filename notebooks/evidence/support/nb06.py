"""Evidence of notebook 06: a Markov chain with known entropies, and how well two tables agree."""

import bisect
import random
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from aot_helpers.base.errors import check_whole

Table = Float[Tensor, "present next"]


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


def markov_chain(d_vocab: int, seed: int) -> MarkovChain:
    """A random chain, in which a token has few likely successors: each row is Dirichlet(0.1).

    Raises ValueError for fewer than 3 tokens.
    """
    check_whole("d_vocab", d_vocab, 3)
    rng = random.Random(seed)
    n = d_vocab - 1  # without BOS
    draws = [[rng.gammavariate(0.1, 1) + 1e-6 for _ in range(n)] for _ in range(n)]
    P = torch.tensor(draws, dtype=torch.float64)
    P = P / P.sum(dim=1, keepdim=True)
    # The stationary distribution solves π P = π, Σ π = 1.
    equations = torch.cat([P.T - torch.eye(n, dtype=torch.float64), torch.ones(1, n)])
    right = torch.cat([torch.zeros(n, dtype=torch.float64), torch.ones(1, dtype=torch.float64)])
    stationary = torch.linalg.lstsq(equations, right[:, None]).solution[:, 0].clamp(min=0)
    whole = torch.zeros(d_vocab, d_vocab, dtype=torch.float64)
    whole[1:, 1:], whole[0, 1:] = P, stationary / stationary.sum()
    return MarkovChain(whole.float())


def bigram_table(letters, n):
    """Log-probabilities [present, next], counted in a text; each pair has 0.5 more than its count.

    letters: numbers from 0 to n - 1.
    """
    counts = torch.full((n, n), 0.5)
    one = torch.tensor(1.0)
    counts.index_put_((letters[:-1], letters[1:]), one, accumulate=True)
    return (counts / counts.sum(dim=1, keepdim=True)).log()


def factor(table, r):
    """W_E [n, r] and W_U [r, n]: their product is nearest to the table, row means taken off."""
    centered = table - table.mean(dim=1, keepdim=True)
    U, S, Vh = torch.linalg.svd(centered)
    return U[:, :r] * S[:r], Vh[:r]


def train_pairs(
    stream: Int[Tensor, " n"],
    d_vocab: int,
    d_model: int,
    steps: int = 500,
    seed: int = 0,
    tied: bool = False,
) -> tuple[Float[Tensor, "d_vocab d_model"], Float[Tensor, "d_model d_vocab"]]:
    """W_E and W_U of a model without layers, trained on pairs drawn from a text.

    Adam on 2,000 pairs a step; its learning rate falls from 0.05 to 0. tied: W_U is W_E turned.
    """
    dice = torch.Generator().manual_seed(seed)
    W_E = 0.1 * torch.randn(d_vocab, d_model, generator=dice)
    W_U = W_E.T if tied else 0.1 * torch.randn(d_model, d_vocab, generator=dice)
    with torch.enable_grad():
        W_E.requires_grad_()
        W_U = W_E.T if tied else W_U.requires_grad_()
        optimizer = torch.optim.Adam([W_E] if tied else [W_E, W_U])
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = 0.05 * (1 - step / steps)
            at = torch.randint(len(stream) - 1, (2000,), generator=dice)
            loss = cross_entropy(W_E[stream[at]] @ W_U, stream[at + 1])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return W_E.detach(), W_U.detach()


def cut_by_frequency(
    log_table: Table, rows: Float[Tensor, " present"], columns: Float[Tensor, " next"], rank: int
) -> Table:
    """The table of a rank that is nearest by squared error, row means taken off.

    An entry weighs its row's weight times its column's; with equal ones it is the truncated SVD.
    """
    rows, columns = rows.double(), columns.double()
    centered = log_table.double()
    centered = centered - (centered * columns).sum(dim=1, keepdim=True) / columns.sum()
    left, right = (each.clamp(min=1e-12).sqrt() for each in (rows[:, None], columns))
    U, S, Vh = torch.linalg.svd(left * centered * right)
    return (U[:, :rank] * S[:rank]) @ Vh[:rank] / left / right


def unlike_chance(
    share: Table,
) -> tuple[Bool[Tensor, "present next"], Bool[Tensor, "present next"]]:
    """Pairs at least twice as frequent as their letters suggest, and those at most half so.

    share: of each pair in a text. Pairs with a letter that never occurs are in neither.
    """
    frequency = share.sum(dim=1)
    chance = frequency[:, None] * frequency
    return (share >= 2 * chance) & (chance > 0), (share <= chance / 2) & (chance > 0)


def at_least_half_way(table: Table, share: Table) -> Bool[Tensor, "present next"]:
    """True where a table of logits has come at least half of the way from chance to the text.

    The way leads from the frequency of the next letter to its probability after the present one.
    """
    frequency = share.sum(dim=1)
    way = share / frequency[:, None] - frequency
    return (table.double().softmax(dim=-1) - frequency) / way >= 0.5


def more_with_the_rule(
    found: Bool[Tensor, "present next"],
    more: Bool[Tensor, "present next"],
    fewer: Bool[Tensor, "present next"],
    kind: Bool[Tensor, " sign"],
) -> float:
    """Share found of the pairs that follow a rule, less that of the pairs against it.

    The rule: the signs of a kind take turns with the others. So by it pairs across are more
    frequent than chance, and pairs within a kind fewer.
    """
    across = kind[:, None] != kind
    follow, against = (across & more) | (~across & fewer), (~across & more) | (across & fewer)
    return (found[follow].double().mean() - found[against].double().mean()).item()


def kept(occurrences: Float[Tensor, "row next"], least: float) -> Bool[Tensor, "row next"]:
    """True for pairs with enough occurrences, in rows that have two of them or more.

    Row 0, the token that marks the beginning, is left out.
    """
    keep = occurrences >= least
    keep[0] = False
    return keep & (keep.sum(dim=1, keepdim=True) > 1)


def centered(
    table: Float[Tensor, "row next"], keep: Bool[Tensor, "row next"]
) -> Float[Tensor, " pair"]:
    """The kept entries, each minus the mean of the kept entries of its row."""
    n = keep.sum(dim=1, keepdim=True).clamp(min=1)
    return (table - (table * keep).sum(dim=1, keepdim=True) / n)[keep]


def correlation(
    table: Float[Tensor, "row next"],
    log_table: Float[Tensor, "row next"],
    keep: Bool[Tensor, "row next"],
) -> Float[Tensor, ""]:
    """Correlation of two tables over the kept entries, row means taken off."""
    both = [centered(each.double(), keep) for each in (table, log_table)]
    return torch.corrcoef(torch.stack(both))[0, 1]
