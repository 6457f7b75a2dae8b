"""The live view of notebook 14: the straight line that a head draws, to drag."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.widgets import Page
from chapters.torus.palette import CLASS_COLORS, SHARES


class SweepView(Page):
    """One head in the page: drag the second word, and its straight line sweeps the circle.

    head: its eleven coefficients. theta: the angle of each of five words. second: the angle of the
    second word at the beginning. still: a figure for places without scripts.
    """

    def __init__(self, head, theta, second: float, still: Figure):
        colors = (255 * CLASS_COLORS[: len(theta)]).round().astype(int).tolist()
        ramp = (255 * SHARES(np.arange(256))[:, :3]).round().astype(int).tolist()
        data = {"theta": [round(float(t), 5) for t in theta], "second": second}
        data |= {"colors": colors, "ramp": ramp}
        data["coefficients"] = [round(float(each), 5) for each in head]
        said = "the straight line of a second word, to drag"
        super().__init__(Path(__file__).with_name("sweep.js"), data, still, said)
