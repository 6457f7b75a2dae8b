"""Figures of notebook 25: any number of layers and heads as one mosaic."""

from collections.abc import Mapping

import pandas
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing import plots
from aot_helpers.showing.diagrams import INK, PALE, QUERY

ATTENDS_TO = {  # what people call these columns of `head_table`
    "previous": "previous token",
    "current": "itself",
    "first": "first token",
    "duplicate": "earlier copy",
    "induction": "after the copy",
}
COPIES = {"copying eigenvalues": "by its weights", "copying evaluator": "on these texts"}


def mosaic(
    table: pandas.DataFrame, names: Mapping[str, str], title: str, less_null: bool = False, **look
) -> Figure:
    """Columns of a `head_table` as mosaics [layer, head], with the null of each below its name.

    less_null: draw how far each lies above its null.
    """
    nulls = {column: table[f"{column} null"].mean() for column in names}
    mosaics = {
        f"{name}\nchance: {nulls[column]:.2f}": (
            table[column] - less_null * nulls[column]
        ).unstack()
        for column, name in names.items()
        if table[column].notna().any()
    }
    return by_head(mosaics, title, **look)


def cuts(lost: Mapping[Head, pandas.DataFrame], title: str) -> Figure:
    """Mosaics of the attention that readers lose; {reader: a row for each earlier head}."""
    ways = {"ablated": "ablated", "cut": "cut from keys"}
    mosaics = {
        f"{reader}: {name}\nchance: {each[f'{way} null'].max():.2f}": each[way].unstack()
        for reader, each in lost.items()
        for way, name in ways.items()
    }
    most = max(each["ablated"].max() for each in lost.values())
    return by_head(mosaics, title, limits=(0, max(most, 0.01)), label="attention lost")


def by_head(mosaics: Mapping[str, pandas.DataFrame], title: str, **look) -> Figure:
    """Mosaics [layer, head], with cells so small that a page holds five of them side by side."""
    n_layers, n_heads = next(iter(mosaics.values())).shape
    return plots.grids(
        mosaics,
        title,
        x_label="head",
        row_names=[f"L{i}" for i in range(n_layers)],
        column_names="{}" if n_heads <= 9 else "",
        cell=(min(0.26, 1.7 / n_heads), min(0.3, 3.6 / n_layers)),
        **look,
    )


def probabilities(found: Mapping[str, list[float]], names: list[str], title: str) -> Figure:
    """The probability of a token by layer, {where: [layer]}; the first line in color."""
    first, *rest = found
    every = max(1, len(names) // 8)
    ticks = {i: name for i, name in enumerate(names) if i % every == 0}
    colors = {first: QUERY} | dict.fromkeys(rest, PALE)
    lines = {name: (range(len(names)), p) for name, p in found.items()}
    return plots.lines(
        lines,
        title,
        "the stream",
        "probability",
        colors=colors,
        x_ticks=ticks,
        y_range=(-0.02, None),
        width=7.6,
    )


def effects(table: pandas.DataFrame, chance: pandas.DataFrame, title: str, n: int = 4) -> Figure:
    """Columns "direct" and "total", of heads and of random vectors; the n largest have names."""
    groups = {
        "random vectors as long": (chance["direct"], chance["total"]),
        "heads": (table["direct"], table["total"]),
    }
    largest = table.loc[table["total"].abs().nlargest(n).index]
    names = {str(Head(*head)): (row["direct"], row["total"]) for head, row in largest.iterrows()}
    return plots.points(
        groups,
        title,
        "direct effect: what the head itself adds to the logit",
        "total effect: what the logit\nloses without the head",
        names=names,
        colors={"random vectors as long": PALE, "heads": QUERY},
        diagonal=True,
        width=6.6,
    )


def losses(found: Mapping[str, list[float]], title: str) -> Figure:
    """{what is taken away: losses in nats}, a dot for each; what is not a control in color."""
    rows = {
        row: {"other heads" if len(values) > 1 else "": values} for row, values in found.items()
    }
    look = {"colors": {"": INK, "other heads": PALE}, "number": ".2f", "width": 7.6}
    return plots.dots(rows, title, "loss on the second copy (nats per token)", **look)
