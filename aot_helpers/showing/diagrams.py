"""The visual language of the tours: one color for each part of a head, boxes, arrows.

Query orange, key blue, value green, attention shares purple, the stream gray.
"""

import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

QUERY, KEY, VALUE, SHARE = "#D55E00", "#0072B2", "#009E73", "#7B3F99"  # Okabe and Ito, and purple
INK, PALE = "#222222", "#7D7D7D"
SHADES = LinearSegmentedColormap.from_list("shares", ["white", "#C9A9DB", SHARE, "#3F1A57"])
DPI = 100


def canvas(width, height, units=None):
    """An empty figure, width × height inches; its lower left is (0, 0), `units` (inches) across."""
    units = units or width
    figure, axis = plt.subplots(figsize=(width, height), dpi=DPI)
    figure.subplots_adjust(0, 0, 1, 1)
    axis.set(xlim=(0, units), ylim=(0, units * height / width))
    axis.axis("off")
    plt.close(figure)
    return figure, axis


def say(axis, x, y, text, color=INK, size=10.5, ha="center", **more):
    """A line of text around (x, y); `more` goes to matplotlib's text."""
    place = {"ha": ha, "va": "center", "fontsize": size, "color": color, "zorder": 6}
    axis.text(x, y, text, **place, **more)


def word(axis, x, y, text, color=INK, alpha=1.0, fill="white", width=1.3, height=0.48, size=12.5):
    """A token in a rounded box around (x, y)."""
    look = {"boxstyle": "round,pad=0,rounding_size=0.12", "fc": fill, "ec": color, "lw": 1.4}
    corner = (x - width / 2, y - height / 2)
    axis.add_patch(FancyBboxPatch(corner, width, height, alpha=alpha, zorder=3, **look))
    say(axis, x, y - 0.02, text, color, size=size, alpha=alpha, weight="bold")


def arrow(axis, start, end, color=INK, alpha=1.0, width=1.3):
    """An arrow from start to end; its head grows with the width (points)."""
    head = f"-|>,head_length={3 * width:g},head_width={1.7 * width:g}"
    look = {"arrowstyle": head, "mutation_scale": 1, "lw": width, "shrinkA": 0, "shrinkB": 0}
    axis.add_patch(FancyArrowPatch(start, end, color=color, alpha=alpha, **look))


def headline(figure, text):
    """The title of a figure, at its upper left corner."""
    figure.set_dpi(DPI)
    height = figure.get_size_inches()[1]
    figure.text(0.012, 1 - 0.18 / height, text, size=12, weight="bold", va="center")
    plt.close(figure)  # the notebook shows the returned figure once, not twice
    return figure
