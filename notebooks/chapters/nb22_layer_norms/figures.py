"""Drawings of notebook 22: a norm step by step, words before and after it."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from aot_helpers.showing.diagrams import INK, PALE, VALUE
from aot_helpers.showing.forms import SMALL, TITLE, lines, panels, shown


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


def words_moved(
    moved: Mapping[str, Sequence[tuple[str, float, float, bool]]], title: str
) -> Figure:
    """Mean probabilities before and after a norm: {panel: (token, before, after, is function)}."""
    curves = {
        panel: {shown(token): ((0, 1), (before, after)) for token, before, after, _ in rows}
        for panel, rows in moved.items()
    }
    colors = {
        shown(token): PALE if function else VALUE
        for rows in moved.values()
        for token, *_, function in rows
    }
    figure = lines(
        curves, title, "", "mean probability", colors=colors, y_log=True, shared=False, width=8.6,
        x_ticks={0: "before", 1: "after"}, note="gray: function words", height=3.0,
    )  # fmt: skip
    figure.draw_without_rendering()  # lays out anew, with room for the names
    return figure
