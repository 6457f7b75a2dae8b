"""The exercises of notebook 22: what a norm cannot see, its steps moved elsewhere, a filter."""

import torch

from aot_helpers.teaching.exercises import NotYet, attempted
from aot_helpers.teaching.exercises.references import against, draw, read_numbers, read_tensors
from chapters.nb22_layer_norms import norms

LEFT, KEPT, LONGEST = 0.2, 0.6, 3.0  # of a filter: of its words, of others; its length


UNSEEN = {  # what of 22.1 a norm sees, and why
    "a": (False, "centering takes away what is added to every entry"),
    "b": (False, "σ grows as the entries do, and the division takes it away"),
    "c": (True, "σ is the same for x and −x, so every entry behind the norm turns its sign"),
    "d": (False, "x + 2(x − x̄) is centered at x̄, with three times the deviations"),
    "e": (True, "the mean and σ change, so *all* entries behind the norm change"),
}


def _unseen(answer):
    """The letters of the changes that leave no trace behind a norm."""
    given = set(str(attempted(answer)).lower()) & set("abcdefghijklmnopqrstuvwxyz")
    if not given or given - set(UNSEEN):
        raise NotYet('Some of the letters a to e, please, such as "ce".')
    for letter, (seen, _) in UNSEEN.items():
        if seen == (letter in given):
            raise NotYet(f"Look at {letter} again: write down x̄ and σ of the new vector.")
    return "; ".join(f"{letter}: {why}" for letter, (_, why) in UNSEEN.items())


def _filters(answer, model, norm, stream, words, others):
    """A bias, alone in a norm: of `words` little is left, and of `others` much."""
    bias = read_numbers(answer, model.config.d_model)
    if bias.norm() > LONGEST + 1e-4:
        raise NotYet(f"Its length is {bias.norm():.1f}: {LONGEST:.0f} is the most.")
    with norms.changed(norm, torch.ones_like(bias), bias):
        real, made_up = (norms.change(model, norm, x) for x in (stream, norms.isotropic(stream)))
    left, of_made_up, kept = real.kept(words), made_up.kept(words), real.kept(others)
    said = f"{left:.2f} for texts, {of_made_up:.2f} for random vectors"
    if left > 1:
        raise NotYet(f"Your words rise ({said}): which sign has a bias that lowers them?")
    if max(left, of_made_up) > LEFT:
        raise NotYet(f"Of your words is left: {said}; {LEFT} is the most.")
    if kept < KEPT:
        raise NotYet(f"Of the function words only {kept:.2f} is left: lower your words alone.")
    return f"of these words is left {said}; of the function words {kept:.2f}"


def fold(gain, bias, W, b):
    """The matrix and the bias that read a norm without its gain and bias as W and b read it."""
    return gain[:, None] * W, b + bias @ W


def _joined(pair):
    return torch.cat([pair[0], pair[1][None]])


def _folds(answer):
    sizes = ((4, 3), (6, 8))
    trials = [(draw(d), draw(d, seed=1), draw(d, m, seed=3), draw(m, seed=2)) for d, m in sizes]
    mistakes = {
        "The bias of the norm is missing: what does bias @ W add?": (
            lambda gain, bias, W, b: _joined((gain[:, None] * W, b))
        ),
        "bias goes through W as it stands, without the gain.": (
            lambda gain, bias, W, b: _joined((gain[:, None] * W, b + bias * gain @ W))
        ),
    }
    check = against(lambda *parts: _joined(fold(*parts)), trials, mistakes)

    def joined(gain, bias, W, b):
        return _joined(read_tensors(answer(gain, bias, W, b), W=W.shape, b=b.shape))

    check(joined)
    return "whatever a gain and a bias seem to do, the next matrix can do instead"


def _forgotten(answer, writers, which):
    """The name of the writer that was not centered."""
    name, true = attempted(answer), list(writers)[which]
    if name not in writers:
        raise NotYet(f"One of these names, please: {', '.join(writers)}.")
    if name == true:
        return f"this bias has the mean {writers[true].mean().item():.3f}, every other row 0"
    if name.split(",")[0] == true.split(",")[0]:
        raise NotYet("The right place. But a matrix writes other numbers at every token.")
    raise NotYet(f"{name}: between which two norms does the mean appear for the first time?")


CHECKS = {"22.1": _unseen, "22.2": _folds, "22.3": _forgotten, "22.4": _filters}
PAGES = {"22.2": fold}
