"""Drawings of notebook 22: words before and after a norm."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from aot_helpers.showing.diagrams import PALE, VALUE
from aot_helpers.showing.forms import lines, shown


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
