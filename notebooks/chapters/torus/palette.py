"""The words' colors, the map of what a network says, and pictures that stay small."""

import io
from base64 import b64encode
from collections.abc import Callable, Mapping

import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from PIL import Image

from chapters.torus import networks as torus

NAMES = "ABCDEFGHIJKL"  # of the words
CLASS_COLORS = np.array([  # of the words, told apart with any color vision; no two are alike
    [37, 84, 150], [242, 190, 66], [38, 160, 140], [219, 92, 55], [205, 165, 222], [120, 190, 240],
    [90, 90, 90], [110, 60, 20], [250, 160, 190], [160, 30, 90], [190, 200, 60], [190, 190, 190],
]) / 255  # fmt: skip
SHARES = LinearSegmentedColormap.from_list("shares", ["white", "#C9A9DB", "#7B3F99", "#3F1A57"])
INK, PALE, TURN = "#222222", "#767676", 2 * np.pi


class Painting(Figure):
    """A figure that a notebook keeps as a picture of few colors: a quarter of the size, sharp."""

    sharpness = 1.1  # pixels for each at which it is shown
    quantizer = {"colors": 256, "method": Image.Quantize.FASTOCTREE}

    def _ipython_display_(self):
        show_small(self, self.sharpness, self.quantizer)


class Shaded(Painting):
    """A picture of the 256 colors that are nearest to all: for light that changes softly."""

    sharpness = 1
    quantizer = {"colors": 256, "method": Image.Quantize.MEDIANCUT, "kmeans": 3}


class Strip(Shaded):
    """A picture of fewer colors, for what a notebook holds twice or has many of."""

    quantizer = Shaded.quantizer | {"colors": 96}


def show_small(
    figure: Figure,
    sharpness: float = 1.1,
    quantizer: Mapping = Painting.quantizer,
) -> None:
    """Show a figure in a notebook as a picture of few colors; for the rest, see `Painting`.

    quantizer: how they are chosen.
    """
    from IPython.display import display

    buffer, few = io.BytesIO(), io.BytesIO()
    figure.savefig(buffer, format="png", dpi=sharpness * figure.dpi, facecolor="white")
    full = Image.open(buffer).convert("RGB")
    colors = full.quantize(**quantizer, dither=Image.Dither.NONE)
    shades = np.reshape(colors.getpalette(), (-1, 3))
    shades[shades.min(axis=1) > 247] = 255  # white stays white
    colors.putpalette(shades.ravel().tolist())
    colors.save(few, format="png", optimize=True)
    data = {"image/png": b64encode(few.getvalue()).decode(), "text/plain": repr(figure)}
    width = round(figure.get_figwidth() * figure.dpi)
    display(data, raw=True, metadata={"image/png": {"width": width}})


def letter_color(word: int) -> str:
    """Black or white, whichever is easier to read on the color of a word."""
    return INK if CLASS_COLORS[word] @ (0.299, 0.587, 0.114) > 0.58 else "white"


def predictor(
    net: torus.TorusNets, shares=1.0, residual: bool = True, hard: bool = False
) -> Callable:
    """A function of two tensors of angles: one network's probabilities, [.., next word].

    shares: how much each head's output counts, [head] or one number for all. residual: whether the
    second word's own stream counts. hard: each head looks at one word only.
    """
    shares = torch.as_tensor(shares, dtype=net.W_Q.dtype).expand(net.W_Q.shape[1])

    def predict(theta1, theta2):
        theta1, theta2 = torch.broadcast_tensors(theta1, theta2)
        first, second = (torus.circle(each.flatten())[None] for each in (theta1, theta2))
        logits = torus.logits(net, first, second, shares, residual, hard)[0]
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
