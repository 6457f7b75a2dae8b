"""A prompt's information flow as a graph that can be read: unfolded, weighed, pruned, labeled."""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from aot_helpers.base.errors import unknown_name
from aot_helpers.base.results import rounded
from aot_helpers.reading import logit_lens as lens
from aot_helpers.reading.norms import frozen_norm
from chapters.nb21_information_flow.flow import (
    Node,
    Run,
    Sum,
    sum_of,
    target_id,
    toward,
    toward_score,
    vector_of,
)

# How edges are weighed. "coefficient" is VISIT's score: attention, activation, the norm in plain
# sums; "norm": of what arrives; "share": what it adds to the target's logit.
MEASURES = ("coefficient", "norm", "share")
CHUNK = 32  # nodes read at once: a row of the vocabulary each
WHY = ("key", "query")  # what makes a head look
LOOKS = 0.1  # keys are unfolded of values with this much attention, or more


class Edge(NamedTuple):
    """From one node into another, by their places in the graph's list.

    kind: "part" of a sum, or "key" or "query", why a head looks there. coefficient: attention,
    activation, or 1; of a key or query the attention score. norm: of what arrives. shares: what it
    adds to each target's logit along the paths of the graph, as a share of that logit. score: what
    it adds to the attention score that it is for, as a share of all parts' sizes.
    """

    source: int
    into: int
    kind: str
    coefficient: float
    norm: float
    shares: tuple[float, ...]
    score: float


@dataclass(frozen=True)
class Graph:
    """Nodes with their vectors, and edges; the first node is the root, sources come after."""

    run: Run
    targets: tuple[int, ...]
    logits: tuple[float, ...]  # of the targets at the root, less the mean logit or the rival's
    against: int | None
    most: int  # what it was unfolded with: prune with as many or fewer, as much or more
    least: float
    nodes: list[Node]
    vectors: Float[Tensor, "node d_model"]
    edges: list[Edge]


def logit_directions(
    run: Run, targets: list[int], against: int | None = None
) -> Float[Tensor, "d_model target"]:
    """Directions at the root: a part of it, times these, is what it adds to the targets' logits.

    Logits count from the mean logit, or from that of the token `against`; the final norm has the σ
    of the root, its bias is left out.
    """
    W_U = run.model.W_U.detach()
    root = run.stream(run.layers.stop)[-1][None, None]
    normed = frozen_norm(run.model.final_norm(), root)
    zero = W_U.mean(dim=1) if against is None else W_U[:, against]
    apart = W_U[:, targets] - zero[:, None]
    return normed(torch.eye(len(W_U))[None])[0] @ apart


def flow_graph(
    run: Run,
    targets: list[str | int],
    most: int = 4,
    least: float = 0.1,
    keys: bool = True,
    against: str | int | None = None,
) -> Graph:
    """Unfold the root backwards, as far as any measure keeps a node's edges (see `prune`).

    targets: tokens whose logits are traced, from the mean logit or from that of `against`. most,
    least: as in `prune`; what that can keep by any measure, for any target, is in the graph. keys:
    unfold where a head looks as well. Raises ValueError for a target of several tokens or unknown,
    no target, most < 1, least outside (0, 1].
    """
    ids = [target_id(run.model, target) for target in targets]
    if not ids or most < 1 or not 0 < least <= 1:
        raise ValueError(f"need a target, most >= 1, 0 < least <= 1: {targets}, {most}, {least}")
    rival = None if against is None else target_id(run.model, against)
    start = logit_directions(run, ids, rival)
    logits = vector_of(run, run.root) @ start
    growing = _Growing(run, most, least, keys)
    aim = F.pad(start / logits.abs().clamp(min=1e-9), (0, 1))
    weights = torch.ones(len(MEASURES) - 1 + len(ids))
    growing.add(run.root, vector_of(run, run.root), weights, aim)
    growing.unfold()
    vectors = torch.stack(growing.vectors)
    logits = tuple(logits.tolist())
    return Graph(run, tuple(ids), logits, rival, most, least, growing.nodes, vectors, growing.edges)


class _Growing:
    """The graph while it grows, and of each node how much it matters by each measure, and toward
    what: the targets' logits, and last the score of the keys and queries that it is part of.
    """

    def __init__(self, run: Run, most: int, least: float, keys: bool):
        self.run, self.most, self.least, self.keys = run, most, least, keys
        self.places, self.nodes, self.edges = {}, [], []
        self.vectors, self.weights, self.aims, self.waiting = [], [], [], []

    def add(self, node: Node, vector: Tensor, weights: Tensor, aim: Tensor) -> int:
        """The node's place; it matters as much as the edge that matters most."""
        if node not in self.places:
            at = self.places[node] = len(self.nodes)
            self.nodes.append(node)
            self.vectors.append(vector)
            self.weights.append(torch.zeros_like(weights))
            self.aims.append(torch.zeros_like(aim))
            layer, step = node.stage  # the last first: all that a node leads to is done before it
            heapq.heappush(self.waiting, (-layer, -step, at))
        at = self.places[node]
        self.weights[at] = torch.maximum(self.weights[at], weights)
        self.aims[at] = self.aims[at] + aim
        return at

    def unfold(self) -> None:
        while self.waiting:
            *_, at = heapq.heappop(self.waiting)
            node = self.nodes[at]
            if (found := sum_of(self.run, node)) is not None:
                self._unfold(at, node, found)

    def _unfold(self, at: int, node: Node, found: Sum) -> None:
        aim, n_targets = self.aims[at], self.aims[at].shape[1] - 1
        if node.kind in WHY:
            size = found.scores.abs().sum().clamp(min=1e-9)
            worth, aim = (
                F.pad((each / size)[:, None], (n_targets, 0))
                for each in (found.scores, toward_score(self.run, node))
            )
        else:
            worth, aim = found.parts @ aim, toward(self.run, node, aim)
        named = torch.tensor([source.kind != "bias" for source in found.sources])
        norms, (*shares, scores) = found.parts.norm(dim=-1), worth.unbind(dim=1)
        given = node.kind, named, found.coefficients, norms
        strengths = [strength(by, *given, shares[0], scores) for by in MEASURES[:-1]]
        strengths += [strength("share", *given, share, scores) for share in shares]
        strengths = torch.stack(strengths, dim=1)  # [part, measure]
        strongest = 1.0 if node.kind in WHY else strengths.amax(dim=0).clamp(min=1e-12)
        passed = self.weights[at] * strengths / strongest
        order = strengths.argsort(dim=0, descending=True, stable=True).argsort(dim=0)
        kept = passed * ((passed >= self.least) & (order < self.most))  # what each part passes on
        chosen = kept.any(dim=1).nonzero().flatten()
        columns = (each[chosen].tolist() for each in (found.coefficients, norms, worth))
        for i, a, norm, (*shares, score) in zip(chosen.tolist(), *columns, strict=True):
            source = found.sources[i]
            vector = found.parts[i] if source.kind == "bias" else vector_of(self.run, source)
            place = self.add(source, vector, kept[i], a * aim)
            self.edges.append(Edge(place, at, "part", a, norm, tuple(shares), score))
            if self.keys and node.kind == "head" and a >= LOOKS:
                self._add_why(at, node, source.pos, kept[i], a == found.coefficients.max())

    def _add_why(self, at: int, head: Node, key: int, weights: Tensor, most_attended: bool) -> None:
        """The key of a value, and beside the most attended one the query."""
        scores = self.run.cache[f"L{head.layer}.scores"][0, head.number, head.pos]
        why = [Node("key", head.layer, head.number, key, head.pos)]
        if most_attended:
            why.append(Node("query", head.layer, head.number, head.pos, key))
        for node in why:
            vector = vector_of(self.run, node)
            if node.kind == "query" and not vector.any():  # the distance alone decides
                continue
            place = self.add(node, vector, weights, torch.zeros_like(self.aims[at]))
            shares = (0.0,) * (self.aims[at].shape[1] - 1)
            row = scores[key].item(), vector.norm().item(), shares, 0.0
            self.edges.append(Edge(place, at, node.kind, *row))


def strength(
    by: str,
    into: str,
    named: bool | Tensor,
    coefficient: float | Tensor,
    norm: float | Tensor,
    share: float | Tensor,
    score: float | Tensor,
) -> float | Tensor:
    """How strong a part is by a measure: of numbers, or of tensors with an entry for each part.

    into: the kind of the node; of keys and queries the score counts, by every measure. named: False
    of a bias, which has no coefficient. The others are those of `Edge`.
    """
    if into in WHY:
        return abs(score)
    if by == "share":
        return abs(share) + abs(score)
    if by == "coefficient" and into in ("head", "mlp"):
        return abs(coefficient) * named
    return norm


def prune(graph: Graph, by: str = "share", most: int = 3, least: float = 0.2) -> Graph:
    """The part of the graph that is left when weak edges are dropped, from the root backwards.

    by: one of MEASURES; "share" is that of the first target. An edge is kept if it is one of the
    `most` strongest into its node (VISIT keeps so many at each step), and if what it passes on, its
    node's weight times its strength beside the strongest, is at least `least`; the root has weight
    1. Into keys and queries it passes on the node's weight times its share of the score's parts: a
    score of many small parts is not unfolded. Nodes without any edge left are removed. Raises
    ValueError for an unknown measure, and for more edges than the graph was unfolded with.
    """
    if by not in MEASURES:
        raise unknown_name("measure", by, MEASURES)
    if not (1 <= most <= graph.most and graph.least <= least <= 1):
        raise ValueError(
            f"need most of 1 … {graph.most} and least of {graph.least} … 1, as the graph was "
            f"unfolded; got {most} and {least}"
        )
    nodes, into, weight, kept = graph.nodes, {}, {0: 1.0}, []
    for edge in graph.edges:
        into.setdefault(edge.into, []).append(edge)
    for at in sorted(into, key=lambda i: nodes[i].stage, reverse=True):
        if at not in weight:
            continue
        strengths = {e: edge_strength(nodes, e, by) for e in into[at] if e.kind == "part"}
        strongest = 1.0 if nodes[at].kind in WHY else max([1e-12, *strengths.values()])
        top = set(sorted(strengths, key=strengths.get, reverse=True)[:most])
        passed = {e: weight[at] * s / strongest for e, s in strengths.items() if e in top}
        passed = {edge: p for edge, p in passed.items() if p >= least}
        # A key goes with the value beside it, the query with the key that it scores highest.
        places = {nodes[edge.source].pos: p for edge, p in passed.items()}
        for edge in (e for e in into[at] if e.kind != "part"):
            key = nodes[edge.source].pos if edge.kind == "key" else nodes[edge.source].other
            if key in places:
                passed[edge] = places[key]
        kept += passed
        for edge, p in passed.items():
            weight[edge.source] = max(weight.get(edge.source, 0), p)
    left = sorted(weight)
    new = {old: i for i, old in enumerate(left)}
    edges = [edge._replace(source=new[edge.source], into=new[edge.into]) for edge in kept]
    return replace(graph, nodes=[nodes[i] for i in left], vectors=graph.vectors[left], edges=edges)


def edge_strength(nodes: Sequence[Node], edge: Edge, by: str = "share") -> float:
    """`strength` of an edge of a graph; a key or query of a head is no part of it, and has none."""
    if edge.kind != "part":
        return 0.0
    named = nodes[edge.source].kind != "bias"
    *_, coefficient, norm, shares, score = edge
    return strength(by, nodes[edge.into].kind, named, coefficient, norm, shares[0], score)


def as_data(graph: Graph, n_top: int = 5) -> dict:
    """The graph as what JSON can hold: edges as rows of `Edge`, nodes as rows of `Node` with four
    more numbers, what the lens reads in their vectors.

    They are the first tokens (none where the reading prefers none), of each target its rank and its
    probability, and the entropy of the reading as a fraction of the most possible.
    """
    model, rows = graph.run.model, []
    strings = model.tokenizer.token_strings if model.tokenizer else lambda ids: list(map(str, ids))
    for start in range(0, len(graph.nodes), CHUNK):
        logits = lens.lens(model, graph.vectors[start : start + CHUNK])
        logs = logits.log_softmax(dim=-1)
        tops = lens.top_tokens(logits, min(n_top, logits.shape[1]))
        alike = torch.stack([(logits == logits[:, [t]]).sum(dim=1) for t in graph.targets], -1)
        ranks = torch.stack([lens.rank(logits, t) for t in graph.targets], dim=-1)
        ranks = ranks + (alike - 1) // 2  # in the middle of those that are equal
        flat = logits.max(dim=1).values == logits.min(dim=1).values
        odds = logs[:, list(graph.targets)].exp().tolist()
        spread = (-(logs.exp() * logs).sum(dim=-1) / math.log(logits.shape[1])).tolist()
        for i, node in enumerate(graph.nodes[start : start + CHUNK]):
            top = [] if flat[i] else strings(tops[i].tolist())
            rows.append([*node, top, ranks[i].tolist(), odds[i], spread[i]])
    layers, rival = graph.run.layers, graph.against
    data = {
        "tokens": strings(graph.run.tokens.tolist()),
        "targets": strings(list(graph.targets)),
        "logits": graph.logits,
        "from": "less the mean logit" if rival is None else f"less {strings([rival])[0]!r}",
        "layers": [layers.start, layers.stop, model.config.n_layers],
        "unfolded": [graph.most, graph.least],
        "d_vocab": model.config.d_vocab,
        "nodes": rows,
        "edges": [list(edge) for edge in graph.edges],
    }
    return rounded(data)
