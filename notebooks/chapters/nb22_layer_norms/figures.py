"""Drawings of notebook 22: a norm step by step, words before and after it."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from aot_helpers.showing.diagrams import INK, PALE, SHARE, VALUE
from aot_helpers.showing.forms import SMALL, TITLE, lines, panels, shown
from aot_helpers.showing.panels import spread


def learned(norms: Mapping[str, nn.Module], title: str) -> Figure:
    """Every gain (less 1) and bias of some norms, {name: norm}, one row each."""
    tables = {
        "gain − 1": torch.stack([norm.weight.detach() - 1 for norm in norms.values()]),
        "bias": torch.stack([norm.bias.detach() for norm in norms.values()]),
    }
    figure, axes = panels(1, 2, 9.6, 2.5, title=title, sharey=True)
    for axis, (name, table) in zip(axes[0], tables.items(), strict=True):
        image = axis.imshow(table.numpy(), cmap="PuOr", vmin=-1, vmax=1, aspect="auto",
                            interpolation="nearest")  # fmt: skip
        axis.set_title(name, **TITLE)
        axis.set(xlabel=f"entry of the stream (0 to {table.shape[1] - 1})")
        axis.tick_params(length=0)
    axes[0, 0].set_yticks(range(len(norms)), list(norms))
    figure.colorbar(image, ax=axes, aspect=20, fraction=0.03, extend="both")
    return figure


def steps(rows: Mapping[str, Mapping[str, Sequence[float]]], title: str) -> Figure:
    """The entries of vectors after each step, as bars: {vector: {step: entries}}."""
    n_steps = len(next(iter(rows.values())))
    figure, axes = panels(len(rows), n_steps, 8.8, 1.5 * len(rows), title=title, sharey=True)
    for at, (name, found) in enumerate(rows.items()):
        for axis, (step, entries) in zip(axes[at], found.items(), strict=True):
            bars = axis.bar(range(len(entries)), entries, color=PALE)
            axis.bar_label(bars, fmt="{:.2g}", size=SMALL, padding=1)
            axis.axhline(0, color=INK, lw=0.8)
            axis.set_xticks([])
            axis.margins(y=0.2)
            if at == 0:
                axis.set_title(step, **TITLE)
        axes[at, 0].set_ylabel(f"entries of {name}")
    return figure


def growth(own: Mapping[str, Tensor], constant: Mapping[str, Tensor], title: str) -> Figure:
    """The median length of the stream before each norm, {norm: sigma [text, pos]}, BOS apart."""
    places, data = range(len(own)), {}
    ways = {"each token divided by its own σ": own, "all divided by a constant": constant}
    for panel, lengths in ways.items():
        bos = [each[:, 0].median().item() for each in lengths.values()]
        others = [each[:, 1:].median().item() for each in lengths.values()]
        data[panel] = {"BOS": (places, bos), "other tokens": (places, others)}
    ticks = {i: name.replace("layer ", "L").replace(" ", "\n") for i, name in enumerate(own)}
    hues = {"BOS": SHARE, "other tokens": PALE}
    y_label = "σ of the stream before the norm"
    return lines(data, title, "norm", y_label, colors=hues, x_ticks=ticks, width=10.2)


def words_moved(
    moved: Mapping[str, Sequence[tuple[str, float, float, bool]]], title: str
) -> Figure:
    """Mean probabilities before and after a norm: {panel: (token, before, after, is function)}.

    The names stand where the lines begin, so that two figures of one `before` have one order.
    """
    note = "gray: function words; green: other tokens"
    figure, axes = panels(1, len(moved), 8.6, 3.6, title=title, note=note, sharey=True)
    for axis, (panel, rows) in zip(axes[0], moved.items(), strict=True):
        for _, before, after, function in rows:
            axis.plot((0, 1), (before, after), color=PALE if function else VALUE, marker="o",
                      ms=4, lw=2)  # fmt: skip
        axis.set(yscale="log", xlim=(-0.55, 1.08))
        axis.margins(y=0.2)
        axis.set_xticks((0, 1), ("before", "after"))
        axis.set_title(panel, **TITLE)
    axes[0, 0].set_ylabel("mean probability")
    figure.draw_without_rendering()  # so that heights are known
    for axis, rows in zip(axes[0], moved.values(), strict=True):
        at = [axis.transData.transform((0, row[1]))[1] * 72 / figure.dpi for row in rows]
        for (token, before, _, function), here, there in zip(
            rows, at, spread(at, 12.5), strict=True
        ):
            axis.annotate(
                shown(token) if token.strip("_") else "underscore",  # else a mere line
                (0, before), (-22, there - here), textcoords="offset points",
                ha="right", va="center", size=9.5, color=PALE if function else VALUE,
                weight="normal" if function else "bold",
                arrowprops={"arrowstyle": "-", "color": "0.75", "lw": 0.7, "shrinkA": 1},
            )  # fmt: skip
    return figure
