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
    plt.close(figure)
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
    """The title of a figure, at its upper left corner."""
    figure.set_dpi(DPI)
    height = figure.get_size_inches()[1]
    figure.text(0.012, 1 - 0.18 / height, typed(text), size=12, weight="bold", va="center")
    plt.close(figure)  # the notebook shows the returned figure once, not twice
    return figure


@as_typed
def two_heads(
    previous=None,
    induction=None,
    copied: float | None = None,
    *,
    title: str,
    tokens: tuple[str, str, str, str] = ("·M", "ira", "·met", "·M"),
):
    """An induction circuit of two heads: the text below, after layer 0, the next token above.

    previous, induction: scores of the heads of layer 0 and of layer 1, each [head]; the best of
    each is written at its arrow. copied: how much of random tokens is copied, a share.
    """
    figure, axis = canvas(8.9, 3.3, 12.9)
    at, (text, stream, out) = (3.9, 6.1, 8.3, 10.2), (0.45, 1.85, 3.55)
    for i, (x, token) in enumerate(zip(at, tokens, strict=True)):
        word(axis, x, text, token, INK, width=1.1, size=10.5)
        arrow(axis, (x, text + 0.26), (x, stream - 0.27), "0.8", width=1)
        if i != 1:
            word(axis, x, stream, token, INK, width=1.1, size=10.5)
    word(axis, at[1], stream, "", INK, width=2.3)
    say(axis, at[1] - 1.05, stream, tokens[1], VALUE, ha="left", weight="bold")
    say(axis, at[1] + 1.05, stream, f"after {tokens[0]}", KEY, ha="right", weight="bold")
    arrow(axis, (at[0] + 0.35, text + 0.26), (at[1] - 0.65, stream - 0.27), INK, width=2)
    say(axis, 3.6, 1.2, "1  previous-token head", ha="right", weight="bold")
    line = {"connectionstyle": "arc3,rad=0.35", "linestyle": (0, (4, 3)), "lw": 1.6}
    ends = (at[3] - 0.3, stream + 0.26), (at[1] + 0.75, stream + 0.26)
    axis.add_patch(
        FancyArrowPatch(*ends, arrowstyle="-|>,head_length=6,head_width=3", color=SHARE, **line)
    )
    say(axis, 10.5, 2.4, f"“who came after {tokens[3]}?”", QUERY, ha="left")
    axis.plot([at[1] - 0.7] * 2, [stream + 0.26, out], color=VALUE, lw=2)
    arrow(axis, (at[1] - 0.7, out), (at[3] - 0.58, out), VALUE, width=2)
    arrow(axis, (at[3], stream + 0.26), (at[3], out - 0.27), "0.8", width=1)
    word(axis, at[3], out, tokens[1], VALUE, width=1.1, size=10.5)
    say(axis, 5.2, 2.7, "2  induction head", ha="right", weight="bold")
    looks = f"attends to “after {tokens[0]}”"
    said = []
    for layer, scores in enumerate((previous, induction)):
        best = 0 if scores is None else int(np.argmax(np.asarray(scores)))
        name = f"L{layer}H{best}"
        said.append("" if scores is None else f"{name}: {float(scores[best]):.2f} of its attention")
    say(axis, 3.25, 0.8, said[0], SHARE, ha="right")
    say(axis, 8.35, 2.98, said[1] or looks, SHARE)
    end = "" if copied is None else f"{copied:.2f} of random tokens copied"
    say(axis, at[3] - 0.7, out + 0.27, end, VALUE, ha="right")
    for y, name in zip((text, stream, out), ("text", "after layer 0", "next token"), strict=True):
        say(axis, 11.0, y, name, PALE, ha="left")
    return headline(figure, title)
