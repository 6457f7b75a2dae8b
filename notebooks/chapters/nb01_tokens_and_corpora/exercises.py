"""The exercises of notebook 01: a merge, a text in bytes, loss per letter, a match of two tokens.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against
from chapters.nb01_tokens_and_corpora.measure import guesses, last_guesses


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


def match_of_two(tokens):
    """What should follow each token, by the last earlier place of it and the one before; or -1."""
    seen, found = {}, [-1] * len(tokens)
    for i in range(1, len(tokens)):
        pair = tokens[i - 1], tokens[i]
        if pair in seen:
            found[i] = tokens[seen[pair] + 1]
        seen[pair] = i
    return found


PAGES = {"01.1": merge, "01.3": loss_per_letter, "01.4": match_of_two}


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


def _searched(tokens):
    """`match_of_two`, by looking through all earlier places."""
    found = [-1] * len(tokens)
    for i in range(2, len(tokens)):
        for j in range(1, i):
            if tokens[j - 1 : j + 1] == tokens[i - 1 : i + 1]:
                found[i] = tokens[j + 1]
    return found


def _first_place(tokens):
    """The same, but by the first earlier place."""
    found = [-1] * len(tokens)
    for i in range(2, len(tokens)):
        for j in reversed(range(1, i)):
            if tokens[j - 1 : j + 1] == tokens[i - 1 : i + 1]:
                found[i] = tokens[j + 1]
    return found


_SMALL = [[1, 2, 3, 9, 1, 2, 3], [5, 5, 5, 5], [1, 2, 3, 1, 4, 1, 2], [1, 2, 3, 1, 2, 4, 1, 2]]
_small = against(
    _searched,
    [(tokens,) for tokens in _SMALL],
    {
        "This matches one token: the one before it must be the same, too.": last_guesses,
        "This is the first earlier place; the last one is asked for.": _first_place,
        "Each pair finds itself: look it up before you store its new place.": lambda tokens: (
            [-1, *tokens[2:], -1]
        ),
        "Your guesses stand one place too early: guess[i] is what should follow "
        "tokens[i].": lambda tokens: [*_searched(tokens)[1:], -1],
    },
)


def _match_of_two(answer, texts):
    _small(answer)
    texts = [text for text in texts if len(text) > 1]
    came, told = torch.cat([text[1:] for text in texts]), []
    for rule in (answer, last_guesses):
        guess = guesses(rule, texts)
        right = (guess == came)[guess >= 0].double().mean()
        speaks = (guess >= 0).double().mean()
        told.append(f"has a guess for {speaks:.2f} of the tokens, right in {right:.2f} of these")
    return f"it {told[0]}; the match of one {told[1]}"


CHECKS = {
    "01.1": _merge,
    "01.2": _more_tokens_than_letters,
    "01.3": _loss_per_letter,
    "01.4": _match_of_two,
}
