"""The words' colors, and maps of the torus: the first word's angle across, the second's up."""

import io
from base64 import b64encode
from collections.abc import Callable

import numpy as np
import torch
from IPython.display import display
from jaxtyping import Float, Int
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from PIL import Image

from chapters.torus import networks as torus

NAMES = "ABCDEFGHIJKL"  # of the words
# Of the words, told apart with any color vision; no two are alike.
CLASS_COLORS = bytes.fromhex(
    "255496 F2BE42 26A08C DB5C37 CDA5DE 78BEF0 5A5A5A 6E3C14 FAA0BE A01E5A BEC83C BEBEBE"
)
CLASS_COLORS = np.frombuffer(CLASS_COLORS, np.uint8).reshape(-1, 3) / 255
ATTENTION = LinearSegmentedColormap.from_list(
    "attention", ["white", "#C9A9DB", "#7B3F99", "#3F1A57"]
)
INK, PALE, TURN = "#222222", "#767676", 2 * np.pi

Map = Float[np.ndarray, "theta2 theta1 *color"]


class Painting(Figure):
    """A figure that a notebook keeps as a picture of few colors: a quarter of the size, sharp."""

    sharpness = 1.1  # pixels for each at which it is shown
    quantizer = {"colors": 256, "method": Image.Quantize.FASTOCTREE}

    def _ipython_display_(self):
        full, few = io.BytesIO(), io.BytesIO()
        self.savefig(full, format="png", dpi=self.sharpness * self.dpi, facecolor="white")
        colors = Image.open(full).convert("RGB").quantize(**self.quantizer, dither=0)
        shades = np.reshape(colors.getpalette(), (-1, 3))
        shades[shades.min(axis=1) > 247] = 255  # white stays white
        colors.putpalette(shades.ravel().tolist())
        colors.save(few, format="png", optimize=True)
        data = {"image/png": b64encode(few.getvalue()).decode(), "text/plain": repr(self)}
        width = round(self.get_figwidth() * self.dpi)
        display(data, raw=True, metadata={"image/png": {"width": width}})


class Shaded(Painting):
    """A picture of the colors that are nearest to all: for light that changes softly."""

    sharpness = 1
    quantizer = {"colors": 128, "method": Image.Quantize.MEDIANCUT, "kmeans": 3}


def letter_color(word: int) -> str:
    """Black or white, whichever is easier to read on the color of a word."""
    return INK if CLASS_COLORS[word] @ (0.299, 0.587, 0.114) > 0.58 else "white"


def predictor(
    net: torus.TorusNets, factors: Float[torch.Tensor, " head"] | None = None
) -> Callable:
    """A function of two tensors of angles: one network's probabilities, [.., next word].

    factors: how much of each head's output counts, all of it if not given.
    """

    def predict(theta1, theta2):
        theta1, theta2 = torch.broadcast_tensors(theta1, theta2)
        first, second = (torus.circle(each.flatten())[None] for each in (theta1, theta2))
        logits = torus.logits(net, first, second, factors)[0]
        return logits.softmax(dim=-1).view(*theta1.shape, -1)

    return predict


def painted(predict: Callable, cells: int = 480):
    """The map of a network's opinion: colors [θ2, θ1, 3], mixed like light, paler where unsure.

    predict: a function of two tensors of angles, which gives [.., next word]; see `predictor`.
    """
    turn = (torch.arange(cells) + 0.5) * TURN / cells
    chances = np.asarray(predict(turn[None, :], turn[:, None]), dtype=np.float32)
    guess = 1 / chances.shape[-1]
    sure = ((chances.max(axis=-1, keepdims=True) - guess) / (1 - guess)).clip(0, 1) ** 0.6
    light = chances @ CLASS_COLORS[: chances.shape[-1]].astype(np.float32) ** 2.2
    return 1 - sure * (1 - light ** (1 / 2.2))


def tinted(classes: Int[np.ndarray, "*at"], strengths: Float[np.ndarray, "*at"] = 1.0):
    """Colors [*at, 3] of the classes, paler for a smaller strength (0: white, 1: full)."""
    return 1 - np.asarray(strengths)[..., None] * (1 - CLASS_COLORS[np.asarray(classes)])


def show_map(axis, values: Map, theta=None, on_grid: bool = True, **look):
    """A map of numbers or of colors as pixels; returns the image.

    theta: the angle of each word, to write their names along the edges. on_grid: whether the values
    are those at the places of `networks.grid`, or those in the middle of cells, as in `painted`.
    look: as in `imshow`.
    """
    values, low, high = np.asarray(values), 0.0, TURN
    if on_grid:  # the first pixel stands around angle 0, and comes back around 2π
        half = TURN / len(values) / 2
        values = np.pad(values, [(0, 1)] * 2 + [(0, 0)] * (values.ndim - 2), mode="wrap")
        low, high = -half, TURN + half
    image = axis.imshow(
        values, origin="lower", extent=(low, high) * 2, interpolation="bilinear", **look
    )
    axis.set(xlim=(0, TURN), ylim=(0, TURN), xticks=[], yticks=[])
    axis.spines[:].set(visible=True, color="#C8C8C8")
    if theta is not None:
        theta, names = np.asarray(theta) % TURN, list(NAMES[: len(theta)])
        axis.set_xticks(theta, names, fontsize=11, weight="bold")
        axis.set_yticks(theta, names, fontsize=11, weight="bold")
        axis.set(xlabel="first word", ylabel="second word")
        axis.tick_params(length=3, color=PALE)
    return image


def frontier(axis, values: Map, color="#E69F00", width: float = 1.8) -> None:
    """The line where a map of numbers is zero; none where it has one sign."""
    values = np.pad(np.asarray(values), (0, 1), mode="wrap")
    if values.min() < 0 < values.max():
        turn = np.linspace(0, TURN, len(values))
        axis.contour(turn, turn, values, levels=[0], colors=color, linewidths=width)


def dot(axis, place, word: int, size: float, letter: bool = True) -> None:
    """A word on an axis: a dot in its color, with its letter."""
    look = {"edgecolors": "white", "linewidths": max(1, size**0.5 / 9), "clip_on": False}
    axis.scatter(*place, s=size, color=CLASS_COLORS[word], zorder=5, **look)
    if letter:
        look = {"fontsize": max(9, 0.65 * size**0.5), "weight": "bold", "zorder": 6}
        look |= {"ha": "center", "va": "center_baseline", "color": letter_color(word)}
        axis.text(*place, NAMES[word], **look)
