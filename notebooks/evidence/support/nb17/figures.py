"""Figures of evidence 17: a model that writes, and how a fit varies."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE
from aot_helpers.showing.plots import grids, panels, shown


def writing(
    words: list[str], rows: dict[str, Float[Tensor, "word seen"]], step: int, title: str
) -> Figure:
    """One step of a model that writes: what each head gives to the words so far.

    words: all of the text. rows: {head: attention between words}. step: the number of words that
    are there; the last of them is the query, and the next one is what was drawn.
    """
    weights = np.zeros((len(rows), len(words)))
    weights[:, :step] = [np.asarray(pattern)[step - 1, :step] for pattern in rows.values()]
    so_far = [shown(word) if i <= step else "" for i, word in enumerate(words)]
    note = "blue: words seen   orange: the word that attends   gray: the word drawn next"
    figure = grids(
        weights,
        title,
        number=".1f",
        least=0.05,
        row_names=list(rows),
        column_names=so_far,
        cell=(0.1 * max(map(len, words)) + 0.05, 0.33),
        note=note,
    )
    for i, label in enumerate(figure.axes[0].get_xticklabels()):
        label.set(color=KEY if i < step - 1 else QUERY if i < step else PALE, weight="bold")
    return figure


def spread(single: dict[str, list[float]], over_all: dict[str, float], title: str) -> Figure:
    """Fits on single prompts, a disk for each value with its number of prompts; and over all."""
    figure, axes = panels(1, 1, 8.4, 0.95 * len(single) + 0.6, title=title)
    axis = axes[0, 0]
    for y, (name, values) in enumerate(single.items()):
        each, counts = np.unique(np.round(values, 3), return_counts=True)
        sizes = 2900 * counts / len(values) + 90
        axis.scatter(each, [y] * len(each), s=sizes, color=SHARE, alpha=0.35, lw=0)
        for x, count in zip(each, counts, strict=True):
            axis.text(x, y, count, ha="center", va="center", size=9.5)
        whole = over_all[name]
        axis.plot([whole] * 2, [y - 0.58, y - 0.46], color=INK, lw=2.2)
        side = "right" if whole > 0.18 else "left"  # so that the dotted line crosses no words
        said = f"  all prompts: {whole:.2f}  "
        axis.text(whole, y - 0.52, said, size=9.5, weight="bold", ha=side, va="center")
    axis.axvline(0.5, color=PALE, lw=1, ls=":")
    axis.set_yticks(range(len(single)), list(single))
    axis.set(xlim=(-0.35, 1.12), ylim=(len(single) - 0.5, -0.75))
    said = "fit: 0 is chance, 1 is always (in the disks: number of prompts)"
    axis.set_xlabel(f"{said}\ndotted: 0.5, from where on we would give the name")
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    return figure
