"""Drawings of notebook 07: crossed pairs, a head as a fan, circuits that add up, differences."""

from functools import partial

import numpy as np
import seaborn as sns
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE
from aot_helpers.showing.plots import TITLE, dots, panels
from aot_helpers.text.planted import BUG_PREPOSITIONS
from chapters.nb07_one_layer_skip_trigrams.measure import Planted

FALSE = "#C2185B"
GREENS = LinearSegmentedColormap.from_list("greens", ["white", VALUE])
GRAYS = LinearSegmentedColormap.from_list("grays", ["white", "#555555"])
TOWARDS = LinearSegmentedColormap.from_list("towards", [FALSE, "white", VALUE])


def _canvas(width: float, height: float, title: str, key: dict[str, str]):
    """A figure and an empty axis in inches, below a title and a key {text: color}."""
    figure, ((axis,),) = panels(1, 1, width, height, title=title, key=key)
    axis.set(xlim=(0, width), ylim=(0, height))
    axis.axis("off")
    return figure, axis


def crossed_pairs(
    probabilities: dict[tuple[str, str], dict[str, float]], planted: Planted, title: str
) -> Figure:
    """Verb … preposition → nouns: an arrow for each noun, thicker for a larger probability.

    probabilities: {(verb, preposition): {noun: p}}; two rows of them. planted: the rules, whose
    nouns are green; others are red.
    """
    verbs, prepositions = (list(dict.fromkeys(some)) for some in zip(*probabilities, strict=True))
    key = {"Probability of the next word.": PALE, "Green: the noun of the rule.": VALUE}
    height = 1.3 * len(verbs)
    figure, axis = _canvas(10.2, height, title, key | {"Red: the other noun.": FALSE})
    say, word = partial(diagrams.say, axis), partial(diagrams.word, axis)
    for (verb, preposition), nouns in probabilities.items():
        x = 0.75 + 5.1 * prepositions.index(preposition)
        y = height - 0.65 - 1.3 * verbs.index(verb)
        word(x, y, verb, KEY, width=1.0)
        say(x + 0.77, y, "…", PALE, size=14)
        word(x + 1.35, y, preposition, QUERY, width=0.7)
        for way, (noun, p) in zip((0.34, -0.34), nouns.items(), strict=True):
            right = planted[verb, preposition] == noun
            color, weight = (VALUE, "bold") if right else (FALSE, "normal")
            start, end = (x + 1.78, y + 0.25 * way), (x + 2.9, y + way)
            diagrams.arrow(axis, start, end, color, width=0.6 + 5 * p, alpha=0.35 + 0.65 * p)
            say(x + 3.0, y + way, noun, color, size=12.5, ha="left", weight=weight)
            say(x + 3.75, y + way, f"{p:.2f}", size=11, ha="left")
    return figure


def fan(source: str, attention: dict[str, float], boosts: dict[str, float], title: str) -> Figure:
    """One head: attention weights to a source (left, purple), and what that adds (right, green).

    attention: {destination: weight}. boosts: {out: logit above the mean}, the largest first.
    """
    key = {f"QK circuit: attention weight on “{source}”": SHARE}
    height = 0.6 * max(len(attention), len(boosts))
    figure, axis = _canvas(10, height, title, key | {"OV circuit: added to the logit of …": VALUE})
    say, word = partial(diagrams.say, axis), partial(diagrams.word, axis)
    middle = height / 2
    word(4.9, middle, source, KEY, width=1.2)
    for i, (destination, weight) in enumerate(attention.items()):
        y = middle + 0.6 * ((len(attention) - 1) / 2 - i)
        word(1.2, y, destination, QUERY, width=1.0)
        if weight >= 0.02:
            look = {"width": 0.5 + 2.5 * weight, "alpha": 0.3 + 0.7 * weight}
            end = 4.25, middle + 0.12 * (y - middle)
            diagrams.arrow(axis, (1.75, y), end, SHARE, **look)
        on_arrow = y - 0.25 * 0.88 * (y - middle)  # a quarter of the way
        at = (2.4, on_arrow) if weight >= 0.02 else (2.05, y)
        say(*at, f"{weight:.2f}", SHARE, backgroundcolor="white")
    for i, (out, boost) in enumerate(boosts.items()):
        y = middle + 0.6 * ((len(boosts) - 1) / 2 - i)
        share = max(boost / max(boosts.values()), 0)
        look = {"width": 0.5 + 2.5 * share, "alpha": 0.3 + 0.7 * share}
        diagrams.arrow(axis, (5.55, middle + 0.12 * (y - middle)), (7.5, y), VALUE, **look)
        word(8.2, y, out, VALUE, width=1.15)
        say(8.9, y, f"{boost:+.1f}", VALUE, size=11, ha="left")
    return figure


def circuits_add_up(
    maps: dict[str, tuple[list[str], Float[Tensor, "row noun"]]], nouns: list[str], title: str
) -> Figure:
    """OV circuit, direct path and the model's answers, as three maps over the same nouns.

    maps: {what it shows: (names of the rows, numbers)}; the last has probabilities, the others
    logits, of which 0 or less is white.
    """
    heights = [len(rows) for rows, _ in maps.values()]
    size = 9, 0.25 * sum(heights) + 1.5
    figure, axes = panels(len(maps), 1, *size, title=title, height_ratios=heights)
    each = zip(axes[:, 0], (GREENS, GRAYS, SHADES), maps.items(), strict=True)
    for axis, colors, (said, (rows, numbers)) in each:
        last = axis is axes[-1, 0]
        bar = {"label": "probability" if last else "logit", "aspect": 8, "pad": 0.01}
        names = {"xticklabels": nouns if last else [], "yticklabels": rows}
        top = 1 if last else numbers.max().item()
        look = {"vmin": 0, "vmax": top, "cmap": colors, "cbar_kws": bar}
        sns.heatmap(numbers.numpy(), ax=axis, **names, **look)
        axis.tick_params(length=0)
        axis.tick_params(axis="y", rotation=0)
        axis.spines[:].set(visible=True, color="0.8")
        axis.set_title(said, **TITLE)
    return figure


def logit_differences(
    terms: dict[tuple[str, str], dict[str, float]],
    planted: Planted,
    nouns: tuple[str, str],
    title: str,
) -> Figure:
    """What each path adds to logit(first noun) - logit(second), a row a pair, and the sum.

    terms: {(verb, preposition): {path: number}}. Green where the number points to the noun of the
    rule, red where away from it.
    """
    paths = [*next(iter(terms.values())), "sum"]
    numbers = np.array([[*row.values(), sum(row.values())] for row in terms.values()])
    sign = np.array([1 if planted[pair] == nouns[0] else -1 for pair in terms])[:, None]
    most = 1.2 * np.abs(numbers).max()
    rows = [f"{verb} … {word} → {planted[verb, word]}" for verb, word in terms]
    key = {f"Logit of {nouns[0]} minus logit of {nouns[1]}.": PALE}
    key |= {"Green: towards the noun of the rule.": VALUE, "Red: away from it.": FALSE}
    height = 0.46 * len(rows) + 0.4
    figure, ((axis,),) = panels(1, 1, 9.4, height, title=title, key=key)
    look = {"cmap": TOWARDS, "vmin": -most, "vmax": most, "cbar": False, "linewidths": 2}
    numbers_look = {"annot": numbers, "fmt": "+.2f", "annot_kws": {"size": 11, "color": INK}}
    names = {"xticklabels": paths, "yticklabels": rows}
    sns.heatmap(sign * numbers, ax=axis, **look, **numbers_look, **names)
    axis.axvline(len(paths) - 1, color="white", lw=8)  # the sum stands apart
    axis.xaxis.tick_top()
    axis.tick_params(length=0, rotation=0, labelsize=10.5)
    return figure


def prices(paid: dict[str, dict[str, float]], title: str) -> Figure:
    """A row for each run: what it pays after the crossed prepositions and, in gray, the others.

    paid: {run: {preposition: loss above the floor, in coin tosses}}.
    """
    usual = "after onto, of, with"
    rows = {}
    for run, after in paid.items():
        size, seed = 2 if "2heads" in run else 4, run.partition("-seed")[2] or 0
        found = {f"after {word}": [p] for word, p in after.items() if word in BUG_PREPOSITIONS}
        others = [p for word, p in after.items() if word not in BUG_PREPOSITIONS]
        rows[f"{size} heads, seed {seed}"] = {usual: others} | found
    colors = {usual: "0.65", "after in": KEY, "after at": QUERY}
    label = "loss above the floor, in coin tosses"
    return dots(rows, title, label, colors=colors, levels={0: "rule known", 1: "coin toss"})
