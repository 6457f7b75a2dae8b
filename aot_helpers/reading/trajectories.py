"""What was measured while runs trained: quantities by step, and when a change is half done."""

import itertools
from collections.abc import Callable

from aot_helpers.base.errors import check_one_of
from aot_helpers.models.checkpoints import load_measurements

QUANTITIES: dict[str, Callable[[dict], float]] = {  # what was measured while a run trained
    "first copy, random tokens": lambda m: m["repeated random tokens, first copy"],  # 63 tokens
    "second copy, random tokens": lambda m: m["repeated random tokens, second copy"],
    "in-context score": lambda m: m["in-context score"],  # late minus early: negative if it helps
    "induction score": lambda m: max(m["induction"][-1]),  # best head of the last layer, 63 tokens
    "copy accuracy": lambda m: m["copy accuracy"]["32"],
}
for corpus in ("stories", "docstrings"):  # the text that a run has learned, 63 tokens
    QUANTITIES[f"first copy, {corpus}"] = lambda m: m["repeated text, first copy"]
    QUANTITIES[f"second copy, {corpus}"] = lambda m: m["repeated text, second copy"]


def measured(
    names: list[str], quantity: str, first: int = 0, last: int = 4000
) -> tuple[list[int], list[list[float]]]:
    """The measured steps from first to last, and one of QUANTITIES: [step], [run, step].

    Raises ValueError for unknown runs and quantities, no run, and no step in between.
    """
    check_one_of("quantity", quantity, QUANTITIES)
    runs = [load_measurements(name) for name in names]
    steps = runs[0]["steps"] if runs else []  # alike in all
    kept = [i for i, step in enumerate(steps) if first <= step <= last]
    if not kept:
        raise ValueError(f"nothing is measured of {names} from step {first} to {last}: {steps}")
    read = QUANTITIES[quantity]
    values = [[read(run["measured"][i]) for i in kept] for run in runs]
    return [steps[i] for i in kept], values


def reached(steps: list[int], values: list[float], share: float) -> int:
    """The first step at which that share of the way from the first value to the last is done.

    Raises ValueError where the last value is the first, and for a share above 1.
    """
    whole = values[-1] - values[0]
    if not whole or not share <= 1:
        raise ValueError(f"no step has done {share} of the way from {values[0]} to {values[-1]}")
    return next(s for s, v in zip(steps, values, strict=True) if (v - values[0]) / whole >= share)


def half_way_steps(names: list[str], last: int = 1500) -> dict[str, list[int]]:
    """For in-context score, induction score and copy accuracy, of each run: the first measured step
    at which half of the change from step 200 to `last` is done. Runs may differ in their steps.

    Raises ValueError for a run whose induction score is below 0.4 at step `last`: nothing changed.
    """
    halves = {"in-context score": [], "induction score": [], "copy accuracy": []}
    for quantity, name in itertools.product(halves, names):
        steps, (values,) = measured([name], quantity, 200, last)
        if quantity == "induction score" and values[-1] < 0.4:
            said = f"{name} has an induction score of {values[-1]:.2f} at step {last}"
            raise ValueError(f"{said}, so there is no half-way step: take runs with 0.4 or more")
        halves[quantity].append(reached(steps, values, 0.5))
    return halves


def steps_between(early: list[int], late: list[int]) -> list[int]:
    """In each run: the steps between the half-way steps of two quantities."""
    return [abs(b - a) for a, b in zip(early, late, strict=True)]
