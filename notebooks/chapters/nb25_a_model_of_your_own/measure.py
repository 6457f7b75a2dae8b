"""Notebook 25: any model, and texts for it."""

from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.base.errors import check_text
from aot_helpers.models.checkpoints import list_checkpoints, load_checkpoint, load_model
from aot_helpers.models.pretrained import load_pretrained
from aot_helpers.models.protocol import Model
from aot_helpers.text.batches import IGNORE_INDEX, repeat_segments, repeated_tokens
from aot_helpers.text.corpora import load_corpus

LONGEST = 48  # tokens of a passage
N_TEXTS = 4
HIDDEN = 0.2  # of the second copy, for a model that sees both ways


def open_model(name: str) -> Model:
    """A shipped model, a file of `save_model`, a folder of Hugging Face's, or a model of the hub.

    Raises ValueError for an unknown name, OSError for one out of reach.
    """
    check_text("model", name)
    if name in list_checkpoints():
        return load_checkpoint(name).requires_grad_(False)
    if Path(name).suffix == ".safetensors":
        return load_model(name).requires_grad_(False)
    return load_pretrained(name)


def written_twice(model: Model, corpus: str, seed: int) -> Int[Tensor, "text pos"]:
    """BOS and a passage of the corpus, twice in a row; random tokens for a model without tokenizer.

    Raises ValueError for a corpus that has not enough text.
    """
    length = min(LONGEST, (model.config.n_ctx - 1) // 2)
    if model.tokenizer is None:
        print("Without a tokenizer the model reads no text: it is given random tokens.")
        return repeated_tokens(model.config.d_vocab, length, N_TEXTS, seed=seed)
    texts = load_corpus(corpus, "test", quiet=True).texts
    passages = [
        passage
        for tokens in model.tokenizer.encode_many([text for text in texts if text])
        for passage in tokens.split(length)
        if len(passage) == length
    ]
    if len(passages) < N_TEXTS:
        raise ValueError(
            f"corpus has {len(passages)} passages of {length} tokens, got {corpus!r}: give a text "
            f"of at least {N_TEXTS}"
        )
    order = torch.randperm(len(passages), generator=torch.Generator().manual_seed(seed))
    chosen = torch.stack([passages[i] for i in order[:N_TEXTS]])
    return repeat_segments(chosen, model.tokenizer.bos or 0)


def inputs_and_targets(
    model: Model, twice: Int[Tensor, "text pos"], seed: int
) -> tuple[Int[Tensor, "text pos"], Int[Tensor, "text pos"] | None]:
    """Inputs, and targets there: tokens of the second copy, -100 elsewhere.

    A causal model is asked for the next token, one that sees both ways for tokens that are hidden
    from it. None: it has no language head, or no mask to hide tokens with.
    """
    half = twice.shape[1] // 2  # the second copy begins at half + 1
    backend = getattr(model.tokenizer, "backend", None)
    mask = backend and backend.token_to_id("[MASK]")
    if model.W_U is None or (mask is None and not model.config.causal):
        return twice, None
    targets = torch.full_like(twice, IGNORE_INDEX)
    if model.config.causal:
        targets[:, half + 1 : -1] = twice[:, half + 2 :]
        return twice, targets
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.rand(twice.shape, generator=draw) < HIDDEN
    hidden[:, : half + 1], hidden[:, -1] = False, True  # the last one, so that there is always one
    return twice.masked_fill(hidden, mask), torch.where(hidden, twice, IGNORE_INDEX)


def strings(model: Model, tokens: Int[Tensor, " pos"]) -> list[str]:
    """The tokens as text, or as numbers where there is no tokenizer."""
    return (
        model.tokenizer.token_strings(tokens)
        if model.tokenizer
        else list(map(str, tokens.tolist()))
    )


def masked_at_the_end(model: Model, tokens: Int[Tensor, "*text pos"]) -> Int[Tensor, "*text pos"]:
    """The tokens; for a model that sees both ways, with the last one of each text hidden."""
    if model.config.causal:
        return tokens
    asked = tokens.clone()
    asked[..., -1] = model.tokenizer.backend.token_to_id("[MASK]")
    return asked
