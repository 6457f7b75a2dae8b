"""Drawings of notebook 06: tables of pairs as maps, pairs as dots, a plane of letters."""

import torch
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE
from aot_helpers.showing.plots import HALO, grids, points
from chapters.nb06_zero_layers_bigrams.measure import VOWELS, Table, line_between, shown


def table_maps(tables: dict[str, Table], signs: str, title: str, named: list[str] = ()) -> Figure:
    """Tables of probabilities; lines separate vowels and space from consonants.

    named: pairs of signs that get a square in every table, and their names in the first. Without
    them all signs have their names at the axes.
    """
    maps = {name: table.sqrt() for name, table in tables.items()}
    look = {"cell": 0.065, "y_label": "consonants · vowels"}
    if not named:
        letters = [shown(sign) for sign in signs]
        look = {"cell": 0.2, "y_label": "present letter"}
        look |= {"row_names": letters, "column_names": letters}
    figure = grids(maps, title, x_label="next letter", **look)
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


def kept_and_not(
    saves: Table,
    kept: Bool[Tensor, "present next"],
    rows: dict[str, Bool[Tensor, "present next"]],
    signs: str,
    named: list[str],
    title: str,
) -> Figure:
    """A dot for each pair: what it saves (across), in one of two rows, purple if it is kept.

    The dots of a row are spread up and down, so that they do not cover each other; a row's label
    says how many of its pairs are kept. named: pairs of signs to be labeled.
    """
    spread = (torch.arange(saves.numel()) * 0.618 % 1 - 0.5).view_as(saves) * 0.62
    up, labels = torch.zeros_like(saves), {}
    for place, (name, some) in enumerate(reversed(rows.items())):
        up[some] = place + spread[some].to(up.dtype)
        labels[f"{name}:\n{kept[some].double().mean():.0%} of {some.sum()} kept"] = place
    shown_pairs = torch.stack(list(rows.values())).any(dim=0)
    groups = {"not kept": shown_pairs & ~kept, "kept": shown_pairs & kept}
    data = {name: (saves[some], up[some]) for name, some in groups.items()}
    names = {}
    for pair in named:
        i, j = (signs.index(sign) for sign in pair)
        names[" → ".join(map(shown, pair))] = saves[i, j].item(), up[i, j].item()
    look = {"colors": {"not kept": "0.72", "kept": SHARE}, "names": names, "x_log": True}
    figure = points(data, title, "nats per letter that the pair saves", "", **look)
    axis = figure.axes[0]
    ring = {"s": 60, "facecolors": "none", "edgecolors": INK, "lw": 1.2}
    axis.scatter(*zip(*names.values(), strict=True), **ring)
    axis.axhline(0.5, color="0.85", lw=1)
    axis.set_yticks(list(labels.values()), list(labels))
    axis.set_xticks([0.001, 0.01], ["0.001", "0.01"])
    axis.set_xticks([], minor=True)
    return figure


def letter_plane(rows: Float[Tensor, "sign 2"], signs: str, title: str) -> Figure:
    """Letters as points, and a dashed line that separates vowels and space from consonants.

    There is none where no straight line does that.
    """
    kinds = {"vowels": VOWELS, "consonants": signs[len(VOWELS) + 1 :], "␣ space": " "}
    groups = {
        kind: rows[[signs.index(sign) for sign in some]].T.numpy() for kind, some in kinds.items()
    }
    names = {shown(sign): tuple(row.tolist()) for sign, row in zip(signs, rows, strict=True)}
    colors = dict(zip(kinds, (QUERY, KEY, PALE), strict=True))
    across, up = "first number of its row of W_E", "second number"
    figure = points(groups, title, across, up, names=names, colors=colors, width=7.4)
    figure.axes[0].set(xticks=[], yticks=[])
    if line := line_between(rows, torch.tensor([sign in f" {VOWELS}" for sign in signs])):
        a, b, c = line
        ends = (a * c, b * c), (a * c - b, b * c + a)
        figure.axes[0].axline(*ends, color=INK, lw=1.2, ls="--", zorder=0)
    return figure
