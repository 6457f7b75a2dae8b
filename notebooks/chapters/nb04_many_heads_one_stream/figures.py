"""Figures of notebook 04: terms of a logit, as a sum and for rivals; one stream."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.showing import diagrams, plots, texts
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE, VALUE

WRITER = Head(0, 3)  # the head whose readers are drawn
STREAM, EARLIER = "#C9CDD2", "#DDE1E5"
SIGNED = LinearSegmentedColormap.from_list("signed", [QUERY, "white", VALUE])


def contributions(
    terms: dict[str, float],
    title: str,
    before: dict[str, float] | None = None,
    axis_label: str = "contribution to the logit, above its mean over the vocabulary",
    total_label: str = "the logit",
) -> Figure:
    """Terms of a sum, each beginning where the one before ended.

    before: what each term was at another time, drawn behind it as a gray band.
    """
    names, total = [*terms, total_label], sum(terms.values())
    starts = [*np.cumsum([0, *terms.values()])[:-1], 0]
    old = [*(before or terms).values(), sum((before or terms).values())]
    figure, axes = plots.panels(1, 1, 9, 0.34 * len(names) + 0.6, title=title)
    axis, colors = axes[0, 0], []
    for y, (start, value, was) in enumerate(
        zip(starts, [*terms.values(), total], old, strict=True)
    ):
        color, number = VALUE if value > 0 else QUERY, _signed
        if y == 0 or abs(value) < 0.05:  # the direct path; shown as 0.0
            color = PALE
        end = start + value
        if y < len(terms):
            diagrams.arrow(axis, (start, y), (end, y), color, width=1.7)
            axis.plot([end, end], [y, y + 1], color="0.75", lw=0.9, ls=(0, (2, 2)))
        else:
            axis.barh(y, value, 0.12, color=INK)
            color, number = INK, "{:.1f}".format
        said = number(value)
        if abs(value - was) >= 0.05:
            axis.barh(y, was, 0.4, left=start, color=EARLIER, zorder=0)
            end, said = start + max(value, was, 0), f"{said} (was {number(was)})"
        look = {"textcoords": "offset points", "va": "center", "color": color, "size": 10.5}
        axis.annotate(said, (max(start, end), y), (8, 0), **look)
        colors.append(color)
    axis.set_yticks(range(len(names)), names, weight="bold")
    for label, color in zip(axis.get_yticklabels(), colors, strict=True):
        label.set_color(color)
    axis.axvline(0, color="0.8", lw=1, zorder=0)
    axis.set(xlabel=axis_label, ylim=(len(names) - 0.5, -0.5))
    axis.margins(x=0.13 if before else 0.07)
    axis.spines["left"].set_visible(False)
    axis.tick_params(axis="y", length=0)
    return figure


def _signed(value: float) -> str:
    """With its sign and one decimal, never -0.0."""
    return f"{round(value, 1) + 0.0:+.1f}"


def first_places(counts: dict[str, Int[Tensor, " head"]], heads: list[str], title: str) -> Figure:
    """How often each head comes first in two rankings: {ranking: places at which it does}."""
    figure, axes = plots.panels(
        1, 1, 9, 2.6, title=title, key=dict(zip(counts, (VALUE, SHARE), strict=True))
    )
    axis = axes[0, 0]
    for shift, color, each in zip((-0.2, 0.2), (VALUE, SHARE), counts.values(), strict=True):
        heights = each.tolist()
        bars = axis.bar(np.arange(len(heads)) + shift, heights, width=0.38, color=color)
        axis.bar_label(bars, [str(n) if n else "" for n in heights], color=color, size=10)
    axis.set_xticks(range(len(heads)), heads)
    most = max(int(each.max()) for each in counts.values())
    axis.set(ylabel="places where it comes first", ylim=(0, 1.1 * most))
    return figure


class Write(NamedTuple):
    """What one head writes at one position of a text, and who reads it."""

    position: int
    token: str
    attended: str  # the token that the writer attends to from there
    readers: dict[str, float]  # {head: how much less it adds without this}


def one_stream(
    n_layers: int,
    n_heads: int,
    title: str,
    terms: dict[str, float] | None = None,
    writes: list[Write] = (),
    writer: Head = WRITER,
    earlier: str = "",
) -> Figure:
    """The model as a river: layers of heads read the stream and add to it, from left to right.

    terms: {head: a number}, written above each head, which is shaded by its size. writes: of the
    writer, at each position that matters, the present one last. An earlier position is a short
    river of its own; blue arrows show who reads it. earlier: what a faint second river above the
    heads is called, which they read, too.
    """
    step, n_earlier = 3.75 if terms else 2.9, max(len(writes) - 1, 0)
    width, height = 2.6 + step * n_layers, 2.55 + 0.65 * bool(terms) + 0.95 * n_earlier
    height += 0.75 * bool(earlier)
    figure, axis = diagrams.canvas(width, height)
    y, places = 0.62, {}
    if earlier:
        axis.plot(
            [0.95, width - 1.1], [2.6, 2.6], color=EARLIER, lw=9, solid_capstyle="butt", zorder=1
        )
        diagrams.say(axis, 1.0, 2.85, earlier, PALE, 9.5, "left")
    ends = "token", "logits"
    if terms:
        ends = f"direct {_signed(terms['direct path'])}", f"logit {sum(terms.values()):.1f}"
    _river(axis, y, width - 1.1, repr(writes[-1].token) if writes else "W_E")
    diagrams.word(axis, width - 0.65, y, "W_U", width=0.8)
    for x, said in zip((0.55, width - 0.65), ends, strict=True):
        diagrams.say(axis, x, 0.16, said, INK if terms else PALE, weight="bold" if terms else None)
    said = f"token {writes[-1].position}: residual stream" if writes else "residual stream"
    diagrams.say(axis, 1.12, 0.36, said, PALE, 9.5, "left")
    most = max(map(abs, (terms or {"": 1}).values()))
    for layer in range(n_layers):
        left = 1.35 + step * layer
        diagrams.say(axis, left + step / 2 - 0.4, 0.16, f"layer {layer}", PALE, 10)
        for head in range(n_heads):
            x = left + 0.3 + (step - 1.4) * head / max(n_heads - 1, 1)
            places[f"L{layer}H{head}"] = x
            value = (terms or {}).get(f"L{layer}H{head}", 0.0)
            color = VALUE if value > 0 else QUERY
            _head(axis, x, 1.72, head, texts.tint(color, 0.5 * abs(value) / most))
            diagrams.arrow(axis, (left, y + 0.08), (x, 1.5), "#9AA0A6", width=1.1)
            if earlier:
                diagrams.arrow(axis, (left, 2.54), (x - 0.05, 1.93), KEY, width=1)
            diagrams.arrow(axis, (x, 1.5), (left + step - 0.8, y + 0.14), VALUE, width=1.1)
            if terms:
                diagrams.say(axis, x, 2.05, _signed(value), color, weight="bold")
        diagrams.word(axis, left + step - 0.8, y, "+", VALUE, width=0.3, height=0.3)
    x, plus = places.get(str(writer)), 0.55 + step * (writer.layer + 1)
    for i, write in enumerate(writes):
        at = 2.95 + 0.95 * (n_earlier - 1 - i)
        said = f"writes what it found at {write.attended!r}"
        if i == n_earlier:
            diagrams.say(axis, x, 2.3, said, SHARE, 9)
            end, tip = (plus + 0.8, y), 1.5
        else:
            _river(axis, at, plus + 0.35, repr(write.token))
            diagrams.say(axis, 1.12, at - 0.2, f"token {write.position}", PALE, 9.5, "left")
            diagrams.say(axis, x - 0.35, at + 0.42, said, SHARE, 9, "right")
            _head(axis, x, at + 0.42, writer.head)
            diagrams.arrow(axis, (x + 0.1, at + 0.22), (plus, at + 0.1), VALUE, width=1.1)
            diagrams.word(axis, plus, at, "+", VALUE, width=0.3, height=0.3)
            end, tip = (plus + 0.35, at), 2.2
        for reader, less in write.readers.items():
            to = (places[reader], tip)
            diagrams.arrow(axis, end, to, KEY, width=1 + less / 5)
            middle = np.mean([end, to], axis=0)
            diagrams.word(axis, *middle, f"{less:.1f}", KEY, width=0.42, height=0.24, size=9)
    if writes:
        said = f"blue: how much less a head adds if {writer} is set to zero there"
        diagrams.say(axis, width - 0.15, height - 0.6, said, KEY, 9.5, "right")
    return diagrams.headline(figure, title)


def _river(axis, y: float, end: float, token: str) -> None:
    """The residual stream of one position, from its token on."""
    axis.plot([0.95, end], [y, y], color=STREAM, lw=9, solid_capstyle="butt", zorder=1)
    diagrams.word(axis, 0.55, y, token, width=0.8)


def _head(axis, x: float, y: float, head: int, fill="white") -> None:
    diagrams.word(axis, x, y, f"H{head}", SHARE, width=0.46, height=0.36, size=9.5, fill=fill)


def rivals(
    tables: dict[str, Float[Tensor, "part token"]], parts: list[str], tokens: list[str], title: str
) -> Figure:
    """What each part adds to the logits of some tokens, at several places, {place: table}."""
    values = {said: np.round(np.asarray(table), 1) + 0.0 for said, table in tables.items()}
    most = max(np.abs(each).max() for each in values.values())
    names = [*parts, "sum: the logit"]
    shown = {}
    for i, (said, table) in enumerate(values.items()):
        sums = np.round(np.asarray(tables[said]).sum(axis=0, keepdims=True), 1)
        shown[" " * i] = {said: np.concatenate([table, sums])}
    return plots.grids(
        shown,
        title,
        number="+.1f",
        row_names=names,
        column_names=[repr(each) for each in tokens],
        limits=(-1.6 * most, 1.6 * most),
        colors=SIGNED,
        cell=(0.86, 0.3),
    )
