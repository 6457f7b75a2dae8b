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


def more_context(
    tokens: list[str], losses: dict[int, Float[Tensor, " last"]], title: str
) -> Figure:
    """The last tokens of a text, shaded by their losses after more and more of the text.

    losses: {how many tokens the model has read before them: their losses}. The tokens before
    them are gray, the darker the more of the rows include them.
    """
    last, most = len(next(iter(losses.values()))), max(losses)
    before = tokens[-most - last : -last]
    grays = [-sum(most - i <= n for n in losses) * 6 / (len(losses) + 1) for i in range(most)]
    rows = {"text before": (before, grays)}
    for n, found in losses.items():
        rows[f"after {n} tokens"] = tokens[-last:], found.tolist()
    reads = ", ".join(map(str, sorted(losses)))
    key = f"gray: the last {reads} tokens before; orange: loss, full color at 6 nats"
    return shaded_texts(rows, title, key=key, below="#777777")


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
    top = max(3.4, 1.3 * max(max(y) for _, y in data.values()))
    figure = lines(
        {"": data}, title, "token index (log scale)", "loss (nats)", colors=COLORS, marker="",
        x_log=True, x_ticks={n: str(n) for n in (2, 4, 8, 16, 32, 64, 127)}, y_range=(0, top),
    )  # fmt: skip
    (axis,) = figure.axes
    axis.set_xlim(1.9, 130)
    for name, mean in means.items():
        axis.plot(range(1, len(mean) + 1), mean, ".", color=COLORS[name], ms=3.5, alpha=0.35)
    for (first, last), name in zip(ranges, ("early", "late"), strict=False):
        axis.axvspan(first, last, color="0.93", zorder=0)
        axis.text(
            np.sqrt(first * last), 0.96 * top, name, color=PALE, ha="center", va="center", size=10
        )
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
