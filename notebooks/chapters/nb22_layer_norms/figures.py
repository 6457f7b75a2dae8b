"""Drawings of notebook 22: a norm step by step, words before and after it."""

from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from aot_helpers.showing.diagrams import INK, PALE, SHARE
from aot_helpers.showing.panels import spread
from aot_helpers.showing.plots import SMALL, TITLE, panels, shown


def learned(norms: Mapping[str, nn.Module], title: str) -> Figure:
    """Every gain (less 1) and bias of some norms, {name: norm}, one row each."""
    tables = {
        "gain − 1": torch.stack([norm.weight.detach() - 1 for norm in norms.values()]),
        "bias": torch.stack([norm.bias.detach() for norm in norms.values()]),
    }
    figure, axes = panels(1, 2, 9.6, 2.5, title=title, sharey=True)
    for axis, (name, table) in zip(axes[0], tables.items(), strict=True):
        image = axis.imshow(
            table.numpy(), cmap="PuOr", vmin=-1, vmax=1, aspect="auto", interpolation="nearest"
        )
        axis.set_title(name, **TITLE)
        axis.set(xlabel=f"entry of the stream (0 to {table.shape[1] - 1})")
        axis.tick_params(length=0)
    axes[0, 0].set_yticks(range(len(norms)), list(norms))
    figure.colorbar(image, ax=axes, aspect=20, fraction=0.03, extend="both")
    return figure


def steps(rows: Mapping[str, Mapping[str, Sequence[float]]], title: str) -> Figure:
    """The entries of vectors after each step, as bars: {vector: {step: entries}}; purple: alike."""
    first = next(iter(rows.values()))
    kinds = [torch.tensor([list(map(float, row[step])) for row in rows.values()]) for step in first]
    alike = [bool((each - each[:1]).abs().max() < 1e-4) for each in kinds]
    n_steps = len(next(iter(rows.values())))
    figure, axes = panels(len(rows), n_steps, 8.8, 1.5 * len(rows), title=title, sharey=True)
    for at, (name, found) in enumerate(rows.items()):
        for axis, same, (step, entries) in zip(axes[at], alike, found.items(), strict=True):
            bars = axis.bar(range(len(entries)), entries, color=SHARE if same else PALE)
            axis.bar_label(bars, fmt="{:.2g}", size=SMALL, padding=1)
            axis.axhline(0, color=INK, lw=0.8)
            axis.set_xticks([])
            axis.margins(y=0.2)
            if at == 0:
                axis.set_title(step, **TITLE)
        axes[at, 0].set_ylabel(f"entries of {name}")
    return figure


def growth(own: Mapping[str, Tensor], constant: Mapping[str, Tensor], title: str) -> Figure:
    """The median length of the stream before each norm, {norm: sigma [text, pos]}, BOS apart."""
    figure, axes = panels(1, 1, 8.2, 3.3, title=title)
    axis, places = axes[0, 0], range(len(own))
    looks = (("by a constant", constant, "-"), ("by its own σ", own, "--"))
    for way, lengths, dash in looks:
        each = {
            "BOS": [sigma[:, 0].median().item() for sigma in lengths.values()],
            "other tokens": [sigma[:, 1:].median().item() for sigma in lengths.values()],
        }
        for name, color in (("BOS", SHARE), ("other tokens", PALE)):
            axis.plot(places, each[name], dash, color=color, marker="o", ms=4, lw=2)
            if name == "BOS" or dash == "-":
                label = f"BOS, divided {way}" if name == "BOS" else "other tokens, either way"
                end = len(own) - 1, each[name][-1]
                look = {"fontsize": 10, "weight": "bold", "color": color, "va": "center"}
                axis.annotate(label, end, (8, 0), textcoords="offset points", **look)
    names = [name.replace("layer ", "L").replace(" ", "\n") for name in own]
    axis.set_xticks(list(places), names)
    axis.set(xlabel="norm", ylabel="σ of the stream\nbefore the norm", xlim=(-0.3, len(own) + 1.9))
    return figure


def by_length(length: Tensor, added: Tensor, title: str, n_bins: int = 24) -> Figure:
    """What tokens lose, against the σ of their streams [token]: a dot each, and means of bins."""
    figure, axes = panels(1, 1, 8.2, 3.3, title=title)
    axis = axes[0, 0]
    axis.scatter(length, added, s=5, color=PALE, alpha=0.3, lw=0)
    logs = length.log()
    edges = torch.linspace(logs.min().item(), logs.max().item(), n_bins + 1)
    bins = torch.bucketize(logs, edges[1:-1])
    some = [i for i in range(n_bins) if (bins == i).sum() >= 3]
    means = [added[bins == i].mean().item() for i in some]
    axis.plot([length[bins == i].median().item() for i in some], means, "o-", color=SHARE, lw=2.5)
    axis.axhline(0, color="0.6", lw=1, zorder=0)
    middle = length.median().item()
    axis.axvline(middle, color="0.6", lw=1, ls="--", zorder=0)
    look = {"fontsize": 10, "color": "0.35"}
    axis.annotate(
        " half of the tokens are shorter",
        (middle, 0.93),
        va="top",
        xycoords=("data", "axes fraction"),
        **look,
    )
    axis.set_xscale("log")
    ticks = [each for each in (5, 10, 20, 50, 100) if length.min() <= each <= length.max()]
    axis.set_xticks(ticks, [str(each) for each in ticks])
    axis.minorticks_off()
    axis.set(
        xlabel="σ of a token's stream before the final norm, undisturbed",
        ylabel="loss that the constants add",
    )
    return figure


def words_moved(moved: Mapping[str, pd.DataFrame], title: str) -> Figure:
    """Mean probabilities before and after a norm: {panel: token, before, after, function word}.

    The names stand where the lines begin, so that two figures of one `before` have one order.
    """
    note = "purple: function words; gray: other tokens"
    figure, axes = panels(1, len(moved), 8.6, 3.6, title=title, note=note, sharey=True)
    for axis, (panel, rows) in zip(axes[0], moved.items(), strict=True):
        for _, before, after, function in rows.itertuples(index=False):
            axis.plot(
                (0, 1), (before, after), color=SHARE if function else PALE, marker="o", ms=4, lw=2
            )
        axis.set(yscale="log", xlim=(-0.55, 1.08))
        axis.margins(y=0.2)
        axis.set_xticks((0, 1), ("before", "after"))
        axis.set_title(panel, **TITLE)
    axes[0, 0].set_ylabel("mean probability")
    figure.draw_without_rendering()  # so that heights are known
    for axis, rows in zip(axes[0], moved.values(), strict=True):
        at = [axis.transData.transform((0, p))[1] * 72 / figure.dpi for p in rows["before"]]
        for (token, before, _, function), here, there in zip(
            rows.itertuples(index=False), at, spread(at, 12.5), strict=True
        ):
            axis.annotate(
                shown(token) if token.strip("_") else "underscore",  # else a mere line
                (0, before),
                (-22, there - here),
                textcoords="offset points",
                ha="right",
                va="center",
                size=9.5,
                color=SHARE if function else PALE,
                weight="bold" if function else "normal",
                arrowprops={"arrowstyle": "-", "color": "0.75", "lw": 0.7, "shrinkA": 1},
            )
    return figure
