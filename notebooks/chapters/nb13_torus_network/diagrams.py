"""The network of notebook 13 drawn whole, and what layer norm does to its words."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse, FancyArrowPatch, FancyBboxPatch, Rectangle

from aot_helpers.showing import forms
from chapters.torus import networks as torus
from chapters.torus.palette import CLASS_COLORS, INK, NAMES, PALE, Painting, letter_color
from chapters.torus.torus_maps import dot

SIGNED = LinearSegmentedColormap.from_list("signed", ["#0072B2", "#F7F7F7", "#D55E00"])


def drawn_whole(net: torus.TorusNets, *, title: str) -> Figure:
    """Every weight of one network as a small square, in the order in which words pass them."""
    W = {name: each[0].numpy() for name, each in net.tensors().items()}
    n_words, n_heads = len(W["W_E"]), len(W["W_Q"])
    note = "Blue: negative, orange: positive. No MLP, and no norm after the heads."
    figure, axes = forms.panels(1, 1, 10, 4.6, title=title, note=note, figure_class=Painting)
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
    figure, axes = forms.panels(
        1, 2, 10, 3.8, title="", width_ratios=[1.75, 1], figure_class=Painting
    )
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
        axis.set_title(title, **forms.TITLE | {"size": 12, "weight": "bold"})
    return figure


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
