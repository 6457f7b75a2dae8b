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
    answer = read_numbers(answer, 2)
    letters = sum(map(len, texts))
    truth = [
        loss * sum(map(len, bpe[n].encode_many(texts))) / letters for n, loss in LOSSES.items()
    ]
    truth = torch.tensor(truth)
    if (answer - truth).abs().max() > 0.02:
        if torch.allclose(answer, torch.tensor(list(LOSSES.values()))):
            raise NotYet("These are per token: divide by the letters of a token.")
        worst = int((answer - truth).abs().argmax())
        raise NotYet(f"The loss of model {'AB'[worst]} per letter is not {answer[worst]:.2f}.")
    return "per letter, B loses less" if truth[1] < truth[0] else "per letter, A loses less"


def _match_of_two(tokens):
    guesses = [-1] * len(tokens)
    for i in range(2, len(tokens)):
        for j in range(1, i):
            if tokens[j - 1 : j + 1] == tokens[i - 1 : i + 1]:
                guesses[i] = tokens[j + 1]
    return guesses


_small = against(
    _match_of_two,
    [
        ([1, 2, 3, 9, 1, 2, 3],),
        ([5, 5, 5, 5],),
        ([1, 2, 3, 1, 4, 1, 2],),
        ([1, 2, 3, 1, 2, 4, 1, 2],),
    ],
)


def _rule_of_two(answer, texts):
    _small(answer)
    texts = [text for text in texts if len(text) > 1]
    came = torch.cat([text[1:] for text in texts])
    of_two = torch.cat([torch.tensor(answer(text.tolist())[:-1]) for text in texts])
    said = []
    for guess in (of_two, torch.cat([last_guess(text) for text in texts])):
        speaks = guess >= 0
        right = (guess == came).double()
        said.append(
            f"{speaks.double().mean():.2f} of the tokens, right at {right[speaks].mean():.2f} "
            f"of these, {right.mean():.2f} of all"
        )
    return f"it speaks at {said[0]}; the match of one at {said[1]}"


CHECKS = {
    "01.1": against(
        _merge,
        [
            (list("banana"), ("a", "n")),
            (list("aaaaa"), ("a", "a")),
            (["th", "e", "n"], ("t", "h")),
            (["ba", "n"], ("a", "n")),
        ],
    ),
    "01.2": _per_letter,
    "01.3": _rule_of_two,
}
