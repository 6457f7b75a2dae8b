"""All of notebook 21's measurements on one model, as numbers that JSON can hold."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.base.files import DATA, read_json
from aot_helpers.models.protocol import Model
from aot_helpers.reading.flow import Node, Run, sum_of, vector_of
from aot_helpers.reading.flow_graph import Graph, as_data, flow_graph, prune
from aot_helpers.studies import flow_ablation as ablation
from aot_helpers.studies import flow_checks as checks
from aot_helpers.studies.flow_ablation import LEVELS, ORDERS, LastEdges
from aot_helpers.studies.flow_prompts import Prompt, written_prompts

FOLDER = DATA / "results" / "pretrained"
MOST, LEAST = 4, 0.1  # of the graphs whose edges are tested alone
PART = 0.25  # of the heads and MLPs that stay when the rest is set to its mean
NEURON_LEVELS = (0.0, 0.1, 0.5, 1.0)
NEURON_ORDERS = ("coefficient per step", "norm per step", "share per step")


def largest_gap(graph: Graph) -> float:
    """The largest difference of a node and the sum of all edges into it, beside its length.

    All edges of the run, not only those that the graph keeps; keys and queries also for the score.
    """
    gaps = []
    for node in graph.nodes:
        if (found := sum_of(graph.run, node)) is None:
            continue
        vector = vector_of(graph.run, node)
        gaps.append((found.parts.sum(dim=0) - vector).norm() / vector.norm().clamp(min=1e-9))
        if node.kind in ("key", "query"):
            at = (node.other, node.pos) if node.kind == "key" else (node.pos, node.other)
            score = graph.run.cache[f"L{node.layer}.scores"][(0, node.number, *at)]
            if node.kind == "query" and graph.run.model.config.positions == "relative":
                bias = graph.run.model.blocks[node.layer].attn.relative_bias(len(graph.run.tokens))
                score = score - bias[(node.number, *at)]
            gaps.append((found.scores.sum() - score).abs() / score.abs().clamp(min=1.0))
    return max(gap.item() for gap in gaps)


def induction_text(d_vocab: int, length: int, seed: int) -> tuple[Int[Tensor, " pos"], int, int]:
    """BOS, different tokens, and one of them again: (tokens, what followed it, where it stood)."""
    draw = torch.Generator().manual_seed(seed)
    row = 1 + torch.randperm(d_vocab - 1, generator=draw)[: length - 1]
    at = int(torch.randint(1, length - 2, (1,), generator=draw))
    tokens = torch.cat([torch.tensor([0]), row, row[at - 1 : at]])
    return tokens, int(tokens[at + 1]), at


def circuit_errors(graph: Graph, at: int) -> int:
    """Edges too many or missing, beside the circuit of `handmade.induction_model`.

    at: where the text's last token stood before. Of the sums: the last stream is L1H0, that the
    token after `at`; of why: its key there is L0H0, that the token at `at`, chosen by its distance;
    its query is the last token itself.
    """
    last, after = graph.run.pos, at + 1
    head, before = Node("head", 1, 0, last), Node("head", 0, 0, after)
    value, early = Node("value", 1, 0, after), Node("value", 0, 0, at)
    key, query = Node("key", 1, 0, after, last), Node("query", 1, 0, last, after)
    near = Node("key", 0, 0, at, after)
    known = {
        (head, graph.run.root), (value, head), (Node("token", 0, 0, after), value),
        (key, head), (before, key), (early, before), (Node("token", 0, 0, at), early),
        (near, before), (Node("position", 0, 0, at, after), near),
        (query, head), (Node("token", 0, 0, last), query),
    }  # fmt: skip
    drawn = {(graph.nodes[e.source], graph.nodes[e.into]) for e in graph.edges}
    return len(known ^ drawn)


def swapped(run: Run) -> int:
    """Neighbors in the order of the scores whose attention is the other way round."""
    n = 0
    for layer in range(run.model.config.n_layers):
        scores, a = (run.cache[f"L{layer}.{x}"][0, :, -1] for x in ("scores", "pattern"))
        in_order = a.gather(1, scores.argsort(dim=1))
        n += int((in_order.diff(dim=1) < 0).sum())
    return n


def pruned(edges: LastEdges, keys: bool = True) -> Graph:
    """The graph of a prompt that is tested: by the share of the target's logit."""
    rival, target = edges.prompt.rival, edges.prompt.target
    graph = flow_graph(edges.run, [target], MOST, LEAST, keys, rival)
    return prune(graph, "share", 0, MOST, LEAST)


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
    whole graphs; None takes all.
    """
    edges = [ablation.last_edges(model, prompt) for prompt in prompts]
    some, few = edges[: n_graphs or len(edges)], edges[: n_heads or len(edges)]
    found = {
        "n_prompts": len(edges),
        "n_edges": [e.n_edges for e in edges],
        "levels": list(LEVELS),
        "rows": [*ORDERS, *[ablation.RANDOM] * draws],
        "swapped": sum(swapped(e.run) for e in edges),
        **_curves(model, edges, draws, seed),
        **_single(model, edges, draws, seed),
        **_graphs(model, some, draws, seed),
        **_heads(model, few, edges),
        **_arrivals(edges, seed),
    }
    whole = checks.kept_writers(model, some, PART, draws, seed)
    ends = whole["none"].mean(), whole["whole"].mean()
    found["at means"] = {
        name: ((whole[name].mean() - ends[0]) / (ends[1] - ends[0])).item()
        for name in ("share", "norm", "random")
    }
    return found


def _curves(model, edges, draws, seed) -> dict:
    each = [ablation.curves(model, e, draws=draws, seed=seed + i) for i, e in enumerate(edges)]
    aim, first = (torch.stack(parts) for parts in zip(*each, strict=True))
    paper = torch.stack([ablation.on_paper(e, ORDERS, LEVELS) for e in edges])
    found = {
        "recovered": ablation.recovered(aim).tolist(),
        "first": first.mean(dim=0).tolist(),
        "aims": aim.mean(dim=0).tolist(),
        "on paper": ablation.recovered(paper).tolist(),
    }
    if model.config.d_mlp:
        each = [
            ablation.curves(model, e, NEURON_ORDERS, NEURON_LEVELS, draws, seed + i, True)[0]
            for i, e in enumerate(edges)
        ]
        found["neurons"] = ablation.recovered(torch.stack(each)).tolist()
        found["neuron levels"] = list(NEURON_LEVELS)
        found["neuron rows"] = [*NEURON_ORDERS, *[ablation.RANDOM] * draws]
    return found


def _single(model, edges, draws, seed) -> dict:
    """The strongest value and random ones: where they stand, and what is lost without each."""
    stands, by_lot, lost, lost_by_lot = [], [], [], []
    for i, e in enumerate(edges):
        if e.prompt.target not in e.run.tokens:
            continue
        here, there, aim = checks.one_edge(model, e, draws, seed + i)
        none = ablation.curves(model, e, (), (0.0,), 1, seed)[0].item()
        less = (e.aim - aim) / (e.aim - none)
        stands.append(float(here))
        by_lot.append(sum(there) / len(there))
        lost.append(less[0].item())
        lost_by_lot.append(less[1:].mean().item())
    means = (_mean(each) for each in (stands, by_lot, lost, lost_by_lot))
    names = "stands", "stands by lot", "lost", "lost by lot"
    return {"strongest": dict(zip(names, means, strict=True)) | {"n": len(stands)}}


def _graphs(model, edges, draws, seed) -> dict:
    found, sizes, gaps = {}, [], []
    for keys in (True, False):
        aims = []
        for i, e in enumerate(edges):
            graph = pruned(e, keys)
            with_only = checks.with_only(model, e, graph, draws, seed + i)
            aims.append([checks.without_all(model, e, graph), *with_only, e.aim])
            if keys:
                gaps.append(largest_gap(graph))
                masks = checks.graph_masks(graph)
                sizes.append([len(graph.nodes), len(graph.edges), *(int(m.sum()) for m in masks)])
        none, only, *by_lot, whole = torch.tensor(aims).mean(dim=0).tolist()
        name = "with keys" if keys else "without keys"
        found[name] = [(x - none) / (whole - none) for x in (only, sum(by_lot) / len(by_lot))]
    return {"graphs": found, "graph sizes": sizes, "largest gap": max(gaps)}


def _heads(model, few, edges) -> dict:
    """Rank correlations over the heads of what is lost with what a graph says; means of prompts."""
    found = {name: [] for name in ("rank", "other rank", "share", "other share", "norm")}
    for i, e in enumerate(few):
        others = [o.prompt.target for o in edges if o.prompt.target != e.prompt.target]
        facts = checks.head_facts(model, e, others[i % len(others)])
        for name, values in found.items():
            sign = -1 if "rank" in name else 1
            values.append(checks.rank_correlation(sign * facts[name], facts["lost"]))
    return {"heads": {name: _mean(values) for name, values in found.items()}}


def _arrivals(edges, seed) -> dict:
    """How often the most attended value is the longest to arrive; a random key as well."""
    draw, same, by_lot = torch.Generator().manual_seed(seed), [], []
    for e in edges:
        a, norm = e.values[0], e.values[checks.NORM]
        same.append((a.argmax(-1) == norm.argmax(-1)).float().mean().item())
        key = torch.randint(a.shape[-1], a.shape[:2], generator=draw)
        by_lot.append((key == norm.argmax(-1)).float().mean().item())
    return {"most attended is longest": [_mean(same), _mean(by_lot)]}


def _mean(values: list[float]) -> float:
    return sum(values) / max(len(values), 1)


def row(found: dict, order: str, level: float, what: str = "recovered") -> float:
    """One number of a result's curves; the mean of the draws for "random"."""
    at = found["levels"].index(level)
    rows = [
        each[at] for name, each in zip(found["rows"], found[what], strict=False) if name == order
    ]
    return _mean(rows)


def nearer(found: dict, order: str, than: str, level: float) -> float:
    """How much nearer to 1 an order's recovered share is than another's, at a level."""
    return abs(1 - row(found, than, level)) - abs(1 - row(found, order, level))


def nearer_by_lot(found: dict, level: float) -> float:
    """The same for two draws and two others: what chance does."""
    at, first = found["levels"].index(level), found["rows"].index(ablation.RANDOM)
    a, b, c, d = (found["recovered"][first + i][at] for i in range(4))
    return abs(abs(1 - (a + b) / 2) - abs(1 - (c + d) / 2))


def gate_signs(model: Model, edges: Sequence[LastEdges]) -> tuple[float, float]:
    """(share of a gated MLP's neurons whose coefficient has its gate's sign, the same of the gate
    beside), at the last positions of the prompts.
    """
    own, beside = [], []
    for e in edges:
        for layer, block in enumerate(model.hf.model.layers):
            before = e.run.stream(layer)[-1] + e.run.cache[f"L{layer}.attn_out"][0, -1]
            with torch.no_grad():
                gate = block.mlp.gate_proj(model.mlp_norm(layer)(before))
            hidden = e.run.cache[f"L{layer}.mlp_hidden"][0, -1]
            own.append((gate.sign() == hidden.sign()).float().mean().item())
            beside.append((gate.roll(1).sign() == hidden.sign()).float().mean().item())
    return _mean(own), _mean(beside)


def gelu_signs(model: Model, edges: Sequence[LastEdges]) -> int:
    """Neurons of a GPT-2 at the last positions whose sign its activation changes."""
    n = 0
    for e in edges:
        for layer, block in enumerate(model.hf.transformer.h):
            before = e.run.stream(layer)[-1] + e.run.cache[f"L{layer}.attn_out"][0, -1]
            with torch.no_grad():
                first = block.mlp.c_fc(model.mlp_norm(layer)(before))
            hidden = e.run.cache[f"L{layer}.mlp_hidden"][0, -1]
            n += int((first.sign() * hidden.sign() < 0).sum())
    return n


def pretrained(model: Model, seed: int = 0) -> dict:
    """Measure gifts and capitals on a model from outside; for `make pretrained`.

    Whole graphs and means are measured on the first 12 of the prompts (the gifts, if the model
    answers all), what each head is worth on 8. The graph of the first prompt is there to be drawn.
    """
    prompts, n_asked = written_prompts(model)
    found = examine(model, prompts, seed=seed, n_heads=8, n_graphs=12)
    if model.config.family == "llama":
        found["gate signs"] = gate_signs(model, [ablation.last_edges(model, p) for p in prompts])
    texts = {"text": model.tokenizer.decode(prompts[0].tokens), "n_asked": n_asked}
    return _short(found | texts | drawn(model, prompts[0]))


def drawn(model: Model, prompt: Prompt) -> dict:
    """The graph of a prompt as numbers, "graph" whole and "still" pruned."""
    run = ablation.last_edges(model, prompt).run
    graph = flow_graph(run, [prompt.target], 3, 0.2, against=prompt.rival)
    return {"graph": as_data(graph), "still": as_data(prune(graph, "share", 0, 3, 0.4))}


def read_results(name: str) -> dict:
    """What `make pretrained` measured of a model for notebook 21. ValueError names those there."""
    path = FOLDER / f"21-{name}.json"
    if not path.is_file():
        there = ", ".join(sorted(p.stem[3:] for p in FOLDER.glob("21-*.json"))) or "none"
        raise ValueError(f"there are no results of {name!r}, but of: {there}; run make pretrained")
    return read_json(path)


def _short(value):
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_short(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value
