"""Drawings of notebook 08: a head that carries another word, its weights, where it looks."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE
from aot_helpers.showing.plots import SMALL, grids, panels


class Reading(NamedTuple):
    """A sentence as one head carries it, and what the model says next."""

    label: str  # a second line is written smaller
    words: list[str]
    carried: dict[int, str]  # {place: what stands there for the head}
    said: dict[str, float]  # {word: probability}, in falling order


def readings(rows: list[Reading], title: str) -> Figure:
    """Sentences in rows, what a head is given to carry, and what the model says next."""
    height = 0.55 + 1.02 * len(rows)
    figure, axis = diagrams.canvas(10, height)
    bold = {"ha": "left", "weight": "bold"}
    for i, (label, words, carried, said) in enumerate(rows):
        y = height - 1.08 - 1.02 * i
        name, *more = label.split("\n")
        diagrams.say(axis, 0.12, y + 0.12 * len(more), name, **bold)
        for line in more:
            diagrams.say(axis, 0.12, y - 0.14, line, PALE, size=10, ha="left")
        step = min(1.06, 5.6 / len(words))
        for k, text in enumerate(words):
            x = 2.5 + step * k
            color = KEY if k in carried else QUERY if k == len(words) - 1 else PALE
            diagrams.word(axis, x, y, text, color, width=0.9 * step, height=0.42, size=11)
            if k in carried:
                look = {"width": max(0.8 * step, 0.12 + 0.085 * len(carried[k])), "height": 0.28}
                diagrams.word(axis, x, y + 0.4, carried[k], VALUE, size=9.5, **look)
        diagrams.arrow(axis, (2.5 + step * (len(words) - 0.5), y), (8.55, y), PALE)
        first, second = (f"{text} {p:.2f}" for text, p in list(said.items())[:2])
        size = 15 if max(said.values()) > 0.5 else 10.5
        diagrams.say(axis, 8.65, y + 0.08, first, size=size, **bold)
        diagrams.say(axis, 8.65, y - 0.24, second, PALE, ha="left")
    return diagrams.headline(figure, title)


def two_jobs(
    right: Float[Tensor, "case 1"], again: Float[Tensor, "case 4"], cases: list[str], title: str
) -> Figure:
    """How often the right name is said, beside how often a list of 3 to 6 codes goes back."""
    maps = {"right name": right, "in lists of so many codes:\na code that has had its turn": again}
    look = {"number": ".0%", "cell": (1.1, 0.34), "row_names": cases}
    figure = grids(maps, title, **look)
    for axis, names in zip(figure.axes, (["after “again”"], ["3", "4", "5", "6"]), strict=True):
        axis.set_xticks([0.5 + i for i in range(len(names))], names)
    return figure


def diagonals(
    tables: dict[str, list[Float[Tensor, "source out"]]], title: str, end: float = 10
) -> Figure:
    """Square tables of words, each row less its mean: red where a word raises another, blue below.

    tables: {kind of word: a table for each head of layer 0}, with a row of panels for each kind.
    end: where the colors end, the same in all panels. The panels say how many words raise, or
    lower, themselves most in their row.
    """
    rows = {}
    for kind, some in tables.items():
        centered = [np.asarray(each - each.mean(dim=1, keepdim=True)) for each in some]
        rows[kind] = {_said_of_diagonal(f"L0H{h}", x): x for h, x in enumerate(centered)}
    note = f"red: the word of the row raises that of the column; blue: lowers it (up to ±{end:g})"
    look = {"colors": "RdBu_r", "cell": 0.1, "note": note}
    return grids(rows, title, limits=(-end, end), **look)


def _said_of_diagonal(name: str, table: np.ndarray) -> str:
    at = np.arange(len(table))
    raised, lowered = ((most(table, axis=1) == at).sum() for most in (np.argmax, np.argmin))
    way = "lower" if lowered > raised else "raise"
    return f"{name}: {max(raised, lowered)} of {len(table)}\n{way} themselves most"


def looks_back(
    attention: dict[str, Float[Tensor, " back"]], lists: list[tuple[list[str], str]], title: str
) -> Figure:
    """Where heads look from a code that is said again, above lists in which one is due.

    attention: {heads: mean attention weight to the word 0, 1, 2 … words back}. lists: (the words
    so far, the code that is due). Words that stand equally far back stand in one column.
    """
    n_back = max(len(words) for words, _ in lists)
    height = 1.45 + 0.42 * len(attention) + 0.62 * len(lists)
    figure, axis = diagrams.canvas(10, height)

    def x(back):
        return 8.35 - 0.62 * back

    y = height - 0.72
    diagrams.say(axis, 0.12, y, "words back", PALE, ha="left")
    for back in range(n_back):
        diagrams.say(axis, x(back), y, str(back), PALE)
    for name, weights in attention.items():
        y -= 0.42
        diagrams.say(axis, 0.12, y, name, ha="left", weight="bold")
        for back, weight in enumerate(weights[:n_back].tolist()):
            corner = x(back) - 0.31, y - 0.2
            fill = SHADES(min(weight / 0.6, 1))
            axis.add_patch(diagrams.plt.Rectangle(corner, 0.62, 0.4, fc=fill, ec="0.85", lw=0.6))
            color = "white" if weight > 0.25 else INK
            diagrams.say(axis, x(back), y, f"{weight:.2f}" if weight >= 0.1 else "", color, SMALL)
    diagrams.say(axis, 9.3, y + 0.21, "mean attention\nweights", SHARE, SMALL)
    y -= 0.12
    for words, due in lists:
        y -= 0.62
        n_codes = words.index(";") - 1
        diagrams.say(axis, 0.12, y, f"a list of {n_codes}", ha="left", weight="bold")
        for back, text in enumerate(reversed(words)):
            color = QUERY if back == 0 else VALUE if text == due else PALE
            diagrams.word(axis, x(back), y, text, color, width=0.54, height=0.42, size=11)
        diagrams.say(axis, 9.3, y, f"due: {due}", VALUE, size=11, weight="bold")
    return diagrams.headline(figure, title)


def numbers_and_patches(
    heads: list[tuple[float, float]],
    null: tuple[float, float],
    labels: dict[str, tuple[float, float]],
    title: str,
) -> Figure:
    """A dot for each head: its copying score, and the most that a patch of its values recovers.

    null: the lowest and highest score of random heads, a gray band. labels: {text: which dot}.
    """
    figure, ((axis,),) = panels(1, 1, 8.6, 3.6, title=title)
    axis.axvspan(*null, color="0.93", lw=0)
    axis.text(sum(null) / 2, 1.06, "random heads", color=PALE, size=9.5, ha="center", va="top")
    odd = list(labels.values())
    axis.scatter(*zip(*(each for each in heads if each not in odd), strict=True), s=34, color=PALE)
    axis.scatter(*zip(*odd, strict=True), s=44, color=QUERY)
    for text, at in labels.items():
        look = {"size": 10.5, "color": QUERY, "weight": "bold", "va": "center"}
        axis.annotate(text, at, (9, 0), textcoords="offset points", **look)
    axis.set(xlabel="copying score", ylabel="logit difference recovered", ylim=(-0.08, 1.1))
    return figure
