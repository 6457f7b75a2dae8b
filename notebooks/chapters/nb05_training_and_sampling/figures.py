"""Drawings of notebook 05: two loops around a model, what temperature does."""

import math

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.path import Path

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, PALE
from aot_helpers.showing.plots import shown
from aot_helpers.showing.texts import SURPRISE, tint

PROBABILITY, DRAWN = diagrams.KEY, diagrams.VALUE


def two_loops(model, text, came, drawn, *, title: str) -> Figure:
    """Training (left) and sampling (right) around one model, asked what follows the text.

    came, drawn: two tokens that may follow, one for each loop.
    """
    ids = model.tokenizer.encode(text, bos=True)
    with torch.no_grad():
        p = model(ids[None])[0, -1].softmax(dim=-1)
    chances = {token: p[model.tokenizer.encode(" " + token)[0]].item() for token in (came, drawn)}
    chances["others"] = 1 - sum(chances.values())
    tokens = text.split()
    figure, axis = diagrams.canvas(10, 4.75)
    diagrams.say(axis, 0.12, 4.52, title, size=12.5, ha="left")
    middle, left, right = 5.0, 1.5, 8.6
    y_text, y_model, y_bars = 3.85, 2.82, 0.95

    # Down the middle: text, model, probabilities.
    x = middle - 0.41 * (len(tokens) - 1)
    for token in tokens:
        diagrams.word(axis, x, y_text, token, width=0.74, height=0.34, size=11.5)
        x += 0.82
    diagrams.arrow(axis, (middle, y_text - 0.2), (middle, y_model + 0.36), INK)
    look = {"boxstyle": "round,pad=0,rounding_size=0.12", "fc": "#F0F0F0", "ec": INK, "lw": 1.6}
    axis.add_patch(FancyBboxPatch((middle - 0.95, y_model - 0.34), 1.9, 0.68, zorder=3, **look))
    diagrams.say(axis, middle, y_model + 0.1, "model", size=13, weight="bold")
    diagrams.say(axis, middle, y_model - 0.14, "its weights decide", PALE, size=9.5)
    diagrams.arrow(axis, (middle, y_model - 0.36), (middle, y_bars + 0.98), PROBABILITY)
    tall = 0.95 / max(chances.values())
    for i, (token, p) in enumerate(chances.items()):
        at, base = middle + 0.82 * (i - (len(chances) - 1) / 2), y_bars - 0.3
        axis.add_patch(Rectangle((at - 0.24, base), 0.48, tall * p, color=PROBABILITY, alpha=0.85))
        diagrams.say(axis, at, base + tall * p + 0.1, f"{p:.2f}", PROBABILITY, size=9.5)
        color = SURPRISE if token == came else DRAWN if token == drawn else INK
        weight = "bold" if token in (came, drawn) else "normal"
        diagrams.say(axis, at, base - 0.13, token, color, size=10.5, weight=weight)
    diagrams.say(axis, middle, 0.28, "a probability for each of 1,024 next tokens", PROBABILITY)

    # Left: what came is known, so there is a loss, and the weights change.
    edge = middle - 0.41 * len(chances) - 0.05
    diagrams.arrow(axis, (edge, y_bars), (left + 0.95, y_bars), SURPRISE, width=2)
    diagrams.say(axis, left, y_bars + 0.12, f"what came: {came}", SURPRISE, size=11, weight="bold")
    loss = f"loss = −ln {chances[came]:.3f} = {-math.log(chances[came]):.2f}"
    diagrams.say(axis, left, y_bars - 0.12, loss, SURPRISE, size=11)
    _bend(axis, (left, y_bars + 0.32), (middle - 0.98, y_model), SURPRISE)
    diagrams.say(
        axis, left + 0.12, 2.15, "nudge each weight\nso that the loss falls", SURPRISE, ha="left"
    )
    diagrams.say(axis, left, y_model + 0.3, "TRAINING", SURPRISE, size=12, weight="bold")

    # Right: what comes is not known, so one token is drawn, and the text grows.
    diagrams.arrow(axis, (2 * middle - edge, y_bars), (right - 0.72, y_bars), DRAWN, width=2)
    diagrams.say(axis, right, y_bars, f"drawn: {drawn}", DRAWN, size=11, weight="bold")
    end = middle + 0.41 * (len(tokens) - 1) + 0.4
    _bend(axis, (right, y_bars + 0.2), (end, y_text), DRAWN)
    diagrams.say(axis, right - 0.12, 2.15, "append it\nand ask again", DRAWN, ha="right")
    diagrams.say(axis, right, y_text + 0.3, "SAMPLING", DRAWN, size=12, weight="bold")
    return figure


def river(temperatures, probabilities, names, marks, *, title: str) -> Figure:
    """The next-token distribution as temperature rises: one band per token, labeled in the band.

    probabilities: [temperature, token], the likeliest first. names: tokens whose bands are drawn
    apart; the rest is one band. marks: temperatures to point out.
    """
    figure, axis = plt.subplots(figsize=(9.2, 3.6), dpi=DPI, layout="constrained")
    plt.close(figure)
    p, x = np.asarray(probabilities), np.asarray(temperatures)
    bands = np.concatenate([p[:, : len(names)].T, 1 - p[:, : len(names)].sum(1)[None]])
    blend = np.linspace(0.95, 0.25, len(names))
    colors = [tint(PROBABILITY, b) for b in blend] + ["#ECECEC"]
    axis.stackplot(x, bands, colors=colors, edgecolor="white", lw=0.8)
    edges = np.concatenate([np.zeros((1, len(x))), bands.cumsum(0)])
    for i, name in enumerate([*map(shown, names), "all other tokens"]):
        widest = int((bands[i] * (x < 2.0)).argmax()) if i else int(np.searchsorted(x, 0.28))
        widest = min(max(widest, len(x) // 10), int(len(x) * 0.93))
        near = [mark for mark in marks if abs(x[widest] - mark) < 0.1]
        if near:  # no label on a dotted line
            widest = int(np.searchsorted(x, near[0] + 0.1))
        if bands[i][widest] > 0.045:
            y = (edges[i] + edges[i + 1])[widest] / 2
            color = "white" if i < len(names) / 2 else INK
            ha = "left" if i == 0 else "center"
            axis.text(x[widest], y, name, color=color, fontsize=10.5, ha=ha, va="center")
    for mark in marks:
        axis.axvline(max(mark, x[0]), color=INK, lw=1.6, ls=(0, (1, 1.2)))
        ha = "left" if mark == 0 else "center"
        axis.text(mark + 0.02 * (mark == 0), 1.02, f"{mark:g}", fontsize=11, ha=ha, weight="bold")
    axis.set(xlim=(x[0], x[-1]), ylim=(0, 1), xticks=[0.5, 1, 1.5, 2], yticks=[0, 0.5, 1])
    axis.set_xlabel("temperature", fontsize=10.5)
    axis.set_ylabel("probability", fontsize=10.5)
    axis.set_title(title, fontsize=12, loc="left", pad=20)
    axis.spines[:].set_visible(False)
    axis.tick_params(labelsize=10, length=0)
    return figure


def choices(loss):
    """The power e to the loss: how many equally likely tokens cost as much."""
    number = math.exp(loss)
    return f"{number:,.0f}" if number >= 10 else f"{number:.1f}"


def _bend(axis, start, end, color):
    """Up from start, round the corner, and along to end."""
    (x0, y0), (x1, y1) = start, end
    turn = 0.3 if x1 > x0 else -0.3
    points = [(x0, y0), (x0, y1 - 0.3), (x0, y1), (x0 + turn, y1), (x1, y1)]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO]
    look = {"arrowstyle": "-|>,head_length=6,head_width=3.2", "mutation_scale": 1, "lw": 2}
    axis.add_patch(FancyArrowPatch(path=Path(points, codes), color=color, fc=color, **look))
