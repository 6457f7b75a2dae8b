"""Drawings of notebook 06: tables of letter pairs as maps and dots, and a plane of letters."""

import torch
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY
from aot_helpers.showing.forms import HALO, grids, points
from chapters.nb06_zero_layers_bigrams.measure import VOWELS, line_between, shown

Table = Float[Tensor, "present next"]


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

    Pairs that never occur stand at the left, what is below 0.00001 at the foot. named: pairs of
    signs to be labeled.
    """
    counted, model = counted.double(), model.double().clamp(min=1e-5)
    seen, names = counted > 0, {}
    for pair in named:
        i, j = (signs.index(sign) for sign in pair)
        names[" → ".join(map(shown, pair))] = counted[i, j].item(), model[i, j].item()
    left = torch.logspace(-3.2, -2.8, int((~seen).sum()))  # 0 has no place on this axis
    groups = {
        "in the text": (counted[seen], model[seen]),
        "never in the text": (left, model[~seen]),
    }
    figure = _log_points(groups, title, "share in the text", {"": names})
    figure.axes[0].set_xticks([1e-3, 0.01, 0.1, 1], ["never", "0.01", "0.1", "1"])
    return figure


def against_truth(
    P: Table, model: Table, often: Bool[Tensor, "present next"], title: str
) -> Figure:
    """A dot for each pair: its true probability and the model's, both at least 0.0001.

    often: True for pairs that a text shows often enough; the others are pale.
    """
    P, model = P.clamp(min=1e-4), model.clamp(min=1e-4)
    groups = {
        "expected ten times or more": (P[often], model[often]),
        "more rarely (0.0001: that or less)": (P[~often], model[~often]),
    }
    return _log_points(groups, title, "probability in the true table P")


def _log_points(
    groups: dict[str, tuple], title: str, x_label: str, names: dict | None = None
) -> Figure:
    """Two groups of pairs, the second pale: a number, and the model's probability, logarithmic."""
    colors = dict(zip(groups, (KEY, PALE), strict=True))
    look = {"colors": colors, "names": names, "x_log": True, "y_log": True, "width": 7.4}
    figure = points({"": groups}, title, x_label, "probability in the model", **look)
    figure.axes[0].axline((1e-2, 1e-2), (1, 1), color="0.6", lw=1, ls="--", zorder=0)
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
    figure = points({"": groups}, title, "", "", names={"": names}, colors=colors, width=7.4)
    figure.axes[0].set(xticks=[], yticks=[])
    if line := line_between(rows, torch.tensor([sign in f" {VOWELS}" for sign in signs])):
        a, b, c = line
        ends = (a * c, b * c), (a * c - b, b * c + a)
        figure.axes[0].axline(*ends, color=INK, lw=1.2, ls="--", zorder=0)
    return figure
