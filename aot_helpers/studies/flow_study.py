"""All of notebook 21's measurements on one model, as numbers that JSON can hold."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.base.files import DATA, read_json
from aot_helpers.models.protocol import Model
from aot_helpers.reading.flow import Node, Run, run_of, sum_of, vector_of
from aot_helpers.reading.flow_graph import Graph, as_data, flow_graph, prune
from aot_helpers.studies import flow_ablation as ablation
from aot_helpers.studies import flow_checks as checks
from aot_helpers.studies.flow_ablation import LEVELS, ORDERS, LastEdges
from aot_helpers.studies.flow_prompts import Prompt, written_prompts

FOLDER = DATA / "results" / "pretrained"
MOST, LEAST = 4, 0.1  # of the graphs whose edges are tested alone
STILL = 2, 0.4  # most, least: of the graph that is drawn of a model from outside
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
    whole graphs and means; None takes all. One prompt's activations are held at a time.
    """
    n_heads, n_graphs = n_heads or len(prompts), n_graphs or len(prompts)
    rows = []
    for i, prompt in enumerate(prompts):
        edges = ablation.last_edges(model, prompt)
        row = {"n_edges": edges.n_edges, "swapped": swapped(edges.run), "aim": edges.aim}
        row |= _curves(model, edges, draws, seed + i) | _arrivals(edges, seed + i)
        if prompt.target in prompt.tokens:
            row["strongest"] = _strongest(model, edges, row["none"], draws, seed + i)
        if i < n_graphs:
            row |= _graphs(model, edges, draws, seed + i)
        if i < n_heads:
            others = [p.target for p in prompts if p.target != prompt.target]
            row["heads"] = _heads(model, edges, others[i % len(others)])
        rows.append(row)
    found = _together(model, rows, draws)
    at_means = checks.kept_writers(model, prompts[:n_graphs], PART, draws, seed)
    none, whole = at_means.pop("none").mean(), at_means.pop("whole").mean()
    found["at means"] = {
        name: ((aims.mean() - none) / (whole - none)).item() for name, aims in at_means.items()
    }
    return found


def _curves(model, edges, draws, seed) -> dict:
    aim, first = ablation.curves(model, edges, draws=draws, seed=seed)
    row = {"aims": aim, "first": first, "none": aim[0, 0].item()}
    row["on paper"] = ablation.on_paper(edges, ORDERS, LEVELS)
    if model.config.d_mlp:
        more = NEURON_ORDERS, NEURON_LEVELS, draws, seed, True
        row["neurons"] = ablation.curves(model, edges, *more)[0]
    return row


def _strongest(model, edges, none, draws, seed) -> dict:
    """The strongest value and random ones: where they stand, and what is lost without each."""
    here, there, aim = checks.one_edge(model, edges, draws, seed)
    less = ((edges.aim - aim) / (edges.aim - none)).tolist()
    by_lot = {"stands by lot": _mean(there), "lost by lot": _mean(less[1:])}
    return {"stands": float(here), "lost": less[0]} | by_lot


def _graphs(model, edges, draws, seed) -> dict:
    """Aims with a graph's edges alone: [without all, with only these, by lot …, the whole run]."""
    row = {}
    for name, keys in (("with keys", True), ("without keys", False)):
        graph = pruned(edges, keys)
        only = checks.with_only(model, edges, graph, draws, seed)
        row[name] = torch.tensor([checks.without_all(model, edges, graph), *only, edges.aim])
        if keys:
            row["largest gap"] = largest_gap(graph)
            n_kept = [int(mask.sum()) for mask in checks.graph_masks(graph)]
            row["graph size"] = [len(graph.nodes), len(graph.edges), *n_kept]
    return row


def _heads(model, edges, other: int) -> dict:
    """Rank correlations over the heads of what is lost with what a graph says."""
    facts = checks.head_facts(model, edges, other)
    return {
        name: checks.rank_correlation(facts[name] * (-1 if "rank" in name else 1), facts["lost"])
        for name in ("rank", "other rank", "share", "other share", "norm")
    }


def _arrivals(edges, seed) -> dict:
    """How often the most attended value is the longest to arrive; a random key as well."""
    draw = torch.Generator().manual_seed(seed)
    a, norm = edges.values[0], edges.values[checks.NORM]
    key = torch.randint(a.shape[-1], a.shape[:2], generator=draw)
    same = (each == norm.argmax(-1) for each in (a.argmax(-1), key))
    return {"most attended is longest": [each.float().mean().item() for each in same]}


def _together(model, rows: list[dict], draws: int) -> dict:
    """What stands in the rows of all prompts, as sums, means and shares."""
    stacked = {name: torch.stack([row[name] for row in rows]) for name in ("aims", "on paper")}
    said = [row["strongest"] for row in rows if "strongest" in row]
    graphs = [row for row in rows if "largest gap" in row]
    found = {
        "n_prompts": len(rows),
        "n_edges": [row["n_edges"] for row in rows],
        "levels": list(LEVELS),
        "rows": [*ORDERS, *[ablation.RANDOM] * draws],
        "swapped": sum(row["swapped"] for row in rows),
        "recovered": ablation.recovered(stacked["aims"]).tolist(),
        "on paper": ablation.recovered(stacked["on paper"]).tolist(),
        "aims": stacked["aims"].mean(dim=0).tolist(),
        "first": torch.stack([row["first"] for row in rows]).mean(dim=0).tolist(),
        "strongest": {name: _mean([each[name] for each in said]) for name in said[0]},
        "graph sizes": [row["graph size"] for row in graphs],
        "largest gap": max(row["largest gap"] for row in graphs),
        "graphs": {},
    }
    found["strongest"]["n"] = len(said)
    for name in ("with keys", "without keys"):
        none, only, *lot, whole = torch.stack([row[name] for row in graphs]).mean(dim=0).tolist()
        found["graphs"][name] = [(x - none) / (whole - none) for x in (only, _mean(lot))]
    if model.config.d_mlp:
        neurons = torch.stack([row["neurons"] for row in rows])
        found["neurons"] = ablation.recovered(neurons).tolist()
        found["neuron levels"] = list(NEURON_LEVELS)
        found["neuron rows"] = [*NEURON_ORDERS, *[ablation.RANDOM] * draws]
    heads = [row["heads"] for row in rows if "heads" in row]
    found["heads"] = {name: _mean([each[name] for each in heads]) for name in heads[0]}
    same = zip(*(row["most attended is longest"] for row in rows), strict=True)
    return found | {"most attended is longest": [_mean(each) for each in same]}


def _mean(values: Sequence[float]) -> float:
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


def gate_signs(model: Model, prompts: Sequence[Prompt]) -> tuple[float, float]:
    """(share of a gated MLP's neurons whose coefficient has its gate's sign, the same of the gate
    beside), at the last positions of the prompts.
    """
    own, beside = [], []
    for prompt in prompts:
        run = run_of(model, prompt.tokens)
        for layer, block in enumerate(model.hf.model.layers):
            before = run.stream(layer)[-1] + run.cache[f"L{layer}.attn_out"][0, -1]
            with torch.no_grad():
                gate = block.mlp.gate_proj(model.mlp_norm(layer)(before))
            hidden = run.cache[f"L{layer}.mlp_hidden"][0, -1]
            own.append((gate.sign() == hidden.sign()).float().mean().item())
            beside.append((gate.roll(1).sign() == hidden.sign()).float().mean().item())
    return _mean(own), _mean(beside)


def gelu_signs(model: Model, prompts: Sequence[Prompt]) -> int:
    """Neurons of a GPT-2 at the last positions whose sign its activation changes."""
    n = 0
    for prompt in prompts:
        run = run_of(model, prompt.tokens)
        for layer, block in enumerate(model.hf.transformer.h):
            before = run.stream(layer)[-1] + run.cache[f"L{layer}.attn_out"][0, -1]
            with torch.no_grad():
                first = block.mlp.c_fc(model.mlp_norm(layer)(before))
            hidden = run.cache[f"L{layer}.mlp_hidden"][0, -1]
            n += int((first.sign() * hidden.sign() < 0).sum())
    return n


def pretrained(model: Model, seed: int = 0) -> dict:
    """Measure gifts and capitals on a model from outside; for `make pretrained`.

    Whole graphs and means are measured on the first 12 of the prompts (the gifts, if the model
    answers all), what each head is worth on 6. The graph of the first prompt is there to be drawn.
    """
    prompts, n_asked = written_prompts(model)
    found = examine(model, prompts, seed=seed, n_heads=6, n_graphs=12)
    if model.config.family == "llama":
        found["gate signs"] = gate_signs(model, prompts)
    texts = {"text": model.tokenizer.decode(prompts[0].tokens), "n_asked": n_asked}
    return _short(found | texts | drawn(model, prompts[0]))


def drawn(model: Model, prompt: Prompt) -> dict:
    """The graph of a prompt as numbers, "graph" whole and "still" pruned."""
    graph = flow_graph(run_of(model, prompt.tokens), [prompt.target], against=prompt.rival)
    return {"graph": as_data(graph), "still": as_data(prune(graph, "share", 0, *STILL))}


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
