"""The exercises of notebook 15: a head alone, coverage and chance, votes, assigned heads."""

import math

import torch
import torch.nn.functional as F

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, read_numbers


def head_alone(x, W_Q, W_K, W_V, W_O, W_U):
    """Logits [pair, word] of one head, without the others and the residual connection.

    x: what all heads read, [pair, pos, d_model], of two positions.
    """
    query, keys, values = x[:, 1] @ W_Q, x @ W_K, x @ W_V
    scores = (keys @ query[:, :, None])[..., 0] / math.sqrt(W_Q.shape[-1])
    pattern = scores.softmax(dim=-1)
    z = (pattern[:, :, None] * values).sum(dim=1)
    return z @ W_O @ W_U


def _mistaken(query_at=1, root=True, over=-1, residual=False):
    """`head_alone` with something changed."""

    def head(x, W_Q, W_K, W_V, W_O, W_U):
        scores = (x @ W_K @ (x[:, query_at] @ W_Q)[:, :, None])[..., 0]
        scores = scores / (math.sqrt(W_Q.shape[-1]) if root else 1)
        z = (scores.softmax(dim=over)[:, :, None] * (x @ W_V)).sum(dim=1)
        return (z @ W_O + (x[:, 1] if residual else 0)) @ W_U

    return head


HEAD_MISTAKES = {
    "The query comes from the second word, x[:, 1]: that is where the prediction is made.": (
        _mistaken(query_at=0)
    ),
    "Divide the scores by the square root of d_head, W_Q.shape[-1].": _mistaken(root=False),
    "The softmax runs over the two positions, dim=-1, not over the pairs.": _mistaken(over=0),
    "You added x[:, 1], the residual connection. The head alone writes z @ W_O.": (
        _mistaken(residual=True)
    ),
}


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


def _head(n_pairs, d_head, d_vocab, seed):
    """What a head reads, its matrices and the unembedding."""
    shapes = (n_pairs, 2, 3), *[(3, d_head)] * 3, (d_head, 3), (3, d_vocab)
    return tuple(draw(*shape, seed=seed + k) for k, shape in enumerate(shapes))


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


PAGES = {"15.1": head_alone, "15.2": coverage, "15.4": penalty}
CHECKS = {
    "15.1": against(head_alone, [_head(7, 3, 5, 0), _head(4, 2, 3, 9)], HEAD_MISTAKES),
    "15.2": _coverage,
    "15.3": _votes,
    "15.4": against(penalty, [_example(3, 25, 5, 0), _example(2, 9, 3, 5)], PENALTY_MISTAKES),
}
