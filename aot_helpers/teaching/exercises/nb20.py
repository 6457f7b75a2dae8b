"""The exercises of notebook 20: chance, an overlap of one's own, words without any effect."""

import torch

from aot_helpers.reading.lens import overlap, top_tokens
from aot_helpers.teaching.exercises import Solved
from aot_helpers.teaching.exercises.references import read_numbers


def _chance(answer):
    given, problem = read_numbers(answer)
    if problem:
        return problem
    expected = 50 * 50 / 1024
    if abs(given - expected) <= 0.05:
        return Solved(f"{expected:.2f} words of 50, a share of {50 / 1024:.3f}")
    return f"Yours is {given:g}: each of the 50 words has the same chance to be among the others."


def _shares(answer):
    draw = torch.Generator().manual_seed(20)
    for n, k in ((6, 2), (40, 10), (40, 40)):
        a, b = torch.randn(2, n, generator=draw)
        found = answer(a.clone(), b.clone(), k)
        if found is None or found is ...:
            return None
        try:
            found = float(found)
        except (TypeError, ValueError, RuntimeError):
            return f"Return one number, a share of the k words; yours is {found!r}."
        wanted = overlap(top_tokens(a, k), top_tokens(b, k)).item()
        if abs(found - wanted) > 1e-5:
            return f"Of {n} tokens and k = {k}, they share {wanted:.2f}; yours is {found:.2f}."
    return ""


def _impostor(answer, model, x):
    found = answer(x.clone())
    if found is None or found is ...:
        return None
    if not isinstance(found, torch.Tensor) or found.shape != x.shape:
        said = tuple(getattr(found, "shape", ())) or type(found).__name__
        return f"Return one vector of shape {tuple(x.shape)}; yours is {said}."
    if not found.isfinite().all() or not found.any():
        return "Yours is zero, or has NaN or infinity: such a vector says nothing."
    with torch.no_grad():
        says, left, was = (top_tokens(v @ model.W_U, 50) for v in (found, x - found, x))
    shared, stays = overlap(says, was).item(), overlap(left, was).item()
    if shared < 0.9:
        return f"It shares {shared:.2f} of the 50 words: at least 0.9 are wanted."
    if stays < 0.98:
        return f"Without it {stays:.2f} of the 50 words are left: all but one have to stay."
    return Solved(f"it shares {shared:.2f}, and without it {stays:.2f} of the words stay")


CHECKS = {"20.1": _chance, "20.2": _shares, "20.3": _impostor}
