"""Drawings of notebook 24: prompts with roles, what parts add, patches, hypotheses, two routes."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pandas
from matplotlib.figure import Figure

from aot_helpers.showing.diagrams import (
    INK,
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
from aot_helpers.showing.plots import panels, points

WRONG, THIRD = "#C2185B", "#8C6D1F"  # the name that should not come; a third name
PROPERTIES = ("twice", "last", "subject")
GROUPS = {"came twice": WRONG, "came once": THIRD}


def _boxes(
    axis, text: str, marks: Sequence[tuple[str, str, str]], y: float
) -> tuple[float, dict[str, float]]:
    """The words of a prompt as boxes: where the last one ends, and the middle of those marked."""
    x, left, places = 0.15, list(marks), {}
    for each in text.split():
        width, (role, color) = _width(each), ("", PALE)
        if left and left[0][0] == each.strip(",."):
            role, color = left.pop(0)[1:]
            places[role] = x + width / 2
        fill = "white" if role else "#F4F4F4"
        word(axis, x + width / 2, y, each, color, fill=fill, width=width, height=0.42, size=11.5)
        x += width + 0.07
    return x, places


def _width(each: str) -> float:
    return 0.28 + 0.118 * len(each)


def roles(text: str, marks: Sequence[tuple[str, str, str]], title: str, said: str) -> Figure:
    """One prompt as boxes of words, with what the marked ones are.

    marks: (word, role, color), in the order of the text. said: the guess, drawn behind an arrow.
    """
    figure, axis = canvas(sum(_width(each) + 0.07 for each in text.split()) + 1.75, 1.75)
    x, places = _boxes(axis, text, marks, 0.75)
    for _, role, color in marks:
        say(axis, places[role], 0.33, role, color, size=11, weight="bold")
    arrow(axis, (x + 0.02, 0.75), (x + 0.42, 0.75), VALUE, width=1.8)
    say(axis, x + 0.52, 0.75, said, VALUE, size=13, ha="left", weight="bold")
    return headline(figure, title)


def hypotheses(names: pandas.DataFrame, title: str) -> Figure:
    """Prompts with one name marked, what is true of it, and how far each set of heads lowers it.

    names: rows of `measure.lowered_names`; the last mention of the name is marked. A column
    "predicted" of logits is drawn as black marks.
    """
    predicted = "predicted" in names
    rows, n_sets = names.drop_duplicates(["form", "who"]), names["heads"].nunique()
    note = "red: the name that is lowered; gray dots: other heads or pairs of heads (left of zero: "
    note += "they raise it)" + ("; black mark: predicted" if predicted else "")
    more = 0.0 if max(map(len, rows["prompt"])) < 34 else 1.25  # room for a long prompt
    figure, ((words, *axes),) = panels(
        1,
        1 + n_sets,
        9.4 + 0.9 * more,
        0.5 * len(rows) + 0.75,
        title=title,
        note=note,
        sharey=True,
        width_ratios=(2.3 + 0.58 * more, *[1] * n_sets),
    )
    words.set(xlim=(0, 5 + more), ylim=(len(rows) - 0.5, -0.5))
    words.axis("off")
    for what, x in zip(PROPERTIES, (3.3 + more, 3.95 + more, 4.65 + more), strict=True):
        say(words, x, -0.72, what, "0.25", size=10, clip_on=False)
        fill = [INK if what in true else "white" for true in rows["true"]]
        words.scatter([x] * len(rows), range(len(rows)), s=60, c=fill, edgecolor="0.55", lw=1)
    for y, row in enumerate(rows.itertuples()):
        _marked(words, 0, y, row.prompt, row.name)
    sets = names.groupby("heads", sort=False)
    for axis, (heads, table), color in zip(axes, sets, (QUERY, SHARE), strict=True):
        axis.barh(range(len(table)), table["lowered"], 0.46, color=color)
        for y, row in enumerate(table.itertuples()):
            right = max(row.lowered, row.predicted if predicted else 0, 0)
            axis.text(right + 0.2, y, f"{row.lowered:+.1f}", va="center", fontsize=10)
            beside = [y + 0.36] * len(row.others)
            axis.scatter(row.others, beside, s=10, color="0.6", zorder=3)
            if predicted:
                axis.plot([row.predicted] * 2, (y - 0.33, y + 0.33), color=INK, lw=2.4, zorder=4)
        axis.axvline(0, color="0.4", lw=0.9)
        axis.tick_params(axis="y", length=0)
        axis.set(xlim=(-2.9, 6), xlabel="lowers the name by (logits)")
        axis.set_title(heads, size=10.5, color=color, weight="bold", pad=9)
    return figure


def _marked(axis, x: float, y: float, prompt: str, name: str) -> None:
    """A prompt in a font of one width, the last mention of the name in color."""
    at = prompt.rfind(name)
    look = {"va": "center", "fontsize": 10, "family": "DejaVu Sans Mono"}
    blank = re.sub(r"[^\n]", " ", prompt)
    axis.text(x, y, prompt[:at] + " " * len(name) + prompt[at + len(name) :], color="0.4", **look)
    shown = blank[:at] + name + blank[at + len(name) :]
    axis.text(x, y, shown, color=WRONG, weight="bold", **look)


def proportional(names: pandas.DataFrame, slopes: Mapping[str, float], title: str) -> Figure:
    """How far heads lower names against their attention to them, with a line of this slope.

    names: rows of `measure.lowered_names`; those that were measured later, as predicted, are rings,
    the first of each group is labeled. slopes: {a key of HEADS: logits per unit of attention}.
    """
    said = {"twice": "John gave a drink to", "once": "Anna gave a drink to"}
    points_of, labels = {}, {}
    for (heads, came), each in names.groupby(["heads", "came"], sort=False):
        xy = each[["attention", "lowered"]]
        points_of.setdefault(heads, {})[f"came {came}"] = xy["attention"], xy["lowered"]
        labels.setdefault(heads, {})[said[came]] = tuple(xy.iloc[0])
    figure = points(
        points_of,
        title,
        "attention weight, end to the name",
        "lowers the name by (logits)",
        names=labels,
        colors=GROUPS,
        levels={0: ""},
        width=9.4,
        note="rings: predicted before they were measured",
    )
    later = names[names["stage"] == "later"].groupby("heads", sort=False)
    for axis, (heads, rings) in zip(figure.axes, later, strict=True):
        edges = [GROUPS[f"came {came}"] for came in rings["came"]]
        look = {"s": 36, "color": "white", "edgecolor": edges, "lw": 1.6}
        axis.scatter(rings["attention"], rings["lowered"], **look)
        axis.axline((0, 0), slope=slopes[heads], color="0.7", lw=1.2, ls="--", zorder=0)
    figure.axes[1].set_xlabel("attention weights of both heads, added")
    return figure


def raised(rows: Mapping[str, tuple[float, float]], title: str) -> Figure:
    """How far parts raise two names above a name that is not in the prompt: bars, from the top.

    rows: {part: (Mary, John)}; the last row is their sum, and stands apart.
    """
    at, values = np.arange(len(rows), dtype=float), np.asarray([*rows.values()])
    at[-1] += 0.35
    figure, ((axis,),) = panels(
        1,
        1,
        8.6,
        0.47 * len(rows) + 0.75,
        title=title,
        key={"Mary (IO)": VALUE, "John (S)": WRONG},
    )
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


def filled(
    text: str, marks: Sequence[tuple[str, str, str]], said: Mapping[str, str], title: str
) -> Figure:
    """The prompt of `roles` with what its heads do. said: "late", "early", "movers" and "turn"."""
    figure, axis = canvas(sum(_width(each) + 0.07 for each in text.split()) + 2.6, 3.95)
    y = 1.62
    x, places = _boxes(axis, text, marks, y)
    arrow(axis, (x + 0.02, y), (x + 0.5, y), VALUE, width=1.8)
    say(axis, x + 0.6, y, "Mary", VALUE, size=13, ha="left", weight="bold")
    end, turned = places["end"], x + 0.22
    for who, to, height, color in (
        ("movers", "IO", 1.35, VALUE),
        ("late", "S2", 0.62, QUERY),
        ("early", "S2", -0.85, SHARE),
    ):
        edge = y + (0.23 if height > 0 else -0.23)
        shift = 0.12 if who == "late" else 0
        path = [(end - shift, edge), (end - shift, edge + height), (places[to], edge + height)]
        axis.plot(*zip(*path, strict=True), color=color, lw=2)
        arrow(axis, path[-1], (places[to], edge), color, width=2)
        up = 0.17 if height > 0 else -0.19
        right = end - 0.2 if who == "late" else end + 0.1
        look = {"size": 10.5, "weight": "bold", "ha": "right"}
        say(axis, right, edge + height + up, said[who], color, **look)
    low, high = y - 0.23 - 0.85, y + 0.23 + 1.35  # from the early heads' line to the movers'
    axis.plot((end, turned, turned), (low, low, high), color=SHARE, lw=2, ls=(0, (3, 1.5)))
    arrow(axis, (turned, high), (end + 0.04, high), SHARE, width=2)
    say(axis, turned + 0.1, high - 0.35, said["turn"], SHARE, size=10.5, ha="left", weight="bold")
    for role, color, right in (
        ("IO", VALUE, 0),
        ("S1", WRONG, 0),
        ("S2", WRONG, -0.25),
        ("end", INK, -0.35),
    ):
        say(axis, places[role] + right, y - 0.4, role, color, size=11, weight="bold")
    return headline(figure, title)
