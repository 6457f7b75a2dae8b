"""A head's score as a sum of waves, and a frontier that moves while its free numbers do."""

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from chapters.nb14_attention_polynomial.lines import Product, frontier, show_values
from chapters.torus import networks as torus
from chapters.torus.palette import PALE, SHARES, TURN, Painting, palette_of

# The harmonics of `torus.HARMONICS` that belong together: one frequency, or two that are tied.
GROUPS = {
    "a constant": [0],
    "θ1": [1, 2],
    "θ2": [3, 4],
    "θ1 − θ2": [5, 6],
    "θ1 + θ2, less 2 θ2": [7, 8, 9, 10],
}
SCORES = LinearSegmentedColormap.from_list("scores", ["#5A5A5A", "#F7F7F7", "#7B3F99"])


def sum_of_waves(coefficients: Float[Tensor, " 11"], theta, title: str) -> Figure:
    """The groups of waves of one head, and below what they add up to, from left to right.

    theta: the angle of each word.
    """
    figure = plt.figure(figsize=(10, 4.85), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.kept = palette_of(SCORES, SHARES, n=37)
    figure.text(0.012, 0.958, title, fontsize=12.5, va="center")
    said = "above: purple where the wave is above 0, gray below"
    figure.text(0.988, 0.958, said, fontsize=10, color=PALE, ha="right", va="center")
    places, reach, total = torus.grid(140), 0.0, torch.zeros(140, 140, dtype=torch.float64)
    parts = []
    for group in GROUPS.values():
        kept = torch.zeros_like(coefficients)
        kept[group] = coefficients[group]
        parts.append(torus.polynomial(kept, *places))
        reach = max(reach, parts[-1].abs().max().item())
    for i, (name, part) in enumerate(zip(GROUPS, parts, strict=True)):
        x = 0.035 + 0.198 * i
        axis = figure.add_axes((x, 0.49, 0.168, 0.346))
        show_values(axis, part, theta, SCORES, -reach, reach)
        axis.set_title(name, fontsize=11, y=0.99)
        bare(axis)
        total = total + part
        axis = figure.add_axes((x, 0.075, 0.168, 0.346))
        show_values(axis, total.sigmoid(), theta, SHARES, 0, 1)
        if total.min() < 0 < total.max():
            frontier(axis, total)
        bare(axis)
        if i:
            figure.text(x - 0.015, 0.663, "+", fontsize=16, ha="center", va="center")
    figure.text(0.035, 0.03, "across: the first word; up: the second", fontsize=10, color=PALE)
    said = "added up so far, from the left (dark: the head looks at the first word)"
    figure.text(0.035, 0.445, said, fontsize=10.5, color=PALE, va="center", style="italic")
    return figure


def film(products: list[Product], theta, titles: list[str], title: str) -> Figure:
    """Maps of heads of d_head 1 with their frontiers, one a frame, in two rows."""
    n, wide = -(-len(products) // 2), 8.4
    side = wide / n - 0.2
    height = 2 * (side + 0.36) + 0.42
    figure = plt.figure(figsize=(wide, height), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.text(0.012, 1 - 0.2 / height, title, fontsize=12.5, va="center")
    for i, (product, name) in enumerate(zip(products, titles, strict=True)):
        row, column = divmod(i, n)
        low = (1 - row) * (side + 0.36) + 0.06
        place = (0.1 + column * (side + 0.2), low, side, side)
        axis = figure.add_axes([x / y for x, y in zip(place, (wide, height) * 2, strict=True)])
        places = torus.grid(160)
        score = product.score(*places)
        show_values(axis, score.sigmoid(), theta, SHARES, 0, 1)
        for factor in product.factors(*places):
            factor = factor.expand(160, 160)
            if factor.min() < 0 < factor.max():
                frontier(axis, factor)
        axis.set_title(name, fontsize=10, y=0.98)
        bare(axis)
    return figure


def bare(axis) -> None:
    """Takes the words and names of the edges off a map."""
    axis.set(xticks=[], yticks=[], xlabel="", ylabel="", xlim=(0, TURN), ylim=(0, TURN))
