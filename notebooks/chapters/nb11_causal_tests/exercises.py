"""The exercises of notebook 11: ablations, a threshold, frozen attention, a fact, two heads.

PAGES are the package's versions of what the reader writes; each is its folded solution.
"""

from aot_helpers.models.losses import copy_losses
from aot_helpers.models.protocol import Head
from aot_helpers.reading.interventions import ABLATIONS, ablate
from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, compared, draw, near

NEAR_WEIGHT, NEAR_SHARE = 0.1, 0.2  # of 11.2 and of 11.4


def knock_out(z, z_others, heads, way):
    """What a layer's heads write, z [text, pos, head, d_head], with some of the heads knocked out.

    way: "zero"; "mean" or "resample" of z_others, the same activation of other texts.
    """
    z = z.clone()
    if way == "zero":
        new = 0
    elif way == "mean":
        new = z_others[:, :, heads].mean(dim=(0, 1))
    elif way == "resample":
        new = z_others[:, :, heads]
    z[:, :, heads] = new
    return z


def freeze_attention(model, tokens, edits):
    """The edits, and layer 1 attends as in a run on these tokens without them."""
    _, cache = model.run_with_cache(tokens)
    return edits | {"L1.pattern": cache["L1.pattern"]}


def loss_without_both(whole, without_a, without_b, right):
    """The loss that is expected without two heads, from the logits of three runs.

    whole, without_a, without_b: [text, pos, d_vocab]; right: [text, pos], the next tokens.
    """
    logits = without_a + without_b - whole
    log_p = logits.log_softmax(dim=-1)
    return -log_p.gather(-1, right[..., None]).mean()


PAGES = {"11.1": knock_out, "11.3": freeze_attention, "11.5": loss_without_both}


def _placed(z, heads, new):
    z = z.clone()
    z[:, :, heads] = new
    return z


def _knock_out(answer):
    z, others = draw(2, 3, 4, 5), draw(2, 3, 4, 5, seed=1)
    for way in ABLATIONS:
        for heads in ([2], [0, 3]):
            given, theirs = z.clone(), others[:, :, heads]
            found = answer(given, others.clone(), heads, way)
            if way == "zero":
                attempted(found)
            if found is None:
                raise NotYet(f"For way={way!r} nothing is returned.")
            known = {
                "Nothing has changed.": z,
                "All heads of the layer have changed.": knock_out(z, others, [0, 1, 2, 3], way),
                "This is the mean of z itself; take that of z_others.": knock_out(z, z, heads, way),
            }
            if way == "mean":
                known |= {
                    "The mean runs over texts alone; take it over positions, too.": _placed(
                        z, heads, theirs.mean(dim=0)
                    ),
                    "The mean runs over positions alone; take it over texts, too.": _placed(
                        z, heads, theirs.mean(dim=1, keepdim=True)
                    ),
                    "The mean is one number; each of the d_head numbers has its own.": _placed(
                        z, heads, theirs.mean()
                    ),
                }
            try:
                compared(found, knock_out(z, others, heads, way), known)
            except NotYet as problem:
                raise NotYet(f"For way={way!r} and heads={heads}: {problem}") from None
            if not given.equal(z):
                raise NotYet("Your page changes the z that it is given; begin with a copy of it.")
    return "three replacements; each takes away what the head knows of this text"


def _threshold(answer, truth):
    near(answer, truth, NEAR_WEIGHT)
    return "the score difference is a straight line in the factor, its softmax is nearly a step"


def _attention_frozen(answer, model, tokens):
    for head in (3, 1):
        zeroed = ablate(model, [Head(0, head)], "zero")
        found = attempted(answer(model, tokens, dict(zeroed)))
        if not isinstance(found, dict):
            raise NotYet(f"Edits are wanted, {{name: what takes its place}}; got {found!r:.60}.")
        try:
            losses = copy_losses(model, tokens, found)
        except (ValueError, TypeError, RuntimeError) as error:
            raise NotYet(f"The model cannot use these edits: {error}") from None
        wanted = copy_losses(model, tokens, freeze_attention(model, tokens, zeroed))
        known = {
            "the head is no longer ablated; keep the edits that are given": {},
            "layer 1 attends as it does without the head; take its pattern from the whole model": (
                zeroed
            ),
        }
        if _apart(losses, wanted):
            why = [
                said
                for said, e in known.items()
                if not _apart(losses, copy_losses(model, tokens, e))
            ]
            why = why or [f"the second copy's loss is {losses[1]:.3f}, {wanted[1]:.3f} is expected"]
            raise NotYet(f"With L0H{head} zero-ablated: {why[0]}.")
    return "the head's output is gone, but layer 1 attends where it would have attended with it"


def _apart(one, two):
    return max(abs(a - b) for a, b in zip(one, two, strict=True)) > 1e-3


def _facts(answer, truth):
    near(answer, truth, NEAR_SHARE)
    return (
        "the previous-token head moves where to look, the induction heads bring what stands there"
    )


def _loss(logits, right):
    return loss_without_both(logits, logits, logits, right)


_add_logits = against(
    loss_without_both,
    [
        (*(3 * draw(2, 4, 7, seed=i) for i in (1, 2, 3)), draw(2, 4, 7, seed=4).argmax(dim=-1)),
        (*(draw(1, 3, 5, seed=i) for i in (5, 6, 7)), draw(1, 3, 5, seed=8).argmax(dim=-1)),
    ],
    {
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
    },
)


def _both(answer):
    _add_logits(answer)
    return "what two heads do to the logits adds up, if neither reads the other"


CHECKS = {
    "11.1": _knock_out,
    "11.2": _threshold,
    "11.3": _attention_frozen,
    "11.4": _facts,
    "11.5": _both,
}
