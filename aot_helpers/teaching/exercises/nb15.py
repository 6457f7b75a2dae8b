"""The exercises of notebook 15: a penalty for owners, chance, and what a sum of heads says."""

import torch
import torch.nn.functional as F

from aot_helpers.teaching.exercises.references import against, draw, read_numbers


def _penalty(from_heads, owners, facts):
    return F.cross_entropy(from_heads[owners, torch.arange(len(facts))], facts)


MISTAKES = {
    "You sum the heads: that asks the whole. Take the logits of each fact's owner only.": (
        lambda from_heads, owners, facts: F.cross_entropy(from_heads.sum(dim=0), facts)
    ),
    "You ask every head for every fact. Take the logits of each fact's owner only.": (
        lambda from_heads, owners, facts: F.cross_entropy(
            from_heads.flatten(0, 1), facts.repeat(len(from_heads))
        )
    ),
    "You sum over the facts; take their mean.": (lambda *given: len(given[-1]) * _penalty(*given)),
}

COVER_MISTAKES = {
    "You add the shares: facts that two heads know are counted twice. Ask which facts all miss.": (
        lambda accuracies: accuracies.sum()
    ),
    "The sum, cut at 1, still counts facts twice that two heads know. Ask which facts all miss.": (
        lambda accuracies: accuracies.sum().clamp(max=1)
    ),
    "This is the share that every head knows; one head is enough. Ask which facts all miss.": (
        lambda accuracies: accuracies.prod()
    ),
    "This is the share that all heads miss. The rest is covered.": (
        lambda accuracies: (1 - accuracies).prod()
    ),
    "This is what the best head knows; the others know some of the rest.": (
        lambda accuracies: accuracies.max()
    ),
    "You take the same share for each head. Multiply what each one misses.": (
        lambda accuracies: 1 - (1 - accuracies.mean()) ** len(accuracies)
    ),
}


def _team(n_heads, n_pairs, d_vocab, seed):
    """Logits of heads, the owners of the pairs and their facts."""
    from_heads = draw(n_heads, n_pairs, d_vocab, seed=seed)
    owners = draw(n_pairs, n_heads, seed=seed + 1).argmax(dim=1)
    return from_heads, owners, draw(n_pairs, d_vocab, seed=seed + 2).argmax(dim=1)


def _votes(answer):
    if answer is ...:
        return None
    votes, problem = read_numbers(answer, 3, 3)
    if problem:
        return problem
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
            return f"{name}: {numbers.tolist()} is a tie; let one word win."
        word = "ABC"[numbers.argmax()]
        if (word == "A") is ("1" in name):
            should = "should not" if word == "A" else "should"
            return f"{name}: {numbers.tolist()} says {word}; it {should} say A."
    return ""


CHECKS = {
    "15.1": against(_penalty, [_team(3, 25, 5, 0), _team(2, 9, 3, 5)], MISTAKES),
    "15.2": against(
        lambda accuracies: 1 - (1 - accuracies).prod(),
        [(torch.tensor([0.4, 0.3, 0.2]),), (torch.tensor([1.0, 0.5]),), (torch.tensor([0.25]),)],
        COVER_MISTAKES,
    ),
    "15.3": _votes,
}
