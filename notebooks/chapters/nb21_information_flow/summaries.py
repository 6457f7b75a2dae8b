"""What notebook 21 keeps of the prompts of a model: means, shares and ratios of means."""

from collections.abc import Sequence

import torch

from chapters.nb21_information_flow import ablation
from chapters.nb21_information_flow.ablation import LEVELS, ORDERS

NEAR = 0.5  # how far from the whole run's aim a prompt that is kept may be, as a part of it


def curve_results(rows: list[dict], draws: int) -> dict:
    """Means over prompts of `flow_ablation.curves` and `on_paper`, by level."""
    aims, paper, first = (
        torch.stack([row[name] for row in rows]) for name in ("aims", "on paper", "first")
    )
    return {
        "levels": list(LEVELS),
        "rows": [*ORDERS, *[ablation.RANDOM] * draws],
        "recovered": ablation.recovered(aims).tolist(),
        "spread": ablation.spread(aims).tolist(),
        "on paper": ablation.recovered(paper).tolist(),
        "aims": aims.mean(dim=0).tolist(),
        "first": first.mean(dim=0).tolist(),
    }


def edge_results(rows: list[dict]) -> dict:
    """Of single edges: how often they stand on the target, and what is lost without them.

    "lost": of what all edges add, the ratio of means over prompts, since one prompt's floor can be
    of either sign. "first": in how many prompts the target stays the first guess. "aims": of each
    prompt the whole run's, and that without the strongest.
    """
    whole, none = (mean([row[name] for row in rows]) for name in ("aim", "none"))
    found = {"n": len(rows), "stands": {}, "lost": {}, "first": {}}
    for name in rows[0]["strongest"]:
        stands, aim, first = zip(*(row["strongest"][name] for row in rows), strict=True)
        found["stands"][name] = mean(stands)
        found["lost"][name] = (whole - mean(aim)) / (whole - none)
        found["first"][name] = mean(first)
    found["aims"] = [[row["aim"], row["strongest"]["strongest"][1]] for row in rows]
    return found


def graph_results(rows: list[dict]) -> dict:
    """Of graphs whose edges are left alone, by name.

    "recovered": of what all edges add, the ratio of means; "first": in how many prompts the target
    is the first guess; "kept": in how many it is, with half to one and a half of the whole run's
    aim; "off": the median distance from that aim, as a part of it; "values", "neurons": how many.
    """
    aim, first = (torch.stack([row["alone"][i] for row in rows]) for i in range(2))
    whole, names, found = torch.tensor([[row["aim"]] for row in rows]), rows[0]["names"], {}
    none = aim[:, names.index("nothing")].mean()
    off = (aim - whole).abs() / whole.abs()
    kept = first * (off <= NEAR)
    for name in dict.fromkeys(names):
        at = [i for i, each in enumerate(names) if each == name]
        shares = (aim[:, at].mean() - none) / (whole.mean() - none)
        each = {"recovered": shares, "first": first[:, at].mean(), "kept": kept[:, at].mean()}
        found[name] = {what: x.item() for what, x in each.items()} | {
            "off": off[:, at].median().item()
        }
        if name in rows[0]["sizes"]:
            sizes = zip(*(row["sizes"][name] for row in rows), strict=True)
            found[name]["values"], found[name]["neurons"] = map(mean, sizes)
    return found


def mean(values: Sequence[float]) -> float:
    """0 of nothing."""
    return sum(values) / max(len(values), 1)
