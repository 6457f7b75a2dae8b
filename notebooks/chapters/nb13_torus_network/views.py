"""The live torus network of notebook 13, in the page itself: alive without a kernel."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.widgets import Page
from chapters.torus import networks as torus
from chapters.torus.figures import ATTENTION, CLASS_COLORS


class TorusView(Page):
    """One network in the page: its map, the torus, the globe and where each head attends, linked.

    Words can be dragged, any pair of angles asked, torus and globe turned; each head has a factor
    of its scores and one of what it writes. net: one network of five words. facts: [pair]. still:
    a figure for places without scripts.
    """

    def __init__(self, net: torus.TorusNets, facts, still: Figure):
        weights = {name: np.round(W[0].tolist(), 5).tolist() for name, W in net.tensors().items()}
        view = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
        view[2] *= np.linalg.det(view)
        ramp = (255 * ATTENTION(np.linspace(0, 1, 64))[:, :3]).round().astype(int)
        data = {
            "theta": torus.angles(net)[0].tolist(),
            "facts": facts.tolist(),
            "colors": CLASS_COLORS[:5].round(4).tolist(),
            "view": view.round(5).tolist(),
            "ramp": ramp.tolist(),
            "elevation": 42,
            "azimuth": 42,
            **weights,
        }
        script, said = Path(__file__).with_name("torus.js"), "a torus network, to drag and to turn"
        super().__init__(script, data, still, said)
