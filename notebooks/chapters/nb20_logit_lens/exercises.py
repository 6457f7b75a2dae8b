"""The exercises of notebook 20: the lens, a random baseline, readings broken, a patch predicted.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch
from torch import Tensor

from aot_helpers.models.protocol import Head, check_head
from aot_helpers.reading.logit_lens import rank, read
from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import draw
from chapters.nb20_logit_lens.controls import patched_logits

LOUD, QUIET = 0.3, 100  # of 20.3: the least probability of a top token, the least rank of the word
KEEPS, LOSES = 0.01, 0.1  # the most that p may change, and the most that may be left of it


def logit_lens(x, final_norm, W_U, k):
    """Read vectors x [..., d_model]: the ids of their k top tokens [..., k], and the probability of
    every token [..., d_vocab].
    """
    p = (final_norm(x) @ W_U).softmax(dim=-1)
    return p.topk(k).indices, p


def norm_matched(heads, W_O):
    """Random vectors that heads could have written: each as long as the one that it replaces.

    heads: [..., head, d_model], what some heads wrote. W_O: [head, d_head, d_model].
    """
    z = torch.randn(*heads.shape[:-1], W_O.shape[1])  # [..., head, d_head]
    made = (z[..., None, :] @ W_O)[..., 0, :]  # [..., head, d_model]
    return made * heads.norm(dim=-1, keepdim=True) / made.norm(dim=-1, keepdim=True)


def predict_patch(logits, here, there, W_U):
    """The logits [d_vocab] once a head writes `there` in place of `here` (both [d_model])."""
    return logits - here @ W_U + there @ W_U


PAGES = {"20.1": logit_lens, "20.2": norm_matched, "20.4": predict_patch}


def _same_shape(given, expected: Tensor, name: str) -> None:
    """Raises NotYet unless it is a finite tensor of the shape that is expected."""
    if not isinstance(given, Tensor) or given.shape != expected.shape:
        said = tuple(given.shape) if isinstance(given, Tensor) else given
        raise NotYet(f"{name}: the shape {tuple(expected.shape)} is wanted, got {said!r}.")
    if not given.isfinite().all():
        raise NotYet(f"{name}: there is NaN or infinity.")


def _lens(answer):
    norm = torch.nn.LayerNorm(12)
    with torch.no_grad():
        norm.weight.copy_(1 + 0.5 * draw(12, seed=1))
    x, W_U = 3 * draw(2, 5, 12, seed=2), draw(12, 30, seed=3)
    with torch.no_grad():
        given, (ids, p) = answer(x.clone(), norm, W_U, 4), logit_lens(x, norm, W_U, 4)
        raw, logits = (x @ W_U).softmax(dim=-1), norm(x) @ W_U
    attempted(given)
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise NotYet("Return two things: the ids of the top tokens, and all probabilities.")
    if torch.is_tensor(given[1]) and given[1].shape == ids.shape and given[0].shape == p.shape:
        raise NotYet("The ids come first, the probabilities second.")
    for one, wanted, name in zip(given, (ids, p), ("ids", "probabilities"), strict=True):
        _same_shape(one, wanted, name)
    mistakes = {
        "You left the final norm out: apply it to x before W_U.": raw,
        "These are the logits: a softmax makes probabilities of them.": logits,
        "Your softmax does not run over the vocabulary: the probabilities of one place must add up "
        "to 1 (dim=-1).": logits.softmax(dim=0),
        "Your softmax runs over the positions: take dim=-1.": logits.softmax(dim=1),
        "The norm belongs before W_U, not after it.": torch.nn.functional.layer_norm(
            x @ W_U, (30,)
        ).softmax(dim=-1),
    }
    for said, mistake in mistakes.items():
        if torch.allclose(given[1], mistake, atol=1e-5):
            raise NotYet(said)
    if not torch.allclose(given[1], p, atol=1e-5):
        raise NotYet(
            f"The probabilities differ from mine by up to {(given[1] - p).abs().max():.2f}."
        )
    if not torch.equal(given[0], ids):
        lowest = (-p).topk(4).indices
        if torch.equal(given[0], lowest):
            raise NotYet("These are the tokens with the smallest probabilities.")
        raise NotYet(
            "The probabilities are right; the ids are not those of the k largest, in order."
        )
    return "with a final norm or without one, it reads any vector of the residual stream"


def _norm_matched(answer):
    heads = draw(40, 3, 24, seed=1) * torch.tensor([5.0, 1.0, 0.2])[:, None]
    W_O = draw(3, 6, 24, seed=2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        given = answer(heads.clone(), W_O)
        again = answer(heads.clone(), W_O) if torch.is_tensor(given) else given
    attempted(given)
    _same_shape(given, heads, "the random vectors")
    if torch.equal(given, again):
        raise NotYet(
            "Two calls give the same vectors: draw new random numbers each time (torch.randn)."
        )
    if (given - given[:1]).abs().max() < 1e-5 or _alike(given) > 0.99:
        raise NotYet(
            "All prompts get the same random direction: draw one for each prompt and head."
        )
    lengths = [x.norm(dim=-1) for x in (given, heads)]
    if not torch.allclose(*lengths, rtol=1e-3):
        if torch.allclose(*(x.flatten(1).norm(dim=1) for x in (given, heads)), rtol=1e-3):
            raise NotYet(
                "Only the norm of all heads together is right: match each head's own norm."
            )
        ratio = (lengths[0] / lengths[1]).mean()
        raise NotYet(f"The norms do not match: yours are {ratio:.2f} times as long, on average.")
    cosine = torch.cosine_similarity(given, heads, dim=-1).mean(dim=0).abs().max()
    if cosine > 0.25:
        raise NotYet(f"Yours still point where the heads point (mean cosine {cosine:.2f}).")
    for h in range(3):
        basis = torch.linalg.qr(W_O[h].T).Q
        left = (given[:, h] - given[:, h] @ basis @ basis.T).norm() / given[:, h].norm()
        if left > 1e-3:
            raise NotYet(
                f"Head {h} could not have written these: a head writes z W_O, so draw z of width "
                "d_head = 6 and send it through the head's own W_O."
            )
    return "random in direction, as long as the heads: what they share owes nothing to text"


def _alike(x: Tensor) -> float:
    """How parallel the vectors of different prompts are: 1 is all along one line."""
    units = torch.nn.functional.normalize(x, dim=-1)
    return (units[1:] * units[:1]).sum(dim=-1).abs().mean().item()


def _predict_patch(answer, model, tokens, other):
    runs = [model.run_with_cache(each[None]) for each in (tokens, other)]
    gaps = []
    for at in (Head(1, 2), Head(1, 0)):
        here, there = (read(model, cache, "head", at)[0, -1] for _, cache in runs)
        logits, expected = runs[0][0][0, -1], patched_logits(model, tokens, other, [at])
        given = attempted(answer(logits.clone(), here.clone(), there.clone(), model.W_U))
        _same_shape(given, expected, "the logits")
        mistakes = {
            "Here and there have changed places.": logits + here @ model.W_U - there @ model.W_U,
            "What the head wrote here is still in it: take it off.": logits + there @ model.W_U,
            "You took the head out, but did not put the other vector in.": logits
            - here @ model.W_U,
            "These are the head's own logits; the rest of the residual stream stays.": there
            @ model.W_U,
        }
        for said, mistake in mistakes.items():
            if torch.allclose(given, mistake, atol=1e-3):
                raise NotYet(said)
        gaps.append((given - expected).abs().max().item())
        if gaps[-1] > 1e-3:
            raise NotYet(
                f"For {at}, the patched run has logits up to {gaps[-1]:.2f} apart from yours."
            )
    return f"every logit of two patched runs, to {max(gaps):.0e}, without running the model"


def _broken(answers, model, tokens):
    if not isinstance(answers, dict) or set(answers) != {"loud", "quiet"}:
        raise NotYet(f'A dict with the keys "loud" and "quiet" is wanted, got {answers!r}.')
    if all(each is ... for each in answers.values()):
        raise NotAttempted
    logits, cache = model.run_with_cache(tokens[None])
    word, clean = logits[0, -1].argmax(), logits[0, -1].softmax(dim=-1).max()
    for name, each in answers.items():
        if each is ...:
            raise NotYet(f"One is still open: {name}.")
        try:
            head, at = Head(*each[0]), int(each[1])
            check_head(model.config, head)
        except (TypeError, ValueError, IndexError):
            raise NotYet(
                f"{name}: a head and a position, such as (Head(1, 2), 5); yours is {each!r}."
            ) from None
        if not 0 <= at < len(tokens):
            raise NotYet(f"{name}: there is no position {at}; the text has 0 to {len(tokens) - 1}.")
        text = model.tokenizer.token_strings(tokens[at : at + 1])[0]
        if name == "loud":
            if head.layer != 1:
                raise NotYet(
                    f"loud: take a value of a head of layer 1; {head} is in layer {head.layer}."
                )
            x = read(model, cache, "value", head)[0, at] @ model.W_U
            p, top = x.softmax(dim=-1).max(), model.tokenizer.token_strings(x.argmax()[None])[0]
            if p < LOUD:
                raise NotYet(
                    f"loud: the value at {text!r} gives {top!r} only {p:.2f}; find a clearer one."
                )
            weight, v = cache["L1.pattern"][0, head.head, -1, at], cache["L1.v"][0, at, head.head]
            left = _probability(model, tokens, head, -1, weight * v, word)
            if abs(left - clean) > KEEPS:
                raise NotYet(
                    f"loud: without it the probability goes from {clean:.2f} to {left:.2f}. "
                    f"{head} attends to it with {weight:.2f}; to which value does it not attend?"
                )
            loud = f"a value that reads {top!r} ({p:.2f}) changes nothing"
        else:
            x = read(model, cache, "head", head)[0, at] @ model.W_U
            found = int(rank(x, word)) + 1
            if found < QUIET:
                raise NotYet(
                    f"quiet: its reading has the word at rank {found}; {QUIET} or more is asked."
                )
            left = _probability(
                model, tokens, head, at, cache[f"L{head.layer}.z"][0, at, head.head], word
            )
            if left > LOSES:
                raise NotYet(
                    f"quiet: without it the probability is still {left:.2f}. What does an "
                    "induction head need to find its place, and who writes it where?"
                )
            quiet = f"one that ranks the word {found} takes it to {left:.3f}"
    return f"{loud}, and {quiet}: a reading is one path, and an effect is all of them"


def _probability(model, tokens, head: Head, at: int, part: Tensor, word: int) -> float:
    """The probability of a token once a part of a head's z is taken off at one position."""

    def edit(z):
        z = z.clone()
        z[:, at, head.head] -= part
        return z

    logits = model(tokens[None], edits={f"L{head.layer}.z": edit})
    return logits[0, -1].softmax(dim=-1)[word].item()


CHECKS = {"20.1": _lens, "20.2": _norm_matched, "20.3": _broken, "20.4": _predict_patch}
