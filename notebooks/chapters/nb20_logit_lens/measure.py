"""Notebook 20: windows of text, prompts with a name told before, and one run that is kept.

No token after a prompt's last one matters: padding stands on the right, and models are causal.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Int
from safetensors import safe_open
from torch import Tensor

from aot_helpers.base.results import RESULTS, read
from aot_helpers.models.protocol import Model
from aot_helpers.text.batches import pad_batch

NAMED = "Then Mila Toren met {} {}. Mila Toren gave {}"
FIRST = ("Deko", "Tavi", "Orin", "Kela", "Bruno", "Sana", "Nuri", "Palo")
LAST = ("Balis", "Zorin", "Reban", "Tomak", "Sorel", "Dunar", "Feltz", "Marov")
LOGITS = 4_000_000  # so many at a time: 16 MB
LENGTHS = (24, 72)  # tokens of a window, at least and at most


class Prompts(NamedTuple):
    """Prompts, padded on the right: a causal model never sees the padding from `last`."""

    tokens: Int[Tensor, "prompt pos"]
    last: Int[Tensor, " prompt"]
    answers: Int[Tensor, " prompt"]  # the token that comes next: the fact's, or the text's

    def pieces(self, model: Model) -> Iterator[tuple[slice, "Prompts"]]:
        """(rows, the prompts of these rows), cut to the longest, few enough for their logits.

        At most 16, so that what is taken from other prompts of a piece costs little.
        """
        per_prompt = self.tokens.shape[1] * model.config.d_vocab
        size = min(16, max(1, LOGITS // per_prompt))
        for at in range(0, len(self.tokens), size):
            rows = slice(at, at + size)
            piece = Prompts(*(part[rows] for part in self))
            yield rows, piece._replace(tokens=piece.tokens[:, : int(piece.last.max()) + 1])


def gather(texts: list[Int[Tensor, " _"]], answers: list[int]) -> Prompts:
    """Prompts from texts of tokens and what comes next. Raises ValueError where there are none."""
    if not texts:
        raise ValueError("no prompt is left: give longer texts, or a model with these words")
    tokens, _ = pad_batch(texts, 0)
    last = torch.tensor([len(text) - 1 for text in texts])
    return Prompts(tokens, last, torch.tensor(answers))


def at_last(values: Tensor, prompts: Prompts) -> Tensor:
    """Values [prompt, pos, …] at each prompt's last position: [prompt, …]."""
    return values[torch.arange(len(prompts.last)), prompts.last]


def predictions(model: Model, prompts: Prompts) -> Int[Tensor, " prompt"]:
    """The token that the model finds most likely after each prompt."""
    with torch.no_grad():
        found = [at_last(model(p.tokens), p).argmax(dim=-1) for _, p in prompts.pieces(model)]
    return torch.cat(found)


def subset(prompts: Prompts, which: Tensor | slice) -> Prompts:
    """The chosen prompts: a mask, indices or a slice."""
    return Prompts(*(part[which] for part in prompts))


def name_prompts(model: Model) -> Prompts:
    """Prompts that tell a made-up name and ask for its second half, as "Deko" for "Balis".

    Those that this model answers rightly: with the first token of the half that it was told.
    """
    texts, answers = [], []
    for first in FIRST:
        for last in LAST:
            texts.append(model.tokenizer.encode(NAMED.format(first, last, first), bos=True))
            answers.append(int(model.tokenizer.encode(" " + last)[0]))
    prompts = gather(texts, answers)
    return subset(prompts, predictions(model, prompts) == prompts.answers)


def windows(model: Model, texts: list[str], n: int, seed: int = 0) -> Prompts:
    """One window of each of the first n texts that are long enough: its beginning, cut at random.

    The model's token for the beginning stands first, if it has one.
    """
    draw, cut, answers = torch.Generator().manual_seed(seed), [], []
    least, most = LENGTHS
    for tokens in model.tokenizer.encode_many(texts):
        if model.tokenizer.bos is not None:
            tokens = torch.cat([torch.tensor([model.tokenizer.bos]), tokens])
        if len(tokens) <= most or len(cut) == n:
            continue
        at = int(torch.randint(least, most + 1, (1,), generator=draw))
        cut.append(tokens[:at])
        answers.append(int(tokens[at]))
    return gather(cut, answers)


def read_oslo(name: str = "smollm2") -> tuple[dict, list[str], dict[str, Tensor]]:
    """What `make data WHAT=pretrained` kept of one prompt and of 24 capitals.

    The results, the names of the parts of the model, and what each part wrote, as floats.
    """
    path = RESULTS / f"pretrained/20-{name}-oslo.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        parts = json.loads(file.metadata()["aot"])["parts"].split(",")
    return read(f"pretrained/20-heads-{name}"), parts, tensors
