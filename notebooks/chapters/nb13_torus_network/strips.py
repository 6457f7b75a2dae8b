"""A film strip of the live network, for places where it cannot move."""

from collections.abc import Callable

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure

from chapters.torus import networks as torus
from chapters.torus.palette import CLASS_COLORS, INK, NAMES, TURN, Shaded, asker
from chapters.torus.render import camera, rendered
from chapters.torus.surfaces import TUBE, ring, turns


class Strip(Shaded):
    """A picture of fewer colors, since a page holds it twice."""

    quantizer = Shaded.quantizer | {"colors": 144}


def flat(ask: Callable, cells: int = 166):
    """The map of a network's answers in the plain colors of its words, [θ2, θ1, 3] of uint8.

    ask: see `torus_colors.asker`. Only cells at a border are mixed, each from four points.
    """
    turn = (torch.arange(2 * cells) + 0.5) * TURN / (2 * cells)
    answers = ask(turn[None, :], turn[:, None]).argmax(dim=-1).numpy()
    colors = CLASS_COLORS[answers].reshape(cells, 2, cells, 2, 3).mean(axis=(1, 3))
    return (255 * colors).round().astype(np.uint8)


def moved_and_muted(
    net: torus.TorusNets, facts, word: int, degrees, head: int, shares, title: str
) -> Figure:
    """Three rows of frames: a word moves over its map, a head falls silent, the same on the torus.

    facts: [pair]. degrees: how far the word has moved in each frame of the first row. shares: how
    much of what the head writes is left in each frame of the other rows. Crosses are lost facts.
    """
    theta, ask = torus.angles(net)[0], asker(net)
    columns, names = max(len(degrees), len(shares)), NAMES[: len(theta)]
    figure = plt.figure(figsize=(8.6, 6.0), dpi=90, FigureClass=Strip)
    plt.close(figure)
    figure.text(0.012, 0.962, title, fontsize=12.5, color=INK)
    for row, name in enumerate(
        (f"{names[word]} moves", f"head {head}\nfalls silent", "the same,\non the torus")
    ):
        figure.text(0.012, (0.755, 0.41, 0.115)[row], name, fontsize=10.5, va="center", color=INK)

    def frame(row, column):
        wide = 0.87 / columns
        box = (0.13 + column * wide, 0.6 - 0.345 * row, wide - 0.006, 0.31)
        return figure.add_axes(box if row < 2 else (box[0], 0, box[2], 0.235))

    def map_of(axis, colors, ask, theta, label):
        said = ask(theta[:, None], theta[None]).argmax(dim=-1).flatten()
        lost, places = said != torch.as_tensor(facts), torch.cartesian_prod(theta, theta)
        axis.imshow(colors, origin="lower", extent=(0, TURN, 0, TURN), interpolation="nearest")
        axis.scatter(*places[~lost].T, s=13, fc=CLASS_COLORS[facts[~lost]], ec="white", lw=1)
        axis.scatter(*places[lost].T, s=42, marker="X", fc="black", ec="white", lw=0.9)
        axis.set(xticks=[], yticks=[], xlim=(0, TURN), ylim=(0, TURN), aspect="equal")
        axis.spines[:].set_visible(False)
        axis.set_title(f"{label}: {(~lost).sum()} of {len(facts)} facts", fontsize=9.5, pad=3)

    colors = flat(ask)
    for column, turn in enumerate(degrees):
        moved = theta.clone()
        moved[word] = (moved[word] + np.radians(turn)) % TURN
        map_of(frame(0, column), colors, ask, moved, f"{turn}°")
    sheet, view = ring(*turns(25, 49)), camera(42, 42)
    both = torch.cartesian_prod(theta, theta).numpy().T
    pearls = ring(*both, TUBE + 0.04)
    for column, share in enumerate(shares):
        left = torch.ones(net.W_Q.shape[1])
        left[head] = share
        less = asker(net, left)
        colors = flat(less)
        map_of(frame(1, column), colors, less, theta, f"× {share:g}")
        image, _ = rendered(sheet, colors / 255, view, 190, 152, 1.66, (pearls, np.asarray(facts)))
        axis = frame(2, column)
        axis.imshow((255 * image).round().astype(np.uint8))
        axis.axis("off")
    return figure
