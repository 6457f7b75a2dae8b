"""Figures of notebook 10: a sentence as a head reads it, the circuit, its matches as tables."""

import numpy as np
import seaborn as sns
from jaxtyping import Float
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from torch import Tensor

from aot_helpers.showing.diagrams import (
    INK,
    KEY,
    PALE,
    QUERY,
    SHADES,
    SHARE,
    VALUE,
    arrow,
    canvas,
    headline,
    say,
    word,
)
from aot_helpers.showing.plots import TITLE, panels, shown

BLUES, GREENS = (
    LinearSegmentedColormap.from_list("tint", ["white", color]) for color in (KEY, VALUE)
)
WEIGHTS = LinearSegmentedColormap.from_list("tint", ["white", "#9CC4E0", KEY])
STEPS = (  # name, its color, what rows and columns are
    ("1  previous-token head", SHARE, "row: position that attends\ncolumn: position attended to"),
    ("2  query meets key", KEY, "row: “I am a” (query)\ncolumn: “before me: b” (key)"),
    ("3  copying", VALUE, "row: token attended to\ncolumn: token raised"),
)
OTHER, NEITHER = "#6B6B6B", "#E2E2E2"


def readings(
    rows: dict[str, tuple[list[str], Tensor, str, float]], right: str, title: str
) -> Figure:
    """A sentence once for each row, shaded by where its last token attends.

    rows: {label: (tokens, attention weights, the model's best guess, its probability)}. A guess
    that is not the right one is gray.
    """
    figure, axis = canvas(9.4, 0.75 + 0.86 * len(rows))
    y = 0.75 + 0.86 * len(rows) - 0.68
    for label, (tokens, weights, guess, p) in rows.items():
        say(axis, 0.12, y, label, ha="left", weight="bold")
        y -= 0.33
        x = 0.12
        for i, (token, weight) in enumerate(zip(tokens, weights.tolist(), strict=True)):
            text = shown(token) if i else "▸"
            wide = 0.083 * len(text.replace("\\", "")) + 0.09
            last = i == len(tokens) - 1
            look = {"fc": SHADES(weight), "ec": QUERY if last else "0.85", "lw": 1.6 if last else 1}
            axis.add_patch(Rectangle((x, y - 0.15), wide, 0.3, zorder=3 + last, **look))
            ink = "white" if weight > 0.5 else QUERY if last else INK
            say(axis, x + wide / 2, y - 0.01, text, ink, size=10, family="monospace")
            x += wide + 0.03
        say(axis, 8.3, y, "→", PALE, size=12)
        ink = VALUE if guess == right else OTHER
        say(axis, 8.5, y, guess, ink, size=12, ha="left", weight="bold", family="monospace")
        say(axis, 9.28, y, f"{p:.0%}", ink, ha="right")
        y -= 0.53
    return headline(figure, title)


def circuit(
    title: str, A: str = "A", B: str = "B", x: str = "", writers: tuple[str, str] = ("", "")
) -> Figure:
    """An induction circuit, its steps numbered; with x, the token before A, its second match, too.

    writers: the heads that look one back and two back.
    """
    two = bool(x)
    text, stream, out = 0.4, 1.72 + 0.12 * two, 3.0 + 0.3 * two
    tall = 0.8 if two else 0.5
    low, top = stream - tall / 2 - 0.03, stream + tall / 2 + 0.03
    figure, axis = canvas(9.4, out + 0.85)
    places = {"x": 0.6, "A": 1.6, "B": 3.75, "…": 5.05, "x again": 6.1, "A again": 7.4}
    words = {"A": A, "B": B, "…": "…", "A again": A} | ({"x": x, "x again": x} if two else {})
    for name, token in words.items():
        word(axis, places[name], text, token, INK, width=0.8, height=0.42, size=11)
    at_B, again = places["B"], places["A again"]
    for place, wide in ((at_B, 2.7), (again, 1.75)):
        arrow(axis, (place, text + 0.23), (place, low), "0.8", width=1)
        word(axis, place, stream, "", INK, width=wide, height=tall)
    notes = [(f"before me: {A}", f"I am {A}"), (f"two before me: {x}", f"before me: {x}")]
    heights = (stream + 0.19, stream - 0.19) if two else (stream,)
    say(axis, at_B - 1.23, stream - 0.02, B, VALUE, size=12, ha="left", weight="bold")
    middle = (at_B + 1.38 + again - 0.9) / 2
    for y, number, (note, ask) in zip(heights, ("first", "second"), notes, strict=False):
        say(axis, at_B + 1.24, y - 0.02, note, KEY, size=11, ha="right", weight="bold")
        say(axis, again, y - 0.02, ask, QUERY, size=11, weight="bold")
        ends = (again - 0.9, y), (at_B + 1.38, y)
        line = {"color": SHARE, "linestyle": (0, (4, 2.5)), "lw": 1.7}
        axis.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>,head_length=6,head_width=3", **line))
        if two:
            ground = {"fc": "white", "ec": "none", "pad": 2}
            say(axis, middle, y, number, SHARE, weight="bold", bbox=ground)
    arrow(axis, (places["A"] + 0.15, text + 0.24), (at_B - 0.6, low), SHARE, width=2.2)
    if two:
        arrow(axis, (places["x"] + 0.1, text + 0.24), (at_B - 1.1, low), SHARE, width=2.2)
        arrow(axis, (places["x again"] + 0.1, text + 0.24), (again - 0.5, low), SHARE, width=2.2)
        for place, head in ((1.05, writers[1]), (2.72, writers[0]), (6.15, writers[0])):
            say(axis, place, 0.98, head, SHARE, ha="right" if place != 2.72 else "left")
    axis.plot([at_B - 1.0] * 2, [top, out], color=VALUE, lw=2.2)
    arrow(axis, (at_B - 1.0, out), (again - 0.45, out), VALUE, width=2.2)
    word(axis, again, out, B, VALUE, width=0.8, height=0.42, size=11)
    arrow(axis, (again, top), (again, out - 0.25), "0.8", width=1)
    step = {"ha": "right", "weight": "bold"}
    leaves = "1 earlier heads\nleave notes" if two else "1 an earlier head\nleaves a note"
    say(axis, at_B - 1.5, stream - 0.02, leaves, SHARE, **step)
    meets = "2 queries meet keys" if two else "2 query meets key"
    say(axis, middle, top + 0.16, meets, SHARE, weight="bold")
    say(axis, at_B - 1.12, out, f"3 copies {B}", VALUE, **step)
    for y, name in zip((text, stream, out), ("text", "after layer 0", "next token"), strict=True):
        say(axis, 9.3, y, name, PALE, ha="right", size=9.5)
    return headline(figure, title)


def three_steps(
    title: str,
    note: Float[Tensor, "query key"],
    match: Float[Tensor, "token before"],
    copy: Float[Tensor, "token raised"],
) -> Figure:
    """Induction in three steps, each a small map.

    note: where the earlier head attends. match: how well a token's query fits a key before which
    each token stood. copy: what a token raises when it is attended to.
    """
    figure, axes = panels(1, 3, 9.4, 3.2, title=title)
    maps = zip((note, match, copy), (SHADES, BLUES, GREENS), strict=True)
    for i, (axis, (values, colors)) in enumerate(zip(axes[0], maps, strict=True)):
        name, color, said = STEPS[i]
        axis.set(xticks=[], yticks=[], box_aspect=1)
        axis.spines[:].set(visible=True, color="0.75")
        axis.set_title(name, size=11, color=color, weight="bold")
        axis.set_xlabel(said, color=INK)
        values = np.asarray(values).clip(min=0)
        axis.imshow(values / values.max(), cmap=colors, vmin=0, vmax=1)
        if i:
            middle = {"transform": axis.transAxes, "ha": "center", "va": "center"}
            axis.text(-0.25, 0.5, "→", size=22, color=PALE, **middle)
    return figure


def matches(weights, run, names: list[str], title: str) -> Figure:
    """Which queries fit which keys, by the weights (%) and in a run (score): two tables."""
    figure, (axes,) = panels(1, 2, 9.4, 3.9, title=title, sharey=True)
    tables = {
        "by the weights: % of the rows\nwhose largest entry is on the diagonal": (
            100 * np.asarray(weights),
            ".0f",
            100,
        ),
        "in a run: what each match adds\nto the score of the right place": (run, ".1f", 8.0),
    }
    for axis, (said, (values, number, top)) in zip(axes, tables.items(), strict=True):
        values = np.round(np.asarray(values, dtype=float), int(number[1])) + 0.0  # no -0.0
        look = {"annot": True, "fmt": number, "annot_kws": {"size": 10}, "cmap": WEIGHTS}
        look |= {"vmin": 0, "vmax": top, "cbar": False, "linewidths": 1.5, "linecolor": "0.93"}
        sns.heatmap(values, ax=axis, **look)
        for text, value in zip(axis.texts, values.flat, strict=True):
            small = abs(value) < 0.03 * top
            text.set_weight("normal" if small else "bold")
            if small:
                text.set_color("0.7")
        axis.set_title(said, **TITLE)
        axis.set_xticks(np.arange(5) + 0.5, [name.replace(", ", "\n") for name in names])
        axis.set_xlabel("the key is made from", color=KEY)
        axis.tick_params(length=0, labelsize=9.5, rotation=0)
        axis.tick_params(axis="x", labelcolor=KEY)
    axes[0].set_yticks(np.arange(5) + 0.5, [name.replace(",", ":") for name in names], rotation=0)
    axes[0].tick_params(axis="y", labelcolor=QUERY)
    axes[0].set_ylabel("the query is made from", color=QUERY)
    return figure


def five_models(chances: dict[str, dict[str, tuple[float, float]]], title: str) -> Figure:
    """What some models say with some terms kept: {model: {kept terms: (right, other's)}}.

    A bar for each kept terms: right, the other's, neither; large parts have a %. A line parts the
    first three rows, of matches that stand alone, from the rest.
    """
    key = {"right surname": VALUE, "the other’s": OTHER, "neither": PALE}
    figure, (axes,) = panels(1, len(chances), 9.4, 2.9, title=title, key=key, sharey=True)
    for axis, (model, each) in zip(axes, chances.items(), strict=True):
        for y, (own, other) in enumerate(each.values()):
            left = 0.0
            for part, color in ((own, VALUE), (other, OTHER), (1 - own - other, NEITHER)):
                axis.barh(y, part, 0.62, left, color=color)
                if part > 0.28:
                    look = {"ha": "center", "va": "center", "weight": "bold", "size": 10}
                    ink = INK if color == NEITHER else "white"
                    axis.text(left + part / 2, y, f"{part:.0%}", color=ink, **look)
                left += part
        axis.axhline(2.5, color="0.6", lw=0.8, clip_on=False)
        axis.set(xlim=(0, 1), xticks=[], ylim=(len(each) - 0.5, -0.5))
        axis.set_title(model, **TITLE)
        axis.tick_params(length=0)
        axis.spines[:].set(visible=False)
    axes[0].set_yticks(range(len(each)), list(each), size=10)
    return figure
