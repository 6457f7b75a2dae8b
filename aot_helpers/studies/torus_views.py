"""Live views of the torus notebooks, in the page itself: alive without a kernel."""

from base64 import b64encode

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.widgets import Page
from aot_helpers.studies import torus
from aot_helpers.studies.torus_colors import CLASS_COLORS
from aot_helpers.studies.torus_surfaces import centered, surfaces


class SurfaceView(Page):
    """A closed surface in the page that can be turned by dragging or with the arrow keys.

    points: [n, n, 3], where row and column n would be row and column 0 again, as on a torus.
    colors: [m, m, 3] in 0 … 1, on any grid of their own. description: a sentence about what is
    shown. elevation, azimuth: degrees from which it is first seen. stretch: make its three extents
    equal. Raises ValueError for other shapes and for colors out of range.
    """

    def __init__(
        self,
        points,
        colors,
        description: str,
        elevation: float = 35,
        azimuth: float = -60,
        stretch: bool = False,
    ):
        points, colors = np.asarray(points, dtype=float), np.asarray(colors, dtype=float)
        n, m = len(points), len(colors)
        if points.shape != (n, n, 3) or n < 3 or colors.shape != (m, m, 3):
            raise ValueError(
                "points must have shape [n, n, 3] with n >= 3, and colors [m, m, 3], "
                f"got {points.shape} and {colors.shape}"
            )
        if not np.isfinite(points).all() or not (0 <= colors.min() <= colors.max() <= 1):
            raise ValueError("points must be finite and colors in 0 … 1: scale them")
        inside = centered(points) / (
            np.maximum(np.ptp(points, axis=(0, 1)), 1e-12) if stretch else 1
        )
        inside /= np.linalg.norm(inside, axis=-1).max()  # no turn leaves the picture
        data = {
            "points": _packed((32767 * inside).round().astype("<i2")),
            "colors": _packed((255 * colors).round().astype(np.uint8)),
            "n": n, "m": m, "elevation": elevation, "azimuth": azimuth, "said": description,
        }  # fmt: skip
        still = surfaces([points], [colors], [""], elevation, azimuth, stretch=stretch)
        super().__init__("surface.js", data, still, description)


class TorusView(Page):
    """One network in the page: drag words, mute heads, turn the globe; the map follows at once.

    net: one network of five words. facts: [pair]. still: a figure for places without scripts.
    """

    def __init__(self, net: torus.TorusNets, facts, still: Figure):
        weights = {name: np.round(W[0].tolist(), 5).tolist() for name, W in net.tensors().items()}
        view = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
        view[2] *= np.linalg.det(view)
        data = {"theta": torus.angles(net)[0].tolist(), "facts": facts.tolist()}
        data |= {"colors": CLASS_COLORS.round(4).tolist(), "view": view.tolist(), **weights}
        super().__init__("torus.js", data, still, "a torus network, to drag and to turn")


def _packed(numbers) -> str:
    return b64encode(np.ascontiguousarray(numbers).tobytes()).decode()
