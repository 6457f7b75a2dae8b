"""Drawings of notebook 02: maps of words, pairs of tokens, reordered texts, positions."""

from itertools import pairwise

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import diagrams, plots
from aot_helpers.showing.diagrams import INK, PALE, QUERY, SHARE


def word_map(
    panels: dict[str, Float[Tensor, "word 2"]],
    groups: dict[str, list[str]],
    follow: list[str],
    title: str,
    labels: list[str],
) -> Figure:
    """Words as points, a panel for each moment, all on the same two axes.

    groups: {kind: words}. follow: words that are named in every panel, with a line from where they
    were in the panel before. labels: of the two axes.
    """
    words = [word for group in groups.values() for word in group]
    data, names = {}, {}
    for panel, points in panels.items():
        at = dict(zip(words, points.tolist(), strict=True))
        columns = {
            kind: np.transpose([at[word] for word in group]) for kind, group in groups.items()
        }
        data[panel] = {f"{kind}s": tuple(both) for kind, both in columns.items()}
        names[panel] = {word: tuple(at[word]) for word in follow}
    figure = plots.points(data, title, *labels, names=names, width=10)
    for axis, (before, after) in zip(figure.axes[1:], pairwise(names.values()), strict=True):
        for word in follow:
            axis.plot(*np.transpose([before[word], after[word]]), color="0.7", lw=1, zorder=0)
    return figure


def cosine_map(
    panels: dict[str, Float[Tensor, "word word"]],
    words: list[str],
    marked: list[set[str]],
    title: str,
    label: str,
) -> Figure:
    """Cosines of words with each other, a map for each matrix; pairs that are marked get a dot."""
    others = {name: np.where(np.eye(len(words)), np.nan, each) for name, each in panels.items()}
    figure = plots.grids(
        others,
        title,
        row_names=words,
        column_names=words,
        x_label=label,
        limits=(-1, 1),
        colors="RdBu_r",
        label="cosine",
    )
    dots = [(i, j) for i, a in enumerate(words) for j, b in enumerate(words) if {a, b} in marked]
    for axis in figure.axes[: len(panels)]:
        axis.plot(*(np.transpose(dots) + 0.5), "o", color=INK, ms=4)
    return figure


def pairs_of_tokens(
    panels: dict[str, tuple[Float[Tensor, "token token"], Float[Tensor, "token token"], str]],
    named: dict[str, tuple[int, int]],
    title: str,
) -> Figure:
    """Pairs of tokens as points: how much of their use they share, and their cosine.

    panels: {name: (overlaps, cosines, name of the overlap)}. named: {words: a pair of rows}, each
    written beside its point.
    """
    figure, axes = plots.panels(1, len(panels), 10, 3.9, title=title, sharex=True, sharey=True)
    colors = dict(zip(named, plots.COLORS, strict=False))
    for axis, (panel, (x, y, label)) in zip(axes[0], panels.items(), strict=True):
        axis.set_title(panel, **plots.TITLE)
        axis.set(xlabel=label, xlim=(-0.06, 1.06), ylim=(-0.4, 1.05))
        axis.axhline(0, color="0.6", lw=1, ls="--", zorder=0)
        for n, (words, (i, j)) in enumerate(named.items()):  # smaller and smaller: none is hidden
            look = {"color": colors[words], "ec": "white", "zorder": 4 + n}
            axis.scatter(x[i, j], y[i, j], 130 - 30 * n, **look)
    axes[0, 0].set_ylabel("cosine")
    figure.draw_without_rendering()  # so that the places of points are known
    for axis, (x, y, _) in zip(axes[0], panels.values(), strict=True):
        at = {words: (float(x[i, j]), float(y[i, j])) for words, (i, j) in named.items()}
        plots.name_points(axis, {words: (*xy, colors[words]) for words, xy in at.items()})
        once = np.triu_indices(len(x), 1)
        axis.scatter(x[once], y[once], 6, color="#C9C9C9", alpha=0.35, lw=0, zorder=1)
    return figure


def reordered(
    panels: dict[str, tuple[Float[Tensor, "pos token"], Float[Tensor, "pos token"]]],
    words: list[str],
    order: list[int],
    title: str,
) -> Figure:
    """The logits of a text and of the same words in another order, joined where they are equal.

    panels: {name: (logits of the text, logits of the reordered text)}.
    """
    width, height, strip = 10.0, 0.4 * len(words) + 1.35, 1.25
    figure, axis = diagrams.canvas(width, height)
    most = max(float(each.abs().max()) for pair in panels.values() for each in pair)
    look = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "zorder": 3, "aspect": "auto"}
    heights = height - 1.1 - 0.4 * np.arange(len(words))
    for i, (name, (start, end)) in enumerate(panels.items()):
        left = width / len(panels) * i + 0.75
        right = left + width / len(panels) - 1.5 - strip
        diagrams.say(axis, left - 0.63, height - 0.6, name, INK, ha="left", weight="bold")
        for p, (y, j) in enumerate(zip(heights, order, strict=True)):
            for x, row in ((left, start[p]), (right, end[p])):
                axis.imshow(row[None].numpy(), extent=(x, x + strip, y - 0.14, y + 0.14), **look)
            diagrams.say(axis, left - 0.1, y, words[p], ha="right")
            diagrams.say(axis, right + strip + 0.1, y, words[j], ha="left")
            same = (end[p] - start[j]).abs().max() < 1e-4
            line = {"color": INK, "lw": 1.6} if same else {"color": QUERY, "lw": 1, "ls": ":"}
            axis.plot([left + strip + 0.06, right - 0.06], [heights[j], y], **line)
    axis.set(xlim=(0, width), ylim=(0, height), aspect="auto")
    said = "strip: 12 of the logits at this position     line: equal in both orders     dotted: not"
    diagrams.say(axis, width / 2, 0.16, said, PALE, size=9.5)
    return diagrams.headline(figure, title)


def biases(numbers: Float[Tensor, "head distance"], title: str) -> Figure:
    """The relative bias of each head of layer 0, by distance; a head's largest number in full."""
    figure, axes = plots.panels(1, len(numbers), 10, 2.2, title=title, sharey=True)
    for head, (axis, values) in enumerate(zip(axes[0], numbers.tolist(), strict=True)):
        best = int(np.argmax(values))
        colors = [SHARE if i == best else "#C9A9DB" for i in range(len(values))]
        axis.bar(range(len(values)), values, 0.75, color=colors)
        axis.axhline(0, color="0.5", lw=0.8)
        look = {"color": SHARE, "size": 9.5, "ha": "center", "va": "bottom"}
        axis.text(best, values[best] + 0.08, f"{values[best]:.1f}", **look)
        axis.set_title(f"L0H{head}", **plots.TITLE)
        axis.set(xlabel="distance", xticks=range(0, len(values), 2))
    axes[0, 0].set(ylabel="added to the score", ylim=(None, 1.25 * float(numbers.max())))
    return figure
