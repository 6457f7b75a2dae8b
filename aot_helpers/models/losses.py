"""What a model pays: losses of next tokens, of copies, of counting, and what a context is worth."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_finite, check_shape, check_token_ids
from aot_helpers.models.protocol import Edits, Model, check_causal, check_tokens


def next_token_losses(
    logits: Float[Tensor, "batch pos d_vocab"], tokens: Int[Tensor, "batch pos"]
) -> Float[Tensor, "batch pos-1"]:
    """Cross-entropy (nats) of every next token: the logits at t against the token at t + 1.

    Raises ValueError for tokens of another shape, and for such as -100, which PyTorch leaves out.
    """
    check_tokens(tokens)
    check_shape("logits without d_vocab", logits.shape[:-1], tokens.shape, "give the same texts")
    check_token_ids(tokens, logits.shape[-1])
    guesses, targets = logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:]
    return F.cross_entropy(guesses, targets.flatten().long(), reduction="none").view(targets.shape)


def repeat_length(tokens: Int[Tensor, "batch pos"]) -> int:
    """The length of the segment in BOS + a segment twice. Raises ValueError for other tokens."""
    check_tokens(tokens)
    length = (tokens.shape[1] - 1) // 2
    if length < 2 or not torch.equal(tokens[:, 1 : length + 1], tokens[:, length + 1 :]):
        raise ValueError("tokens must be BOS, then a segment of at least 2 tokens, twice")
    return length


def copy_losses(
    model: Model, tokens: Int[Tensor, "batch pos"], edits: Edits | None = None
) -> tuple[float, float]:
    """Mean loss (nats) on the first and on the second copy of BOS + a segment twice.

    The first token of the second copy is left out: nothing says yet that a repeat has begun.
    """
    length = repeat_length(tokens)
    check_causal(model)
    with torch.no_grad():
        losses = next_token_losses(model(tokens, edits=edits), tokens)
    return losses[:, :length].mean().item(), losses[:, length + 1 :].mean().item()


def copy_accuracy(
    model: Model, tokens: Int[Tensor, "batch pos"], edits: Edits | None = None
) -> float:
    """The share of the second copy's tokens, without its first, that have the largest logit."""
    length = repeat_length(tokens)
    check_causal(model)
    with torch.no_grad():
        logits = model(tokens, edits=edits)
        check_finite("logits", logits)
        guesses = logits.argmax(dim=-1)
    right = guesses[:, length + 1 : -1] == tokens[:, length + 2 :]
    return right.float().mean().item()


def count_losses(
    train: Int[Tensor, "texts length"], test: Int[Tensor, "batch pos"], d_vocab: int
) -> dict[str, float]:
    """Mean losses (nats) on test of what counting in train knows: "unigram" and "bigram".

    A token is expected as often as it came (plus one), or as often as it came after the one
    before; a pair's count is smoothed with the unigram (Witten and Bell 1991).
    """
    unigram = torch.bincount(train.flatten(), minlength=d_vocab).double() + 1
    unigram /= unigram.sum()
    pairs, n_pairs = (train[:, :-1] * d_vocab + train[:, 1:]).unique(return_counts=True)
    n_before = torch.bincount(train[:, :-1].flatten(), minlength=d_vocab).double()
    n_kinds = torch.bincount(pairs // d_vocab, minlength=d_vocab).double()
    before, after = test[:, :-1].flatten(), test[:, 1:].flatten()
    # A table [d_vocab, d_vocab] would not fit: look each pair up among those that came.
    place = torch.searchsorted(pairs, before * d_vocab + after).clamp(max=len(pairs) - 1)
    found = torch.where(pairs[place] == before * d_vocab + after, n_pairs[place], 0)
    mixed = (found + n_kinds[before] * unigram[after]) / (n_before + n_kinds)[before].clamp(min=1)
    bigram = torch.where(n_before[before] > 0, mixed, unigram[after])
    return {"unigram": -unigram[after].log().mean().item(), "bigram": -bigram.log().mean().item()}


def in_context_score(
    losses: Float[Tensor, "text pos"], early: tuple[int, int], late: tuple[int, int]
) -> Float[Tensor, " text"]:
    """Mean loss at late positions minus mean loss at early ones, for each text (nats).

    early, late: positions (from, up to but not including), counted in `losses`. Negative means
    that context helped: the sign of Olsson et al. 2022, who take the 500th and the 50th token.
    Raises ValueError for ranges that are empty, overlap, are in the wrong order or leave the text.
    """
    if not 0 <= early[0] < early[1] <= late[0] < late[1] <= losses.shape[1]:
        raise ValueError(
            "early and late must be (from, to) with from < to, early before late and no overlap, "
            f"got early = {early}; late = {late} needs {late[1]} losses, there are "
            f"{losses.shape[1]}; give longer texts or other ranges"
        )
    return losses[:, slice(*late)].mean(dim=1) - losses[:, slice(*early)].mean(dim=1)
