"""Figures of notebook 21: edges over a text, and information-flow graphs, still and alive.

Graphs are drawn left to right. Boxes are vectors: gold where the target is among the ten tokens
that the lens reads first there, and only then with the first of them: elsewhere a reading says
nothing of the target. Lines into a head are attention (purple) and, dashed, why it looks there
(key blue, query orange); gray lines are plain sums; dotted ones take away from the target's logit.
The wider, the stronger beside the strongest into the same box.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, PathPatch, Rectangle
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
from aot_helpers.showing.panels import printable
from aot_helpers.showing.plots import SMALL, shown
from aot_helpers.showing.widgets import Page
from chapters.nb21_information_flow.flow import STEPS, Node
from chapters.nb21_information_flow.flow_graph import (
    Edge,
    Graph,
    Reading,
    as_data,
    edge_strength,
    prune,
)

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
LANE = 0.4  # of a row, for a line that passes a column


def flow(
    graph: Graph, title: str, by: str = "share", target: int = 0, most: int = 3, least: float = 0.3
) -> Figure:
    """A pruned graph as a picture; see `prune` for by, target, most and least."""
    return flow_figure(as_data(prune(graph, by, target, most, least)), title, by, target)


def flow_view(graph: Graph, title: str, most: int = 3, least: float = 0.3) -> "FlowView":
    """A graph alive in the page, pruned at first as `flow` prunes it, which is its still."""
    return FlowView(as_data(graph), flow(graph, title, most=most, least=least), most, least)


Place = tuple[float, float]  # column, and rows below the middle


def layout(nodes: Sequence[Node], edges: Sequence[Edge]) -> tuple[list[Place], list[list[Place]]]:
    """Where each node stands, and where each line passes the columns between its ends.

    A node stands in the column before its earliest reader, the root in the last, so sources are
    left of what they go into. A long line has a lane of its own in each column that it passes, so
    it meets no box. In a column the order is that of what the nodes and lanes lead to.
    """
    depth = [0] * len(nodes)
    for i in sorted(range(len(nodes)), key=lambda i: nodes[i].stage, reverse=True):
        depth[i] = max([depth[edge.into] + 1 for edge in edges if edge.source == i], default=0)
    last, places, routes = max(depth), [(0.0, 0.0)] * len(nodes), [[] for _ in edges]
    rows = {}  # of the column to the right, by node or by line
    for d in range(last + 1):
        leads = {}  # node or ("line", its number): rows that it leads to, in the next column
        for i in (i for i in range(len(nodes)) if depth[i] == d):
            leads[i] = []
        for n, (source, into, *_) in enumerate(edges):
            if depth[into] < d <= depth[source]:
                to = rows[into if depth[into] == d - 1 else ("line", n)]
                leads.setdefault(source if depth[source] == d else ("line", n), []).append(to)

        def order(item, leads=leads):
            at = leads[item]
            node = nodes[edges[item[1]].source if isinstance(item, tuple) else item]
            return sum(at) / max(len(at), 1), node.pos, node.layer, node.number, node.kind

        items = sorted(leads, key=order)
        sizes = [LANE if isinstance(item, tuple) else 1.0 for item in items]
        y, rows = -sum(sizes) / 2, {}
        for item, size in zip(items, sizes, strict=True):
            rows[item] = y + size / 2
            y += size
            if isinstance(item, tuple):
                routes[item[1]].insert(0, (float(last - d), rows[item]))
            else:
                places[item] = float(last - d), rows[item]
    return places, routes


def rank_color(rank: int) -> int:
    """Which of RANKS is the color of a target's rank; a word is shown in the first two."""
    return 0 if rank == 0 else 1 if rank < 10 else 2


def name_of(node: Node, tokens: list[str]) -> str:
    """The first line of a node's box, with its place in the text."""
    kind, layer, number, pos, _ = node
    if kind == "stream":
        return "stream"
    names = {"token": shown(tokens[pos]), "position": kind, "bias": kind}
    names |= {
        "residual": f"stream L{layer}",
        "mlp": f"L{layer} MLP",
        "neuron": f"L{layer} n{number}",
    }
    name = names.get(kind) or f"L{layer}H{number}" + (f" {kind}" if kind != "head" else "")
    return f"{_cut(name, 16 - len(str(pos)) - 2)} @{pos}"


def flow_figure(data: Mapping, title: str, by: str = "share", target: int = 0) -> Figure:
    """The whole of a graph, of `as_data(prune(…))`, left to right. by, target: how wide lines are.

    Raises ValueError for a graph of more than 150 nodes.
    """
    nodes, edges = [Node(*row[:5]) for row in data["nodes"]], [Edge(*row) for row in data["edges"]]
    readings = [Reading(*row[5:]) for row in data["nodes"]]
    if len(nodes) > 150:
        raise ValueError(f"{len(nodes)} nodes are too many to be drawn: prune further, to 150")
    places, routes = layout(nodes, edges)
    rows = [y for _, y in [*places, *sum(routes, [])]]
    wide, high = max(x for x, _ in places) + 1, max(rows) - min(rows) + 1
    size = (max(COLUMN * wide + 0.1, 7.6), ROW * high + 1.5)
    figure, axis = canvas(*size)
    left, top = (size[0] - COLUMN * wide) / 2, 0.95 + ROW * (max(rows) + 0.5)

    def inches(place):
        return left + COLUMN * (place[0] + 0.5), top - ROW * place[1]

    strengths, most = [edge_strength(nodes, edge, by, target) for edge in edges], {}
    for edge, strong in zip(edges, strengths, strict=True):
        most[edge.into] = max(most.get(edge.into, 1e-9), strong)
    for edge, strong, route in zip(edges, strengths, routes, strict=True):
        way = [inches(place) for place in (places[edge.source], *route, places[edge.into])]
        kind, name = line_names(nodes, edge, target)
        color, dash = LINES[kind][0], _dashes(LINES[name][1])
        width = 0.8 + 4.2 * strong / most[edge.into] if edge.kind == "part" else 1.2
        look = {"ec": color, "ls": dash, "lw": width, "fc": "none", "capstyle": "butt"}
        axis.add_patch(PathPatch(line_path(way), zorder=1, **look))
    for node, reading, place in zip(nodes, readings, places, strict=True):
        color = rank_color(reading.ranks[target]) if reading.top else 2
        word = reading.top[0] if color < 2 else ""
        _box(axis, node, name_of(node, data["tokens"]), word, inches(place), color)
    _legend(axis, data["targets"][target], {line_names(nodes, edge, target)[1] for edge in edges})
    at = sorted({node.pos for node in nodes if node.kind != "stream"})
    places = "   ".join(f"@{pos} {printable(shown(data['tokens'][pos]))}" for pos in at)
    axis.text(0.1, 0.16, f"positions:  {places}", size=SMALL, va="center", parse_math=False)
    return headline(figure, title)


def line_path(way: list[tuple[float, float]]) -> Line:
    """A line between the boxes at both ends, level where it passes a column; in inches."""
    (x, y), half = way[0], WIDTH / 2
    points, codes = [(x + half, y)], [Line.MOVETO]
    for i, (x1, y1) in enumerate(way[1:], start=1):
        x0, y0 = points[-1]
        bend = (x1 - half - x0) / 2
        points += [(x0 + bend, y0), (x0 + bend, y1), (x1 - half, y1)]
        codes += [Line.CURVE4] * 3
        if i < len(way) - 1:
            points.append((x1 + half, y1))
            codes.append(Line.LINETO)
    return Line(points, codes)


def line_names(nodes: Sequence[Node], edge: Edge, target: int) -> tuple[str, str]:
    """Which of LINES gives an edge its color, and which its dashes: what lowers the target is
    dotted in its own color.
    """
    if edge.kind != "part":
        return edge.kind, edge.kind
    kind = {"head": "attention", "mlp": "neuron"}.get(nodes[edge.into].kind, "sum")
    return kind, "lowers the target" if edge.shares[target] < 0 else kind


def _dashes(dash: str) -> object:
    return (0, tuple(map(float, dash.split()))) if dash else "-"


def _box(axis, node: Node, name: str, word: str, place, color: int) -> None:
    """A node's box; color: of RANKS."""
    (x, y), border = place, BORDERS[node.kind]
    corner = x - WIDTH / 2, y - HEIGHT / 2
    look = {"boxstyle": "round,pad=0,rounding_size=0.07", "fc": RANKS[color], "ec": border}
    axis.add_patch(FancyBboxPatch(corner, WIDTH, HEIGHT, lw=1.5, zorder=3, **look))
    text = {"ha": "center", "va": "center", "zorder": 4, "size": SMALL, "parse_math": False}
    axis.text(x, y + 0.085 * bool(word), name, color=border, weight="bold", **text)
    if word:
        axis.text(x, y - 0.095, _cut(f"→ {printable(shown(word))}", 15), color=INK, **text)


def _cut(text: str, n: int) -> str:
    return text if len(text) <= n else text[: n - 1] + "…"


def _legend(axis, target: str, lines: set[str]) -> None:
    """The ranks of the target, and below them the kinds of lines that are there."""
    x, y, text = 0.1, 0.68, {"size": SMALL, "va": "center", "parse_math": False}
    axis.text(x, y, f"rank of {shown(target)} in a box:", **text)
    x += 1.45 + 0.075 * len(shown(target))
    for color, name in zip(RANKS, RANK_NAMES, strict=True):
        axis.add_patch(Rectangle((x, y - 0.07), 0.16, 0.14, fc=color, ec=PALE, lw=0.8))
        axis.text(x + 0.22, y, name, **text)
        x += 0.38 + 0.075 * len(name)
    x, y = 0.1, 0.42
    for name, (color, dash) in LINES.items():
        if name in lines:
            look = {"color": color, "ls": _dashes(dash), "lw": 2.5, "solid_capstyle": "butt"}
            axis.plot([x, x + 0.3], [y, y], **look)
            axis.text(x + 0.36, y, name, **text)
            x += 0.56 + 0.08 * len(name)
    axis.text(x, y, "(wider: stronger)", color="#555555", **text)


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
        said = f"information flow of {''.join(data['tokens'])!r} to {data['targets'][0]!r}"
        super().__init__(SCRIPT, {**data, **looks, **start}, still, said)
