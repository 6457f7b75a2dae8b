"""Arrays to one figure each: dots on rows, lines, points with names, grids of cells.

What they show comes first, in panels that have names: {panel: {…}}; of a single panel the name can
be left out. Then comes the title. Colors are those of `diagrams`, in the order of COLORS where none
are given; names stand beside what they name, or in color below the title. Tensors are arrays here,
whatever their device and precision. The notebook shows or saves the figure.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from aot_helpers.base.errors import check_shape
from aot_helpers.showing.diagrams import INK, PALE, SHADES, as_typed
from aot_helpers.showing.panels import (  # noqa: F401 (chapters take them from here)
    COLORS,
    HALO,
    SMALL,
    STYLE,
    TITLE,
    Interval,
    colors_of,
    dashed_levels,
    name_points,
    panels,
    pattern_of,
    shown,
    spread,
)

SIGNED = "RdBu_r"  # the colors of signed numbers: red above zero, blue below


def nested(data, depth: int) -> Mapping:
    """The data in so many levels of mappings; what lacks outer ones stands in {"": …}."""
    inner = data
    while isinstance(inner, Mapping):
        depth, inner = depth - 1, next(iter(inner.values()), None)
    for _ in range(depth):
        data = {"": data}
    return data


@as_typed
def dots(
    data: Mapping,
    title: str,
    x_label: str,
    *,
    colors: Mapping[str, str] | None = None,
    number: str = "",
    apart: bool = False,
    stems: bool = False,
    levels: Mapping[float, str] | None = None,
    x_range: tuple[float | None, float | None] | None = None,
    width: float = 8.6,
    note: str = "",
) -> Figure:
    """Dots on rows: {row: a number, an array, or an Interval}, or {panel: {row: {series: …}}}.

    {row: {series: …}} is one panel.
    Dots of one place stand beside each other; of more than five the median gets a bar. An Interval
    is a dot on a line or, where others stand in its place, a band with a mark. Series have a color
    each, named below the title (but for a series named ""). number: a format such as ".2f", to
    write the value, or the median, beside its dots. apart: each series at its own height in the
    row. stems: a line from zero to each value. levels: {x: name} of dashed lines.
    """
    if not isinstance(next(iter(data.values())), Mapping):
        data = {row: {"": values} for row, values in data.items()}
    data = nested(data, 3)
    every = [row for found in data.values() for row in found.values()]
    hues = colors_of((name for each in every for name in each), colors)
    bands = {name for each in every for name in each if _is_band(name, each, apart)}
    names, rows = list(hues), list(dict.fromkeys(row for each in data.values() for row in each))
    tall = 0.22 * len(names) + 0.2 if apart else 0.36 + 0.16 * bool(number and len(names) > 1)
    figure, axes = panels(
        1,
        len(data),
        width,
        max(tall, 0.36) * len(rows) + 0.75,
        title=title,
        note=note,
        key={f"{'▬' if n in bands else '●'} {n}": color for n, color in hues.items() if n},
        sharey=True,
        sharex=True,
    )
    for axis, (panel, found) in zip(axes[0], data.items(), strict=True):
        table = {"value": [], "row": [], "series": []}
        for row, each in ((row, found.get(row, {})) for row in rows):
            for name, values in each.items():
                step = 0.8 / len(names) if apart else 0
                y = rows.index(row) + step * (names.index(name) - (len(names) - 1) / 2)
                band = _is_band(name, each, apart)
                if isinstance(values, Interval):
                    look = {"lw": 7, "alpha": 0.45, "zorder": 1} if band else {"lw": 2}
                    look |= {"color": hues[name], "solid_capstyle": "butt" if band else None}
                    axis.plot([values.low, values.high], [y, y], **look)
                    values = values.value
                values = np.asarray(values, dtype=float).ravel()
                if band:  # its mark stays on it, also where dots crowd
                    axis.scatter(values, [y], 160, hues[name], marker="|", lw=2.5, zorder=1)
                else:
                    table["value"] += values.tolist()
                    table["row"] += [row] * len(values)
                    table["series"] += [name] * len(values)
                middle = np.median(values)
                if stems:
                    axis.plot([0, middle], [y, y], color=hues[name], lw=2.5, alpha=0.35)
                if len(values) > 5:
                    half = step * 0.45 or 0.36
                    axis.plot([middle] * 2, [y - half, y + half], color=INK, lw=3, zorder=5)
                if number:
                    beside = apart or len(each) == 1
                    right = getattr(each[name], "high", values.max()) if beside else middle
                    look = {"ha": "left", "va": "center"} if beside else {"ha": "center"}
                    away = (8, 0) if beside else (0, 7)
                    if stems and middle < 0:  # beyond the dot, not on its stem
                        look, away = {"ha": "right", "va": "center"}, (-8, 0)
                    axis.annotate(
                        f"{middle:{number}}",
                        (right, y),
                        away,
                        size=9.5,
                        **look,
                        textcoords="offset points",
                        color=hues[name],
                    )
        sns.swarmplot(
            table,
            x="value",
            y="row",
            hue="series",
            order=rows,
            hue_order=names,
            palette=hues,
            dodge=apart,
            size=6.5,
            alpha=0.8,
            legend=False,
            warn_thresh=1,
            ax=axis,
        )
        axis.set_yticks(range(len(rows)), rows)
        axis.hlines(
            range(len(rows)), 0, 1, "0.92", lw=1, zorder=0, transform=axis.get_yaxis_transform()
        )
        dashed_levels(axis, levels, across=False)
        axis.set_title(panel, **TITLE)
        axis.set(xlabel=x_label, ylabel="", ylim=(len(rows) - 0.5, -0.6))
        axis.tick_params(axis="y", length=0)
        axis.spines["left"].set_visible(False)
        axis.margins(x=0.05 + 0.09 * bool(number) * len(data))
        axis.set_xlim(x_range, auto=x_range is None)
        if number.endswith("%"):  # ticks as the labels: of fractions, in percent
            axis.xaxis.set_major_formatter(PercentFormatter(1))
    return figure


def _is_band(name: str, row: Mapping, apart: bool) -> bool:
    """Whether a series of a row is an interval in the place of others."""
    return isinstance(row[name], Interval) and len(row) > 1 and not apart


@as_typed
def lines(
    data: Mapping,
    title: str,
    x_label: str,
    y_label: str,
    *,
    colors: Mapping[str, str] | None = None,
    styles: Mapping[str, str] | None = None,
    runs: bool = False,
    marker: str = "o",
    levels: Mapping[float, str] | None = None,
    x_log: bool = False,
    x_ticks: Mapping[float, str] | None = None,
    x_range: tuple[float | None, float | None] | None = None,
    y_range: tuple[float | None, float | None] | None = None,
    shared: bool = True,
    width: float = 9.0,
    height: float = 3.2,
    note: str = "",
) -> Figure:
    """Lines with their names at their right ends: {name: (x, y)}, or {panel: {name: (x, y)}}.

    y: [x]; [run, x], drawn as median and range, or with `runs` as a line for each run; or an
    `Interval` of arrays. y alone stands at 1, 2, 3, … A name stands in the last panel that has it.
    styles: {name: "--"}. levels: {y: name} of dashed lines. shared: one y axis for all panels.
    """
    data = nested(data, 2)
    hues = colors_of((name for each in data.values() for name in each), colors)
    last = {name: panel for panel, each in data.items() for name in each if name}
    figure, axes = panels(1, len(data), width, height, title=title, note=note, sharey=shared)
    ends = []  # (axis, name, color, y) of what is named
    for axis, (panel, curves) in zip(axes[0], data.items(), strict=True):
        for name, curve in curves.items():
            x, y = curve if type(curve) is tuple else (range(1, 1 + len(curve)), curve)
            low, middle, high = _band(y)
            look = {"color": hues[name], "ls": (styles or {}).get(name, "-"), "ms": 4}
            if runs and np.ndim(y) == 2:
                axis.plot(x, np.asarray(y).T, marker=marker, lw=1.2, alpha=0.8, **look)
            else:
                axis.plot(x, middle, marker=marker, lw=2, **look)
                axis.fill_between(x, low, high, color=hues[name], alpha=0.18, lw=0)
            if last.get(name) == panel:
                ends.append((axis, name, hues[name], middle[-1]))
        for y, name in (levels or {}).items():
            axis.axhline(y, color="0.6", lw=1, ls="--", zorder=0)
            ends += [(axis, name, PALE, y)] if name and axis is axes[0, -1] else []
        axis.set_title(panel, **TITLE)
        axis.set(xlabel=x_label)
        if x_log:  # a linear scale is there already, with the ticks of x that are texts
            axis.set_xscale("log")
        axis.set_ylabel(y_label if axis is axes[0, 0] or not shared else "")
        if x_ticks:
            axis.set_xticks(list(x_ticks), list(x_ticks.values()))
            axis.set_xticks([], minor=True)
        axis.set_xlim(x_range, auto=x_range is None)
    for axis in axes[0] if y_range else ():  # once all is drawn: None leaves room for every panel
        axis.set_ylim(y_range)
    figure.draw_without_rendering()  # so that heights are known
    for axis in axes[0]:
        named = [each[1:] for each in ends if each[0] is axis]
        at = [axis.transData.transform((1, y))[1] * 72 / figure.dpi for *_, y in named]
        for (name, color, y), here, there in zip(named, at, spread(at, 12.5), strict=True):
            axis.annotate(
                name,
                (1, y),
                (4, there - here),
                xycoords=axis.get_yaxis_transform(),
                color=color,
                textcoords="offset points",
                va="center",
                size=9.5,
                annotation_clip=False,
                weight="normal" if color == PALE else "bold",
            )
    return figure


def _band(y) -> Interval:
    """The line and the borders of the band of one curve, each [x]."""
    if isinstance(y, Interval):
        return Interval(*map(np.asarray, y))
    runs = np.atleast_2d(np.asarray(y)).astype(float)
    return Interval(runs.min(axis=0), np.median(runs, axis=0), runs.max(axis=0))


@as_typed
def points(
    data: Mapping,
    title: str,
    x_label: str,
    y_label: str,
    *,
    names: Mapping | None = None,
    colors: Mapping[str, str] | None = None,
    diagonal: bool = False,
    levels: Mapping[float, str] | None = None,
    x_log: bool = False,
    y_log: bool = False,
    equal: bool = False,
    shared: bool = True,
    width: float = 8.6,
    height: float = 3.7,
    note: str = "",
) -> Figure:
    """Groups of points, some with names: {group: (x, y)}, or {panel: {group: (x, y)}}.

    x, y: arrays of one length. names: {name: (x, y)}, or {panel: {name: (x, y)}}, each written
    where it covers least, in its group's color. Groups are named below the title. diagonal: the
    line y = x. levels: {y: name} of dashed lines. equal: one scale across and up.
    """
    data, names = nested(data, 2), nested(names or {}, 2)
    hues = colors_of((name for each in data.values() for name in each), colors)
    figure, axes = panels(
        1,
        len(data),
        width,
        height,
        title=title,
        note=note,
        sharex=shared,
        sharey=shared,
        key={f"● {name}": color for name, color in hues.items() if name},
    )
    for axis, (panel, groups) in zip(axes[0], data.items(), strict=True):
        for name, (x, y) in groups.items():
            x, y = np.ravel(np.asarray(x)), np.ravel(np.asarray(y))
            few = x.size <= 300
            look = {"s": 26 if few else 8, "alpha": 0.8 if few else 0.4, "lw": 0}
            axis.scatter(x, y, color=hues[name], **look)
        axis.set_title(panel, **TITLE)
        axis.set(xlabel=x_label, xscale="log" if x_log else "linear")
        axis.set_yscale("log" if y_log else "linear")
        axis.margins(0.1)
        dashed_levels(axis, levels, across=True)
        if diagonal:
            axis.axline((1, 1), slope=1, color="0.6", lw=1, ls="--", zorder=0)
        if equal:
            axis.set_aspect("equal", adjustable="datalim")
        axis.set_ylabel(y_label if axis is axes[0, 0] or not shared else "")
    figure.draw_without_rendering()  # so that the places of points are known
    for axis, panel in zip(axes[0], data, strict=True):
        named = names.get(panel, {})
        name_points(axis, {name: (*at, _of(at, data[panel], hues)) for name, at in named.items()})
    return figure


def _of(at, groups, hues) -> str:
    """The color of the last group with a point there."""
    places = {name: np.transpose([np.asarray(each) for each in xy]) for name, xy in groups.items()}
    inside = [name for name, xy in places.items() if np.isclose(xy, at).all(-1).any()]
    return hues[inside[-1]] if inside else INK


@as_typed
def grids(
    tables,
    title: str,
    *,
    number: str = "",
    least: float = -np.inf,
    row_names: Sequence[str] | str = "",
    column_names: Sequence[str] | str = "",
    x_label: str = "",
    y_label: str = "",
    limits: tuple[float, float] | Mapping[str, tuple[float, float]] | None = (0, 1),
    signed: bool = False,
    colors=None,
    label: str = "",
    cell: float | tuple[float, float] = 0.36,
    note: str = "",
) -> Figure:
    """Matrices as colored cells: [row, column], {panel: …}, or {row of panels: {panel: …}}.

    number: a format such as ".2f", written into cells from `least` on. row_names, column_names: of
    every matrix; a text such as "L{}" counts. limits: of the colors, wider where a value lies
    outside 0 … 1; {row of panels: limits} gives each row its own, None takes the least and largest
    of all. signed: red above zero, blue below. label: of the color bar, without one there is none.
    cell: width (and height) of a cell in inches; where names have too little room, every second or
    third has one. NaN stays white.
    """
    tables = {
        row: {name: np.asarray(each) for name, each in some.items()}
        for row, some in nested(tables, 2).items()
    }
    every = [each for some in tables.values() for each in some.values()]
    row_names, column_names = (
        names if isinstance(names, str) else list(map(str, names))
        for names in (row_names, column_names)
    )
    for each in every:
        named = [
            n if isinstance(names, str) else len(names)
            for n, names in zip(each.shape, (row_names, column_names), strict=False)
        ]
        check_shape("a matrix", each.shape, named, "give [row, column], and a name for each")
    colors = colors or (SIGNED if signed else SHADES)
    if limits in (None, (0, 1)):
        low, high = min(map(np.nanmin, every)), max(map(np.nanmax, every))
        if signed:
            low, high = -max(-low, high), max(-low, high)
        if signed or limits is None or low < -0.01 or high > 1.01:
            limits = low, high
    wide, tall = cell if isinstance(cell, tuple) else (cell, cell)
    turned = not isinstance(column_names, str) and max(map(len, column_names)) > 10 * wide
    widths, heights, around = _inches(tables, row_names, column_names, (wide, tall), turned)
    figure, axes = panels(
        len(heights),
        len(widths),
        max(
            sum(widths)
            + len(widths) * (around[0] + 0.25 * bool(y_label))
            + 0.25
            + 0.9 * bool(label),
            3.6,
        ),
        sum(heights) + len(heights) * (around[1] + 0.2 * bool(x_label)),
        title=title,
        note=note,
        width_ratios=widths,
        height_ratios=heights,
    )
    for axis in axes.flat:
        axis.set_visible(False)
    for line, (row, some) in zip(axes, tables.items(), strict=True):
        white, full = limits[row] if isinstance(limits, Mapping) else limits
        for axis, (name, values) in zip(line, some.items(), strict=False):
            axis.set_visible(True)
            written = np.vectorize(lambda v: f"{v:{number}}" if v >= least else "", otypes=[object])
            has_rows = axis is line[0] or isinstance(row_names, str)
            sns.heatmap(
                values,
                vmin=white,
                vmax=full,
                cmap=colors,
                cbar=False,
                annot=written(values) if number else None,
                fmt="",
                annot_kws={"size": 9.5},
                linewidths=0.5 if number else 0,
                linecolor="0.9",
                rasterized=True,
                xticklabels=_labels(column_names, values.shape[1], wide),
                yticklabels=_labels(row_names, len(values), tall) if has_rows else [],
                ax=axis,
            )
            axis.set_aspect(tall / wide, anchor="NW")
            axis.tick_params(length=0, rotation=0)
            axis.tick_params(axis="x", rotation=90 if turned else 0)
            axis.spines[:].set(visible=True, color="0.8")
            axis.set_title(name, **TITLE)
            axis.set_xlabel(x_label)
        line[0].set_ylabel("\n".join(filter(None, (row, y_label))))
    if label:
        figure.colorbar(axes[0, 0].collections[0], ax=axes, label=label, aspect=30, fraction=0.03)
    return figure


def _inches(tables, row_names, column_names, cell, turned):
    """Widths of the columns of panels, heights of the rows, and the room for labels of each."""
    widths = [0.0] * max(map(len, tables.values()))
    for some in tables.values():
        for i, (name, each) in enumerate(some.items()):
            said = 0.085 * max(map(len, name.split("\n")))
            widths[i] = max(widths[i], cell[0] * each.shape[1], said)
    heights = [max(cell[1] * len(each) for each in some.values()) for some in tables.values()]
    longest = max(map(len, row_names)) if not isinstance(row_names, str) else 3 * bool(row_names)
    below = 0.075 * max(map(len, column_names)) if turned else 0.2 * bool(column_names)
    return widths, heights, (0.08 * longest + 0.17 * any(tables), 0.5 + below)


def _labels(names, n: int, room: float) -> list[str]:
    """Names of n rows or columns, not of all in too little room; a text such as "L{}" counts."""
    names = [names.format(i) for i in range(n)] if isinstance(names, str) and names else names
    every = math.ceil(0.14 / room)
    return [name if i % every == 0 else "" for i, name in enumerate(names)]


@as_typed
def attention_maps(patterns, tokens: Sequence[str], title: str, *, number="", note="") -> Figure:
    """Attention [query_pos, key_pos] between the tokens, of one head or of {name: a head's}.

    number: a format such as ".2f", to write weights that are not 0. Raises ValueError for another
    shape and for values outside 0 … 1, which would look like 0 or 1.
    """
    patterns = {name: pattern_of(each, tokens) for name, each in nested(patterns, 1).items()}
    names = list(map(shown, tokens))
    each = min(0.36, 7 / len(names)) if len(patterns) == 1 else min(0.3, 3 / len(names))
    return grids(
        patterns,
        title,
        number=number,
        least=0.001,
        row_names=names,
        column_names=names,
        x_label="attended to (key)",
        y_label="attends (query)",
        label="" if number else "attention weight",
        cell=(0.72, 0.6) if number else each,
        note=note,
    )
