"""The exercises of notebook 15: coverage by chance, votes, a loss that makes heads removable."""

import torch.nn.functional as F

from aot_helpers.teaching.exercises import NotAttempted, NotYet
from aot_helpers.teaching.exercises.references import against, draw, read_numbers


def by_chance(alone):
    """How many facts at least one head would know if its facts were at random places, [...].

    alone: [..., head, fact], whether a head alone is right.
    """
    missed = 1 - alone.float().mean(dim=-1)  # [..., head]
    return alone.shape[-1] * (1 - missed.prod(dim=-1))


def _shares(alone):
    return alone.float().mean(dim=-1)


CHANCE_MISTAKES = {
    "You add up what the heads know, and so count facts twice that two heads know. Ask which facts "
    "all heads miss.": lambda alone: alone.float().sum(dim=(-2, -1)),
    "These are the facts that all heads miss. The others are covered.": (
        lambda alone: alone.shape[-1] * (1 - _shares(alone)).prod(dim=-1)
    ),
    "These are the facts that every head knows; one head is enough.": (
        lambda alone: alone.shape[-1] * _shares(alone).prod(dim=-1)
    ),
    "This is a fraction. Multiply it by the number of facts.": (
        lambda alone: by_chance(alone) / alone.shape[-1]
    ),
    "These are the facts that the heads do cover. Ask how many it would be at random places.": (
        lambda alone: alone.any(dim=-2).float().sum(dim=-1)
    ),
}


def _by_chance(answer):
    trials = [(draw(4, 3, 25) < -0.4,), (draw(3, 25, seed=1) < -0.2,), (draw(2, 2, 9, seed=2) < 0,)]
    against(by_chance, trials, CHANCE_MISTAKES)(answer)
    return "exact, and no random number was drawn"


def _votes(answer):
    if answer is ...:
        raise NotAttempted
    votes = read_numbers(answer, 3, 3)
    said = {
        "All heads together": votes.sum(dim=0),
        "Head 0 alone": votes[0],
        "The whole without head 0": votes[1:].sum(dim=0),
        "Head 1 alone": votes[1],
        "The whole without head 1": votes[0] + votes[2],
    }
    for name, numbers in said.items():
        second, first = numbers.sort().values[1:].tolist()
        if first - second < 1e-5:
            raise NotYet(f"{name}: {numbers.tolist()} is a tie; let one word win.")
        word = "ABC"[numbers.argmax()]
        if (word == "A") is ("1" in name):
            should = "should not" if word == "A" else "should"
            raise NotYet(f"{name}: {numbers.tolist()} says {word}; it {should} say A.")
    return "a head can be needed for a fact that it gets wrong, and not for one that it knows"


def nats(logits, facts):
    """Cross-entropy of each fact: logits [..., fact, word], facts [..., fact] → [..., fact]."""
    return -(logits.log_softmax(dim=-1) * F.one_hot(facts, logits.shape[-1])).sum(dim=-1)


def _mean_over(chosen, badly):
    return (badly * chosen).sum(dim=(1, 2)) / chosen.sum(dim=(1, 2))


def _rest(terms):
    return terms.sum(dim=1, keepdim=True) - terms[:, 1:]


def ask_without(terms, owns, facts):
    """How badly networks without one head know the facts of the other heads, [net].

    terms: [net, 1 + head, fact, word]; owns: [net, head, fact]; facts: [net, fact].
    """
    return _mean_over(~owns, nats(_rest(terms), facts[:, None]))


WITHOUT_MISTAKES = {
    "You ask the network without a head for all facts, the head's own as well. Then no head would "
    "be needed for anything. Ask for the facts of the others.": (
        lambda terms, owns, facts: nats(_rest(terms), facts[:, None]).mean(dim=(1, 2))
    ),
    "You ask for the head's own facts. They are the ones that should go with it.": (
        lambda terms, owns, facts: _mean_over(owns, nats(_rest(terms), facts[:, None]))
    ),
    "You ask the head alone for the facts of the others. Take its term out of the sum of all.": (
        lambda terms, owns, facts: _mean_over(~owns, nats(terms[:, 1:], facts[:, None]))
    ),
    "You ask the whole network. Take each head's term out of the sum.": (
        lambda terms, owns, facts: _mean_over(
            ~owns, nats(terms.sum(dim=1, keepdim=True).expand_as(terms[:, 1:]), facts[:, None])
        )
    ),
    "The residual connection is missing: it stays when a head goes. Sum all four terms.": (
        lambda terms, owns, facts: _mean_over(
            ~owns, nats(_rest(terms) - terms[:, :1], facts[:, None])
        )
    ),
    "This is a sum over the facts; take their mean.": (
        lambda terms, owns, facts: (nats(_rest(terms), facts[:, None]) * ~owns).sum(dim=(1, 2))
    ),
    "You divide by the number of all facts of all heads. The mean is over those that are asked "
    "for: divide by their number.": (
        lambda terms, owns, facts: (nats(_rest(terms), facts[:, None]) * ~owns).mean(dim=(1, 2))
    ),
    "Keep the networks apart: one number for each, [net].": (
        lambda terms, owns, facts: ask_without(terms, owns, facts).mean()
    ),
}


def _without(answer):
    against(ask_without, [_example(2, 3, 25, 5, 0), _example(3, 2, 9, 5, 5)], WITHOUT_MISTAKES)(
        answer
    )
    return "now the network is asked to know the facts of the others without a head"


def _example(n_nets, n_heads, n_facts, d_vocab, seed):
    """Terms of some networks, which head each fact is assigned to, and the facts."""
    terms = draw(n_nets, 1 + n_heads, n_facts, d_vocab, seed=seed)
    owners = draw(n_nets, n_facts, n_heads, seed=seed + 1).argmax(dim=-1)
    owns = F.one_hot(owners, n_heads).transpose(1, 2).bool()
    return terms, owns, draw(n_nets, n_facts, d_vocab, seed=seed + 2).argmax(dim=-1)


PAGES = {"15.1": by_chance, "15.3": ask_without}
CHECKS = {"15.1": _by_chance, "15.2": _votes, "15.3": _without}
