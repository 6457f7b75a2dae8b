"""Drawings of notebook 24: prompts with roles, contributions, patches, hypotheses, a circuit."""

import re
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from aot_helpers.showing.diagrams import (
    DPI,
    INK,
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
from aot_helpers.showing.plots import SMALL  # and its style

WRONG, THIRD = "#C2185B", "#8C6D1F"  # the name that should not come; a third name
CELLS = LinearSegmentedColormap.from_list("falls", ["#7FB8D8", "white", "#F0B48A"])


def roles(text: str, marks: Sequence[tuple[str, str, str]], title: str, said: str) -> Figure:
    """One prompt as boxes of words, with what the marked ones are.

    marks: (word, role, color), in the order of the text. said: the guess, drawn behind an arrow.
    """
    words, left = text.split(), list(marks)
    widths = [0.28 + 0.118 * len(each) for each in words]
    figure, axis = canvas(sum(widths) + 0.07 * len(words) + 1.75, 1.75)
    x = 0.15
    for each, width in zip(words, widths, strict=True):
        bare = each.strip(",.")
        role, color = left.pop(0)[1:] if left and left[0][0] == bare else ("", PALE)
        fill = "white" if role else "#F4F4F4"
        word(axis, x + width / 2, 0.75, each, color, fill=fill, width=width, height=0.42, size=11.5)
        say(axis, x + width / 2, 0.33, role, color, size=11, weight="bold")
        x += width + 0.07
    arrow(axis, (x + 0.02, 0.75), (x + 0.42, 0.75), VALUE, width=1.8)
    say(axis, x + 0.52, 0.75, said, VALUE, size=13, ha="left", weight="bold")
    return headline(figure, title)


def contributions(
    rows: Mapping[str, tuple[float, float, float]], names: tuple[str, str], title: str
) -> Figure:
    """What each part adds to the logits of two names and to their difference: diverging bars.

    rows: {part: (to the first name, to the second, to the difference)}, from the top; NaN is left
    out.
    """
    at, values = np.arange(len(rows)), np.asarray([*rows.values()])
    size = (9.2, 0.36 * len(rows) + 1.5)
    figure, axes = plt.subplots(1, 2, figsize=size, dpi=DPI, sharex=True, sharey=True)
    bottom, top = 0.55 / size[1], 1 - 0.8 / size[1]
    figure.subplots_adjust(1.7 / size[0], bottom, 0.98, top, wspace=0.07)
    look = {"va": "bottom", "fontsize": 10, "weight": "bold"}
    for i, (name, color) in enumerate(zip(names, (VALUE, WRONG), strict=True)):
        axes[0].barh(at - 0.19 + 0.38 * i, values[:, i], 0.36, color=color)
        place = {"transform": axes[0].transAxes, "color": color}
        axes[0].text(0.02 + 0.5 * i, 1.02, f"to the logit of {name}", **place, **look)
    axes[1].barh(at, values[:, 2], 0.62, color="#8A8F98")
    said = f"to the difference, {names[0]} − {names[1]}"
    axes[1].text(0.02, 1.02, said, transform=axes[1].transAxes, color=INK, **look)
    for y, gap in zip(at, values[:, 2], strict=True):
        side = {"va": "center", "fontsize": 10, "ha": "left" if gap >= 0 else "right"}
        away = {"xytext": (4 if gap >= 0 else -4, 0), "textcoords": "offset points"}
        axes[1].annotate(f"{gap:+.2f}", (gap, y), **away, **side)
    for axis in axes:
        axis.axvline(0, color="0.4", lw=0.9)
        axis.set(xlabel="logits", ylim=(len(rows) - 0.4, -0.6))
        axis.tick_params(axis="y", length=0)
    axes[0].set(xlim=(np.nanmin(values) - 0.6, np.nanmax(values) + 1.0))
    axes[0].set_yticks(at, list(rows), fontsize=10)
    return headline(figure, title)


def patches(
    falls: Mapping[str, Mapping[str, float]],
    others: Mapping[str, Mapping[str, Sequence[float]]],
    whole: float,
    title: str,
) -> Figure:
    """A table of what a logit difference loses: {heads: {where the output comes from: logits}}.

    others: the same of other heads, where measured; their range stands below the number.
    """
    ways = list(next(iter(falls.values())))
    height, wide, first = 0.62, 2.1, 2.35
    figure, axis = canvas(first + wide * len(ways) + 0.3, 0.78 * len(falls) + 1.1)
    norm = TwoSlopeNorm(0, -whole, whole)
    top = 0.78 * len(falls) + 0.25
    for j, way in enumerate(ways):
        say(axis, first + (j + 0.5) * wide, top + 0.2, way, size=10.5, weight="bold")
    for i, (who, row) in enumerate(falls.items()):
        y = top - 0.45 - 0.78 * i
        say(axis, first - 0.15, y, who, size=11, ha="right", weight="bold")
        for j, way in enumerate(ways):
            corner = (first + j * wide + 0.04, y - height / 2)
            look = {"fc": CELLS(norm(row[way])), "ec": "0.82", "lw": 1}
            axis.add_patch(Rectangle(corner, wide - 0.08, height, **look))
            some = others.get(who, {}).get(way, ())
            middle = first + (j + 0.5) * wide
            say(axis, middle, y + (0.11 if some else 0), f"{row[way]:+.2f}", size=12.5)
            if some:
                span = f"others {min(some):+.2f} to {max(some):+.2f}"
                say(axis, middle, y - 0.17, span, "0.35", size=9)
    return headline(figure, title)


def hypotheses(
    rows: Sequence[tuple[str, str, Sequence[str], Sequence[float], Sequence[Sequence[float]]]],
    heads: Sequence[str],
    title: str,
    properties: Sequence[str] = ("twice", "last", "subject"),
) -> Figure:
    """Prompts with one name marked, what is true of it, and how far each set of heads lowers it.

    rows: (prompt, the marked name, its properties, a number for each of `heads`, controls). The
    last mention of the name is marked.
    """
    size = (9.4, 0.52 * len(rows) + 1.75)
    figure = plt.figure(figsize=size, dpi=DPI)
    bottom, height = 0.72 / size[1], 0.52 * len(rows) / size[1]
    words = figure.add_axes((0, bottom, 0.52, height))
    words.set(xlim=(0, 0.52 * size[0]), ylim=(len(rows) - 0.5, -0.5))
    words.axis("off")
    most = max(max(row[3]) for row in rows) * 1.45
    for said, x in zip(properties, (2.95, 3.62, 4.36), strict=True):
        say(words, x, -0.8, said, "0.25", size=10, clip_on=False)
        for y, row in enumerate(rows):
            fill = INK if said in row[2] else "white"
            words.scatter(x, y, s=60, color=fill, edgecolor="0.55", lw=1, zorder=3)
    for y, (prompt, name, *_) in enumerate(rows):
        _marked(words, 0.15, y, prompt, name)
    for k, who in enumerate(heads):
        axis = figure.add_axes((0.535 + 0.235 * k, bottom, 0.215, height))
        values, color = [row[3][k] for row in rows], (QUERY, SHARE)[k]
        axis.barh(range(len(rows)), values, 0.46, color=color)
        for y, row in enumerate(rows):
            axis.scatter(row[4][k], [y + 0.36] * len(row[4][k]), s=10, color="0.6", zorder=3)
            axis.annotate(f"{values[y]:+.1f}", (max(values[y], 0), y), (4, 0), va="center",
                          textcoords="offset points", fontsize=10)  # fmt: skip
        axis.axvline(0, color="0.4", lw=0.9)
        axis.set(ylim=(len(rows) - 0.5, -0.5), xlim=(-1.9, most), yticks=[])
        axis.set_xlabel("lowers the name by (logits)")
        axis.set_title(who, size=10.5, color=color, weight="bold", pad=9)
    said = "red: the name that is lowered; gray dots: three other heads or pairs of heads"
    figure.text(0.015, 0.16 / size[1], said, fontsize=SMALL, color="0.35", va="center")
    return headline(figure, title)


def _marked(axis, x: float, y: float, prompt: str, name: str) -> None:
    """A prompt in a font of one width, the last mention of the name in color."""
    at = prompt.rfind(name)
    look = {"va": "center", "fontsize": 10, "family": "DejaVu Sans Mono"}
    blank = re.sub(r"[^\n]", " ", prompt)
    axis.text(x, y, prompt[:at] + " " * len(name) + prompt[at + len(name) :], color="0.4", **look)
    shown = blank[:at] + name + blank[at + len(name) :]
    axis.text(x, y, shown, color=WRONG, weight="bold", **look)


def proportional(
    panels: Mapping[str, Sequence[tuple[float, float, str, bool, bool]]],
    slopes: Sequence[float],
    title: str,
) -> Figure:
    """How far heads lower a name against their attention to it, with a line of this slope.

    panels: {heads: (attention, logits, a label, came twice, measured later)}; later ones are rings.
    """
    size = (9.6, 3.9)
    figure, axes = plt.subplots(1, len(panels), figsize=size, dpi=DPI, sharey=True)
    figure.subplots_adjust(0.06, 0.14, 0.985, 0.775, wspace=0.06)
    top = max(point[1] for each in panels.values() for point in each) * 1.22
    for axis, (who, points), slope in zip(axes, panels.items(), slopes, strict=True):
        right = max(point[0] for point in points) * 1.2
        axis.plot((0, right), (0, slope * right), color="0.7", lw=1.2, ls="--", zorder=0)
        axis.axhline(0, color="0.7", lw=0.8, zorder=0)
        for x, y, label, twice, later in points:
            color = WRONG if twice else THIRD
            axis.scatter(x, y, s=52, color="white" if later else color, edgecolor=color, lw=1.8)
            away, ha = ((0, 9), "center") if x > 0.8 * right or y < 1 else ((-8, 5), "right")
            axis.annotate(label, (x, y), away, textcoords="offset points", ha=ha,
                          fontsize=9.5, color=color)  # fmt: skip
        axis.set(xlim=(0, right), ylim=(-0.6, top), xlabel="attention weight, end to the name")
        axis.set_title(who, size=10.5, weight="bold")
    axes[0].set_ylabel("lowers the name by (logits)")
    rings = "(rings: predicted before they were measured)"
    legend = (0.012, "came twice", WRONG), (0.125, "came once", THIRD), (0.235, rings, "0.35")
    for x, said, color in legend:
        figure.text(x, 0.885, said, color=color, fontsize=10)
    return headline(figure, title)


def circuit(edges: Mapping[str, str], boxes: Mapping[str, tuple[str, str]], title: str) -> Figure:
    """What was tested (solid arrows, with their numbers), and what was not (dotted).

    edges: the labels of the arrows "movers", "unknown", "suppress", "negative" and "tell".
    boxes: {role: (heads, what they do)} of "early", "tell", "movers", "unknown", "negative" and
    "suppress".
    """
    figure, axis = canvas(10.6, 5.75)
    names = ((4.1, "Mary (IO)", VALUE), (3.05, "John (S1)", WRONG), (1.35, "John (S2)", WRONG))
    for y, name, color in names:
        word(axis, 0.85, y, name, color, width=1.3, height=0.44, size=10.5)
    drawn = (
        (3.05, 2.75, PALE, *boxes["early"]),
        (5.35, 2.75, SHARE, *boxes["tell"]),
        (7.65, 4.1, VALUE, *boxes["movers"]),
        (7.65, 3.0, PALE, *boxes["unknown"]),
        (7.65, 4.95, THIRD, *boxes["negative"]),
        (5.35, 1.15, QUERY, *boxes["suppress"]),
        (9.85, 3.0, INK, "logit of Mary", "− logit of John"),
    )
    for x, y, color, name, said in drawn:
        word(axis, x, y, "", color, width=1.3 if x > 9 else 1.9, height=0.72)
        say(axis, x, y + 0.15, name, color, size=10, weight="bold")
        say(axis, x, y - 0.16, said, INK, size=9.5)
    for start, end in (((1.5, 3.0), (2.1, 2.85)), ((1.2, 1.57), (2.7, 2.38)),
                       ((4.0, 2.75), (4.4, 2.75)), ((8.6, 3.0), (9.2, 3.0))):  # fmt: skip
        _edge(axis, start, end, dotted=True)
    for start, end in (((1.5, 4.1), (6.7, 4.1)), ((1.5, 4.2), (6.7, 4.9)),
                       ((1.5, 1.5), (4.55, 2.39)), ((1.5, 1.25), (4.4, 1.15))):  # fmt: skip
        arrow(axis, start, end, SHARE, alpha=0.75, width=1.3)
    _edge(axis, (6.3, 2.95), (6.85, 3.74), edges["movers"], (6.42, 3.5))
    _edge(axis, (6.3, 2.8), (6.7, 2.95), edges["unknown"], (6.55, 2.62))
    _edge(axis, (8.6, 4.05), (9.5, 3.36))
    _edge(axis, (8.6, 4.85), (9.8, 3.36), edges["negative"], (9.5, 4.3))
    _edge(axis, (6.3, 1.2), (9.65, 2.64), edges["suppress"], (8.1, 1.72))
    axis.plot((5.35, 5.35), (2.37, 1.53), color="0.6", lw=1.2)
    say(axis, 5.35, 1.95, "✕", WRONG, size=16, weight="bold")
    say(axis, 5.55, 1.95, edges["tell"], "0.35", size=9.5, ha="left")
    said = (
        (0.2, "solid: tested by patching (effect in logits)", INK),
        (4.95, "purple: attends to", SHARE),
        (6.75, "dotted: not tested", "0.45"),
    )
    for x, text, color in said:
        say(axis, x, 0.3, text, color, size=10, ha="left")
    return headline(figure, title)


def _edge(axis, start, end, said="", at=(0, 0), dotted=False) -> None:
    if dotted:
        look = {"arrowstyle": "-|>", "linestyle": (0, (1, 2)), "color": "0.5", "lw": 1.5}
        axis.annotate("", end, start, arrowprops=look)
    else:
        arrow(axis, start, end, INK, width=1.8)
    if said:
        say(axis, *at, said, INK, size=10)
