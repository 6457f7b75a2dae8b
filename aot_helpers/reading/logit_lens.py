"""The logit lens: any vector that lives in the stream, read as words.

LL(x) = softmax(ln_final(x) W_U) (nostalgebraist 2020; VISIT, section 2.3). What heads hand on
before W_O, and their queries and keys, live elsewhere and have to be brought back first.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_finite, check_token_ids, check_whole
from aot_helpers.models.protocol import Model
from aot_helpers.reading.circuits import check_unembedding


def lens(
    model: Model, vectors: Float[Tensor, "*places d_model"], norm: bool = True
) -> Float[Tensor, "*places d_vocab"]:
    """Logits that the model would give if each vector were its last stream: ln_final(x) W_U + b_U.

    norm: False leaves the final norm out. Raises ValueError for vectors of another width, for
    vectors that are not finite and for a model without an unembedding.
    """
    check_unembedding(model)
    d_model = model.config.d_model
    if vectors.shape[-1] != d_model:
        raise ValueError(
            f"vectors of width {vectors.shape[-1]} are not in the stream, whose d_model is "
            f"{d_model}: take values, queries and keys through their head's W_O, W_K or W_Q first"
        )
    check_finite("vectors", vectors)
    with torch.no_grad():
        logits = (model.final_norm()(vectors) if norm else vectors) @ model.W_U
        return logits if model.b_U is None else logits + model.b_U


def top_tokens(logits: Float[Tensor, "*places d_vocab"], k: int) -> Int[Tensor, "*places k"]:
    """The ids of the k tokens with the largest logits, the largest first."""
    check_whole("k", k, 1, logits.shape[-1], " of tokens")
    check_finite("logits", logits)
    return logits.topk(k, dim=-1).indices


def target_token(model: Model, text: str) -> int:
    """The id of a text that is one token of the model, such as " Oslo".

    Raises ValueError for a text of several tokens, which no single reading can rank, and for a
    model without a tokenizer.
    """
    if model.tokenizer is None:
        raise ValueError(f"this model has no tokenizer: give the id of {text!r}")
    ids = model.tokenizer.encode(text)
    if len(ids) != 1 and text.strip():  # sentencepiece itself puts a space before a text
        alone = model.tokenizer.encode(text.strip())
        ids = alone if model.tokenizer.token_strings(alone) == [text] else ids
    if len(ids) != 1:
        pieces = " + ".join(map(repr, model.tokenizer.token_strings(ids)))
        raise ValueError(
            f"{text!r} is {len(ids)} tokens, {pieces}: a reading ranks one; give the first, or a "
            "word that is one token (most are so only with a space before them)"
        )
    return int(ids[0])


def rank(
    logits: Float[Tensor, "*places d_vocab"], token: Int[Tensor, "*places"] | int
) -> Int[Tensor, "*places"]:
    """How many tokens have a larger logit than this one; 0 is the top. Equal ones do not count.

    Raises ValueError for a token that is not in the vocabulary.
    """
    return (logits > logits.gather(-1, _everywhere(token, logits)[..., None])).sum(dim=-1)


def probability(
    logits: Float[Tensor, "*places d_vocab"], token: Int[Tensor, "*places"] | int
) -> Float[Tensor, "*places"]:
    """The probability of a token: softmax of the logits. ValueError as in `rank`."""
    log_p = logits.log_softmax(dim=-1)
    return log_p.gather(-1, _everywhere(token, logits)[..., None])[..., 0].exp()


def _everywhere(token: Tensor | int, logits: Tensor) -> Int[Tensor, "*places"]:
    """The token at each place of the logits. Raises ValueError for one not in the vocabulary."""
    check_finite("logits", logits)
    token = torch.as_tensor(token, device=logits.device)
    check_token_ids(token, logits.shape[-1])
    return token.expand(logits.shape[:-1])
