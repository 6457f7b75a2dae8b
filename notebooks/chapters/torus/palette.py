"""The words' colors, the map of what a network says, and pictures that stay small."""

import io
from base64 import b64encode
from collections.abc import Callable

import numpy as np
import torch
from matplotlib.colors import LinearSegmentedColormap, to_rgb
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
    """A figure that a notebook keeps as a picture of 256 colors: a quarter of the size, sharp."""

    sharpness = 1.2  # pixels for each at which it is shown
    quantizer = {"colors": 256, "method": Image.Quantize.FASTOCTREE}
    kept = None  # colors [n, 3] of uint8 that stand for all: see `palette_of`
    dotted = None  # (left, right) of a part, 0 to 1, whose shades are mixed from dots of colors

    def _ipython_display_(self):
        from IPython.display import display

        buffer, few = io.BytesIO(), io.BytesIO()
        self.savefig(buffer, format="png", dpi=self.sharpness * self.dpi, facecolor="white")
        full = Image.open(buffer).convert("RGB")
        if self.kept is None:
            colors = full.quantize(**self.quantizer, dither=Image.Dither.NONE)
        else:
            colors = _nearest(full, self.kept)
        if self.dotted is not None:
            left, right = (round(full.width * end) for end in self.dotted)
            box = (left, 0, right, full.height)
            colors.paste(full.crop(box).quantize(palette=colors), box)
        shades = np.reshape(colors.getpalette(), (-1, 3))
        shades[shades.min(axis=1) > 247] = 255  # white stays white
        colors.putpalette(shades.ravel().tolist())
        colors.save(few, format="png", optimize=True)
        data = {"image/png": b64encode(few.getvalue()).decode(), "text/plain": repr(self)}
        width = round(self.get_figwidth() * self.dpi)
        display(data, raw=True, metadata={"image/png": {"width": width}})


class Shaded(Painting):
    """A picture of the 256 colors that are nearest to all: for light that changes softly."""

    sharpness = 1
    quantizer = {"colors": 256, "method": Image.Quantize.MEDIANCUT, "kmeans": 3}


def palette_of(*ramps, n: int = 33) -> np.ndarray:
    """Colors to be `kept` by a painting: n of each ramp, so that none borrows another's shades.

    ramps: colormaps. Beside them are INK and the words' colors, mixed with white, and the orange of
    a frontier, mixed with the last ramp. Raises ValueError for more than 256 colors.
    """
    orange, white = np.array([0.902, 0.624, 0]), np.ones(3)
    mixed = [(np.array(to_rgb(INK)), 0.8 * white, 12)]  # no paler, or tints would turn gray
    mixed += [(np.asarray(color), white, 5) for color in CLASS_COLORS[:5]]
    mixed += [(orange, white, 5), *((orange, np.array(ramps[-1](at)[:3]), 5) for at in (0.5, 1.0))]
    shades = [ramp(np.linspace(0, 1, n))[:, :3] for ramp in ramps]
    shades += [np.linspace(one, other, steps) for one, other, steps in mixed]
    colors = (255 * np.concatenate(shades)).round().astype(np.uint8)
    if len(colors) > 256:
        raise ValueError(f"a picture has at most 256 colors, these are {len(colors)}: lower n")
    return colors


def letter_color(word: int) -> str:
    """Black or white, whichever is easier to read on the color of a word."""
    return INK if CLASS_COLORS[word] @ (0.299, 0.587, 0.114) > 0.58 else "white"


def asker(net: torus.TorusNets, shares=1.0, residual: bool = True, hard: bool = False) -> Callable:
    """A function of two tensors of angles: one network's probabilities, [.., next word].

    shares: how much each head's output counts, [head] or one number for all. residual: whether the
    second word's own stream counts. hard: each head looks at one word only.
    """
    shares = torch.as_tensor(shares, dtype=net.W_Q.dtype).expand(net.W_Q.shape[1])

    def ask(theta1, theta2):
        theta1, theta2 = torch.broadcast_tensors(theta1, theta2)
        first, second = (torus.circle(each.flatten())[None] for each in (theta1, theta2))
        said = torus.logits(net, first, second, shares, residual, hard)[0]
        return said.softmax(dim=-1).view(*theta1.shape, -1)

    return ask


def painted(ask: Callable, cells: int = 480):
    """The map of a network's opinion: colors [θ2, θ1, 3], mixed like light, paler where unsure.

    ask: a function of two tensors of angles, which gives [.., next word]; see `asker`.
    """
    turn = (torch.arange(cells) + 0.5) * TURN / cells
    chances = np.asarray(ask(turn[None, :], turn[:, None]), dtype=np.float32)
    guess = 1 / chances.shape[-1]
    sure = ((chances.max(axis=-1, keepdims=True) - guess) / (1 - guess)).clip(0, 1) ** 0.6
    light = chances @ CLASS_COLORS[: chances.shape[-1]].astype(np.float32) ** 2.2
    return 1 - sure * (1 - light ** (1 / 2.2))


def _nearest(picture, colors):
    """The picture with a palette: for each pixel the color that is nearest to it."""
    pixels = np.asarray(picture).reshape(-1, 3) @ np.array([1 << 16, 1 << 8, 1])
    used, where = np.unique(pixels, return_inverse=True)
    shades = np.stack([used >> 16, used >> 8 & 255, used & 255], axis=1)
    away = np.square(shades[:, None] - colors.astype(int)).sum(axis=-1)
    indices = away.argmin(axis=1).astype(np.uint8)[where]
    found = Image.fromarray(indices.reshape(picture.height, picture.width))
    found.putpalette(colors.tobytes())
    return found
