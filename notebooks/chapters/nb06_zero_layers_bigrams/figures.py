"""Drawings of notebook 06: tables of letter pairs as maps and dots, a strip, a plane of letters."""

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY
from aot_helpers.showing.forms import HALO, grids, lines, points
from chapters.nb06_zero_layers_bigrams.measure import VOWELS, Table, line_between, shown


def table_maps(tables: dict[str, Table], signs: str, title: str) -> Figure:
    """Tables of probabilities beside each other, every sign named."""
    letters = [shown(sign) for sign in signs]
    maps = {name: table.sqrt() for name, table in tables.items()}
    names = {"row_names": letters, "column_names": letters}
    labels = {"x_label": "next letter", "y_label": "present letter"}
    return grids({"": maps}, title, cell=0.16, **names, **labels)


def table_strip(tables: dict[str, Table], signs: str, named: list[str], title: str) -> Figure:
    """Tables of probabilities as a strip; lines part vowels (and the space) from consonants.

    named: pairs of signs that get a square in every table, and their names in the first.
    """
    maps = {name: table.sqrt() for name, table in tables.items()}
    labels = {"x_label": "next letter", "y_label": "consonants · vowels"}
    figure = grids({"": maps}, title, cell=0.065, **labels)
    square = {"marker": "s", "ms": 7.5, "mfc": "none", "mec": QUERY, "mew": 1.3}
    look = {"size": 9.5, "weight": "bold", "color": QUERY, "va": "center", "path_effects": HALO}
    for axis in figure.axes:
        axis.axhline(len(VOWELS) + 1, color="0.6", lw=0.8)
        axis.axvline(len(VOWELS) + 1, color="0.6", lw=0.8)
        for pair in named:
            i, j = (signs.index(sign) + 0.5 for sign in pair)
            axis.plot(j, i, **square)
            if axis is figure.axes[0]:  # in the others names would cover cells
                axis.text(j + 1.2, i, " → ".join(map(shown, pair)), **look)
    return figure


def pairs(counted: Table, model: Table, signs: str, named: list[str], title: str) -> Figure:
    """A dot for each pair: its share in the text (across) and in the model (up), logarithmic.

    Pairs that never occur stand at the left; shares and probabilities below 0.00001 are drawn as
    if they were that. named: pairs of signs to be labeled.
    """
    seen, names = counted > 0, {}
    counted, model = (each.double().clamp(min=1e-5) for each in (counted, model))
    for pair in named:
        i, j = (signs.index(sign) for sign in pair)
        names[" → ".join(map(shown, pair))] = counted[i, j].item(), model[i, j].item()
    left = torch.logspace(-6, -5.7, int((~seen).sum()))  # 0 has no place on this axis
    groups = {
        "in the text": (counted[seen], model[seen]),
        "never in the text": (left, model[~seen]),
    }
    look = {"colors": dict(zip(groups, (KEY, PALE), strict=True)), "names": {"": names}}
    across, up = "share in the text", "probability in the model"
    figure = points({"": groups}, title, across, up, x_log=True, y_log=True, width=7.4, **look)
    for dots in figure.axes[0].collections:  # the many and the few alike
        dots.set(sizes=[8], alpha=0.4)
    figure.axes[0].axline((1e-2, 1e-2), (1, 1), color="0.6", lw=1, ls="--", zorder=0)
    ticks = {1.4e-6: "never", 1e-4: "0.0001", 1e-3: "0.001", 0.01: "0.01", 0.1: "0.1", 1: "1"}
    figure.axes[0].set_xticks(list(ticks), list(ticks.values()))
    figure.axes[0].set_xticks([], minor=True)
    return figure


def letter_plane(rows: Float[Tensor, "sign 2"], signs: str, title: str) -> Figure:
    """Letters as points, and a dashed line that parts vowels and space from consonants.

    There is none where no straight line does that.
    """
    kinds = {"vowels": VOWELS, "consonants": signs[len(VOWELS) + 1 :], "␣ space": " "}
    groups = {
        kind: rows[[signs.index(sign) for sign in some]].T.numpy() for kind, some in kinds.items()
    }
    names = {shown(sign): tuple(row.tolist()) for sign, row in zip(signs, rows, strict=True)}
    colors = dict(zip(kinds, (QUERY, KEY, PALE), strict=True))
    across, up = "first number of its row of W_E", "second number"
    figure = points({"": groups}, title, across, up, names={"": names}, colors=colors, width=7.4)
    figure.axes[0].set(xticks=[], yticks=[])
    if line := line_between(rows, torch.tensor([sign in f" {VOWELS}" for sign in signs])):
        a, b, c = line
        ends = (a * c, b * c), (a * c - b, b * c + a)
        figure.axes[0].axline(*ends, color=INK, lw=1.2, ls="--", zorder=0)
    return figure


def by_rank(
    losses: dict[str, list[float]], ranks: list[int], frequencies: float, title: str
) -> Figure:
    """Losses of tables by their rank: {how they were made: loss at each rank}."""
    curves = {name: (ranks, values) for name, values in losses.items()}
    look = {"x_log": True, "x_ticks": {r: str(r) for r in ranks}}
    levels = {frequencies: "letter frequencies alone"}
    return lines(
        {"": curves},
        title,
        "rank (d_model)",
        "loss (nats per letter above H)",
        levels=levels,
        **look,
    )
