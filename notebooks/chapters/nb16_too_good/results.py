"""What `make data WHAT=autopsy` and `make sweep` measured for notebook 16, by group and fault."""

import itertools
from collections.abc import Collection, Iterator

import pandas
import torch
from jaxtyping import Float
from torch import Tensor

from chapters.nb16_too_good.report_model import FAULTS, LEARNED

ON_REVIEWS = [name for name in LEARNED if name != "padding counts"]  # rows of 20 have no filling
SEEDS = (0, 1, 2)


def runs(found: dict, group: str, faults: Collection[str] = (), **setting) -> list[dict]:
    """The set-ups of a group that were trained with just these faults and settings, seed by seed.

    found: what `read("autopsy")` of base/results gives. Raises ValueError where there are none.
    """
    kept = [
        one
        for name, one in found["runs"].items()
        if name.split(" | ")[0] == group
        and set(one["faults"]) == set(faults)
        and all(one[key] == value for key, value in setting.items())
    ]
    if not kept:
        known = ", ".join(dict.fromkeys(name.split(" | ")[0] for name in found["runs"]))
        raise ValueError(
            f"no run of {group!r} with faults {sorted(faults)} and {setting}: "
            f"groups are {known}; faults are {', '.join(FAULTS)}"
        )
    return sorted(kept, key=lambda one: one["seed"])


def held_out(runs: list[dict], what: str = "loss", key: str = "held out") -> Float[Tensor, " run"]:
    """A number of each run on unread texts: "loss" (nats), "accuracy" or "over time".

    key: "held out", the model as trained; "with constants", as `fit_constants` leaves it.
    """
    return torch.tensor([one[key][what] for one in runs])


def combinations(found: dict) -> Iterator[dict]:
    """Of each combination of faults on the ladder: "faults", "loss", "accuracy", "sample".

    Losses and accuracies are means over seeds; the sample is of the first.
    """
    for n in range(len(ON_REVIEWS) + 1):
        for faults in itertools.combinations(ON_REVIEWS, n):
            trained = runs(found, "ladder", faults)
            yield {
                "faults": faults,
                "loss": float(held_out(trained).mean()),
                "accuracy": float(held_out(trained, "accuracy").mean()),
                "sample": trained[0]["sample"],
            }


def pieces(runs: list[dict]) -> Float[Tensor, " run"]:
    """Word pieces that each run writes, as a multiple of their share in the reviews."""
    told = [one["pieces"] for one in runs]
    return torch.tensor([one["written"] / one["in the reviews"] for one in told])


def sweep_table(found: dict) -> pandas.DataFrame:
    """The trials of `make sweep`, a row each: parameters, metrics, seconds, state."""
    return pandas.DataFrame(found["trials"])
