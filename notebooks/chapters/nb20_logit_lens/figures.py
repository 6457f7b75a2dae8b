"""Figures of notebook 20: readings layer by layer, sums of heads, effects, patches."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing import plots, texts
from aot_helpers.showing.diagrams import INK, PALE, VALUE
from aot_helpers.showing.plots import name_points, shown


def short(token: str) -> str:
    """A token as a label of at most ten characters; what cannot be printed by its number."""
    text = "".join(c if c.isprintable() or c == "\n" else f"‹{ord(c):02x}›" for c in shown(token))
    return text if len(text) < 11 else text[:9] + "…"


def sum_of_heads(tops: Mapping[str, tuple[Sequence[str], Sequence[float]]], title: str) -> Figure:
    """Top tokens of heads and, last, of their sum: {name: (tokens, logits above their mean)}."""
    signs = ["", *["+ "] * (len(tops) - 2), "= "]
    rows = {
        sign + name: ([short(token) for token in tokens], logits)
        for sign, (name, (tokens, logits)) in zip(signs, tops.items(), strict=True)
    }
    most = max(logits[0] for _, logits in tops.values())
    note = "numbers: logits above their mean; ‹ce›: part of a character"
    return texts.token_rows(rows, title, shade=VALUE, most=most, number="+.1f", note=note)


def with_and_without(found: Mapping[str, Sequence[tuple[float, float]]], title: str) -> Figure:
    """How often vectors agree with their sum, and with the sum without them: a line for each model.

    found: {kind: [(with, without)]}: I_1 minus that with another prompt's sum.
    """
    data = {kind: ([0, 1], np.asarray(pairs)) for kind, pairs in found.items()}
    ticks = {0: "the head in the sum", 1: "left out of it"}
    look = {"x_ticks": ticks, "levels": {0: ""}, "width": 6.8, "height": 3.2}
    colors = dict(zip(found, (VALUE, PALE), strict=True))
    y_label = "same top token as the sum\n(less: as another prompt's sum)"
    figure = plots.lines(data, title, "", y_label, runs=True, colors=colors, **look)
    figure.axes[0].set_xlim(-0.2, 1.2)
    return figure


READING = "what the head adds to the logit itself\n(its reading)"
EFFECT = "what the logit loses\nwithout the head (its effect)"


def _panels(
    titles: Sequence[str], width: float, title: str, note: str
) -> tuple[Figure, np.ndarray]:
    """A figure, and a panel for each title: readings to the right, effects up, a line between."""
    note += "; dashed: reading = effect"
    look = {"title": title, "note": note, "sharex": True, "sharey": True}
    figure, axes = plots.panels(1, len(titles), width, 3.7, **look)
    for axis, each in zip(axes[0], titles, strict=True):
        axis.axline((0, 0), slope=1, color="0.6", lw=1, ls="--", zorder=0)
        axis.set_title(each, **plots.TITLE)
        axis.set_xlabel(READING)
    axes[0, 0].set_ylabel(EFFECT)
    return figure, axes[0]


def _name(axis, name: str, at: Sequence[float], step: Sequence[float], color: str, side="left"):
    """Write a name beside a point, so many points of type away from it."""
    look = {"size": 10.5, "weight": "bold", "va": "center", "ha": side}
    axis.annotate(name, at, step, textcoords="offset points", color=color, **look)


def readings_and_effects(
    effects: Mapping[Head, tuple[Sequence[float], Sequence[float]]],
    marked: Mapping[Head, str],
    title: str,
) -> Figure:
    """Each head's reading beside its effect, a dot a prompt, a panel a layer.

    marked: {head: color}; the other heads are gray.
    """
    layers = sorted({head.layer for head in effects})
    note = "a dot: one head in one of the prompts"
    figure, axes = _panels([f"layer {layer}" for layer in layers], 8.6, title, note)
    for head, both in effects.items():
        axis, color = axes[layers.index(head.layer)], marked.get(head, PALE)
        reading, effect = map(np.asarray, both)
        axis.scatter(reading, effect, s=22, alpha=0.7, lw=0, color=color)
        if head in marked:
            at = max(np.median(reading), 1.2), np.median(effect)
            _name(axis, str(head), at, (9, -10 * (head.layer > 0)), color)
    return figure


def heads_of_a_model(
    table: pandas.DataFrame, named: Mapping[str, str], title: str, n_panels: int = 3
) -> Figure:
    """Each head's "reading" beside its "effect", the layers in so many panels.

    table: a row for each head, such as "L23H4". named: {head: color}; the others are gray.
    """
    layers = [Head.parse(name).layer for name in table.index]
    each = (max(layers) + 1) // n_panels
    titles = [f"layers {i * each} to {(i + 1) * each - 1}" for i in range(n_panels)]
    figure, axes = _panels(titles, 10, title, "a dot: one head")
    for i, axis in enumerate(axes):
        inside = table[[layer // each == i for layer in layers]]
        colors = [named.get(name, PALE) for name in inside.index]
        axis.scatter(inside["reading"], inside["effect"], s=30, alpha=0.85, lw=0, c=colors)
        for name, *at in inside[["reading", "effect"]].itertuples():
            if name in named:
                side, step = ("left", 7) if at[0] < 2 else ("right", -7)
                _name(axis, name, at, (step, 0), named[name], side)
    axes[0].margins(0.1)
    return figure


def capitals(
    answers: Sequence[str], reading: Sequence[float], effect: Sequence[float], title: str
) -> Figure:
    """One head's reading beside its effect, a dot for each answer: the ends and Oslo are named."""
    x, y = np.asarray(reading), np.asarray(effect)
    figure, ((axis,),) = plots.panels(1, 1, 6.4, 4.2, title=title, note="dashed: reading = effect")
    axis.axline((0, 0), slope=1, color="0.6", lw=1, ls="--", zorder=0)
    axis.scatter(x, y, s=36, alpha=0.85, lw=0, color=VALUE)
    axis.set(xlabel=READING, ylabel=EFFECT, xlim=(0, 1.1 * x.max()), ylim=(0, 1.1 * y.max()))
    figure.draw_without_rendering()
    named = {x.argmin(), y.argmin(), y.argmax(), answers.index(" Oslo")}
    name_points(axis, {shown(answers[i]): (x[i], y[i], INK) for i in sorted(named)})
    return figure
