"""Drawings of notebook 02: maps of words, pairs of tokens, reordered texts, positions."""

import math

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch, Rectangle
from matplotlib.transforms import Bbox

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE, VALUE

GROUND = "#EEF0F2"


def word_map(panels: dict, groups: dict, follow: list[str], title: str, axes_names) -> Figure:
    """Words as points, a panel for each moment, all on the same two axes.

    panels: {name: [word, 2]}; groups: {kind: words}; follow: words that are named in every panel,
    with a line from where they were in the panel before; axes_names: of the two axes.
    """
    size = (10, 4.1)
    figure, axes = plt.subplots(1, len(panels), figsize=size, dpi=DPI, sharex=True, sharey=True)
    plt.close(figure)
    figure.subplots_adjust(0.055, 0.115, 0.99, 0.83, wspace=0.04)
    figure.text(0.012, 0.955, title, size=12, weight="bold", va="center")
    colors = sns.color_palette("colorblind", len(groups))
    words = [word for group in groups.values() for word in group]
    kinds = [i for i, group in enumerate(groups.values()) for _ in group]
    moments = [np.asarray(points) for points in panels.values()]
    size = 1.1 * max(float(np.abs(points).max()) for points in moments)
    before = None
    for axis, name, points in zip(axes, panels, moments, strict=True):
        axis.set(xticks=[0], yticks=[0], xlim=(-size, size), ylim=(-size, size))
        axis.set_title(name, size=10.5, loc="left", color=PALE)
        axis.spines[:].set(visible=True, color="0.85")
        axis.scatter(*points.T, s=26, color=[colors[k] for k in kinds], alpha=0.85, lw=0)
        taken = [Bbox.from_extents(*at - 3, *at + 3) for at in axis.transData.transform(points)]
        if axis is axes[-1]:
            for color, kind, i in zip(colors, groups, range(len(groups)), strict=True):
                here = points[[k == i for k in kinds]]
                x, low, high = here[:, 0].mean(), here[:, 1].min(), here[:, 1].max()
                places = [((x, high), (0, 6), "center"), ((x, low), (0, -16), "center")]
                look = {"size": 11.5, "weight": "bold", "color": color}
                _say_freely(axis, f"{kind}s", places, taken, **look)
        for i in map(words.index, follow):
            if before is not None:
                axis.plot(*np.stack([before[i], points[i]]).T, color="0.7", lw=1, zorder=0)
            around = [((5, -3), "left"), ((-5, -3), "right"), ((0, -13), "center")]
            around += [((0, 5), "center"), ((6, 4), "left"), ((-6, 4), "right")]
            places = [(points[i], *each) for each in around]
            _say_freely(axis, words[i], places, taken, size=9.5, color=INK)
        before = points
    axes[0].set_ylabel(axes_names[1], size=9.5)
    figure.supxlabel(axes_names[0], size=9.5, y=0.01)
    return figure


def _say_freely(axis, text, places, taken, **look):
    """Write where least of what is taken is covered; taken is a list of boxes, and gets the text's.

    places: (point, offset in typographic points, alignment), the best first.
    """
    said = [
        axis.annotate(text, at, offset, textcoords="offset points", ha=ha, **look)
        for at, offset, ha in places
    ]
    boxes = [each.get_window_extent() for each in said]
    shared = [[Bbox.intersection(box, other) for other in taken] for box in boxes]
    covered = [sum(each.width * each.height for each in some if each) for some in shared]
    best = covered.index(min(covered))
    for i, each in enumerate(said):
        if i != best:
            each.remove()
    taken.append(boxes[best])


def cosine_maps(panels: dict, title: str, axis_name="", words=(), marked=()) -> Figure:
    """Cosines of rows with each other, a map for each matrix, all on one color scale.

    panels: {name: [n, n]}; words: names of the n rows, else they are counted; marked: pairs of
    words that get a dot.
    """
    side, height = (4.0, 5.0) if words else (2.9, 3.6)
    size = (side * len(panels) + 1.2, height)
    figure, axes = plt.subplots(1, len(panels), figsize=size, dpi=DPI, layout="constrained")
    plt.close(figure)
    figure.get_layout_engine().set(rect=(0, 0, 1, 0.93))
    figure.text(0.012, 0.965, title, size=12, weight="bold", va="center")
    pairs = [{*pair} for pair in marked]
    dots = [(i, j) for i, a in enumerate(words) for j, b in enumerate(words) if {a, b} in pairs]
    for axis, (name, values) in zip(axes, panels.items(), strict=True):
        values = np.asarray(values).copy()
        if words:  # a word with itself says nothing
            np.fill_diagonal(values, np.nan)
            axis.set_xticks(range(len(words)), words, rotation=90, fontsize=9.5)
            axis.set_yticks(range(len(words)), words, fontsize=9.5)
        axis.set(facecolor="0.88", ylabel="" if words else axis_name)
        image = axis.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
        axis.plot(*np.reshape(dots, (-1, 2)).T, "o", color=INK, ms=4)
        axis.set_title(name, size=10.5, loc="left")
    figure.colorbar(image, ax=axes, label="cosine", shrink=0.75)
    figure.supxlabel(axis_name, size=10)
    return figure


def pairs_of_tokens(panels: dict, named: dict, title: str) -> Figure:
    """Pairs of tokens as points: how much of their texts' use they share, and their cosine.

    panels: {name: (label of the x axis, overlaps, cosines)}, both [token, token], on the same
    scales; named: {words: a pair of rows}, each in one color in every panel.
    """
    size = (10, 4.3)
    figure, axes = plt.subplots(
        1, len(panels), figsize=size, dpi=DPI, sharey=True, layout="constrained"
    )
    plt.close(figure)
    figure.get_layout_engine().set(rect=(0, 0, 1, 0.93))
    figure.text(0.012, 0.965, title, size=12, weight="bold", va="center")
    colors = dict(zip(named, (QUERY, KEY, VALUE, SHARE), strict=False))
    for axis, (name, (label, x, y)) in zip(axes, panels.items(), strict=True):
        once = np.triu_indices(len(x), 1)
        axis.scatter(np.asarray(x)[once], np.asarray(y)[once], s=5, color="0.6", alpha=0.25, lw=0)
        axis.axhline(0, color="0.8", lw=0.8, zorder=0)
        axis.set(xlim=(-0.03, 1.03), ylim=(-0.35, 1.03))
        axis.set_title(name, size=10.5, loc="left")
        axis.set_xlabel(label, size=10)
        axis.spines[["top", "right"]].set_visible(False)
    figure.draw_without_rendering()  # the layout, for the places of the names
    for axis, (_, x, y) in zip(axes, panels.values(), strict=True):
        points = {words: (float(x[i][j]), float(y[i][j])) for words, (i, j) in named.items()}
        at = axis.transData.transform(list(points.values()))
        taken = [Bbox.from_extents(*each - 5, *each + 5) for each in at]
        for words, point in points.items():
            axis.plot(*point, "o", ms=7, color=colors[words], mec="white")
            beside = ("left", 8) if point[0] < 0.5 else ("right", -8)
            places = [(point, (beside[1], up), beside[0]) for up in (-3, 8, -14, 20, -26)]
            look = {"size": 10, "weight": "bold", "color": colors[words]}
            _say_freely(axis, words, places, taken, **look)
    axes[0].set_ylabel("cosine", size=10)
    return figure


def reordered(panels: dict, words: list[str], order: list[int], title: str) -> Figure:
    """The logits of a text and of the same words in another order, joined where they are equal.

    panels: {name: (logits of the text, logits of the reordered text)}, each [pos, token].
    """
    width, row, strip = 10.0, 0.4, 1.25
    height = row * len(words) + 1.35
    figure, axis = diagrams.canvas(width, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    room = width / len(panels)
    most = max(float(np.abs(np.asarray(each)).max()) for pair in panels.values() for each in pair)
    for i, (name, pair) in enumerate(panels.items()):
        start, end = (np.asarray(each) for each in pair)
        left, right = room * i + 0.75, room * (i + 1) - 0.75 - strip
        diagrams.say(axis, room * i + 0.12, height - 0.6, name, INK, ha="left", weight="bold")
        for x, logits, shown in ((left, start, words), (right, end, [words[j] for j in order])):
            for p, word in enumerate(shown):
                y = height - 1.1 - row * p
                box = (x, x + strip, y - 0.14, y + 0.14)
                look = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "zorder": 3}
                axis.imshow(logits[p][None], extent=box, aspect="auto", **look)
                beside, ha = (x - 0.1, "right") if x == left else (x + strip + 0.1, "left")
                diagrams.say(axis, beside, y, word, INK, ha=ha)
        for p, j in enumerate(order):
            same = np.abs(end[p] - start[j]).max() < 1e-4
            ends = [left + strip + 0.06, right - 0.06], [height - 1.1 - row * q for q in (j, p)]
            look = {"color": INK, "lw": 1.6} if same else {"color": QUERY, "lw": 1, "ls": ":"}
            axis.plot(*ends, **look)
    axis.set(xlim=(0, width), ylim=(0, height), aspect="auto")
    said = "strip: 12 of the logits at this position     line: equal in both orders     dotted: not"
    diagrams.say(axis, width / 2, 0.16, said, PALE, size=9.5)
    return figure


def dials(rates, positions, title: str) -> Figure:
    """Positions (columns) as hands of dials (rows), each of a rate in radians per step."""
    side = 0.62
    width, height = 2.3 + side * len(positions), 0.75 + side * len(rates)
    figure, axis = diagrams.canvas(width, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    for column, p in enumerate(positions):
        x = 2.25 + side * column
        diagrams.say(axis, x, height - 0.58, f"{p}", PALE, size=10)
        for row, rate in enumerate(rates.values()):
            y = height - 0.98 - side * row
            axis.add_patch(Circle((x, y), 0.24, fc="white", ec="0.75", lw=1.2))
            angle = math.pi / 2 - rate * p
            end = x + 0.22 * math.cos(angle), y + 0.22 * math.sin(angle)
            diagrams.arrow(axis, (x, y), end, KEY, width=1.8)
    diagrams.say(axis, 1.85, height - 0.58, "position", PALE, size=10, ha="right")
    for row, (name, rate) in enumerate(rates.items()):
        y = height - 0.98 - side * row
        diagrams.say(axis, 1.85, y + 0.1, name, size=10, ha="right", weight="bold")
        said = f"a turn in {2 * math.pi / rate:.0f} steps"
        diagrams.say(axis, 1.85, y - 0.1, said, PALE, size=9.5, ha="right")
    return figure


def by_distance(curves: dict, title: str) -> Figure:
    """The cosine of two positions by their distance. curves: {name: [distance]}; the last is gray.

    Curves that lie on each other are drawn ever thinner, so that all can be seen.
    """
    figure, axis = plt.subplots(figsize=(8, 3.2), dpi=DPI, layout="constrained")
    plt.close(figure)
    shades = [KEY, "#7FB3D5", INK]
    for i, (name, curve) in enumerate(curves.items()):
        last = i == len(curves) - 1
        color, width = ("0.6", 1.2) if last else (shades[i % 3], 7 - 2.6 * i)
        axis.plot(range(len(curve)), np.asarray(curve), color=color, lw=width, label=name)
    axis.axhline(0, color="0.8", lw=0.8, zorder=0)
    axis.set(xlabel="distance of the two positions", ylabel="cosine of their rows")
    axis.set(xlim=(0, max(map(len, curves.values())) - 1), ylim=(-0.35, 1.03))
    axis.set_title(title, size=12, weight="bold", loc="left")
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=10, ncol=2, loc="center right", bbox_to_anchor=(1, 0.5))
    return figure


def entrances(bias, title: str) -> Figure:
    """Where positions can enter a model: at the row of a token, at q and k, or at the score.

    bias: a head's relative bias, [distance], drawn as bars.
    """
    width, height, y = 10.0, 3.75, 2.35
    figure, axis = diagrams.canvas(width, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    grounds = (
        (0.2, 3.55, "here: add a row to the token"),
        (3.95, 5.85, "notebook 03: compare two tokens"),
    )
    for x, wide, name in grounds:
        look = {"boxstyle": "round,pad=0,rounding_size=0.12", "fc": GROUND, "ec": "none"}
        axis.add_patch(FancyBboxPatch((x, 0.18), wide, 3.05, zorder=0, **look))
        diagrams.say(axis, x + 0.15, 3.05, name, PALE, ha="left", weight="bold")
    diagrams.word(axis, 1.05, y, "W_E[token]", PALE, size=10, width=1.25, height=0.42)
    diagrams.word(axis, 1.05, 1.25, "W_pos[p]", KEY, size=10, width=1.25, height=0.42)
    diagrams.say(axis, 1.05, 0.82, "learned, or", KEY, size=9.5)
    diagrams.say(axis, 1.05, 0.58, "sinusoidal", KEY, size=9.5)
    diagrams.say(axis, 2.35, y, "+", INK, size=17, weight="bold")
    diagrams.arrow(axis, (1.72, y), (2.2, y), PALE)
    diagrams.arrow(axis, (1.72, 1.3), (2.25, y - 0.2), KEY)
    diagrams.arrow(axis, (2.52, y), (4.1, y), PALE)
    diagrams.say(axis, 3.1, y + 0.2, "the sum", PALE, size=9.5)
    for at, name, color in ((y + 0.3, "query q", QUERY), (y - 0.3, "key k", KEY)):
        diagrams.word(axis, 4.85, at, name, color, size=10, width=1.05, height=0.4)
        diagrams.arrow(axis, (5.42, at), (6.35, y + (0.06 if at > y else -0.06)), color)
        diagrams.arrow(axis, (4.1, y), (4.3, at), PALE)
    diagrams.word(axis, 6.95, y, "score q·k", INK, size=10, width=1.1, height=0.42)
    diagrams.arrow(axis, (7.53, y), (7.95, y), INK)
    diagrams.say(axis, 8.02, y, "softmax → attention", INK, ha="left")
    _turned_pair(axis, 4.85, 1.22)
    diagrams.arrow(axis, (4.85, 1.68), (4.85, y - 0.53), INK)
    diagrams.say(axis, 4.85, 0.6, "rotary: turn q and k,", INK, size=9.5)
    diagrams.say(axis, 4.85, 0.38, "each by its own position", INK, size=9.5)
    for d, each in enumerate(bias):
        x, tall = 6.45 + 0.16 * d, 0.58 * each / max(bias)
        axis.add_patch(Rectangle((x, 1.0), 0.12, tall, color=SHARE, lw=0))
    axis.plot([6.38, 8.05], [1.0, 1.0], color="0.5", lw=0.8)
    diagrams.arrow(axis, (6.95, 1.68), (6.95, y - 0.23), INK)
    diagrams.say(axis, 7.2, 0.6, "relative bias: add a number", INK, size=9.5)
    diagrams.say(axis, 7.2, 0.38, "for the distance (here L0H3, 0 to 9)", INK, size=9.5)
    return figure


def _turned_pair(axis, x, y):
    """A query and a key in a circle, each turned."""
    axis.add_patch(Circle((x, y), 0.38, fc="white", ec="0.75", lw=1.2))
    for color, angle in ((QUERY, 0.5), (KEY, 1.5)):
        diagrams.arrow(
            axis, (x, y), (x + 0.36 * math.cos(angle), y + 0.36 * math.sin(angle)), color
        )
