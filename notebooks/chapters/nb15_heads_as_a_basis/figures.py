"""What each head says alone, what the sum of the terms says, and what is lost without a head."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import torch
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.showing import plots
from aot_helpers.showing.panels import TITLE, panels
from chapters.torus.figures import CLASS_COLORS, INK, NAMES, PALE, Painting, letter_color

Facts = Int[Tensor, " pair"]
EMPTY, DARK = "#EFEFEF", "#5F5F5F"


def hoped(facts: Facts, owners: Int[Tensor, " pair"], title: str) -> Figure:
    """The facts of a network, and how three heads would share them out if each kept its own.

    owners: a head for each fact. No network was asked.
    """
    figure, axes = panels(1, 4, 10, 2.7, title=title, figure_class=Painting)
    cards = {"the network": owners >= 0}
    cards |= {f"{'=+'[h > 0]} head {h} (made up)": owners == h for h in range(3)}
    for axis, (name, known) in zip(axes[0], cards.items(), strict=True):
        _card(axis, facts, torch.where(known, facts, -1))
        axis.set_title(name, **TITLE)
        axis.set(xlabel="first word", ylabel="second word")
    return figure


def said(
    whole: Int[Tensor, " pair"],
    heads: Int[Tensor, "head pair"],
    facts: Facts,
    title: str,
    assigned: Sequence[str] = ("", "", ""),
) -> Figure:
    """The word that a network says after each pair, and each head alone; in color where right.

    assigned: to each head, the next words.
    """
    figure, axes = panels(1, 4, 10, 2.7, title=title, figure_class=Painting)
    cards = {"the network": whole}
    for h, (words, its) in enumerate(zip(heads, assigned, strict=True)):
        cards[f"head {h} ({', '.join(its)})" if its else f"head {h} alone"] = words
    for axis, (name, words) in zip(axes[0], cards.items(), strict=True):
        _card(axis, facts, words)
        axis.set_title(f"{name}: {(words == facts).sum()} right", **TITLE)
        axis.set(xlabel="first word", ylabel="second word")
    return figure


def covered(found: Float[Tensor, " net"], chance: Float[Tensor, " net"], title: str) -> Figure:
    """How many facts the heads of each network cover, and how many they would by chance."""
    figure, axes = panels(1, 1, 8.6, 1.9, title=title)
    axis, rows = axes[0, 0], {"by chance": (chance, PALE), "trained heads": (found, INK)}
    draw = torch.Generator().manual_seed(0)
    for y, (values, color) in enumerate(rows.values()):
        shaken = y + 0.44 * (torch.rand(len(values), generator=draw) - 0.5)
        axis.scatter(values, shaken, s=20, color=color, alpha=0.55, lw=0)
        mean = values.mean().item()
        axis.plot([mean, mean], [y - 0.32, y + 0.32], color=color, lw=3)
    axis.axvline(25, color=PALE, lw=1.2, ls="--", zorder=0)
    axis.annotate(
        "all 25, as hoped",
        (25, 1),
        (-5, -2),
        ha="right",
        va="top",
        color=PALE,
        size=10,
        xycoords=axis.get_xaxis_transform(),
        textcoords="offset points",
    )
    axis.set(yticks=range(2), yticklabels=list(rows), ylim=(1.45, -0.7), xlim=(10.5, 25.4))
    axis.set_xlabel("facts covered by three heads (a dot for each network, a bar at the mean)")
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    return figure


def sum_of_terms(
    terms: Float[Tensor, "term word"], title: str, without: Sequence[Sequence[int]] = ()
) -> Figure:
    """The four terms of the logits of one fact, with the word that each says, and their sum.

    without: for each further sum, the heads that are left out of it.
    """
    names = ["residual connection", *(f"head {h}" for h in range(len(terms) - 1)), "their sum"]
    rows = [*terms, terms.sum(dim=0)]
    for heads in without:
        names.append(f"sum without head{'s' * (len(heads) > 1)} {' and '.join(map(str, heads))}")
        rows.append(rows[len(terms)] - sum(terms[1 + h] for h in heads))
    rows = torch.stack(rows)
    says = [f"{name} says {NAMES[row.argmax()]}" for name, row in zip(names, rows, strict=True)]
    top = rows.abs().max().item()
    figure = plots.grids(
        rows,
        title,
        row_names=says,
        column_names=list(NAMES[: rows.shape[1]]),
        number=".1f",
        colors="RdBu",
        limits=(-1.25 * top, 1.25 * top),
        cell=(0.85, 0.42),
        x_label="logit of each next word (blue: raised, red: lowered)",
    )
    axis = figure.axes[0]
    axis.axhline(len(terms), color=INK, lw=2)
    for y, row in enumerate(rows):
        box = Rectangle((row.argmax() + 0.03, y + 0.04), 0.94, 0.92, fill=False, ec=INK, lw=2)
        axis.add_patch(box)
    return figure


def lost(
    rows: Mapping[str, Bool[Tensor, "head pair"]],
    owns: Bool[Tensor, "head pair"],
    facts: Facts,
    title: str,
) -> Figure:
    """The facts that a network loses without each head, one row for each kind of training.

    rows: {kind of training: lost facts}. owns: the facts that are meant to be lost, in color.
    """
    key = {"in color: lost, as hoped": INK, "dark: lost, though it is another head’s fact": DARK}
    figure, axes = panels(
        len(rows), 3, 9.2, 2.25 * len(rows) + 0.3, title=title, key=key, figure_class=Painting
    )
    for line, (name, gone) in zip(axes, rows.items(), strict=True):
        for h, axis in enumerate(line):
            _card(axis, facts, torch.where(gone[h], facts, -1), dark=gone[h] & ~owns[h])
            axis.set_title(f"without head {h}", **TITLE)
        line[0].set_ylabel(
            fill(name, 17), rotation=0, ha="right", va="center", size=11, labelpad=12
        )
    return figure


def _card(axis, facts, words, dark=None):
    """Words as a table, first words to the right and second words up, as on a map of the torus.

    A word is in color where it is right.

    words: one for each pair, -1 where a cell stays empty. dark: where a word stands on dark gray.
    """
    for k, (fact, word) in enumerate(zip(facts.tolist(), words.tolist(), strict=True)):
        column, row = divmod(k, 5)
        known = word == fact
        color, letter = (CLASS_COLORS[fact], letter_color(fact)) if known else (EMPTY, "#8A8A8A")
        if dark is not None and dark[k]:
            color, letter = DARK, "white"
        axis.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fc=color, lw=0))
        if word >= 0:
            axis.text(
                column,
                row - 0.03,
                NAMES[word],
                fontsize=11,
                color=letter,
                ha="center",
                va="center",
                weight="bold" if known else "normal",
            )
    axis.set(xlim=(-0.5, 4.5), ylim=(-0.5, 4.5), aspect="equal")
    axis.set_xticks(range(5), NAMES[:5], size=11)
    axis.set_yticks(range(5), NAMES[:5], size=11)
    axis.tick_params(length=0, pad=2)
    axis.spines[:].set_visible(False)
