"""The network of notebook 13 drawn whole, its words on their circle, and maps of what it says."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse, FancyArrowPatch, FancyBboxPatch, Rectangle

from aot_helpers.showing.panels import TITLE, panels
from chapters.torus import networks as torus
from chapters.torus.figures import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    TURN,
    Painting,
    Shaded,
    dot,
    letter_color,
    painted,
    predictor,
    show_map,
    tinted,
)

SIGNED = LinearSegmentedColormap.from_list("signed", ["#0072B2", "#F7F7F7", "#D55E00"])
DASHED = {"color": "white", "lw": 2.2, "ls": (0, (2, 1.6)), "zorder": 3}


def show_facts(axis, theta, facts: Int[np.ndarray, " pair"], size: float, letter: bool = True):
    """The facts as dots in the color of their next word."""
    theta = np.asarray(theta) % TURN
    for i, fact in enumerate(np.asarray(facts)):
        dot(axis, (theta[i // len(theta)], theta[i % len(theta)]), fact, size, letter)


def class_map(
    predict: Callable, theta, facts: Int[np.ndarray, " pair"], title: str, example: tuple[int, int]
) -> Figure:
    """The whole network in one picture, with its facts as dots.

    predict: see `predictor`. theta: the angle of each word. example: a pair (i, j) to point out.
    """
    key = {"next word:": INK} | {f"■ {NAMES[k]}": CLASS_COLORS[k] for k in range(len(theta))}
    figure, axes = panels(1, 1, 7.2, 6.6, title=title, key=key, figure_class=Painting)
    axis, theta = axes[0, 0], np.asarray(theta)
    show_map(axis, painted(predict), theta, on_grid=False)
    show_facts(axis, theta, facts, size=250)
    marks = (np.degrees(theta).round().astype(int) % 360).tolist()
    marks += [end for end in (0, 360) if min(abs(end - mark) for mark in marks) > 16]
    for each in (axis.xaxis, axis.yaxis):
        each.remove_overlapping_locs = False  # a degree stands beside each word
        each.set_ticks(np.radians(marks), [f"{mark}°" for mark in marks], minor=True)
        each.set_tick_params(which="minor", length=0, pad=24, labelsize=10, labelcolor=PALE)
    axis.set(xlabel="first word: its angle on a circle", ylabel="second word: its angle")
    i, j = example
    axis.plot([theta[i], theta[i], 0], [0, theta[j], theta[j]], **DASHED)
    fact = NAMES[int(facts[len(theta) * i + j])]
    axis.annotate(
        f"{NAMES[i]} {NAMES[j]} → {fact}",
        (theta[i], theta[j]),
        (14, 14),
        size=12,
        weight="bold",
        textcoords="offset points",
        bbox={"fc": "white", "ec": "none", "alpha": 0.9},
    )
    return figure


def growing(
    film: Mapping[int, torus.TorusNets],
    accuracy: Float[np.ndarray, "step net"],
    facts: Int[np.ndarray, " pair"],
    title: str,
    without: Float[np.ndarray, "step net"],
) -> Figure:
    """Maps of a network at some steps, over the accuracy of all that were trained.

    film: {step: the first network}. facts: of the first network. without: the accuracy of networks
    without attention scores.
    """
    steps, accuracy = list(film), np.asarray(accuracy)
    figure, axes = panels(
        2, len(film), 10, 3.5, title=title, height_ratios=(1.5, 1), figure_class=Shaded
    )
    for axis, (step, net) in zip(axes[0], film.items(), strict=True):
        theta = torus.angles(net)[0]
        show_map(axis, painted(predictor(net), cells=180), on_grid=False)
        show_facts(axis, theta, facts, size=18, letter=False)
        axis.set_title(f"step {step}", **TITLE)
    below = figure.add_subplot(axes[1, 0].get_gridspec()[1, :])
    for axis in axes[1]:
        axis.remove()
    below.plot(accuracy[:, 1:], lw=1.3, color=PALE, alpha=0.6)
    below.plot(accuracy[:, 0], lw=2, color=INK)
    below.plot(np.asarray(without), lw=1.3, color="#C77F00", alpha=0.8)
    end, said = (len(without) - 1, np.asarray(without)[-1].mean()), "without\nattention\nscores"
    below.annotate(said, end, (5, 0), textcoords="offset points", va="center", color="#C77F00")
    below.scatter(steps, accuracy[steps, 0], color=INK, s=26, zorder=4)
    below.set(ylim=(0, 1.05), yticks=[0, 0.5, 1], ylabel="fraction of\nfacts known")
    below.set_xlabel("training step (black: the network of the maps, gray: the others)")
    below.spines[["top", "right"]].set_visible(False)
    return figure


def held_maps(maps: Mapping[str, Int[torch.Tensor, "n n"]], theta, *, title: str) -> Figure:
    """Class maps of one network side by side; maps: {its title: classes [θ2, θ1]}."""
    figure, axes = panels(1, len(maps), 10, 4.2, title=title, figure_class=Painting)
    for axis, (name, classes) in zip(axes[0], maps.items(), strict=True):
        show_map(axis, tinted(classes), theta)
        axis.set_title(name, **TITLE)
        axis.set_ylabel("second word" if axis is axes[0, 0] else "")
    return figure


def drawn_whole(net: torus.TorusNets, *, title: str) -> Figure:
    """Every weight of one network as a small square, in the order in which words pass them."""
    W = {name: each[0].numpy() for name, each in net.tensors().items()}
    n_words, n_heads = len(W["W_E"]), len(W["W_Q"])
    note = "Blue: negative, orange: positive. No MLP, and no norm after the heads."
    figure, axes = panels(1, 1, 10, 4.6, title=title, note=note, figure_class=Painting)
    axis = axes[0, 0]
    axis.set(xlim=(0, 20), ylim=(0, 9.2), aspect="equal")
    axis.axis("off")
    note = {"color": PALE, "style": "italic", "size": 10}
    middle = 4.6
    _numbers(axis, 1.9, middle, W["W_E"], "$W_E$", list(NAMES[:n_words]), side=0.46)
    _say(axis, 1.9, middle + 2.3, "a row for each word", **note)
    _arrow(axis, (2.85, middle), (3.6, middle))
    axis.add_patch(Circle((4.55, middle), 0.78, fc="white", ec=INK, lw=1.6))
    for k, angle in enumerate(torus.angles(net)[0].tolist()):
        out = np.array([np.cos(angle), np.sin(angle)])
        axis.add_patch(Circle((4.55, middle) + 0.78 * out, 0.1, color=INK, zorder=5))
        _say(axis, *((4.55, middle) + 0.49 * out), NAMES[k], size=9, weight="bold")
    _say(axis, 4.55, middle + 1.25, "layer norm")
    _arrow(axis, (5.45, middle), (6.25, middle))
    _say(axis, 5.85, middle + 0.35, "+", size=15)
    _numbers(axis, 7.05, middle, W["W_pos"], "$W_{pos}$", None, side=0.46)
    _say(axis, 7.05, middle + 1.6, "a row for each\nposition", **note)
    tops = middle + 2.55 * (np.arange(n_heads)[::-1] - (n_heads - 1) / 2)
    for h, y in enumerate(tops):
        _arrow(axis, (7.95, middle), (9.05, y))
        frame = {"boxstyle": "round,pad=0,rounding_size=0.15", "fc": "#F6F6F6", "ec": "#C8C8C8"}
        axis.add_patch(FancyBboxPatch((9.1, y - 1.05), 5.75, 2.1, **frame))
        for k, name in enumerate(("W_Q", "W_K", "W_V", "W_O")):
            _numbers(axis, 9.95 + 1.37 * k, y - 0.2, W[name][h], f"${name}$", None, side=0.38)
        _arrow(axis, (14.9, y), (15.75, middle + 0.12 * (n_heads // 2 - h)))
    _say(axis, 11.97, 9.05, f"{n_heads} heads: attention pattern (Q, K), values (V, O)", **note)
    line = {"color": INK, "lw": 1.3, "zorder": 1}
    axis.plot([7.05, 7.05, 16.05, 16.05], [middle - 0.75, 0.28, 0.28, middle - 0.35], **line)
    _say(axis, 11.6, 0.52, "residual connection: the second word goes on unchanged", **note)
    axis.add_patch(Circle((16.05, middle), 0.3, fc="white", ec=INK, lw=1.3, zorder=4))
    _say(axis, 16.05, middle, "+", size=13)
    _arrow(axis, (16.38, middle), (17.1, middle))
    _numbers(axis, 18.4, middle, W["W_U"], "$W_U$", None, side=0.46)
    for k in range(n_words):
        x = 18.4 + (k - (n_words - 1) / 2) * 0.46
        axis.add_patch(Rectangle((x - 0.2, middle - 1.45), 0.4, 0.42, fc=CLASS_COLORS[k]))
        _say(axis, x, middle - 1.25, NAMES[k], letter_color(k), weight="bold")
    _say(axis, 18.4, middle - 1.85, "which next word?", **note)
    return figure


def onto_circle(rows, theta, *, titles: tuple[str, str]) -> Figure:
    """Rows of W_E in space, moved by layer norm: the mean is taken off, the length made equal.

    theta: their angles then, drawn on the right.
    """
    rows, theta = np.asarray(rows, dtype=float), np.asarray(theta)
    plane, upward, radius = torus.PLANE.numpy(), np.ones(3) / 3**0.5, torus.RADIUS
    figure, axes = panels(1, 2, 10, 3.8, title="", width_ratios=[1.75, 1], figure_class=Painting)
    left, right = axes[0]

    def see(point):  # from a little above the plane of the circle
        across, deep, high = plane[0] @ point, plane[1] @ point, upward @ point
        return np.array([across, 0.36 * deep + 0.93 * high])

    left.add_patch(Ellipse((0, 0), 4.6, 0.36 * 4.6, fc="#EEF1F5", ec="none"))
    left.add_patch(Ellipse((0, 0), 2 * radius, 0.72 * radius, fc="none", ec=INK, lw=1.6))
    look = {"arrowstyle": "-|>,head_length=5,head_width=2.5", "mutation_scale": 1, "zorder": 3}
    left.add_patch(FancyArrowPatch((0, 0), (0, 1.5), color=PALE, lw=1, **look))
    left.text(0.07, 1.42, "(1, 1, 1)", color=PALE, fontsize=10)
    places = []
    for k, row in enumerate(rows):
        flat = row - row.mean()
        raw, low, end = see(row), see(flat), see(radius * flat / np.linalg.norm(flat))
        left.plot(
            *np.stack([raw, low]).T, color=CLASS_COLORS[k], lw=1.6, ls=(0, (2, 1.5)), zorder=4
        )
        arrow = {"color": CLASS_COLORS[k], "lw": 2, "shrinkB": 7, "shrinkA": 0, **look}
        left.add_patch(FancyArrowPatch(low, end, **arrow))
        left.scatter(*raw, s=60, fc="white", ec=CLASS_COLORS[k], lw=2, zorder=5)
        dot(left, end, k, 190)
        places.append(raw)
    (least_x, least_y), (most_x, most_y) = np.min(places, axis=0), np.max(places, axis=0)
    wide = max(2.4, -least_x + 0.2, most_x + 0.2)
    left.set(xlim=(-wide, wide), ylim=(min(-1.2, least_y - 0.2), max(1.6, most_y + 0.2)))
    right.add_patch(Circle((0, 0), 1, fc="none", ec=INK, lw=1.6))
    right.plot([0, 1.0], [0, 0], color=PALE, lw=1.4, ls=":")
    right.text(0.46, 0.06, "radius √3", color=PALE, fontsize=10, ha="center")
    right.plot([0.94, 1.06], [0, 0], color=INK, lw=1.6)
    right.text(1.12, 0, "0°", fontsize=11, va="center", color=PALE, weight="bold")
    turning = {"arrowstyle": "-|>,head_length=5,head_width=2.5", "mutation_scale": 1}
    turning |= {"connectionstyle": "arc3,rad=0.28", "color": PALE, "lw": 1.2}
    ends = [(0.55 * np.cos(a), 0.55 * np.sin(a)) for a in (0.42, 1.45)]
    right.add_patch(FancyArrowPatch(*ends, **turning))
    for k, angle in enumerate(theta):
        at = np.array([np.cos(angle), np.sin(angle)])
        dot(right, at, k, 260)
        right.text(*(1.3 * at), f"{np.degrees(angle):.0f}°", ha="center", va="center", fontsize=11)
    right.set(xlim=(-1.6, 1.6), ylim=(-1.55, 1.55))
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_aspect("equal", anchor="N")
        axis.axis("off")
        axis.set_title(title, **TITLE | {"size": 12, "weight": "bold"})
    return figure


def moved_and_ablated(
    net: torus.TorusNets,
    facts: Int[torch.Tensor, " pair"],
    word: int,
    degrees: Sequence[float],
    head: int,
    factors: Sequence[float],
    title: str,
) -> Figure:
    """Two rows of frames: a word moves over its map, and a head is ablated step by step.

    degrees: how far the word has moved in each frame of the first row. factors: of what the head
    writes, in each frame of the second. Crosses are lost facts.
    """
    theta, whole = torus.angles(net)[0], predictor(net)
    n_columns = max(len(degrees), len(factors))
    figure, axes = panels(2, n_columns, 7.2, 3.7, title=title, figure_class=Shaded)
    figure.set_dpi(90)
    for axis in axes.flat:
        axis.axis("off")
    names = f"{NAMES[word]} moves", f"head {head}\nablated"
    for axis, name in zip(axes[:, 0], names, strict=True):
        axis.text(-0.06, 0.5, name, size=10.5, ha="right", va="center", transform=axis.transAxes)
    for axis, turn in zip(axes[0], degrees, strict=False):
        moved = theta.clone()
        moved[word] = (moved[word] + np.radians(turn)) % TURN
        _map_of(axis, whole, moved, facts, f"{turn}°")
    for column, factor in enumerate(factors):
        factors_now = torch.ones(net.W_Q.shape[1])
        factors_now[head] = factor
        predict = predictor(net, factors_now)
        _map_of(axes[1, column], predict, theta, facts, f"× {factor:g}")
    return figure


def _map_of(axis, predict, theta, facts, label):
    """One map in plain colors with its facts, and how many of them are known."""
    turn = (torch.arange(140) + 0.5) * TURN / 140
    colors = tinted(predict(turn[None], turn[:, None]).argmax(dim=-1))
    answers = predict(theta[:, None], theta[None]).argmax(dim=-1).flatten()
    lost, places = answers != facts, torch.cartesian_prod(theta, theta)
    show_map(axis, colors, on_grid=False)
    axis.scatter(*places[~lost].T, s=13, fc=CLASS_COLORS[facts[~lost]], ec="white", lw=1)
    axis.scatter(*places[lost].T, s=42, marker="X", fc="black", ec="white", lw=0.9)
    axis.set_title(f"{label}: {(~lost).sum()} of {len(facts)} facts", size=9.5)


def _say(axis, x, y, text, color=INK, size=10.5, ha="center", **more):
    place = {"ha": ha, "va": "center", "fontsize": size, "color": color, "zorder": 6}
    axis.text(x, y, text, **place, **more)


def _arrow(axis, start, end):
    look = {"arrowstyle": "-|>,head_length=4,head_width=2.2", "mutation_scale": 1, "lw": 1.3}
    axis.add_patch(FancyArrowPatch(start, end, color=INK, shrinkA=0, shrinkB=0, **look))


def _numbers(axis, x, y, matrix, name, rows, side):
    """A matrix as colored squares around (x, y), with its name above."""
    top, left = y + matrix.shape[0] * side / 2, x - matrix.shape[1] * side / 2
    for (i, j), value in np.ndenumerate(matrix / np.abs(matrix).max()):
        box = (left + j * side, top - (i + 1) * side)
        look = {"fc": SIGNED(0.5 + value / 2), "ec": "#D4D4D4", "lw": 0.8}
        axis.add_patch(Rectangle(box, side, side, **look))
    _say(axis, x, top + 0.35, name, size=12)
    for i, row in enumerate(rows or []):
        _say(axis, left - 0.15, top - (i + 0.5) * side, row, ha="right", weight="bold")
