"""Figures of notebook 12: losses by the index of the token, and texts shaded by three models."""

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from torch import Tensor

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Model
from aot_helpers.showing.diagrams import INK, PALE
from aot_helpers.showing.plots import grids, lines
from aot_helpers.showing.texts import shaded_texts
from chapters.nb12_in_context_learning.measure import Texts

COLORS = {  # of the models, in every figure
    "no layers": "0.6",
    "stories-2l": "#137177",
    "without its two\ninduction heads": "#137177",
    "fixed-length": "#C78A3B",
    "no-repeats": "#A23B72",
}
KIND = {"an invented name": "#8C6D1F", "three words": INK}  # of what the friend is called
EDGES = [2, 3, 5, 9, 17, 33, 65, 97, 128]  # ranges of the index; the last is that of the score
INDEX = {n: str(n) for n in (2, 4, 8, 16, 32, 64, 127)}  # ticks


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


def means_over_ranges(losses: Float[Tensor, "text index"]) -> tuple[list[float], list[float]]:
    """Where ranges of the index lie on a log scale, and the mean loss in each."""
    mean, borders = np.asarray(losses.mean(dim=0)), list(itertools.pairwise(EDGES))
    return [np.sqrt(a * (b - 1)) for a, b in borders], [
        mean[a - 1 : b - 1].mean() for a, b in borders
    ]


def by_index(
    curves: dict[str, Float[Tensor, "text index"]],
    title: str,
    ranges: tuple[tuple[int, int], ...] = (),
    score_of: str = "",
    crowd: Sequence[Float[Tensor, "text index"]] = (),
    crowd_name: str = "",
) -> Figure:
    """Mean loss by the index of the token (on a log scale, from the second token on).

    curves: {name of COLORS: losses}; a faint dot for each index, a line for means over ranges;
    what is without something is dashed, without dots.
    ranges: the early and the late indices of the in-context score, (first, last) from 1, as gray
    bands; score_of: the curve whose score is drawn as an arrow. crowd: losses drawn as thin gray
    lines, which share a name.
    """
    means = {name: np.asarray(losses.mean(dim=0)) for name, losses in curves.items()}
    data = {name: means_over_ranges(losses) for name, losses in curves.items()}
    top = max(3.4, 1.3 * max(max(y) for _, y in data.values()))
    styles = {name: "--" for name in curves if name.startswith("without")}
    if crowd:
        at, each = zip(*map(means_over_ranges, crowd), strict=True)
        data = {crowd_name: (at[0], np.array(each))} | data
    figure = lines(
        data,
        title,
        "token index (log scale)",
        "loss (nats)",
        colors=COLORS | {crowd_name: PALE},
        marker="",
        runs=True,
        styles=styles,
        x_log=True,
        x_ticks=INDEX,
        x_range=(1.9, 130),
        y_range=(0, top),
    )
    (axis,) = figure.axes
    for name, mean in means.items():
        if name not in styles:
            axis.plot(range(1, len(mean) + 1), mean, ".", color=COLORS[name], ms=3.5, alpha=0.35)
    shade_ranges(axis, ranges, top)
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


def shade_ranges(axis, ranges: tuple[tuple[int, int], ...], top: float) -> None:
    """The early and the late indices of the score as gray bands."""
    for (first, last), name in zip(ranges, ("early", "late"), strict=False):
        axis.axvspan(first, last, color="0.93", zorder=0)
        look = {"color": PALE, "ha": "center", "va": "center", "size": 10}
        axis.text(np.sqrt(first * last), 0.96 * top, name, **look)


def alike_and_unlike(
    losses: dict[str, Float[Tensor, "text index"]],
    copied: dict[str, dict[int, float]],
    ranges: tuple[tuple[int, int], ...],
    title: str,
) -> Figure:
    """Models on stories, by the index of the token, beside the same models on random tokens.

    copied: {model: {length of the segment: share of its second copy that is predicted right}}.
    """
    data = {
        "on stories": {name: means_over_ranges(each) for name, each in losses.items()},
        "on random tokens, written twice": {
            name: (list(each), list(each.values())) for name, each in copied.items()
        },
    }
    figure = lines(data, title, "", "", colors=COLORS, shared=False, height=2.9)
    stories, random_tokens = figure.axes
    stories.set(xlabel="token index (log scale)", ylabel="loss (nats)", xscale="log", ylim=(0, 3.4))
    stories.set_xticks(list(INDEX), list(INDEX.values()))
    stories.set_xticks([], minor=True)
    stories.set_xlim(1.9, 130)
    shade_ranges(stories, ranges, 3.4)
    random_tokens.set(xlabel="length of the segment (tokens)", ylabel="copied", ylim=(-0.03, 1.06))
    random_tokens.set_xticks([8, 16, 24, 32, 40, 50, 63])
    random_tokens.yaxis.set_major_formatter(PercentFormatter(1))
    return figure


def stripes(
    maps: dict[str, Float[Tensor, "query key"]], said: dict[int, str], title: str
) -> Figure:
    """Attention maps, with what the stripe at each distance back is.

    said: {distance: words}. They stand beside the stripes of a map that have at least 0.2 of the
    attention in the mean, joined to them by a line.
    """
    labels = {"x_label": "key (the first is BOS)", "y_label": "query"}
    figure = grids(maps, title, cell=0.035, limits=(0, 0.6), **labels)
    look = {"size": 10, "ha": "center", "va": "center", "arrowprops": {"arrowstyle": "-", "lw": 1}}
    for axis, each in zip(figure.axes, maps.values(), strict=True):
        size = len(each)
        for back, words in said.items():
            stripe = each.diagonal(-back)
            if stripe.mean() >= 0.2:
                at = len(stripe) // 3
                axis.annotate(words, (at + 0.5, at + back + 0.5), (0.7 * size, 0.27 * size), **look)
    return figure


@torch.no_grad()
def excerpt(text: Texts, models: dict[str, Model], begin: int, title: str) -> Figure:
    """The rest of a text from a token on, shaded by its losses, a row a model; what came before."""
    (ends,) = (text[1:] == text[0]).nonzero(as_tuple=True)  # filled up with BOS
    end = int(ends[0]) + 1 if len(ends) else len(text)
    strings = next(iter(models.values())).tokenizer.token_strings(text[:end])
    rows = {"read before": (strings[1:begin], [-1.2] * (begin - 1))}
    for name, model in models.items():
        losses = next_token_losses(model(text[None]), text[None])[0]
        rows[name] = strings[begin:], losses[begin - 1 : end - 1].tolist()
    key = "orange: loss, full color at 6 nats"
    return shaded_texts(rows, title, key=key, letters=88, below="#777777")
