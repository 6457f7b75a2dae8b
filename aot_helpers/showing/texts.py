"""Texts whose tokens are filled by a number or a color, or joined by arcs of attention."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from aot_helpers.showing import diagrams
from aot_helpers.showing.diagrams import INK, PALE, SHARE, as_array, as_typed, typed
from aot_helpers.showing.panels import panels, pattern_of, printable, shown

SURPRISE = diagrams.QUERY  # the color of a loss
LETTER = 9.5 * 0.602 / 72  # width of a letter of the monospaced font, in inches
LUMINANCE = 0.2126, 0.7152, 0.0722  # of red, green and blue: how bright each is to the eye


def shaded_texts(rows, title, shade=SURPRISE, most=6.0, key="", letters=84, below=None):
    """Texts one below the other, each token shaded. rows: {label: (tokens, a number for each)}.

    A label may have two lines. Numbers from 0 (white) to `most` (full color). below: the color of
    negative numbers, full at -`most`; white without it.
    """
    lines = {
        label: wrap(tokens, as_array(numbers), letters) for label, (tokens, numbers) in rows.items()
    }
    heights = [max(0.26 * len(row), 0.44) + 0.24 for row in lines.values()]
    top = 0.45 + 0.25 * bool(key)
    height = sum(heights) + top
    longest = max(sum(map(len, tokens)) for row in lines.values() for tokens, _ in row)
    width = max(2.1 + LETTER * longest, 0.11 * len(title) + 0.2, 0.08 * len(key) + 0.2)
    figure, axis = diagrams.canvas(width, height)
    color = INK if below else shade
    diagrams.say(axis, 0.12, height - 0.48, typed(key), color, size=10, ha="left")
    y = height - top
    for (label, row), tall in zip(lines.items(), heights, strict=True):
        for i, part in enumerate(label.split("\n")):
            weight = "bold" if i == 0 else "normal"
            place = y - 0.16 - 0.22 * i
            look = {"size": 10.5, "ha": "right", "weight": weight}
            diagrams.say(axis, 1.75, place, typed(part), PALE if i else INK, **look)
        for i, (tokens, numbers) in enumerate(row):
            strip(axis, 1.95, y - 0.16 - 0.26 * i, tokens, numbers, shade, most, below)
        y -= tall
    return diagrams.headline(figure, title)


def strip(axis, x, y, tokens, numbers, shade=SURPRISE, most=6.0, below=None):
    """One line of monospaced tokens, each on a ground of its number."""
    for token, number in zip(tokens, numbers, strict=True):
        wide = LETTER * len(token)
        share = float(number) / most * (-1 if below and number < 0 else 1)
        color = below if below and number < 0 else shade
        ground = tint(color, 0.85 * round(10 * min(max(share, 0), 1)) / 10)
        axis.add_patch(Rectangle((x, y - 0.115), wide, 0.23, fc=ground, ec="white", lw=0.8))
        look = {"size": 9.5, "family": "monospace", "ha": "left"}
        diagrams.say(axis, x, y - 0.01, typed(printable(token)), **look)
        x += wide


def tint(color, share):
    """The color mixed with white."""
    return tuple(1 - share * (1 - part) for part in to_rgb(color))


def wrap(tokens, numbers, letters):
    """Lines of at most so many letters, as (tokens, numbers)."""
    lines, used = [([], [])], 0
    for token, number in zip(tokens, numbers, strict=True):
        if used + len(token) > letters:
            lines.append(([], []))
            used, token = 0, token.lstrip()
        lines[-1][0].append(token)
        lines[-1][1].append(float(number))
        used += len(token)
    return lines


def _row(tokens: Sequence[str]) -> list[float]:
    """Widths of boxes around the tokens, in inches."""
    return [LETTER * max(len(shown(token)), 1) + 0.1 for token in tokens]


@as_typed
def token_rows(
    rows: Mapping[str, tuple[Sequence[str], Sequence]],
    title: str,
    *,
    shade: str = SHARE,
    most: float = 1.0,
    aligned: bool = True,
    number: str = "",
    gap_at: int | None = None,
    note: str = "",
) -> Figure:
    """Tokens in boxes, a row for each {label: (tokens, fills)}.

    fills: numbers from 0 (white) to `most` (full `shade`), or colors ("": white). A row without
    tokens is a heading. aligned: boxes of one place are equally wide in all rows. number: a format
    such as ".2f", to write numbers below the tokens. gap_at: the place before which a gap is left,
    such as where a second copy begins.
    """
    own = [_row(tokens) for tokens, _ in rows.values()]
    if number:
        own = [[max(wide, 0.42) for wide in row] for row in own]
    places = range(max(map(len, own)))
    common = [max(row[i] for row in own if i < len(row)) for i in places]
    own = [common[: len(row)] if aligned else row for row in own]
    gap, step = 0.22 * (gap_at is not None), 0.54 if number else 0.33
    left = 0.09 * max(len(label) for label, (tokens, _) in rows.items() if len(tokens)) + 0.25
    steps = [step if len(tokens) else 0.3 for tokens, _ in rows.values()]
    width, height = left + max(map(sum, own)) + gap + 0.15, sum(steps) + 0.1
    figure, axes = panels(1, 1, max(width, 5), height, title=title, note=note)
    figure.get_layout_engine().set(w_pad=0, h_pad=0)
    (axis,) = axes[0]
    axis.set(xlim=(-left, max(width, 5) - left), ylim=(height, 0))
    axis.axis("off")
    tops = np.cumsum([0, *steps[:-1]]) + 0.19
    for y, wides, (label, (tokens, fills)) in zip(tops, own, rows.items(), strict=True):
        x = 0.0
        if not len(tokens):
            diagrams.say(axis, x, y, label, weight="bold", ha="left")
            continue
        diagrams.say(axis, -0.1, y, label, size=10, ha="right")
        for i, (token, fill, wide) in enumerate(zip(tokens, fills, wides, strict=True)):
            x += gap * (i == gap_at)
            share = (
                0.35 * bool(fill) if isinstance(fill, str) else np.clip(float(fill) / most, 0, 1)
            )
            face = tint(fill or INK, share) if isinstance(fill, str) else tint(shade, share)
            box = {"fc": face, "ec": "0.85", "lw": 0.7}
            axis.add_patch(Rectangle((x, y - 0.13), wide - 0.03, 0.26, **box))
            color = "white" if np.dot(face, LUMINANCE) < 0.5 else INK
            middle = x + wide / 2 - 0.015
            diagrams.say(axis, middle, y, shown(token), color, size=9.5, family="monospace")
            if number:
                diagrams.say(axis, middle, y + 0.24, f"{float(fill):{number}}", PALE, size=9)
            x += wide
    return figure


@as_typed
def arcs(tokens: Sequence[str], pattern, title: str, *, least: float = 0.08) -> Figure:
    """Attention as arcs from each token to what it looks at, thicker for larger shares.

    pattern: [query_pos, key_pos]. Left out are shares below `least` and those of the token itself.
    """
    note = f"without shares below {least:g} and of the token itself"
    widths = _row(tokens)
    at = np.cumsum(widths) - np.array(widths) / 2
    shares = np.array(pattern_of(pattern, tokens), dtype=float)
    np.fill_diagonal(shares, 0)
    pairs = np.argwhere(shares >= least)
    tall = max([0.3, *(0.25 + 0.3 * abs(at[i] - at[j]) ** 0.7 for i, j in pairs)])
    width = max(sum(widths) + 0.3, 5)
    figure, axes = panels(1, 1, width, tall + 0.5, title=title, note=note)
    figure.get_layout_engine().set(w_pad=0, h_pad=0)
    (axis,) = axes[0]
    axis.set(xlim=(-0.15, width - 0.15), ylim=(0, tall + 0.5))
    axis.axis("off")
    for x, token, wide in zip(at, tokens, widths, strict=True):
        axis.add_patch(Rectangle((x - wide / 2 + 0.01, 0.04), wide - 0.02, 0.26, fc="#F3F3F3"))
        diagrams.say(axis, x, 0.16, shown(token), size=9.5, family="monospace")
    angle = np.linspace(0, np.pi, 40)
    for i, j in pairs:
        way = np.sign(j - i)  # to the left, or in a masked model to the right
        start, end = at[i] + 0.2 * way * widths[i], at[j] - 0.2 * way * widths[j]
        x = (start + end) / 2 + (start - end) / 2 * np.cos(angle)
        y = 0.4 + (0.25 + 0.3 * abs(end - start) ** 0.7) * np.sin(angle) ** 0.7
        look = {"lw": 0.5 + 3 * shares[i, j], "alpha": 0.25 + 0.6 * min(shares[i, j], 1)}
        axis.plot(x, y, color=SHARE, **look)
        axis.plot(end, 0.38, "v", color=SHARE, ms=3 + 4 * shares[i, j], mew=0)
    return figure
