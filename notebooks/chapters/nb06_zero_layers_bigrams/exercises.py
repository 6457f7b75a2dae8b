"""The exercises of notebook 06: a table of counts, two letters ahead, a small rank, a false word.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch
from torch import Tensor

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw, read_numbers

LEAST, RIVAL = 7, "whether"  # letters of the false word; the word that it must beat


def bigram_table(letters, n):
    """Log-probabilities [present, next], counted in a text; each pair has 0.5 more than its count.

    letters: numbers from 0 to n - 1.
    """
    counts = torch.full((n, n), 0.5)
    one = torch.tensor(1.0)
    counts.index_put_((letters[:-1], letters[1:]), one, accumulate=True)
    return (counts / counts.sum(dim=1, keepdim=True)).log()


def two_ahead(P):
    """Probabilities [present, the one after next] of a Markov chain; P: [present, next]."""
    return P @ P


def factor(table, r):
    """W_E [n, r] and W_U [r, n]: their product is nearest to the table, row means taken off."""
    centered = table - table.mean(dim=1, keepdim=True)
    U, S, Vh = torch.linalg.svd(centered)
    return U[:, :r] * S[:r], Vh[:r]


PAGES = {"06.1": bigram_table, "06.2": two_ahead, "06.3": factor}


def _logs(counts: Tensor, dim: int | tuple = 1) -> Tensor:
    return (counts / counts.sum(dim=dim, keepdim=True)).log()


def _bigram_table(answer):
    for n, seed in ((3, 0), (6, 1)):
        letters = (2 * draw(200, seed=seed)).round().abs().long() % n
        counts = torch.zeros(n, n)
        for present, following in zip(letters[:-1].tolist(), letters[1:].tolist(), strict=True):
            counts[present, following] += 1
        right, once = _logs(counts + 0.5), (counts > 0).float()
        mistakes = {
            "These are probabilities: their logarithms are wanted.": right.exp(),
            "These are counts: divide each row by its sum, then take the logarithm.": counts + 0.5,
            "These are logarithms of counts: divide each row by its sum first.": (
                counts + 0.5
            ).log(),
            "log_softmax takes logits, and these are counts: divide each row by its sum, then take "
            "the logarithm.": (counts + 0.5).log_softmax(dim=1),
            "Turned round: a row is the present letter, a column the next one.": right.T,
            "Your columns add up to 1. After each letter *something* follows: each row must add "
            "up to 1: divide by counts.sum(dim=1, keepdim=True).": _logs(counts + 0.5, dim=0),
            "Your whole table adds up to 1: those are the chances of pairs. Divide each row by "
            "its sum.": _logs(counts + 0.5, dim=(0, 1)),
            "Each pair is counted once at most: `counts[a, b] += 1` does not accumulate where a "
            "pair comes again. Use index_put_ with accumulate=True, bincount, or a loop.": _logs(
                once + 0.5
            ),
            "The 0.5 is missing: a pair that never occurs would have the logarithm of 0.": _logs(
                counts
            ),
            "0.5 is added to each probability; it belongs to the counts.": (
                counts / counts.sum(dim=1, keepdim=True) + 0.5
            ).log(),
            "1 is added to each count; here it is 0.5.": _logs(counts + 1),
        }
        given = answer(letters, n)
        if isinstance(given, Tensor):
            given = given.float()
        compared(given, right, mistakes)
    return "each row is the distribution of the next letter, given the present one"


def _two_ahead(answer):
    for n, seed in ((5, 0), (9, 1)):
        P = draw(n, n, seed=seed).softmax(-1)
        table = answer(P)
        if n != 5 and table is None:
            raise NotYet("Nothing was returned.")
        attempted(table)
        given = read_numbers(table, n, n, name=f"For a P of {n} signs")
        right = P @ P
        for each, flaw in (
            (right.log(), "These are logarithms. The probabilities themselves are wanted."),
            (P, "That is the table of the next sign, not of the one after it."),
            (2 * P, "Two steps after each other: their probabilities are multiplied, not added."),
            (P**2, "P ** 2 squares each entry. Sum over the sign in between."),
            (right.T, "Turned round: a row is the present sign, a column the later one."),
            (P.T @ P, "The first P is turned: its row is the present sign."),
            (P @ P.T, "The second P is turned: its row is the sign in between."),
        ):
            if torch.allclose(given, each, atol=1e-4):
                raise NotYet(flaw)
        if not torch.allclose(given, right, atol=1e-4):
            off = int((given - right).abs().sum(dim=1).argmax())
            got, wanted = ([round(x, 2) for x in row[off].tolist()] for row in (given, right))
            raise NotYet(f"Row {off} of {n} signs is {got}; two steps of P give {wanted}.")
    return "k steps of a chain are the k-th power of its table"


def _factor(answer):
    for n, r in ((6, 2), (9, 1), (5, 5)):
        table = draw(n, n, seed=n) + 3 * draw(n, 1, seed=1)
        given = answer(table.clone(), r)
        if given is None or given is ...:
            raise NotAttempted
        if not isinstance(given, tuple) or len(given) != 2:
            raise NotYet("Two matrices are wanted: W_E, W_U.")
        for name, each, shape in zip(("W_E", "W_U"), given, ((n, r), (r, n)), strict=True):
            if not isinstance(each, Tensor) or each.shape != shape:
                size = tuple(each.shape) if isinstance(each, Tensor) else each
                raise NotYet(f"{name} should have the shape {shape} for r = {r}, got {size!r}.")
        centered = table - table.mean(dim=1, keepdim=True)
        U, S, Vh = torch.linalg.svd(centered)
        nearest = torch.linalg.svd(table)
        columns = torch.linalg.svd(table - table.mean(dim=0))
        mistakes = {
            "Take off the mean of each row first: it changes no probability, and here it uses up "
            "a rank.": _first(*nearest, r),
            "You took off the mean of each column; a constant is free along a row.": _first(
                *columns, r
            ),
            "table.mean(dim=1) is taken off the columns here: keepdim=True keeps it a column.": (
                _first(*torch.linalg.svd(table - table.mean(dim=1)), r)
            ),
            "The singular values are missing.": U[:, :r] @ Vh[:r],
            "The singular values are in both matrices: give them to one, or their root to each.": (
                U[:, :r] * S[:r] ** 2
            )
            @ Vh[:r],
            "torch.linalg.svd returns Vh, whose *rows* are wanted: Vh[:r].": (U[:, :r] * S[:r])
            @ Vh[:, :r].T,
            "You kept the smallest singular values; they come largest first.": (U[:, -r:] * S[-r:])
            @ Vh[-r:],
        }
        compared(given[0] @ given[1], _first(U, S, Vh, r), mistakes)
    return "every row of the product is a combination of the r rows of W_U"


def _first(U: Tensor, S: Tensor, Vh: Tensor, r: int) -> Tensor:
    return (U[:, :r] * S[:r]) @ Vh[:r]


def _false_word(word, cost, signs, known):
    if not isinstance(word, str) or not word:
        raise NotYet(f"A word is wanted, in quotation marks; got {word!r}.")
    strange = sorted(set(word) - set(signs[1:]))
    if strange:
        raise NotYet(
            f"{', '.join(map(repr, strange))}: the model knows the letters {signs[1:]} alone."
        )
    if word in known:
        raise NotYet(f"{word!r} is a word of the text.")
    if len(word) < LEAST:
        raise NotYet(f"It has {len(word)} letters; {LEAST} are wanted.")
    pairs = [word[i : i + 2] for i in range(len(word) - 1)]
    twice = next((pair for pair in pairs if pairs.count(pair) > 1), None)
    if twice:
        raise NotYet(f"{twice!r} comes twice: each pair only once, please.")
    own, other = cost(word), cost(RIVAL)
    said = f"{word!r} costs {own:.2f} nats a letter, {RIVAL!r} {other:.2f}"
    if own >= other:
        raise NotYet(f"{said}.")
    return f"{said}: for a table of pairs it is the better word"


CHECKS = {"06.1": _bigram_table, "06.2": _two_ahead, "06.3": _factor, "06.4": _false_word}
