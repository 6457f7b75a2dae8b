"""The exercises of notebook 07: a skip-trigram table, a patch, a forced head, one head for four."""

from functools import partial

import torch
from torch import Tensor

from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.teaching.exercises import NotYet
from aot_helpers.teaching.exercises.references import (
    against,
    draw,
    near,
    read_guesses,
    read_numbers,
)
from aot_helpers.text.planted import BUG, BUG_PREPOSITIONS, BUG_VERBS
from chapters.nb07_one_layer_skip_trigrams.measure import patched, skip_trigram_table


def _without_mean(attention, OV):
    return attention[:, :, None] * OV


WRONG_TABLES = {  # what to say: what was written instead
    "Take from each row of OV its mean over the outs.": _without_mean,
    "The mean runs over the outs, the last dimension.": lambda attention, OV: _without_mean(
        attention, OV - OV.mean(dim=0)
    ),
    "Take the mean off OV, before it is multiplied: you took one mean of all entries.": (
        lambda attention, OV: _without_mean(attention, OV - OV.mean())
    ),
    "You have added the sources up, as in a product of matrices; an entry is for one source.": (
        lambda attention, OV: attention @ (OV - OV.mean(dim=-1, keepdim=True))
    ),
    "As before: you have added the sources up, and the mean is still in it.": (
        lambda attention, OV: attention @ OV
    ),
    "The order of your dimensions is [source, destination, out].": lambda attention, OV: (
        skip_trigram_table(attention, OV).transpose(0, 1)
    ),
    "Multiply what the source adds by the attention weight on the source.": (
        lambda attention, OV: skip_trigram_table(torch.ones_like(attention), OV)
    ),
}


def _random(*shapes, seed):
    """A model of one layer of four heads, and tokens of these shapes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = ModelConfig(9, 1, 32, n_heads=4, d_head=8, n_ctx=12, positions="relative")
        model = AttentionOnlyTransformer(config).requires_grad_(False)
        return model, *(torch.randint(9, shape) for shape in shapes)


def _patch(answer):
    model, texts, donors = _random((2, 6), (2, 6), seed=1)
    mistakes = {
        "Nothing was patched: does your function return the changed z, and is its order "
        "[text, pos, head, d_head]?": (lambda texts, donors, h: model(texts)[:, -1]),
        "That is the whole model on the donors: run it on texts, and patch one head.": (
            lambda texts, donors, h: model(donors)[:, -1]
        ),
        "Another head was patched: z is [text, pos, head, d_head].": (
            lambda texts, donors, h: patched(model, texts, donors, 0)
        ),
    }

    def last(*given):
        logits = answer(model, *given)
        if isinstance(logits, Tensor) and logits.ndim == 3:
            raise NotYet("These are logits at all positions; return the last ones, [:, -1].")
        return logits

    solved = "one head reads another text; all else in the model stays"
    return against(partial(patched, model), [(texts, donors, 1)], mistakes, solved)(last)


def _forced(answer, forced):
    for pair, given in read_guesses(answer, forced):
        if given >= 0.5:
            raise NotYet(f"{pair}: which noun does L0H0 raise for this verb?")
    near(answer, forced, within=0.06)
    shown = ", ".join(f"{pair}: {p:.2f}" for pair, p in forced.items())
    return f"{shown}; the weights predicted a mistake that the model never makes by itself"


def _four_pairs(attention, delta, direct):
    attention = read_numbers(attention, 2, 2, name="attention")
    delta, direct = read_numbers(delta, 2, name="delta"), read_numbers(direct, 2, name="direct")
    if attention.min() < 0 or attention.max() > 1:
        raise NotYet("attention: its weights lie between 0 and 1.")
    chances = (direct[:, None] + attention * delta).sigmoid()  # of mind [preposition, verb]
    right = {}  # {rule: probability of its noun}
    for i, preposition in enumerate(BUG_PREPOSITIONS):
        for j, verb in enumerate(BUG_VERBS):
            noun, p = BUG[verb, preposition], chances[i, j].item()
            right[f"{verb} … {preposition} → {noun}"] = p if noun == "mind" else 1 - p
    worst = min(right, key=right.get)
    if right[worst] < 0.9:
        verb, preposition = worst.split(" → ")[0].split(" … ")
        i, j = BUG_PREPOSITIONS.index(preposition), BUG_VERBS.index(verb)
        x = f"{direct[i]:.1f} + {attention[i, j]:.1f} · {delta[j]:.1f}"
        side = "above 2.2 (mind)" if worst.endswith("mind") else "below -2.2 (bay)"
        raise NotYet(
            f"{worst} has the probability {right[worst]:.2f}; 0.9 is wanted. Its logit difference "
            f"is {x} = {direct[i] + attention[i, j] * delta[j]:.1f}, and should be {side}."
        )
    return f"each right noun has at least {right[worst]:.2f}: one head can serve both prepositions"


CHECKS = {
    "07.1": against(
        skip_trigram_table,
        [(draw(2, 3, seed=s).softmax(dim=-1), draw(3, 4, seed=s + 5)) for s in (0, 1)],
        WRONG_TABLES,
        solved="the weight knows destination and source, what is added knows the source alone",
    ),
    "07.2": _patch,
    "07.3": _forced,
    "07.4": _four_pairs,
}
PAGES = {"07.1": skip_trigram_table, "07.2": patched}
