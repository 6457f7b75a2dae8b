"""The exercises of notebook 04: attention, the whole model, attribution, direct and total effect.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import math

import torch
from torch import Tensor

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.attention import common_flaws, flawed_attention
from aot_helpers.teaching.exercises.references import (
    compared,
    draw,
    read_guesses,
)

NEAR = 0.15  # of a logit, in 04.4: numbers in the figures are rounded to 0.1


def head(x, W_Q, W_K, W_V, W_O, bias):
    """What one head writes (notebook 03): x [batch, pos, d_model] -> [batch, pos, d_model]."""
    q, k, v = x @ W_Q, x @ W_K, x @ W_V  # [batch, pos, d_head]
    scores = q @ k.mT / math.sqrt(W_Q.shape[-1]) + bias  # [batch, query_pos, key_pos]
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    pattern = scores.masked_fill(future, -math.inf).softmax(dim=-1)
    return pattern @ v @ W_O


def attention(x, W_Q, W_K, W_V, W_O, bias):
    """What a layer of heads writes: x [batch, pos, d_model] -> [batch, pos, d_model].

    W_Q, W_K, W_V: [head, d_model, d_head]. W_O: [head, d_head, d_model].
    bias: [head, query_pos, key_pos], added to the scores.
    """
    written = torch.zeros_like(x)
    for h in range(len(W_Q)):
        written = written + head(x, W_Q[h], W_K[h], W_V[h], W_O[h], bias[h])
    return written


def transformer(tokens, W_E, layers, W_U):
    """Logits [batch, pos, d_vocab] of tokens [batch, pos].

    layers: for each layer, the last five arguments of attention.
    """
    resid = W_E[tokens]
    for weights in layers:
        resid = resid + attention(resid, *weights)
    return resid @ W_U


def attribute(written, W_U, token, rival):
    """What each row of written, {name: [d_model]}, adds to the logit difference token - rival."""
    direction = W_U[:, token] - W_U[:, rival]
    return {name: (row @ direction).item() for name, row in written.items()}


PAGES = {"04.1": attention, "04.2": transformer}


def torch_attention(x, W_Q, W_K, W_V, W_O, bias) -> Tensor:
    """What a layer of heads writes, by torch.nn.MultiheadAttention: all heads in one matrix."""
    n_heads, d_model, _ = W_Q.shape
    with torch.no_grad(), torch.random.fork_rng():  # its own start is thrown away
        layer = torch.nn.MultiheadAttention(d_model, n_heads, bias=False, batch_first=True)
        stacks = [W.transpose(0, 1).flatten(1).T for W in (W_Q, W_K, W_V)]
        layer.in_proj_weight.copy_(torch.cat(stacks))
        layer.out_proj.weight.copy_(W_O.flatten(0, 1).T)
        mask = bias.masked_fill(torch.ones_like(bias, dtype=torch.bool).triu(1), -math.inf)
        return layer(x, x, x, attn_mask=mask.repeat(len(x), 1, 1), need_weights=False)[0]


def _attention(answer):
    gaps = []
    for batch, n_pos, n_heads, d_head in ((2, 5, 3, 4), (1, 7, 2, 6), (3, 4, 1, 8)):
        d_model = n_heads * d_head
        x, bias = draw(batch, n_pos, d_model, seed=n_pos), draw(n_heads, n_pos, n_pos, seed=5)
        weights = [draw(n_heads, d_model, d_head, seed=i) for i in (1, 2, 3)]
        weights.append(draw(n_heads, d_head, d_model, seed=4))
        right, chained, aside = attention(x, *weights, bias), x, 0 * x
        for h in range(n_heads):
            aside = aside + head(x + aside, *(W[h] for W in weights), bias[h])
            chained = head(chained, *(W[h] for W in weights), bias[h])
        same_x = (
            "Your heads read what the heads before them wrote; all heads of a layer read the same x"
        )
        mistakes = {
            message: flawed_attention(x[:, None], *weights, bias, **flaw)[0].sum(dim=1)
            for message, flaw in common_flaws(d_model, d_head).items()
        } | {
            "You average over the heads; a layer writes their sum.": right / n_heads,
            "The bias is missing: add it to the scores.": attention(x, *weights, 0 * bias),
            "You add x itself; the layer gives what its heads write.": x + right,
            "This is the last head alone; a layer adds up all of them.": (
                head(x, *(W[-1] for W in weights), bias[-1])
            ),
            f"{same_x}.": aside,
            f"{same_x}, and what they write is added.": chained,
        }
        try:
            given = answer(x, *weights, bias)
        except RuntimeError as error:
            if f"tensor a ({batch}) must match the size of tensor b ({n_heads})" in str(error):
                raise NotYet("Give x a dimension for the heads: x[:, None].") from error
            raise
        gaps.append(compared(given, torch_attention(x, *weights, bias), mistakes))
    return f"this is multi-head attention: PyTorch's own layer gives the same, to {max(gaps):.0e}"


def _transformer(answer, model, tokens):
    with torch.no_grad():
        parts = [layer.attn for layer in model.blocks]
        n_pos = tokens.shape[1]
        layers = [(a.W_Q, a.W_K, a.W_V, a.W_O, a.relative_bias(n_pos)) for a in parts]
        start = replaced = aside = model.W_E[tokens]
        for weights in layers:
            replaced, aside = attention(replaced, *weights), aside + attention(start, *weights)
        mistakes = {
            "No layer is run: each must add what its attention gives.": start @ model.W_U,
            "Your layers replace the residual stream: each must add to it.": replaced @ model.W_U,
            "Every layer of yours reads the embedding: each must read the stream as it is by "
            "then.": aside @ model.W_U,
        }
        given = answer(tokens, model.W_E, layers, model.W_U)
        gap = compared(given, model(tokens), mistakes, within=1e-3)
    return f"every logit of the trained model, to {gap:.0e}: this is the whole model"


def _rival(answer, model, wrote, token, of_kind):
    """A rival against which a head does not help; wrote: {head: what it wrote, [d_model]}."""
    given = attempted(answer)
    strings = model.tokenizer.token_strings(torch.arange(model.config.d_vocab))
    if given not in strings:
        raise NotYet(f"{given!r} is no token of the vocabulary. Mind the space before a word.")
    rival = strings.index(given)
    if rival == token:
        raise NotYet("A token is no rival of itself.")
    terms = attribute(wrote, model.W_U, token, rival)
    helper, other = terms.values()
    names = list(wrote)
    if helper > 0:
        why = "; an ending is just what this head can tell apart" * (rival in of_kind)
        raise NotYet(f"{names[0]} adds {helper:.1f} to the difference from {given!r}{why}.")
    return f"against {given!r}, {names[0]} adds {helper:.1f} and {names[1]} adds {other:.1f}"


def _total_effects(answer, truth, terms):
    """The two falls of the logit; terms: what each head adds directly, with all heads on."""
    for pair, guess in read_guesses(answer, truth):
        beyond = truth[pair] - guess
        if abs(beyond) <= NEAR:
            continue
        if "L0H3" not in pair:
            hint = "the two share a layer, so neither reads the other. What does each add?"
        elif abs(beyond + terms["L1H0"]) < 1:
            hint = "without L0H3, how much does L1H0 still have to lose?"
        else:
            side = "more" if beyond > 0 else "less"
            hint = f"it is {side} than {guess:.1f}. The last figure shows both steps."
        raise NotYet(f"{pair}: {hint}")
    return (
        "total effects add up within a layer, where no head reads another; across layers they "
        "overlap"
    )


CHECKS = {"04.1": _attention, "04.2": _transformer, "04.3": _rival, "04.4": _total_effects}
