"""The visual language of the tours: one color for each part of a head, boxes, arrows.

Query orange, key blue, value green, attention shares purple, the stream gray.
"""

import functools
import re
import warnings
from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import font_manager
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.font_manager import FontProperties
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

QUERY, KEY, VALUE, SHARE = "#D55E00", "#0072B2", "#009E73", "#7B3F99"  # Okabe and Ito, and purple
INK, PALE = "#222222", "#7D7D7D"
SHADES = LinearSegmentedColormap.from_list("shares", ["white", "#C9A9DB", SHARE, "#3F1A57"])
DPI = 100


def as_array(values) -> np.ndarray:
    """What is drawn as an array: tensors with gradients, of half precision, on a GPU as well."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() else values
    return np.asarray(values)


def typed(value):
    """Text as a label that looks as typed: no $ begins mathematics, � for control characters.

    A tensor as an array. Of a dict, list or tuple: every text and tensor in it; other values stay.
    Warns, once, where no installed font has a character.
    """
    if isinstance(value, str):
        if not _letters(tuple(plt.rcParams["font.family"])).issuperset(value):
            said = "characters of labels are boxes, since no installed font draws them: install "
            warnings.warn(f"{said}Noto Sans of their script, and start again", stacklevel=1)
        whole = re.sub("[\0-\t\v-\x1f\x7f-\x9f\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value)
        return re.sub(r"(?<!\\)\$", r"\\$", whole)
    if isinstance(value, Mapping):
        names = [typed(name) if isinstance(name, str) else name for name in value]
        return dict(zip(names, map(typed, value.values()), strict=True))
    if isinstance(value, list | tuple):
        whole = [typed(each) for each in value]
        return type(value)(*whole) if hasattr(value, "_fields") else type(value)(whole)
    return as_array(value) if hasattr(value, "detach") else value


def as_typed(draw):
    """A function that draws a figure, with all that it is given as `typed` has it."""

    @functools.wraps(draw)
    def drawn(*given, **named):
        return draw(*typed(given), **typed(named))

    return drawn


@functools.cache
def _letters(families: tuple[str, ...]) -> set[str]:
    """The characters that these fonts have, and those that need no drawing."""
    paths = [font_manager.findfont(FontProperties(family=[family])) for family in families]
    there = {chr(n) for path in paths for n in font_manager.get_font(path).get_charmap()}
    return there | {*map(chr, range(160)), "\u200c", "\u200d", "\ufe0f"}


def canvas(width, height, units=None):
    """An empty figure, width × height inches; its lower left is (0, 0), `units` (inches) across."""
    units = units or width
    figure, axis = plt.subplots(figsize=(width, height), dpi=DPI)
    figure.subplots_adjust(0, 0, 1, 1)
    axis.set(xlim=(0, units), ylim=(0, units * height / width))
    axis.axis("off")
    plt.close(figure)  # the notebook shows the returned figure once, not twice
    return figure, axis


def say(axis, x, y, text, color=INK, size=10.5, ha="center", **more):
    """A line of text around (x, y); `more` goes to matplotlib's text."""
    place = {"ha": ha, "va": "center", "fontsize": size, "color": color, "zorder": 6}
    families = [more.pop("family", "sans-serif"), *plt.rcParams["font.family"]]
    axis.text(x, y, text, family=list(dict.fromkeys(families)), **place, **more)


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
    """The figure of a canvas with its title, at its upper left corner."""
    height = figure.get_size_inches()[1]
    figure.text(0.012, 1 - 0.18 / height, typed(text), size=12, weight="bold", va="center")
    return figure
