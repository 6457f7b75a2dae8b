"""The exercises of notebook 15: terms of the logits, coverage and chance, votes, assigned heads."""

import torch
import torch.nn.functional as F

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, read_numbers


def logit_terms(x1, x2, weights, W_V, W_O, W_U):
    """The logits [1 + head, pair, word] of the residual connection and of each head alone.

    x1, x2: the two words, [pair, 3]; weights: the heads' attention weights on the first word,
    [head, pair]; W_V, W_O: [head, 3, 3].
    """
    a = weights[..., None]
    heads = (a * x1 + (1 - a) * x2) @ W_V @ W_O @ W_U
    return torch.cat([(x2 @ W_U)[None], heads])


def _with_residual(x1, x2, *more):
    terms = logit_terms(x1, x2, *more)
    return torch.cat([terms[:1], terms[1:] + terms[:1]])


TERM_MISTAKES = {
    "The attention weight on the first word multiplies x1, and 1 minus it multiplies x2.": (
        lambda x1, x2, weights, *W: logit_terms(x1, x2, 1 - weights, *W)
    ),
    "The residual connection is the second word, x2: that is where the prediction is made.": (
        lambda x1, x2, *more: torch.cat(
            [logit_terms(x2, x1, *more)[:1], logit_terms(x1, x2, *more)[1:]]
        )
    ),
    "The residual connection is a term of its own: do not add it to the heads.": _with_residual,
    "The first term, the residual connection, is missing.": lambda *all: logit_terms(*all)[1:],
    "The residual connection comes first, and the heads after it.": (
        lambda *all: logit_terms(*all).roll(-1, dims=0)
    ),
    "These are the heads' sum and not their terms: keep the dimension of the heads.": (
        lambda *all: torch.stack([logit_terms(*all)[0], logit_terms(*all)[1:].sum(dim=0)])
    ),
}


def _terms(answer):
    against(logit_terms, [_network(3, 25, 5, 0), _network(2, 7, 4, 9)], TERM_MISTAKES)(answer)
    return "the four terms add up to the logits of the network, so each can be asked alone"


def coverage(alone):
    """(share of the facts that some head knows alone, the same by chance), each [...].

    alone: [..., head, fact], whether a head alone is right.
    """
    accuracy = alone.float().mean(dim=-1)  # [..., head]
    return alone.any(dim=-2).float().mean(dim=-1), 1 - (1 - accuracy).prod(dim=-1)


# What each says of an answer (covered, chance) that is made of `alone` and the heads' accuracies.
COVERAGE_MISTAKES = {
    "`covered` counts facts twice that two heads know. Ask which facts any head knows.": (
        lambda alone, accuracy: (accuracy.sum(dim=-1), coverage(alone)[1])
    ),
    "`covered` is the share that every head knows; one head is enough.": (
        lambda alone, accuracy: (alone.all(dim=-2).float().mean(dim=-1), coverage(alone)[1])
    ),
    "`chance` adds the shares, and so counts facts twice that two heads know. Ask which facts all "
    "heads miss.": lambda alone, accuracy: (coverage(alone)[0], accuracy.sum(dim=-1)),
    "`chance` is the share that all heads miss. The rest is covered.": (
        lambda alone, accuracy: (coverage(alone)[0], (1 - accuracy).prod(dim=-1))
    ),
    "The two are exchanged: first what is covered, then chance.": (
        lambda alone, accuracy: coverage(alone)[::-1]
    ),
}


def _coverage(answer):
    if answer is ...:
        raise NotAttempted
    for alone in (draw(4, 3, 25) < -0.4, draw(3, 25, seed=1) < -0.2, draw(2, 2, 9, seed=2) < 0):
        given = attempted(answer(alone))
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise NotYet("Two things are wanted: return covered, chance.")
        given = [torch.as_tensor(each).double() for each in given]
        if any(each.shape != alone.shape[:-2] for each in given):
            shapes = ", ".join(str(list(each.shape)) for each in given)
            raise NotYet(
                f"For `alone` of the shape {list(alone.shape)} both should have the shape "
                f"{list(alone.shape[:-2])}; yours have {shapes}. Heads are dim -2, facts dim -1."
            )
        right, accuracy = coverage(alone), alone.float().mean(dim=-1)
        if not _close(given, right):
            wrong = (
                said
                for said, mistake in COVERAGE_MISTAKES.items()
                if _close(given, mistake(alone, accuracy))
            )
            right = [each.tolist() for each in right]
            raise NotYet(next(wrong, f"For the same heads expected {right}, got {given}."))
    return "the chance level is exact, because heads are permuted independently"


def _close(given, expected) -> bool:
    pairs = zip(given, expected, strict=True)
    return all(torch.allclose(one, other.double(), atol=1e-5) for one, other in pairs)


def penalty(from_heads, owners, facts):
    """The mean cross-entropy of what the assigned head of each fact answers alone."""
    return F.cross_entropy(from_heads[owners, torch.arange(len(facts))], facts)


PENALTY_MISTAKES = {
    "You sum the heads: that asks the whole. Take the logits of each fact's owner only.": (
        lambda from_heads, owners, facts: F.cross_entropy(from_heads.sum(dim=0), facts)
    ),
    "You ask every head for every fact. Take the logits of each fact's owner only.": (
        lambda from_heads, owners, facts: F.cross_entropy(
            from_heads.flatten(0, 1), facts.repeat(len(from_heads))
        )
    ),
    "You sum over the facts; take their mean.": (lambda *given: len(given[-1]) * penalty(*given)),
}


def _penalty(answer):
    against(penalty, [_example(3, 25, 5, 0), _example(2, 9, 3, 5)], PENALTY_MISTAKES)(answer)
    return "the penalty leaves open what a head says about facts that are not its own"


def _network(n_heads, n_pairs, d_vocab, seed):
    """Two words of each pair, attention weights, and the matrices of heads and unembedding."""
    x1, x2 = draw(2, n_pairs, 3, seed=seed)
    W_V, W_O = draw(2, n_heads, 3, 3, seed=seed + 1)
    weights = draw(n_heads, n_pairs, seed=seed + 2).sigmoid()
    return x1, x2, weights, W_V, W_O, draw(3, d_vocab, seed=seed + 3)


def _example(n_heads, n_pairs, d_vocab, seed):
    """Logits of heads, the assigned head of each pair and the facts."""
    from_heads = draw(n_heads, n_pairs, d_vocab, seed=seed)
    owners = draw(n_pairs, n_heads, seed=seed + 1).argmax(dim=1)
    return from_heads, owners, draw(n_pairs, d_vocab, seed=seed + 2).argmax(dim=1)


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


PAGES = {"15.1": logit_terms, "15.2": coverage, "15.4": penalty}
CHECKS = {
    "15.1": _terms,
    "15.2": _coverage,
    "15.3": _votes,
    "15.4": _penalty,
}
