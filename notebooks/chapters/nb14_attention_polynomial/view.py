"""The live view of notebook 14: the straight line that a head draws, to drag."""

import math
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

from aot_helpers.showing.widgets import Page
from chapters.torus.figures import ATTENTION, CLASS_COLORS
from chapters.torus.networks import circle


class SweepView(Page):
    """One head in the page: drag the second word, and its straight line sweeps the circle.

    W: the head's W_Q W_Kᵀ / √d_head. p: the two positions. theta: the angle of each of five words.
    second: the angle of the second word at the beginning. still: a figure for places without
    scripts.
    """

    def __init__(self, W, p, theta, second: float, still: Figure):
        plane = circle(torch.tensor([0, math.pi / 2])).T  # columns: the points at 0° and 90°
        numbers = {"W": W, "p1": p[0], "p2": p[1], "plane": plane, "theta": theta}
        data = {name: np.round(each.tolist(), 5).tolist() for name, each in numbers.items()}
        data["colors"] = (255 * CLASS_COLORS[: len(theta)]).round().astype(int).tolist()
        data["ramp"] = (255 * ATTENTION(np.arange(256))[:, :3]).round().astype(int).tolist()
        data["second"] = second
        script, said = (
            Path(__file__).with_name("sweep.js"),
            "the straight line of a second word, to drag",
        )
        super().__init__(script, data, still, said)
