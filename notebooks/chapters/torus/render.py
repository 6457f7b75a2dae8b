"""A small renderer: triangles, a depth for each pixel, soft light with a highlight, pearls."""

from typing import NamedTuple

import numpy as np
from PIL import Image, ImageFilter

from chapters.torus.palette import CLASS_COLORS

LIGHT = np.array([-0.45, 0.55, 0.7], np.float32) / np.float32(np.sqrt(0.995))  # right, up, to eye


def camera(elevation: float, azimuth: float):
    """Unit vectors [3, 3] to the right, up and to the eye; angles in degrees."""
    e, a = np.radians(elevation), np.radians(azimuth)
    eye = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    right = np.array([-np.sin(a), np.cos(a), 0])
    return np.stack([right, np.cross(eye, right), eye])


def lit(colors, normals):
    """Colors [.., 3] under soft light with a highlight; normals in (right, up, to the eye)."""
    soft = np.clip(normals @ LIGHT * 0.5 + 0.5, 0, 1) ** 1.3
    half = LIGHT + np.float32([0, 0, 1])
    half /= np.linalg.norm(half)
    shine = np.clip(normals @ half, 0, 1) ** 40
    return np.clip(colors * (0.36 + 0.74 * soft)[..., None] + 0.25 * shine[..., None], 0, 1)


class Seen(NamedTuple):
    """What a picture's pixels see of a sheet of points."""

    depth: np.ndarray  # [y, x]: how near to the eye; -inf where nothing is seen
    place: np.ndarray  # [pixel that sees it, 2]: how far down and across the sheet, 0 … 1
    normal: np.ndarray  # [pixel that sees it, 3], in (right, up, to the eye)


def look(points, view, scale: float, shape: tuple[int, int]) -> Seen:
    """A sheet [row, column, 3] from view (`camera`): the nearest of its triangles for each pixel.

    scale: pixels for a length of 1; the point 0 stands in the middle of the picture.
    """
    seen = np.asarray(points, dtype=float) @ view.T
    down, across = np.meshgrid(*(np.linspace(0, 1, n) for n in seen.shape[:2]), indexing="ij")
    values = np.concatenate(
        [down[..., None], across[..., None], _normals(seen)], -1, dtype=np.float32
    )
    number = np.arange(down.size).reshape(down.shape)
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]
    corners = np.stack([np.stack([a, b, c], -1), np.stack([a, c, d], -1)]).reshape(-1, 3)
    middle = np.array([shape[1], shape[0]]) / 2
    at = (middle + scale * seen[..., :2] * [1, -1]).reshape(-1, 2)[corners]  # [triangle, 3, x y]
    high = seen[..., 2].ravel()[corners]
    (ax, ay), (bx, by), (cx, cy) = np.moveaxis(at, 0, -1)
    area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
    first = np.clip(np.floor(at.min(axis=1)), 0, None).astype(int)
    last = np.clip(np.ceil(at.max(axis=1)) + 1, 0, shape[::-1]).astype(int)
    depth, which = np.full(shape, -np.inf, np.float32), np.zeros(shape, np.int32)
    weights = np.zeros((*shape, 2), np.float32)  # of the second and the third corner
    y, x = np.arange(shape[0])[:, None] + 0.5, np.arange(shape[1])[None] + 0.5
    for i in np.flatnonzero((np.abs(area) > 1e-9) & (first < last).all(axis=1)):
        box = slice(first[i, 1], last[i, 1]), slice(first[i, 0], last[i, 0])
        dx, dy = x[:, box[1]] - ax[i], y[box[0]] - ay[i]
        w2 = (dx * (cy[i] - ay[i]) - (cx[i] - ax[i]) * dy) / area[i]
        w3 = ((bx[i] - ax[i]) * dy - dx * (by[i] - ay[i])) / area[i]
        near = high[i, 0] + w2 * (high[i, 1] - high[i, 0]) + w3 * (high[i, 2] - high[i, 0])
        nearer = (w2 > -1e-9) & (w3 > -1e-9) & (w2 + w3 < 1 + 1e-9) & (near > depth[box])
        depth[box][nearer], which[box][nearer] = near[nearer], i
        weights[box][nearer] = np.stack([w2, w3], -1)[nearer]
    hit = np.isfinite(depth)
    (w2, w3), which = weights[hit].T[..., None], which[hit]
    one, two, three = (values.reshape(-1, 5)[corners[which, k]] for k in range(3))
    mixed = one + w2 * (two - one) + w3 * (three - one)
    normal = mixed[:, 2:] / np.linalg.norm(mixed[:, 2:], axis=1, keepdims=True)
    return Seen(depth, mixed[:, :2], normal)


def _normals(seen):
    """Unit normals [row, column, 3] that face the eye, for a sheet in (right, up, to the eye)."""
    along = []
    for axis in (0, 1):
        slope = np.gradient(seen, axis=axis)
        line, ends = np.moveaxis(slope, axis, 0), np.moveaxis(seen, axis, 0)
        if np.allclose(ends[0], ends[-1]):  # the sheet closes on itself
            line[0] = line[-1] = (ends[1] - ends[-2]) / 2
        along.append(slope)
    normal = np.cross(*along)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True) + 1e-12
    return normal * np.where(normal[..., 2:] < 0, -1, 1)


def texture(colors, place):
    """The colors [n, n, 3] of a sheet at places [.., 2] in 0 … 1, mixed between cells, cyclic."""
    n = np.array(colors.shape[:2], np.int32)
    at = (place * n - 0.5).astype(np.float32)
    low = np.floor(at).astype(np.int32)
    (v, u), (i, j) = np.moveaxis(at - low, -1, 0)[..., None], np.moveaxis(low, -1, 0)
    k, m = (i + 1) % n[0], (j + 1) % n[1]
    i, j = i % n[0], j % n[1]
    top = colors[i, j] * (1 - u) + colors[i, m] * u
    return top * (1 - v) + (colors[k, j] * (1 - u) + colors[k, m] * u) * v


def rendered(points, colors, view, width: int, height: int, reach: float, dots=None, shadow=None):
    """A lit picture [height, width, 3] of a sheet in its colors [n, n, 3], and where its dots are.

    reach: half the width in units of space. dots: (points [dot, 3], classes), as pearls; the list
    that comes back has (x, y, class) in units of space for each whose middle is seen. shadow: how
    far below 0 a ground lies on which the sheet casts one.
    """
    shape, scale = (2 * height, 2 * width), width / reach
    seen = look(points, view, scale, shape)
    image = np.ones((*shape, 3), np.float32)
    if shadow is not None:
        image *= 1 - _shadow(points, view, scale, shape, shadow)[..., None]
    hit = np.isfinite(seen.depth)
    image[hit] = lit(texture(np.asarray(colors, np.float32), seen.place), seen.normal)
    labels, depth = [], seen.depth
    for at, which in zip(*dots, strict=True) if dots is not None else ():
        x, y, near = view @ np.asarray(at, dtype=float)
        if pearl(image, depth, (x, y, near), scale, CLASS_COLORS[which], reach / 27):
            labels.append((x, y, which))
    return image.reshape(height, 2, width, 2, 3).mean(axis=(1, 3)), labels


def _shadow(points, view, scale, shape, below):
    """How dark the ground is at each pixel: the sheet seen from above, laid down and blurred."""
    fallen, coarse = np.array(points, dtype=float)[::2, ::2], 6
    fallen[..., 2] = -below
    small = look(fallen, view, scale / coarse, (shape[0] // coarse, shape[1] // coarse))
    dark = Image.fromarray((76 * np.isfinite(small.depth)).astype(np.uint8))
    soft = dark.filter(ImageFilter.GaussianBlur(0.12 * scale / coarse))
    return np.asarray(soft.resize(shape[::-1], Image.Resampling.BILINEAR)) / 255


def pearl(image, depth, at, scale, color, size) -> bool:
    """Draw a small ball into an image and its depth, where nothing hides it; whether most is seen.

    at: its middle (right, up, to the eye). scale: pixels for a length of 1. size: its radius.
    """
    height, width = depth.shape
    x, y = width / 2 + scale * at[0], height / 2 - scale * at[1]
    reach = int(np.ceil(scale * size)) + 1
    rows = slice(max(0, int(y) - reach), max(0, int(y) + reach + 1))
    columns = slice(max(0, int(x) - reach), max(0, int(x) + reach + 1))
    j, i = np.meshgrid(np.arange(width)[columns] + 0.5, np.arange(height)[rows] + 0.5)
    right, up = (j - x) / scale / size, (y - i) / scale / size
    square = right**2 + up**2
    high = np.sqrt(np.clip(1 - square, 0, None))
    box, near = (rows, columns), at[2] + size * high
    shown = (square < 1) & (near > depth[box])
    ball = lit(np.broadcast_to(color, (*square.shape, 3)), np.stack([right, up, high], -1))
    ball[square > 0.72] = 1
    image[box][shown], depth[box][shown] = ball[shown], near[shown]
    return shown.sum() > 0.8 * (square < 1).sum() > 0
