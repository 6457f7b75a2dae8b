"""Drawings of notebook 24: prompts with roles, contributions, patches, hypotheses, a circuit."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from aot_helpers.models.protocol import Head
from aot_helpers.showing.diagrams import (
    INK,
    KEY,
    PALE,
    QUERY,
    SHARE,
    VALUE,
    arrow,
    canvas,
    headline,
    say,
    word,
)
from aot_helpers.showing.forms import SMALL, panels, points
from chapters.nb24_who_says_mary.measure import SETS, Asked

WRONG, THIRD = "#C2185B", "#8C6D1F"  # the name that should not come; a third name
PROPERTIES = ("twice", "last", "subject")
GROUPS = {"came twice": WRONG, "came once": THIRD}
CELLS = LinearSegmentedColormap.from_list("falls", ["#7FB8D8", "white", "#F0B48A"])


def roles(text: str, marks: Sequence[tuple[str, str, str]], title: str, said: str) -> Figure:
    """One prompt as boxes of words, with what the marked ones are.

    marks: (word, role, color), in the order of the text. said: the guess, drawn behind an arrow.
    """
    words, left = text.split(), list(marks)
    widths = [0.28 + 0.118 * len(each) for each in words]
    figure, axis = canvas(sum(widths) + 0.07 * len(words) + 1.75, 1.75)
    x = 0.15
    for each, width in zip(words, widths, strict=True):
        bare = each.strip(",.")
        role, color = left.pop(0)[1:] if left and left[0][0] == bare else ("", PALE)
        fill = "white" if role else "#F4F4F4"
        word(axis, x + width / 2, 0.75, each, color, fill=fill, width=width, height=0.42, size=11.5)
        say(axis, x + width / 2, 0.33, role, color, size=11, weight="bold")
        x += width + 0.07
    arrow(axis, (x + 0.02, 0.75), (x + 0.42, 0.75), VALUE, width=1.8)
    say(axis, x + 0.52, 0.75, said, VALUE, size=13, ha="left", weight="bold")
    return headline(figure, title)


def contributions(
    rows: Mapping[str, tuple[float, float, float]], names: tuple[str, str], title: str
) -> Figure:
    """What each part adds to the logits of two names and to their difference: diverging bars.

    rows: {part: (to the first name, to the second, to the difference)}, from the top; NaN is left
    out.
    """
    at, values = np.arange(len(rows)), np.asarray([*rows.values()])
    key = {f"to the logit of {names[0]}": VALUE, f"to the logit of {names[1]}": WRONG}
    key[f"to the difference, {names[0]} − {names[1]}"] = PALE
    figure, ((left, right),) = panels(
        1, 2, 9.8, 0.36 * len(rows) + 0.6, title=title, key=key, sharex=True, sharey=True,
        note="MLPs and embedding: as a difference only",
    )  # fmt: skip
    for i, color in enumerate((VALUE, WRONG)):
        left.barh(at - 0.19 + 0.38 * i, values[:, i], 0.36, color=color)
    bars = right.barh(at, values[:, 2], 0.62, color=PALE)
    right.bar_label(bars, fmt="{:+.2f}", padding=4, fontsize=10)
    for axis in (left, right):
        axis.axvline(0, color="0.4", lw=0.9)
        axis.set(xlabel="logits", ylim=(len(rows) - 0.4, -0.6))
        axis.margins(x=0.12)
    left.set_yticks(at, list(rows))
    return figure


def patches(
    falls: Mapping[str, Mapping[str, float]],
    others: Mapping[str, Mapping[str, Mapping[str, float]]],
    whole: float,
    title: str,
) -> Figure:
    """A table of what a logit difference loses: {heads: {where the output comes from: logits}}.

    others: the same of sets of other heads, where measured; their range stands below the number.
    """
    ways = list(next(iter(falls.values())))
    width, height = 1.3 + 1.9 * len(ways), 0.62 * len(falls) + 0.3
    figure, ((axis,),) = panels(1, 1, width, height, title=title)
    values = [[row[way] for way in ways] for row in falls.values()]
    axis.imshow(values, cmap=CELLS, vmin=-whole, vmax=whole, aspect="auto")
    axis.set_xticks(range(len(ways)), ways)
    axis.set_yticks(range(len(falls)), list(falls))
    axis.tick_params(length=0, labeltop=True, labelbottom=False)
    for y, (who, row) in enumerate(falls.items()):
        for x, way in enumerate(ways):
            say(axis, x, y - 0.12, f"{row[way]:+.2f}", size=12)
            if some := others.get(who, {}).get(way, {}).values():
                say(axis, x, y + 0.24, f"others {min(some):+.2f} to {max(some):+.2f}", size=SMALL)
    return figure


def hypotheses(rows: Sequence[Asked], lowered: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Prompts with one name marked, what is true of it, and how far each set of heads lowers it.

    The last mention of the name is marked. lowered: {a key of SETS: logits, row by row}.
    """
    note = "red: the name that is lowered; gray dots: three other heads or pairs of heads"
    height = 0.5 * len(rows) + 0.75
    more = 0.0 if max(len(row.prompt) for row in rows) < 34 else 1.25  # room for a long prompt
    figure, ((words, *axes),) = panels(
        1, 1 + len(lowered), 9.4 + 0.9 * more, height, title=title, note=note, sharey=True,
        width_ratios=(2.3 + 0.58 * more, *[1] * len(lowered)),
    )  # fmt: skip
    words.set(xlim=(0, 5 + more), ylim=(len(rows) - 0.5, -0.5))
    words.axis("off")
    for what, x in zip(PROPERTIES, (3.3 + more, 3.95 + more, 4.65 + more), strict=True):
        say(words, x, -0.72, what, "0.25", size=10, clip_on=False)
        fill = [INK if what in row.true else "white" for row in rows]
        words.scatter([x] * len(rows), range(len(rows)), s=60, c=fill, edgecolor="0.55", lw=1)
    for y, row in enumerate(rows):
        _marked(words, 0, y, row.prompt, row.name)
    for axis, (said, values), color in zip(axes, lowered.items(), (QUERY, SHARE), strict=True):
        bars = axis.barh(range(len(rows)), values, 0.46, color=color)
        axis.bar_label(bars, fmt="{:+.1f}", padding=4, fontsize=10)
        for y, row in enumerate(rows):
            others = row.others[SETS[said][0]]
            axis.scatter(others, [y + 0.36] * len(others), s=10, color="0.6", zorder=3)
        axis.axvline(0, color="0.4", lw=0.9)
        axis.tick_params(axis="y", length=0)
        axis.set(xlim=(-1.9, 6), xlabel="lowers the name by (logits)")
        axis.set_title(said, size=10.5, color=color, weight="bold", pad=9)
    return figure


def _marked(axis, x: float, y: float, prompt: str, name: str) -> None:
    """A prompt in a font of one width, the last mention of the name in color."""
    at = prompt.rfind(name)
    look = {"va": "center", "fontsize": 10, "family": "DejaVu Sans Mono"}
    blank = re.sub(r"[^\n]", " ", prompt)
    axis.text(x, y, prompt[:at] + " " * len(name) + prompt[at + len(name) :], color="0.4", **look)
    shown = blank[:at] + name + blank[at + len(name) :]
    axis.text(x, y, shown, color=WRONG, weight="bold", **look)


def proportional(
    names: Mapping[str, Mapping[str, tuple]],
    later: Mapping[str, Mapping[str, tuple]],
    examples: Mapping[str, Mapping[str, tuple]],
    slopes: Sequence[float],
    title: str,
) -> Figure:
    """How far heads lower names against their attention to them, with a line of this slope.

    names: {heads: {a key of GROUPS: (attentions, logits)}}; later: those of them that were
    predicted before they were measured, drawn as rings; examples: the one of each group to label.
    """
    said = dict(zip(GROUPS, ("John gave a drink to", "Anna gave a drink to"), strict=True))
    labels = {
        who: {said[group]: (x[0], y[0]) for group, (x, y) in each.items()}
        for who, each in examples.items()
    }
    figure = points(
        names, title, "attention weight, end to the name", "lowers the name by (logits)",
        names=labels, colors=GROUPS, levels={0: ""}, width=9.4,
        note="rings: predicted before they were measured",
    )  # fmt: skip
    for axis, rings, slope in zip(figure.axes, later.values(), slopes, strict=True):
        for group, (x, y) in rings.items():
            axis.scatter(x, y, s=36, color="white", edgecolor=GROUPS[group], lw=1.6)
        axis.axline((0, 0), slope=slope, color="0.7", lw=1.2, ls="--", zorder=0)
    figure.axes[1].set_xlabel("attention weights of both heads, added")
    return figure


def circuit(edges: Mapping[str, str], boxes: Mapping[str, tuple[str, str]], title: str) -> Figure:
    """What was tested (solid arrows, with their numbers), and what was not (dotted).

    edges: the labels of the arrows "movers", "unknown", "suppress", "negative", "end" and "tell".
    boxes: {role: (heads, what they do)} of "early", "tell", "movers", "unknown", "negative",
    "suppress" and "end".
    """
    figure, axis = canvas(10.6, 5.75)
    names = ((4.1, "Mary (IO)", VALUE), (3.05, "John (S1)", WRONG), (1.35, "John (S2)", WRONG))
    for y, name, color in names:
        word(axis, 0.85, y, name, color, width=1.3, height=0.44, size=10.5)
    drawn = (
        (3.05, 2.75, PALE, *boxes["early"]),
        (5.35, 2.75, SHARE, *boxes["tell"]),
        (7.65, 4.1, VALUE, *boxes["movers"]),
        (7.65, 3.0, PALE, *boxes["unknown"]),
        (7.65, 4.95, THIRD, *boxes["negative"]),
        (5.35, 1.15, QUERY, *boxes["suppress"]),
        (7.65, 0.95, KEY, *boxes["end"]),
        (9.85, 3.0, INK, "logit of Mary", "− logit of John"),
    )
    for x, y, color, name, said in drawn:
        word(axis, x, y, "", color, width=1.3 if x > 9 else 1.9, height=0.72)
        say(axis, x, y + 0.15, name, color, size=10, weight="bold")
        say(axis, x, y - 0.16, said, INK, size=9.5)
    for start, end in (((1.5, 3.0), (2.1, 2.85)), ((1.2, 1.57), (2.7, 2.38)),
                       ((4.0, 2.75), (4.4, 2.75)), ((8.6, 3.0), (9.2, 3.0))):  # fmt: skip
        _edge(axis, start, end, dotted=True)
    for start, end in (((1.5, 4.1), (6.7, 4.1)), ((1.5, 4.2), (6.7, 4.9)),
                       ((1.5, 1.5), (4.55, 2.39)), ((1.5, 1.25), (4.4, 1.15))):  # fmt: skip
        arrow(axis, start, end, SHARE, alpha=0.75, width=1.3)
    _edge(axis, (6.3, 2.95), (6.85, 3.74), edges["movers"], (5.75, 3.5))
    _edge(axis, (6.3, 2.8), (6.7, 2.95), edges["unknown"], (6.62, 2.48))
    _edge(axis, (8.6, 4.05), (9.5, 3.36))
    _edge(axis, (8.6, 4.85), (9.8, 3.36), edges["negative"], (9.5, 4.3))
    _edge(axis, (6.3, 1.2), (9.65, 2.64), edges["suppress"], (7.85, 2.08))
    _edge(axis, (8.6, 1.05), (9.95, 2.64), edges["end"], (9.5, 1.72))
    axis.plot((5.35, 5.35), (2.37, 1.53), color="0.6", lw=1.2)
    say(axis, 5.35, 1.95, "✕", WRONG, size=16, weight="bold")
    say(axis, 5.55, 1.95, edges["tell"], "0.35", size=9.5, ha="left")
    said = (
        (0.2, "solid: tested by patching (effect in logits)", INK),
        (4.95, "purple: attends to", SHARE),
        (6.75, "dotted: not tested", "0.45"),
    )
    for x, text, color in said:
        say(axis, x, 0.3, text, color, size=10, ha="left")
    return headline(figure, title)


def _edge(axis, start, end, said="", at=(0, 0), dotted=False) -> None:
    if dotted:
        look = {"arrowstyle": "-|>", "linestyle": (0, (1, 2)), "color": "0.5", "lw": 1.5}
        axis.annotate("", end, start, arrowprops=look)
    else:
        arrow(axis, start, end, INK, width=1.8)
    if said:
        say(axis, *at, said, INK, size=10)


def against_reading(adds, rank, names: Sequence[str], title: str) -> Figure:
    """What each head adds, against how high the name stands in its reading: both [layer, head].

    names: heads to name, such as "L2H3".
    """
    adds, rank = np.asarray(adds), np.asarray(rank) + 1
    named = {name: (rank[at], adds[at]) for name in names for at in [Head.parse(name)]}
    raising, lowering = ([xy for xy in named.values() if (xy[1] > 0) == up] for up in (True, False))
    groups = {"all heads": (rank, adds), "named, and add": tuple(zip(*raising, strict=True))}
    groups["named, and take"] = tuple(zip(*lowering, strict=True))
    figure = points(
        {"": groups}, title, "median rank of the name in what the head writes (1: first)",
        "adds, share of the logit difference", names={"": named}, x_log=True, levels={0: ""},
        colors=dict(zip(groups, (PALE, QUERY, KEY), strict=True)), width=7.2,
    )  # fmt: skip
    figure.axes[0].axvspan(0.8, 5.5, color=SHARE, alpha=0.12, lw=0)
    return figure


def raised(rows: Mapping[str, tuple[float, float]], title: str) -> Figure:
    """How far parts raise two names above a name that is not in the prompt: bars, from the top.

    rows: {part: (Mary, John)}; the last row is their sum, and stands apart.
    """
    at, values = np.arange(len(rows), dtype=float), np.asarray([*rows.values()])
    at[-1] += 0.35
    figure, ((axis,),) = panels(
        1, 1, 8.6, 0.47 * len(rows) + 0.75, title=title,
        key={"Mary (IO)": VALUE, "John (S)": WRONG},
    )  # fmt: skip
    for i, color in enumerate((VALUE, WRONG)):
        bars = axis.barh(at - 0.19 + 0.38 * i, values[:, i], 0.36, color=color)
        axis.bar_label(bars, fmt="{:+.1f}", padding=4, fontsize=9.5, color=color)
    axis.axvline(0, color="0.4", lw=0.9)
    axis.axhline(at[-2] + 0.68, color="0.7", lw=0.9)
    axis.set(xlabel="adds to the logit, beyond a name that is not in the prompt")
    axis.set(xlim=(-3.4, 7.1), ylim=(at[-1] + 0.5, -0.5))
    axis.set_yticks(at, list(rows))
    axis.tick_params(axis="y", length=0)
    return figure


def donors(
    falls: Mapping[str, Mapping[str, float]],
    others: Mapping[str, Mapping[str, Mapping[str, float]]],
    foretold: Mapping[str, Mapping[str, float]],
    whole: float,
    title: str,
) -> Figure:
    """What a logit difference loses by patches, a panel for each donor: {heads: {donor: logits}}.

    others: the same of other heads, as gray dots. foretold: black marks. whole: the difference.
    """
    ways = list(next(iter(falls.values())))
    figure, (axes,) = panels(
        1, len(ways), 9.6, 0.95 * len(falls) + 0.75, title=title, sharex=True, sharey=True,
        note="black mark: foretold from what the heads write themselves; gray dots: five other "
        "heads, or pairs, whose outputs change as much (not measured with the same names)",
    )  # fmt: skip
    at = range(len(falls))
    for axis, way in zip(axes, ways, strict=True):
        values = [row[way] for row in falls.values()]
        axis.barh(at, values, 0.4, color=[QUERY, SHARE][: len(falls)])
        axis.axvline(0, color="0.4", lw=0.9)
        axis.axvline(whole, color="0.6", lw=1, ls=":")
        for y, who in enumerate(falls):
            x = foretold[who][way]
            axis.plot((x, x), (y - 0.3, y + 0.3), color=INK, lw=2.4, zorder=4)
            right = max(values[y], x, 0) + 0.15
            axis.text(right, y, f"{values[y]:.1f}", va="center", fontsize=10)
            some = others.get(who, {}).get(way, {})
            axis.scatter(some.values(), [y + 0.42] * len(some), s=14, color="0.55", zorder=3)
            for name, x in some.items():
                if abs(x) > 0.6:
                    axis.text(x, y + 0.6, name, color="0.45", fontsize=9, ha="center", va="center")
        axis.set(
            xlabel="Mary's lead loses (logits)", xlim=(-2.3, 5.6), ylim=(len(falls) - 0.25, -0.5)
        )
        axis.set_title(f"donor: {way}", fontsize=10.5)
    axes[0].set_yticks(at, [who.replace(" and ", ",\n") for who in falls])
    axes[0].tick_params(axis="y", length=0)
    axes[-1].text(whole + 0.08, -0.36, "all of it", color="0.45", fontsize=9)
    return figure


def filled(
    text: str, marks: Sequence[tuple[str, str, str]], said: Mapping[str, str], title: str
) -> Figure:
    """The prompt of `roles` with what its heads do. said: texts of "late", "early" and "movers"."""
    words, left, places = text.split(), list(marks), {}
    widths = [0.28 + 0.118 * len(each) for each in words]
    figure, axis = canvas(sum(widths) + 0.07 * len(words) + 1.75, 3.95)
    x, y = 0.15, 1.62
    for each, width in zip(words, widths, strict=True):
        bare = each.strip(",.")
        role, color = left.pop(0)[1:] if left and left[0][0] == bare else ("", PALE)
        fill = "white" if role else "#F4F4F4"
        word(axis, x + width / 2, y, each, color, fill=fill, width=width, height=0.42, size=11.5)
        if role:
            places[role] = x + width / 2
        x += width + 0.07
    arrow(axis, (x + 0.02, y), (x + 0.42, y), VALUE, width=1.8)
    say(axis, x + 0.52, y, "Mary", VALUE, size=13, ha="left", weight="bold")
    end = places["end"]
    for who, to, height, color in (
        ("movers", "IO", 1.35, VALUE), ("late", "S2", 0.62, QUERY), ("early", "S2", -0.85, SHARE)
    ):  # fmt: skip
        edge = y + (0.23 if height > 0 else -0.23)
        shift = 0.12 if who == "late" else 0
        path = [(end - shift, edge), (end - shift, edge + height), (places[to], edge + height)]
        axis.plot(*zip(*path, strict=True), color=color, lw=2)
        arrow(axis, path[-1], (places[to], edge), color, width=2)
        up = 0.17 if height > 0 else -0.19
        right = end - 0.2 if who == "late" else end + 0.1
        look = {"size": 10.5, "weight": "bold", "ha": "right"}
        say(axis, right, edge + height + up, said[who], color, **look)
    for role, color, right in (
        ("IO", VALUE, 0), ("S1", WRONG, 0), ("S2", WRONG, -0.25), ("end", INK, 0.35)
    ):  # fmt: skip
        say(axis, places[role] + right, y - 0.4, role, color, size=11, weight="bold")
    return headline(figure, title)
