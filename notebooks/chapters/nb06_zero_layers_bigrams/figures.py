"""Drawings of notebook 06: tables of letter pairs as maps, dots and a plane of letters."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHADES
from chapters.nb06_zero_layers_bigrams.measure import VOWELS, line_between, shown

NEVER = 1.2e-3  # where pairs that never occur stand on a logarithmic axis


def table_maps(tables: dict, signs: str, title: str) -> Figure:
    """Tables of probabilities [present, next] beside each other, every sign named."""
    figure, axes = plt.subplots(1, len(tables), figsize=(4.9 * len(tables), 5.2), dpi=DPI)
    figure.subplots_adjust(0.055, 0.015, 0.995, 0.85, wspace=0.1)
    diagrams.headline(figure, title)
    for axis, (name, table) in zip(axes, tables.items(), strict=True):
        _map(axis, table)
        labels = [shown(sign) for sign in signs]
        axis.set_xticks(range(len(signs)), labels, fontsize=9)
        axis.set_yticks(range(len(signs)), labels, fontsize=9)
        axis.tick_params(length=0, pad=2)
        axis.xaxis.tick_top()
        axis.set_title(name, size=11, loc="left", color=INK, pad=16)
        axis.text(
            1, 1.055, "next letter →", size=9.5, color=PALE, ha="right", transform=axis.transAxes
        )
    axes[0].set_ylabel("present letter", size=9.5, color=PALE)
    return figure


def table_strip(tables: dict, signs: str, named: list[str], title: str) -> Figure:
    """Tables of probabilities [present, next] as a strip; vowels and consonants are marked.

    named: pairs of signs that get a square in every table, and their names in the first.
    """
    figure, axes = plt.subplots(1, len(tables), figsize=(10.4, 2.5), dpi=DPI)
    figure.subplots_adjust(0.05, 0.03, 0.995, 0.76, wspace=0.07)
    diagrams.headline(figure, title)
    border = len(VOWELS) + 0.5  # after the space and the vowels
    middles = {len(VOWELS) / 2: "␣ and\nvowels", (border + len(signs)) / 2: "consonants"}
    for axis, (name, table) in zip(axes, tables.items(), strict=True):
        _map(axis, table)
        axis.axhline(border, color="0.6", lw=0.8)
        axis.axvline(border, color="0.6", lw=0.8)
        axis.set(xticks=[], yticks=[])
        axis.set_title(name, size=10, loc="left", color=INK)
        for pair in named:
            i, j = (signs.index(sign) for sign in pair)
            axis.plot(j, i, "s", ms=7.5, mfc="none", mec=QUERY, mew=1.3)
            if axis is not axes[0]:
                continue  # names would cover cells
            look = {"size": 9.5, "weight": "bold", "color": QUERY, "va": "center"}
            text = axis.text(j + 1.2, i, " → ".join(map(shown, pair)), **look)
            text.set_path_effects([withStroke(linewidth=2.5, foreground="white")])
    look = {"rotation": 90, "va": "center", "multialignment": "center"}
    axes[0].set_yticks(list(middles), middles.values(), fontsize=9, **look)
    axes[0].tick_params(length=0)
    return figure


def _map(axis, table):
    axis.imshow(np.asarray(table) ** 0.5, cmap=SHADES, vmin=0, vmax=1)
    axis.spines[:].set(visible=True, color="0.8")


def pairs(counted, model, signs: str, named: list[str], title: str) -> Figure:
    """A dot for each pair: its share in the text (across) and in the model (up), logarithmic.

    Pairs that never occur stand in a strip at the left. named: pairs of signs to be labeled,
    above and below in turn.
    """
    counted, model = np.asarray(counted), np.asarray(model).clip(1e-5)
    figure, axis = plt.subplots(figsize=(7.4, 4.4), dpi=DPI)
    figure.subplots_adjust(0.13, 0.12, 0.98, 0.9)
    diagrams.headline(figure, title)
    seen = counted > 0
    left = NEVER * 10 ** np.random.default_rng(0).uniform(-0.12, 0.12, (~seen).sum())
    axis.scatter(left, model[~seen], s=12, color="0.7", lw=0)
    axis.scatter(counted[seen], model[seen], s=18, color=KEY, alpha=0.7, lw=0)
    axis.plot([0.002, 1], [0.002, 1], color="0.4", lw=1, ls="--", zorder=0)
    axis.axvline(0.002, color="0.8", lw=1)
    axis.set(xscale="log", yscale="log", xlim=(7e-4, 1.6), ylim=(6e-6, 1.9))
    for below, pair in enumerate(named):
        i, j = (signs.index(sign) for sign in pair)
        text = f"{shown(pair[0])} → {shown(pair[1])}"
        look = {"size": 10.5, "weight": "bold", "color": INK, "textcoords": "offset points"}
        where, side = ((8, -11), "left") if below % 2 else ((-6, 7), "right")
        axis.annotate(text, (counted[i, j], model[i, j]), where, ha=side, **look)
    ticks = [0.01, 0.1, 1]
    axis.set_xticks([NEVER, *ticks], ["never", "0.01", "0.1", "1"], fontsize=9.5)
    low = {1e-5: "0.00001\nor less", 1e-4: "0.0001", 1e-3: "0.001"}
    axis.set_yticks([*low, *ticks], [*low.values(), "0.01", "0.1", "1"], fontsize=9.5)
    axis.minorticks_off()
    axis.set_xlabel("how often it follows, counted in the text", size=10)
    axis.set_ylabel("probability in the model", size=10)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def against_truth(P, model, learnable, title: str) -> Figure:
    """A dot for each pair: its true probability (across) and the model's (up), logarithmic.

    learnable: True for pairs that a text shows often enough; the others are gray. What is below
    1e-4 stands at the border.
    """
    least = 1e-4
    P, model = (np.asarray(table).clip(least) for table in (P, model))
    learnable = np.asarray(learnable)
    figure, axis = plt.subplots(figsize=(7.4, 4.0), dpi=DPI)
    figure.subplots_adjust(0.12, 0.13, 0.98, 0.89)
    diagrams.headline(figure, title)
    axis.plot([least, 1], [least, 1], color="0.4", lw=1, ls="--", zorder=0)
    look = {"lw": 0, "clip_on": False}
    axis.scatter(P[~learnable], model[~learnable], s=12, color="0.7", **look)
    axis.scatter(P[learnable], model[learnable], s=18, color=KEY, alpha=0.7, **look)
    axis.set(xscale="log", yscale="log", xlim=(least, 1.2), ylim=(least, 1.2))
    ticks = {least: "≤ 0.0001", 1e-3: "0.001", 0.01: "0.01", 0.1: "0.1", 1: "1"}
    axis.set_xticks(list(ticks), ticks.values(), fontsize=9.5)
    axis.set_yticks(list(ticks), ticks.values(), fontsize=9.5)
    axis.minorticks_off()
    axis.set_xlabel("probability in the true table P", size=10)
    axis.set_ylabel("probability in the model", size=10)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _spread(places, gap: tuple[float, float]):
    """Places [label, 2], moved until no two are within gap of each other in both directions."""
    places, gap = np.array(places, dtype=float), np.asarray(gap)
    for _ in range(200):
        away = places[:, None] - places[None]
        overlap = gap - np.abs(away)  # how far two labels reach into each other [i, j, direction]
        touching = (overlap > 0).all(axis=-1) & ~np.eye(len(places), dtype=bool)
        if not touching.any():
            break
        side = np.abs(overlap / gap).argmin(axis=-1)  # the shorter way out
        for i, j in zip(*np.nonzero(np.triu(touching)), strict=True):
            k = side[i, j]
            step = (0.55 if away[i, j, k] >= 0 else -0.55) * overlap[i, j, k]
            places[i, k] += step
            places[j, k] -= step
    return places


def letter_plane(rows, signs: str, title: str) -> Figure:
    """Letters as points [sign, 2], near ones moved apart, and a line that parts them.

    Orange: vowels, gray: the space, blue: consonants. The line is dashed, with vowels and space on
    one side; there is none where no straight line does that.
    """
    line = line_between(rows, torch.tensor([sign in f" {VOWELS}" for sign in signs]))
    rows = np.asarray(rows)
    low, high = rows.min(axis=0), rows.max(axis=0)
    pad = 0.08 * (high - low)
    rows = _spread(rows, (high - low) * (0.024, 0.062))  # the size of a letter
    figure, axis = plt.subplots(figsize=(7.4, 4.3), dpi=DPI)
    figure.subplots_adjust(0.02, 0.03, 0.98, 0.84)
    diagrams.headline(figure, title)
    for (x, y), sign in zip(rows, signs, strict=True):
        color = QUERY if sign in VOWELS else PALE if sign == " " else KEY
        axis.text(x, y, shown(sign), size=14, weight="bold", color=color, ha="center", va="center")
    axis.set(xlim=(low[0] - pad[0], high[0] + pad[0]), ylim=(low[1] - pad[1], high[1] + pad[1]))
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set(visible=True, color="0.85")
    marks = [("vowels", QUERY, 0.02), ("consonants", KEY, 0.125), ("␣ space", PALE, 0.28)]
    if line:
        a, b, c = line
        axis.axline((a * c, b * c), (a * c - b, b * c + a), color=INK, lw=1.2, ls="--", zorder=0)
        marks.append(("- - -  a straight line parting vowels and ␣ from consonants", INK, 0.4))
    for text, color, x in marks:
        figure.text(x, 0.87, text, size=10, color=color)
    return figure
