"""What the network of notebook 13 says, as maps: facts, training, boundaries."""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from matplotlib.figure import Figure

from aot_helpers.showing import forms
from chapters.torus import networks as torus
from chapters.torus.palette import (
    CLASS_COLORS,
    INK,
    NAMES,
    PALE,
    Painting,
    Strip,
    painted,
    predictor,
)
from chapters.torus.torus_maps import show_facts, show_map

DASHED = {"color": "white", "lw": 2.2, "ls": (0, (2, 1.6)), "zorder": 3}


def class_map(
    predict: Callable, theta, facts: Int[np.ndarray, " pair"], title: str, example: tuple[int, int]
) -> Figure:
    """The whole network in one picture, with its facts as dots.

    predict: see `predictor`. theta: the angle of each word. example: a pair (i, j) to point out.
    """
    key = {"next word:": INK} | {f"■ {NAMES[k]}": CLASS_COLORS[k] for k in range(len(theta))}
    figure, axes = forms.panels(1, 1, 7.2, 6.6, title=title, key=key, figure_class=Painting)
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
        f"{NAMES[i]} {NAMES[j]} → {fact}", (theta[i], theta[j]), (14, 14), size=12, weight="bold",
        textcoords="offset points", bbox={"fc": "white", "ec": "none", "alpha": 0.9},
    )  # fmt: skip
    return figure


def growing(
    film: Mapping[int, torus.TorusNets],
    accuracy: Float[np.ndarray, "step net"],
    facts: Int[np.ndarray, " pair"],
    title: str,
    without: Float[np.ndarray, "step net"] | None = None,
) -> Figure:
    """Maps of a network at some steps, over the accuracy of all that were trained.

    film: {step: the first network}. facts: of the first network. without: the accuracy of networks
    without attention scores, if there are any.
    """
    steps, accuracy = list(film), np.asarray(accuracy)
    figure, axes = forms.panels(
        2, len(film), 10, 3.5, title=title, height_ratios=(1.5, 1), figure_class=Strip
    )
    for axis, (step, net) in zip(axes[0], film.items(), strict=True):
        theta = torus.angles(net)[0]
        show_map(axis, painted(predictor(net), cells=180), on_grid=False)
        show_facts(axis, theta, facts, known=np.zeros(len(facts)), size=90)
        axis.set_title(f"step {step}", **forms.TITLE)
    below = figure.add_subplot(axes[1, 0].get_gridspec()[1, :])
    for axis in axes[1]:
        axis.remove()
    below.plot(accuracy[:, 1:], lw=1.3, color=PALE, alpha=0.6)
    below.plot(accuracy[:, 0], lw=2, color=INK)
    if without is not None:
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
    figure, axes = forms.panels(1, len(maps), 10, 4.2, title=title, figure_class=Painting)
    for axis, (name, classes) in zip(axes[0], maps.items(), strict=True):
        show_map(axis, CLASS_COLORS[classes], theta)
        axis.set_title(name, **forms.TITLE)
        axis.set_ylabel("second word" if axis is axes[0, 0] else "")
    return figure
