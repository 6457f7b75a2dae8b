"""What the network of notebook 13 says, as maps: its facts, training, heads, borders, capacity."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from chapters.torus import networks as torus
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    SHARES,
    TURN,
    Painting,
    Shaded,
    asker,
    letter_color,
    painted,
)

DPI = 100


def draw_map(
    axis, colors, theta=None, facts=None, size=40, letters=True, wrong=(), cross=True
) -> None:
    """A map [n, n, 3] on an axis, with the pairs as dots in the color of their fact.

    theta: the angle of each word. facts: [pair]. size: area of a dot. wrong: names of pairs, such
    as "AB", to ring in black; cross: with a cross beside the ring.
    """
    axis.imshow(colors, origin="lower", extent=(0, TURN, 0, TURN), interpolation="bilinear")
    axis.set(xticks=[], yticks=[], xlim=(0, TURN), ylim=(0, TURN))
    axis.spines[:].set_visible(False)
    if theta is None:
        return
    theta, facts = np.asarray(theta) % TURN, np.asarray(facts)
    n, names = len(theta), list(NAMES[: len(theta)])
    for i, fact in enumerate(facts):
        place = theta[i // n], theta[i % n]
        dot(axis, place, fact, size, letters)
        if names[i // n] + names[i % n] in wrong:
            _lost(axis, place, size, cross)
    axis.set_xticks(theta, names, fontsize=12, weight="bold")
    axis.set_yticks(theta, names, fontsize=12, weight="bold")
    axis.tick_params(length=4, color=PALE)


def class_map(ask: Callable, theta, facts, title: str, example=None, wrong=()) -> Figure:
    """The whole network in one picture, with its facts as dots.

    ask: see `torus_colors.asker`. example: a pair (i, j) to point out. wrong: see `draw_map`.
    """
    figure, axis = plt.subplots(figsize=(7.9, 6.9), dpi=DPI, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.11, 0.105, 0.88, 0.925)
    draw_map(axis, painted(ask), theta, facts, size=250, wrong=wrong)
    marks = (np.degrees(np.asarray(theta)).round().astype(int) % 360).tolist()
    marks += [end for end in (0, 360) if min(abs(end - mark) for mark in marks) > 16]
    for each in (axis.xaxis, axis.yaxis):
        each.remove_overlapping_locs = False  # a degree stands beside each word
        each.set_ticks(np.radians(marks), [f"{mark}°" for mark in marks], minor=True)
        each.set_tick_params(which="minor", length=0, pad=24, labelsize=10, labelcolor=PALE)
    figure.text(0.012, 0.962, title, fontsize=13, color=INK, va="center")
    axis.set_xlabel("first word: its angle on a circle", fontsize=11, labelpad=3)
    axis.set_ylabel("second word: its angle on a circle", fontsize=11, labelpad=2)
    beside = {"transform": axis.transAxes, "va": "center", "color": INK}
    if example is not None:
        i, j = example
        look = {"color": "white", "lw": 2.2, "ls": (0, (2, 1.6)), "zorder": 3}
        axis.plot([theta[i], theta[i], 0], [0, theta[j], theta[j]], **look)
        fact = NAMES[int(facts[len(theta) * i + j])]
        axis.text(1.02, 0.975, "for example", fontsize=10, style="italic", **beside)
        axis.text(
            1.02, 0.93, f"{NAMES[i]} {NAMES[j]} → {fact}", fontsize=14, weight="bold", **beside
        )
    axis.text(1.02, 0.69, "next word", fontsize=10.5, **beside)
    for k in range(len(theta)):
        y = 0.62 - 0.085 * k
        box = Rectangle((1.025, y - 0.03), 0.055, 0.06, fc=CLASS_COLORS[k], clip_on=False)
        box.set_transform(axis.transAxes)
        axis.add_patch(box)
        axis.text(1.1, y, NAMES[k], fontsize=12, **beside)
    return figure


def growing(film: dict[int, torus.TorusNets], accuracy, facts, title: str) -> Figure:
    """Maps of a network at some steps, over the accuracy [step, net] of all that were trained.

    film: {step: the first network}. facts: [pair], of the first network.
    """
    steps, n, accuracy = list(film), len(film), np.asarray(accuracy)
    figure = plt.figure(figsize=(10, 3.9), dpi=DPI, FigureClass=Shaded)
    plt.close(figure)
    figure.text(0.012, 0.955, title, fontsize=12.5)
    for k, (step, net) in enumerate(film.items()):
        axis = figure.add_axes([0.012 + k * 0.986 / n, 0.46, 0.97 / n - 0.004, 0.41])
        colors = painted(asker(net), cells=180)
        draw_map(axis, colors, torus.angles(net)[0], facts, size=18, letters=False)
        axis.set(xticks=[], yticks=[])
        axis.set_title(f"step {step}", fontsize=10.5, y=0.98)
    axis = figure.add_axes([0.06, 0.115, 0.925, 0.27])
    for line in accuracy.T[1:]:
        axis.plot(line, lw=1.3, color=PALE, alpha=0.6)
    axis.plot(accuracy[:, 0], lw=2, color=INK)
    axis.scatter(steps, accuracy[steps, 0], color=INK, s=26, zorder=4)
    axis.set(xlim=(-8, len(accuracy) + 4), ylim=(0, 1.05), yticks=[0, 0.5, 1])
    axis.set_ylabel("facts known", fontsize=10.5)
    axis.set_xlabel(
        "training step (black: the network of the maps, gray: the others)",
        fontsize=10.5,
        labelpad=2,
    )
    axis.tick_params(labelsize=9.5)
    return figure


def attention(
    net: torus.TorusNets, ask: Callable, favorite: Callable | None, title: str, said: str
) -> Figure:
    """Where each head looks on the whole torus, with the borders of the class map.

    ask: see `torus_colors.asker`. favorite: a function (θ2 [place], W_Q [3, d_head], W_K) -> θ1
    [place], drawn as a white line; nothing is drawn while it gives nothing of that shape. said:
    of the place where most of a border lies near the edge of a head's share.
    """
    n, theta = 200, torch.as_tensor(torus.angles(net)[0])
    places = [each.flatten().float() for each in torus.grid(n)]
    shares = torus.attend(net, *torus.on_grid(n)).a1[0]
    figure, axes = plt.subplots(1, len(shares), figsize=(10, 4.0), dpi=DPI, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.055, 0.105, 0.9, 0.85, wspace=0.12)
    classes = np.asarray(ask(*places).argmax(-1)).reshape(n, n)
    turn = np.arange(n) * TURN / n
    pictures = [np.asarray(each).reshape(n, n) for each in shares]
    for h, (axis, picture) in enumerate(zip(np.atleast_1d(axes), pictures, strict=True)):
        axis.imshow(picture, origin="lower", extent=(0, TURN, 0, TURN), cmap=SHARES, vmin=0,
                    vmax=1, interpolation="bilinear")  # fmt: skip
        for k in np.unique(classes):
            axis.contour(turn, turn, classes == k, levels=[0.5], colors="#E69F00", linewidths=1.1)
        if favorite is not None:
            _favorite(axis, favorite, net.W_Q[0, h], net.W_K[0, h])
        names = list(NAMES[: len(theta)])
        axis.set_xticks(theta, names, fontsize=10)
        axis.set_yticks(theta, names, fontsize=10)
        axis.set(aspect="equal", xlim=(0, TURN), ylim=(0, TURN), xlabel="first word")
        axis.tick_params(length=3, color=PALE)
        axis.spines[:].set_color("#C8C8C8")
        axis.set_title(f"head {h}", fontsize=11, y=0.985)
    np.atleast_1d(axes)[0].set_ylabel("second word")
    h, place = _followed(classes, pictures)
    look = {"arrowstyle": "-|>", "color": "#B22222", "lw": 2, "shrinkB": 1, "zorder": 7}
    look["path_effects"] = [withStroke(linewidth=4.5, foreground="white")]
    start = place + np.where(place > TURN / 2, -1, 1) * [1.3, 1] * np.array([1, -1])
    start = np.where((start > 0.4) & (start < TURN - 0.4), start, 2 * place - start)
    note = {"fontsize": 10, "color": "#B22222", "ha": "center", "va": "center", "zorder": 8}
    note["bbox"] = {"boxstyle": "round,pad=0.25", "fc": "white", "ec": "none", "alpha": 0.9}
    np.atleast_1d(axes)[h].annotate(said, place, start, arrowprops=look, **note)
    figure.text(0.012, 0.945, title, fontsize=12.5)
    for y, text, color in ((0.76, "looks at the\nfirst word", "#3F1A57"),
                           (0.2, "looks at the\nsecond word", PALE)):  # fmt: skip
        figure.text(0.908, y, text, fontsize=10, color=color, va="center")
    bar = figure.add_axes([0.91, 0.3, 0.013, 0.36])
    bar.imshow(np.linspace(1, 0, 100)[:, None], cmap=SHARES, aspect="auto", vmin=0, vmax=1)
    bar.set(xticks=[], yticks=[])
    return figure


def _favorite(axis, favorite, Q, K):
    up = torch.arange(3601) * TURN / 3600  # fine: where a head asks for little, its wish turns fast
    across = favorite(up, Q, K)
    if getattr(across, "shape", None) != up.shape or not torch.isfinite(across).all():
        return
    across = np.unwrap(np.asarray(across.detach(), dtype=float))
    halo = [withStroke(linewidth=4, foreground="#3F1A57")]
    for turn in range(int(-across.max() // TURN), int(-across.min() // TURN) + 2):  # every copy
        axis.plot(across + turn * TURN, up, color="white", lw=2, path_effects=halo, zorder=6)


def held_maps(maps: list, held: tuple[int, int], theta, *, title: str) -> Figure:
    """Three class maps [n, n] of one network, each with its own changes per turn.

    maps: if both vary, only where the heads look, only what they carry. held: the pair (i, j) at
    which the other one stays. theta: the angle of each word.
    """
    figure, axes = plt.subplots(1, 3, figsize=(10, 4.15), dpi=DPI, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.05, 0.105, 0.995, 0.775, wspace=0.11)
    pair, names = f"{NAMES[held[0]]} {NAMES[held[1]]}", list(NAMES[: len(theta)])
    figure.text(0.012, 0.945, title, fontsize=12.5)
    heads = ("look and carry both vary", f"look varies, carry stays {pair}",
             f"look stays {pair}, carry varies")  # fmt: skip
    for axis, name, classes in zip(axes, heads, maps, strict=True):
        classes = np.asarray(classes)
        draw_map(axis, CLASS_COLORS[classes])
        axis.set_xticks(theta, names, fontsize=10)
        axis.set_yticks(theta, names, fontsize=10)
        axis.tick_params(length=3, color=PALE)
        axis.set_xlabel("first word", fontsize=10, labelpad=2)
        axis.axvline(theta[held[0]], color="white", lw=2, ls=(0, (2, 1.6)))
        count = np.mean([(classes != np.roll(classes, 1, d)).sum(d).mean() for d in (0, 1)])
        text = f"{name}\n{count:.1f} changes per turn"
        axis.set_title(text, fontsize=10.5, loc="left", y=0.99)
    axes[0].set_ylabel("second word", fontsize=10, labelpad=2)
    return figure


def who_winds(more: dict, title: str) -> Figure:
    """How much more the pattern winds than the words: a dot for each network, a bar for the median.

    more: {kind of network: changes per turn [net], pattern minus words}; the first in color.
    """
    high = 1.1 + 0.64 * len(more)  # inches
    figure, axis = plt.subplots(figsize=(10, high), dpi=DPI, FigureClass=Painting)
    plt.close(figure)
    figure.subplots_adjust(0.17, 0.58 / high, 0.985, 1 - 0.45 / high)
    figure.text(0.012, 1 - 0.25 / high, title, fontsize=12.5)
    shake = np.random.default_rng(0)
    axis.axvline(0, color=PALE, lw=1)
    for row, each in enumerate(more.values()):
        each, color = np.asarray(each), (CLASS_COLORS[0], PALE)[row > 0]
        height = -row + shake.uniform(-0.22, 0.22, len(each))
        axis.scatter(each, height, s=22, color=color, alpha=0.5, lw=0)
        middle = np.sort(each)[(len(each) - 1) // 2]  # the lower one of two, as torch's median
        axis.plot([middle] * 2, [-row - 0.3, -row + 0.3], color=color, lw=3)
        clear = {"fc": "white", "ec": "none", "pad": 1}
        axis.text(middle, 0.34 - row, f"median {middle:.2f}".replace("-", "−"), color=color,
                  fontsize=10, ha="center", va="bottom", bbox=clear)  # fmt: skip
    kinds = [name.replace(", ", ",\n").replace("QK and", "QK\nand") for name in more]
    axis.set_yticks([-row for row in range(len(more))], kinds, fontsize=11)
    axis.set(ylim=(-len(more) + 0.5, 0.75))
    axis.set_xlabel("changes per turn by the look alone, less those by the carried words alone",
                    fontsize=10.5)  # fmt: skip
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=10)
    axis.spines[["left", "top", "right"]].set_visible(False)
    return figure


def capacity(by_heads: dict, by_words: dict, tables: list[float], *, title: str) -> Figure:
    """Accuracy of every network as a dot, by the number of heads and by the number of words.

    by_heads, by_words: {how many: accuracy [net]}. tables: the best table of the second word, for
    each number of words.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.7), dpi=DPI, FigureClass=Painting, sharey=True)
    plt.close(figure)
    figure.subplots_adjust(0.07, 0.145, 0.985, 0.84, wspace=0.09)
    figure.text(0.012, 0.94, title, fontsize=12.5)
    panels = {"heads (five words)": by_heads, "words (three heads)": by_words}
    flat = [tables[list(by_words).index(5)]] * len(by_heads)
    shake = np.random.default_rng(0)
    for axis, (label, groups), table in zip(axes, panels.items(), (flat, tables), strict=True):
        places, step = np.array(list(groups), dtype=float), max(groups) / 40
        for x, each in zip(places, groups.values(), strict=True):
            wobble = shake.uniform(-step, step, len(each))
            axis.scatter(
                x + wobble, np.asarray(each), s=11, color=CLASS_COLORS[0], alpha=0.35, lw=0
            )
        axis.plot(
            places, [np.median(each) for each in groups.values()], color=CLASS_COLORS[0], lw=2
        )
        axis.plot(places, table, color=PALE, lw=1.5, ls="--")
        axis.set_xticks(places, list(groups))
        axis.set_xlabel(f"{label}, {len(each)} networks each", fontsize=11)
        axis.set(ylim=(0.0, 1.05), xlim=(min(groups) - 2 * step, max(groups) + 2 * step))
        axis.tick_params(labelsize=10)
    axes[0].set_ylabel("share of facts known", fontsize=11)
    axes[0].text(
        min(by_heads), flat[0] - 0.07, "a table of the second word", color=PALE, fontsize=10
    )
    axes[0].text(
        min(by_heads) + 1, 0.72, "line: median; dots: networks", color=CLASS_COLORS[0], fontsize=10
    )
    return figure


def dot(axis, place, word: int, size: float, letter: bool = True) -> None:
    """A word on an axis: a dot in its color, with its letter."""
    look = {"edgecolors": "white", "linewidths": max(1, size**0.5 / 9), "clip_on": False}
    axis.scatter(*place, s=size, color=CLASS_COLORS[word], zorder=5, **look)
    if letter:
        look = {"fontsize": max(9, 0.65 * size**0.5), "weight": "bold", "zorder": 6}
        look |= {"ha": "center", "va": "center_baseline", "color": letter_color(word)}
        axis.text(*place, NAMES[word], **look)


def _lost(axis, place, size, cross=True):
    """A black ring around a dot, and a cross beside it, so that its letter can still be read."""
    wide = 1.7 if cross else 2.6  # without a cross the ring stands clear of the dot
    axis.scatter(*place, s=wide * size, fc="none", ec="black", lw=2.4, zorder=7, clip_on=False)
    if not cross:
        return
    beside = np.asarray(place) + 0.024 * np.sqrt(size / 250) * TURN * np.array([1, 1])
    axis.scatter(*beside, s=0.36 * size, marker="x", color="black", lw=2.6, zorder=8, clip_on=False)


def _followed(classes, pictures):
    """(head, place) where most of a border of the map [n, n] is the edge of a head's share."""
    n, found = len(classes), []
    border = (classes != np.roll(classes, 1, 0)) | (classes != np.roll(classes, 1, 1))
    for h, picture in enumerate(pictures):
        looks = picture > 0.5
        edge = (looks != np.roll(looks, 1, 0)) | (looks != np.roll(looks, 1, 1))
        near = sum(np.roll(edge, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) > 0
        both = np.pad((border & near).astype(float), ((1, 0), (1, 0))).cumsum(0).cumsum(1)
        k = max(n // 8, 1)  # a window's sum is four corners of the running sum
        runs = both[k:, k:] - both[:-k, k:] - both[k:, :-k] + both[:-k, :-k]
        i, j = np.unravel_index(runs.argmax(), runs.shape)
        at = np.argwhere((border & near)[i : i + k, j : j + k])
        middle = (
            at[np.linalg.norm(at - at.mean(axis=0), axis=1).argmin()] if len(at) else (k / 2, k / 2)
        )
        found.append((runs.max(), h, (np.array([j, i]) + middle[::-1]) * TURN / n))
    return max(found, key=lambda each: each[0])[1:]
