"""The exercises of notebook 11: a threshold, three ablations without labels, two heads out.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

import torch

from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ABLATIONS
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, near, read_guesses
from aot_helpers.text.batches import repeated_tokens
from chapters.nb11_causal_tests.measure import boxes

NEAR_WEIGHT = 0.1  # of 11.1
N = 22  # tokens of the segments on which 11.2 is tried out


def which_way(box):
    """How a box replaces heads: "zero", "mean" or "resample".

    box(heads): by how much the losses of the first and of the second copy rise without the heads.
    """
    if box([Head(0, 2)])[0] > 0.5:
        return "zero"  # the constant is gone
    if box([Head(1, 0), Head(1, 2)])[1] > 9:
        return "resample"  # worse than knowing nothing
    return "mean"


def loss_without_both(whole, without_a, without_b, right):
    """The loss that is expected without two heads, from the logits of three runs.

    whole, without_a, without_b: [text, pos, d_vocab]; right: [text, pos], the next tokens.
    """
    logits = without_a + without_b - whole
    log_p = logits.log_softmax(dim=-1)
    return -log_p.gather(-1, right[..., None]).mean()


PAGES = {"11.2": which_way, "11.3": loss_without_both}


def _weights(match, constant):
    """{factor: attention weight} of a key that beats BOS by match - constant * factor."""
    return {f: torch.sigmoid(torch.tensor(match - constant * f)).item() for f in (0.5, 1.5, 2)}


def _threshold(answer, truth):
    given = dict(read_guesses(answer, truth))
    known = {
        "The factor changes the 8 alone, not the whole difference of 3.": {
            f: _weights(3 * f, 0)[f] for f in truth
        },
        "A weight is not proportional to the factor; first find the difference of the scores.": {
            f: min(0.9 * f, 1) for f in truth
        },
        "These are the weights of BOS; the right token has the rest.": {
            f: 1 - weight for f, weight in truth.items()
        },
    }
    for message, mistake in known.items():
        if all(abs(given[f] - mistake[f]) < 0.06 for f in truth):
            raise NotYet(message)
    near(answer, truth, NEAR_WEIGHT)
    return "the score difference is a straight line in the factor, its softmax is nearly a step"


WHY = {  # what tells two ways apart
    frozenset(["zero", "mean"]): "Which head writes much whatever the text? The mean leaves that.",
    frozenset(["mean", "resample"]): "Which heads say something false when they read another text?",
}


def _which(answer, model):
    tokens, others = (repeated_tokens(1024, N, 8, model.tokenizer.bos, seed=i) for i in (7, 8))
    counts, wanted = [], ", ".join(map(repr, ABLATIONS))
    for seed in range(2):  # in two orders
        for box in boxes(model, tokens, others, seed).values():
            way, tried = box.keywords["way"], []

            def counted(heads, box=box, tried=tried):
                tried.append(heads)
                return box(heads)

            given = answer(counted)
            if not counts:
                attempted(given)
            if given not in ABLATIONS:
                raise NotYet(f"One of {wanted} is wanted for every box, got {given!r:.40}.")
            if given != way:
                why = WHY.get(frozenset([given, way]), "What can only one of the two do?")
                raise NotYet(f"You take a {way} box for a {given} box. {why}")
            counts.append(len(tried))
    return f"at most {max(counts)} experiments a box"


def _loss(logits, right):
    return loss_without_both(logits, logits, logits, right)


WRONG_SUMS = {  # what to say: what many write instead, of the logits of three runs
    "You add losses; it is the logits that add up.": (
        lambda w, a, b, right: _loss(a, right) + _loss(b, right) - _loss(w, right)
    ),
    "In without_a + without_b the whole model is counted twice.": (
        lambda w, a, b, right: _loss(a + b, right)
    ),
    "The mean of two runs lacks each head by half; add both changes.": (
        lambda w, a, b, right: _loss((a + b) / 2, right)
    ),
    "This is the logit of the right token; the loss is minus its log-probability.": (
        lambda w, a, b, right: -(a + b - w).gather(-1, right[..., None]).mean()
    ),
}
CHECKS = {
    "11.1": _threshold,
    "11.2": _which,
    "11.3": against(
        loss_without_both,
        [
            (*(3 * draw(2, 4, 7, seed=i) for i in (1, 2, 3)), draw(2, 4, 7, seed=4).argmax(dim=-1)),
            (*(draw(1, 3, 5, seed=i) for i in (5, 6, 7)), draw(1, 3, 5, seed=8).argmax(dim=-1)),
        ],
        WRONG_SUMS,
        solved="what two heads do to the logits adds up, if neither reads the other",
    ),
}
