"""Figures of notebook 17: names on many prompts, a head asleep and awake."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from torch import Tensor

from aot_helpers.showing.diagrams import PALE, QUERY, SHADES
from aot_helpers.showing.plots import TITLE, grids, panels, points, shown

AMBER = "#E69F00"  # beside QUERY, of the same palette


def name_on_prompts(
    rates: Float[Tensor, "noun opening"], nouns: list[str], openings: list[str], title: str
) -> Figure:
    """How many of the seven rows of each prompt attend most to the word named; nouns by rate."""
    order = rates.mean(dim=1).argsort(descending=True).tolist()
    return grids(
        (7 * rates[order]).T.round(),
        title,
        number=".0f",
        least=1,
        limits=(0, 7),
        cell=(0.27, 0.24),
        note="in each cell: how many of the 7 rows attend most to the word named (0 is left out)",
        row_names=[each.replace("{}", "…") for each in openings],
        column_names=[nouns[i] for i in order],
    )


def moved_nouns(tables: Mapping[str, Float[Tensor, "stands_at place"]], title: str) -> Figure:
    """Where each noun stands, and which of four places is attended to."""
    places = ["1st", "2nd", "3rd", "4th"]
    return grids(
        tables,
        title,
        number=".0%",
        row_names=places,
        column_names=places,
        cell=(0.48, 0.4),
        x_label="place attended to",
        y_label="the noun stands at",
    )


def with_and_without_bos(
    among: Float[Tensor, "word seen"],
    pattern: Float[Tensor, "query key"],
    words: list[str],
    title: str,
) -> Figure:
    """One head's map without BOS and with it, on the same axes; each word is one token."""
    left_out = np.full(pattern.shape, np.nan)
    left_out[1:, 1:] = among
    names = ["BOS", *map(shown, words)]
    panels_ = {"BOS left out, as before": left_out, "all of the attention": np.asarray(pattern)}
    return grids(
        panels_,
        title,
        row_names=names,
        column_names=names,
        cell=(0.31, 0.27),
        x_label="token attended to (key)",
        y_label="token that attends (query)",
    )


def change_by_token(
    on_bos: Float[Tensor, " token"],
    change: Float[Tensor, " token"],
    kinds: Mapping[str, Bool[Tensor, " token"]],
    title: str,
) -> Figure:
    """What each token leaves to BOS, and how much its prediction changes without the head.

    kinds: at most two kinds of tokens with colors of their own; all others are gray.
    """
    x, y = np.asarray(on_bos), np.asarray(change)
    masks = {name: np.asarray(mask) for name, mask in kinds.items()}
    masks = {"any other token": ~np.any([*masks.values()], axis=0)} | masks
    return points(
        {name: (x[mask], y[mask]) for name, mask in masks.items()},
        title,
        "attention that the head gives to BOS at this token",
        "change without it (nats)",
        colors=dict(zip(masks, (PALE, QUERY, AMBER), strict=False)),
        width=7.2,
        height=2.9,
    )


def on_a_text(pattern: Float[Tensor, "query key"], tokens: list[str], title: str) -> Figure:
    """One head's whole attention pattern; the rows of line breaks have orange names."""
    names = ["BOS", *map(shown, tokens[1:])]
    figure = grids(
        pattern,
        title,
        row_names=names,
        column_names=names,
        cell=0.185,
        x_label="token attended to (key)",
        y_label="token that attends (query)",
        note="⏎ is a line break, · a space",
    )
    for label in figure.axes[0].get_yticklabels():
        if label.get_text() == "⏎":
            label.set(color=QUERY, weight="bold")
    return figure


def asleep_and_awake(
    asleep: Float[Tensor, "query key"], awake: Float[Tensor, "query key"], title: str
) -> Figure:
    """One head's attention patterns on a prompt and on tokens written twice, equally large."""
    figure, axes = panels(1, 2, 7.6, 3.45, title=title)
    second = (len(awake) + 1) // 2  # where the second copy begins
    rows = {"after This movie is": {0: "BOS"}, "on 32 random tokens, written twice": {0: "BOS"}}
    rows["on 32 random tokens, written twice"] |= {1 + second // 2: "first copy"}
    rows["on 32 random tokens, written twice"] |= {second + second // 2: "second copy"}
    for axis, pattern, (name, ticks) in zip(axes[0], (asleep, awake), rows.items(), strict=True):
        axis.imshow(np.asarray(pattern), cmap=SHADES, vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(name, **TITLE)
        axis.set(xticks=[0], xlabel="token attended to (key)")
        axis.set_xticklabels(["BOS"])
        axis.set_yticks(list(ticks), list(ticks.values()))
        axis.tick_params(length=0)
        axis.spines[:].set(visible=True, color="0.8")
    axes[0, 1].axhline(second - 0.5, color=PALE, lw=0.8, ls=":")
    axes[0, 0].set_ylabel("token that attends (query)")
    return figure
