"""Drawings of notebook 17: a model that writes, maps from words, kinds of heads, words moved."""

import ipywidgets
import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHADES, SHARE, headline
from aot_helpers.showing.plots import shown
from aot_helpers.showing.widgets import Explorer


def _canvas(width: float, height: float):
    """A figure with one axis, in inches from the upper left."""
    figure = plt.figure(figsize=(width, height), dpi=DPI)
    axis = figure.add_axes([0, 0, 1, 1], xlim=(0, width), ylim=(height, 0))
    axis.axis("off")
    return figure, axis


def _cell(axis, x, y, width, height, share, text="", size=9.5, **words):
    look = {"fc": SHADES(float(share)), "ec": "0.85", "lw": 0.6}
    axis.add_patch(Rectangle((x, y), width, height, **look))
    color = "white" if share > 0.45 else INK
    place = {"ha": "center", "va": "center", "size": size, "color": color}
    axis.text(x + width / 2, y + height / 2, text, **{**place, **words})


def writing(
    words: list[str], rows: dict[str, Float[Tensor, "word seen"]], step: int, title: str
) -> Figure:
    """One step of a model that writes: what each head gives to the words so far.

    words: all of the text. rows: {head: attention between words}. step: the number of words that
    are there; the last of them is the query, and the next one is what was drawn.
    """
    widths = [0.095 * max(len(shown(word)), 3) + 0.16 for word in words]
    left = 0.75 + np.cumsum([0, *widths])
    figure, axis = _canvas(left[-1] + 0.2, 0.33 * len(rows) + 1.35)
    y = 0.5
    for i, word in enumerate(words[: step + 1]):
        color = QUERY if i == step - 1 else "0.6" if i == step else KEY
        look = {"size": 10, "ha": "center", "va": "center", "color": color}
        axis.text(left[i] + widths[i] / 2, y, shown(word), **look, weight="bold")
    below = y + 0.2
    for label, pattern in rows.items():
        axis.text(0.65, below + 0.165, label, ha="right", va="center", size=10)
        for i, share in enumerate(np.asarray(pattern)[step - 1, :step]):
            text = f"{share:.1f}"[1:] if 0.05 <= share < 0.95 else "1" if share >= 0.95 else ""
            _cell(axis, left[i], below + 0.02, widths[i] - 0.03, 0.29, share, text, size=9)
        below += 0.33
    note = "blue: words seen   orange: the word that looks   gray: the word drawn next"
    axis.text(0.75, below + 0.22, note, size=9, color=PALE, va="center")
    return headline(figure, title)


def film(words: list[str], rows: dict[str, Float[Tensor, "word seen"]]) -> Explorer:
    """`writing`, with a slider for the step; begins at the seventh word."""
    slider = ipywidgets.IntSlider(value=7, min=2, max=len(words) - 1, description="words")
    return Explorer(
        lambda step: writing(words, rows, step, f"Word {step} is drawn (the first is word 0)"),
        "what each head gives to the words so far",
        step=slider,
    )


def in_pairs(
    schemes: dict[str, Float[Tensor, "word seen"]],
    ours: dict[str, tuple[str, Float[Tensor, "word seen"]]],
    words: list[str],
    title: str,
) -> Figure:
    """Above, maps drawn from a report's words; below, {kind: (label, map)} of our heads."""
    n, few = len(schemes), len(schemes) <= 4  # with few, the words stand at the left
    side, left = (1.75, 2.0) if few else (1.13, 0.95)
    width, height = side * n + left + 0.05, 2 * side + 1.2
    figure, grid = plt.subplots(2, n, figsize=(width, height), dpi=DPI)
    figure.subplots_adjust(left / width, 0.1 / height, 0.995, 1 - 0.8 / height, 0.08, 0.3 / side)
    for column, (kind, scheme) in enumerate(schemes.items()):
        label, pattern = ours[kind]
        for axis, values in ((grid[0, column], scheme), (grid[1, column], pattern)):
            axis.imshow(np.asarray(values), cmap=SHADES, vmin=0, vmax=1)
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set(visible=True, color="0.8")
        name = kind if few else kind.replace(" and ", "\nand ")
        grid[0, column].set_title(name, size=10, color=INK, weight="bold" if few else None)
        grid[1, column].set_title(label, size=9.5, color=SHARE)
    names = "from the\nreport's\nwords", "our head\nthat fits\nbest"
    for axis, name in zip(grid[:, 0], names, strict=True):
        place = {"ha": "right", "va": "center", "size": 9.5, "transform": axis.transAxes}
        axis.text(-0.5 if few else -0.1, 0.5, name, color=PALE if few else INK, **place)
        if few:
            axis.set_yticks(range(len(words)), [shown(word) for word in words], size=9)
            axis.tick_params(length=0)
    return headline(figure, title)


def kinds_by_head(
    fits: dict[str, Float[Tensor, "kind head"]],
    heads: dict[str, list[str]],
    kinds: list[str],
    title: str,
) -> Figure:
    """How well every head (columns, by model) fits every kind (rows); numbers from 0.25 on."""
    n = sum(len(each) for each in heads.values())
    width, left = 0.25, 1.55
    figure, axis = _canvas(left + n * width + 0.14 * len(fits) + 0.1, 0.27 * len(kinds) + 1.75)
    top = 1.3
    for row, kind in enumerate(kinds):
        axis.text(left - 0.08, top + 0.27 * (row + 0.5), kind, ha="right", va="center", size=9.5)
    x = left
    for model, values in fits.items():
        middle = x + width * len(heads[model]) / 2
        axis.text(middle, 0.58, model.replace("-seed", "\nseed "), ha="center", va="center", size=9)
        for column, label in enumerate(heads[model]):
            at = x + (column + 0.5) * width
            axis.text(at, top - 0.06, label, rotation=90, ha="center", va="bottom", size=9)
            for row, value in enumerate(np.asarray(values)[:, column]):
                text = "1" if value >= 0.995 else f"{value:.2f}"[1:] if value >= 0.25 else ""
                place = (x + column * width, top + 0.27 * row, width, 0.27)
                _cell(axis, *place, max(value, 0), text, size=9)
        x += width * len(heads[model]) + 0.14
    note = "shade: fit, from 0 and less (white) to 1 (dark); a number from .25 on"
    axis.text(left, top + 0.27 * len(kinds) + 0.2, note, size=9, color=PALE, va="center")
    return headline(figure, title)


def places(
    tables: dict[str, Float[Tensor, "stands_at looked_at"]], title: str, own: tuple[str, ...] = ()
) -> Figure:
    """Where a word stands (rows) and which of four places is looked at (columns).

    own: the tables that are shaded from their least to their largest share, not from 0.1 to 0.75.
    """
    n = len(tables)
    figure, axes = plt.subplots(1, n, figsize=(1.62 * n + 0.9, 2.95), dpi=DPI)
    figure.subplots_adjust(0.85 / (1.62 * n + 0.9), 0.19, 0.99, 0.73, 0.12)
    for axis, (name, table) in zip(axes, tables.items(), strict=True):
        values = np.asarray(table)
        least, most = (values.min(), values.max()) if name in own else (0.1, 0.75)
        axis.imshow(values, cmap=SHADES, vmin=least, vmax=most)
        for (row, column), share in np.ndenumerate(values):
            color = "white" if share - least > 0.54 * (most - least) else INK
            text = f"{share:.2f}"[1:]
            axis.text(column, row, text, ha="center", va="center", size=9.5, color=color)
        axis.set_title(name, size=10)
        axis.set_xticks(range(4), ["1", "2", "3", "4"], size=9.5)
        axis.set_yticks(range(4), ["1", "2", "3", "4"] if axis is axes[0] else [""] * 4, size=9.5)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    axes[0].set_ylabel("the noun stands at", color=KEY, size=10)
    figure.text(0.5, 0.045, "place looked at", ha="center", color=SHARE, size=10)
    return headline(figure, title)


def shaded_words(groups: dict[str, dict[str, float]], title: str, note: str = "") -> Figure:
    """Words in boxes, darker the more they get: {name of a group: {word: share}}."""
    figure, axis = _canvas(
        9, 0.62 + sum(0.62 + 0.36 * ((len(w) + 7) // 8) for w in groups.values())
    )
    most, y = max(max(words.values()) for words in groups.values()), 0.55
    for name, words in groups.items():
        axis.text(0.12, y, name, size=10, weight="bold", color=INK, va="center")
        y += 0.2
        ordered = sorted(words.items(), key=lambda item: -item[1])
        for i, (word, share) in enumerate(ordered):
            column, row = i % 6, i // 6
            place = (0.12 + 1.46 * column, y + 0.36 * row, 1.42, 0.32)
            _cell(axis, *place, 0.9 * share / most, f"{word} {share:.2f}")
        y += 0.36 * ((len(words) + 5) // 6) + 0.3
    axis.text(0.12, y - 0.05, note, size=9, color=PALE, va="center")
    return headline(figure, title)


def spread(single: dict[str, list[float]], over_all: dict[str, float], title: str) -> Figure:
    """Fits on single prompts, a disk for each value with its number of prompts; and over all."""
    figure, axis = plt.subplots(figsize=(8.4, 0.98 * len(single) + 1.35), dpi=DPI)
    height = figure.get_size_inches()[1]
    figure.subplots_adjust(0.2, 0.75 / height, 0.98, 1 - 0.42 / height)
    for y, (name, values) in enumerate(single.items()):
        each, counts = np.unique(np.round(values, 3), return_counts=True)
        axis.scatter(
            each, [y] * len(each), s=2900 * counts / len(values) + 90, color=SHARE, alpha=0.35, lw=0
        )
        for x, count in zip(each, counts, strict=True):
            axis.text(x, y, count, ha="center", va="center", size=9.5)
        axis.plot([over_all[name]] * 2, [y - 0.58, y - 0.46], color=INK, lw=2.2)
        before = over_all[name] > 0.18  # so that the dotted line crosses no words
        side = {"ha": "right" if before else "left", "va": "center"}
        shift = -0.012 if before else 0.012
        said = f"all prompts: {over_all[name]:.2f}"
        axis.text(over_all[name] + shift, y - 0.52, said, size=9.5, weight="bold", **side)
    axis.axvline(0.5, color=PALE, lw=1, ls=":")
    axis.set_yticks(range(len(single)), list(single), size=9.5)
    axis.set(xlim=(-0.35, 1.12), ylim=(len(single) - 0.5, -0.75))
    said = "fit: 0 is chance, 1 is always (in the disks: number of prompts)"
    axis.set_xlabel(f"{said}\ndotted: 0.5, from where on we would give the name", size=10)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    return headline(figure, title)


def looks_and_does(
    points: dict[str, tuple[float, float]],
    named: list[str],
    title: str,
    labels: tuple[str, str],
    note: str = "",
) -> Figure:
    """A dot per head: what it shows (across) and what it does (up); `named` are written beside.

    A label is a head and where it is from ("L0H1 seed 0"); the same head of several, on one side of
    the picture, is written once. note: what the gray dots are.
    """
    figure, axis = plt.subplots(figsize=(8, 3.7), dpi=DPI)
    figure.subplots_adjust(0.08, 0.15, 0.97, 0.88)
    most = max(y for _, y in points.values())
    groups = {}
    for name, (x, y) in points.items():
        axis.scatter(x, y, s=36, color=SHARE if name in named else "0.75", zorder=3)
        if name in named:
            head, _, where = name.partition(" ")
            right = x > 0.6
            groups.setdefault((name if right else head, right), []).append((where, x, y))
    free = {True: most * 1.2, False: most * 1.2}  # labels at the right and left keep apart
    for (head, right), each in sorted(groups.items(), key=lambda item: -item[1][0][2]):
        x, y = (sum(values) / len(each) for values in list(zip(*each, strict=True))[1:])
        where = ", ".join(one[0] for one in each if one[0])
        text = head if right else f"{head} ({where})" if where else head
        free[right] = min(y, free[right] - 0.085 * most)
        beside = x - 0.06 if right else max(x for _, x, _ in each) + 0.06
        side = {"ha": "right" if right else "left", "va": "center", "size": 9.5}
        axis.text(beside, free[right], text, **side)
        for _, at, up in each:  # leader lines
            end = beside + (0.004 if right else -0.004)
            axis.plot([at, end], [up, free[right]], color="0.6", lw=0.7)
    axis.text(0.45, 0.5 * most, note, size=9.5, color=PALE, ha="center", va="center")
    axis.set_xlabel(labels[0], size=10)
    axis.set_ylabel(labels[1], size=10)
    axis.spines[["top", "right"]].set_visible(False)
    return headline(figure, title)
