"""Notebook 21's prompts, and runs with some edges alone."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model


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
            said = model.tokenizer.decode(row[p + 1 : p + 2])
            again = pairs[p] in pairs[:p] and pairs[p] not in known
            if again and guesses[p] == row[p + 1] and any(map(str.isalpha, said)):
                known.add(pairs[p])
                found.append(Prompt(tokens[: p + 1], row[p + 1]))
                break
        if len(found) == n:
            return found
    raise ValueError(f"{len(found)} of the texts repeat a pair rightly, {n} are wanted: give more")


def attend_edits(
    attend: Callable[..., Tensor],
    kept: Bool[Tensor, "layer head query key"],
    rest: Float[Tensor, "layer place head d_head"],
) -> Edits:
    """Edits of one run by which attend(pattern, v, kept, rest) makes the z of each layer.

    rest: what dropped edges carry, from the first position and from all others; patterns and v are
    those of this run.
    """
    edits, now = {}, {}

    def remember(old, name):
        now[name] = old[0]
        return old

    def put(old, layer):
        v = now[f"L{layer}.v"]
        by_key = rest[layer, torch.arange(len(v)).clamp(max=1)]
        return attend(now[f"L{layer}.pattern"], v, kept[layer], by_key)[None]

    for i in range(len(kept)):
        for name in (f"L{i}.pattern", f"L{i}.v"):
            edits[name] = partial(remember, name=name)
        edits[f"L{i}.z"] = partial(put, layer=i)
    return edits
