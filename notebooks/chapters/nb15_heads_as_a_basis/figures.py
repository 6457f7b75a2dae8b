"""What each head knows alone, and what chance would give."""

from collections.abc import Mapping
from textwrap import fill

import torch
from jaxtyping import Bool, Float, Int
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from aot_helpers.showing import forms
from chapters.torus import networks as torus
from chapters.torus.networks import TorusNets
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    Painting,
    letter_color,
    painted,
    predictor,
)
from chapters.torus.torus_maps import show_facts, show_map

Facts = Int[Tensor, " pair"]
OTHER = "#D55E00"  # of heads asked for the facts of another network


def hoped(facts: Facts, owners: Int[Tensor, " pair"], title: str) -> Figure:
    """The facts of a network, and how three heads would share them out if each kept its own.

    owners: a head for each fact. No network was asked.
    """
    figure, axes = forms.panels(1, 4, 10, 2.7, title=title, figure_class=Painting)
    cards = {"the network": owners >= 0}
    cards |= {f"{'=+'[h > 0]} head {h} (made up)": owners == h for h in range(3)}
    for axis, (name, known) in zip(axes[0], cards.items(), strict=True):
        _card(axis, facts, known, NAMES[:5])
        axis.set_title(name, **forms.TITLE)
        axis.set(xlabel="second word", ylabel="first word")
    return figure


def alone(net: TorusNets, facts: Facts, title: str) -> Figure:
    """The map of a network, and what each head answers alone, without the residual connection.

    A large dot with its letter: a fact that is known; a small one: it is not.
    """
    figure, axes = forms.panels(1, 4, 10, 3.0, title=title, figure_class=Painting)
    predictors = {"all terms": predictor(net)}
    predictors |= {f"head {h} alone": predictor(net, torch.eye(3)[h], False) for h in range(3)}
    theta = torus.angles(net)[0]
    for axis, (name, predict) in zip(axes[0], predictors.items(), strict=True):
        known = predict(theta[:, None], theta[None]).argmax(dim=-1).flatten() == facts
        show_map(axis, painted(predict, cells=260), theta, on_grid=False)
        show_facts(axis, theta, facts, known)
        axis.set_title(f"{name}: {known.sum()} of {len(facts)}", **forms.TITLE)
        axis.set_ylabel("second word" if axis is axes[0, 0] else "")
    return figure


def permutation_null(draws: Int[Tensor, " draw"], found: int, chance: float, title: str) -> Figure:
    """How often random sets cover so many facts, and how many the heads cover.

    draws: the facts covered in each permutation. chance: the mean that is expected of them.
    """
    key = {"▮ permutations of the same three heads": "#A0A0A0", f"¦ chance: {chance:.1f}": PALE}
    key[f"| the three heads: {found}"] = CLASS_COLORS[0]
    figure, axes = forms.panels(1, 1, 8.4, 2.4, title=title, key=key, figure_class=Painting)
    axis, fewest = axes[0, 0], int(min(draws)) - 1
    counts = torch.bincount(draws, minlength=26) / len(draws)
    axis.bar(range(26), counts.numpy(), width=0.82, color="#C8C8C8")
    axis.axvline(chance, color=PALE, lw=1.4, ls="--")
    axis.axvline(found, color=CLASS_COLORS[0], lw=2.6)
    axis.set(xlim=(fewest - 0.6, 25.6), xticks=range(fewest, 26), ylabel="share of draws")
    axis.set_xlabel("facts covered, of 25")
    return figure


def coverage(
    found: Mapping[str, tuple[Float[Tensor, " net"], forms.Interval]], title: str
) -> Figure:
    """Chance-corrected coverage: a dot for each network, and all together with an interval.

    found: {what is asked for: (of each network, of all)}.
    """
    rows = {
        name: {"one network": each, "all 50, 95 %": mean} for name, (each, mean) in found.items()
    }
    return forms.dots(
        {"": rows}, title, "chance-corrected coverage", apart=True,
        colors={"one network": "#9A9A9A", "all 50, 95 %": INK},
        levels={0: "chance", 1: "all facts"},
        note="Upper row: a dot for each network, a bar at their median. "
        "Below: all 50, a ratio of means.",
    )  # fmt: skip


def knowledge(
    rows: Mapping[str, tuple[Bool[Tensor, "head pair"], forms.Interval, forms.Interval]],
    facts: Facts,
    title: str,
) -> Figure:
    """Which facts each head knows alone, one row a network, and the coverage of 50 such networks.

    rows: {kind of network: (known, chance-corrected coverage, the same asked for other facts)}.
    """
    figure, axes = forms.panels(
        len(rows), 4, 10, 1.45 * len(rows) + 0.4, title=title, width_ratios=(1, 1, 1, 2.6),
        key={"● own facts": INK, "● other facts": OTHER}, figure_class=Painting,
        note="Tables: one network of each kind. Right: 50 of each, with 95 % intervals.",
    )  # fmt: skip
    scale = figure.add_subplot(axes[0, 0].get_gridspec()[:, 3])
    for axis in axes[:, 3]:
        axis.remove()
    for row, (cards, (name, (known, *scores))) in enumerate(zip(axes, rows.items(), strict=True)):
        for h, axis in enumerate(cards[:3]):
            _card(axis, facts, known[h], NAMES[:5], size=9)
            axis.set_title("" if row else f"head {h}", **forms.TITLE)
        said = fill(name, 18) + f"\n({known.any(dim=0).sum()} of {len(facts)} covered)"
        cards[0].set_ylabel(said, rotation=0, ha="right", va="center", size=10.5)
        for down, score, color in zip((-0.1, 0.15), scores, (INK, OTHER), strict=True):
            _interval(scale, row + down, score, color)
    scale.set(xlim=(-0.13, 1.09), ylim=(len(rows) - 0.5, -0.5), yticks=[])
    for x, name in ((0, "chance"), (1, "all facts covered")):
        scale.axvline(x, color=PALE, lw=1.2, ls="-" if x else "--", zorder=0)
        scale.annotate(name, (x, 1), (0, 3), xycoords=scale.get_xaxis_transform(), color=PALE,
                       textcoords="offset points", ha="right" if x else "left")  # fmt: skip
    scale.set_xlabel("chance-corrected coverage")
    scale.spines[["top", "left", "right"]].set_visible(False)
    return figure


def _interval(axis, y, score, color):
    axis.plot([score.low, score.high], [y, y], color=color, lw=2)
    axis.scatter(score.value, y, s=50, color=color)
    axis.text(score.high + 0.025, y, f"{round(score.value, 2) + 0:.2f}", color=color, va="center")


def _card(axis, facts, known, names, size: float = 11):
    """The facts as a table, first words down and second words across; in color where known.

    names: of the words, along the edges. size: of the letters in the cells of known facts.
    """
    for k, (fact, is_known) in enumerate(zip(facts.tolist(), known, strict=True)):
        row, column = divmod(k, 5)
        color = CLASS_COLORS[fact] if is_known else "#EFEFEF"
        axis.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fc=color, lw=0))
        if is_known:
            axis.text(column, row + 0.03, NAMES[fact], fontsize=size, color=letter_color(fact),
                      ha="center", va="center", weight="bold")  # fmt: skip
    axis.set(xlim=(-0.5, 4.5), ylim=(4.5, -0.5), aspect="equal")
    axis.set_xticks(range(len(names)), names, size=size)
    axis.set_yticks(range(len(names)), names, size=size)
    axis.tick_params(length=0, pad=2)
    axis.spines[:].set_visible(False)
