"""Live views of the torus notebooks, in the page itself: alive without a kernel."""

from base64 import b64encode
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from aot_helpers.showing.widgets import Page
from chapters.torus import networks as torus
from chapters.torus.palette import CLASS_COLORS, SHARES
from chapters.torus.surfaces import centered, surface


class SurfaceView(Page):
    """A closed surface in the page that can be turned by dragging or with the arrow keys.

    points: [n, n, 3], where row and column n would be row and column 0 again, as on a torus.
    colors: [m, m, 3] in 0 … 1, on any grid of their own. description: a sentence about what is
    shown. elevation, azimuth: degrees from which it is first seen. stretch: make its three extents
    equal. dots: points [dot, 3] and their classes, as pearls. still: a figure for places without
    scripts, if not the surface alone. Raises ValueError for other shapes and for colors out of
    range.
    """

    def __init__(
        self,
        points,
        colors,
        description: str,
        elevation: float = 35,
        azimuth: float = -60,
        stretch: bool = False,
        dots=None,
        still: Figure | None = None,
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
        middle = (points - centered(points))[0, 0]
        extents = np.maximum(np.ptp(points, axis=(0, 1)), 1e-12) if stretch else 1
        inside = (points - middle) / extents
        reach = np.linalg.norm(inside, axis=-1).max()  # no turn leaves the picture
        inside /= reach
        data = {
            "points": _packed((32767 * inside).round().astype("<i2")),
            "colors": _packed((255 * colors).round().astype(np.uint8)),
            "n": n, "m": m, "elevation": elevation, "azimuth": azimuth, "said": description,
        }  # fmt: skip
        if dots is not None:
            places = (np.asarray(dots[0], dtype=float) - middle) / extents / reach
            shades = 255 * CLASS_COLORS[np.asarray(dots[1])]
            data["dots"] = np.concatenate([places, shades], axis=1).round(4).tolist()
        still = still or surface(points, colors, "", elevation, azimuth, stretch=stretch)
        super().__init__(Path(__file__).with_name("surface.js"), data, still, description)
        self._script = _with_mesh(self._script)


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
        data = {"theta": torus.angles(net)[0].tolist(), "facts": facts.tolist()}
        ramp = (255 * SHARES(np.linspace(0, 1, 64))[:, :3]).round().astype(int).tolist()
        data |= {"colors": CLASS_COLORS[:5].round(4).tolist(), "view": view.round(5).tolist()}
        data |= {"ramp": ramp, "elevation": 42, "azimuth": 42, **weights}
        super().__init__(
            Path(__file__).with_name("torus.js"),
            data,
            still,
            "a torus network, to drag and to turn",
        )


def _with_mesh(script: str) -> str:
    """A view's script with the renderer that it calls, makeMesh."""
    head, body = script[script.index("(root") :].split("{", 1)
    return f"{head}{{\n{Path(__file__).with_name('mesh.js').read_text('utf-8')}\n{body}"


def _packed(numbers) -> str:
    return b64encode(np.ascontiguousarray(numbers).tobytes()).decode()
