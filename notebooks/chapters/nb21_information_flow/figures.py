"""Figures of notebook 21: edges over a text, and information-flow graphs, still and alive.

Graphs are drawn left to right. Boxes are vectors: gold where the target is among the ten tokens
that the lens reads first there, and only then with the first of them: elsewhere a reading says
nothing of the target. Lines into a head are attention (purple) and, dashed, why it looks there
(key blue, query orange); gray lines are plain sums; dotted ones take away from the target's logit.
The wider, the stronger beside the strongest into the same box.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import networkx as nx
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch
from matplotlib.path import Path as Line

from aot_helpers.showing.diagrams import (
    INK,
    KEY,
    PALE,
    QUERY,
    SHARE,
    VALUE,
    canvas,
    headline,
    say,
    word,
)
from aot_helpers.showing.plots import SMALL, shown
from aot_helpers.showing.widgets import Page
from chapters.nb21_information_flow.flow import STEPS, Node
from chapters.nb21_information_flow.flow_graph import Edge, Graph, as_data, edge_strength, prune

SCRIPT = Path(__file__).with_name("flow.js")  # the live view, in the page itself

MLP = "#8C5A2B"
BORDERS = dict.fromkeys(("position", "residual", "bias", "stream"), PALE)
BORDERS |= {"token": INK, "head": SHARE, "value": VALUE, "key": KEY, "query": QUERY}
BORDERS |= {"mlp": MLP, "neuron": MLP}
SUM = "#A3A3A3"
RANKS = ("#FFC629", "#FFE394", "#FFFFFF")
RANK_NAMES = ("first", "2 to 10", "lower    (→ what the lens puts first)")
LINES = {"attention": (SHARE, ""), "neuron": (MLP, ""), "sum": (SUM, "")}  # color, dashes
LINES |= {"key": (KEY, "4 2.5"), "query": (QUERY, "4 2.5"), "lowers the target": (SUM, "1 1.4")}
COLUMN, ROW, WIDTH, HEIGHT = 1.72, 0.5, 1.36, 0.4  # inches
SIDES = -WIDTH / 2, WIDTH / 2  # of a box, from its middle
LANE = 0.4  # of a row, for a line that passes a column


def flow_view(graph: Graph, title: str, most: int = 3, least: float = 0.3) -> "FlowView":
    """A graph alive in the page, pruned at first as its still is: see `prune`."""
    still = flow_figure(as_data(prune(graph, "share", most, least)), title)
    return FlowView(as_data(graph), still, most, least)


Points = list[tuple[float, float]]  # inches


def layout(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[Points, list[Points]]:
    """The centers of the nodes' boxes, and the points that each line joins, from its source on.

    A node stands in the column before its earliest reader, the root in the last, so sources are
    left of what they go into. A long line has a lane of its own in each column that it passes, so
    it meets no box. In a column the order is that of what the nodes and lanes lead to.
    """
    graph = nx.DiGraph((edge.into, edge.source) for edge in edges)
    graph.add_nodes_from(range(len(nodes)))
    depth = {i: d for d, column in enumerate(nx.topological_generations(graph)) for i in column}
    steps, ways = nx.DiGraph(), []  # from what a line goes into, lane by lane, to its source
    steps.add_nodes_from(graph)
    for n, edge in enumerate(edges):
        lanes = [(n, d) for d in range(depth[edge.into] + 1, depth[edge.source])]
        ways.append([edge.into, *lanes, edge.source])
        nx.add_path(steps, ways[-1])
    places = {}

    def order(item):
        heights = [places[each][1] for each in steps.predecessors(item)]
        node = nodes[edges[item[0]].source if isinstance(item, tuple) else item]
        return -sum(heights) / max(len(heights), 1), node.pos, node.layer, node.number, node.kind

    for d, column in enumerate(nx.topological_generations(steps)):
        column = sorted(column, key=order)
        sizes = [LANE if isinstance(item, tuple) else 1.0 for item in column]
        ends = accumulate(sizes, initial=-sum(sizes) / 2)
        for item, size, end in zip(column, sizes, ends, strict=False):
            places[item] = -COLUMN * d, -ROW * (end + size / 2)
    lines = []
    for way in ways:
        sides = [(x + side, y) for x, y in (places[i] for i in reversed(way)) for side in SIDES]
        lines.append(sides[1:-1])
    return [places[i] for i in range(len(nodes))], lines


def name_of(node: Node, tokens: list[str]) -> str:
    """The first line of a node's box, with its place in the text."""
    kind, layer, number, pos, _ = node
    if kind == "stream":
        return kind
    names = {"token": shown(tokens[pos]), "position": kind, "bias": kind}
    names |= {"residual": f"stream L{layer}", "head": f"L{layer}H{number}"}
    names |= {"mlp": f"L{layer} MLP", "neuron": f"L{layer} n{number}"}
    name = names.get(kind, f"L{layer}H{number} {kind}")
    return f"{_cut(name, 16 - len(str(pos)) - 2)} @{pos}"


def flow_figure(data: Mapping, title: str) -> Figure:
    """The whole of a graph, of `as_data(prune(…))`, left to right; lines are wide by their share.

    Raises ValueError for a graph of more than 150 nodes.
    """
    nodes, edges = [Node(*row[:5]) for row in data["nodes"]], [Edge(*row) for row in data["edges"]]
    if len(nodes) > 150:
        raise ValueError(f"{len(nodes)} nodes are too many to be drawn: prune further, to 150")
    places, lines = layout(nodes, edges)
    x, y = zip(*places, *chain(*lines), strict=True)
    width, height = max(max(x) - min(x) + COLUMN + 0.1, 7.6), max(y) - min(y) + ROW + 1.5
    left, low = (min(x) + max(x) - width) / 2, min(y) - ROW / 2 - 0.95
    figure, axis = canvas(width, height)
    axis.set(xlim=(left, left + width), ylim=(low, low + height))
    strengths, most, names = [edge_strength(nodes, edge) for edge in edges], {}, set()
    for edge, strong in zip(edges, strengths, strict=True):
        most[edge.into] = max(most.get(edge.into, 1e-9), strong)
    for edge, strong, line in zip(edges, strengths, lines, strict=True):
        kind, name = line_names(nodes, edge)
        names.add(name)
        wide = 0.8 + 4.2 * strong / most[edge.into] if edge.kind == "part" else 1.2
        look = {"color": LINES[kind][0], "ls": _dashes(name), "lw": wide}
        axis.plot(*zip(*line, strict=True), **look, dash_capstyle="butt", zorder=1)
    for node, (*_, top, ranks, _, _), (x, y) in zip(nodes, data["nodes"], places, strict=True):
        rank = 2 if not top or ranks[0] >= 10 else min(ranks[0], 1)  # of RANKS
        color, name = BORDERS[node.kind], name_of(node, data["tokens"])
        word(axis, x, y, "", color, fill=RANKS[rank], width=WIDTH, height=HEIGHT)
        say(axis, x, y + 0.085 * (rank < 2), name, color, SMALL, weight="bold")
        if rank < 2:
            say(axis, x, y - 0.095, _cut(f"→ {shown(top[0])}", 15), size=SMALL)
    _legends(figure, shown(data["targets"][0]), names)
    at = sorted({node.pos for node in nodes if node.kind != "stream"})
    texts = "   ".join(f"@{pos} {shown(data['tokens'][pos])}" for pos in at)
    say(axis, left + 0.1, low + 0.16, f"positions:  {texts}", size=SMALL, ha="left")
    return headline(figure, title)


def line_names(nodes: Sequence[Node], edge: Edge) -> tuple[str, str]:
    """Which of LINES gives an edge its color, and which its dashes: what lowers the target is
    dotted in its own color.
    """
    if edge.kind != "part":
        return edge.kind, edge.kind
    kind = {"head": "attention", "mlp": "neuron"}.get(nodes[edge.into].kind, "sum")
    return kind, "lowers the target" if edge.shares[0] < 0 else kind


def _dashes(name: str) -> object:
    dash = LINES[name][1]
    return (0, tuple(map(float, dash.split()))) if dash else "-"


def _cut(text: str, n: int) -> str:
    return text if len(text) <= n else text[: n - 1] + "…"


def _legends(figure: Figure, target: str, names: set[str]) -> None:
    """The ranks of the target, and below them the kinds of lines that are there."""
    first, *others = RANK_NAMES
    ranks = zip(RANKS, [f"rank of {target} in a box: {first}", *others], strict=True)
    boxes = [Patch(fc=color, ec=PALE, label=label) for color, label in ranks]
    there = {name: color for name, (color, _) in LINES.items() if name in names}
    strokes = [
        Line2D([], [], color=color, ls=_dashes(name), lw=2, label=name)
        for name, color in there.items()
    ]
    strokes[-1].set_label(f"{strokes[-1].get_label()}    (wider: stronger)")
    look = {"loc": "center left", "frameon": False, "fontsize": SMALL, "handlelength": 2.3}
    for y, handles in ((0.68, boxes), (0.42, strokes)):
        place = 0, y / figure.get_figheight()
        figure.legend(handles=handles, bbox_to_anchor=place, ncols=len(handles), **look)


class Arc(NamedTuple):
    """One edge over a text: from a key to a query, above it, or below it in an earlier layer."""

    label: str
    key: int
    query: int
    width: float  # points
    below: bool = False
    color: str = SHARE


def over_text(
    tokens: Sequence[str], arcs: Sequence[Arc], title: str, notes: Mapping[int, tuple] | None = None
) -> Figure:
    """A text as boxes and edges as arcs over it. notes: {position: (line below it, color)}."""
    notes = notes or {}
    names = [shown(token) if token != "<|bos|>" else "BOS" for token in tokens]
    widths = [0.13 + 0.079 * len(name) for name in names]
    deep = 1.15 if notes or any(arc.below for arc in arcs) else 0.45
    figure, axis = canvas(sum(widths) + 0.05 * len(widths) + 0.5, deep + 2.35)
    centers, x = [], 0.25
    for width in widths:
        centers.append(x + width / 2)
        x += width + 0.05
    ends = {i for arc in arcs for i in (arc.key, arc.query)} | set(notes)
    for i, (center, name, width) in enumerate(zip(centers, names, widths, strict=True)):
        color = INK if i in ends else "0.6"
        word(axis, center, deep, name, color, width=width, height=0.34, size=10)
    above = sorted((arc for arc in arcs if not arc.below), key=lambda arc: arc.query - arc.key)
    for row, arc in enumerate([*above, *(arc for arc in arcs if arc.below)]):
        side, rise = (-1, 0.75) if arc.below else (1, 0.85 + 0.75 * row)
        foot, shift = deep + 0.2 * side, 0.0 if arc.below else 0.1 * (row - 1)
        start, stop = centers[arc.key] + 0.5 * shift, centers[arc.query] + shift
        way = [(start, foot), (start, foot + side * rise), (stop, foot + side * rise), (stop, foot)]
        path = Line(way, [Line.MOVETO, *[Line.CURVE4] * 3])
        head = f"-|>,head_length={4 + 0.6 * arc.width:g},head_width={2 + 0.45 * arc.width:g}"
        look = {"lw": arc.width, "color": SHARE, "zorder": 2, "capstyle": "butt"}
        axis.add_patch(FancyArrowPatch(path=path, arrowstyle=head, mutation_scale=1, **look))
        at = (start + stop) / 2, foot + side * 0.75 * rise
        ha = "center" if stop - start > 2 else "right" if not arc.below else "left"
        place = (at[0] + (0 if ha == "center" else 0.35 if arc.below else -0.35), at[1])
        box = {"fc": "white", "ec": "none", "pad": 1.5}
        say(axis, *place, arc.label, arc.color, ha=ha, weight="bold", bbox=box)
    for i, (line, color) in notes.items():
        ha = "right" if i > len(tokens) / 2 else "left"
        x = centers[i] + (0.3 if ha == "right" else 0.16)
        say(axis, x, deep - 0.42, line, color, ha=ha, weight="bold")
    return headline(figure, title)


class FlowView(Page):
    """A graph alive in the page: point at boxes and lines, prune, choose the target, unfold heads.

    data: a whole graph, `as_data(graph)`. still: the figure for places without scripts. most,
    least: what is kept at first, as in `prune`, where both keep the same edges: by share, of the
    first target.
    """

    def __init__(self, data: Mapping, still: Figure, most: int, least: float):
        looks = {"borders": BORDERS, "steps": STEPS, "ranks": RANKS, "rankNames": RANK_NAMES}
        looks |= {"lines": LINES, "lane": LANE, "mlp": MLP}
        start = {"by": "share", "target": 0, "most": most, "least": least}
        label = f"information flow of {''.join(data['tokens'])!r} to {data['targets'][0]!r}"
        super().__init__(SCRIPT, {**data, **looks, **start}, still, label)
