"""Figures for notebook 03 on positions: queries and keys that turn, heads by relative bias."""

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Arc, Circle

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, QUERY, SHARE


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


def weights_by_bias(shares, heads: list[str], title: str) -> Figure:
    """Attention weights by the bias alone, a panel for each head, all on one scale.

    shares: [head, distance], each row with the sum 1; dotted: the same weight for all.
    """
    shares = np.asarray(shares)
    rows, columns = math.ceil(len(heads) / 4), min(4, len(heads))
    size = (10, 1.75 * rows + 0.6)
    figure, axes = plt.subplots(
        rows, columns, figsize=size, dpi=DPI, layout="constrained", sharex=True, sharey=True
    )
    plt.close(figure)
    distance = np.arange(shares.shape[1])
    for axis, head, share in zip(np.ravel(axes), heads, shares, strict=True):
        axis.bar(distance, share, width=1, color=SHARE, ec="white", lw=0.6)
        axis.axhline(1 / len(share), color=INK, ls=":", lw=1)
        axis.set_title(head, size=10.5, loc="left")
        if axis is np.ravel(axes)[0]:
            axis.text(len(share) - 0.5, 1.8 / len(share), "equal weights", ha="right", size=9)
        best = int(share.argmax())
        at, ha = (best + 0.7, "left") if share[best] > 0.2 else (best, "center")
        y = share[best] if share[best] > 0.2 else share[best] + 0.09
        axis.text(at, y, f"{share[best]:.2f} at {best}", ha=ha, va="center", size=9, color=SHARE)
        axis.set(ylim=(0, 1), yticks=[0, 0.5, 1], xticks=distance[::5])
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=9)
    figure.supxlabel("distance back", size=10)
    figure.supylabel("attention weight", size=10)
    figure.suptitle(f"{title}\n", size=12, weight="bold", x=0.012, ha="left", linespacing=0.6)
    return figure
