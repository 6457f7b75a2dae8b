"""Drawings of notebook 08: a head that carries another word, what that recovers, its weights."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, VALUE

LOWERED = "#C2185B"


def readings(rows: list[tuple], title: str) -> Figure:
    """Sentences in rows, what a head is given to carry, and what the model says next.

    rows: (label, words, {place: what stands there for the head}, {word: probability}), with
    probabilities in falling order.
    """
    height = 0.55 + 1.02 * len(rows)
    figure, axis = diagrams.canvas(10, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    for i, (label, words, carried, said) in enumerate(rows):
        y = height - 1.08 - 1.02 * i
        look = {"size": 10.5, "ha": "left", "weight": "bold", "linespacing": 1.3}
        diagrams.say(axis, 0.12, y, label, INK, **look)
        step = min(1.06, 5.6 / len(words))
        at = [2.5 + step * k for k in range(len(words))]
        for k, (x, text) in enumerate(zip(at, words, strict=True)):
            color = KEY if k in carried else QUERY if k == len(words) - 1 else PALE
            size = 11.5 if step > 0.8 else 10.5
            diagrams.word(axis, x, y, text, color, width=0.9 * step, height=0.42, size=size)
        for k, text in carried.items():
            wide = max(0.8 * step, 0.12 + 0.085 * len(text))
            diagrams.word(axis, at[k], y + 0.4, text, VALUE, width=wide, height=0.28, size=9.5)
        diagrams.arrow(axis, (at[-1] + 0.5 * step, y), (8.55, y), PALE)
        for k, (text, p) in enumerate(list(said.items())[:2]):
            look = {"size": 15 if p > 0.5 else 10.5, "weight": "bold" if k == 0 else "normal"}
            place = (8.65, y + 0.08 - 0.32 * k)
            diagrams.say(axis, *place, f"{text} {p:.2f}", (INK, PALE)[k], ha="left", **look)
    return figure


def recovered_bars(shares: dict, wins: dict, title: str, flips: float = 0.5) -> Figure:
    """A bar for each head, from the text (0) to the donor (1), a panel for each kind of word.

    shares, wins: {(kind, head): number}: logit difference recovered; the share of the places where
    the donor's word wins, which is written beside the bar.
    """
    kinds, heads = (list(dict.fromkeys(each)) for each in zip(*shares, strict=True))
    size = (9.6, 1.25 + 0.42 * len(heads))
    figure, axes = plt.subplots(1, len(kinds), figsize=size, dpi=DPI, sharex=True, squeeze=False)
    figure.subplots_adjust(0.07, 0.56 / size[1], 0.985, 1 - 0.66 / size[1], wspace=0.16)
    diagrams.headline(figure, title)
    for axis, kind in zip(axes[0], kinds, strict=True):
        for i, head in enumerate(heads):
            share = shares[kind, head]
            axis.barh(i, share, color=VALUE, height=0.55, zorder=2)
            text = f"{share:.2f}  (donor's word wins {wins[kind, head]:.0%})"
            inside = share > 0.55
            place = {"ha": "right" if inside else "left", "va": "center", "size": 9.5, "zorder": 3}
            x = share - 0.015 if inside else max(share, 0) + 0.02
            ground = None if inside else {"fc": "white", "ec": "none", "pad": 0.8}
            axis.text(x, i, text, color="white" if inside else INK, bbox=ground, **place)
        axis.axvline(flips, color="0.6", lw=1, ls="--", zorder=1)
        axis.set(xlim=(-0.04, 1.04), ylim=(len(heads) - 0.4, -0.6))
        axis.set_yticks(range(len(heads)), heads, fontsize=10.5)
        ticks = ["0: the text", f"{flips:g}: even", "1: the donor"]
        axis.set_xticks([0, flips, 1], ticks, fontsize=9.5)
        total = sum(shares[kind, head] for head in heads)
        axis.set_title(f"{kind} (all heads: {total:.2f})", size=11, color=INK, loc="left")
        axis.set_xlabel("logit difference recovered", size=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(length=0)
    return figure


def _panels(rows: dict, size: tuple[float, float], title: str):
    """A figure and its axes, a row for each of `rows`, a column, with its name, for their keys."""
    columns = list(next(iter(rows.values())))
    figure, axes = plt.subplots(len(rows), len(columns), figsize=size, dpi=DPI, squeeze=False)
    for axis, column in zip(axes[0], columns, strict=True):
        axis.set_title(column, size=11, color=INK)
    for axis in axes.flat:
        axis.spines[:].set(visible=True, color="0.85")
    return diagrams.headline(figure, title), axes


def diagonals(tables: dict, title: str) -> Figure:
    """Square tables of tokens, red above the mean of the row and blue below; a scale for each row.

    tables: {kind of token: [source, out] of each head of layer 0}, with a row of panels for each
    kind. Below each panel stands how many tokens raise, or lower, themselves most in their row.
    """
    names = [f"L0H{h}" for h in range(len(next(iter(tables.values()))))]
    tables = {kind: dict(zip(names, each, strict=True)) for kind, each in tables.items()}
    figure, axes = _panels(tables, (9.4, 0.9 + 2.5 * len(tables)), title)
    width, height = figure.get_size_inches()
    bottom, top = 0.3 / height, 1 - 0.68 / height
    figure.subplots_adjust(0.5 / width, bottom, 0.995, top, wspace=0.04, hspace=0.16)
    for line, (kind, each) in zip(axes, tables.items(), strict=True):
        maps = [np.asarray(table) for table in each.values()]
        maps = [table - table.mean(axis=1, keepdims=True) for table in maps]
        high = max(np.abs(table).max() for table in maps)
        for axis, table in zip(line, maps, strict=True):
            axis.imshow(table, cmap="RdBu_r", vmin=-high, vmax=high)
            axis.set(xticks=[], yticks=[])
            at = np.arange(len(table))
            raised, lowered = ((f(table, axis=1) == at).sum() for f in (np.argmax, np.argmin))
            way = "lower" if lowered > raised else "raise"
            said = f"{max(raised, lowered)} of {len(table)} {way} themselves most"
            axis.set_xlabel(said, size=9.5, color=INK, labelpad=3)
        line[0].set_ylabel(f"{kind}: full color ±{high:.0f} nats", size=10)
    return figure


def eigenvalue_planes(heads: list[tuple], title: str) -> Figure:
    """Eigenvalues of several heads in the complex plane: right of the middle raised, left lowered.

    Drawn at the square root of their distance from zero, on one scale. Ticks are true values,
    circles true sizes: the inner one, half-way to the outer, has a quarter of its size.
    heads: of each head of layer 0 its eigenvalues (complex) and its copying score.
    """
    figure, axes = plt.subplots(1, len(heads), figsize=(2.45 * len(heads), 3.15), dpi=DPI)
    figure.subplots_adjust(0.02, 0.165, 0.99, 0.74, wspace=0.08)
    diagrams.headline(figure, title)
    note = "square-root scale: half of the way out is a quarter of the size"
    figure.text(0.99, 0.945, note, size=9.5, color=PALE, ha="right", va="center")
    largest = max(np.abs(np.asarray(values)).max() for values, _ in heads)
    reach, tick = 1.12 * np.sqrt(largest), float(f"{0.19 * largest:.0e}")  # one digit
    ticks = [f"−{4 * tick:g}", f"−{tick:g}", "0", f"{tick:g}", f"{4 * tick:g}"]
    for h, (axis, (values, score)) in enumerate(zip(axes, heads, strict=True)):
        values = np.asarray(values)
        values = values / np.sqrt(np.abs(values))
        axis.axvspan(0, reach, color=VALUE, alpha=0.1, lw=0)
        axis.axvspan(-reach, 0, color=LOWERED, alpha=0.08, lw=0)
        axis.axhline(0, color="0.7", lw=0.8)
        colors = [VALUE if x > 0 else LOWERED for x in values.real]
        axis.scatter(values.real, values.imag, s=24, c=colors, alpha=0.8, lw=0)
        axis.set(xlim=(-reach, reach), ylim=(-reach, reach), yticks=[], aspect="equal")
        for radius in (tick**0.5, 2 * tick**0.5):
            axis.add_patch(plt.Circle((0, 0), radius, fill=False, color="0.7", lw=0.8, ls=":"))
        axis.set_xticks([x * tick**0.5 for x in (-2, -1, 0, 1, 2)], ticks, fontsize=9)
        shown = f"{float(score):+.2f}".replace("-", "−")
        axis.set_title(f"L0H{h}\ncopying score {shown}", size=10.5, color=INK)
        axis.spines[:].set(visible=True, color="0.85")
        axis.set_xlabel("real part: lowered · raised", size=9.5, color=PALE)
    return figure


def against_score(
    panels: dict, title: str, null: float, least: float, labels: dict | None = None
) -> Figure:
    """A dot for each head: its copying score, and the logit difference recovered by its values.

    panels: {what is below the panel: {head: (score, recovered)}}, all on one scale. null: scores
    above it are flagged (filled); least: who recovers more is a copying head. Where the two
    disagree the dot is pink. labels: {head: what is written beside it}.
    """
    figure, axes = plt.subplots(
        1, len(panels), figsize=(9.4, 3.7), dpi=DPI, sharey=True, squeeze=False
    )
    figure.subplots_adjust(0.125, 0.14, 0.99, 0.87, wspace=0.06)
    diagrams.headline(figure, title)
    for axis, (below, points) in zip(axes[0], panels.items(), strict=True):
        axis.axhline(least, color="0.6", lw=1, ls="--", zorder=0)
        axis.axvspan(null, 1.1, color=VALUE, alpha=0.07, lw=0)
        axis.text(1.09, -0.075, "flagged", size=9.5, color=VALUE, ha="right", va="center")
        for head, (score, share) in points.items():
            flagged = score > null
            color = LOWERED if flagged != (share >= least) else VALUE if flagged else "0.45"
            axis.scatter(score, share, s=52, lw=1.6, ec=color, fc=color if flagged else "white")
            if head in (labels or {}):
                side = -1 if score > 0 else 1
                look = {"ha": "right" if score > 0 else "left", "va": "center", "color": color}
                place = {"textcoords": "offset points", "size": 9.5}
                axis.annotate(labels[head], (score, share), (9 * side, 1), **place, **look)
        axis.set(xlim=(-1.1, 1.1), ylim=(-0.12, 1.08))
        axis.set_xlabel(below, size=10)
        axis.tick_params(labelsize=9.5)
        axis.spines[["top", "right"]].set_visible(False)
    ticks = ["0", f"copies {least:g}", "0.5", "1"]
    axes[0, 0].set_yticks([0, least, 0.5, 1], ticks)
    axes[0, 0].set_ylabel("logit difference recovered", size=10, labelpad=2)
    return figure
