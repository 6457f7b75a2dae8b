"""Figures of notebook 11: losses by place, a threshold, texts token by token, a saturated loss."""

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, SHARE, VALUE
from aot_helpers.showing.plots import lines, name_points, panels
from aot_helpers.showing.texts import token_rows
from aot_helpers.text.tokenization import Tokenizer

Texts = Int[Tensor, "text pos"]

LOOSE = "#A9A9A9"  # what is no match


def loss_by_place(rises: dict[str, dict[str, Float[Tensor, " place"]]], title: str) -> Figure:
    """The rise of the loss at each token of a text written twice: {panel: {head: rises}}.

    The first token is left out. Gray is the second copy from its second token on, where the next
    token can be copied.
    """
    length = len(next(iter(next(iter(rises.values())).values()))) // 2
    data = {
        panel: {head: (range(2, 2 * length + 1), each[1:]) for head, each in some.items()}
        for panel, some in rises.items()
    }
    figure = lines(
        data,
        title,
        "token of the text",
        "rise of the loss (nats)",
        marker="",
        colors={"L0H3": KEY, "L0H2": QUERY},
        levels={0: ""},
        y_range=(-0.6, 8.4),
        height=2.6,
    )
    for axis in figure.axes:
        axis.axvspan(length + 1.5, 2 * length + 0.5, color="0.94", zorder=-1)
        for middle, said in ((length / 2, "first copy"), (1.5 * length + 1, "second copy")):
            axis.text(middle, 7.9, said, color=PALE, ha="center", va="center", size=10)
    return figure


def histograms(
    rows: dict[str, list[tuple[Float[Tensor, " value"], str]]],
    title: str,
    x_label: str,
    key: dict[str, str] | None = None,
) -> Figure:
    """Histograms one below the other, {row: [(values, color)]}; a line stands at 0."""
    height = 0.8 * len(rows) + 0.6
    figure, axes = panels(
        len(rows), 1, 8.6, height, title=title, key=key, sharex=True, sharey="row"
    )
    every = np.concatenate([np.ravel(values) for parts in rows.values() for values, _ in parts])
    bins = np.linspace(every.min(), every.max(), 60)
    for axis, (name, parts) in zip(axes[:, 0], rows.items(), strict=True):
        for values, color in parts:
            axis.hist(np.ravel(values), bins, color=color, alpha=0.85)
        axis.set_ylabel(name, rotation=0, ha="right", va="center")
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
        axis.axvline(0, color=INK, lw=1)
    axes[-1, 0].set_xlabel(x_label)
    return figure


def lifts(found: dict[str, Float[Tensor, " token"]], title: str) -> Figure:
    """How far the note on each token lifts BOS: {head that writes it: [token]}."""
    most = max(found, key=lambda head: found[head].mean())
    rows = {head: [(x, QUERY if head == most else LOOSE)] for head, x in found.items()}
    label = "what the note on a token adds to the score of BOS, compared with other keys"
    return histograms(rows, title, label)


def leads(rows: dict[str, Float[Tensor, "text query"]], first: int, title: str) -> Figure:
    """By how much the best other key beats BOS, {run: [text, query]}; `first` queries are of the
    first copy, which has no match.
    """
    key = {"■ first copy: nothing to find": PALE, "■ second copy: a true match": SHARE}
    copies = {name: [(x[:, :first], LOOSE), (x[:, first:], SHARE)] for name, x in rows.items()}
    figure = histograms(copies, title, "score of the best other key minus score of BOS", key)
    top = figure.axes[0]
    for x, said, side in (
        (-0.25, "← rests on BOS", "right"),
        (0.25, "attends elsewhere →", "left"),
    ):
        top.text(x, 1.1, said, color=INK, ha=side, size=10, transform=top.get_xaxis_transform())
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


def losses_by_difference(
    tokens: dict[str, tuple[Float[Tensor, " token"], Float[Tensor, " token"]]], title: str
) -> Figure:
    """The loss as a function of the logit difference, and below it the tokens of each run.

    tokens: {what is ablated: (logit difference, loss)}. On the curve: the means of both.
    """
    figure, axes = panels(
        2,
        1,
        8.6,
        5.0,
        title=title,
        sharex=True,
        height_ratios=(1.35, 1),
        note="dots on the curve: means; bars below: how the tokens of each run are spread over m",
    )
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
