"""Drawings of notebook 02: a map of words, clocks, queries and keys that turn, heads' habits."""

import math

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Arc, Circle
from matplotlib.transforms import Bbox

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE


def word_map(panels: dict, groups: dict[str, list[str]], title: str) -> Figure:
    """Words as points, a panel for each moment. panels: {name: [word, 2]}; groups: {kind: words}.

    A kind has one color; its name and two of its words stand in the last panel.
    """
    wide = [1] * (len(panels) - 1) + [1.9]
    figure, axes = plt.subplots(1, len(panels), figsize=(10, 3.9), dpi=DPI, width_ratios=wide)
    plt.close(figure)
    figure.subplots_adjust(0.01, 0.02, 0.99, 0.82, wspace=0.04)
    figure.text(0.012, 0.95, title, size=12, weight="bold", va="center")
    colors = sns.color_palette("colorblind", len(groups))
    size = 1.12 * max(float(np.abs(np.asarray(points)).max()) for points in panels.values())
    ends = np.cumsum([len(words) for words in groups.values()])[:-1]
    for axis, (name, points) in zip(axes, panels.items(), strict=True):
        axis.set(xticks=[], yticks=[], xlim=(-size, size), ylim=(-size, size))
        axis.set_title(name, size=10.5, loc="left", color=PALE)
        axis.spines[:].set(visible=True, color="0.85")
        kinds = np.split(np.asarray(points), ends)
        for color, here in zip(colors, kinds, strict=True):
            axis.scatter(*here.T, s=26, color=color, alpha=0.85, lw=0)
    taken = [Bbox.from_extents(*at - 3, *at + 3) for at in axis.transData.transform(points)]
    for color, (kind, words), here in zip(colors, groups.items(), kinds, strict=True):
        low, high = here[:, 1].argmin(), here[:, 1].argmax()
        middle, bottom, top = here[:, 0].mean(), here[low, 1], here[high, 1]
        places = [((middle, top), (0, 6), "center"), ((middle, bottom), (0, -16), "center")]
        _say_freely(axis, f"{kind}s", places, taken, size=12, weight="bold", color=color)
        for i in {int(low), int(here[:, 0].argmax())}:
            around = [((5, -3), "left"), ((-5, -3), "right"), ((0, -13), "center")]
            around += [((0, 5), "center"), ((6, 4), "left"), ((-6, 4), "right")]
            places = [(here[i], *each) for each in around]
            _say_freely(axis, words[i], places, taken, size=9, color=INK)
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


def clocks(rates, positions, title: str) -> Figure:
    """Positions (columns) as the hands of clocks (rows), each of a rate in radians per step."""
    side = 0.62
    width, height = 1.9 + side * len(positions), 1.0 + side * len(rates)
    figure, axis = diagrams.canvas(width, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    for column, p in enumerate(positions):
        x = 1.85 + side * column
        diagrams.say(axis, x, height - 0.58, f"{p}", PALE, size=10)
        for row, rate in enumerate(rates):
            y = height - 0.98 - side * row
            axis.add_patch(Circle((x, y), 0.24, fc="white", ec="0.75", lw=1.2))
            angle = math.pi / 2 - rate * p
            end = x + 0.22 * math.cos(angle), y + 0.22 * math.sin(angle)
            diagrams.arrow(axis, (x, y), end, KEY, width=1.8)
    diagrams.say(axis, 1.45, height - 0.58, "position", PALE, size=10, ha="right")
    for row, rate in enumerate(rates):
        y = height - 0.98 - side * row
        diagrams.say(axis, 1.45, y, f"a turn in {2 * math.pi / rate:.0f}", size=10, ha="right")
    return figure


def turned(pairs: list[tuple[int, int]], rate: float, between: float, title: str) -> Figure:
    """A query (orange) and a key (blue), turned clockwise by their places; a circle for each pair.

    pairs: (place of the query, place of the key). rate: radians per step. between: the angle from
    key to query, in radians, before they are turned.
    """
    figure, axis = diagrams.canvas(3.0 * len(pairs), 3.15)
    diagrams.say(axis, 0.12, 2.95, title, size=12, ha="left", weight="bold")
    for i, (q, k) in enumerate(pairs):
        x, y, r = 1.5 + 3.0 * i, 1.5, 0.9
        axis.add_patch(Circle((x, y), r, fc="white", ec="0.8", lw=1.2))
        start = math.pi / 2  # upwards, and on like the hand of a clock
        angles = {
            QUERY: (start - between - rate * q, f"q at {q}"),
            KEY: (start - rate * k, f"k at {k}"),
        }
        for color, (angle, name) in angles.items():
            tip = x + r * math.cos(angle), y + r * math.sin(angle)
            diagrams.arrow(axis, (x, y), tip, color, width=2.4)
            away = x + 1.17 * r * math.cos(angle), y + 1.17 * r * math.sin(angle)
            side = math.cos(angle)
            ha = "center" if abs(side) < 0.1 else "left" if side > 0 else "right"
            diagrams.say(axis, *away, name, color, size=10.5, ha=ha, weight="bold")
        low, high = math.degrees(angles[QUERY][0]), math.degrees(angles[KEY][0])
        axis.add_patch(Arc((x, y), 0.8, 0.8, theta1=low, theta2=high, color=INK, lw=1.2))
        angle = (high - low) % 360
        said = f"distance {q - k}: {angle:.0f}° between them"
        diagrams.say(axis, x, 0.22, said, size=10.5)
    return figure


def wavering(rates, n: int, title: str) -> Figure:
    """The dot product of two positions by their distance, 0 to n - 1, and what each clock adds."""
    figure, axis = plt.subplots(figsize=(8, 3), dpi=DPI, layout="constrained")
    plt.close(figure)
    distance = np.arange(n)
    for i, rate in enumerate(rates):
        label = "each clock: cos(rate · distance)" if i == 0 else None
        axis.plot(distance, np.cos(rate * distance), color="0.72", lw=1, label=label)
    total = np.cos(np.outer(distance, rates)).sum(axis=1)
    axis.plot(distance, total, "o-", color=KEY, lw=2, ms=4, label="the dot product: their sum")
    axis.axhline(0, color="0.3", lw=0.8)
    axis.set(xlabel="distance", ylabel="dot product", xlim=(-0.3, n - 0.7))
    axis.set_title(title, size=12, weight="bold", loc="left")
    axis.legend(frameon=False, fontsize=10)
    return figure


def habits(shares, heads: list[str], title: str) -> Figure:
    """Attention by the bias alone, a panel for each head with a height of its own.

    shares: [head, distance], each row with the sum 1; dotted, an even look.
    """
    shares = np.asarray(shares)
    rows, columns = math.ceil(len(heads) / 4), min(4, len(heads))
    size = (10, 1.75 * rows + 0.6)
    figure, axes = plt.subplots(rows, columns, figsize=size, dpi=DPI, layout="constrained")
    plt.close(figure)
    distance = np.arange(shares.shape[1])
    for axis, head, share in zip(np.ravel(axes), heads, shares, strict=True):
        axis.bar(distance, share, width=1, color=SHARE, ec="white", lw=0.6)
        axis.axhline(1 / len(share), color=INK, ls=":", lw=1)
        axis.set_title(head, size=10.5, loc="left")
        if axis is np.ravel(axes)[0]:
            axis.text(len(share) - 0.5, 1.5 / len(share), "an even look", ha="right", size=9)
        axis.set_yticks([0, share.max()], ["0", f"{share.max():.2f}"], fontsize=9)
        axis.set_xticks(distance[::5], distance[::5], fontsize=9)
    figure.supxlabel("distance back", size=10)
    figure.supylabel("share of attention", size=10)
    figure.suptitle(f"{title}\n", size=12, weight="bold", x=0.012, ha="left", linespacing=0.6)
    return figure
