"""Notebook 21's prompts."""

from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.models.protocol import Model


class Prompt(NamedTuple):
    """A text's tokens, the token that comes next, and a rival for its logit (None: the mean)."""

    tokens: Int[Tensor, " pos"]
    target: int
    rival: int | None = None


def copy_prompts(
    model: Model, texts: list[str], n: int = 40, least: int = 12, most: int = 40
) -> list[Prompt]:
    """Beginnings of texts after which the model rightly says a pair's second token again.

    One of each text, `least` to `most` tokens long: the last token stood before, followed by the
    target, which has a letter, and the target is the model's first guess. No pair comes twice.
    Raises ValueError where there are too few.
    """
    found, known = [], set()
    for text in texts:
        tokens = model.tokenizer.encode(text, bos=True)[: most + 1]
        if len(tokens) <= least:
            continue
        with torch.no_grad():
            guesses = model(tokens[None])[0].argmax(dim=-1).tolist()
        row = tokens.tolist()
        pairs = list(zip(row, row[1:], strict=False))
        for p in range(least - 1, len(pairs)):
            target = model.tokenizer.decode(row[p + 1 : p + 2])
            again = pairs[p] in pairs[:p] and pairs[p] not in known
            if again and guesses[p] == row[p + 1] and any(map(str.isalpha, target)):
                known.add(pairs[p])
                found.append(Prompt(tokens[: p + 1], row[p + 1]))
                break
        if len(found) == n:
            return found
    raise ValueError(f"{len(found)} of the texts repeat a pair rightly, {n} are wanted: give more")
