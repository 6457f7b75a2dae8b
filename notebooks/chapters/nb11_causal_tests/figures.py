"""Figures of notebook 11: losses by place, texts token by token, terms that add up, all heads."""

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, VALUE
from aot_helpers.showing.forms import grids, lines, name_points, panels
from aot_helpers.showing.texts import token_rows
from aot_helpers.text.tokenization import Tokenizer

Texts = Int[Tensor, "text pos"]

SIGNED = LinearSegmentedColormap.from_list("signed", [KEY, "white", QUERY])


def loss_by_place(rises: dict[str, dict[str, Float[Tensor, " place"]]], title: str) -> Figure:
    """The rise of the loss at each token of a text written twice: {panel: {head: rises}}.

    Gray is the second copy from its second token on, where the next token can be copied.
    """
    length = len(next(iter(next(iter(rises.values())).values()))) // 2
    data = {
        panel: {head: (range(1, 2 * length + 1), each) for head, each in some.items()}
        for panel, some in rises.items()
    }
    figure = lines(
        data, title, "token of the text", "rise of the loss (nats)", marker="",
        colors={"L0H3": QUERY, "L0H2": KEY}, levels={0: ""}, y_range=(-0.6, 8.4),
        height=2.6,
    )  # fmt: skip
    for axis in figure.axes:
        axis.axvspan(length + 1.5, 2 * length + 0.5, color="0.94", zorder=-1)
        for middle, said in ((length / 2, "first copy"), (1.5 * length + 1, "second copy")):
            axis.text(middle, 7.9, said, color=PALE, ha="center", va="center", size=10)
    return figure


def two_texts(tokenizer: Tokenizer, texts: dict[str, Texts], title: str, most: int = 12) -> Figure:
    """Tokens of second copies, a line for each {label: BOS, then a segment twice}.

    Green are tokens of the first of the texts, blue those of the last. Of many texts the one is
    shown that has the fewest tokens that are not plain letters.
    """
    first, *_, last = texts.values()
    odd = []
    for text in torch.cat([first, last], dim=1):
        words = [token.strip() for token in tokenizer.token_strings(text)]
        odd.append(sum(not (word.isascii() and word.isalpha()) for word in words))
    start = (first.shape[1] - 1) // 2 + 2
    shown = slice(start, start + most)
    lines = {k: tokenizer.token_strings(each[np.argmin(odd), shown]) for k, each in texts.items()}
    own, *_, other = lines.values()
    rows = {}
    for label, line in lines.items():
        pairs = zip(line, own, other, strict=True)
        rows[label] = line, [VALUE if t == a else KEY if t == b else "" for t, a, b in pairs]
    return token_rows(rows, title)


def one_fact(tokenizer: Tokenizer, prompts: dict[str, Texts], title: str) -> Figure:
    """The first text of each kind without its BOS; orange is what differs from the first kind."""
    lines = {kind: tokenizer.token_strings(text[0, 1:]) for kind, text in prompts.items()}
    clean, rows = next(iter(lines.values())), {}
    for kind, line in lines.items():
        rows[kind] = line, [QUERY if a != b else "" for a, b in zip(line, clean, strict=True)]
    return token_rows(rows, title)


def by_head(
    tables: dict[str, dict[str, Float[Tensor, " head"]]],
    names: list[str],
    title: str,
    most: float,
) -> Figure:
    """A number for each head in each way of replacing its output: {panel: {way: [head]}}.

    names: of the heads; what follows the first word stands below it. most: the full color, orange
    above zero and blue below.
    """
    ways = list(next(iter(tables.values())))
    rows = {
        panel: {"": torch.stack(list(each.values())).round(decimals=2) + 0.0}
        for panel, each in tables.items()
    }
    figure = grids(
        rows, title, number=".2f", row_names=ways, column_names="{}", colors=SIGNED,
        limits=(-most, most), cell=(0.85, 0.34),
    )  # fmt: skip
    for axis in figure.axes:
        axis.set_xticks(axis.get_xticks(), [name.replace(" ", "\n", 1) for name in names])
    return figure


def running_total(terms: dict[str, float], title: str, x_label: str, total: str) -> Figure:
    """Terms added one after the other: each bar goes from the sum before a term to that after it.

    The last bar is the sum, under the name `total`.
    """
    figure, axes = panels(1, 1, 8.6, 0.32 * (len(terms) + 1) + 0.7, title=title)
    (axis,) = axes[0]
    ends = np.cumsum(list(terms.values()))
    for y, (term, end) in enumerate(zip(terms.values(), ends, strict=True)):
        color = VALUE if term > 0 else QUERY
        axis.barh(y, term, left=end - term, height=0.6, color=color)
        axis.plot([end, end], [y - 0.3, y + 1.3], color="0.6", lw=1, zorder=0)
    axis.barh(len(terms), ends[-1], height=0.6, color=INK)
    widths = [*terms.values(), ends[-1]]
    for y, (width, end) in enumerate(zip(widths, [*ends, ends[-1]], strict=True)):
        right = max(end, end - width) if y < len(terms) else max(end, 0)
        said = f"{width:+.2f}".replace("-", "−")
        axis.annotate(said, (right, y), (6, 0), textcoords="offset points", va="center", size=10)
    axis.axvline(0, color="0.6", lw=1, ls="--", zorder=0)
    axis.set_yticks(range(len(widths)), [*terms, total])
    axis.set(xlabel=x_label, ylim=(len(terms) + 0.6, -0.6))
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    axis.margins(x=0.1)
    return figure


def losses_by_difference(
    tokens: dict[str, tuple[Float[Tensor, " token"], Float[Tensor, " token"]]], title: str
) -> Figure:
    """The loss as a function of the logit difference, and below it the tokens of each run.

    tokens: {what is ablated: (logit difference, loss)}. On the curve: the means of both.
    """
    figure, axes = panels(
        2, 1, 8.6, 5.0, title=title, sharex=True, height_ratios=(1.35, 1),
        note="dots on the curve: means; bars below: how the tokens of each run are spread over m",
    )  # fmt: skip
    (curve, strips), marks = axes[:, 0], {}
    colors = dict(zip(tokens, ("0.4", KEY, VALUE, QUERY), strict=False))
    every = np.concatenate([np.ravel(m) for m, _ in tokens.values()])
    bins = np.linspace(every.min(), every.max(), 90)
    for y, (name, (m, loss)) in zip(reversed(range(len(tokens))), tokens.items(), strict=True):
        middle, mean_loss = m.mean().item(), loss.mean().item()
        counts, _ = np.histogram(np.ravel(m), bins)
        heights = 0.8 * counts / counts.max()
        strips.bar(bins[:-1], heights, np.diff(bins), y, align="edge", color=colors[name])
        strips.plot([middle, middle], [y, y + 0.85], color="black", lw=1.5)
        curve.scatter(middle, mean_loss, s=40, color=colors[name], edgecolor="black", zorder=3)
        marks[f"{name}: {mean_loss:.2f} nats"] = middle, mean_loss, colors[name]
    x = np.linspace(bins[0] - 0.5, bins[-1] + 2.5, 800)
    curve.scatter(x, np.logaddexp(0, -x), color="0.75", s=4, lw=0, zorder=0)  # no name covers it
    curve.set(ylabel="loss (nats)")
    curve.margins(y=0.15)
    strips.set(xlabel="m: logit of the right token minus that of all others together")
    strips.set_yticks(np.arange(len(tokens)) + 0.3, list(reversed(tokens)))
    strips.tick_params(axis="y", length=0)
    strips.spines["left"].set_visible(False)
    figure.draw_without_rendering()  # so that the places of the points are known
    name_points(curve, marks)
    return figure
