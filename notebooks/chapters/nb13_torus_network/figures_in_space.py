"""The torus in space, and the globe of directions: surfaces in soft light, with facts as pearls."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from aot_helpers.showing.panels import TITLE, panels
from chapters.torus.figures import CLASS_COLORS, INK, NAMES, TURN, Shaded, letter_color, painted

TUBE = 0.52  # the radius of the tube of the torus, whose ring has radius 1
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


class Scene:
    """A picture in the making: for each pixel its color, and how near to the eye it is.

    view: see `camera`. width, height: of the picture, which is drawn twice as large and halved.
    reach: half its width in units of space; the point 0 stands in its middle.
    """

    def __init__(self, view: Float[np.ndarray, "3 3"], width: int, height: int, reach: float):
        self.view, self.reach, self.scale = view, reach, width / reach
        self.colors = np.ones((2 * height, 2 * width, 3), np.float32)
        self.depth = np.full((2 * height, 2 * width), -np.inf, np.float32)
        x, y = (np.arange(2 * n) + 0.5 - n for n in (width, height))
        self.x, self.y = x[None] / self.scale, -y[:, None] / self.scale  # of each pixel's middle

    def picture(self) -> Float[np.ndarray, "y x 3"]:
        """The picture, in its final size."""
        height, width, _ = self.colors.shape
        return self.colors.reshape(height // 2, 2, width // 2, 2, 3).mean(axis=(1, 3))

    def sheet(self, points: Float[np.ndarray, "row column 3"], colors: Float[np.ndarray, "n n 3"]):
        """Draw a sheet of points, in colors that may be on another grid and close on themselves."""
        seen = np.asarray(points, dtype=float) @ self.view.T
        down, across = np.meshgrid(*(np.linspace(0, 1, n) for n in seen.shape[:2]), indexing="ij")
        place_and_normal = [down[..., None], across[..., None], _normals(seen)]
        values = np.concatenate(place_and_normal, -1, dtype=np.float32).reshape(-1, 5)
        number = np.arange(down.size).reshape(down.shape)
        a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, 1:], number[1:, :-1]
        corners = np.stack([np.stack([a, b, c], -1), np.stack([a, c, d], -1)]).reshape(-1, 3)
        nearest, weights = self._nearest(seen.reshape(-1, 3)[corners])
        hit = nearest >= 0
        mixed = (values[corners[nearest[hit]]] * weights[hit][..., None]).sum(axis=1)
        normal = mixed[:, 2:] / np.linalg.norm(mixed[:, 2:], axis=1, keepdims=True)
        self.colors[hit] = lit(_mixed_colors(np.asarray(colors, np.float32), mixed[:, :2]), normal)

    def _nearest(self, triangles: Float[np.ndarray, "triangle corner 3"]):
        """The nearest triangle at each pixel, -1 for none, and the weights of its corners there."""
        nearest = np.full(self.depth.shape, -1)
        weights = np.zeros((*self.depth.shape, 3), np.float32)
        low, high = triangles.min(axis=1), triangles.max(axis=1)
        columns = np.searchsorted(self.x[0], [low[:, 0], high[:, 0]])
        rows = np.searchsorted(-self.y[:, 0], [-high[:, 1], -low[:, 1]])
        for i, ((ax, ay, az), (bx, by, bz), (cx, cy, cz)) in enumerate(triangles):
            area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
            box = slice(*rows[:, i]), slice(*columns[:, i])
            if abs(area) < 1e-12 or not self.depth[box].size:
                continue
            dx, dy = self.x[:, box[1]] - ax, self.y[box[0]] - ay
            second = (dx * (cy - ay) - (cx - ax) * dy) / area
            third = ((bx - ax) * dy - dx * (by - ay)) / area
            near = az + second * (bz - az) + third * (cz - az)
            first = 1 - second - third
            inside = (first > -1e-9) & (second > -1e-9) & (third > -1e-9)
            shown = inside & (near > self.depth[box])
            self.depth[box][shown], nearest[box][shown] = near[shown], i
            weights[box][shown] = np.stack([first, second, third], -1)[shown]
        return nearest, weights

    def pearl(self, at: Float[np.ndarray, " 3"], color, size: float) -> bool:
        """Draw a small ball where nothing hides it; whether most of it is seen."""
        x, y, z = self.view @ np.asarray(at, dtype=float)
        right, up = (self.x - x) / size, (self.y - y) / size
        square = right**2 + up**2
        ball = square < 1
        high = np.sqrt(np.clip(1 - square, 0, None))
        shown = ball & (z + size * high > self.depth)
        right, up, _ = np.broadcast_arrays(right, up, square)
        colors = lit(np.asarray(color), np.stack([right, up, high], -1)[shown])
        colors[square[shown] > 0.72] = 1
        self.colors[shown], self.depth[shown] = colors, (z + size * high)[shown]
        return shown.sum() > 0.8 * ball.sum() > 0

    def globe(self, columns: Float[np.ndarray, "word 3"], strength: float = 1.0, shade=1.0):
        """Draw a ball of radius 1 in the colors of the largest product with each direction.

        strength: 1 hides what is there, 0 shows nothing of the ball. shade: see `tinted`.
        """
        x, y = np.broadcast_arrays(self.x, self.y)
        ball = x**2 + y**2 < 1
        normal = np.stack([x, y, np.sqrt(np.clip(1 - x**2 - y**2, 0, None))], -1)[ball]
        word = (normal @ self.view @ columns.T).argmax(-1)
        colors = lit(1 - shade * (1 - CLASS_COLORS[word]), normal)
        self.colors[ball] += strength * (colors - self.colors[ball])
        self.depth[ball] = np.maximum(self.depth[ball], normal[:, 2])


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


def _mixed_colors(colors, place):
    """The colors [n, n, 3] of a sheet at places [.., 2] in 0 … 1, mixed between cells, cyclic."""
    n = np.array(colors.shape[:2], np.int32)
    at = (place * n - 0.5).astype(np.float32)
    low = np.floor(at).astype(np.int32)
    (v, u), (i, j) = np.moveaxis(at - low, -1, 0)[..., None], np.moveaxis(low, -1, 0)
    k, m = (i + 1) % n[0], (j + 1) % n[1]
    i, j = i % n[0], j % n[1]
    top = colors[i, j] * (1 - u) + colors[i, m] * u
    return top * (1 - v) + (colors[k, j] * (1 - u) + colors[k, m] * u) * v


def ring(theta1, theta2, tube: float = TUBE):
    """Points [.., 3] of the torus in space: θ1 goes around the tube, θ2 round the ring."""
    out = 1 + tube * np.sin(theta1)
    return np.stack([out * np.cos(theta2), out * np.sin(theta2), tube * np.cos(theta1)], -1)


def folded(theta1, theta2, rolled: float, bent: float, tube: float | None = None):
    """Points [.., 3] of the map on its way to the torus; rolled, bent: 0 (flat) to 1 (closed).

    θ1 is rolled into a tube, which θ2 bends into a ring. tube: its radius, if another one.
    """
    tube = 1 + (TUBE - 1) * bent if tube is None else tube
    rolled, bent = max(rolled, 1e-3), max(bent, 1e-3)
    tube = tube / rolled
    turn, swing = (theta1 - np.pi) * rolled, (theta2 - np.pi) * bent
    wide = 1 / bent - tube * np.sin(turn)
    up = tube * (1 - rolled - np.cos(turn))
    return np.stack([-wide * np.sin(swing), 1 / bent - wide * np.cos(swing) - bent, up], -1)


def angles_around(n_rows: int, n_columns: int):
    """(θ1, θ2) [n_rows, n_columns] from 0 to 2π, both ends included: θ1 across, θ2 down."""
    return np.meshgrid(np.linspace(0, TURN, n_columns), np.linspace(0, TURN, n_rows))


def gluing(predict: Callable, *, title: str) -> Figure:
    """A film strip: the square map is rolled into a tube, and the tube bent into a ring.

    predict: see `figures.predictor`.
    """
    frames = {
        "the map": (0, 0),
        "left meets right: a tube": (0.62, 0),
        "top meets bottom: a ring": (1, 0.6),
        "a torus": (1, 1),
    }
    figure, axes = panels(1, 4, 10, 2.3, title=title, figure_class=Shaded)
    colors, view = painted(predict, cells=420), camera(50, 8)
    for axis, (name, fold) in zip(axes[0], frames.items(), strict=True):
        points = folded(*angles_around(49, 37), *fold)
        points -= (points.max(axis=(0, 1)) + points.min(axis=(0, 1))) / 2
        across, up, _ = np.abs(points @ view.T).max(axis=(0, 1))
        scene = Scene(view, 270, 210, reach=1.03 * max(across, up * 270 / 210))
        scene.sheet(points, colors)
        show_scene(axis, scene, name)
    return figure


def torus_in_space(
    predict: Callable,
    theta: Float[np.ndarray, " word"],
    facts: Int[np.ndarray, " pair"],
    title: str,
    named: Sequence[tuple[int, int]] = (),
) -> Figure:
    """The map without edges, with the facts as pearls; arrows say which word leads where.

    predict: see `figures.predictor`. theta: the angle of each word. named: pairs (i, j) whose names
    stand beside their pearls, where these are seen.
    """
    theta, facts = np.asarray(theta), np.asarray(facts)
    pairs = ring(theta.repeat(len(theta)), np.tile(theta, len(theta)), TUBE + 0.045)
    scene = Scene(camera(42, 42), 660, 500, reach=1.78)
    scene.sheet(ring(*angles_around(65, 33)), painted(predict, cells=560))
    seen = [
        scene.pearl(at, CLASS_COLORS[fact], 0.066) for at, fact in zip(pairs, facts, strict=True)
    ]
    figure, axes = panels(1, 1, 6.2, 4.75, title=title, figure_class=Shaded)
    axis = axes[0, 0]
    show_scene(axis, scene)
    _arrows(axis, scene.view)
    places, middle = pairs @ scene.view.T, {"ha": "center", "va": "center_baseline"}
    frame = {"boxstyle": "round,pad=0.2", "fc": "white", "ec": INK, "lw": 0.8}
    for k in np.flatnonzero(seen):
        (x, y, _), fact, (i, j) = places[k], facts[k], divmod(k, len(theta))
        look = {"color": letter_color(fact), "size": 10, "weight": "bold", **middle}
        axis.text(x, y, NAMES[fact], **look)
        if (i, j) in named:
            axis.text(x, y + 0.115, NAMES[i] + " " + NAMES[j], size=10, bbox=frame, **middle)
    return figure


def _arrows(axis, view):
    """Two white arrows on the torus: how the first word and how the second word moves a pair."""
    edge, dark = ([withStroke(linewidth=wide, foreground=INK)] for wide in (5, 3))
    text = {"fontsize": 11, "weight": "bold", "color": "white", "path_effects": dark, "zorder": 7}
    arrow = {"arrowstyle": "-|>", "color": "white", "mutation_scale": 14, "lw": 2.4, "zorder": 6}
    for name, starts, ends, side, aside in (
        ("second word", (58, 28), (58, 72), "center", (0.0, -0.13)),
        ("first word", (12, 2), (72, 2), "right", (-0.07, 0.0)),
    ):
        x, y, _ = view @ ring(*np.radians(np.linspace(starts, ends, 31)).T, TUBE + 0.01).T
        way = Path(np.stack([x, y], -1))
        axis.add_patch(FancyArrowPatch(path=way, path_effects=edge, **arrow))
        axis.text(x[15] + aside[0], y[15] + aside[1], name, ha=side, **text)


def globe(
    W_U: Float[np.ndarray, "3 word"],
    streams: Float[np.ndarray, "pair 3"],
    facts: Int[np.ndarray, " pair"],
    title: str,
) -> Figure:
    """The cells of the unembedding on a globe, seen from both sides.

    streams: what the unembedding reads, as dots in the color of their fact. Diamonds: the columns
    of W_U, by direction.
    """
    W_U, facts, at = np.asarray(W_U, float), np.asarray(facts), np.asarray(streams, float)
    at = at / np.linalg.norm(at, axis=1, keepdims=True)
    columns = (W_U / np.linalg.norm(W_U, axis=0)).T
    figure, axes = panels(1, 2, 9.2, 4.6, title=title, figure_class=Shaded)
    front = _clear_view(columns, at)
    sides = {"one side": front, "the other side": front * np.array([[-1], [1], [-1]])}
    for axis, (name, view) in zip(axes[0], sides.items(), strict=True):
        scene = Scene(view, 430, 430, reach=1.03)
        scene.globe(W_U.T)
        show_scene(axis, scene, name)
        dots, places = at @ view.T, columns @ view.T
        seen = dots[:, 2] > 0
        axis.scatter(*dots[seen, :2].T, s=95, c=CLASS_COLORS[facts[seen]], ec="white", lw=1.8)
        axis.scatter(*dots[seen, :2].T, s=140, fc="none", ec=INK, lw=0.8)
        seen = places[:, 2] > 0.02
        axis.scatter(*places[seen, :2].T, s=55, marker="D", fc="white", ec=INK, lw=1.2)
        for k in np.flatnonzero(seen):
            around = places[k, :2] + 0.12 * np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
            gaps = np.linalg.norm(around[:, None] - dots[:, :2], axis=-1).min(axis=1)
            gaps[np.linalg.norm(around, axis=1) > 0.92] = -1  # not off the globe
            look = {"ha": "center", "va": "center", "color": letter_color(k)}
            axis.text(*around[gaps.argmax()], NAMES[k], size=15, weight="bold", **look)
    return figure


def _clear_view(columns, at):
    """A view from where no column and few dots stand at the rim of the globe."""
    eyes = np.random.default_rng(0).normal(size=(500, 3))
    eyes /= np.linalg.norm(eyes, axis=1, keepdims=True)
    clear = np.abs(columns @ eyes.T).min(axis=0) + np.abs(at @ eyes.T).mean(axis=0)
    eye = eyes[clear.argmax()]
    eye = eye * np.sign((at @ eye).sum())
    right = np.cross([0, 0, 1], eye) / np.linalg.norm(eye[:2])
    return np.stack([right, np.cross(eye, right), eye])


def show_scene(axis, scene: Scene, title: str = "") -> None:
    """A scene's picture without an axis, in units of space."""
    picture = scene.picture()
    tall = scene.reach * picture.shape[0] / picture.shape[1]
    axis.imshow(picture, extent=(-scene.reach, scene.reach, -tall, tall))
    axis.axis("off")
    axis.set_title(title, size=TITLE["size"])
