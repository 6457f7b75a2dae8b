"""Figures of notebook 12: a text with more of it in sight, losses by the index of the token."""

import itertools

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import PALE, SHARE
from aot_helpers.showing.forms import lines
from aot_helpers.showing.texts import shaded_texts

COLORS = {  # of the models, in every figure
    "no layers": "0.6",
    "stories-2l": "#137177",
    "fixed-length": "#C78A3B",
    "no-repeats": "#A23B72",
    "without induction heads": SHARE,
    "without two other heads": "#C78A3B",
}
EDGES = [2, 3, 5, 9, 17, 33, 65, 97, 128]  # ranges of the index; the last is that of the score
CONTEXT = -0.9  # the number of a token that only stands before those whose losses are shown


def more_context(
    rows: dict[str, tuple[list[str], Float[Tensor, " last"]]], title: str, letters: int = 84
) -> Figure:
    """A text from farther and farther back; its last tokens are shaded by their losses.

    rows: {label: (tokens in sight, losses of the last of them)}. Lines end at the right, so that
    the last tokens stand one below the other.
    """
    shaded = {}
    for label, (tokens, losses) in rows.items():
        numbers = [CONTEXT] * (len(tokens) - len(losses)) + losses.tolist()
        for line in _lines(tokens, letters):
            pad = " " * (letters - sum(map(len, line)))
            shaded[label] = [pad, *line], [0.0, *numbers[: len(line)]]
            numbers = numbers[len(line) :]
            label = " " * len(shaded)  # of the lines after the first, each its own
    key = "gray: context; orange: loss, full color at 6 nats"
    return shaded_texts(shaded, title, key=key, letters=letters, below="#777777")


def _lines(tokens: list[str], letters: int) -> list[list[str]]:
    """The tokens in lines that break before words; all but the first are full."""
    found, word = [[]], []
    for token in reversed(tokens):
        word.insert(0, token)
        if token.startswith(" ") or len(word) + sum(map(len, found)) == len(tokens):
            if sum(map(len, word + found[0])) > letters:
                found.insert(0, [])
            found[0], word = word + found[0], []
    return found


def by_index(
    curves: dict[str, Float[Tensor, "text index"]],
    title: str,
    ranges: tuple[tuple[int, int], ...] = (),
    score_of: str = "",
) -> Figure:
    """Mean loss by the index of the token (on a log scale, from the second token on).

    curves: {name of COLORS: losses}; a faint dot for each index, a line for means over ranges.
    ranges: the early and the late indices of the in-context score, (first, last) from 1, as gray
    bands; score_of: the curve whose score is drawn as an arrow.
    """
    means = {name: np.asarray(losses.mean(dim=0)) for name, losses in curves.items()}
    borders = list(itertools.pairwise(EDGES))
    middles = [np.sqrt(a * (b - 1)) for a, b in borders]
    data = {
        name: (middles, [mean[a - 1 : b - 1].mean() for a, b in borders])
        for name, mean in means.items()
    }
    figure = lines(
        {"": data}, title, "token index (log scale)", "loss (nats)", colors=COLORS, marker="",
        x_log=True, x_ticks={n: str(n) for n in (2, 4, 8, 16, 32, 64, 127)}, y_range=(0, 3.4),
    )  # fmt: skip
    (axis,) = figure.axes
    axis.set_xlim(1.9, 130)
    for name, mean in means.items():
        axis.plot(range(1, len(mean) + 1), mean, ".", color=COLORS[name], ms=3.5, alpha=0.35)
    for (first, last), name in zip(ranges, ("early", "late"), strict=False):
        axis.axvspan(first, last, color="0.93", zorder=0)
        axis.text(np.sqrt(first * last), 3.27, name, color=PALE, ha="center", va="center", size=10)
    if score_of:
        early, late = (means[score_of][a - 1 : b].mean() for a, b in ranges)
        color, at = COLORS[score_of], np.sqrt(ranges[1][0] * ranges[1][1])
        axis.plot([ranges[0][0], at], [early, early], color=color, lw=1.2, ls=(0, (4, 2)))
        look = {"arrowstyle": "-|>", "color": color, "lw": 2, "shrinkA": 0, "shrinkB": 0}
        axis.annotate("", (at, late), (at, early), arrowprops=look)
        number = f"{late - early:+.2f}".replace("-", "−")
        said = f"in-context score\n{number} nats"
        axis.text(at / 1.07, 1.62, said, color=color, weight="bold", va="center", ha="right")
    return figure
