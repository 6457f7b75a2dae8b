"""The exercises of notebook 17: a detector, a kind of head, a table in two numbers, a guess.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import near

NEAR = 0.15  # how far a guess of a share may be off
WORDS = (
    ["This", "movie", "is", "bad", ".", "I", "think", ",", "so"],
    [".", ",", "a"],
    ["no", "mark"],
)


def excess(patterns, wanted):
    """[head]: patterns [head, query, key] on wanted [query, key], less equal attention."""
    on_wanted = (patterns * wanted).sum(dim=-1)  # [head, query]
    so_far = torch.arange(1, len(wanted) + 1)
    share = wanted.tril().sum(dim=-1) / so_far  # [query]
    return (on_wanted - share)[:, 3:].mean(dim=-1)


def last_mark(words):
    """A table [query, key] of True and False for words [pos]: the last mark before each query."""
    wanted = torch.zeros(len(words), len(words), dtype=torch.bool)
    for query in range(len(words)):
        marks = [key for key in range(query) if words[key] in ",.!?"]
        if marks:
            wanted[query, marks[-1]] = True
    return wanted


def word_and_place(table):
    """Of a table [stands_at, attended_to], the mean attention on the noun and the second place."""
    away = [0, 2, 3]  # the noun is not second
    return table.diagonal()[away].mean(), table[away, 1].mean()


PAGES = {"17.1": excess, "17.2": last_mark, "17.3": word_and_place}


def _excess(answer):
    n = 10
    weights = torch.rand(3, n, n, generator=torch.Generator().manual_seed(0)).tril()
    patterns = weights / weights.sum(dim=-1, keepdim=True)
    for name, columns in {"word 1": [1], "words 0 and 5": [0, 5]}.items():
        wanted = torch.isin(torch.arange(n), torch.tensor(columns)).expand(n, n)
        found, right = answer(patterns, wanted), excess(patterns, wanted)
        attempted(found)
        if not isinstance(found, torch.Tensor) or found.shape != right.shape:
            shape = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
            raise NotYet(f"For 3 heads, a number for each is wanted, shape (3,); got {shape}.")
        on = (patterns * wanted).sum(dim=-1)
        so_far = torch.arange(1, n + 1)
        mistakes = {
            "nothing is taken off for equal attention": on[:, 3:].mean(dim=-1),
            "the share is one of all ten words, but row q has only q + 1": (
                on - wanted.double().mean(dim=-1)
            )[:, 3:].mean(dim=-1),
            "wanted words after the query are counted in the share": (
                on - wanted.sum(dim=-1) / so_far
            )[:, 3:].mean(dim=-1),
            "row q has q + 1 words, not q": (on - wanted.tril().sum(dim=-1) / (so_far - 1))[
                :, 3:
            ].mean(dim=-1),
            "rows 0 to 2, the prompt, are counted as well": (
                on - wanted.tril().sum(dim=-1) / so_far
            ).mean(dim=-1),
        }
        if not torch.allclose(found.double(), right.double(), atol=1e-5):
            said = [
                m
                for m, each in mistakes.items()
                if torch.allclose(found.double(), each.double(), atol=1e-5)
            ]
            hint = f": {said[0]}" if said else ""
            raise NotYet(
                f"Wanted {name}: {right[0]:.3f} for the first head, got {found[0]:.3f}{hint}."
            )
    return "a head that attends to all words equally gets 0, whatever the name"


def _marks(answer):
    for words in WORDS:
        given, expected = answer(words), last_mark(words)
        attempted(given)
        given = torch.as_tensor(given)
        if given.dtype != torch.bool or given.shape != expected.shape:
            raise NotYet(
                f"{words}: a table of True and False, {len(words)} by {len(words)}, please."
            )
        wrong = (given != expected).any(dim=-1).nonzero()
        if len(wrong):
            query = int(wrong[0])
            yours, right = (each[query].nonzero()[:, 0].tolist() for each in (given, expected))
            why = " (a mark is not before itself)" if query in yours else ""
            raise NotYet(
                f"{words}: wanted in row {query} is {right or 'no word'}; yours: {yours}{why}."
            )
    return "a name is a table: now the detector can look for it"


def _two_numbers(answer):
    table = torch.rand(4, 4, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    found = answer(table)
    attempted(found)
    if not isinstance(found, (tuple, list, torch.Tensor)) or len(found) != 2:
        raise NotYet(f"Two numbers are wanted, got {type(found).__name__}.")
    right, away = word_and_place(table), [0, 2, 3]
    names = {
        "row 1, where the noun is second, is counted": (
            table.diagonal().mean(),
            table[:, 1].mean(),
        ),
        "rows are where the noun stands; you took a row for the place": (
            right[0],
            table[1, away].mean(),
        ),
        "the two are in the other order": right[::-1],
    }
    for what, mine, yours in zip(("noun", "second place"), right, found, strict=True):
        if abs(float(mine) - float(yours)) > 1e-6:
            said = [
                name
                for name, pair in names.items()
                if all(abs(float(a) - float(b)) < 1e-6 for a, b in zip(pair, found, strict=True))
            ]
            hint = f": {said[0]}" if said else ""
            raise NotYet(
                f"The {what} gets {mine:.3f} in a test table, got {float(yours):.3f}{hint}."
            )
    return "a head that follows the word has the larger first number, one of places the second"


def _rests(first, second, model, head, text):
    half = (text.shape[1] - 1) // 2
    with torch.no_grad():
        _, cache = model.run_with_cache(text)
    on_bos = cache[f"L{head.layer}.pattern"][:, head.head, :, 0].mean(dim=0)
    first_true, second_true = on_bos[1 : half + 1].mean().item(), on_bos[half + 2 :].mean().item()
    near({"first": first, "second": second}, {"first": first_true, "second": second_true}, NEAR)
    found = f"measured {first_true:.2f} in the first copy, {second_true:.2f} in the second"
    return f"{found}: it is an induction head, which waits for a token that returns"


CHECKS = {
    "17.1": _excess,
    "17.2": _marks,
    "17.3": _two_numbers,
    "17.4": _rests,
}
