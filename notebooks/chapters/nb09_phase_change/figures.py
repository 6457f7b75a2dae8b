"""Drawings of notebook 09: colored text, a film strip, transplants, curves of runs."""

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.showing.diagrams import INK, PALE, SHARE, headline
from aot_helpers.showing.plots import shown

# Two colors of this notebook alone: stories and the names in them, and random tokens.
STORIES, RANDOM = "#137177", "#C2255C"


def colored_text(blocks: list[tuple], title: str, note: str) -> Figure:
    """Texts written twice, each token filled by a share from 0 (white) to 1 (full color).

    blocks: (heading, tokens, {row label: shares}, color); the second half is set apart.
    """
    char, line = 0.0875, 0.235  # inches of a letter and of a line
    widths = [[len(shown(t)) + 0.7 for t in tokens] for _, tokens, _, _ in blocks]
    span = max(map(sum, widths)) + 2
    n_lines = sum(len(rows) + 1.8 for _, _, rows, _ in blocks) + 2.2
    figure = plt.figure(figsize=(char * (span + 12), line * n_lines))
    axis = figure.add_axes([0, 0, 1, 1], xlim=(-11, span + 1), ylim=(n_lines, 0))
    axis.axis("off")
    axis.text(span, n_lines - 0.6, note, size=9.5, color=PALE, ha="right", va="center")
    y = 1.4
    for (heading, tokens, rows, color), wide in zip(blocks, widths, strict=True):
        half, y = len(tokens) // 2, y + 0.9
        left = np.cumsum([0, *wide[:-1]]) + 2 * (np.arange(len(wide)) >= half)
        axis.text(0, y, heading, va="center", color=color, weight="bold")
        axis.text(left[half], y, "second time", va="center", color=color)
        for label, shares in rows.items():
            y += 1
            axis.text(-1, y, label, ha="right", va="center", size=9.5)
            for x, width, token, share in zip(left, wide, tokens, map(float, shares), strict=True):
                box = {"fc": tint(color)(share), "ec": "0.88", "lw": 0.6}
                axis.add_patch(Rectangle((x + 0.08, y - 0.45), width - 0.16, 0.9, **box))
                ink = {"color": "white" if share > 0.55 else "0.25", "family": "monospace"}
                place = {"size": 9.5, "ha": "center", "va": "center"}
                axis.text(x + width / 2, y, shown(token), **ink, **place)
        y += 0.9
    return headline(figure, title)


def film_strip(
    steps: list[int], rows: dict[str, list[Float[Tensor, "query key"]]], title: str
) -> Figure:
    """Attention patterns at some training steps, a row for each {"head, text": patterns}."""
    width, height = 2.5 + 0.93 * len(steps), 3.55
    figure, axes = plt.subplots(len(rows), len(steps), figsize=(width, height))
    figure.subplots_adjust(1.5 / width, 0.03, 1 - 1 / width, 1 - 0.68 / height, 0.06, 0.08)
    for line, (label, patterns) in zip(axes, rows.items(), strict=True):
        for axis, pattern in zip(line, patterns, strict=True):
            draw_pattern(axis, pattern)
        left = {"transform": line[0].transAxes, "ha": "right", "va": "center"}
        line[0].text(-0.1, 0.5, label.replace(", ", ",\n"), size=10, **left)
        for y, text in ((0.75, "first copy"), (0.25, "second copy")):
            line[-1].text(1.06, y, text, transform=line[-1].transAxes, color=PALE, va="center")
    for axis, step in zip(axes[0], steps, strict=True):
        axis.set_title(f"step {step}", size=10)
    arrow = {"arrowprops": {"arrowstyle": "-|>", "color": INK, "lw": 1.2}, "color": INK}
    place = {"xycoords": "axes fraction", "textcoords": "axes fraction"}
    for axis in axes[1:, -1]:
        axis.annotate("stripe", (0.34, 0.3), (0.45, 0.8), size=10, **arrow, **place)
    return headline(figure, title)


def transplants(scores: dict[str, list[float]], into: list[str], title: str) -> Figure:
    """Induction scores after transplants, a row for each {what was transplanted: [score]}.

    into: what the columns are. The last row, set apart, is for scale.
    """
    figure = plt.figure(figsize=(8.6, 0.95 + 0.33 * len(scores)))
    axis = figure.add_axes([0, 0, 1, 1], xlim=(-3.1, 5.5), ylim=(len(scores) + 0.15, -1.9))
    axis.axis("off")
    words = {"va": "center", "size": 10.5}
    axis.text(-0.1, -0.35, "taken from the finished model", color=PALE, ha="right", **words)
    for x, name in enumerate(into):
        axis.text(1.55 * x + 0.775, -0.35, f"into {name}", color=PALE, ha="center", **words)
    for y, (name, row) in enumerate(scores.items()):
        y += 0.65 if y == len(scores) - 1 else 0.5
        axis.text(-0.1, y, name, color=INK, ha="right", **words)
        for x, score in enumerate(map(float, row)):
            box = {"fc": tint(SHARE)(score), "ec": "0.88", "lw": 0.8}
            axis.add_patch(Rectangle((1.55 * x + 0.03, y - 0.44), 1.49, 0.88, **box))
            color = "white" if score > 0.5 else "0.25"
            axis.text(1.55 * x + 0.775, y, f"{score:.2f}", color=color, ha="center", **words)
    return headline(figure, title)


def second_copies(
    steps: list[int],
    groups: dict[str, tuple],
    spans: dict[str, list[tuple[int, int]]],
    title: str,
) -> Figure:
    """The loss on copies while runs train, a line for each run.

    groups: {label: (losses [run, step], color, (x, y) of the label)}; spans: {label: (from, to) of
    each run}, drawn thick. Dashed: how the first group would fall if it fell steadily.
    """
    figure, axis = plt.subplots(figsize=(9, 3.7))
    figure.subplots_adjust(0.06, 0.14, 0.985, 0.86)
    first = next(iter(groups.values()))[0]
    steady = [sum(run[end] for run in first) / len(first) for end in (0, -1)]
    axis.plot([steps[0], steps[-1]], steady, color=PALE, lw=1, ls=(0, (5, 4)))
    at = np.interp(0.25, [0, 1], [steps[0], steps[-1]]), np.interp(0.25, [0, 1], steady)
    axis.annotate(
        "a steady fall", at, (-8, -12), textcoords="offset points", color=PALE, ha="right"
    )
    for label, (runs, color, (x, y)) in groups.items():
        for n, run in enumerate(runs):
            axis.plot(steps, run, color=color, lw=1.1, alpha=0.85)
            if label in spans:
                low, high = spans[label][n]
                thick = [(step, loss) for step, loss in zip(steps, run, strict=True)]
                thick = [point for point in thick if low <= point[0] <= high]
                axis.plot(*np.transpose(thick), color=color, lw=3.4, solid_capstyle="butt")
        axis.text(x, y, label, color=color, va="center", weight="bold")
    note = {"color": PALE, "ha": "right", "va": "bottom", "transform": axis.transAxes}
    axis.text(1, 1.01, "thick: the middle half of a fall", **note)
    axis.set(xlim=(steps[0], steps[-1]), ylim=(0, 8.2))
    axis.set(xlabel="training step", ylabel="loss (nats)")
    return headline(figure, title)


def kinds_of_tokens(steps: list[int], copied: dict[str, list[float]], title: str) -> Figure:
    """How much is copied of three kinds of tokens. copied: {kind: accuracy at each step}."""
    figure, axis = plt.subplots(figsize=(8.6, 3.2))
    figure.subplots_adjust(0.075, 0.16, 0.76, 0.88)
    for y, color in zip(copied.values(), (STORIES, "0.35", RANDOM), strict=True):
        axis.plot(steps, y, color=color, lw=2.2, marker="o", ms=4, clip_on=False)
    _label_ends(axis, steps[-1] + 15, copied, (STORIES, "0.35", RANDOM))
    axis.set(xlim=(steps[0], steps[-1]), ylim=(-0.03, 1.03))
    axis.set(xlabel="training step", ylabel="copy accuracy (12 tokens)")
    return headline(figure, title)


def copied_by_length(groups: dict[str, dict[int, list[float]]], title: str) -> Figure:
    """Copy accuracy by length of the segment, a line for each run: {group: {length: [run]}}."""
    figure, axis = plt.subplots(figsize=(8.6, 3.3))
    figure.subplots_adjust(0.075, 0.16, 0.76, 0.88)
    colors = (RANDOM, INK, STORIES)
    for found, color in zip(groups.values(), colors, strict=True):
        style = {"color": color, "lw": 1.6, "marker": "o", "ms": 4, "clip_on": False}
        axis.plot(list(found), np.array(list(found.values())), **style)
    ends = {g: [np.median(values) for values in found.values()] for g, found in groups.items()}
    lengths = list(next(iter(groups.values())))
    _label_ends(axis, lengths[-1] + 1.2, ends, colors)
    axis.set(xlim=(lengths[0], lengths[-1]), ylim=(-0.03, 1.03), xticks=lengths)
    axis.set(xlabel="length of the segment (random tokens)", ylabel="copy accuracy")
    return headline(figure, title)


def _label_ends(axis, x, curves, colors, gap=0.11):
    """Each curve's name beside its last value, at least `gap` below the name above it."""
    place = 2.0
    pairs = zip(curves, colors, strict=True)
    for name, color in sorted(pairs, key=lambda pair: -curves[pair[0]][-1]):
        place = min(place - gap, curves[name][-1])
        axis.text(x, place, name, color=color, va="center", weight="bold")


def tint(color):
    """Colors from white (0) to the given one (1)."""
    return LinearSegmentedColormap.from_list("tint", ["white", color])


def draw_pattern(axis, pattern):
    """An attention pattern [query, key] of a text written twice, with a line between the copies."""
    axis.imshow(np.asarray(pattern), cmap=tint(SHARE), vmin=0, vmax=0.9)
    axis.axhline(len(pattern) // 2 + 0.5, color="0.6", lw=0.7)  # here the second copy begins
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set(visible=True, color="0.8")
