"""The exercises of notebook 06: worth of a pair, rule and exception, tied rows, a false word.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch
from torch import Tensor

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import check_mistakes, read_tensor, read_text

LEAST, RIVAL = 7, "whether"  # letters of the false word; the word that it must beat


def saved(share):
    """Nats per letter of text that it saves to know each pair [present, next]."""
    frequency = share.sum(dim=1)
    P = share / frequency[:, None]
    return share * (P / frequency).clamp(min=1e-9).log()


PAGES = {"06.1": saved}


def _saved(answer):
    for n, seed in ((6, 0), (9, 1)):
        dice = torch.Generator().manual_seed(seed)
        letters = torch.cat([torch.arange(n), torch.randint(n, (40 - n,), generator=dice)])
        pairs = torch.stack([letters, letters.roll(-1)])  # a circle: rows and columns sum alike
        share = torch.zeros(n, n).index_put_(tuple(pairs), torch.tensor(1 / 40), accumulate=True)
        frequency = share.sum(dim=1)
        P, seen = share / frequency[:, None], share > 0
        right = torch.where(seen, share * (P / frequency).log(), 0)
        given = answer(share.clone())
        if n != 6 and given is None:
            raise NotYet("Nothing was returned.")
        attempted(given)
        if isinstance(given, Tensor) and given.shape == (n, n) and given[~seen].isnan().any():
            raise NotYet(
                "A pair that never occurs saves nothing, but yours is nan: 0 times the logarithm "
                "of 0. Clamp what you take the logarithm of."
            )
        given = read_tensor(given, n, n, name=f"For {n} letters", infinite=True)
        each = (P / frequency).log()
        mistakes = {
            "This is what a pair saves *each time it occurs*. How often is that?": each,
            "Weighed by P, a rare letter counts as much as a frequent one. The weight is the "
            "pair's share of all pairs.": P * each,
            "The sign is turned: a saving is the cost without minus the cost with.": -right,
            "Minus what the pair costs if it is known. And if it is not?": share * P.log(),
            "That is what the pair costs if it is known. And if it is not?": -share * P.log(),
            "`share` is not yet P(b | a): divide each row by its sum first.": (
                share * (share / frequency).log()
            ),
            "Without the pair you would bet on the frequency of the *next* letter (a column), not "
            "of the present one.": share * (P / frequency[:, None]).log(),
            "A loss is a logarithm of a probability: -ln p.": share * (P - frequency),
        }
        check_mistakes(given[seen], {m: flaw[seen] for m, flaw in mistakes.items()}, 1e-5)
        if not torch.allclose(given[seen], right[seen], atol=1e-4):
            raise NotYet("Cost without the pair: -ln(frequency of b). With it: -ln P(b | a).")
        if given[~seen].abs().sum() > 1e-4:
            raise NotYet("A pair that never occurs saves nothing.")
    return "added over all pairs: what the letter before tells about the next one"


def _one_number(name: str, both, n: int) -> tuple[Tensor, Tensor]:
    """The probabilities [present, next] of two matrices of width 1, and whether a row is even."""
    W_E, W_U = (
        read_tensor(each, *shape, name=f"{name}_{which}").double()
        for which, each, shape in zip("EU", both, ((n, 1), (1, n)), strict=True)
    )
    p = (W_E @ W_U).softmax(dim=-1)
    return p, (p.amax(dim=1) - p.amin(dim=1)) < 1e-6


def _rule_and_exception(exception, rule, signs):
    n = len(signs)
    if not any(isinstance(each, Tensor) and each.any() for each in (*exception, *rule)):
        raise NotAttempted
    q, u = signs.index("q"), signs.index("u")
    vowels = torch.tensor([sign in "aeiou" for sign in signs])
    consonants = ~vowels & torch.tensor([sign != " " for sign in signs])

    p, even = _one_number("exception", exception, n)
    if p[u, q] > 0.5 and p[q, u] < 0.5:
        raise NotYet("Turned round: after *u* comes *q*. W_E belongs to the present letter.")
    if p[q, u] < 0.9:
        raise NotYet(f"Exception: after q, u has a probability of {p[q, u]:.2f}; 0.9 is wanted.")
    if not even[torch.arange(n) != q].all():
        off = next(i for i in range(n) if i != q and not even[i])
        raise NotYet(
            f"Exception: after {signs[off]!r} not all signs are equally likely (u has "
            f"{p[off, u]:.2f}). Which letters should use this number at all?"
        )

    p, even = _one_number("rule", rule, n)
    for i in consonants.nonzero().flatten().tolist():
        ratio = p[i, vowels].min() / p[i, ~vowels].max()
        if ratio < 5 - 1e-6:
            raise NotYet(
                f"Rule: after {signs[i]!r} the least likely vowel is {ratio:.1f} times as likely "
                "as the likeliest sign that is no vowel; 5 times are wanted."
            )
    if not even[~consonants].all():
        off = next(i for i in range(n) if not consonants[i] and not even[i])
        raise NotYet(f"Rule: after {signs[off]!r} all signs should be equally likely.")
    return "the exception improves one pair and the rule 105, for one number a letter each"


def _tied(rows):
    try:
        rows = torch.as_tensor(rows, dtype=torch.double)
    except (TypeError, ValueError, RuntimeError):
        raise NotYet(f"Three rows of numbers are wanted, got {rows!r}.") from None
    if rows.ndim != 2 or len(rows) != 3:
        raise NotYet(f"Three rows of numbers are wanted, got the shape {tuple(rows.shape)}.")
    if torch.equal(rows, torch.eye(3, dtype=torch.double)):  # as it stood there
        raise NotAttempted
    T = rows @ rows.T
    top = T.topk(2, dim=1)
    if (top.values[:, 0] - top.values[:, 1]).min() < 1e-6:
        raise NotYet("After one of the letters two are equally likely: change a number a little.")
    itself = int((top.indices[:, 0] == torch.arange(3)).sum())
    if itself > 1:
        raise NotYet(
            f"{itself} of the 3 letters are followed most by themselves. A logit is the product "
            "of two rows: how can the product with *another* row be larger?"
        )
    longest = int(rows.norm(dim=1).argmax())
    return f"only letter {longest} repeats itself, and its row is the longest"


def _false_word(word, cost, signs, known):
    if strange := sorted(set(read_text(word)) - set(signs[1:])):
        raise NotYet(
            f"{', '.join(map(repr, strange))}: the model knows the letters {signs[1:]} alone."
        )
    if word in known:
        raise NotYet(f"{word!r} is a word of the text.")
    if len(word) < LEAST:
        raise NotYet(f"It has {len(word)} letters; {LEAST} are wanted.")
    pairs = [word[i : i + 2] for i in range(len(word) - 1)]
    if twice := next((pair for pair in pairs if pairs.count(pair) > 1), None):
        raise NotYet(f"{twice!r} comes twice: each pair only once, please.")
    own, other = cost(word), cost(RIVAL)
    costs = f"{word!r} costs {own:.2f} nats a letter, {RIVAL!r} {other:.2f}"
    if own >= other:
        raise NotYet(f"{costs}: go from each letter to one that often follows it in the text.")
    return f"{costs}: for a table of pairs it is the better word"


CHECKS = {"06.1": _saved, "06.2": _rule_and_exception, "06.3": _tied, "06.4": _false_word}
