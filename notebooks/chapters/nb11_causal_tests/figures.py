"""Figures of notebook 11: strips of losses, texts token by token, all heads at once."""

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import KEY, QUERY, VALUE
from aot_helpers.showing.forms import grids, points
from aot_helpers.showing.texts import token_rows
from aot_helpers.text.tokenization import Tokenizer

Texts = Int[Tensor, "text pos"]

MOST = 2.5  # nats that have the full color
ORANGES = LinearSegmentedColormap.from_list("rise", ["white", QUERY])


def loss_strips(rises: dict[str, Float[Tensor, " place"]], title: str) -> Figure:
    """The rise of the loss at each place of a text written twice, a strip for each {label: rises}.

    Beside a strip stand the means of both halves; the first token of the second copy is left out.
    """
    length = len(next(iter(rises.values()))) // 2
    names = []
    for label, values in rises.items():
        first, second = values[:length].mean(), values[length + 1 :].mean()
        names.append(f"{label}: {first:+.2f}, {second:+.2f}".replace("-", "−"))
    table = np.stack([np.asarray(values) for values in rises.values()])
    copies = {
        "first copy: nobody can know it": table[:, :length],
        "second copy: all can be known": table[:, length:],
    }
    return grids(
        {"": copies}, title, row_names=names, limits=(0, MOST), colors=ORANGES, label="nats",
        cell=(0.16, 0.34), note="beside the heads: mean rise in the first and in the second copy",
    )  # fmt: skip


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


def all_heads(
    rises: dict[str, Float[Tensor, "head copy"]], shares: dict[str, list[float]], title: str
) -> Figure:
    """The model as two rows of heads, once for each way of ablating or patching a head.

    rises: {way: nats of both copies, by head}. shares: {fact: share of the answer moved, by head}.
    """
    rows = {
        copy: {way: _layers(values[:, i]) for way, values in rises.items()}
        for i, copy in enumerate(("first copy\n(nats)", "second copy\n(nats)"))
    }
    rows["share\nmoved"] = {
        f"patched: “{fact}”": _layers(torch.tensor(each)) for fact, each in shares.items()
    }
    limits = dict.fromkeys(rows, (0, MOST)) | {"share\nmoved": (0, 1)}
    return grids(
        rows, title, number=".2f", row_names=["L1", "L0"], column_names="H{}", limits=limits,
        colors=ORANGES, cell=(0.45, 0.36),
    )  # fmt: skip


def _layers(values: Float[Tensor, " head"]) -> Float[Tensor, "layer head"]:
    """One number for each head, layer 1 above layer 0; 0 in place of a rounded -0."""
    return values.view(2, -1).flip(0).round(decimals=2) + 0.0


def losses_by_difference(
    tokens: dict[str, tuple[Float[Tensor, " token"], Float[Tensor, " token"]]], title: str
) -> Figure:
    """Tokens as dots, {what is ablated: (logit difference, loss)}, their means, and the curve."""
    groups, means = {}, {}
    for name, (m, loss) in tokens.items():
        groups[f"{name}: {loss.mean():.2f} nats"] = m, loss
        means[name] = m.mean().item(), loss.mean().item()
    groups["means"] = list(zip(*means.values(), strict=True))
    x_label = "m: logit of the right token minus that of all others together"
    figure = points(
        {"": groups}, title, x_label, "loss (nats)", names={"": means},
        colors=dict(zip(groups, ("0.4", KEY, VALUE, QUERY, "black"), strict=False)),
    )  # fmt: skip
    x = np.linspace(*figure.axes[0].get_xlim(), 200)
    figure.axes[0].plot(x, np.logaddexp(0, -x), color="0.85", lw=6, zorder=0)
    return figure
