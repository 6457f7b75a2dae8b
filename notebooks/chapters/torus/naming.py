"""What each number of a claim was measured on: a network of a run, or an interval over them."""

from collections.abc import Iterable

ENDS = ("low end, 95 %", "mean", "high end, 95 %")


def nets(run: str, of: Iterable[str] = ("",), n_nets: int = 50) -> list[str]:
    """["run net 0", "run net 1", …], each once for everything in `of`, which follows its number."""
    return [f"{run} net {i} {what}".strip() for i in range(n_nets) for what in of]


def summed_up(run: str, what: Iterable[str] = ENDS, n_nets: int = 50) -> list[str]:
    """["run nets 0 to 49, low end, 95 %", …]: numbers that sum up all networks of a run."""
    return [f"{run} nets 0 to {n_nets - 1}, {each}" for each in what]
