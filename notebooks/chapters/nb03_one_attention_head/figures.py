"""Figures of notebook 03: what scaling and masks do, where a head looks, what it carries."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Circle, PathPatch, Rectangle
from matplotlib.path import Path

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE

# The rows of `one_head` and the column of the token that asks, in units of its canvas.
Y_WORD, Y_STREAM, Y_VECTOR, Y_SHARE, Y_Z, Y_OUT = 7.6, 6.75, 5.3, 3.85, 2.1, 0.7
ASK = 1.55


def one_head(tokens, query, shares, title, vectors=None):
    """How one head serves the token at position `query`, from the streams to what it writes.

    shares: its row of the pattern, [key_pos]. vectors: {"resid", "q", "k", "v", "z", "out"}, each
    [pos, size], to write their numbers into the cells.
    """
    figure, axis = diagrams.canvas(10, 6.35, 14.2)
    at = 4.15 + 1.9 * np.arange(len(tokens))
    numbers = vectors or dict.fromkeys(("resid", "q", "k", "v", "z", "out"), [None] * len(tokens))
    diagrams.say(axis, 0.15, 8.75, title, size=12.5, ha="left")
    heads = [(ASK, "asks"), (at[: query + 1].mean(), "can be looked at")]
    for x, text in [*heads, (at[query + 1 :].mean(), "still in the future")]:
        diagrams.say(axis, x, 8.18, text, PALE, style="italic")
    _asker(axis, tokens[query], query, at[query] - 0.44, numbers)
    lane = Y_Z + 0.26
    for i, (x, token) in enumerate(zip(at, tokens, strict=True)):
        _key_and_value(axis, x, token, i, query, numbers)
        if i <= query:
            lane = _served(axis, x, float(shares[i]), lane, write=vectors is not None)
    _cells(axis, ASK, Y_Z, 2, VALUE, numbers["z"][query])
    diagrams.arrow(axis, (ASK, Y_Z - 0.22), (ASK, Y_OUT + 0.22), INK)
    _cells(axis, ASK, Y_OUT, 4, INK, numbers["out"][query])
    back = f"is added to the stream of {tokens[query]}"
    diagrams.say(axis, ASK + 0.9, Y_OUT, back, ha="left")
    _names(axis, at[0], at[-1], at[query] + 0.95)
    return figure


def _asker(axis, token, query, end, numbers):
    """The token that asks, its query, and the line from that to the keys."""
    diagrams.word(axis, ASK, Y_WORD, token, QUERY)
    _cells(axis, ASK, Y_STREAM, 4, INK, numbers["resid"][query])
    diagrams.arrow(axis, (ASK, Y_STREAM - 0.22), (ASK, Y_VECTOR + 0.22), QUERY)
    _cells(axis, ASK, Y_VECTOR, 2, QUERY, numbers["q"][query])
    axis.plot([ASK, ASK, end], [Y_VECTOR - 0.2, Y_SHARE, Y_SHARE], color=QUERY, lw=2, zorder=1)


def _key_and_value(axis, x, token, i, query, numbers):
    """A token with its key and value, pale where it is still in the future."""
    alpha = 1 if i <= query else 0.28
    diagrams.word(axis, x, Y_WORD, token, QUERY if i == query else INK, alpha)
    _cells(axis, x, Y_STREAM, 4, INK, numbers["resid"][i], alpha)
    for place, color, name in ((x - 0.44, KEY, "k"), (x + 0.44, VALUE, "v")):
        start, end = (x, Y_STREAM - 0.22), (place, Y_VECTOR + 0.22)
        diagrams.arrow(axis, start, end, color, alpha)
        _cells(axis, place, Y_VECTOR, 2, color, numbers[name][i], alpha)


def _served(axis, x, share, lane, write):
    """A token's share, and its value as a river in the lane; returns where the next lane begins."""
    k, v = x - 0.44, x + 0.44
    axis.plot([k, k], [Y_VECTOR - 0.2, Y_SHARE], color=KEY, lw=2, zorder=1)
    axis.add_patch(Circle((k, Y_SHARE), 0.36 * share**0.5, color=SHARE, zorder=4))
    if write:
        diagrams.say(axis, k + 0.02, Y_SHARE - 0.55, f"{share:.2f}", SHARE)
    width = max(1.2, 26 * share)  # in points; a unit of the canvas has about 51
    _river(axis, (v, Y_VECTOR - 0.2), (ASK + 0.4, lane - width / 102), VALUE, width)
    return lane - width / 51


def _names(axis, first, last, side):
    """What each row and each matrix is called."""
    for x, y, text, color, ha in (
        (ASK - 0.52, Y_VECTOR, "query", QUERY, "right"),
        (first - 0.96, Y_VECTOR, "keys", KEY, "right"),
        (last + 0.98, Y_VECTOR, "values", VALUE, "left"),
        (last + 0.98, Y_STREAM, "streams", INK, "left"),
        (side, Y_SHARE + 0.2, "shares", SHARE, "left"),
        (side, Y_Z + 0.2, "weighted sum", VALUE, "left"),
    ):
        diagrams.say(axis, x, y, text, color, ha=ha, weight="bold")
    how = "how a key matches, relative to the others"
    diagrams.say(axis, side, Y_SHARE - 0.2, how, SHARE, ha="left")
    what = "the values, each times its share, add up"
    diagrams.say(axis, side, Y_Z - 0.2, what, VALUE, ha="left")
    for x, y, text, color, ha in (
        (ASK + 0.12, 6.05, "$W_Q$", QUERY, "left"),
        (first - 0.5, 6.05, "$W_K$", KEY, "right"),
        (first + 0.36, 6.05, "$W_V$", VALUE, "left"),
        (ASK + 0.12, (Y_Z + Y_OUT) / 2, "$W_O$", INK, "left"),
    ):
        diagrams.say(axis, x, y, text, color, size=12, ha=ha)


def patterns(panels, tokens):
    """Attention patterns side by side, with their numbers. panels: {title: [query_pos, key_pos]}.

    A share of exactly 0 is hatched: nothing is looked at there.
    """
    size = (4.6 * len(panels), 4.2)
    figure, axes = plt.subplots(1, len(panels), figsize=size, dpi=DPI, layout="constrained")
    plt.close(figure)  # the notebook shows the returned figure once, not twice
    hidden = {"fc": "#F4F4F4", "ec": "#D0D0D0", "hatch": "////", "lw": 0}
    for axis, (title, pattern) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        axis.imshow(np.asarray(pattern), cmap=SHADES, vmin=0, vmax=1)
        for (i, j), share in np.ndenumerate(np.asarray(pattern)):
            if share == 0:
                axis.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **hidden))
            else:
                diagrams.say(axis, j, i, f"{share:.2f}", "white" if share > 0.4 else INK, size=11)
        axis.set_xticks(range(len(tokens)), tokens, fontsize=11)
        axis.set_yticks(range(len(tokens)), tokens, fontsize=11)
        axis.set_xlabel("looked at (key)", color=KEY, fontsize=11)
        axis.set_ylabel("asks (query)", color=QUERY, fontsize=11)
        axis.set_title(title, fontsize=12, loc="left")
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
    return figure


def hardening(dots, *, title: str, n_keys=16) -> Figure:
    """Softmax shares of the first n_keys keys, sorted for each query, then averaged over queries.

    dots: {d_head: [query, key]}.
    """
    figure, axes = plt.subplots(
        2, len(dots), figsize=(9.2, 3.3), dpi=DPI, sharex=True, sharey=True, layout="constrained"
    )
    plt.close(figure)
    figure.suptitle(title, fontsize=12, x=0.01, ha="left")
    for line, divided, color in zip(axes, (False, True), (PALE, SHARE), strict=True):
        for axis, (d_head, raw) in zip(line, dots.items(), strict=True):
            scores = raw[:, :n_keys] / (d_head**0.5 if divided else 1)
            shares = scores.softmax(dim=-1).sort(descending=True).values.mean(dim=0)
            axis.bar(range(n_keys), shares.numpy(), width=0.85, color=color)
            axis.set(ylim=(0, 1), xticks=[], yticks=[0, 1])
            axis.spines[["left", "top", "right"]].set_visible(False)
            axis.tick_params(length=0, labelsize=9.5)
            if not divided:
                axis.set_title(f"d_head = {d_head}", fontsize=10.5)
        label = "q · k / √d_head" if divided else "q · k"
        line[0].set_ylabel(label, color=color, fontsize=11, rotation=0, ha="right", va="center")
    n_queries = len(next(iter(dots.values())))
    what = (
        f"{n_keys} keys, the most looked at first: their shares, averaged over {n_queries} queries"
    )
    figure.supxlabel(what, fontsize=10)
    figure.get_layout_engine().set(h_pad=0.08)
    return figure


def changed_outputs(rows, tokens, swapped, *, title: str) -> Figure:
    """Tokens as boxes, filled where the head's output has changed. rows: {label: change [pos]}.

    A change is the largest of an entry of the output. swapped: what the last token was replaced by.
    """
    figure, axis = diagrams.canvas(9.2, 2.5, 12.4)
    at = 3.0 + 2.0 * np.arange(len(tokens))
    diagrams.say(axis, 0.1, 3.12, title, size=12, ha="left")
    diagrams.say(axis, at[-1], 2.6, f"{tokens[-1]} → {swapped}", size=11)
    for y, (label, changes) in zip((1.98, 0.78), rows.items(), strict=True):
        diagrams.say(axis, 1.85, y, label, size=11, ha="right")
        diagrams.say(axis, 1.85, y - 0.47, "an entry changes by", PALE, size=9.5, ha="right")
        for x, word, change in zip(at, tokens, changes.tolist(), strict=True):
            fill, color = ("#F0C26A", INK) if change > 0 else ("white", PALE)
            diagrams.word(axis, x, y, word, color, fill=fill, width=1.6)
            diagrams.say(axis, x, y - 0.47, f"{change:.2g}", size=10)
    return figure


def qk_ov(QK, OV, names, source, asker, share):
    """A head as a pipe with a valve: OV carries the source's row, QK opens the valve by `share`.

    QK, OV: [d_model, d_model], whose rows and columns are called `names`.
    """
    figure, axis = diagrams.canvas(10, 5.1, 14.2)
    pipe, high, left, right, valve = 1.75, 5.1, 1.3, 12.9, 9.35
    axis.plot([left, right], [pipe, pipe], color=VALUE, lw=22, alpha=0.6, zorder=0)
    for x, end, word, color, line in (
        (left, 7.4, source, INK, KEY),
        (right, 11.3, asker, QUERY, QUERY),
    ):
        diagrams.word(axis, x, pipe, word, color, width=1.7)
        axis.plot([x, x, end], [pipe + 0.24, high, high], color=line, lw=2, zorder=1)
    diagrams.say(axis, left + 0.15, high + 0.35, "key: is looked at", KEY, ha="left")
    diagrams.say(axis, right - 0.1, high + 0.35, "query: asks", QUERY)
    for x, y, color, title, product, table in (
        (5.0, pipe, VALUE, "OV says what", "$W_V W_O$", (OV, names, "reads", "writes")),
        (valve, high, SHARE, "QK says where", "$W_Q W_K^T$", (QK, names, "asks", "is asked")),
    ):
        frame = {"fc": "white", "ec": color, "lw": 1.6, "zorder": 4}
        axis.add_patch(Rectangle((x - 1.95, y - 1.6), 3.9, 3.2, **frame))
        _table(axis, x + 0.42, y - 0.47, color, *table)
        diagrams.say(axis, x - 1.95, y + 1.82, title, color, size=12.5, ha="left", weight="bold")
        diagrams.say(axis, x + 1.95, y + 1.82, product, color, size=12, ha="right")
    axis.plot([valve, valve], [high - 1.6, pipe], color=SHARE, lw=2, zorder=1)
    axis.add_patch(Circle((valve, pipe), 0.5, color=SHARE, zorder=5))
    diagrams.say(axis, valve, pipe, f"×{float(share):.2f}", "white")
    return figure


def _table(axis, x, y, color, matrix, names, row_title, column_title, side=0.42):
    """A small matrix around (x, y), non-zero cells filled, with the names of rows and columns."""
    left, top = x - len(names) * side / 2, y + len(names) * side / 2
    for (i, j), value in np.ndenumerate(np.asarray(matrix)):
        box = left + j * side, top - (i + 1) * side
        look = {"fc": color if value else "white", "ec": "#C8C8C8", "lw": 0.8, "zorder": 5}
        axis.add_patch(Rectangle(box, side, side, **look))
        if value:
            diagrams.say(
                axis, box[0] + side / 2, box[1] + side / 2, f"{value:.2g}", "white", size=10
            )
    for i, name in enumerate(names):
        middle = (i + 0.5) * side
        diagrams.say(axis, left - 0.1, top - middle, name, size=9.5, ha="right")
        axis.text(left + middle, top + 0.1, name, size=9.5, rotation=90, ha="center", zorder=6)
    diagrams.say(axis, left - 0.95, y, row_title, PALE, size=9.5, rotation=90, style="italic")
    diagrams.say(axis, x, top + 0.92, column_title, PALE, size=9.5, style="italic")


def _cells(axis, x, y, n, color, numbers=None, alpha=1.0, side=0.4):
    """A vector as n cells in a row around (x, y), with its numbers if there are any."""
    for i in range(n):
        left = x + (i - n / 2) * side
        for look in ({"fc": color, "alpha": 0.16 * alpha}, {"fc": "none", "ec": color}):
            look = {"ec": "none", "lw": 1, "alpha": alpha, "zorder": 2} | look
            axis.add_patch(Rectangle((left, y - side / 2), side, side, **look))
        if numbers is not None:
            diagrams.say(
                axis, left + side / 2, y - 0.01, f"{float(numbers[i]):.2g}", size=10, alpha=alpha
            )


def _river(axis, start, end, color, width):
    """A band that falls from start, turns, and flows to end; width in points."""
    (x0, y0), (x1, y1) = start, end
    turn = min(0.8, abs(x0 - x1))
    points = [(x0, y0), (x0, y1 + turn), (x0, y1), (x0 - turn, y1), (x1, y1)]
    codes = [Path.MOVETO, Path.LINETO, Path.CURVE3, Path.CURVE3, Path.LINETO]
    band = PathPatch(Path(points, codes), fc="none", ec=color, lw=width, alpha=0.6, zorder=0)
    band.set_capstyle("butt")
    axis.add_patch(band)
