"""Drawings of notebook 07: promises, a head as a fan, tables that meet, prices, a choosing head."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE

FALSE = "#C2185B"
GREENS = LinearSegmentedColormap.from_list("greens", ["white", VALUE])
GRAYS = LinearSegmentedColormap.from_list("grays", ["white", "#555555"])


def promises(probabilities: dict, planted: dict, title: str) -> Figure:
    """Verb … preposition → nouns: an arrow for each noun, thicker for a larger probability.

    probabilities: {(verb, preposition): {noun: p}}; two rows of them. planted: {(verb,
    preposition): the noun that is right}, drawn green; others are red.
    """
    prepositions = list(dict.fromkeys(preposition for _, preposition in probabilities))
    verbs = list(dict.fromkeys(verb for verb, _ in probabilities))
    figure, axis = diagrams.canvas(5.1 * len(prepositions), 0.6 + 1.35 * len(verbs))
    top = 0.6 + 1.35 * len(verbs)
    diagrams.say(axis, 0.12, top - 0.2, title, size=12, ha="left", weight="bold")
    for (verb, preposition), nouns in probabilities.items():
        x = 0.75 + 5.1 * prepositions.index(preposition)
        y = top - 1.15 - 1.35 * verbs.index(verb)
        diagrams.word(axis, x, y, verb, KEY, width=1.0)
        diagrams.say(axis, x + 0.77, y, "…", PALE, size=14)
        diagrams.word(axis, x + 1.35, y, preposition, QUERY, width=0.7)
        for way, (noun, p) in zip((0.34, -0.34), nouns.items(), strict=True):
            right = planted[verb, preposition] == noun
            color = VALUE if right else FALSE
            start, end = (x + 1.78, y + 0.25 * way), (x + 2.9, y + way)
            diagrams.arrow(axis, start, end, color, width=0.6 + 5 * p, alpha=0.35 + 0.65 * p)
            weight = "bold" if right else "normal"
            diagrams.say(axis, x + 3.0, y + way, noun, color, size=12.5, ha="left", weight=weight)
            diagrams.say(axis, x + 3.75, y + way, f"{p:.2f}", INK, size=10.5, ha="left")
    return figure


def fan(verb: str, looks: dict[str, float], says: dict[str, float], title: str) -> Figure:
    """One head: who looks at the verb (left, purple shares), and what the verb says (right).

    looks: {preposition: attention to the verb}. says: {noun: logit above average}.
    """
    tall = max(len(looks), len(says))
    height = 1.25 + 0.62 * tall
    figure, axis = diagrams.canvas(10, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    middle = (height - 0.75) / 2

    def places(n):
        return [middle + 0.62 * ((n - 1) / 2 - i) for i in range(n)]

    diagrams.say(axis, 1.2, height - 0.6, "QK: who looks", SHARE, size=10.5, weight="bold")
    diagrams.say(axis, 8.2, height - 0.6, "OV: what it says then", VALUE, size=10.5, weight="bold")
    diagrams.word(axis, 4.9, middle, verb, KEY, width=1.2)
    for y, (preposition, share) in zip(places(len(looks)), looks.items(), strict=True):
        diagrams.word(axis, 1.2, y, preposition, QUERY, width=1.0)
        if share >= 0.02:
            look = {"width": 0.5 + 2.5 * share, "alpha": 0.3 + 0.7 * share}
            diagrams.arrow(axis, (1.75, y), (4.25, middle + 0.12 * (y - middle)), SHARE, **look)
        diagrams.say(axis, 1.95, y + 0.17, f"{share:.2f}", SHARE, size=10, ha="left")
    most = max(says.values())
    for y, (noun, boost) in zip(places(len(says)), says.items(), strict=True):
        start, end = (5.55, middle + 0.12 * (y - middle)), (7.5, y)
        share = max(boost / most, 0)
        diagrams.arrow(axis, start, end, VALUE, width=0.5 + 2.5 * share, alpha=0.3 + 0.7 * share)
        diagrams.word(axis, 8.2, y, noun, VALUE, width=1.15)
        diagrams.say(axis, 8.9, y, f"{boost:+.1f}", VALUE, size=10.5, ha="left")
    return figure


def meeting(offers, wants, meets, verbs, prepositions, nouns, asked: str, title: str) -> Figure:
    """What verbs offer, what prepositions want, and what comes of both, as maps over the nouns.

    offers, meets: [verb, noun]; wants: [preposition, noun]. asked: the preposition of the third
    map, whose numbers are probabilities. White is 0 or less.
    """
    tall = [len(verbs), len(prepositions), len(verbs)]
    figure, axes = plt.subplots(3, 1, figsize=(9, 6.9), dpi=DPI, height_ratios=tall)
    figure.subplots_adjust(0.08, 0.09, 0.905, 0.9, hspace=0.28)
    diagrams.headline(figure, title)
    said = (
        "the head (OV): what each verb offers, whoever asks",
        "the direct path: what each preposition wants, whatever stood before",
        f"the model: probability of each noun after “{asked}”",
    )
    tables, colors = (offers, wants, meets), (GREENS, GRAYS, SHADES)
    for axis, table, color, names, line in zip(
        axes, tables, colors, (verbs, prepositions, verbs), said, strict=True
    ):
        table = np.asarray(table)
        high = 1 if axis is axes[-1] else table.max()
        image = axis.imshow(table, cmap=color, vmin=0, vmax=high, aspect="auto")
        scale = figure.colorbar(image, cax=axis.inset_axes([1.012, 0, 0.014, 1]))
        scale.set_ticks([0, 1] if high == 1 else [0, int(high)])
        scale.set_label("probability" if axis is axes[-1] else "logits", size=9.5)
        scale.ax.tick_params(labelsize=9.5, length=2)
        scale.outline.set_visible(False)
        axis.set_yticks(range(len(names)), names, fontsize=9.5)
        axis.set_xticks([])
        axis.tick_params(length=0)
        axis.spines[:].set(visible=True, color="0.8")
        axis.set_title(line, size=10.5, loc="left", color=INK)
    axes[-1].set_xticks(range(len(nouns)), nouns, fontsize=9.5, rotation=90)
    return figure


def _apart(heights: list[float], gap: float) -> list[float]:
    """Heights of labels, `gap` apart or more, each as near as can be to its point's height."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    groups = []  # [sum of heights less the steps below, how many]: neighbors that touch
    for k, i in enumerate(order):
        groups.append([heights[i] - k * gap, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] > groups[-1][0] / groups[-1][1]:
            total, n = groups.pop()
            groups[-1] = [groups[-1][0] + total, groups[-1][1] + n]
    means = [total / n for total, n in groups for _ in range(n)]
    placed = {i: mean + k * gap for k, (i, mean) in enumerate(zip(order, means, strict=True))}
    return [placed[i] for i in range(len(heights))]


def two_prices(prices: dict, names: tuple[str, str], bold: str, title: str) -> Figure:
    """A line for each model between two prices, in coin tosses, its name at both ends.

    prices: {model: (left, right)}.
    """
    figure, axis = plt.subplots(figsize=(9, 4.3), dpi=DPI)
    figure.subplots_adjust(0.075, 0.09, 0.99, 0.88)
    diagrams.headline(figure, title)
    axis.plot([0, 1], [1, 1], color="0.6", lw=1, ls="--", zorder=0)
    axis.text(0.5, 1.02, "a coin toss", size=9.5, color=PALE, ha="center")
    for x, way, side in ((0, -1, "right"), (1, 1, "left")):
        ends = [float(both[x]) for both in prices.values()]
        for model, end, y in zip(prices, ends, _apart(ends, gap=0.085), strict=True):
            ours = model == bold
            color, weight = (FALSE, "bold") if ours else ("0.35", "normal")
            axis.plot([x + 0.025 * way, x + 0.1 * way], [end, y], color=color, lw=0.6)
            look = {"size": 9.5, "color": color, "weight": weight, "va": "center", "ha": side}
            axis.text(x + 0.11 * way, y, model, **look)
    for model, both in prices.items():
        ours = model == bold
        look = {"color": FALSE if ours else "0.45", "lw": 2.6 if ours else 1.3, "ms": 5}
        axis.plot([0, 1], both, "o-", **look)
    axis.set_xticks([0, 1], names, fontsize=11)
    axis.set(xlim=(-0.5, 1.5), ylim=(-0.2, 1.25))
    axis.set_ylabel("price, in coin tosses", size=10)
    axis.tick_params(axis="y", labelsize=9.5)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def _looks(axis, at: list[float], y: float, shares: list[float]) -> None:
    """Purple arcs from the last of some words to each that it looks at, itself too."""
    for x, share in zip(at, map(float, shares), strict=True):
        if share < 0.02:
            continue
        itself = x == at[-1]
        start = (at[-1] + (0.2 if itself else -0.1), y + 0.26)
        end = (x - (0.2 if itself else 0), y + 0.26)
        width = 0.8 + 2.2 * share
        arc = FancyArrowPatch(
            start,
            end,
            arrowstyle=f"-|>,head_length={3 * width:g},head_width={1.7 * width:g}",
            connectionstyle=f"arc3,rad={1.3 if itself else 0.22}",
            mutation_scale=1,
            lw=width,
            shrinkA=0,
            shrinkB=0,
            color=SHARE,
            alpha=0.3 + 0.7 * share,
        )
        axis.add_patch(arc)
        spot = (x + 0.35, y + 0.5) if itself else ((x + at[-1]) / 2, y + 0.7)
        diagrams.say(axis, *spot, f"{share:.2f}", SHARE, size=10)


def choosing(
    rows: list[tuple], offers: dict[str, float], nouns: tuple[str, str], title: str
) -> Figure:
    """A head that chooses whom to look at, and what comes of it; a picture of one row a sentence.

    rows: (words, attention from the last to each of them, {part: its pull}); of the parts the last
    is the head. offers: {word: the head's pull once it looks there}. A pull is in logits, above 0
    towards the first of the two nouns.
    """
    tall, top = 1.75, 0.85 + 1.75 * len(rows)
    figure, axis = diagrams.canvas(10, top)
    diagrams.say(axis, 0.12, top - 0.2, title, size=12, ha="left", weight="bold")
    at, zero, inch = [0.75, 1.72, 2.5, 3.5], 8.5, 1.45  # of the words; of no pull; of a logit
    head = list(rows[0][2])[-1]
    diagrams.say(axis, 0.3, top - 0.6, f"QK: {head} looks", SHARE, ha="left", weight="bold")
    diagrams.say(axis, 2.0, top - 0.6, "OV: what each word offers", VALUE, ha="left", weight="bold")
    for x, noun, side in ((zero - 0.15, nouns[1], "right"), (zero + 0.15, nouns[0], "left")):
        said = f"← {noun}" if side == "right" else f"{noun} →"
        diagrams.say(axis, x, top - 0.6, said, INK, size=11, ha=side, weight="bold")
    axis.plot([zero, zero], [0.12, top - 0.47], color="0.7", lw=1, zorder=0)
    for i, (words, shares, pulls) in enumerate(rows):
        y = top - 1.75 - tall * i
        for x, text, share in zip(at, words, shares, strict=True):
            color = {at[0]: KEY, at[-1]: QUERY}.get(x, PALE)
            if color == PALE:
                diagrams.say(axis, x, y, text, PALE, size=11)
            else:
                diagrams.word(axis, x, y, text, color, width=0.9)
            if share >= 0.02:
                diagrams.say(axis, x, y - 0.42, f"{offers[text]:+.2f}", VALUE, size=10.5)
        _looks(axis, at, y, shares)
        now, level = 0.0, y + 0.5
        for part, pull in pulls.items():
            last = part == head
            start, now = now, now + pull
            color = VALUE if last else PALE
            ends = (zero + inch * start, level), (zero + inch * now, level)
            diagrams.arrow(axis, *ends, color, width=2.4 if last else 1.8)
            said = {"size": 10.5, "weight": "bold" if last else "normal"}
            diagrams.say(axis, 4.45, level, part, color, ha="left", **said)
            diagrams.say(axis, 5.6, level, f"{pull:+.2f}", color, ha="right", **said)
            level -= 0.3
        chance = 1 / (1 + np.exp(-now))
        noun, p = (nouns[0], chance) if now > 0 else (nouns[1], 1 - chance)
        axis.plot([zero, zero + inch * now], [level, level], color=INK, lw=4, solid_capstyle="butt")
        diagrams.say(axis, 4.45, level, "sum", INK, ha="left", weight="bold")
        diagrams.say(axis, 5.6, level, f"{now:+.2f}", INK, ha="right", weight="bold")
        where, side = (zero - 0.12, "right") if now > 0 else (zero + 0.12, "left")
        diagrams.say(axis, where, level, f"{noun} {p:.2f}", INK, size=11, ha=side, weight="bold")
    return figure
