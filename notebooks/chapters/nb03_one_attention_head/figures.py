"""Figures of notebook 03: how one head works, and two heads taken apart."""

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch, Rectangle
from matplotlib.path import Path
from torch import Tensor

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE
from aot_helpers.showing.plots import panels

# The rows of `one_head` and the column of the query's token, in units of its canvas.
Y_WORD, Y_STREAM, Y_VECTOR, Y_WEIGHT, Y_Z, Y_OUT = 7.6, 6.75, 5.3, 3.85, 2.1, 0.7
X_QUERY = 1.55


def one_head(
    tokens: list[str],
    query: int,
    weights: Float[Tensor, " key_pos"] | list[float],
    title: str,
    vectors: dict[str, Float[Tensor, "pos size"]] | None = None,
) -> Figure:
    """How one head serves the token at position `query`, from the rows of X to what it writes.

    weights: its row of the pattern. vectors: {"resid", "q", "k", "v", "z", "out"}, to write their
    numbers into the cells.
    """
    figure, axis = diagrams.canvas(10, 6.35, 14.2)
    at = 4.15 + 1.9 * np.arange(len(tokens))
    numbers = vectors or dict.fromkeys(("resid", "q", "k", "v", "z", "out"), [None] * len(tokens))
    diagrams.word(axis, X_QUERY, Y_WORD, tokens[query], QUERY)
    _cells(axis, X_QUERY, Y_STREAM, 4, INK, numbers["resid"][query])
    diagrams.arrow(axis, (X_QUERY, Y_STREAM - 0.22), (X_QUERY, Y_VECTOR + 0.22), QUERY)
    _cells(axis, X_QUERY, Y_VECTOR, 2, QUERY, numbers["q"][query])
    corner = [X_QUERY, X_QUERY, at[query] - 0.44], [Y_VECTOR - 0.2, Y_WEIGHT, Y_WEIGHT]
    axis.plot(*corner, color=QUERY, lw=2, zorder=1)
    lane = Y_Z + 0.26  # where the next value flows
    for i, (x, token) in enumerate(zip(at, tokens, strict=True)):
        alpha = 1 if i <= query else 0.28
        diagrams.word(axis, x, Y_WORD, token, QUERY if i == query else INK, alpha)
        _cells(axis, x, Y_STREAM, 4, INK, numbers["resid"][i], alpha)
        for place, color, name in ((x - 0.44, KEY, "k"), (x + 0.44, VALUE, "v")):
            diagrams.arrow(axis, (x, Y_STREAM - 0.22), (place, Y_VECTOR + 0.22), color, alpha)
            _cells(axis, place, Y_VECTOR, 2, color, numbers[name][i], alpha)
        if i <= query:
            weight, k = float(weights[i]), x - 0.44
            axis.plot([k, k], [Y_VECTOR - 0.2, Y_WEIGHT], color=KEY, lw=2, zorder=1)
            axis.add_patch(Circle((k, Y_WEIGHT), 0.36 * weight**0.5, color=SHARE, zorder=4))
            if vectors:
                diagrams.say(axis, k + 0.02, Y_WEIGHT - 0.55, f"{weight:.2f}", SHARE)
            width = max(1.2, 26 * weight)  # in points; a unit of the canvas has about 51
            start, end = (x + 0.44, Y_VECTOR - 0.2), (X_QUERY + 0.4, lane - width / 102)
            _river(axis, start, end, VALUE, width)
            lane -= width / 51
    _cells(axis, X_QUERY, Y_Z, 2, VALUE, numbers["z"][query])
    diagrams.arrow(axis, (X_QUERY, Y_Z - 0.22), (X_QUERY, Y_OUT + 0.22), INK)
    _cells(axis, X_QUERY, Y_OUT, 4, INK, numbers["out"][query])
    _names(axis, at, query, tokens[query])
    return diagrams.headline(figure, title)


def _names(axis, at, query: int, token: str) -> None:
    """What each row and each matrix is called. at: where the tokens stand, [pos]."""
    first, last, side = at[0], at[-1], at[query] + 0.95
    for x, text in (
        (X_QUERY, "attends"),
        (at[: query + 1].mean(), "can be attended to"),
        (at[query + 1 :].mean(), "still in the future"),
    ):
        diagrams.say(axis, x, 8.18, text, PALE, style="italic")
    for x, y, text, color, ha in (
        (X_QUERY - 0.52, Y_VECTOR, "query", QUERY, "right"),
        (first - 0.96, Y_VECTOR, "keys", KEY, "right"),
        (last + 0.98, Y_VECTOR, "values", VALUE, "left"),
        (last + 0.98, Y_STREAM, "rows of X", INK, "left"),
        (side, Y_WEIGHT + 0.2, "attention weights", SHARE, "left"),
        (side, Y_Z + 0.2, "weighted sum", VALUE, "left"),
        (X_QUERY + 0.12, 6.05, "$W_Q$", QUERY, "left"),
        (first - 0.5, 6.05, "$W_K$", KEY, "right"),
        (first + 0.36, 6.05, "$W_V$", VALUE, "left"),
        (X_QUERY + 0.12, (Y_Z + Y_OUT) / 2, "$W_O$", INK, "left"),
    ):
        diagrams.say(axis, x, y, text, color, ha=ha, weight="bold")
    for x, y, text, color in (
        (side, Y_WEIGHT - 0.2, "how a key matches, relative to the others", SHARE),
        (side, Y_Z - 0.2, "the values, each times its weight, add up", VALUE),
        (X_QUERY + 0.9, Y_OUT, f"is added to the row of {token}", INK),
    ):
        diagrams.say(axis, x, y, text, color, ha="left")


def _cells(axis, x, y, n, color, numbers=None, alpha=1.0, side=0.4):
    """A vector as n cells in a row around (x, y), with its numbers if there are any."""
    for i in range(n):
        left = x + (i - n / 2) * side
        for look in ({"fc": color, "alpha": 0.16 * alpha}, {"fc": "none", "ec": color}):
            look = {"ec": "none", "lw": 1, "alpha": alpha, "zorder": 2} | look
            axis.add_patch(Rectangle((left, y - side / 2), side, side, **look))
        if numbers is not None:
            number = f"{float(numbers[i]):.2g}"
            diagrams.say(axis, left + side / 2, y - 0.01, number, size=10, alpha=alpha)


def _river(axis, start, end, color, width):
    """A band that falls from start, turns, and flows to end; width in points."""
    (x0, y0), (x1, y1) = start, end
    turn = min(0.8, abs(x0 - x1))
    points = [(x0, y0), (x0, y1 + turn), (x0, y1), (x0 - turn, y1), (x1, y1)]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO]
    band = PathPatch(Path(points, codes), fc="none", ec=color, lw=width, alpha=0.6, zorder=0)
    band.set_capstyle("butt")
    axis.add_patch(band)


def taken_apart(
    maps: dict[str, dict[str, Float[Tensor, "query_pos key_pos"]]],
    tokens: list[str],
    title: str,
    sink: str = "",
) -> Figure:
    """Patterns of heads, {head: {what is left of its scores: pattern}}, a row for each head.

    sink: the head whose first column is marked, in its first pattern, as an attention sink.
    """
    n_columns, side = max(map(len, maps.values())), 0.15 * len(tokens)
    size = n_columns * side + 1.3, len(maps) * (side + 0.3) + 1
    figure, axes = panels(len(maps), n_columns, *size, title=title, sharex=True, sharey=True)
    for line, (head, parts) in zip(axes, maps.items(), strict=True):
        for axis, (name, pattern) in zip(line, parts.items(), strict=True):
            axis.imshow(pattern.numpy(), vmin=0, vmax=1, cmap=SHADES)
            axis.set_title(f"{head}, {name}", size=10.5)
            axis.tick_params(length=0, labelsize=9)
            axis.spines[:].set(visible=True, color="0.8")
        line[0].set_yticks(range(len(tokens)), tokens)
        line[0].set_ylabel("attends (query)")
        if head == sink:
            frame = Rectangle((-0.5, -0.5), 1, len(tokens), fc="none", ec=QUERY, lw=1.6)
            line[0].add_patch(frame)
            look = {"color": QUERY, "size": 10, "va": "center"}
            line[0].text(5.2, 1.5, "the attention sink", **look)
            line[0].plot([0.6, 5], [1.5, 1.5], color=QUERY, lw=1)
    for axis in axes[-1]:
        axis.set_xticks(range(len(tokens)), tokens, rotation=90)
        axis.set_xlabel("attended to (key)")
    return figure
