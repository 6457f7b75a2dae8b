"""Drawings of notebook 22: active neurons, words before and after a norm, a circuit of roles."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing.diagrams import (
    INK,
    KEY,
    PALE,
    QUERY,
    SHARE,
    VALUE,
    arrow,
    canvas,
    headline,
    say,
    word,
)
from aot_helpers.showing.forms import dots, lines, panels, points, shown


def active_neurons(hidden, names: Sequence[str], title: str, marked: Sequence[str] = ()) -> Figure:
    """How active some neurons are in each passage: activations [neuron, passage], by size."""
    size = np.abs(np.asarray(hidden))
    figure, ((axis,),) = panels(1, 1, 8.4, 0.2 * len(names) + 0.5, title=title)
    image = axis.imshow(size, cmap="magma", aspect="auto", vmax=np.quantile(size, 0.995))
    figure.colorbar(image, ax=axis, extend="max", label="activation, by size")
    axis.set_yticks(range(len(names)), names)
    for label in axis.get_yticklabels():
        if label.get_text() in marked:
            label.set(color=QUERY, weight="bold")
    axis.set_xticks([])
    axis.set_xlabel(f"{size.shape[1]} passages, each at its last token")
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


def against_reading(adds, rank, names: Sequence[str], title: str) -> Figure:
    """What each head adds, against how high the name stands in its reading: both [layer, head].

    names: heads to name, such as "L2H3".
    """
    adds, rank = np.asarray(adds), np.asarray(rank) + 1
    named = {name: (rank[at], adds[at]) for name in names for at in [Head.parse(name)]}
    raising, lowering = ([xy for xy in named.values() if (xy[1] > 0) == up] for up in (True, False))
    groups = {"all heads": (rank, adds), "named, and add": tuple(zip(*raising, strict=True))}
    groups["named, and take"] = tuple(zip(*lowering, strict=True))
    figure = points(
        {"": groups}, title, "median rank of the name in what the head writes (1: first)",
        "adds, share of the logit difference", names={"": named}, x_log=True, levels={0: ""},
        colors=dict(zip(groups, (PALE, QUERY, KEY), strict=True)), width=7.2,
    )  # fmt: skip
    figure.axes[0].axvspan(0.8, 5.5, color=SHARE, alpha=0.12, lw=0)
    return figure


def patches(rows: Mapping[str, Mapping[str, object]], title: str) -> Figure:
    """What a logit difference loses, as shares: {row: {"patched": one, others: several}}."""
    series = dict.fromkeys(name for row in rows.values() for name in row)
    return dots(
        {"": rows}, title, "share of the logit difference that is lost", number=".2f",
        colors=dict(zip(series, (QUERY, PALE), strict=True)),
        levels={0: "nothing lost", 1: "all lost"},
    )  # fmt: skip


# Where each role of the circuit stands: (x, y), its color, and the role's name in words. Gray
# boxes are found by where their heads look alone.
ROLES = {
    "previous": (2.6, 2.9, PALE, "previous token"),
    "duplicate": (5.2, 3.45, PALE, "duplicate token"),
    "induction": (5.2, 2.35, PALE, "induction"),
    "s_inhibition": (7.85, 2.9, QUERY, "S-inhibition"),
    "suppress": (10.6, 4.15, QUERY, "suppress John"),
    "movers": (10.6, 3.2, VALUE, "name movers"),
    "backup": (10.6, 2.25, SHARE, "backup heads"),
    "negative": (10.6, 1.3, KEY, "negative movers"),
}
FLOWS = (
    ("previous", "induction"), ("induction", "s_inhibition"), ("duplicate", "s_inhibition"),
    ("s_inhibition", "movers"), ("s_inhibition", "negative"), ("s_inhibition", "backup"),
)  # fmt: skip
PATCHED = ("s_inhibition", "movers")  # the one arrow along which outputs were held


def circuit(heads: Mapping[str, Sequence[str]], title: str, said: str, most: int = 3) -> Figure:
    """The roles of Wang et al. 2022 as a diagram, with the heads of a model that fill them.

    said: what was tested of it, and what was not; it stands below.
    """
    figure, axis = canvas(10.4, 4.75, 12.4)
    places = {"Mary": 0.75, "John": 2.6, "John again": 5.2, "to": 8.9}
    for (token, x), name in zip(places.items(), ("IO", "S1", "S2", "end"), strict=True):
        word(axis, x, 4.85, token, width=0.35 + 0.14 * len(token), height=0.42, size=10.5)
        say(axis, x, 4.48, name, PALE, size=9)
    for start, end in FLOWS:
        (x0, y0, *_), (x1, y1, *_) = ROLES[start], ROLES[end]
        strong = {"color": INK, "width": 2.2} if (start, end) == PATCHED else {"color": "#B5B5B5"}
        arrow(axis, (x0 + 1.1, y0), (x1 - 1.12, y1), **strong)
    for role, (x, y, color, does) in ROLES.items():
        names = [str(head) for head in heads.get(role, ())]
        text = ", ".join(names[:most]) + (f" +{len(names) - most}" if len(names) > most else "")
        word(axis, x, y, "", color=color, width=2.2, height=0.8)
        say(axis, x, y + 0.18, does, color, size=9.5, weight="bold")
        say(axis, x, y - 0.17, text or "none found", INK if names else PALE, size=9)
    _looks_from_the_end(axis)
    say(axis, 0.1, 0.2, said, PALE, size=9, ha="left")
    return headline(figure, title)


def _looks_from_the_end(axis):
    """Purple lines: the names that heads look at from "to"."""
    look = {"color": SHARE, "alpha": 0.7, "width": 1.5}
    ends = (((5.6, 4.3), (9.47, 4.22)), ((5.6, 4.3), (7.3, 3.33)))
    ends += tuple(((12.0, y), (11.73, y)) for y in (1.3, 3.2))
    for start, end in ends:
        arrow(axis, start, end, **look)
    axis.plot((0.75, 0.75, 12.0, 12.0), (4.3, 0.75, 0.75, 3.2), color=SHARE, lw=1.5, alpha=0.7)
    say(axis, 5.2, 0.55, "purple: where heads look from 'to'", SHARE, size=9.5)
