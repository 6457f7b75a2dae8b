"""All of notebook 21's measurements on one model, as numbers that JSON can hold."""

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from aot_helpers.base.results import rounded
from aot_helpers.base.statistics import correlation
from aot_helpers.models.protocol import Model
from chapters.nb21_information_flow.flow_graph import as_data, prune
from evidence.support.nb21 import ablation, checks
from evidence.support.nb21.ablation import LEVELS, ORDERS
from evidence.support.nb21.edges import LastEdges, last_edges
from evidence.support.nb21.heads import head_facts, kept_writers
from evidence.support.nb21.identities import gate_signs, largest_gap, swapped
from evidence.support.nb21.masks import (
    RANDOM,
    alone,
    another_target,
    graph_masks,
    graphs_and_masks,
    random_masks,
)
from evidence.support.nb21.prompts import written_prompts

STILL = 2, 0.4  # most, least: of the graph that is drawn of a model from outside
SMOL = "SmolLM2-135M-Instruct (4 bits)"  # the shipped results are of this model
PART = 0.25  # of the heads and MLPs that stay when the rest is set to its mean
NEAR = 0.5  # how far from the whole run's aim a prompt that is kept may be, as a part of it
Z = 1.96  # standard errors of a 95 % interval
NEURON_LEVELS = (0.0, 0.1, 0.5, 1.0)
NEURON_ORDERS = ("coefficient per step", "norm per step", "share per step")


def examine(
    measured: Sequence[LastEdges],
    draws: int = 5,
    seed: int = 0,
    n_heads: int | None = None,
    n_graphs: int | None = None,
) -> dict:
    """Everything that notebook 21 asks of a model, whose prompts are measured.

    n_heads: so many prompts for what each head is worth (one run for every head), n_graphs: for
    whole graphs and means; None takes all.
    """
    config = measured[0].run.model.config
    copied = [edges for edges in measured if edges.prompt.target in edges.prompt.tokens]
    some = measured[:n_graphs]
    masks = [
        graphs_and_masks(edges, another_target(measured, i), draws, seed + i)
        for i, edges in enumerate(some)
    ]
    n_facts = min(n_heads or len(measured), len(measured))
    facts = [_head_correlations(measured, i) for i in range(n_facts)]
    arrivals = [_most_attended_is_longest(edges, seed + i) for i, edges in enumerate(measured)]
    found = edge_curves(measured, draws, seed) | {
        "n_prompts": len(measured),
        "n_edges": [edges.n_edges for edges in measured],
        "swapped": sum(swapped(edges.run) for edges in measured),
        "strongest": single_edges(copied, draws, seed),
        "graph sizes": [
            [len(e.graph.nodes), len(e.graph.edges), *(int(m.sum()) for m in graph_masks(e.graph))]
            for e in some
        ],
        "largest gap": max(largest_gap(each.graph) for each in some),
        "graphs": _graph_means(some, masks),
        "graphs at means": graphs_at_means(some, seed),
        "injected": _means([checks.injected(each) for each in some]),
        "heads": _means(facts),
        "most attended is longest": [mean(each) for each in zip(*arrivals, strict=True)],
    }
    if config.d_mlp:
        found |= _neuron_curves(measured, draws, seed)
    at_means = kept_writers(some, PART, draws, seed)
    none, whole = at_means.pop("none").mean(), at_means.pop("whole").mean()
    found["at means"] = {
        name: ((aims.mean() - none) / (whole - none)).item() for name, aims in at_means.items()
    }
    return found


def edge_curves(measured: Sequence[LastEdges], draws: int = 5, seed: int = 0) -> dict:
    """What is left with some edges alone: "levels", "rows" (orders, and random draws), and by
    [row, level] the means over prompts, "recovered" in runs and "on paper" of what all edges add.
    """
    runs = [ablation.curves(e, draws=draws, seed=seed + i) for i, e in enumerate(measured)]
    aims, first = (torch.stack(part) for part in zip(*runs, strict=True))
    paper = torch.stack([ablation.on_paper(edges, ORDERS, LEVELS) for edges in measured])
    return {
        "levels": list(LEVELS),
        "rows": [*ORDERS, *[RANDOM] * draws],
        "recovered": ablation.recovered(aims).tolist(),
        "spread": ablation.spread(aims).tolist(),
        "on paper": ablation.recovered(paper).tolist(),
        "first": first.mean(dim=0).tolist(),
    }


def _neuron_curves(measured: Sequence[LastEdges], draws: int, seed: int) -> dict:
    """The same of neurons, while all values stay."""
    how = NEURON_ORDERS, NEURON_LEVELS, draws
    runs = [ablation.curves(e, *how, seed + i, True) for i, e in enumerate(measured)]
    aims, first = (torch.stack(part) for part in zip(*runs, strict=True))
    return {
        "neurons": ablation.recovered(aims).tolist(),
        "neurons first": first.mean(dim=0).tolist(),
        "neuron levels": list(NEURON_LEVELS),
        "neuron rows": [*NEURON_ORDERS, *[RANDOM] * draws],
    }


def single_edges(measured: Sequence[LastEdges], draws: int = 5, seed: int = 0) -> dict:
    """Of single edges, by which it is: how often it stands on the target, what is lost without it.

    "lost": of what all edges add, the ratio of means over prompts, since one prompt's floor can be
    of either sign. "first": in how many prompts the target stays the first guess. "aims": of each
    prompt the whole run's, and that without the strongest.
    """
    runs = [checks.one_edge(edges, draws, seed + i) for i, edges in enumerate(measured)]
    none = mean([ablation.curves(e, (), (0.0,), 1)[0].item() for e in measured])
    whole = mean([edges.aim for edges in measured])
    names, *columns = zip(*runs, strict=True)
    stands, aim, first = (torch.stack(part).double() for part in columns)
    found = {"n": len(measured), "stands": {}, "lost": {}, "first": {}}
    for name in dict.fromkeys(names[0]):
        at = [i for i, each in enumerate(names[0]) if each == name]  # random draws have one name
        found["stands"][name] = stands[:, at].mean().item()
        found["lost"][name] = ((whole - aim[:, at].mean()) / (whole - none)).item()
        found["first"][name] = first[:, at].mean().item()
    pairs = zip(measured, aim[:, 0].tolist(), strict=True)
    return found | {"aims": [[edges.aim, without] for edges, without in pairs]}


def wilson_interval(p: float, n: int) -> list[float]:
    """Both ends of Wilson's 95 % interval of p, a fraction of n prompts."""
    middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z * (p * (1 - p) / n + Z * Z / (4 * n * n)) ** 0.5 / (1 + Z * Z / n)
    return [middle - half, middle + half]


def difference_interval(p: float, q: float, n: int) -> list[float]:
    """Both ends of the 95 % interval of p - q, independent fractions of n prompts each."""
    half = Z * ((p * (1 - p) + q * (1 - q)) / n) ** 0.5
    return [p - q - half, p - q + half]


def _graph_means(
    measured: Sequence[LastEdges], graphs: Sequence[tuple[list[str], list[tuple]]]
) -> dict:
    """Of graphs whose edges are left alone, by name. graphs: of each prompt their names and masks.

    "recovered": of what all edges add, the ratio of means; "first": in how many prompts the target
    is the first guess; "kept": in how many it is, with half to one and a half of the whole run's
    aim; "off": the median distance from that aim, as a part of it; "values", "neurons": how many.
    """
    runs = [alone(*pair) for pair in zip(measured, (kept for _, kept in graphs), strict=True)]
    aim, first, near, off, whole = _judged(measured, runs)
    names, found = graphs[0][0], {}
    none = aim[:, [names.index("nothing")]].mean()
    for name in dict.fromkeys(names):
        at = [i for i, each in enumerate(names) if each == name]  # random draws have one name
        found[name] = {
            "recovered": ((aim[:, at].mean() - none) / (whole.mean() - none)).item(),
            "first": first[:, at].mean().item(),
            "kept": (first * near)[:, at].mean().item(),
            "off": off[:, at].median().item(),
        }
        if name != RANDOM:
            sizes = ([int(mask.sum()) for mask in kept[at[0]]] for _, kept in graphs)
            sizes = map(mean, zip(*sizes, strict=True))
            found[name] |= dict(zip(("values", "neurons"), sizes, strict=True))
    return found


def _judged(measured: Sequence[LastEdges], runs: Sequence[tuple[Tensor, Tensor]]) -> tuple:
    """Of each prompt's runs (aims, first guesses), all [prompt, run]: the aim, is the target first,
    is the aim near the whole run's, how far from it; and the whole runs' [prompt, 1].
    """
    aim, guess = (torch.stack(part) for part in zip(*runs, strict=True))
    whole = torch.tensor([[edges.aim] for edges in measured])
    target = torch.tensor([[edges.prompt.target] for edges in measured])
    off = (aim - whole).abs() / whole.abs()
    return aim, (guess == target).float(), (off <= NEAR).float(), off, whole


def graphs_at_means(measured: Sequence[LastEdges], seed: int = 0) -> dict:
    """Graphs alone, all that is dropped at its mean over the other prompts.

    Of each graph "kept", "first" and "recovered" (0 is "nothing", all edges at their means);
    "the second guess": in how many prompts its graph makes the model say it; "nothing says it":
    in how many it is said with all edges at their means.
    """
    runs, says_second = [], []
    for i, edges in enumerate(measured):
        graphs = edges.graph, edges.graph_without_keys, edges.graph_for_second_guess
        own, without, wrong = map(graph_masks, graphs)
        none = tuple(torch.zeros_like(mask) for mask in own)
        random = random_masks(*own, seed=seed + i)
        others = [each for each in measured if each is not edges]
        aim, guess = alone(edges, [own, without, random, none, wrong], others)
        runs.append((aim[:-1], guess[:-1]))
        says_second.append((guess[[-1, -2]] == edges.second_guess).float())
    aim, first, near, _, whole = _judged(measured, runs)
    none = aim[:, -1].mean()
    says_second = torch.stack(says_second).mean(dim=0).tolist()
    found = dict(zip(("the second guess", "nothing says it"), says_second, strict=True))
    for at, name in enumerate(("with keys", "without keys", RANDOM, "nothing")):
        found[name] = {
            "kept": (first * near)[:, at].mean().item(),
            "first": first[:, at].mean().item(),
            "recovered": ((aim[:, at].mean() - none) / (whole.mean() - none)).item(),
        }
    return found


def _head_correlations(measured: Sequence[LastEdges], i: int) -> dict[str, float]:
    """Correlations over the heads of what is lost with what a graph says: of ranks, and linear."""
    facts, found = head_facts(measured[i], another_target(measured, i)), {}
    lost = facts["lost"]
    for name in ("rank", "other rank", "share", "other share", "norm"):
        says = facts[name] * (-1 if "rank" in name else 1)
        found[name] = _rank_correlation(says, lost)
        if name in ("rank", "norm"):
            each = [_rank_correlation(x, y) for x, y in zip(says, lost, strict=True)]
            found[f"{name}, within layers"] = mean(each)
    for name in ("rank", "share", "other share"):
        says = -(facts[name] + 1).log() if name == "rank" else facts[name]
        found[f"{name}, linear"] = correlation(says, lost)
    return found | {"largest share is worth most": float(facts["share"].argmax() == lost.argmax())}


def _rank_correlation(x: Tensor, y: Tensor) -> float:
    """Spearman's; 0 where one of the two is constant."""
    return correlation(*(torch.tensor(pd.Series(each.flatten()).rank()) for each in (x, y)))


def _most_attended_is_longest(edges: LastEdges, seed: int) -> list[float]:
    """How often the most attended value is the longest to arrive; a random key as well."""
    draw = torch.Generator().manual_seed(seed)
    a, norm = edges.values[0], edges.values[checks.NORM]
    key = torch.randint(a.shape[-1], a.shape[:2], generator=draw)
    return [(each == norm.argmax(-1)).float().mean().item() for each in (a.argmax(-1), key)]


def mean(values: Sequence[float]) -> float:
    """0 of nothing."""
    return sum(values) / max(len(values), 1)


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: mean([row[name] for row in rows]) for name in rows[0]}


def curves_of(found: dict, what: str = "recovered") -> pd.DataFrame:
    """A result's curves: a row for each order, several for "random", a column for each level."""
    rows = found[what]  # there are no random ones on paper
    return pd.DataFrame(rows, found["rows"][: len(rows)], found["levels"])


def row(found: dict, order: str, level: float, what: str = "recovered") -> float:
    """One number of a result's curves; the mean of the draws for "random"."""
    return mean(curves_of(found, what).loc[[order], level].tolist())


def bootstrap_interval(found: dict, order: str, level: float) -> tuple[float, float]:
    """The middle 90 % of one number of a result's curves if the prompts are drawn anew."""
    low, high = found["spread"][found["rows"].index(order)][found["levels"].index(level)]
    return low, high


def nearer(found: dict, order: str, than: str, level: float) -> float:
    """How much nearer to 1 an order's recovered fraction is than another's, at a level."""
    return abs(1 - row(found, than, level)) - abs(1 - row(found, order, level))


def nearer_at_random(found: dict, level: float) -> float:
    """The same for two draws and two others: what chance does."""
    a, b, c, d = curves_of(found).loc[RANDOM, level].tolist()[:4]
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
    measured = [last_edges(model, prompt) for prompt in prompts]
    found = examine(measured, seed=seed, n_heads=6, n_graphs=12)
    if model.config.family == "llama":
        found["gate signs"] = gate_signs(model, prompts)
    texts = {"text": model.tokenizer.decode(prompts[0].tokens), "n_asked": n_asked}
    return rounded(found | texts | graphs_of(measured[0]), ".5g")


def graphs_of(edges: LastEdges) -> dict:
    """The graph of a prompt as numbers, "graph" and "still" (pruned); "cut": without one edge."""
    still = as_data(prune(edges.unpruned, "share", *STILL))
    return {"graph": as_data(edges.unpruned), "still": still, "cut": checks.after_cut(edges)}
