"""The exercises of notebook 01: a merge, a text in bytes, loss per letter, a name hidden.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

from itertools import pairwise

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against


def merge(pieces, pair):
    """The pieces, with the two of the pair joined wherever they stand side by side."""
    merged, i = [], 0
    while i < len(pieces):
        n = 2 if tuple(pieces[i : i + 2]) == tuple(pair) else 1
        merged.append("".join(pieces[i : i + n]))
        i += n
    return merged


def loss_per_letter(losses, strings):
    """The loss of a text in nats per letter: losses of its tokens in nats, and these as strings."""
    return losses.sum() / sum(map(len, strings))


PAGES = {"01.1": merge, "01.3": loss_per_letter}


def _joined(pieces, pair, lose_last=False, first_only=False, overlap=False):
    """A merge with a mistake that many make."""
    merged, i, n_merges = [], 0, 0
    while i < len(pieces) - lose_last:
        both = tuple(pieces[i : i + 2]) == tuple(pair) and not (first_only and n_merges)
        merged.append("".join(pieces[i : i + 1 + both]))
        n_merges += both
        i += 1 + (both and not overlap)
    return merged


_merges = against(
    lambda pieces, pair: _joined(pieces, pair),
    [
        (list("banana"), ("a", "n")),
        (list("aaaaa"), ("a", "a")),
        (["th", "e", "n"], ("t", "h")),
        (["ba", "n"], ("a", "n")),
    ],
    {
        "The last piece is lost: go on to the end of the list.": lambda *given: _joined(
            *given, lose_last=True
        ),
        "You merge the first place only; the pair may come again.": lambda *given: _joined(
            *given, first_only=True
        ),
        "After a merge, go on behind both pieces: the second is used up.": lambda *given: _joined(
            *given, overlap=True
        ),
    },
)


def _merge(answer):
    _merges(answer)
    return "counting pairs and this step, again and again, make every BPE vocabulary"


def _more_tokens_than_letters(text, tokenizer):
    text = attempted(text)
    if not isinstance(text, str) or not text:
        raise NotYet(f"A text of at least one letter, please; yours is {text!r}.")
    n_tokens = len(tokenizer.encode(text))
    if n_tokens <= len(text):
        raise NotYet(f"{n_tokens} tokens and {len(text)} letters: still no more than letters.")
    n_letters = f"{len(text)} letter{'s' * (len(text) > 1)}"
    return f"{n_tokens} tokens for {n_letters}: what no merge covers is written as its bytes"


_per_letter = against(
    lambda losses, strings: losses.sum() / len("".join(strings)),
    [
        (torch.tensor([4.0, 1.0, 7.0]), [" the", "re", " strawberry"]),
        (torch.tensor([3.0, 0.5]), ["a", " b"]),
    ],
    {
        "This is the loss per token: divide by letters.": lambda losses, strings: losses.mean(),
        "You average the loss per letter of each token, so short tokens count too much: divide "
        "the sum of all losses by the number of all letters.": lambda losses, strings: (
            losses / torch.tensor([float(len(each)) for each in strings])
        ).mean(),
        "You leave out the spaces; every sign and space is a letter.": lambda losses, strings: (
            losses.sum() / sum(len(each.strip()) for each in strings)
        ),
        "This is the loss of the whole text: divide by its letters.": lambda losses, strings: (
            losses.sum()
        ),
        "These are bits; nats are asked for, without dividing by ln 2.": lambda losses, strings: (
            losses.sum() / len("".join(strings)) / torch.tensor(2.0).log()
        ),
    },
)


def _loss_per_letter(answer):
    _per_letter(answer)
    return "every letter counts alike, however the text was cut"


def _letters(text):
    """The letters of a text alone, as small ones."""
    return "".join(filter(str.isalpha, text)).lower()


def _hidden(answer, name, cost, tokenizer):
    """cost: what a name costs after a text, in nats per token."""
    hidden = attempted(answer)
    if not isinstance(hidden, str) or _letters(hidden) != _letters(name):
        raise NotYet(f"The letters of {name} in their order, please; yours is {hidden!r}.")
    if sum(map(str.isupper, hidden)) > 2:
        raise NotYet("Without capitals, apart from the two initials.")
    told = (f"Mila Golun told {who} about the red kite. Then" for who in (hidden, "Peko Tanil"))
    paid, other = (float(cost(text, name)) for text in told)
    if paid < 0.9 * other:
        own, theirs = (tokenizer.token_strings(tokenizer.encode(f" {x}")) for x in (name, hidden))
        pairs = set(pairwise(theirs))
        same = [f"{a!r} {b!r}" for a, b in pairwise(own) if (a, b) in pairs]
        left = f"; both have {' and '.join(same)} side by side" if same else ""
        much = f"{paid:.1f} nats per token; after another name it is {other:.1f}"
        raise NotYet(f"{much}. The model still finds something to copy{left}.")
    return f"{paid:.1f} nats per token; after another name it is {other:.1f}"


CHECKS = {
    "01.1": _merge,
    "01.2": _more_tokens_than_letters,
    "01.3": _loss_per_letter,
    "01.4": _hidden,
}
