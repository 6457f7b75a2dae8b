"""Where one head looks, as straight lines: each second word draws one through the words' circle."""

import math
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch
from torch import Tensor

from chapters.torus import networks as torus
from chapters.torus.figures import dot
from chapters.torus.networks import TorusNets
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    SHARES,
    TURN,
    Painting,
    letter_color,
    palette_of,
)

QUERIES, KEYS = (  # below zero gray, above orange or blue
    LinearSegmentedColormap.from_list(name, ["#5A5A5A", "#F7F7F7", color])
    for name, color in (("queries", "#D55E00"), ("keys", "#0072B2"))
)
SPOT = {"s": 52, "ec": "white", "lw": 1.4, "zorder": 6}
MARKS = [  # of the cut where the dark side begins, and where it ends
    {"marker": "D", "s": 30, "fc": fill, "ec": edge, "lw": 1.2, "zorder": 7, "clip_on": False}
    for fill, edge in (("#B22222", "white"), ("white", "#B22222"))
]
CLEAR = 0.13  # room enough around an arrow
HOLE = 0.72  # the inner radius of a shaded ring
INSIDE = torch.linspace(-1.45, 1.45, 120, dtype=torch.float64)


def lines(
    coefficients: Float[Tensor, " 11"], theta2: Float[Tensor, "*at"]
) -> Float[Tensor, "*at 3"]:
    """g0, g1, h of each second word: the head's score is g0 cos θ1 + g1 sin θ1 + h.

    coefficients: of one head, see `torus.coefficients`. theta2: in radians. The score is zero where
    g0 x + g1 y + h = 0: a straight line in the plane of the circle.
    """
    one, c1, s1, c2, s2, same, turned, plus, plus_sin, twice, twice_sin = coefficients
    cos, sin = theta2.cos(), theta2.sin()
    g0 = c1 + (same + plus) * cos + (turned + plus_sin) * sin
    g1 = s1 + (same - plus) * sin + (plus_sin - turned) * cos
    h = one + c2 * cos + s2 * sin + twice * (2 * theta2).cos() + twice_sin * (2 * theta2).sin()
    return torch.stack([g0, g1, h], dim=-1)


class Product(NamedTuple):
    """A head of d_head 1: its score is [A cos(θ2-φ) + s] [B cos(θ1-ψ) - B cos(θ2-ψ) + t]."""

    A: Tensor
    phi: Tensor
    s: Tensor
    B: Tensor
    psi: Tensor
    t: Tensor

    def of(self, net: int, head: int) -> "Product":
        """The six numbers of one head, of six tensors [net, head]."""
        return Product(*(each[net, head] for each in self))

    def score(self, theta1: Tensor, theta2: Tensor) -> Tensor:
        """The product, at angles in radians that broadcast with the six numbers."""
        first, second = self.factors(theta1, theta2)
        return first * second

    def factors(self, theta1: Tensor, theta2: Tensor) -> tuple[Tensor, Tensor]:
        """The query, a wave of θ2, and the first key less the second, waves of θ1 and θ2."""
        query = self.A * (theta2 - self.phi).cos() + self.s
        keys = self.B * ((theta1 - self.psi).cos() - (theta2 - self.psi).cos()) + self.t
        return query, keys


def product_of(nets: TorusNets) -> Product:
    """The six numbers [net, head] of heads with d_head 1. Raises ValueError for other heads."""
    if nets.W_Q.shape[-1] != 1:
        raise ValueError(f"need heads with d_head 1, got {nets.W_Q.shape[-1]}")
    plane = torus.RADIUS * torus.PLANE.to(nets.W_Q.dtype).T
    Q, K = nets.W_Q[..., 0], nets.W_K[..., 0]  # [net, head, 3]
    q, k = Q @ plane, K @ plane
    p1, p2 = nets.W_pos[:, None].unbind(dim=2)
    A, B = q.norm(dim=-1), k.norm(dim=-1)
    phi, psi = (torch.atan2(w[..., 1], w[..., 0]) for w in (q, k))
    return Product(A, phi, (Q * p2).sum(-1), B, psi, (K * (p1 - p2)).sum(-1))


def rows_and_lines(coefficients, theta, title: str) -> Figure:
    """A head's map with a row for each word that may come second, beside the rows' straight lines.

    coefficients: [11], of one head. theta: the angle of each word. A dot: the head is undecided.
    """
    figure = _figure(10, 4.85, title)
    said = "discs: first words; squares: lines of second words"
    figure.text(0.988, 0.958, said, fontsize=10, color=PALE, ha="right", va="center")
    left = figure.add_axes((0.06, 0.105, 0.4, 0.8))
    show_share(left, coefficients, theta)
    drawn = lines(coefficients, torch.as_tensor(theta)).tolist()
    for k, angle in enumerate(theta.tolist()):
        left.axhline(angle, color="white", lw=3.6)
        left.axhline(angle, color=CLASS_COLORS[k], lw=2.2)
        for at in cuts(*drawn[k]):
            left.scatter(at, angle, color=CLASS_COLORS[k], **SPOT)
    _lines_of_words(figure.add_axes((0.535, 0.0, 0.46, 0.93)), drawn, theta)
    return figure


def ruled(drawn, theta, title: str) -> Figure:
    """The straight line of each second word through the circle, without a map.

    drawn: g0, g1, h of each word, see `lines`. theta: the angle of each word. Raises ValueError
    for other shapes.
    """
    drawn = np.asarray([np.asarray(line, float) for line in drawn])
    if drawn.shape != (len(theta), 3):
        raise ValueError(f"need g0, g1, h of {len(theta)} words, got the shape {drawn.shape}")
    figure = _figure(5, 4.6, title)
    _lines_of_words(figure.add_axes((0.02, 0.0, 0.96, 0.93)), drawn, theta)
    return figure


def sweeping(coefficients, theta, seconds, title: str) -> Figure:
    """A film strip: the line of each second word, what it leaves of the circle, and that row's map.

    coefficients: [11]. theta: the angle of each word. seconds: angles of the second word, radians.
    A diamond marks each cut, here and in the map: filled where the dark side begins (on a walk to
    the right in the map), open where it ends.
    """
    n = len(seconds)
    figure = _figure(10, 4.3, title)
    side = min(0.735 / (n // 2 + n % 2), 0.2)
    for i, second in enumerate(seconds):
        row, column = divmod(i, n // 2 + n % 2)
        axis = figure.add_axes((0.005 + column * side, 0.44 - 0.435 * row, side, 0.39))
        line = lines(coefficients, torch.as_tensor(second)).tolist()
        one_second(axis, line, theta)
        for at, mark in zip(_dark_side(*line), MARKS, strict=False):
            axis.scatter(math.cos(at), math.sin(at), **mark)
        axis.set_title(f"{i + 1}: second word at {math.degrees(second):.0f}°", fontsize=10, y=0.985)
    left = 0.05 + (n // 2 + n % 2) * side
    axis = figure.add_axes((left, 0.13, min(0.305, 0.955 - left), 0.72))
    show_share(axis, coefficients, theta)
    last = (-math.inf, 0)  # the row of the number before, and its column
    for i, second in enumerate(seconds):
        axis.axhline(second, color="white", lw=2.4)
        axis.axhline(second, color=INK, lw=1)
        line = lines(coefficients, torch.as_tensor(second)).tolist()
        for at, mark in zip(_dark_side(*line), MARKS, strict=False):
            axis.scatter(at % TURN, second, **mark)
        box = {"boxstyle": "circle,pad=0.12", "fc": "white", "ec": INK, "lw": 0.8}
        last = (second, 1 - last[1] if second - last[0] < 0.3 else 0)
        x = TURN + 0.22 + 0.4 * last[1]
        axis.plot([TURN, x], [second, second], color=INK, lw=0.8, clip_on=False)
        axis.text(x, second, f"{i + 1}", fontsize=9, ha="center", va="center", bbox=box)
    return figure


def factored(product: Product, theta, title: str) -> Figure:
    """A head of d_head 1 as a product: query times difference of keys is the score; and its lines.

    product: six numbers of one head. theta: the angle of each word.
    """
    figure = _figure(10, 3.35, title)
    figure.kept = palette_of(QUERIES, KEYS, SHARES, n=33)
    theta1, theta2 = torus.grid(160)
    query, keys = (each.expand(160, 160) for each in product.factors(theta1, theta2))
    pictures = {"the query": query, "first key less second": keys, "where the head looks": None}
    for i, (name, values) in enumerate(pictures.items()):
        axis = figure.add_axes((0.042 + 0.262 * i, 0.14, 0.196, 0.66))
        if values is None:
            show_values(axis, (query * keys).sigmoid(), theta, SHARES, 0, 1)
        else:
            reach = values.abs().max().item()
            show_values(axis, values, theta, (QUERIES, KEYS)[i], -reach, reach)
        for zero in (query, keys):
            if values is None or zero is values:
                frontier(axis, zero)
        if i:
            axis.set(ylabel="", yticks=[])
            figure.text(0.021 + 0.262 * i, 0.47, "×="[i - 1], fontsize=18, ha="center", va="center")
        axis.set_title(name, fontsize=10.5, y=0.985)
    said = "orange and blue: above 0; gray: below"
    figure.text(0.988, 0.94, said, fontsize=10, color=PALE, ha="right", va="center")
    axis = figure.add_axes((0.782, 0.07, 0.218, 0.74))
    plane(axis)
    for k, angle in enumerate(theta):
        query, away = (each.item() for each in product.factors(torch.tensor(math.pi / 2), angle))
        g = product.B * query
        away = query * (away - product.B * math.cos(math.pi / 2 - product.psi))
        straight(
            axis, *(g * product.psi.cos(), g * product.psi.sin(), away), CLASS_COLORS[k], NAMES[k]
        )
    figure.text(0.885, 0.825, "a line for each second word", fontsize=10.5, ha="center")
    return figure


def one_second(axis, line, theta) -> None:
    """The circle of first words, cut by the straight line of one second word.

    line: (g0, g1, h). A ring of the circle is shaded as the row of the map: purple where the head
    looks at the first word. There the arrow points, too.
    """
    g0, g1, h = line
    x, y = np.meshgrid(INSIDE.numpy(), INSIDE.numpy())
    score = g0 * x + g1 * y + h
    picture = SHARES(1 / (1 + np.exp(-score)))
    out = np.hypot(x, y)
    picture[..., 3] = ((out - HOLE) / 0.04).clip(0, 1) * (out <= 1)
    axis.imshow(picture, origin="lower", extent=(-1.45, 1.45) * 2, interpolation="bilinear")
    plane(axis)
    straight(axis, g0, g1, h, "#B22222")
    g, size = np.array([g0, g1]), math.hypot(g0, g1)
    if abs(h) < size:  # the arrow starts where the line is nearest to the middle
        tail, look = -h * g / size**2, {"arrowstyle": "-|>,head_length=5,head_width=3", "lw": 1.8}
        tip = tail + 0.42 * g / size
        look |= {"color": "#B22222", "zorder": 4, "shrinkA": 0, "mutation_scale": 1}
        axis.add_patch(FancyArrowPatch(tail, tip, **look))
    names(axis, theta, 70)


def show_share(axis, coefficients, theta, n: int = 200) -> None:
    """A head's share of the first word over the torus, with its frontier."""
    score = torus.polynomial(coefficients, *torus.grid(n))
    show_values(axis, score.sigmoid(), theta, SHARES, 0, 1)
    frontier(axis, score)


def show_values(axis, values, theta, colors, low, high) -> None:
    """A map [n of θ2, n of θ1] of numbers, with the words along its edges."""
    values, theta = np.asarray(values), np.asarray(theta)
    axis.imshow(values, origin="lower", extent=(0, TURN) * 2, cmap=colors, vmin=low, vmax=high,
                interpolation="bilinear")  # fmt: skip
    letters = list(NAMES[: len(theta)])
    axis.set_xticks(theta, letters, fontsize=11, weight="bold")
    axis.set_yticks(theta, letters, fontsize=11, weight="bold")
    axis.set(xlim=(0, TURN), ylim=(0, TURN))
    axis.set_xlabel("first word", fontsize=10, labelpad=2)
    axis.set_ylabel("second word", fontsize=10, labelpad=2)
    axis.tick_params(length=3, color=PALE)
    axis.spines[:].set_color("#C8C8C8")


def frontier(axis, values, color="#E69F00", width=1.8) -> None:
    """The line where a map [n of θ2, n of θ1] is zero."""
    values = np.pad(np.asarray(values), (0, 1), mode="wrap")
    turn = np.linspace(0, TURN, len(values))
    axis.contour(turn, turn, values, levels=[0], colors=color, linewidths=width)


def plane(axis) -> None:
    """The plane of the words' circle, of radius 1 in the picture."""
    axis.add_patch(Circle((0, 0), 1, fc="none", ec=INK, lw=1.5, zorder=3))
    axis.set(xlim=(-1.45, 1.45), ylim=(-1.45, 1.45), aspect="equal")
    axis.axis("off")


def names(axis, theta, size: float = 190) -> None:
    """The words as dots on their circle."""
    for k, angle in enumerate(theta):
        dot(axis, (math.cos(angle), math.sin(angle)), k, size, letter=size > 100)


def straight(axis, g0, g1, h, color, name: str = "", avoid=((9, 9),)) -> bool:
    """Draw the line g0 x + g1 y + h = 0 as far as the picture goes; False if it is outside.

    name: a word for its end; then an arrow points to the side where the sum is above 0. avoid:
    points [point, 2] that the arrow keeps away from.
    """
    g = np.array([float(g0), float(g1)])
    size = np.linalg.norm(g)
    foot, along = -float(h) * g / size**2, np.array([-g[1], g[0]]) / size
    reach = 1.38
    if np.abs(foot).max() >= reach:
        return False
    with np.errstate(divide="ignore"):
        ends = np.sort([(side * reach - foot) / along for side in (-1, 1)], axis=0)
    start, end = ends[0].max(), ends[1].min()
    if start >= end:
        return False
    axis.plot(
        *np.stack([foot + start * along, foot + end * along]).T, color=color, lw=2.2, zorder=4
    )
    if name:
        look = {"arrowstyle": "-|>,head_length=5,head_width=3", "mutation_scale": 1, "lw": 1.8}
        up, room = 0.22 * g / size, {}
        for part in (0.14, 0.22, 0.3, 0.78, 0.7, 0.6):
            tail = foot + (end - part * (end - start)) * along
            at = np.stack([tail + up / 2, tail + up])[:, None]
            room[part] = min(np.linalg.norm(at - np.asarray(avoid), axis=-1).min(), CLEAR)
        tail = foot + (end - max(room, key=room.get) * (end - start)) * along
        tip = tail + up
        axis.add_patch(FancyArrowPatch(tail, tip, color=color, zorder=4, shrinkA=0, **look))
        k = NAMES.index(name)
        box = {"boxstyle": "square,pad=0.25", "fc": CLASS_COLORS[k], "ec": "white"}
        axis.text(*(foot + end * along), name, fontsize=10, weight="bold", ha="center", va="center",
                  color=letter_color(k), bbox=box, zorder=7)  # fmt: skip
    return True


def cuts(g0: float, g1: float, h: float) -> list[float]:
    """The angles at which g0 cos θ + g1 sin θ + h changes its sign: two, or none."""
    return sorted(_dark_side(g0, g1, h))


def _dark_side(g0, g1, h):
    """The angles between which g0 cos θ + g1 sin θ + h is above 0: its begin and its end, or none.

    The end may be less than the begin: then the dark side goes over the edge of the map.
    """
    size, middle = math.hypot(g0, g1), math.atan2(g1, g0)
    if abs(h) >= size:
        return []
    half = math.acos(-h / size)
    return [(middle + side * half) % TURN for side in (-1, 1)]


def _lines_of_words(axis, drawn, theta):
    """Each second word's line with its arrow, cut by the circle; drawn: (g0, g1, h) of each."""
    plane(axis)
    steps = np.linspace(-2, 2, 81)[:, None]
    taken = [(math.cos(angle), math.sin(angle)) for angle in theta.tolist()]
    along = {}
    for k, (g0, g1, h) in enumerate(drawn):
        g = np.array([g0, g1]) / math.hypot(g0, g1)
        along[k] = -h / math.hypot(g0, g1) * g + steps * np.array([-g[1], g[0]])
        taken += [(math.cos(at), math.sin(at)) for at in cuts(g0, g1, h)]
    outside = []
    for k, line in enumerate(drawn):
        others = [points for j, points in along.items() if j != k]
        avoid = np.concatenate([np.array(taken), *others])
        if not straight(axis, *line, CLASS_COLORS[k], NAMES[k], avoid):
            outside.append(NAMES[k])
        for at in cuts(*line):
            axis.scatter(math.cos(at), math.sin(at), color=CLASS_COLORS[k], **SPOT)
    if outside:
        said = f"line of {', '.join(outside)}: off the picture"
        axis.text(1.4, -1.42, said, fontsize=10, color=PALE, ha="right", va="bottom")
    names(axis, theta)


def _figure(width, height, title):
    figure = plt.figure(figsize=(width, height), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.text(0.012, 1 - 0.2 / height, title, fontsize=12.5, va="center")
    return figure
