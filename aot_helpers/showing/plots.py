"""Arrays and labels to one matplotlib figure each; the notebook shows or saves it."""

import math

import numpy as np
import seaborn as sns
from matplotlib.figure import Figure

from aot_helpers.base.errors import check_shape
from aot_helpers.showing.diagrams import SHADES, as_typed
from aot_helpers.showing.forms import grids, lines
from aot_helpers.showing.forms import points as named_points
from aot_helpers.showing.panels import SMALL, as_array, panels, pattern_of, shown

COLORS = sns.color_palette("colorblind")


def _figure(width: float, height: float, columns: int = 1):
    figure, axes = panels(1, columns, width, height, title="")
    return figure, list(axes[0])


def attention_map(pattern, tokens, title="") -> Figure:
    """One head's attention [query_pos, key_pos]: rows attend, columns are attended to, 0 to 1."""
    width = min(max(3.2, 0.2 * len(tokens) + 1.2), 9) + 0.8
    height = min(max(2.4, 0.2 * len(tokens) + 1.4), 9)
    return attention_maps([pattern], tokens, [title], (width, height))


@as_typed
def attention_maps(patterns, tokens, titles, each=(3.1, 3.3)) -> Figure:
    """Several heads side by side: patterns [head, query_pos, key_pos]; each so many inches."""
    width, height = each
    figure, axes = _figure(width * len(titles), height, len(titles))
    for axis, pattern, title in zip(axes, patterns, titles, strict=True):
        axis.imshow(pattern_of(pattern, tokens), cmap=SHADES, vmin=0, vmax=1, aspect="auto")
        for set_ticks, room, turn in (axis.set_xticks, width, 90), (axis.set_yticks, height, 0):
            every = math.ceil(0.16 * len(tokens) / room)  # in too little room, not all have labels
            labels = [shown(token) for token in tokens[::every]]
            set_ticks(range(0, len(tokens), every), labels, rotation=turn, fontsize=SMALL)
        axis.set(xlabel="attended to (key)", ylabel="attends (query)", title=title)
    figure.colorbar(axes[-1].images[0], ax=axes, label="attention weight", shrink=0.8)
    return figure


def matrix(
    values, rows, columns, title, label, x_label="", y_label="", signed=False, numbers=False
) -> Figure:
    """A labeled matrix with a color bar; signed centers the colors on zero.

    rows, columns: their labels. numbers: write each number into its cell.
    """
    values = as_array(values)
    check_shape("values", values.shape, (len(rows), len(columns)), "a row and column for each name")
    scale = _scale([values], signed)
    return grids(
        {"": {"": values}},
        title,
        number=".2f" if numbers else "",
        row_names=list(map(str, rows)),
        column_names=list(map(str, columns)),
        x_label=x_label,
        y_label=y_label,
        limits=(scale["vmin"], scale["vmax"]),
        colors=scale["cmap"],
        label=label,
        cell=(0.44 if numbers else 0.34, 0.28),
    )


@as_typed
def maps(
    values, titles, label, x_label="", y_label="", names=None, signed=False, own_scales=False
) -> Figure:
    """Matrices [row, column] side by side; names label rows and columns ("": no label).

    They share one color scale; with own_scales each has its own, and a color bar.
    """
    values = [as_array(each) for each in values]
    for each in values:
        check_shape("a map", each.shape[2:], (), "give matrices [row, column]; more are colors")
    figure, axes = _figure((4.2 if own_scales else 3.4) * len(titles), 3.5, len(titles))
    ticks = {i: name for i, name in enumerate(names or []) if name}
    for axis, each, title in zip(axes, values, titles, strict=True):
        image = axis.imshow(each, **_scale([each] if own_scales else values, signed))
        axis.set(title=title, xlabel=x_label, ylabel=y_label)
        if own_scales:
            figure.colorbar(image, ax=axis, label=label, shrink=0.8)
        if ticks:
            axis.set_xticks(list(ticks), ticks.values(), rotation=90, fontsize=SMALL)
            axis.set_yticks(list(ticks), ticks.values(), fontsize=SMALL)
    if not own_scales:
        figure.colorbar(axes[-1].images[0], ax=axes, label=label, shrink=0.8)
    return figure


def _scale(matrices, signed: bool) -> dict:
    """The one color scale of these matrices, for imshow."""
    low, high = min(map(np.nanmin, matrices)), max(map(np.nanmax, matrices))
    if signed:
        low, high = -max(-low, high), max(-low, high)
    return {"cmap": "RdBu_r" if signed else "cividis", "vmin": low, "vmax": high}


def loss_curves(
    curves: dict,
    baselines: dict[str, float],
    title: str,
    x_label: str = "training step",
    y_label: str = "loss (nats per token)",
    x_ticks: dict[float, str] | None = None,
    y_from_zero: bool = False,
) -> Figure:
    """{name: values, or (x, values)} as lines, {name: value} as dashed horizontals."""
    data = {
        name: values if isinstance(values, tuple) else (range(1, len(values) + 1), values)
        for name, values in curves.items()
    }
    return lines(
        {"": data},
        title,
        x_label,
        y_label,
        levels={value: f"{name}: {value:.2f}" for name, value in baselines.items()},
        marker="",
        x_ticks=x_ticks,
        y_range=(0, None) if y_from_zero else None,
    )


def seed_curves(panels: dict[str, dict], x_label: str, y_label: str, x_range=None) -> Figure:
    """Curves of several runs, in panels side by side: the median as a line, the range as a band.

    panels: {title: {name: (x, values [run, x])}}. A name has the same color in every panel.
    """
    width = 3.3 * len(panels) + 1.5
    figure = lines(panels, "", x_label, y_label, marker="", shared=False, width=width, height=3.1)
    for axis in figure.axes:
        axis.set_xlim(x_range, auto=x_range is None)
    return figure


def scatter(points: dict, title, x_label, y_label, diagonal=False, complex_plane=False) -> Figure:
    """{name: (x, y)} as dots, a color each; diagonal draws the line y = x.

    complex_plane: equal scales: real parts across, imaginary parts up. Thin lines mark zero where
    it lies inside the figure.
    """
    data = {"": points}
    figure = named_points(
        data, title, x_label, y_label, diagonal=diagonal, equal=complex_plane, width=6, height=4
    )
    (axis,) = figure.axes
    for low, high, line in [(*axis.get_xlim(), axis.axvline), (*axis.get_ylim(), axis.axhline)]:
        if low < 0 < high:
            line(0, color="0.7", lw=0.8, zorder=0)
    return figure


@as_typed
def token_losses(losses, tokens: list[str], title: str, other=None, names=("", "")) -> Figure:
    """A bar for the loss of each token, and a second series of bars beside it if given."""
    figure, (axis,) = _figure(min(max(6, 0.24 * len(tokens) + 1), 10), 2.9)
    at = np.arange(len(tokens))
    if other is None:
        axis.bar(at, as_array(losses), 0.8, color=COLORS[0])
    else:
        axis.bar(at - 0.2, as_array(losses), 0.4, color=COLORS[0], label=names[0])
        axis.bar(at + 0.2, as_array(other), 0.4, color=COLORS[1], label=names[1])
        axis.legend(fontsize=SMALL, frameon=False)
    axis.set_xticks(at, [shown(t) for t in tokens], rotation=90, fontsize=SMALL)
    axis.set(ylabel="loss (nats)", title=title, xlim=(-0.7, len(tokens) - 0.3))
    return figure


@as_typed
def bars(
    values: dict[str, float], title: str, label: str, floor=None, floor_name="", spreads=None
) -> Figure:
    """Named numbers as horizontal bars, each with its value; floor is a dashed null or baseline.

    spreads: {name: (low, high)} drawn as a thin line over the bar, such as the range over seeds.
    """
    figure, (axis,) = _figure(7, 0.34 * len(values) + 1.3)
    spreads = spreads or {}
    names, widths = list(values), np.asarray(list(values.values()), dtype=float)
    ends = [spreads.get(name, (value, value)) for name, value in values.items()]
    error = np.abs(np.asarray(ends) - widths[:, None]).T if spreads else None
    drawn = axis.barh(names, widths, color=COLORS[0], xerr=error, ecolor="0.2", capsize=2)
    labels = {name: f"{value:.3g}" for name, value in values.items()}
    for name, (low, high) in spreads.items():
        labels[name] += f"  ({low:.3g} to {high:.3g})"
    axis.bar_label(drawn, labels.values(), padding=3, fontsize=SMALL)
    if floor is not None:
        axis.axvline(floor, color="0.3", ls="--", lw=1, label=f"{floor_name}: {floor:.3g}")
        figure.legend(fontsize=SMALL, frameon=False, loc="outside lower center")
    axis.invert_yaxis()
    axis.margins(x=(0.25 if spreads else 0.12) + (0.2 if widths.min() < 0 else 0))  # for the labels
    axis.set(xlabel=label, title=title)
    return figure
