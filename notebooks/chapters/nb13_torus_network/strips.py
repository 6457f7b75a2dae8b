"""A film strip of the live network, for places where it cannot move."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Int, UInt8
from matplotlib.figure import Figure

from aot_helpers.showing import forms
from chapters.torus import networks as torus
from chapters.torus.palette import CLASS_COLORS, NAMES, TURN, Strip, predictor
from chapters.torus.torus_maps import show_map


def flat(predict: Callable, cells: int = 140) -> UInt8[np.ndarray, "theta2 theta1 3"]:
    """The map of a network's answers in the plain colors of its words.

    predict: see `predictor`. Only cells at a border are mixed, each from four points.
    """
    turn = (torch.arange(2 * cells) + 0.5) * TURN / (2 * cells)
    answers = predict(turn[None, :], turn[:, None]).argmax(dim=-1).numpy()
    colors = CLASS_COLORS[answers].reshape(cells, 2, cells, 2, 3).mean(axis=(1, 3))
    return (255 * colors).round().astype(np.uint8)


def moved_and_ablated(
    net: torus.TorusNets, facts: Int[torch.Tensor, " pair"], word: int, degrees: Sequence[float],
    head: int, factors: Sequence[float], title: str,
) -> Figure:  # fmt: skip
    """Two rows of frames: a word moves over its map, and a head is ablated step by step.

    degrees: how far the word has moved in each frame of the first row. factors: of what the head
    writes, in each frame of the second. Crosses are lost facts.
    """
    theta, whole = torus.angles(net)[0], predictor(net)
    n_columns = max(len(degrees), len(factors))
    figure, axes = forms.panels(2, n_columns, 7.2, 3.7, title=title, figure_class=Strip)
    figure.set_dpi(90)
    for axis in axes.flat:
        axis.axis("off")
    names = f"{NAMES[word]} moves", f"head {head}\nablated"
    for axis, name in zip(axes[:, 0], names, strict=True):
        axis.text(-0.06, 0.5, name, size=10.5, ha="right", va="center", transform=axis.transAxes)
    for axis, turn in zip(axes[0], degrees, strict=False):
        moved = theta.clone()
        moved[word] = (moved[word] + np.radians(turn)) % TURN
        _map_of(axis, whole, flat(whole), moved, facts, f"{turn}°")
    for column, factor in enumerate(factors):
        left = torch.ones(net.W_Q.shape[1])
        left[head] = factor
        predict = predictor(net, left)
        _map_of(axes[1, column], predict, flat(predict), theta, facts, f"× {factor:g}")
    return figure


def _map_of(axis, predict, colors, theta, facts, label):
    """One map with its facts, and how many of them are known."""
    answers = predict(theta[:, None], theta[None]).argmax(dim=-1).flatten()
    lost, places = answers != facts, torch.cartesian_prod(theta, theta)
    show_map(axis, colors, on_grid=False)
    axis.scatter(*places[~lost].T, s=13, fc=CLASS_COLORS[facts[~lost]], ec="white", lw=1)
    axis.scatter(*places[lost].T, s=42, marker="X", fc="black", ec="white", lw=0.9)
    axis.set_title(f"{label}: {(~lost).sum()} of {len(facts)} facts", size=9.5)
