"""The exercises of notebook 01: a merge, a text in bytes, loss per letter, a name hidden.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import math
from itertools import pairwise

import torch

from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import against, read_text


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


def _first_place_merged(pieces, pair):
    for i in range(len(pieces) - 1):
        if tuple(pieces[i : i + 2]) == pair:
            return [*pieces[:i], "".join(pair), *pieces[i + 2 :]]
    return pieces


def _merges_that_overlap(pieces, pair):
    places = range(len(pieces))
    return ["".join(pair) if tuple(pieces[i : i + 2]) == pair else pieces[i] for i in places]


def _more_tokens_than_letters(text, tokenizer):
    n_tokens = len(tokenizer.encode(read_text(text)))
    if n_tokens <= len(text):
        raise NotYet(f"{n_tokens} tokens and {len(text)} letters: still no more than letters.")
    n_letters = f"{len(text)} letter{'s' * (len(text) > 1)}"
    return f"{n_tokens} tokens for {n_letters}: what no merge covers is written as its bytes"


WRONG_MERGES = {  # what to say: what many write instead
    "The last piece is lost: go on to the end of the list.": lambda *given: merge(*given)[:-1],
    "You merge the first place only; the pair may come again.": _first_place_merged,
    "After a merge, go on behind both pieces: the second is used up.": _merges_that_overlap,
}
WRONG_LOSSES = {
    "This is the loss per token: divide by letters.": lambda losses, _: losses.mean(),
    "You average the loss per letter of each token, so short tokens count too much: divide the "
    "sum of all losses by the number of all letters.": lambda losses, strings: (
        losses / torch.tensor([float(len(each)) for each in strings])
    ).mean(),
    "You leave out the spaces; every sign and space is a letter.": lambda losses, strings: (
        losses.sum() / sum(len(each.strip()) for each in strings)
    ),
    "This is the loss of the whole text: divide by its letters.": lambda losses, _: losses.sum(),
    "These are bits; nats are asked for, without dividing by ln 2.": lambda losses, strings: (
        loss_per_letter(losses, strings) / math.log(2)
    ),
}


def _letters(text):
    """The letters of a text alone, as small ones."""
    return "".join(filter(str.isalpha, text)).lower()


def _hidden(answer, name, cost, tokenizer):
    """cost: what a name costs after a text, in nats per token."""
    hidden = read_text(answer)
    if _letters(hidden) != _letters(name):
        raise NotYet(f"The letters of {name} in their order, please; yours is {hidden!r}.")
    if sum(map(str.isupper, hidden)) > 2:
        raise NotYet("Without capitals, apart from the two initials.")
    texts = (f"Mila Golun told {who} about the red kite. Then" for who in (hidden, "Peko Tanil"))
    paid, other = (float(cost(text, name)) for text in texts)
    costs = f"{paid:.1f} nats per token; after another name it is {other:.1f}"
    if paid < 0.9 * other:
        own, theirs = (tokenizer.token_strings(tokenizer.encode(f" {x}")) for x in (name, hidden))
        pairs = set(pairwise(theirs))
        same = [f"{a!r} {b!r}" for a, b in pairwise(own) if (a, b) in pairs]
        left = f"; both have {' and '.join(same)} side by side" if same else ""
        raise NotYet(f"{costs}. The model still finds something to copy{left}.")
    return costs


CHECKS = {
    "01.1": against(
        merge,
        [
            (list("banana"), ("a", "n")),
            (list("aaaaa"), ("a", "a")),
            (["th", "e", "n"], ("t", "h")),
            (["ba", "n"], ("a", "n")),
        ],
        WRONG_MERGES,
        solved="counting pairs and this step, again and again, make every BPE vocabulary",
    ),
    "01.2": _more_tokens_than_letters,
    "01.3": against(
        loss_per_letter,
        [
            (torch.tensor([4.0, 1.0, 7.0]), [" the", "re", " strawberry"]),
            (torch.tensor([3.0, 0.5]), ["a", " b"]),
        ],
        WRONG_LOSSES,
        solved="every letter counts alike, however the text was cut",
    ),
    "01.4": _hidden,
}
