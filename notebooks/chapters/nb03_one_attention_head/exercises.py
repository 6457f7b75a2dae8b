"""The exercises of notebook 03: longer queries, one head, a mask that leaks, a head misled.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.attention import common_flaws, flawed_attention
from aot_helpers.teaching.exercises.references import compared, draw, read_numbers

ROUNDED = 0.06  # half a decimal, and a little
LEAST = 0.01  # of the size, in 03.3


def attention_head(x, W_Q, W_K, W_V, W_O, bias=0.0):
    """What a head writes [pos, d_model], and its pattern [query_pos, key_pos].

    x: [pos, d_model]. W_Q, W_K, W_V: [d_model, d_head]. W_O: [d_head, d_model].
    bias: a number, or [query_pos, key_pos], added to the scores.
    """
    q, k, v = x @ W_Q, x @ W_K, x @ W_V  # each [pos, d_head]
    scores = q @ k.T / math.sqrt(W_Q.shape[1]) + bias  # [query_pos, key_pos]
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    pattern = scores.masked_fill(future, -math.inf).softmax(dim=-1)
    return pattern @ v @ W_O, pattern


PAGES = {"03.2": attention_head}


def _weights(ten_times, opposite, scores):
    for name, guess, factor in (("W_Q * 10", ten_times, 10), ("W_Q * -10", opposite, -10)):
        guess = read_numbers(guess, 5, name=name)
        truth = (factor * scores)[2].softmax(dim=-1)
        wrong = (guess - truth).abs()
        if wrong.max() > ROUNDED:
            if abs(guess.sum() - 1) > 0.15:
                raise NotYet(f"{name}: your weights add up to {guess.sum():.2f}, not to 1.")
            apart = (guess - guess[:, None]).abs() > 2 * ROUNDED
            torn = ((truth - truth[:, None]).abs() < 1e-6) & apart
            if torn.any():
                i, j = torn.nonzero()[0].tolist()
                raise NotYet(f"{name}: positions {i} and {j} have equal scores, so equal weights.")
            worst = int(wrong.argmax())
            more = "more" if truth[worst] > guess[worst] else "less"
            raise NotYet(f"{name}: position {worst} gets {more} than {guess[worst]:.2f}.")
    return "a softmax of large scores is a maximum, and it cannot choose nothing"


def torch_attention(x, W_Q, W_K, W_V, W_O, bias) -> tuple[Tensor, Tensor]:
    """What a head writes and its pattern, by torch: the pattern is what it makes of one-hot v."""
    hidden = torch.ones_like(bias, dtype=torch.bool).triu(1)
    mask = bias.masked_fill(hidden, -math.inf)
    q, k = x @ W_Q, x @ W_K
    pattern = F.scaled_dot_product_attention(q, k, torch.eye(len(x)), attn_mask=mask)
    return F.scaled_dot_product_attention(q, k, x @ W_V, attn_mask=mask) @ W_O, pattern


def _flaws(d_head: int, d_model: int, n_pos: int) -> dict[str, dict]:
    """The arguments of `flawed_attention` that make a mistake, by what to say of it."""
    return {
        "Your mask hides each token from itself as well: triu(1), not triu(0).": {"mask": "own"},
        f"You divide by √{n_pos}, the root of the number of positions; √d_head is √{d_head}.": {
            "root": math.sqrt(n_pos)
        },
    } | common_flaws(d_model, d_head)


def _attention_head(answer):
    gaps = []
    for n_pos, d_model, d_head in ((5, 6, 4), (7, 9, 2), (4, 8, 8)):
        x, bias = draw(n_pos, d_model, seed=n_pos), draw(n_pos, n_pos, seed=5)
        weights = [draw(d_model, d_head, seed=i) for i in (1, 2, 3)] + [draw(d_head, d_model)]
        given = attempted(answer(x, *weights, bias))
        if not isinstance(given, tuple) or len(given) != 2:
            raise NotYet("Two tensors are wanted: what the head writes, and its pattern.")
        expected = torch_attention(x, *weights, bias)
        shapes = [getattr(each, "shape", ()) for each in given]
        if shapes == [each.shape for each in reversed(expected)]:
            raise NotYet("The other way round: first what the head writes, then its pattern.")
        flaws = {
            message: flawed_attention(x, *weights, bias, **f)
            for message, f in _flaws(d_head, d_model, n_pos).items()
        } | {
            "The bias is missing: add it to the scores.": flawed_attention(x, *weights, 0 * bias),
            "You divide the bias as well: add it after the division.": (
                flawed_attention(x, *weights, bias / math.sqrt(d_head))
            ),
            "x is in your result already: return only what the head writes.": (
                (x + expected[0], expected[1])
            ),
        }
        z = expected[1] @ x @ weights[2]
        if isinstance(given[0], Tensor) and given[0].shape == z.shape != expected[0].shape:
            raise NotYet("W_O is missing: z still has to be written back.")
        for i in (1, 0):  # a mistake in the pattern is named first
            mistakes = {message: both[i] for message, both in flaws.items()}
            gaps.append(compared(given[i], expected[i], mistakes))
    return f"three random heads, each as PyTorch computes it, to {max(gaps):.0e}"


def _leak(last, head, resid):
    last = read_numbers(last, 4)
    size = head(torch.cat([resid[:-1], last[None]]))[2, 2]
    if not size.isfinite():
        raise NotYet("Your numbers are so large that the scores overflow: smaller ones will do.")
    if size.abs() >= LEAST:
        before = head(resid)[2, 2]
        why = "which of the four numbers makes a key that the query of *chased* looks for?"
        if size.abs() < 0.9 * before.abs():
            why = "the right way, but your token's weight before the mask must be nearly 1."
        raise NotYet(f"chased still receives the size {size:.3f} (without you {before:.3f}): {why}")
    return f"of the size only {size.abs():.4f} is left: the future leaks through the softmax's sum"


def _mislead(three, model, head):
    if three is ... or any(each is ... for each in three):
        raise NotAttempted
    strings = model.tokenizer.token_strings(torch.arange(len(model.W_E)))
    if isinstance(three, str) or len(three) != 3:
        raise NotYet("Three tokens are wanted, in a list.")
    for token in three:
        if token not in strings:
            raise NotYet(f"{token!r} is no token of this model (mind the space before a word).")
    ids = torch.tensor([model.tokenizer.bos, *map(strings.index, three)])
    attn = model.blocks[0].attn
    weights = [W[head] for W in (attn.W_Q, attn.W_K, attn.W_V, attn.W_O)]
    x, bias = model.W_E[ids], attn.relative_bias(4)[head]
    _, pattern = attention_head(x, *weights, bias)
    (_, to_first, to_second), gap = pattern[3, :3], (bias[3, 2] - bias[3, 1]).item()
    if to_first <= to_second:
        q, k = x[3] @ weights[0], x[1:3] @ weights[1]
        ahead = (q @ (k[0] - k[1])).item() / math.sqrt(len(q))
        raise NotYet(
            f"{three[2]!r} gives {to_second:.2f} to {three[1]!r} and {to_first:.2f} to "
            f"{three[0]!r}. By q · k the first is ahead by {ahead:.2f}; "
            f"the bias is ahead by {gap:.2f}."
        )
    return (
        f"{three[2]!r} gives {to_first:.2f} to {three[0]!r}, and {to_second:.2f} to the one before"
    )


CHECKS = {"03.1": _weights, "03.2": _attention_head, "03.3": _leak, "03.4": _mislead}
