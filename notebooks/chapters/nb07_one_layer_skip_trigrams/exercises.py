"""The exercises of notebook 07: a skip-trigram table, a patch, a forced head, one head for four."""

import math

import torch

from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import draw, read_guesses, read_numbers
from aot_helpers.text.planted import BUG, BUG_PREPOSITIONS, BUG_VERBS
from chapters.nb07_one_layer_skip_trigrams import measure as one_layer


def _wrong_tables(model, h, frames):
    """{what to say: a table that many write instead of the right one}."""
    attn, X, n = model.blocks[0].attn, model.W_E[frames], frames.shape[-1]
    scores = (X[..., -1:, :] @ attn.W_Q[h] @ (X @ attn.W_K[h]).mT).squeeze(-2)
    scaled, bias = scores / math.sqrt(model.config.d_head), attn.b_rel[h, :n].flip(0)
    boost = X[..., 1, :] @ attn.W_V[h] @ attn.W_O[h] @ model.W_U
    level = boost - boost.mean(dim=-1, keepdim=True)

    def table(scores, boost=level):
        return scores.softmax(dim=-1)[..., 1, None] * boost

    return {
        "Take from what is added its mean over the outs.": table(scaled + bias, boost),
        "Are the scores divided by the square root of d_head?": table(scores + bias),
        "Add to the scores the number for the distance, b_rel.": table(scaled),
        "b_rel begins with distance 0, the last token: turn it round.": table(
            scaled + bias.flip(0)
        ),
        "Multiply what the source adds by the attention weight on the source.": level,
    }


def _random_model():
    """One layer of four heads, 50 tokens; its relative biases, which start at 0, are random too."""
    config = ModelConfig(50, 1, 32, n_heads=4, d_head=8, n_ctx=12, positions="relative")
    model = AttentionOnlyTransformer(config).requires_grad_(False)
    model.blocks[0].attn.b_rel.normal_()
    return model


def _table(answer):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _random_model()
    for shape in ((3, 4, 5), (7, 5)):
        frames = (draw(*shape, seed=3).abs() * 20).long().clamp(max=49)
        given = answer(model, 2, frames)
        if len(shape) != 3 and given is None:
            raise NotYet("Nothing was returned for frames [frame, pos].")
        attempted(given)
        right = one_layer.skip_trigram_table(model, 2, frames)
        if not isinstance(given, torch.Tensor) or given.shape != right.shape:
            got = list(getattr(given, "shape", [])) or type(given).__name__
            raise NotYet(
                f"Frames {list(shape)} should give a tensor {list(right.shape)}; yours: {got}."
            )
        if torch.allclose(given, right, atol=1e-4):
            continue
        for said, table in _wrong_tables(model, 2, frames).items():
            if torch.allclose(given, table, atol=1e-4):
                raise NotYet(said)
        raise NotYet(
            "The shape is right, the numbers are not: compare attention and boost one by one."
        )
    return "weights alone say what this head adds for any source in any frame"


def _patch(answer):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        small = _random_model()
    a, b = ((draw(3, 6, seed=seed).abs() * 20).long().clamp(max=49) for seed in (5, 6))
    given, right = answer(small, a, b, 1), one_layer.patched(small, a, b, 1)
    attempted(given)
    if not isinstance(given, torch.Tensor) or given.shape != right.shape:
        got = list(getattr(given, "shape", [])) or type(given).__name__
        raise NotYet(f"Logits after the last token, {list(right.shape)}, are wanted; yours: {got}.")
    if torch.allclose(given, right, atol=1e-4):
        return "one head reads another text; all else in the model stays"
    wrong = {
        "Nothing was patched: does your function return the changed z?": small(a)[:, -1],
        "That is the whole model on the donors: run it on texts, and patch one head.": small(b)[
            :, -1
        ],
    }
    if any(torch.allclose(given, one_layer.patched(small, a, b, h), atol=1e-4) for h in (0, 2, 3)):
        raise NotYet("Another head was patched: z is [text, pos, head, d_head].")
    for said, logits in wrong.items():
        if torch.allclose(given, logits, atol=1e-4):
            raise NotYet(said)
    raise NotYet("Patch z of head h only, and at the last position only.")


def _forced(answer, forced):
    for pair, given in read_guesses(answer, forced):
        if not 0 <= given <= 1:
            raise NotYet(f"{pair}: a probability from 0 to 1 is wanted, got {given:.2f}.")
        if given >= 0.5:
            raise NotYet(f"{pair}: which noun does L0H0 raise for this verb?")
        if abs(given - forced[pair]) > 0.06:
            raise NotYet(
                f"{pair}: not so near {given:.2f}. It is 1 / (1 + e^-x), x the logit of the right "
                "noun minus that of the other."
            )
    shown = ", ".join(f"{pair}: {p:.2f}" for pair, p in forced.items())
    return f"{shown}; the weights foretold a mistake that the model never makes by itself"


def _four_pairs(attention, delta, direct):
    shapes = {"attention": (attention, 2, 2), "delta": (delta, 2), "direct": (direct, 2)}
    numbers = {}
    for name, (given, *shape) in shapes.items():
        numbers[name] = read_numbers(given, *shape, name=name)
    attention, delta, direct = numbers.values()
    if attention.min() < 0 or attention.max() > 1:
        raise NotYet("attention: its weights lie between 0 and 1.")
    chances = (direct[:, None] + attention * delta).sigmoid()  # of mind [preposition, verb]
    worst = 1.0
    for i, preposition in enumerate(BUG_PREPOSITIONS):
        for j, verb in enumerate(BUG_VERBS):
            noun, p = BUG[verb, preposition], float(chances[i, j])
            p = p if noun == "mind" else 1 - p
            worst = min(worst, p)
            if p < 0.9:
                raise NotYet(
                    f"{verb} … {preposition} → {noun} has the probability {p:.2f}; 0.9 is wanted."
                )
    return f"each right noun has at least {worst:.2f}: one head can serve both prepositions"


CHECKS = {"07.1": _table, "07.2": _patch, "07.3": _forced, "07.4": _four_pairs}
PAGES = {"07.1": one_layer.skip_trigram_table, "07.2": one_layer.patched}
