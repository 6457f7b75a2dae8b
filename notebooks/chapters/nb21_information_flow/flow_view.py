"""Information-flow graphs: drawn left to right, and alive in a page that needs no kernel.

What is drawn is what `reading.flow_graph.as_data` gives. Boxes are vectors: the name, gold where
the target stands high in what the lens reads there, with that reading's first token; rose where it
stands among the last. Lines into a head are attention (purple) and, dashed, why it looks there (key
blue, query orange); gray lines are plain sums, darker where the reading is sharper; dotted ones
take away from the target's logit. The wider, the stronger beside the strongest into the same box.
"""

from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path as Line

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE, VALUE, headline
from aot_helpers.showing.plots import SMALL, shown
from aot_helpers.showing.widgets import Page

SCRIPT = Path(__file__).with_name("flow.js")  # the live view, in the page itself

MLP = "#8C5A2B"
BORDERS = {
    "token": INK, "position": PALE, "residual": PALE, "bias": PALE, "stream": PALE, "head": SHARE,
    "value": VALUE, "key": KEY, "query": QUERY, "mlp": MLP, "neuron": MLP,
}  # fmt: skip
STEPS = {"value": 0, "key": 0, "query": 0, "head": 1, "neuron": 2, "mlp": 3, "stream": 4}
RANKS = ("#FFC629", "#FFE394", "#FFF4D1", "#FFFFFF", "#F6D3DA")
RANK_NAMES = ("first", "2 to 10", "best 1 %", "others", "last 10 %")
TOLD = (0, 1, 2)  # of RANKS: boxes whose reading is written in them
COLUMN, ROW, WIDTH, HEIGHT = 1.72, 0.5, 1.36, 0.4  # inches
LANE = 0.4  # of a row, for a line that passes a column


def stage(node: list) -> tuple[int, int]:
    """When a node of `as_data` is there: its layer and step; what has no sources comes first."""
    return (node[1], STEPS[node[0]]) if node[0] in STEPS else (-1, 0)


Place = tuple[float, float]  # column, and rows below the middle


def layout(nodes: list[list], edges: list[list]) -> tuple[list[Place], list[list[Place]]]:
    """Where each node stands, and where each line passes the columns between its ends.

    A node stands in the column before its earliest reader, the root in the last, so sources are
    left of what they go into. A long line has a lane of its own in each column that it passes, so
    it meets no box. In a column the order is that of what the nodes and lanes lead to.
    """
    depth = [0] * len(nodes)
    for i in sorted(range(len(nodes)), key=lambda i: stage(nodes[i]), reverse=True):
        depth[i] = max([depth[into] + 1 for source, into, *_ in edges if source == i], default=0)
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
            i = edges[item[1]][0] if isinstance(item, tuple) else item
            return sum(at) / max(len(at), 1), nodes[i][3], nodes[i][1:3], nodes[i][0]

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


def rank_color(rank: int, d_vocab: int) -> int:
    """Which of RANKS is the color of a target's rank among d_vocab."""
    if rank == 0:
        return 0
    if rank >= 0.9 * d_vocab:
        return 4
    return 1 if rank < 10 else 2 if rank < 0.01 * d_vocab else 3


def name_of(node: list, tokens: list[str]) -> str:
    """The first line of a node's box, with its place in the text."""
    kind, layer, number, pos, _ = node[:5]
    if kind == "stream":
        return "stream"
    names = {
        "token": shown(tokens[pos]), "residual": f"stream L{layer}", "mlp": f"L{layer} MLP",
        "neuron": f"L{layer} n{number}", "head": f"L{layer}H{number}",
    }  # fmt: skip
    name = kind if kind in ("position", "bias") else f"L{layer}H{number} {kind}"
    return f"{_cut(names.get(kind, name), 16 - len(str(pos)) - 2)} @{pos}"


def strength(data: Mapping, edge: list, by: str, target: int) -> float:
    """How strong an edge of `as_data` is, as `reading.flow_graph.strength` has it."""
    source, into, kind, coefficient, norm, shares, score = edge
    to, start = data["nodes"][into][0], data["nodes"][source][0]
    if to in ("key", "query") or kind != "part":
        return abs(score)
    if by == "share":
        return abs(shares[target]) + abs(score)
    if by == "coefficient" and to in ("head", "mlp"):
        return 0.0 if start == "bias" else abs(coefficient)
    return norm


def flow_figure(data: Mapping, title: str, by: str = "share", target: int = 0) -> Figure:
    """The whole of a graph, of `as_data(prune(…))`, left to right. by, target: how wide lines are.

    Raises ValueError for a graph of more than 150 nodes.
    """
    nodes, (places, routes) = data["nodes"], layout(data["nodes"], data["edges"])
    if len(nodes) > 150:
        raise ValueError(f"{len(nodes)} nodes are too many to be drawn: prune further, to 150")
    rows = [y for _, y in [*places, *sum(routes, [])]]
    wide, high = max(x for x, _ in places) + 1, max(rows) - min(rows) + 1
    size = (max(COLUMN * wide + 0.1, 7.6), ROW * high + 1.25)
    figure, axis = plt.subplots(figsize=size)
    figure.subplots_adjust(0, 0, 1, 1)
    axis.set(xlim=(0, size[0]), ylim=(0, size[1]))
    axis.axis("off")
    left, top = (size[0] - COLUMN * wide) / 2, 0.7 + ROW * (max(rows) + 0.5)

    def inches(place):
        return left + COLUMN * (place[0] + 0.5), top - ROW * place[1]

    most = {}
    for edge in data["edges"]:
        most[edge[1]] = max(most.get(edge[1], 1e-9), strength(data, edge, by, target))
    for edge, route in zip(data["edges"], routes, strict=True):
        way = [inches(place) for place in (places[edge[0]], *route, places[edge[1]])]
        strong = strength(data, edge, by, target) / most[edge[1]]
        color, dash, width = line_look(data, edge, strong, target)
        look = {"ec": color, "lw": width, "ls": dash or "-", "fc": "none", "zorder": 1}
        axis.add_patch(PathPatch(line_path(way), capstyle="butt", **look))
    for node, place in zip(nodes, places, strict=True):
        _box(axis, data, node, inches(place), target)
    _legend(axis, data["targets"][target])
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


def line_look(data: Mapping, edge: list, strong: float, target: int) -> tuple[str, tuple, float]:
    """(color, dashes, width) of an edge; strong: its strength beside the strongest, 0 … 1."""
    source, into, kind, _, _, shares, _ = edge
    to = data["nodes"][into][0]
    if kind != "part":
        return BORDERS[kind], (0, (4, 2.5)), 1.2
    dash = (0, (1, 1.4)) if shares[target] < 0 else ()
    width = 0.8 + 4.2 * strong
    if to == "head":
        return SHARE, dash, width
    if to == "mlp":
        return MLP, dash, width
    gray = round(90 + 110 * data["nodes"][source][8])  # of 255: a sharp reading is darker
    return f"#{gray:02x}{gray:02x}{gray:02x}", dash, width


def _box(axis, data, node, place, target):
    (x, y), kind = place, node[0]
    corner = (x - WIDTH / 2, y - HEIGHT / 2)
    fill = RANKS[rank_color(node[6][target], data["d_vocab"])] if reads(node) else "white"
    look = {"boxstyle": "round,pad=0,rounding_size=0.07", "fc": fill, "ec": BORDERS[kind]}
    axis.add_patch(FancyBboxPatch(corner, WIDTH, HEIGHT, lw=1.5, zorder=3, **look))
    first = name_of(node, data["tokens"])
    text = {"ha": "center", "va": "center", "zorder": 4, "size": SMALL, "parse_math": False}
    told = reads(node) and rank_color(node[6][target], data["d_vocab"]) in TOLD
    axis.text(x, y + 0.085 * told, first, color=BORDERS[kind], weight="bold", **text)
    if told:
        axis.text(x, y - 0.095, _cut(f"→ {shown(node[5][0])}", 15), color=INK, **text)


def reads(node: list) -> bool:
    """Whether a node has a reading: a distance is no vector, and some prefer no token."""
    return bool(node[5])


def _cut(text: str, n: int) -> str:
    return text if len(text) <= n else text[: n - 1] + "…"


LINES = (
    "lines: purple attention, brown neurons, gray sums (pale: vague), dashed why a head looks,",
    "dotted against the target; the wider, the stronger beside the strongest into the same box",
)


def _legend(axis, target):
    x, y = 0.1, 0.56
    axis.text(x, y, f"rank of {shown(target)}:", size=SMALL, va="center", parse_math=False)
    x += 0.95 + 0.075 * len(shown(target))
    for color, name in zip(RANKS, RANK_NAMES, strict=True):
        axis.add_patch(FancyBboxPatch((x, y - 0.07), 0.16, 0.14, fc=color, ec=PALE, lw=0.8,
                                      boxstyle="square,pad=0"))  # fmt: skip
        axis.text(x + 0.22, y, name, size=SMALL, va="center")
        x += 0.38 + 0.075 * len(name)
    for y, words in zip((0.34, 0.14), LINES, strict=True):
        axis.text(0.1, y, words, size=SMALL, va="center", color="#555555")


class FlowView(Page):
    """A graph alive in the page: point at boxes and lines, prune, choose the target, unfold heads.

    data: a whole graph, `as_data(graph)`. by, target, most, least: what is kept at first, as in
    `reading.flow_graph.prune`, where both keep the same edges. still: the figure for places without
    scripts.
    """

    def __init__(self, data: Mapping, still: Figure, by: str, target: int, most: int, least: float):
        looks = {"borders": BORDERS, "steps": STEPS, "ranks": RANKS, "rankNames": RANK_NAMES}
        looks |= {"told": TOLD, "lines": LINES, "lane": LANE}
        start = {"by": by, "target": target, "most": most, "least": least}
        said = f"information flow of {''.join(data['tokens'])!r} to {data['targets'][target]!r}"
        super().__init__(SCRIPT, {**data, **looks, **start, "mlp": MLP}, still, said)
