"""The exercises of notebook 01: a merge, losses per letter, a match of two tokens."""

import torch

from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import against, read_numbers
from chapters.nb01_tokens_and_corpora.measure import last_guess

LOSSES = {512: 2.4, 4096: 3.9}  # of 01.2: {vocabulary: nats per token}


def _merge(pieces, pair):
    merged, i = [], 0
    while i < len(pieces):
        step = 2 if tuple(pieces[i : i + 2]) == tuple(pair) else 1
        merged.append("".join(pieces[i : i + step]))
        i += step
    return merged


def _per_letter(answer, bpe, texts):
    answer, letters = read_numbers(answer, 2), sum(map(len, texts))
    n_tokens = [sum(map(len, bpe[size].encode_many(texts))) for size in LOSSES]
    per_token = torch.tensor(list(LOSSES.values()))
    truth = per_token * torch.tensor(n_tokens) / letters
    gaps = (answer - truth).abs()
    if gaps.max() > 0.02:
        if torch.allclose(answer, per_token):
            raise NotYet("These are per token: divide by the letters of a token.")
        worst = int(gaps.argmax())
        raise NotYet(f"The loss of model {'AB'[worst]} per letter is not {answer[worst]:.2f}.")
    return f"per letter, {'AB'[int(truth.argmin())]} loses less"


def match_of_two(tokens):
    """A list of numbers -> a list of what should follow each, by the last two tokens; or -1."""
    guesses = [-1] * len(tokens)
    for i in range(2, len(tokens)):
        for j in range(1, i):
            if tokens[j - 1 : j + 1] == tokens[i - 1 : i + 1]:
                guesses[i] = tokens[j + 1]
    return guesses


_SMALL = [[1, 2, 3, 9, 1, 2, 3], [5, 5, 5, 5], [1, 2, 3, 1, 4, 1, 2], [1, 2, 3, 1, 2, 4, 1, 2]]
_small = against(match_of_two, [(tokens,) for tokens in _SMALL])


def _rule_of_two(answer, texts):
    _small(answer)
    texts = [text for text in texts if len(text) > 1]
    came = torch.cat([text[1:] for text in texts])
    of_two = torch.cat([torch.tensor(answer(text.tolist())[:-1]) for text in texts])
    said = []
    for guess in (of_two, torch.cat([last_guess(text) for text in texts])):
        speaks, right = guess >= 0, (guess == came).double()
        said.append(
            f"{speaks.double().mean():.2f} of the tokens, right at {right[speaks].mean():.2f} "
            f"of these, {right.mean():.2f} of all"
        )
    return f"it speaks at {said[0]}; the match of one at {said[1]}"


_merges = against(
    _merge,
    [
        (list("banana"), ("a", "n")),
        (list("aaaaa"), ("a", "a")),
        (["th", "e", "n"], ("t", "h")),
        (["ba", "n"], ("a", "n")),
    ],
)
CHECKS = {"01.1": _merges, "01.2": _per_letter, "01.3": _rule_of_two}
