"""Drawings of notebook 08: a head that carries another word, what that recovers, its weights."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import KEY, PALE, QUERY, VALUE
from aot_helpers.showing.forms import grids, points

LOWERED = "#C2185B"
AGREEMENT = {  # {(flagged by the score, copies by the patch): what that is}
    (True, True): "flagged, copies",
    (True, False): "flagged, copies nothing",
    (False, True): "copies, not flagged",
    (False, False): "neither",
}
COLORS = dict(zip(AGREEMENT.values(), (VALUE, LOWERED, QUERY, PALE), strict=True))


class Reading(NamedTuple):
    """A sentence as one head carries it, and what the model says next."""

    label: str
    words: list[str]
    carried: dict[int, str]  # {place: what stands there for the head}
    said: dict[str, float]  # {word: probability}, in falling order


def readings(rows: list[Reading], title: str) -> Figure:
    """Sentences in rows, what a head is given to carry, and what the model says next."""
    height = 0.55 + 1.02 * len(rows)
    figure, axis = diagrams.canvas(10, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    bold = {"ha": "left", "weight": "bold"}
    for i, (label, words, carried, said) in enumerate(rows):
        y = height - 1.08 - 1.02 * i
        diagrams.say(axis, 0.12, y, label, linespacing=1.3, **bold)
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
    return figure


def attention(
    pattern: Float[Tensor, "query_pos key_pos"], queries: list[str], keys: list[str], title: str
) -> Figure:
    """Attention weights of one head, from some words to all."""
    look = {"number": ".2f", "row_names": queries, "column_names": keys, "cell": (0.7, 0.42)}
    return grids({"": {"": pattern}}, title, x_label="to", y_label="from", **look)


def diagonals(tables: dict[str, list[Float[Tensor, "source out"]]], title: str) -> Figure:
    """Square tables of tokens, red above the mean of the row and blue below; a scale for each row.

    tables: {kind of token: a table for each head of layer 0}, with a row of panels for each kind.
    The names of the panels say how many tokens raise, or lower, themselves most in their row.
    """
    rows, limits = {}, {}
    for kind, some in tables.items():
        centered = [np.asarray(each - each.mean(dim=1, keepdim=True)) for each in some]
        most = max(np.abs(each).max() for each in centered)
        row = f"{kind}: ±{most:.0f} nats"
        limits[row] = -most, most
        rows[row] = {_said_of_diagonal(f"L0H{h}", x): x for h, x in enumerate(centered)}
    note = "red: raises the token of the column; blue: lowers it; each line has its own scale"
    return grids(rows, title, limits=limits, colors="RdBu_r", cell=0.1, note=note)


def _said_of_diagonal(name: str, table: np.ndarray) -> str:
    at = np.arange(len(table))
    raised, lowered = ((most(table, axis=1) == at).sum() for most in (np.argmax, np.argmin))
    way = "lower" if lowered > raised else "raise"
    return f"{name}: {max(raised, lowered)} of {len(table)}\n{way} themselves most"


def against_score(
    panels: dict[str, dict[Head | int, tuple[float, float]]],
    title: str,
    null: float,
    least: float,
    labels: dict[Head | int, str],
) -> Figure:
    """A dot for each head: its copying score, and the logit difference recovered by its values.

    panels: {which score: {head: (score, recovered)}}, all on one scale. null: scores above it are
    flagged; least: who recovers more is a copying head. labels: {head: what stands beside it}.
    """
    data, names = {}, {}
    for panel, found in panels.items():
        groups = {group: [] for group in AGREEMENT.values()}
        for score, share in found.values():
            groups[AGREEMENT[score > null, share >= least]].append((score, share))
        data[panel] = {group: np.transpose(some) for group, some in groups.items() if some}
        names[panel] = {label: found[head] for head, label in labels.items()}
    x_label, y_label = "copying score (dashed: the null)", "logit difference recovered"
    look = {"colors": COLORS, "levels": {least: "copies"}, "names": names}
    figure = points(data, title, x_label, y_label, **look)
    for axis in figure.axes:
        axis.axvline(null, color="0.6", lw=1, ls="--", zorder=0)
    return figure
