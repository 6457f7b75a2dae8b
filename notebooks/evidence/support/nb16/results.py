"""What `make data WHAT=autopsy` and `make sweep` measured for notebook 16, by group and fault."""

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor

from evidence.support.nb16.set_ups import FAULTS, LEARNED

ON_REVIEWS = [name for name in LEARNED if name != "padding counts"]  # rows of 20 have no filling
SEEDS = (0, 1, 2)


def runs(found: dict, group: str, faults: Collection[str] = (), **setting) -> list[dict]:
    """The set-ups of a group that were trained with just these faults and settings, seed by seed.

    found: what `read("autopsy")` of base/results gives. Raises ValueError where there are none.
    """
    kept = [
        one | {"name": name}
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


def named(*several: list[dict]) -> list[str]:
    """What the ledger calls runs: "ladder/2-layers+d_mlp-128/none/seed-0"."""
    signs = {" | ": "/", ", ": "+", " ": "-"}
    names = [one["name"] for runs in several for one in runs]
    for old, new in signs.items():
        names = [name.replace(old, new) for name in names]
    return names


def pieces(runs: list[dict]) -> Float[Tensor, " run"]:
    """Word pieces that each run writes, as a multiple of their share in the reviews."""
    counted = [one["pieces"] for one in runs]
    return torch.tensor([one["written"] / one["in the reviews"] for one in counted])
