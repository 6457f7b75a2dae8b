"""Drawings of notebook 11: strips of losses, what heads say, texts in two voices, all heads."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.showing.diagrams import INK, KEY, PALE, QUERY, VALUE, canvas, headline, say
from aot_helpers.showing.plots import shown
from aot_helpers.showing.texts import tint
from aot_helpers.text.tokenization import Tokenizer

Texts = Int[Tensor, "text pos"]

MOST = 2.5  # nats that have the full color


def loss_strips(rises: dict[str, Float[Tensor, " place"]], title: str) -> Figure:
    """The rise of the loss at each place of a text written twice, a strip for each {label: rises}.

    Over the halves of a strip stands its mean; the first token of the second copy is left out.
    """
    figure, axis = canvas(9.2, 0.95 + 0.72 * len(rises))
    top = 0.95 + 0.72 * len(rises) - 0.62
    length = len(next(iter(rises.values()))) // 2
    wide, half = 0.158, 3.62  # of a cell, of a copy and the room after it
    for i, name in enumerate(("first copy: nobody can know it", "second copy: all can be known")):
        say(axis, 1.75 + half * i, top, name, PALE, ha="left")
    for row, (label, values) in enumerate(rises.items()):
        y = top - 0.62 - 0.72 * row
        say(axis, 1.6, y, label, size=11, ha="right", weight="bold")
        values = np.asarray(values)
        for i, copy in enumerate((values[:length], values[length:])):
            for at, value in enumerate(copy):
                face = tint(QUERY, float(np.clip(value / MOST, 0, 1)))
                corner = (1.75 + half * i + wide * at, y - 0.16)
                axis.add_patch(Rectangle(corner, wide, 0.32, fc=face, ec="0.85", lw=0.7))
            mean = copy[i:].mean()
            text = f"{mean:+.2f} nats a token".replace("-", "−")
            say(axis, 1.75 + half * i, y + 0.28, text, QUERY if mean > 0.3 else PALE, ha="left")
    return headline(figure, title)


def spoken(outputs: dict[str, Float[Tensor, "place d_head"]], title: str) -> Figure:
    """What heads say: a map for each {head: outputs}, places down, the numbers of z across."""
    figure, axes = plt.subplots(1, len(outputs), figsize=(9.2, 2.9))
    figure.subplots_adjust(0.06, 0.1, 0.99, 0.78, wspace=0.16)
    for axis, (name, values) in zip(axes, outputs.items(), strict=True):
        values = np.asarray(values)
        most = np.abs(values).max()
        axis.imshow(values, cmap="PuOr_r", vmin=-most, vmax=most, aspect="auto")
        axis.set_title(name, size=11, loc="left")
        axis.set(xticks=[], yticks=[])
        axis.set_xlabel(f"the {values.shape[1]} numbers of z", size=10)
    axes[0].set_ylabel("places in the text", size=10)
    return headline(figure, title)


def voices(rows: dict[str, tuple[list[str], list[str]]], title: str) -> Figure:
    """Lines of tokens, {label: (tokens, colors)}; a token without a color ("") stays white."""
    letter, gap = 0.0815, 0.09
    n = max(len(tokens) for tokens, _ in rows.values())
    columns = [[row[0][i] for row in rows.values() if i < len(row[0])] for i in range(n)]
    widths = [letter * max(len(shown(token)) for token in column) + gap for column in columns]
    figure, axis = canvas(max(2.3 + sum(widths), 6.2), 0.5 + 0.36 * len(rows))
    for row, (label, (tokens, colors)) in enumerate(rows.items()):
        y, x = 0.36 * (len(rows) - row) - 0.08, 2.15
        say(axis, x - 0.12, y, label, size=10.5, ha="right", weight="bold")
        for token, color, width in zip(tokens, colors, widths, strict=False):
            face = tint(color, 0.35) if color else "white"
            axis.add_patch(Rectangle((x, y - 0.14), width - 0.03, 0.28, fc=face, ec="0.85", lw=0.7))
            say(axis, x + width / 2, y - 0.01, shown(token), size=9.5, family="monospace")
            x += width
    return headline(figure, title)


def two_voices(tokenizer: Tokenizer, texts: dict[str, Texts], title: str, most: int = 12) -> Figure:
    """Tokens of second copies, a line for each {label: BOS, then a segment twice}.

    Green are tokens of the first of the texts, blue those of the last. Of many texts the one is
    shown whose tokens are most readable.
    """
    first, *_, last = texts.values()
    i = most_readable(tokenizer, torch.cat([first, last], dim=1))
    start = (first.shape[1] - 1) // 2 + 2
    lines = {
        label: tokenizer.token_strings(each[i, start : start + most])
        for label, each in texts.items()
    }
    own, *_, other = lines.values()
    rows = {}
    for label, line in lines.items():
        pairs = zip(line, own, other, strict=True)
        rows[label] = (line, [VALUE if t == a else KEY if t == b else "" for t, a, b in pairs])
    return voices(rows, title)


def one_fact(tokenizer: Tokenizer, prompts: dict[str, Texts], title: str) -> Figure:
    """The first text of each kind without its BOS; orange is what differs from the first kind."""
    lines = {kind: tokenizer.token_strings(text[0, 1:]) for kind, text in prompts.items()}
    clean, rows = next(iter(lines.values())), {}
    for kind, line in lines.items():
        rows[kind] = line, [QUERY if a != b else "" for a, b in zip(line, clean, strict=True)]
    return voices(rows, title)


def most_readable(tokenizer: Tokenizer, tokens: Texts) -> int:
    """The number of the text with the fewest tokens that are not plain letters."""

    def odd(text):
        words = (word.strip() for word in tokenizer.token_strings(text))
        return sum(not (word.isascii() and word.isalpha()) for word in words)

    return min(range(len(tokens)), key=lambda i: odd(tokens[i]))


def all_heads(
    rises: dict[str, Float[Tensor, "head copy"]], shares: dict[str, list[float]], title: str
) -> Figure:
    """The model as two rows of heads, once for each way of taking a head out.

    rises: {way: nats of both copies, by head}. shares: {fact: share of the answer moved, by head}.
    """
    ways, n = list(rises), len(rises) + 1
    figure, axes = plt.subplots(2, n, figsize=(2.02 * n + 0.4, 3.5))
    figure.subplots_adjust(0.055, 0.07, 0.995, 0.72, 0.12, 0.62)
    for column, way in enumerate(ways):
        for row, copy in enumerate(("first copy", "second copy")):
            _model(axes[row, column], np.asarray(rises[way])[:, row], MOST, QUERY, copy)
        axes[0, column].text(0, 1.5, way, transform=axes[0, column].transAxes, size=11)
    for row, (fact, values) in enumerate(shares.items()):
        _model(axes[row, -1], np.asarray(values), 1, VALUE, f"“{fact}” moved")
    axes[0, -1].text(0, 1.5, "patched: one fact", transform=axes[0, -1].transAxes, size=11)
    for axis in axes[:, 0]:
        for y, layer in enumerate(("L1", "L0")):
            axis.text(-0.62, y, layer, ha="right", va="center", size=10, color=PALE)
    for axis in axes[1]:
        for head in range(4):
            axis.text(head, 1.72, f"H{head}", ha="center", va="center", size=9, color=PALE)
    return headline(figure, title)


def _model(axis, values, most, color, name):
    """One number for each head, layer 1 above layer 0."""
    grid = values.reshape(2, -1)[::-1]
    axis.imshow(np.zeros_like(grid), cmap="Greys", aspect="auto")
    for (row, column), value in np.ndenumerate(grid):
        share = float(np.clip(value / most, 0, 1))
        face = {"fc": tint(color, share), "ec": "0.8", "lw": 1}
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **face))
        text = f"{value + 0.0:.2f}".replace("-0.00", "0.00").replace("-", "−")
        ink = "white" if share > 0.7 else INK
        axis.text(column, row, text, ha="center", va="center", size=9, color=ink)
    axis.set_title(name, size=10, loc="left", color=PALE, pad=3)
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)


def leads(
    dots: dict[str, tuple[Float[Tensor, " token"], Float[Tensor, " token"]]], title: str
) -> Figure:
    """Tokens as dots, {what is out: (lead of the right token, loss)}, along log(1 + exp(-lead))."""
    figure, axis = plt.subplots(figsize=(8.2, 3.5))
    figure.subplots_adjust(0.075, 0.15, 0.99, 0.87)
    x = np.linspace(-16, 12, 300)
    axis.plot(x, np.logaddexp(0, -x), color="0.8", lw=6, zorder=0)
    colors = (INK, KEY, VALUE, QUERY)
    for i, ((name, (lead, loss)), color) in enumerate(zip(dots.items(), colors, strict=False)):
        lead, loss = np.asarray(lead), np.asarray(loss)
        axis.plot(lead, loss, "o", ms=3, color=color, alpha=0.35, mew=0)
        axis.plot(lead.mean(), loss.mean(), "o", ms=9, color=color, mec="white")
        said = f"{name}: {loss.mean():.2f} nats"
        shift = {"xytext": (9, 9)} if i != 1 else {"xytext": (-9, -12), "ha": "right"}
        place = {"textcoords": "offset points", **shift}
        axis.annotate(said, (lead.mean(), loss.mean()), color=color, weight="bold", **place)
    axis.set(xlim=(-13, 11), ylim=(-0.4, 11))
    axis.set_xlabel("lead of the right token over all others together (logits)")
    axis.set_ylabel("loss (nats)")
    return headline(figure, title)


def over_training(
    rises: dict[str, Float[Tensor, "head step"]],
    steps: list[int],
    heads: list[str],
    title: str,
    label: str,
    most: float,
) -> Figure:
    """What each head is worth at each training step: a map for each {way: rises}."""
    figure, (axes,) = plt.subplots(1, len(rises), figsize=(11.4, 3.1), sharey=True, squeeze=False)
    figure.subplots_adjust(0.05, 0.21, 0.93, 0.77, 0.06)
    for axis, (name, values) in zip(axes, rises.items(), strict=True):
        axis.imshow(np.asarray(values), cmap="RdBu_r", aspect="auto", norm=Normalize(-most, most))
        axis.set_title(name, size=10.5, loc="left")
        axis.set_xticks(
            range(0, len(steps), 3), [f"{s:,}" for s in steps[::3]], size=9, rotation=60
        )
        axis.set_yticks(range(len(heads)), heads, size=9.5)
        axis.axhline(len(heads) / 2 - 0.5, color="0.4", lw=0.8)
    bar = figure.add_axes([0.945, 0.21, 0.012, 0.56])
    figure.colorbar(axes[-1].images[0], cax=bar).set_label(label, size=10)
    return headline(figure, title)
