"""All of notebook 21's measurements on one model, as numbers that JSON can hold."""

from collections.abc import Sequence

import torch

from aot_helpers.base.results import rounded
from aot_helpers.base.statistics import correlation, rank_correlation
from aot_helpers.models.protocol import Model
from chapters.nb21_information_flow import ablation, checks, heads, means
from chapters.nb21_information_flow.ablation import LEVELS, ORDERS, LastEdges
from chapters.nb21_information_flow.flow import run_of
from chapters.nb21_information_flow.flow_graph import Graph, as_data, flow_graph, prune
from chapters.nb21_information_flow.identities import gate_signs, largest_gap, swapped
from chapters.nb21_information_flow.summaries import (
    curve_results,
    edge_results,
    graph_results,
    mean,
)
from chapters.nb21_information_flow.templates import Prompt, written_prompts

MOST, LEAST = 4, 0.1  # of the graphs whose edges are tested alone
STILL = 2, 0.4  # most, least: of the graph that is drawn of a model from outside
PART = 0.25  # of the heads and MLPs that stay when the rest is set to its mean
NEURON_LEVELS = (0.0, 0.1, 0.5, 1.0)
NEURON_ORDERS = ("coefficient per step", "norm per step", "share per step")


def unfolded(edges: LastEdges, keys: bool = True, target: int | None = None) -> Graph:
    """The graph of a prompt before pruning; for another token, from the mean logit."""
    given = (edges.prompt.target, edges.prompt.rival) if target is None else (target, None)
    return flow_graph(edges.run, [given[0]], MOST, LEAST, keys, given[1])


def pruned(edges: LastEdges, keys: bool = True) -> Graph:
    """The graph of a prompt that is tested: by the share of the target's logit."""
    return prune(unfolded(edges, keys), "share", 0, MOST, LEAST)


def examine(
    model: Model,
    prompts: Sequence[Prompt],
    draws: int = 5,
    seed: int = 0,
    n_heads: int | None = None,
    n_graphs: int | None = None,
) -> dict:
    """Everything that notebook 21 asks of a model.

    n_heads: so many prompts for what each head is worth (one run for every head), n_graphs: for
    whole graphs and means; None takes all. One prompt's activations are held at a time.
    """
    n_heads, n_graphs = n_heads or len(prompts), n_graphs or len(prompts)
    rows = []
    for i, prompt in enumerate(prompts):
        edges = ablation.last_edges(model, prompt)
        row = {"n_edges": edges.n_edges, "swapped": swapped(edges.run), "aim": edges.aim}
        row |= _curves(model, edges, draws, seed + i) | _arrivals(edges, seed + i)
        if prompt.target in prompt.tokens:
            row["strongest"] = _strongest(model, edges, draws, seed + i)
        if i < n_graphs:
            row |= _graphs(model, edges, _another(prompts, i), draws, seed + i)
            row["injected"] = _injected(model, edges)
        if i < n_heads:
            row["heads"] = _heads(model, edges, _another(prompts, i))
        rows.append(row)
    found = _together(model, rows, draws)
    at_means = means.kept_writers(model, prompts[:n_graphs], PART, draws, seed)
    none, whole = at_means.pop("none").mean(), at_means.pop("whole").mean()
    found["at means"] = {
        name: ((aims.mean() - none) / (whole - none)).item() for name, aims in at_means.items()
    }
    return found


def edge_curves(model: Model, measured: Sequence[LastEdges], draws: int = 5, seed: int = 0) -> dict:
    """Of `examine` the curves alone: "levels", "rows", "recovered" and "on paper", [row, level]."""
    rows = [_orders(model, edges, draws, seed + i) for i, edges in enumerate(measured)]
    return curve_results(rows, draws)


def single_edges(
    model: Model, measured: Sequence[LastEdges], draws: int = 5, seed: int = 0
) -> dict:
    """Of `examine` what cutting one edge loses: "stands" and "lost", by which edge it is."""
    rows = []
    for i, edges in enumerate(measured):
        none = ablation.curves(model, edges, (), (0.0,), 1)[0].item()
        strongest = _strongest(model, edges, draws, seed + i)
        rows.append({"aim": edges.aim, "none": none, "strongest": strongest})
    return edge_results(rows)


def graphs_alone(
    model: Model, measured: Sequence[LastEdges], draws: int = 5, seed: int = 0
) -> dict:
    """Of `examine` what runs with the edges of graphs alone keep, by the name of the graph."""
    rows, prompts = [], [edges.prompt for edges in measured]
    for i, edges in enumerate(measured):
        other = _another(prompts, i)
        rows.append({"aim": edges.aim} | _graphs(model, edges, other, draws, seed + i))
    return graph_results(rows)


def _another(prompts: Sequence[Prompt], i: int) -> int:
    """A target of another prompt."""
    mine = prompts[i].target, prompts[i].rival
    others = [p.target for p in prompts if p.target not in mine]
    return others[i % len(others)]


def _orders(model, edges, draws, seed) -> dict:
    aim, first = ablation.curves(model, edges, draws=draws, seed=seed)
    row = {"aims": aim, "first": first, "none": aim[0, 0].item()}
    return row | {"on paper": ablation.on_paper(edges, ORDERS, LEVELS)}


def _curves(model, edges, draws, seed) -> dict:
    row = _orders(model, edges, draws, seed)
    if model.config.d_mlp:
        more = NEURON_ORDERS, NEURON_LEVELS, draws, seed, True
        row["neurons"], row["neurons first"] = ablation.curves(model, edges, *more)
    return row


def _strongest(model, edges, draws, seed) -> dict:
    """The strongest value and others: where they stand; without each the aim, the first guess."""
    names, *columns = checks.one_edge(model, edges, draws, seed)
    found = {}
    for name in dict.fromkeys(names):
        rows = [i for i, each in enumerate(names) if each == name]
        found[name] = tuple(mean([float(each[i]) for i in rows]) for each in columns)
    return found


def _graphs(model, edges, other: int, draws, seed) -> dict:
    """(aim, is it the first guess) with the edges of graphs alone, and how large the graphs are."""
    whole = unfolded(edges)
    own, values_only = prune(whole, "share", 0, MOST, LEAST), pruned(edges, keys=False)
    theirs = prune(unfolded(edges, target=other), "share", 0, MOST, LEAST)
    n = sum(int(mask.sum()) for mask in checks.graph_masks(own))
    by = checks.as_large(whole, "coefficient", n)
    kept = {"with keys": own, "without keys": values_only, "another target": theirs}
    kept = {name: checks.graph_masks(g) for name, g in (kept | {"attention": by}).items()}
    more = [big & ~small for big, small in zip(*list(kept.values())[:2], strict=True)]
    filled = zip(kept["without keys"], checks.by_lot(*more, seed=seed), strict=True)
    kept["without keys, filled by lot"] = tuple(a | b for a, b in filled)
    kept["nothing"] = tuple(torch.zeros_like(mask) for mask in kept["with keys"])
    lots = [checks.by_lot(*kept["with keys"], seed=seed + i) for i in range(draws)]
    aim, first = checks.alone(model, edges, [*kept.values(), *lots])
    sizes = {name: [int(mask.sum()) for mask in masks] for name, masks in kept.items()}
    return {
        "alone": (aim, first.float()),
        "names": [*kept, *[ablation.RANDOM] * draws],
        "sizes": sizes,
        "graph size": [len(own.nodes), len(own.edges), *sizes["with keys"]],
        "largest gap": largest_gap(own),
    }


def _injected(model, edges) -> dict[str, float]:
    """What says a token first: the second guess's graph, and neurons without any attention."""
    second = checks.second_guess(edges)
    graphs = pruned(edges), prune(unfolded(edges, target=second), "share", 0, MOST, LEAST)
    return checks.injected(model, edges, second, *map(checks.graph_masks, graphs))


def _heads(model, edges, other: int) -> dict:
    """Correlations over the heads of what is lost with what a graph says: of ranks, and linear."""
    facts = heads.head_facts(model, edges, other)
    found = {}
    for name in ("rank", "other rank", "share", "other share", "norm"):
        says = facts[name] * (-1 if "rank" in name else 1)
        found[name] = rank_correlation(says, facts["lost"])
        if name in ("rank", "norm"):
            found[f"{name}, within layers"] = heads.within_layers(says, facts["lost"])
    for name in ("rank", "share", "other share"):
        says = -(facts[name] + 1).log() if name == "rank" else facts[name]
        found[f"{name}, linear"] = correlation(says, facts["lost"])
    same = facts["share"].argmax() == facts["lost"].argmax()
    return found | {"largest share is worth most": float(same)}


def _arrivals(edges, seed) -> dict:
    """How often the most attended value is the longest to arrive; a random key as well."""
    draw = torch.Generator().manual_seed(seed)
    a, norm = edges.values[0], edges.values[checks.NORM]
    key = torch.randint(a.shape[-1], a.shape[:2], generator=draw)
    same = (each == norm.argmax(-1) for each in (a.argmax(-1), key))
    return {"most attended is longest": [each.float().mean().item() for each in same]}


def _together(model, rows: list[dict], draws: int) -> dict:
    """What stands in the rows of all prompts, as sums, means and shares."""
    graphs = [row for row in rows if "largest gap" in row]
    injected = graphs[0]["injected"]
    found = curve_results(rows, draws) | {
        "n_prompts": len(rows),
        "n_edges": [row["n_edges"] for row in rows],
        "swapped": sum(row["swapped"] for row in rows),
        "strongest": edge_results([row for row in rows if "strongest" in row]),
        "graph sizes": [row["graph size"] for row in graphs],
        "largest gap": max(row["largest gap"] for row in graphs),
        "graphs": graph_results(graphs),
        "injected": {name: mean([row["injected"][name] for row in graphs]) for name in injected},
    }
    if model.config.d_mlp:
        neurons = torch.stack([row["neurons"] for row in rows])
        found["neurons"] = ablation.recovered(neurons).tolist()
        first = torch.stack([row["neurons first"] for row in rows])
        found["neurons first"] = first.mean(dim=0).tolist()
        found["neuron levels"] = list(NEURON_LEVELS)
        found["neuron rows"] = [*NEURON_ORDERS, *[ablation.RANDOM] * draws]
    facts = [row["heads"] for row in rows if "heads" in row]
    found["heads"] = {name: mean([each[name] for each in facts]) for name in facts[0]}
    same = zip(*(row["most attended is longest"] for row in rows), strict=True)
    return found | {"most attended is longest": [mean(each) for each in same]}


def row(found: dict, order: str, level: float, what: str = "recovered") -> float:
    """One number of a result's curves; the mean of the draws for "random"."""
    at = found["levels"].index(level)
    rows = [
        each[at] for name, each in zip(found["rows"], found[what], strict=False) if name == order
    ]
    return mean(rows)


def redrawn(found: dict, order: str, level: float) -> tuple[float, float]:
    """The middle 90 % of one number of a result's curves if the prompts are drawn anew."""
    low, high = found["spread"][found["rows"].index(order)][found["levels"].index(level)]
    return low, high


def by_order(found: dict, what: str = "recovered") -> dict[str, list]:
    """A result's curves by the name of their order; of "random" there are several."""
    rows = dict.fromkeys(found["rows"])
    each = list(zip(found["rows"], found[what], strict=False))
    return {name: [row for label, row in each if label == name] for name in rows}


def nearer(found: dict, order: str, than: str, level: float) -> float:
    """How much nearer to 1 an order's recovered share is than another's, at a level."""
    return abs(1 - row(found, than, level)) - abs(1 - row(found, order, level))


def nearer_by_lot(found: dict, level: float) -> float:
    """The same for two draws and two others: what chance does."""
    at, first = found["levels"].index(level), found["rows"].index(ablation.RANDOM)
    a, b, c, d = (found["recovered"][first + i][at] for i in range(4))
    return abs(abs(1 - (a + b) / 2) - abs(1 - (c + d) / 2))


def pretrained(model: Model, name: str, seed: int = 0) -> dict:
    """Measure gifts and capitals on a model from outside; for `make data WHAT=pretrained`.

    ValueError names a model that answers too few of them to be measured.

    Whole graphs and means are measured on the first 12 of the prompts (the gifts, if the model
    answers all), what each head is worth on 6. The graph of the first prompt is there to be drawn.
    """
    prompts, n_asked = written_prompts(model)
    if len(prompts) < 2:
        raise ValueError(f"{name} answers {len(prompts)} of {n_asked} prompts; 2 are needed")
    found = examine(model, prompts, seed=seed, n_heads=6, n_graphs=12)
    if model.config.family == "llama":
        found["gate signs"] = gate_signs(model, prompts)
    texts = {"text": model.tokenizer.decode(prompts[0].tokens), "n_asked": n_asked}
    return rounded(found | texts | drawn(model, prompts[0]), ".5g")


def drawn(model: Model, prompt: Prompt) -> dict:
    """The graph of a prompt as numbers, "graph" and "still" (pruned); "cut": without one edge."""
    graph = flow_graph(run_of(model, prompt.tokens), [prompt.target], against=prompt.rival)
    still = as_data(prune(graph, "share", 0, *STILL))
    cut = checks.after_cut(model, ablation.last_edges(model, prompt))
    return {"graph": as_data(graph), "still": still, "cut": cut}
