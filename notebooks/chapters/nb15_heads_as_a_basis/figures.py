"""Heads as a team: what each knows alone, mixtures of them, chance, and heads that come in turn."""

from collections.abc import Callable
from textwrap import fill

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from chapters.torus import networks as torus
from chapters.torus.figures import dot, draw_map
from chapters.torus.networks import TorusNets
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    Painting,
    asker,
    letter_color,
    painted,
)
from chapters.torus.training import Learned

TALL = np.sqrt(3) / 2  # height of a triangle of width 1
JOINT, ASSIGNED, GROWN = CLASS_COLORS[[0, 2, 3]]  # heads trained together, assigned, in turn
READINGS = {  # of S2's four patterns
    "one corner": "One head alone suffices.\nS2: it is responsible\nfor these facts.",
    "two corners": "Either of two heads suffices.\nS2: one head is useless.",
    "between": "Two heads together suffice,\nno head alone. S2: both\nremember these facts.",
    "none": "No head suffices,\nnor do two in equal parts.\nS2: no pattern.",
}
RAMP = LinearSegmentedColormap.from_list("known", ["#F1F1F1", "#9FC3B8", "#1B6B57"])


def hoped(facts, owners, title: str) -> Figure:
    """The facts of a network, and how three heads would share them out if each kept its own.

    facts, owners: [pair]. No network was asked.
    """
    figure = plt.figure(figsize=(10, 3.35), dpi=100, FigureClass=Painting)
    plt.close(figure)
    _titled(figure, title)
    owners = torch.as_tensor(owners)
    cards = {"the network": owners >= 0} | {f"head {h} (made up)": owners == h for h in range(3)}
    for i, (name, known) in enumerate(cards.items()):
        left = 0.055 + 0.245 * i
        axis = figure.add_axes((left, 0.05, 0.195, 0.195 * 10 / 3.35))
        _card(axis, facts, known, letters=True)
        axis.set_title(name, fontsize=11, y=1.17)
        axis.text(2, -1.13, "second word", fontsize=9.5, ha="center", va="center")
        axis.set_ylabel("first word", fontsize=9.5, labelpad=1)
        if i:
            figure.text(left - 0.039, 0.342, "=" if i == 1 else "+", fontsize=15, ha="center",
                        va="center")  # fmt: skip
    return figure


def alone(net: TorusNets, facts, title: str, owners=None, by: Callable | None = None) -> Figure:
    """The map of a network, and what each head answers alone, without the residual connection.

    facts: [pair]. A large dot with its letter: a fact that is known; a small one: it is not.
    owners: the head [pair] that each fact is assigned to; then a head's next words are named.
    by: a function (x [place, pos, 3], W_Q, W_K, W_V, W_O, W_U) -> logits [place, word] of one head.
    """
    asks = [asker(net), *(asker(net, only, residual=False) for only in torch.eye(3))]
    if by is not None:
        asks[1:] = [_by(net, head, by) for head in range(3)]
    names = ["all heads", *(f"head {h} alone" for h in range(3))]
    if owners is not None:
        for h in range(3):
            own = sorted({NAMES[fact] for fact in torch.as_tensor(facts)[owners == h].tolist()})
            names[h + 1] = f"assigned {', '.join(own)}\n{names[h + 1]}"
    return _maps(net, facts, asks, names, title)


def stages(net: TorusNets, facts, title: str) -> Figure:
    """The map of a network with none of its heads, the first, the first two, and all.

    facts: [pair]. Dots as in `alone`.
    """
    names = ["no head", "head 0", "heads 0 and 1", "heads 0, 1 and 2"]
    asks = [asker(net, counts) for counts in (torch.zeros(3), *torch.ones(3, 3).tril())]
    return _maps(net, facts, asks, names, title)


def null(draws, found: int, chance: float, title: str) -> Figure:
    """How often random sets cover so many facts, and how many the heads cover.

    draws: the facts covered in each permutation. chance: the mean that is expected of them.
    """
    figure, axis = plt.subplots(figsize=(8.4, 2.9), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.075, 0.19, 0.98, 0.86)
    _titled(figure, title)
    counts = np.bincount(np.asarray(draws), minlength=26) / len(draws)
    axis.bar(range(26), counts, width=0.82, color="#C8C8C8")
    axis.plot([chance, chance], [0, counts.max() * 1.1], color=PALE, lw=1.4, ls="--")
    axis.text(chance - 0.15, counts.max() * 1.14, f"chance: {chance:.1f}", color=PALE, fontsize=11,
              ha="right", va="center")  # fmt: skip
    axis.plot([found, found], [0, counts.max() * 1.1], color=JOINT, lw=2.6)
    axis.text(found + 0.15, counts.max() * 1.14, f"the three heads: {found}", color=JOINT,
              fontsize=11, weight="bold", va="center")  # fmt: skip
    fewest = int(min(draws)) - 1
    axis.set(xlim=(fewest - 0.6, 25.6), ylim=(0, counts.max() * 1.25), xticks=range(fewest, 26))
    axis.set_xlabel(
        "facts covered, of 25 (gray: permutations of the same three heads)", fontsize=10.5
    )
    axis.set_ylabel("share of draws", fontsize=10.5)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def coverage(found: dict, title: str, colors=(JOINT, PALE)) -> Figure:
    """A dot for each network: the facts its heads cover alone, over what chance would cover.

    found: {kind of network: (covered, chance)}, each [net], shares of 25 facts.
    """
    figure, axis = plt.subplots(figsize=(9, 4.3), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.075, 0.13, 0.66, 0.9)
    _titled(figure, title)
    axis.plot([0, 25], [0, 25], color=INK, lw=1.2, ls="--")
    axis.axhline(25, color=INK, lw=1.2)
    axis.text(6.7, 24.6, "all facts covered", color=INK, fontsize=10.5, va="top")
    axis.text(19.6, 18.6, "as by chance", color=INK, fontsize=10.5)
    for k, (name, (covers, chance)) in enumerate(found.items()):
        covers, chance = 25 * np.asarray(covers), 25 * np.asarray(chance)
        axis.scatter(chance, covers, s=26, color=colors[k], alpha=0.45, lw=0)
        axis.scatter(chance.mean(), covers.mean(), s=150, color=colors[k], ec="white", lw=2,
                     zorder=5)  # fmt: skip
        said = f"{name}:\n{covers.mean():.1f} covered, {chance.mean():.1f} by chance"
        figure.text(0.675, 0.7 - 0.2 * k, said, color=colors[k], fontsize=11, va="center")
    figure.text(
        0.675, 0.16, "small dot: a network\nlarge dot: the mean of 50", color=INK, fontsize=10
    )
    axis.set(xlim=(6, 25.4), ylim=(5.5, 25.9), xticks=(10, 15, 20, 25), yticks=(10, 15, 20, 25))
    axis.set_xlabel("facts covered by chance", fontsize=10.5)
    axis.set_ylabel("facts that the heads cover", fontsize=10.5)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def triangles(examples: list, title: str, n: int = 190) -> Figure:
    """Over the triangle of mixtures of three heads: how many facts with one next word are known.

    examples: (network, facts [pair], next word), one for each of READINGS, S2's four patterns.
    n: width of a triangle in pixels.
    """
    shares, inside = _triangle(2 * n)
    wide, tall = 1000, 395
    figure = plt.figure(figsize=(wide / 100, tall / 100), dpi=100, FigureClass=Painting)
    plt.close(figure)
    _titled(figure, title)
    step = wide / len(examples)
    mixed = torch.cat([torch.from_numpy(shares).view(-1, 3), torch.eye(3)]).float()
    for i, ((net, facts, word), (seen, said)) in enumerate(
        zip(examples, READINGS.items(), strict=True)
    ):
        facts = torch.as_tensor(facts)
        answers = torus.is_correct_with_shares(net, facts[None], mixed, residual=False)[0]
        counts = answers[:, facts == word].sum(dim=-1).numpy()
        of = int((facts == word).sum())
        center = step * (i + 0.5)
        box = (center - step / 2) / wide, 95 / tall, step / wide, 235 / tall
        axis = figure.add_axes(box, xlim=(-step / 2, step / 2), ylim=(0, 235))
        axis.axis("off")
        shade = RAMP(counts[:-3].reshape(inside.shape) / of)
        shade[..., 3] = inside
        low, high = 38, 38 + n * TALL
        axis.imshow(shade, extent=(-n / 2, n / 2, low, high), interpolation="antialiased")
        axis.plot([-n / 2, n / 2, 0, -n / 2], [low, low, high, low], color=PALE, lw=0.8)
        axis.plot(0, low + n * TALL / 3, "+", color="white", ms=10, mew=3.4)
        axis.plot(0, low + n * TALL / 3, "+", color=INK, ms=9, mew=1.4)
        places = [(-n / 2, 18, "left"), (n / 2, 18, "right"), (0, high + 13, "center")]
        for head, (x, y, side) in enumerate(places):
            known = counts[len(counts) - 3 + head]
            name = f"head {head}" + ("\n" if head < 2 else ": ") + f"{known} of {of}"
            look = {"weight": "bold"} if known >= 0.75 * of - 1e-6 else {"color": PALE}
            axis.text(x, y, name, fontsize=10, ha=side, va="center", linespacing=1.1, **look)
        figure.text(center / wide, 341 / tall, f"{seen}", fontsize=12, weight="bold", ha="center",
                    va="center")  # fmt: skip
        for k, line in enumerate(said.split("\n")):
            figure.text(center / wide, (78 - 19 * k) / tall, line, fontsize=10, ha="center")
    return figure


def courses(runs: dict[str, Learned], title: str) -> Figure:
    """How many of 25 facts networks know while they learn, each curve with its last value.

    runs: {name: what `load_run` gives}.
    """
    figure, axis = plt.subplots(figsize=(9, 3.6), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.075, 0.15, 0.64, 0.87)
    _titled(figure, title)
    for k, (name, run) in enumerate(runs.items()):
        name, accuracy = fill(name, 24), run.accuracy.mean(dim=1)
        color, end = (JOINT, ASSIGNED, GROWN)[k], float(accuracy[-1])
        axis.plot(run.steps, 25 * accuracy, color=color, lw=2.2)
        figure.text(0.66, 0.78 - 0.2 * k, f"{name}:\n{25 * end:.1f} of 25 facts", color=color,
                    fontsize=11, va="center")  # fmt: skip
    axis.set(ylim=(5, 25.6), xlim=(0, run.steps[-1]), yticks=(5, 10, 15, 20, 25))
    axis.set_xlabel("training step", fontsize=10.5)
    axis.set_ylabel("facts known, mean of 50", fontsize=10.5)
    axis.spines[["top", "right"]].set_visible(False)
    return figure


def knowledge(rows: dict, facts, title: str, control=None) -> Figure:
    """Which facts each head knows alone, one row a network, and the score of 50 such networks.

    rows: {kind of network: (known [head, pair], low, score, high)}, the score being the
    chance-corrected coverage and its interval. facts: [pair]. control: (name, low, score, high),
    drawn below the first row.
    """
    tall = 1.22 + 1.42 * len(rows)
    figure = plt.figure(figsize=(10, tall), dpi=100, FigureClass=Painting)
    plt.close(figure)
    _titled(figure, title)
    scale = figure.add_axes((0.6, 0.55 / tall, 0.375, 1.42 * len(rows) / tall))
    scale.set(xlim=(-0.1, 1.09), ylim=(-len(rows), 0), yticks=[])
    for x, name in ((0, "chance"), (1, "all facts\ncovered")):
        scale.axvline(x, color=PALE, lw=1.2, ls="--" if not x else "-")
        scale.text(x, 0.03, name, color=PALE, fontsize=9.5, ha="center", va="bottom")
    scale.set_xlabel("chance-corrected coverage, 50 networks (95 % interval)", fontsize=10)
    scale.spines[["top", "left", "right"]].set_visible(False)
    for r, (name, (known, *score)) in enumerate(rows.items()):
        bottom = (0.55 + 1.42 * (len(rows) - r - 1) + 0.11) / tall
        known = torch.as_tensor(known)
        said = f"{fill(name, 18)}\n({known.any(dim=0).sum()} of {len(facts)} covered)"
        figure.text(0.012, bottom + 0.6 / tall, said, fontsize=11, va="center", linespacing=1.3)
        for h in range(3):
            axis = figure.add_axes((0.19 + 0.13 * h, bottom, 0.12, 1.2 / tall))
            _card(axis, facts, known[h], labels=False)
            if not r:
                axis.set_title(f"head {h}", fontsize=10.5, y=0.98)
        _scored(scale, -r - 0.5, score, INK)
    if control is not None:
        name, *score = control
        _scored(scale, -0.83, score, PALE, f" {name}")
    return figure


def lost_alone(shares: dict, title: str) -> Figure:
    """Bars of predictions: lost by no single head, by exactly one, by several.

    shares: {model: the three parts, which sum to 1}.
    """
    tall = 0.95 + 0.5 * len(shares)
    figure, axis = plt.subplots(figsize=(9, tall), dpi=100, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.245, 0.08 / tall, 0.985, 1 - 0.45 / tall)
    _titled(figure, title)
    colors, inks = ("#E3E3E3", "#8FB8AC", "#1B6B57"), (INK, INK, "white")
    names = ("lost by no single head", "by exactly one", "by several")
    for r, (name, parts) in enumerate(shares.items()):
        left = 0.0
        for part, color, ink in zip(parts, colors, inks, strict=True):
            axis.barh(-r, part, left=left, height=0.68, color=color)
            said = {"fontsize": 10.5, "ha": "center", "va": "center"}
            axis.text(left + part / 2, -r, f"{part:.0%}", color=ink, **said)
            left += part
        axis.text(-0.012, -r, name, fontsize=11, ha="right", va="center")
    for x, name, color in zip(
        (0, 0.35, 0.62), names, ("#9A9A9A", "#6FA294", colors[2]), strict=True
    ):
        axis.text(x, 0.62, name, color=color, fontsize=10.5, weight="bold", va="center")
    axis.set(xlim=(0, 1), ylim=(0.6 - len(shares), 0.85))
    axis.axis("off")
    return figure


def _scored(axis, y, score, color, name=""):
    low, middle, high = score
    axis.plot([low, high], [y, y], color=color, lw=2.4 if not name else 1.6)
    axis.scatter(middle, y, s=75 if not name else 36, color=color, zorder=4)
    place = {"ha": "left", "va": "center", "color": color}
    axis.text(high + 0.025, y, f"{middle:.2f}{name}", fontsize=9.5 if name else 11, **place)


def _card(axis, facts, known, letters=False, labels=True):
    """The facts as a table, first words down and second words across; in color where known."""
    names = list(NAMES[:5])
    for k, (fact, is_known) in enumerate(zip(torch.as_tensor(facts).tolist(), known, strict=True)):
        row, column = divmod(k, 5)
        color = CLASS_COLORS[fact] if is_known else "#EFEFEF"
        axis.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, fc=color, lw=0))
        if letters and is_known:
            axis.text(column, row + 0.03, NAMES[fact], fontsize=11, color=letter_color(fact),
                      ha="center", va="center", weight="bold")  # fmt: skip
    axis.set(xlim=(-0.5, 4.5), ylim=(4.5, -0.5), aspect="equal")
    axis.set_xticks(range(5) if labels else [], names if labels else [], fontsize=9.5)
    axis.set_yticks(range(5) if labels else [], names if labels else [], fontsize=9.5)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, pad=2)
    axis.spines[:].set_visible(False)


def _titled(figure, title):
    figure.text(0.012, 1 - 0.2 / figure.get_figheight(), title, fontsize=12.5, weight="bold",
                va="center")  # fmt: skip


def _by(net, head, by):
    """A function of two tensors of angles: the probabilities that a reader's head would give."""
    weights = [W[0, head] for W in (net.W_Q, net.W_K, net.W_V, net.W_O)]

    def ask(theta1, theta2):
        theta1, theta2 = torch.broadcast_tensors(theta1, theta2)
        x = torch.stack([torus.circle(each.flatten()) for each in (theta1, theta2)], dim=1)
        said = by(x.to(net.W_pos) + net.W_pos[0], *weights, net.W_U[0])
        return said.softmax(dim=-1).view(*theta1.shape, -1)

    return ask


def _maps(net, facts, asks, names, title):
    wide = 9.8 / len(names)  # of a map and the gap to the next, in inches
    side, tall = wide - 0.2, wide + 1.02
    figure = plt.figure(figsize=(10, tall), dpi=100, FigureClass=Painting)
    plt.close(figure)
    _titled(figure, title)
    theta, facts = torus.angles(net)[0], torch.as_tensor(facts)
    places = [(theta[k // 5].item(), theta[k % 5].item()) for k in range(len(facts))]
    for i, (ask, name) in enumerate(zip(asks, names, strict=True)):
        said = ask(theta.repeat_interleave(5), theta.repeat(5)).argmax(dim=-1)
        known = (said == facts).tolist()
        axis = figure.add_axes((0.045 + wide / 10.15 * i, 0.42 / tall, side / 10.15, side / tall))
        draw_map(axis, painted(ask, cells=260))
        for k, fact in enumerate(facts.tolist()):
            dot(axis, places[k], fact, 120 if known[k] else 24, letter=known[k])
        letters = list(NAMES[: len(theta)])
        axis.set_xticks(theta, letters, fontsize=10)
        axis.set_yticks(theta, [""] * len(theta) if i else letters, fontsize=10)
        axis.tick_params(length=3, color=PALE)
        axis.set_title(f"{name}: {sum(known)} of 25", fontsize=11, y=0.99)
        axis.set_xlabel("first word", fontsize=10, labelpad=2)
        axis.set_ylabel("" if i else "second word", fontsize=10, labelpad=2)
    return figure


def _triangle(n):
    """Shares [row, column, 3] of a triangle n pixels wide, its top first, and which lie in it."""
    up, right = np.meshgrid((np.arange(round(n * TALL))[::-1] + 0.5) / (n * TALL),
                            (np.arange(n) + 0.5) / n, indexing="ij")  # fmt: skip
    shares = np.stack([1 - right - up / 2, right - up / 2, up], -1)
    inside = shares.min(axis=-1) >= 0
    shares = np.clip(shares, 0, None)
    return shares / shares.sum(axis=-1, keepdims=True), inside
