"""What each head knows alone, mixtures of heads, and chance."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from matplotlib.colors import LinearSegmentedColormap
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
    show_small,
)
from chapters.torus.torus_maps import show_facts, show_map

Facts = Int[Tensor, " pair"]
TALL = np.sqrt(3) / 2  # height of a triangle of width 1
READINGS = {  # of S2's four patterns
    "one corner": "One head alone suffices.\nS2: it is responsible\nfor these facts.",
    "two corners": "Either of two heads suffices.\nS2: one head is useless.",
    "between": "Two heads together suffice,\nno head alone. S2: both\nremember these facts.",
    "none": "No head suffices,\nnor do two in equal parts.\nS2: no pattern.",
}
RAMP = LinearSegmentedColormap.from_list("known", ["#F1F1F1", "#9FC3B8", "#1B6B57"])


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
    found: Mapping[str, tuple[Float[Tensor, " net"], Float[Tensor, " net"]]], title: str
) -> Figure:
    """A dot for each network: the facts its heads cover alone, over what chance would cover.

    found: {kind of network: (covered, chance)}, shares of 25 facts.
    """
    groups = {name: (25 * chance, 25 * covered) for name, (covered, chance) in found.items()}
    means = [(x.mean().item(), y.mean().item()) for x, y in groups.values()]
    groups["mean of 50 networks"] = tuple(zip(*means, strict=True))
    said = "; ".join(
        f"{n}, {y:.1f} ({x:.1f} by chance)" for n, (x, y) in zip(found, means, strict=True)
    )
    figure = forms.points(
        {"": groups}, title, "facts covered by chance", "facts that the heads cover",
        colors={"mean of 50 networks": INK}, diagonal=True, levels={25: "all facts covered"},
        note=f"On the diagonal: as many as by chance. Means: {said}.",
    )  # fmt: skip
    figure.axes[0].set(xlim=(7, 23), ylim=(7, 26))
    return figure


def show_lost(parts: Mapping[str, Sequence[float]], title: str) -> None:
    """Show the shares of predictions lost by no single head, by exactly one, by several."""
    figure = forms.grids(
        {"": {"": list(parts.values())}}, title, number=".0%", row_names=list(parts),
        column_names=["by no single head", "by exactly one", "by several"],
        x_label="predictions that need heads: lost by ablating", colors="Greens", cell=(1.9, 0.45),
    )  # fmt: skip
    show_small(figure)


def triangles(examples: Sequence[tuple[TorusNets, Facts, int]], title: str, n: int = 380) -> Figure:
    """Over the triangle of mixtures of three heads: how many facts with one next word are known.

    examples: (network, facts, next word), one for each of READINGS, S2's four patterns. n: width of
    a triangle in cells. A cross: the center.
    """
    shares, inside = _triangle(n)
    mixed = torch.cat([torch.from_numpy(shares).view(-1, 3), torch.eye(3)]).float()
    figure, axes = forms.panels(1, len(examples), 10, 3.9, title=title, figure_class=Painting)
    for axis, (net, facts, word), (seen, said) in zip(
        axes[0], examples, READINGS.items(), strict=True
    ):
        right = torus.is_correct_with_shares(net, facts[None], mixed, residual=False)[0]
        counts, of = right[:, facts == word].sum(dim=-1).numpy(), int((facts == word).sum())
        shade = RAMP(counts[:-3].reshape(inside.shape) / of)
        shade[..., 3] = inside
        axis.imshow(shade, extent=(0, 1, 0, TALL), interpolation="antialiased")
        axis.plot([0, 1, 0.5, 0], [0, 0, TALL, 0], color=PALE, lw=0.8)
        axis.plot(0.5, TALL / 3, "+", color=INK, ms=9, mew=1.4)
        corners = (0, -0.11, "left"), (1, -0.11, "right"), (0.5, TALL + 0.07, "center")
        for head, (x, y, side) in enumerate(corners):
            known = counts[len(counts) - 3 + head]
            look = {"weight": "bold"} if known >= 0.75 * of - 1e-6 else {"color": PALE}
            name = f"head {head}" + ("\n" if head < 2 else ": ") + f"{known} of {of}"
            axis.text(x, y, name, fontsize=10, ha=side, va="center", **look)
        axis.set_title(seen, size=12, weight="bold")
        axis.set(xlim=(-0.05, 1.05), ylim=(-0.22, 1.0), xticks=[], yticks=[], xlabel=said)
        axis.spines[:].set_visible(False)
    return figure


def knowledge(
    rows: Mapping[str, tuple[Bool[Tensor, "head pair"], forms.Interval]], facts: Facts, title: str,
    control: tuple[str, forms.Interval],
) -> Figure:  # fmt: skip
    """Which facts each head knows alone, one row a network, and the score of 50 such networks.

    rows: {kind of network: (known, chance-corrected coverage)}. control: (name, coverage), drawn
    below the first row.
    """
    figure, axes = forms.panels(
        len(rows), 4, 10, 1.35 * len(rows) + 0.4, title=title, width_ratios=(1, 1, 1, 3),
        figure_class=Painting,
    )  # fmt: skip
    scale = figure.add_subplot(axes[0, 0].get_gridspec()[:, 3])
    for axis in axes[:, 3]:
        axis.remove()
    for row, (cards, (name, (known, score))) in enumerate(zip(axes, rows.items(), strict=True)):
        for h, axis in enumerate(cards[:3]):
            _card(axis, facts, known[h])
            axis.set_title("" if row else f"head {h}", **forms.TITLE)
        said = fill(name, 18) + f"\n({known.any(dim=0).sum()} of {len(facts)} covered)"
        cards[0].set_ylabel(said, rotation=0, ha="right", va="center", size=10.5)
        _interval(scale, row, score, INK)
    _interval(scale, 0.35, control[1], PALE, f" {control[0]}")
    scale.set(xlim=(-0.1, 1.09), ylim=(len(rows) - 0.5, -0.5), yticks=[])
    for x, name in ((0, "chance"), (1, "all facts covered")):
        scale.axvline(x, color=PALE, lw=1.2, ls="-" if x else "--", zorder=0)
        scale.annotate(name, (x, 1), (0, 3), xycoords=scale.get_xaxis_transform(), color=PALE,
                       textcoords="offset points", ha="right" if x else "left")  # fmt: skip
    scale.set_xlabel("chance-corrected coverage, 50 networks (95 % interval)")
    scale.spines[["top", "left", "right"]].set_visible(False)
    return figure


def _interval(axis, y, score, color, name=""):
    axis.plot([score.low, score.high], [y, y], color=color, lw=2)
    axis.scatter(score.value, y, s=50, color=color)
    axis.text(score.high + 0.025, y, f"{score.value:.2f}{name}", color=color, va="center")


def _card(axis, facts, known, names=""):
    """The facts as a table, first words down and second words across; in color where known.

    names: of the words, to write them along the edges and the known facts into their cells.
    """
    for k, (fact, is_known) in enumerate(zip(facts.tolist(), known, strict=True)):
        row, column = divmod(k, 5)
        color = CLASS_COLORS[fact] if is_known else "#EFEFEF"
        axis.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fc=color, lw=0))
        if names and is_known:
            axis.text(column, row + 0.03, NAMES[fact], fontsize=11, color=letter_color(fact),
                      ha="center", va="center", weight="bold")  # fmt: skip
    axis.set(xlim=(-0.5, 4.5), ylim=(4.5, -0.5), aspect="equal")
    axis.set_xticks(range(len(names)), names)
    axis.set_yticks(range(len(names)), names)
    axis.tick_params(length=0, pad=2)
    axis.spines[:].set_visible(False)


def _triangle(n: int) -> tuple[Float[np.ndarray, "row column 3"], Bool[np.ndarray, "row column"]]:
    """Shares of a triangle n cells wide, its top first, and which cells lie in it."""
    up, right = np.meshgrid((np.arange(round(n * TALL))[::-1] + 0.5) / (n * TALL),
                            (np.arange(n) + 0.5) / n, indexing="ij")  # fmt: skip
    shares = np.stack([1 - right - up / 2, right - up / 2, up], -1)
    inside = shares.min(axis=-1) >= 0
    shares = np.clip(shares, 0, None)
    return shares / shares.sum(axis=-1, keepdims=True), inside
