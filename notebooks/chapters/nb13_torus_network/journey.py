"""A whole network on one mesh: its map becomes a tube, a torus, what the heads make of it, a globe.

The circle of second words is the ring of the torus, so that the ring is what is left of it without
heads: their residual stream. First words go around the tube. At time 0 the map lies as in every
other figure: the first word to the right, the second up.
"""

from collections.abc import Iterator

import numpy as np
import torch

from chapters.nb13_torus_network.figures_in_space import TUBE, Scene, angles_around, camera, folded
from chapters.torus import networks as torus
from chapters.torus.figures import CLASS_COLORS, painted, predictor

# The elevation and azimuth from which the mesh is seen at times 0, 1, 2 …
STAGES = (
    (66, 0),  # the map: first word to the right, second word up
    (34, 20),  # a tube: left and right are glued
    (42, 28),  # a torus: top and bottom are glued as well
    (8, 80),  # heads turned up: they add what they write
    (-14, 130),  # onto the globe: every point moves outward
    (-28, 180),  # the pearls in the cells of the unembedding
)


def ease(t: float, start: float) -> float:
    """From 0 before the start to 1 one later, smoothly."""
    x = min(max(t - start, 0.0), 1.0)
    return x * x * (3 - 2 * x)


class Journey:
    """One network's mesh [n + 1, n + 1] of pairs of angles, θ2 down and θ1 across, and its pearls.

    Directions are turned so that the second word's circle lies flat with radius 1. facts: [pair].
    """

    def __init__(self, net: torus.TorusNets, facts, n: int = 48):
        u, v = torus.PLANE.numpy()
        self.turned = np.stack([v, u, np.cross(v, u)]) / torus.RADIUS
        self.net, self.facts, self.n = net.double(), np.asarray(facts), n
        self.offset = self.turned @ self.net.W_pos[0, 1].numpy()
        theta = torus.angles(net)[0].numpy().astype(float)
        self.grid = angles_around(n + 1, n + 1)
        self.pairs = theta.repeat(len(theta)), np.tile(theta, len(theta))
        self.heads, self.written = self.of_heads(*self.grid), self.of_heads(*self.pairs)

    def of_heads(self, theta1, theta2):
        """What all heads write for pairs of angles, [.., 3]."""
        flat = (torus.circle(torch.tensor(theta.ravel()))[None] for theta in (theta1, theta2))
        out = torus.attend(self.net, *flat).out.sum(dim=1)[0].numpy()
        return (out @ self.turned.T).reshape(*theta1.shape, 3)

    def place(self, t: float, theta1, theta2, written):
        """Where pairs of angles are at a time; written: what the heads add for them."""
        turned, power = ease(t, 2), 1 - ease(t, 3)
        tube = (1 + (TUBE - 1) * ease(t, 1)) * (1 - turned)
        at = folded(theta1, theta2, ease(t, 0), ease(t, 1), tube)
        at = at + turned**3 * (self.offset + written)
        return at * np.linalg.norm(at, axis=-1, keepdims=True) ** (power - 1) if t > 3 else at

    def shape(self, t: float):
        """(mesh [n + 1, n + 1, 3], pearls [pair, 3]) at a time, inside a ball of radius 1."""
        mesh, pearls = (
            self.place(t, *where, written)
            for where, written in ((self.grid, self.heads), (self.pairs, self.written))
        )
        middle = (mesh.min(axis=(0, 1)) + mesh.max(axis=(0, 1))) / 2 * (1 - ease(t, 3))
        reach = np.linalg.norm(mesh - middle, axis=-1).max()
        return (mesh - middle) / reach, (pearls - middle) / reach

    def cells(self):
        """The columns of W_U [word, 3], in the mesh's directions: the largest product is a cell."""
        axes = (self.turned @ self.net.W_U[0].numpy()).T
        return axes / np.linalg.norm(axes, axis=1).max()

    def picture(self, t: float, side: int, colors):
        """A lit picture [side, side, 3] at a time. colors: of the mesh, [θ2, θ1, 3]."""
        mesh, pearls = self.shape(t)
        k = min(int(t), len(STAGES) - 2)
        (low, left), (high, right) = STAGES[k : k + 2]
        x = ease(t - k, 0)
        view = camera(low + x * (high - low), left + x * (right - left))
        scene = Scene(view, side, side, reach=1 / 0.94)
        scene.sheet(mesh, colors)
        if t > 4:
            scene.globe(self.cells(), strength=ease(t, 4), shade=0.75)
        for at, fact in zip(pearls, self.facts, strict=True):
            scene.pearl(at + 0.03 * view[2], CLASS_COLORS[fact], 0.042)
        return scene.picture()

    def film(self, side: int = 300, frames: int = 60) -> Iterator[tuple[np.ndarray, int]]:
        """(picture, milliseconds) of each frame of a loop of about eight seconds."""
        colors, last = painted(predictor(self.net), cells=360), len(STAGES) - 1
        for k in range(frames + 1):
            image = self.picture(last * k / frames, side, colors)
            long = {0: 800, frames: 1600}.get(k, 90)
            yield (255 * image).round().astype(np.uint8), long
