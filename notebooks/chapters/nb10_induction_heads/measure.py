"""Notebook 10: the steps of induction, the wires between two heads, two places to look at."""

import matplotlib.pyplot as plt
import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.models.protocol import Head, Model, all_heads
from aot_helpers.reading.circuits import qk_circuit
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.interventions import cut_path
from aot_helpers.reading.paths import check_additive
from aot_helpers.showing.diagrams import DPI, INK, KEY, PALE, QUERY, SHADES, SHARE, VALUE

ROUTES = "QKV"


def wires(
    model: Model, tokens: Int[Tensor, "batch pos"], reader: Head
) -> Float[Tensor, "writer route"]:
    """The share of a reader's induction score that is lost without one wire into it.

    A wire is what one head of the layer before wrote, as read by the reader's query, key or value
    (framework paper, "Three Kinds of Composition"); its mean is put in its place. tokens: a
    segment twice, after BOS.
    """
    whole = edited_score(model, tokens, reader, {})
    lost = torch.zeros(model.config.n_heads, len(ROUTES))
    for head in range(model.config.n_heads):
        for i, route in enumerate(ROUTES):
            writer = Head(reader.layer - 1, head)
            edits = cut_path(model, tokens, writer, reader, route, replace="mean")
            left = edited_score(model, tokens, reader, edits)
            lost[head, i] = 1 - left / whole
    return lost


def edited_score(model: Model, tokens: Int[Tensor, "batch pos"], head: Head, edits) -> float:
    """A head's induction score while activations are edited."""
    with torch.no_grad():
        pattern = model.run_with_cache(tokens, edits=edits)[1][f"L{head.layer}.pattern"]
    length = (tokens.shape[1] - 1) // 2
    query = torch.arange(length + 1, 2 * length + 1)
    return pattern[:, head.head, query, query - length + 1].mean().item()


def two_places(
    d_vocab: int, n: int, bos: int = 0
) -> tuple[Int[Tensor, "text pos"], Bool[Tensor, "text pos"], Bool[Tensor, "text pos"]]:
    """Texts "… x A b … y A c … x A" of different random tokens, and where b and c stand.

    Half of the texts have the two places in the other order.
    """
    draws = torch.stack([torch.randperm(d_vocab - 1)[:23] for _ in range(n)])
    draws = (1 + bos + draws) % d_vocab  # any token but BOS
    x, y, A, b, c = draws[:, :5].split(1, dim=1)
    gaps = draws[:, 5:].split(6, dim=1)
    both, one = torch.cat([x, A, b], dim=1), torch.cat([y, A, c], dim=1)
    swap = (torch.arange(n) % 2 == 1)[:, None]
    first, second = torch.where(swap, one, both), torch.where(swap, both, one)
    start = torch.full((n, 1), bos)
    tokens = torch.cat([start, gaps[0], first, gaps[1], second, gaps[2], x, A], dim=1)
    return tokens, tokens == b, tokens == c


def chosen(model: Model, heads: list[int], text: tuple, edits=None) -> Float[Tensor, "head 3"]:
    """Attention of the last query of layer 1 to b, to c (see `two_places`) and to BOS."""
    tokens, *places = text
    with torch.no_grad():
        last = model.run_with_cache(tokens, edits=edits)[1]["L1.pattern"][:, heads, -1]
    at = [(last * place[:, None]).sum(dim=-1).mean(dim=0) for place in places]
    return torch.stack([*at, last[..., 0].mean(dim=0)], dim=1)


def tint(color):
    """Colors from white to the given one."""
    return LinearSegmentedColormap.from_list("tint", ["white", color])


def three_steps(title: str, note=None, match=None, copy=None) -> Figure:
    """Induction in three steps, each a small map; what is not known yet is left open.

    note: where the earlier head looks, [query, key]. match: how well a token's query fits a key
    before which each token stood, [token, token before]. copy: what a token raises when it is
    looked at, [token looked at, token raised].
    """
    steps = {
        "1  leave a note": (
            "row looks at column: one back,\nand writes who stood there",
            note,
            SHADES,
            SHARE,
        ),
        "2  find the note": (
            "row: I am A (query)\ncolumn: before me stood A (key)",
            match,
            tint(KEY),
            QUERY,
        ),
        "3  say what stands there": (
            "row: token looked at\ncolumn: token raised",
            copy,
            tint(VALUE),
            VALUE,
        ),
    }
    figure, axes = plt.subplots(1, 3, figsize=(9.4, 3.5), dpi=DPI)
    plt.close(figure)
    figure.subplots_adjust(0.02, 0.2, 0.98, 0.76, wspace=0.42)
    figure.text(0.012, 0.94, title, size=12, weight="bold", va="center")
    for axis, (name, (said, values, colors, color)) in zip(axes, steps.items(), strict=True):
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set(visible=True, color="0.75")
        axis.set_title(name, size=11, color=color, weight="bold")
        axis.set_xlabel(said, size=10, color=INK)
        if values is None:
            axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
            axis.text(0.5, 0.5, "?", size=40, color="0.8", ha="center", va="center")
        else:
            values = np.asarray(values).clip(min=0)
            axis.imshow(values / values.max(), cmap=colors, vmin=0, vmax=1)
    for left, right in ((0.318, 0.352), (0.658, 0.692)):
        arrow = {"arrowstyle": "-|>", "lw": 2, "color": PALE}
        place = {"xycoords": "figure fraction", "textcoords": "figure fraction"}
        axes[0].annotate("", (right, 0.48), (left, 0.48), arrowprops=arrow, **place)
    return figure


def stripes(panels: dict[str, Float[Tensor, "query key"]], title: str) -> Figure:
    """Attention patterns side by side, with a title each."""
    figure, axes = plt.subplots(1, len(panels), figsize=(2.6 * len(panels) + 0.4, 3.2), dpi=DPI)
    plt.close(figure)
    figure.subplots_adjust(0.01, 0.02, 0.99, 0.78, wspace=0.08)
    figure.text(0.012, 0.94, title, size=12, weight="bold", va="center")
    for axis, (name, pattern) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        axis.imshow(np.asarray(pattern), cmap=SHADES, vmin=0, vmax=1)
        axis.set(xticks=[], yticks=[])
        axis.set_title(name, size=10.5, loc="left")
        axis.spines[:].set(visible=True, color="0.8")
    return figure


def wire_map(lost: Float[Tensor, "writer route"], writers: list[str], title: str) -> Figure:
    """The twelve wires into a head: a row for each writer, a column for query, key and value."""
    figure, axis = plt.subplots(figsize=(4.9, 2.9), dpi=DPI)
    plt.close(figure)
    figure.subplots_adjust(0.16, 0.04, 0.98, 0.7)
    figure.text(0.012, 0.93, title, size=12, weight="bold", va="center")
    values = np.asarray(lost)
    axis.imshow(values.clip(min=0), cmap=SHADES, vmin=0, vmax=1, aspect="auto")
    axis.set_yticks(range(len(writers)), writers, size=10.5)
    axis.set_xticks(range(3), ["read by query", "by key", "by value"], size=10.5)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    for (row, column), value in np.ndenumerate(values):
        color = "white" if value > 0.55 else INK
        axis.text(column, row, f"{value:.2f}", ha="center", va="center", size=11, color=color)
    return figure


def score_terms(
    model: Model, tokens: Int[Tensor, "batch pos"], head: Head
) -> dict[tuple[str, str], Float[Tensor, "batch query key"]]:
    """A head's scores as a sum over (what the query came from, what the key came from).

    The components are "embed", "position" (W_pos, if any) and the heads of earlier layers, "L0H0"
    …; b_rel is ("position", "position"). The terms add up to the scores before the mask. Framework
    paper, "Path Expansion of Attention Scores". Raises ValueError for models with layer norm, MLPs
    or smeared keys and for a head that does not exist.
    """
    check_additive(model)
    if model.config.smeared_keys:
        raise ValueError(
            "smeared_keys = True: keys come from two positions each, so that no terms add up to "
            "the scores of this model: take one with smeared_keys=False"
        )
    qk = qk_circuit(model, head)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        n_batch, n_pos = tokens.shape
        parts = {"embed": cache["embed"]}
        if hasattr(model, "W_pos"):
            parts["position"] = model.W_pos[:n_pos].expand(n_batch, -1, -1)
        for writer in all_heads(model)[: head.layer * model.config.n_heads]:
            parts[str(writer)] = head_output(model, cache, writer)
        terms = {
            (query, key): (x @ qk.A) @ (y @ qk.B.T).transpose(1, 2)
            for query, x in parts.items()
            for key, y in parts.items()
        }
        if model.config.positions == "relative":
            bias = model.blocks[head.layer].attn.relative_bias(n_pos)[head.head]
            terms["position", "position"] = bias.expand(n_batch, -1, -1)
    return terms
