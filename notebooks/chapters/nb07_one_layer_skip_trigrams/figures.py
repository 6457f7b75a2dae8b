"""Drawings of notebook 07: crossed pairs, a head as a fan, circuits that add up, differences."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE

FALSE = "#C2185B"
GREENS = LinearSegmentedColormap.from_list("greens", ["white", VALUE])
GRAYS = LinearSegmentedColormap.from_list("grays", ["white", "#555555"])


def crossed_pairs(probabilities: dict, planted: dict, title: str) -> Figure:
    """Verb … preposition → nouns: an arrow for each noun, thicker for a larger probability.

    probabilities: {(verb, preposition): {noun: p}}; two rows of them. planted: {(verb,
    preposition): the noun of the rule}, drawn green; others are red.
    """
    prepositions = list(dict.fromkeys(preposition for _, preposition in probabilities))
    verbs = list(dict.fromkeys(verb for verb, _ in probabilities))
    top = 0.85 + 1.3 * len(verbs)
    figure, axis = diagrams.canvas(5.1 * len(prepositions), top)
    diagrams.say(axis, 0.12, top - 0.2, title, size=12, ha="left", weight="bold")
    for x, text, color in (
        (0.12, "Probability of the next word.", PALE),
        (2.75, "Green: the noun of the rule.", VALUE),
        (5.2, "Red: the other noun.", FALSE),
    ):
        diagrams.say(axis, x, top - 0.53, text, color, ha="left")
    for (verb, preposition), nouns in probabilities.items():
        x = 0.75 + 5.1 * prepositions.index(preposition)
        y = top - 1.35 - 1.3 * verbs.index(verb)
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
            diagrams.say(axis, x + 3.75, y + way, f"{p:.2f}", INK, size=11, ha="left")
    return figure


def fan(source: str, attention: dict[str, float], boosts: dict[str, float], title: str) -> Figure:
    """One head: attention weights to a source (left, purple), and what that adds (right, green).

    attention: {destination: weight}. boosts: {out: logit above the mean}.
    """
    tall = max(len(attention), len(boosts))
    height = 1.3 + 0.6 * tall
    figure, axis = diagrams.canvas(10, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    middle = (height - 0.8) / 2

    def places(n):
        return [middle + 0.6 * ((n - 1) / 2 - i) for i in range(n)]

    for x, text, color in (
        (0.7, f"QK circuit: attention weight on “{source}”", SHARE),
        (6.15, "OV circuit: added to the logit of …", VALUE),
    ):
        diagrams.say(axis, x, height - 0.62, text, color, ha="left", weight="bold")
    diagrams.word(axis, 4.9, middle, source, KEY, width=1.2)
    for y, (destination, weight) in zip(places(len(attention)), attention.items(), strict=True):
        diagrams.word(axis, 1.2, y, destination, QUERY, width=1.0)
        if weight >= 0.02:
            look = {"width": 0.5 + 2.5 * weight, "alpha": 0.3 + 0.7 * weight}
            diagrams.arrow(axis, (1.75, y), (4.25, middle + 0.12 * (y - middle)), SHARE, **look)
        diagrams.say(axis, 1.95, y + 0.17, f"{weight:.2f}", SHARE, size=10.5, ha="left")
    most = max(boosts.values())
    for y, (out, boost) in zip(places(len(boosts)), boosts.items(), strict=True):
        start, end = (5.55, middle + 0.12 * (y - middle)), (7.5, y)
        share = max(boost / most, 0)
        diagrams.arrow(axis, start, end, VALUE, width=0.5 + 2.5 * share, alpha=0.3 + 0.7 * share)
        diagrams.word(axis, 8.2, y, out, VALUE, width=1.15)
        diagrams.say(axis, 8.9, y, f"{boost:+.1f}", VALUE, size=11, ha="left")
    return figure


def circuits_add_up(boosts, direct, chances, names: tuple, asked: str, title: str) -> Figure:
    """OV circuit, direct path and the model's answers, as three maps over the same nouns.

    boosts, chances: [verb, noun]; direct: [preposition, noun]; names: (verbs, prepositions, nouns).
    asked: the preposition of the third map, of probabilities. In the others white is 0 or less.
    """
    verbs, prepositions, nouns = names
    tall = [len(verbs), len(prepositions), len(verbs)]
    figure, axes = plt.subplots(3, 1, figsize=(9, 6.9), dpi=DPI, height_ratios=tall)
    figure.subplots_adjust(0.08, 0.09, 0.905, 0.9, hspace=0.28)
    diagrams.headline(figure, title)
    said = (
        "OV circuit of L0H0: what each verb adds, whichever preposition attends to it",
        "direct path: what each preposition adds, whichever verb came before",
        f"the whole model: probability of each noun after verb … “{asked}”",
    )
    tables, colors = (boosts, direct, chances), (GREENS, GRAYS, SHADES)
    for axis, table, color, rows, line in zip(
        axes, tables, colors, (verbs, prepositions, verbs), said, strict=True
    ):
        table, last = np.asarray(table), axis is axes[-1]
        high = 1 if last else table.max()
        image = axis.imshow(table, cmap=color, vmin=0, vmax=high, aspect="auto")
        scale = figure.colorbar(image, cax=axis.inset_axes([1.012, 0, 0.014, 1]))
        scale.set_ticks([0, 1] if high == 1 else [0, int(high)])
        scale.set_label("probability" if last else "logit", size=9.5)
        scale.ax.tick_params(labelsize=9.5, length=2)
        scale.outline.set_visible(False)
        axis.set_yticks(range(len(rows)), rows, fontsize=9.5)
        axis.set_xticks([])
        axis.tick_params(length=0)
        axis.spines[:].set(visible=True, color="0.8")
        axis.set_title(line, size=10.5, loc="left", color=INK)
    axes[-1].set_xticks(range(len(nouns)), nouns, fontsize=9.5, rotation=90)
    return figure


def logit_differences(terms: dict, planted: dict, nouns: tuple[str, str], title: str) -> Figure:
    """What each path adds to logit(first noun) - logit(second), a row a pair, and the sum.

    terms: {(verb, preposition): {path: number}}. planted: {(verb, preposition): the noun of the
    rule}. Green where the number points to that noun, red where away from it.
    """
    paths = [*next(iter(terms.values())), "sum"]
    height, left, step = 1.5 + 0.52 * len(terms), 2.6, min(1.35, 7.0 / len(paths))
    figure, axis = diagrams.canvas(10, height)
    diagrams.say(axis, 0.12, height - 0.2, title, size=12, ha="left", weight="bold")
    said = f"Logit of {nouns[0]} minus logit of {nouns[1]}."
    for x, text, color in (
        (0.12, said, PALE),
        (3.15, "Green: towards the noun of the rule.", VALUE),
        (6.2, "Red: away from it.", FALSE),
    ):
        diagrams.say(axis, x, height - 0.53, text, color, ha="left")
    for i, path in enumerate(paths):
        x = left + step * (i + 0.5) + 0.18 * (path == "sum")
        weight = "bold" if path == "sum" else "normal"
        diagrams.say(axis, x, height - 0.98, path, INK, size=10.5, weight=weight)
    most = max(abs(number) for row in terms.values() for number in [*row.values()])
    for i, ((verb, preposition), row) in enumerate(terms.items()):
        y, noun = height - 1.43 - 0.52 * i, planted[verb, preposition]
        diagrams.say(axis, 0.2, y, f"{verb} …", KEY, size=11.5, ha="left", weight="bold")
        diagrams.say(axis, 1.02, y, preposition, QUERY, size=11.5, ha="left", weight="bold")
        diagrams.say(axis, 1.4, y, f"→ {noun}", VALUE, size=11.5, ha="left", weight="bold")
        for j, number in enumerate([*row.values(), sum(row.values())]):
            right = (number > 0) == (noun == nouns[0])
            alpha, last = min(abs(number) / most, 1) * 0.75, j == len(row)
            x = left + step * j + 0.18 * last
            place, size = (x + 0.03, y - 0.23), (step - 0.06, 0.46)
            color = VALUE if right else FALSE
            axis.add_patch(Rectangle(place, *size, fc=to_rgba(color, alpha), ec="0.85", lw=0.8))
            weight = "bold" if last else "normal"
            diagrams.say(axis, x + step / 2, y - 0.01, f"{number:+.2f}", size=11, weight=weight)
    return figure


def raised_nouns(after: dict, right: dict[str, str], verb: str, title: str) -> Figure:
    """How far a verb raises nouns after each preposition: a dot a noun, controls gray.

    after: {preposition: {noun: {"raised": nats}}}, the right noun first, then the one that is right
    after the other preposition, then controls. right: {preposition: noun}.
    """
    figure, axis = plt.subplots(figsize=(9, 2.9), dpi=DPI)
    figure.subplots_adjust(0.13, 0.22, 0.98, 0.83)
    diagrams.headline(figure, title)
    axis.axvline(0, color="0.75", lw=1, zorder=0)
    for row, (preposition, nouns) in enumerate(after.items()):
        y, raised = -row, {noun: each["raised"] for noun, each in nouns.items()}
        wrong = next(noun for each, noun in right.items() if each != preposition)
        named = {right[preposition]: (VALUE, "the idiom"), wrong: (FALSE, "the bug")}
        others = [number for noun, number in raised.items() if noun not in named]
        axis.plot(others, [y] * len(others), "o", color="0.6", ms=7, alpha=0.8)
        middle = sum(others) / len(others)
        axis.text(middle, y + 0.17, "eight other nouns", color=PALE, size=10, ha="center")
        for noun, (color, said) in named.items():
            axis.plot(raised[noun], y, "o", color=color, ms=11)
            place, text = (raised[noun], y + 0.17), f"{noun} {raised[noun]:+.1f} ({said})"
            axis.text(*place, text, color=color, size=10.5, ha="center", weight="bold")
    axis.set_yticks([-row for row in range(len(after))], [f"{verb} … {p}" for p in after], size=11)
    axis.set(ylim=(-len(after) + 0.6, 0.5), xlim=(-4.9, 7.4))
    axis.set_xlabel(f"log-probability after “{verb}” minus after eight other verbs (nats)", size=10)
    axis.tick_params(axis="x", labelsize=9.5)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    return figure
