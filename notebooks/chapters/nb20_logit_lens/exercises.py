"""The exercises of notebook 20: a random baseline, readings broken, a patch predicted.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from aot_helpers.models.protocol import Head, check_head
from aot_helpers.reading.logit_lens import rank
from aot_helpers.teaching.exercises import NotAttempted, NotYet, attempted
from aot_helpers.teaching.exercises.references import compared, draw, read_tensor

LOUD, QUIET = 0.3, 100  # of 20.2: the least probability of a top token, the least rank of the word
KEEPS, LOSES = 0.01, 0.1  # the most that p may change, and the most that may be left of it


def norm_matched(heads, W_O):
    """Random vectors that heads could have written: each as long as the one that it replaces.

    heads: [..., head, d_model], what some heads wrote. W_O: [head, d_head, d_model].
    """
    z = torch.randn(*heads.shape[:-1], W_O.shape[1])  # [..., head, d_head]
    made = (z[..., None, :] @ W_O)[..., 0, :]  # [..., head, d_model]
    return made * heads.norm(dim=-1, keepdim=True) / made.norm(dim=-1, keepdim=True)


def predict_patch(logits, here, there, W_U):
    """The logits [..., d_vocab] once a head writes `there` in place of `here` [..., d_model]."""
    return logits - here @ W_U + there @ W_U


PAGES = {"20.1": norm_matched, "20.3": predict_patch}


def _norm_matched(answer):
    heads = draw(40, 3, 24, seed=1) * torch.tensor([5.0, 1.0, 0.2])[:, None]
    W_O = draw(3, 6, 24, seed=2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        drawn = (answer(heads.clone(), W_O) for _ in range(2))
        given, again = (read_tensor(x, *heads.shape, name="A vector for each head") for x in drawn)
    if torch.equal(given, again):
        raise NotYet("Two calls give the same vectors: draw new random numbers each time.")
    units = F.normalize(given, dim=-1)
    if (units[1:] * units[:1]).sum(dim=-1).abs().mean() > 0.99:
        raise NotYet(
            "All prompts get the same random direction: draw one for each prompt and head."
        )
    ratio = given.norm(dim=-1) / heads.norm(dim=-1)
    if (ratio - 1).abs().max() > 1e-3:
        raise NotYet(
            f"The norms do not match: yours are {ratio.mean():.2f} times as long, on average. "
            "Match each head's own norm."
        )
    for h, W in enumerate(W_O):
        basis = torch.linalg.qr(W.T).Q
        if (given[:, h] - given[:, h] @ basis @ basis.T).norm() > 1e-3 * given[:, h].norm():
            raise NotYet(
                f"Head {h} could not have written these: a head writes z W_O, so draw z of width "
                "d_head = 6 and send it through the head's own W_O."
            )
    return "random in direction, as long as the heads: what they share owes nothing to text"


def _predict_patch(answer, model, tokens, other):
    heads = Head(1, 2), Head(1, 0)
    (logits, cache), (_, elsewhere) = (model.run_with_cache(x[None]) for x in (tokens, other))
    here, there = (
        torch.stack([_through_W_O(model, run, at, "z")[-1] for at in heads])
        for run in (cache, elsewhere)
    )
    logits, W_U = logits[0, -1].expand(2, -1), model.W_U
    expected = torch.stack([_patched_logits(model, tokens, other, at) for at in heads])
    given = attempted(answer(logits.clone(), here.clone(), there.clone(), W_U))
    mistakes = {
        "Here and there have changed places.": logits + here @ W_U - there @ W_U,
        "What the head wrote here is still in it: take it off.": logits + there @ W_U,
        "You took the head out, but did not put the other vector in.": logits - here @ W_U,
        "These are the head's own logits; the rest of the stream stays.": there @ W_U,
    }
    gap = compared(given, expected, mistakes)
    return f"every logit of two patched runs, to {gap:.0e}, without running the model"


def _patched_logits(model, tokens, other, head: Head) -> Tensor:
    """The last logits of a text in which a head ends with the z that it had in another."""
    name = f"L{head.layer}.z"
    z, theirs = (model.run_with_cache(each[None])[1][name] for each in (tokens, other))
    z = z.clone()
    z[:, -1, head.head] = theirs[:, -1, head.head]
    return model(tokens[None], edits={name: z})[0, -1]


def _broken(answers, model, tokens):
    if not isinstance(answers, dict) or set(answers) != {"loud", "quiet"}:
        raise NotYet(f'A dict with the keys "loud" and "quiet" is wanted, got {answers!r}.')
    if all(each is ... for each in answers.values()):
        raise NotAttempted
    places = {}
    for name, each in answers.items():
        try:
            head, at = check_head(model.config, Head(*each[0])), range(len(tokens))[each[1]]
        except (TypeError, ValueError, IndexError):
            raise NotYet(
                f"{name}: a head and a position of the text, such as (aot.Head(1, 2), 5); yours is "
                f"{each!r}."
            ) from None
        places[name] = head, at
    logits, cache = model.run_with_cache(tokens[None])
    word, clean = logits[0, -1].argmax(), logits[0, -1].softmax(dim=-1).max()
    loud = _loud(model, tokens, cache, *places["loud"], word, clean)
    quiet = _quiet(model, tokens, cache, *places["quiet"], word)
    return f"{loud}, and {quiet}: a reading is one path, and an effect is all of them"


def _loud(model, tokens, cache, head: Head, at: int, word: int, clean: float) -> str:
    """A value that reads loudly and does nothing, at a place. Raises NotYet unless it is that."""
    if head.layer != 1:
        raise NotYet(f"loud: take a value of a head of layer 1; {head} is in layer {head.layer}.")
    strings = model.tokenizer.token_strings
    p, top = (_through_W_O(model, cache, head, "v")[at] @ model.W_U).softmax(dim=-1).max(dim=-1)
    if p < LOUD:
        (text,), (top,) = strings(tokens[at : at + 1]), strings(top[None])
        raise NotYet(f"loud: the value at {text!r} gives {top!r} only {p:.2f}; find a clearer one.")
    weight = cache["L1.pattern"][0, head.head, -1, at]
    left = _probability(model, tokens, head, -1, weight * cache["L1.v"][0, at, head.head], word)
    if abs(left - clean) > KEEPS:
        raise NotYet(
            f"loud: without it the probability goes from {clean:.2f} to {left:.2f}. "
            f"{head} attends to it with {weight:.2f}; to which value does it not attend?"
        )
    return f"a value that reads {strings(top[None])[0]!r} ({p:.2f}) changes nothing"


def _quiet(model, tokens, cache, head: Head, at: int, word: int) -> str:
    """A head's output without the word that the word needs. Raises NotYet unless it is that."""
    found = int(rank(_through_W_O(model, cache, head, "z")[at] @ model.W_U, word)) + 1
    if found < QUIET:
        raise NotYet(f"quiet: its reading has the word at rank {found}; {QUIET} or more is asked.")
    z = cache[f"L{head.layer}.z"][0, at, head.head]
    left = _probability(model, tokens, head, at, z, word)
    if left > LOSES:
        raise NotYet(
            f"quiet: without it the probability is still {left:.2f}. What does an "
            "induction head need to find its place, and who writes it where?"
        )
    return f"one that ranks the word {found} takes it to {left:.3f}"


def _through_W_O(model, cache: dict[str, Tensor], head: Head, name: str) -> Tensor:
    """What a head writes ("z"), or what each of its values would ("v"): [pos, d_model]."""
    return cache[f"L{head.layer}.{name}"][0, :, head.head] @ model.head_weights(head).W_O


def _probability(model, tokens, head: Head, at: int, part: Tensor, word: int) -> float:
    """The probability of a token once a part of a head's z is taken off at one position."""

    def edit(z):
        z = z.clone()
        z[:, at, head.head] -= part
        return z

    logits = model(tokens[None], edits={f"L{head.layer}.z": edit})
    return logits[0, -1].softmax(dim=-1)[word].item()


CHECKS = {"20.1": _norm_matched, "20.2": _broken, "20.3": _predict_patch}
