"""Drawings of notebook 08: a head that reads another word, swings, tables, eigenvalues."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHARE, VALUE

LOWERED = "#C2185B"


def readings(rows: list[tuple], words: list[str], title: str) -> Figure:
    """One sentence in several rows, and what a model says after its last word.

    rows: (label, what the first word is read as or None, {word: probability}), probabilities in
    falling order.
    """
    height = 0.65 + 0.98 * len(rows)
    figure, axis = diagrams.canvas(10, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    diagrams.say(axis, 8.75, height - 0.28, "the model says", PALE, size=10)
    for i, (label, read_as, said) in enumerate(rows):
        y = height - 1.1 - 0.98 * i
        diagrams.say(axis, 0.12, y, label, INK, size=11, ha="left", weight="bold")
        at = [2.6 + 1.06 * k for k in range(len(words))]
        for k, (x, text) in enumerate(zip(at, words, strict=True)):
            color = {0: KEY, len(words) - 1: QUERY}.get(k, PALE)
            diagrams.word(axis, x, y, text, color, width=0.96, height=0.42, size=11.5)
        if read_as:
            diagrams.word(axis, at[0], y + 0.42, read_as, VALUE, width=0.8, height=0.3, size=10)
            diagrams.say(
                axis, at[0] + 0.5, y + 0.42, "is what it reads", VALUE, size=9.5, ha="left"
            )
        diagrams.arrow(axis, (at[-1] + 0.52, y), (at[-1] + 0.86, y), PALE)
        place = at[-1] + 0.98
        for k, (text, p) in enumerate(list(said.items())[:2]):
            look = {"size": 15 if p > 0.5 else 10.5, "weight": "bold" if k == 0 else "normal"}
            lift = y + 0.08 - 0.32 * k
            diagrams.say(
                axis, place, lift, f"{text} {p:.2f}", INK if k == 0 else PALE, ha="left", **look
            )
    return figure


def swings(panels: dict, title: str, most: int = 300) -> Figure:
    """A thin line for each copy, from before to after; above zero the other token wins.

    panels: {kind of copy: {head: (before, after)}}, with a row of panels for each kind. The black
    line is the mean of all copies; at most so many of them are drawn.
    """
    figure, axes = _panels(panels, (9.6, 0.85 + 1.9 * len(panels)), title)
    figure.subplots_adjust(0.1, 0.075, 0.99, 0.84, wspace=0.08, hspace=0.12)
    for line, (kind, each) in zip(axes, panels.items(), strict=True):
        ends = np.concatenate([np.asarray(x)[:most] for both in each.values() for x in both])
        reach = np.abs(ends).max() * 1.05
        for axis, (before, after) in zip(line, each.values(), strict=True):
            before, after = np.asarray(before), np.asarray(after)
            for ground, color in (((0, reach), VALUE), ((-reach, 0), PALE)):
                axis.axhspan(*ground, color=color, alpha=0.09, lw=0)
            drawn = [before[:most], after[:most]]
            axis.plot([0, 1], drawn, color=SHARE, lw=0.5, alpha=0.22)
            axis.plot([0, 1], [before.mean(), after.mean()], "o-", color=INK, lw=2.2, ms=5)
            axis.set(xlim=(-0.08, 1.08), ylim=(-reach, reach), xticks=[], yticks=[])
        tick = max(each for each in (0.5, 1, 2, 5, 10, 20, 50) if each < max(reach, 0.6))
        line[0].set_yticks([-tick, 0, tick], [f"−{tick:g}", "0", f"+{tick:g}"])
        line[0].tick_params(labelsize=9.5, length=3)
        line[0].set_ylabel(f"{kind}, nats\nother minus true", size=10.5, labelpad=1)
    sides = {
        "the other word wins": (0.96, "top", VALUE),
        "the true word wins": (0.04, "bottom", PALE),
    }
    for text, (y, va, color) in sides.items():
        place = {"transform": axes[-1, 0].transAxes, "va": va, "color": color, "size": 9.5}
        axes[-1, 0].text(0.03, y, text, **place)
    for axis in axes[-1]:
        axis.set_xticks([0, 1], ["before", "after"], fontsize=9.5, rotation=0)
        axis.tick_params(axis="x", length=0)
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
    """Square tables of tokens: red raised, blue lowered, each on its own scale, which is noted.

    tables: {kind of token: {head: [looked at, raised]}}, with a row of panels for each kind.
    """
    figure, axes = _panels(tables, (9.2, 0.85 + 2.45 * len(tables)), title)
    figure.subplots_adjust(0.035, 0.055, 0.995, 0.87, wspace=0.03, hspace=0.13)
    for line, (kind, each) in zip(axes, tables.items(), strict=True):
        for axis, table in zip(line, each.values(), strict=True):
            table = np.asarray(table)
            high = np.abs(table).max()
            axis.imshow(table, cmap="RdBu_r", vmin=-high, vmax=high)
            axis.set(xticks=[], yticks=[])
            axis.set_xlabel(f"full color: ±{high:.1f} nats", size=9.5, color=INK, labelpad=3)
        line[0].set_ylabel(kind, size=11)
    note = "row: looked at, column: raised"
    top = 1 - 0.18 / figure.get_size_inches()[1]
    figure.text(0.99, top, note, size=9.5, color=PALE, ha="right", va="center")
    return figure


def pulls(
    tokens: list[str], pulled: dict, ways: tuple[str, str], title: str, least: float = 1.0
) -> Figure:
    """What looks from the last token add to one word against another, an arc for each.

    pulled: {head: [pos], nats}, drawn above the text where positive, below where negative, with
    the head and the nats at the arc. ways: what the arcs above pull to, and those below. Looks of
    less than `least` nats, and those of the last token at itself, are only summed up in a note.
    """
    figure, axis = diagrams.canvas(10, 3.9)
    query = len(tokens) - 1
    diagrams.say(axis, 0.12, 3.7, title, size=12, ha="left", weight="bold")
    step = 9.4 / len(tokens)
    at = [0.3 + step * (i + 0.5) for i in range(len(tokens))]
    y, angle = 1.9, np.linspace(0, np.pi, 40)
    for i, token in enumerate(tokens):
        color = QUERY if i == query else PALE
        diagrams.word(axis, at[i], y, token, color, width=0.86 * step, height=0.36, size=11)
    arcs = [
        (h, i, x) for h, each in pulled.items() for i, x in enumerate(np.asarray(each).tolist())
    ]
    most = max(abs(nats) for _, _, nats in arcs)
    drawn = [(h, i, nats) for h, i, nats in arcs if abs(nats) >= least and i < query]
    sums = {h: sum(x for head, _, x in arcs if head == h) for h in pulled}
    rest = {h: sums[h] - sum(x for head, _, x in drawn if head == h) for h in pulled}
    note = ", ".join(f"{h} {x:+.1f}" for h, x in rest.items()).replace("-", "−")
    left_out = f"not drawn (looks below ±{least:g}, and at itself), in all:"
    for height, line in ((0.46, left_out), (0.2, note)):
        diagrams.say(axis, 0.12, height, line, PALE, size=9.5, ha="left")
    taken = {}  # how many arcs a token has on either side
    for head, i, nats in sorted(drawn, key=lambda arc: -abs(arc[2])):
        way = 1 if nats > 0 else -1
        k = taken[i, way] = taken.get((i, way), -1) + 1
        color, width = VALUE if way > 0 else LOWERED, at[query] - at[i] - 0.1
        tall = max(0.62, 0.3 + 0.13 * width) + 0.28 * k
        x = at[i] + 0.05 + width * angle / np.pi
        arc = y + way * (0.22 + tall * np.sin(angle) ** 0.8)
        axis.plot(x, arc, lw=max(5 * abs(nats) / most, 0.8), color=color, alpha=0.75)
        place, ground = (
            (x.mean(), y + way * (0.36 + tall)),
            {"fc": "white", "ec": "none", "pad": 0.5},
        )
        number = f"{nats:+.1f}".replace("-", "−")
        diagrams.say(axis, *place, f"{head} {number}", color, size=9.5, bbox=ground)
    for height, color, way in zip((3.7, 0.2), (VALUE, LOWERED), ways, strict=True):
        diagrams.say(axis, 9.8, height, way, color, size=10.5, ha="right", weight="bold")
    return figure


def eigenvalue_planes(values: dict, scores: dict, title: str) -> Figure:
    """Eigenvalues of several heads: right of the middle raised, left of it lowered.

    Drawn in the complex plane at the square root of their distance from zero. Ticks are true
    values, circles true sizes: the inner one, half-way to the outer, has a quarter of its size.
    values: {head: (real, imaginary)}; scores: {head: its copying score}.
    """
    figure, axes = plt.subplots(1, len(values), figsize=(2.45 * len(values), 3.1), dpi=DPI)
    figure.subplots_adjust(0.02, 0.16, 0.99, 0.74, wspace=0.08)
    diagrams.headline(figure, title)
    note = "square-root scale: half of the way out is a quarter of the size"
    figure.text(0.99, 0.945, note, size=9.5, color=PALE, ha="right", va="center")
    for axis, (head, (real, imaginary)) in zip(axes, values.items(), strict=True):
        size = np.hypot(np.asarray(real), np.asarray(imaginary))
        real, imaginary = (np.asarray(each) / np.sqrt(size) for each in (real, imaginary))
        reach = 1.12 * np.sqrt(size.max())
        axis.axvspan(0, reach, color=VALUE, alpha=0.1, lw=0)
        axis.axvspan(-reach, 0, color=LOWERED, alpha=0.08, lw=0)
        axis.axhline(0, color="0.7", lw=0.8)
        colors = [VALUE if x > 0 else LOWERED for x in real]
        axis.scatter(real, imaginary, s=26, c=colors, alpha=0.85, lw=0)
        axis.set(xlim=(-reach, reach), ylim=(-reach, reach), yticks=[], aspect="equal")
        tick = float(f"{0.19 * size.max():.0e}")  # one digit
        for radius in (tick**0.5, 2 * tick**0.5):
            axis.add_patch(plt.Circle((0, 0), radius, fill=False, color="0.7", lw=0.8, ls=":"))
        ticks = [f"−{4 * tick:g}", f"−{tick:g}", "0", f"{tick:g}", f"{4 * tick:g}"]
        axis.set_xticks([x * tick**0.5 for x in (-2, -1, 0, 1, 2)], ticks, fontsize=9)
        axis.set_title(f"{head}\nscore {scores[head]:+.2f}", size=10.5, color=INK)
        axis.spines[:].set(visible=True, color="0.85")
        axis.set_xlabel("lowered  ·  raised", size=9.5, color=PALE)
    return figure


def against_score(points: dict, line: float, title: str) -> Figure:
    """A dot for each head: its score and what it carries; filled if the score flags it.

    points: {label: (score, carried, flagged)}; a label is written where the two disagree. line:
    what a head must carry to be called a copier.
    """
    figure, axis = plt.subplots(figsize=(8.2, 3.9), dpi=DPI)
    figure.subplots_adjust(0.075, 0.13, 0.99, 0.9)
    diagrams.headline(figure, title)
    axis.axhline(line, color="0.6", lw=1, ls="--", zorder=0)
    axis.text(-1.02, line + 0.12, "copies: one nat or more", size=9.5, color=PALE)
    for label, (score, nats, flagged) in points.items():
        wrong = flagged != (nats >= line)
        color = LOWERED if wrong else VALUE if flagged else "0.45"
        axis.scatter(score, nats, s=58, lw=1.6, ec=color, fc=color if flagged else "white")
        if wrong:
            axis.annotate(
                label,
                (score, nats),
                (-8 if score > 0 else 8, 6),
                textcoords="offset points",
                size=9.5,
                color=color,
                ha="right" if score > 0 else "left",
            )
    axis.set(xlim=(-1.08, 1.12), ylim=(-0.4, None))
    axis.set_xlabel("copying score of the whole table", size=10)
    axis.set_ylabel("carried, in nats", size=10)
    axis.tick_params(labelsize=9.5)
    axis.spines[["top", "right"]].set_visible(False)
    return figure
