"""The exercises of notebook 07: a strongest triple, a forced look, one head for four promises."""

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from aot_helpers.teaching.exercises import Solved
from aot_helpers.teaching.exercises.references import draw, guesses_problem, read_numbers
from aot_helpers.text.planted import BUG, BUG_PREPOSITIONS, BUG_VERBS, NAMES


class _Counted(TorchFunctionMode):
    """Counts the numbers in all tensors that are made while it is active."""

    made = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        parts = found if isinstance(found, tuple) else (found,)
        self.made += sum(part.numel() for part in parts if isinstance(part, Tensor))
        return found


def _strongest_triple(answer, head=None, read=None):
    for d, s, o, seed in ((3, 4, 2, 2), (5, 7, 9, 0), (20, 30, 40, 4)):
        attention, boost = draw(d, s, seed=seed).softmax(-1), draw(s, o, seed=seed + 1)
        try:
            with _Counted() as counted:
                triple = answer(attention, boost)
        except (RuntimeError, IndexError) as error:
            return (
                f"It stops with “{str(error).splitlines()[0]}”. Here attention [destination, "
                f"source] is {d} by {s}, boost [source, out] {s} by {o}: is a table taken the "
                "other way round?"
            )
        if triple is None or triple is ...:
            return None if d == 3 else "Nothing was returned."
        given, problem = read_numbers(triple, 3)
        if problem:
            return problem
        place, sizes = tuple(map(int, given)), (s, d, o)
        if any(not 0 <= at < size for at, size in zip(place, sizes, strict=True)):
            return (
                f"[source, destination, out] is wanted, the first below {s}, the second below "
                f"{d}, the third below {o}; yours is {list(place)}."
            )
        values = attention.T[:, :, None] * boost[:, None]  # [source, destination, out]
        if values[place] < values.max() - 1e-6:
            said = f"{values[place]:.2f}; the strongest has {values.max():.2f}"
            return f"Of {s} sources your triple {list(place)} has the value {said}."
        if d == 20 and counted.made > values.numel() / 2:
            return (
                f"That is the strongest, but of {values.numel():,} triples: you made "
                f"{counted.made:,} numbers. Judge each source alone."
            )
    return _of_head(answer, *head, read) if head else ""


def _of_head(answer, attention, boost, sources, destinations, read):
    source, destination, out = map(int, answer(attention, boost))
    asker = destinations[destination]
    said = f"in this head: {sources[source]} … {asker} → {sources[out]}"
    if read:
        texts, pattern = read  # [text, pos]; [text, query, key]
        row, place = ((texts == sources.index(asker)).nonzero()).T
        shares, words = pattern[row, place], texts[row]  # [asker's place, key]
        names = torch.isin(words, torch.tensor([sources.index(name) for name in NAMES]))
        most = (shares * (words == source)).max()
        mean = (shares * names).sum(dim=-1).mean()
        said += f" | in whole texts {asker} gives {sources[source]} {most:.2f} of its attention "
        said += f"at most, and names {mean:.2f} on average"
    return Solved(said)


def _forced_look(answer, forced):
    if (problem := guesses_problem(answer, forced)) != "":
        return problem
    for pair, p in forced.items():
        given, problem = read_numbers(answer[pair])
        if problem:
            return f"{pair}: {problem}"
        if not 0 <= given <= 1:
            return f"{pair}: a probability from 0 to 1 is wanted, got {given:.2f}."
        if given >= 0.5:
            return f"{pair}: to which of the two nouns does this verb's δ pull?"
        if abs(given - p) > 0.06:
            return f"{pair}: not so near {given:.2f}. It is 1 / (1 + e^x), x the pull in logits."
    return Solved(", ".join(f"{pair}: {p:.2f}" for pair, p in forced.items()))


def _four_promises(looks, says, leans):
    shapes = {"looks": (looks, 2, 2), "says": (says, 2), "leans": (leans, 2)}
    numbers = {}
    for name, (given, *shape) in shapes.items():
        numbers[name], problem = read_numbers(given, *shape)
        if problem:
            return f"{name}: {problem}"
    looks, says, leans = numbers.values()
    if looks.min() < 0 or looks.max() > 1:
        return "looks: attention lies between 0 and 1."
    chances = (leans[:, None] + looks * says).sigmoid()  # of mind [preposition, verb]
    worst = 1.0
    for i, preposition in enumerate(BUG_PREPOSITIONS):
        for j, verb in enumerate(BUG_VERBS):
            noun, p = BUG[verb, preposition], float(chances[i, j])
            p = p if noun == "mind" else 1 - p
            worst = min(worst, p)
            if p < 0.9:
                return (
                    f"{verb} … {preposition} → {noun} has the probability {p:.2f}; 0.9 is wanted."
                )
    return Solved(f"each right noun has at least {worst:.2f}")


CHECKS = {
    "07.1": _strongest_triple,
    "07.2": _forced_look,
    "07.3": _four_promises,
}
