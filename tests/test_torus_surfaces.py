import base64
import inspect
import json
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from aot_helpers.showing.widgets import STATIC
from chapters.nb13_torus_network import diagrams as torus_diagrams
from chapters.nb13_torus_network import strips as torus_strips
from chapters.nb14_attention_polynomial import bending as torus_bending
from chapters.nb14_attention_polynomial import lines as torus_sweep
from chapters.nb14_attention_polynomial import waves as torus_waves
from chapters.nb15_heads_as_a_basis import figures as torus_teams
from chapters.torus import figures as torus_figures
from chapters.torus import networks as torus
from chapters.torus import palette as torus_colors
from chapters.torus import render as torus_render
from chapters.torus import surfaces as torus_surfaces
from chapters.torus.surfaces import angle_colors, ring, turns
from chapters.torus.training import Learned
from chapters.torus.views import SurfaceView, SweepView, TorusView

PNG = b"\x89PNG\r\n\x1a\n"
NET = torus.new_nets([0])
THETA, FACTS = torus.angles(NET)[0], torch.arange(25) % 5
ASK = torus_colors.asker(NET)
ANSWERS = torch.arange(75).view(1, 3, 25) % 4 < 2  # [net, head, pair]
LEARNED = Learned(NET, [0, 1], torch.tensor([[0.2], [0.9]]), torch.zeros(2, 1))
CLASSES = np.arange(16).reshape(4, 4) % 5
MODULES = [torus_figures, torus_diagrams, torus_surfaces, torus_sweep, torus_waves]
MODULES += [torus_bending, torus_teams, torus_strips]
CLOSED = ring(*turns(9, 9))[:-1, :-1]
HEAD = torus.coefficients(NET.double())[0, 0]
PRODUCT = torus_sweep.Product(*torch.tensor([3.0, 1.0, 0.5, 2.0, 0.3, 0.4]))
DRAWN = {
    "alone": lambda: torus_teams.alone(NET, FACTS, "a", FACTS % 3),
    "stages": lambda: torus_teams.stages(NET, FACTS, "a"),
    "hoped": lambda: torus_teams.hoped(FACTS, FACTS % 3, "a"),
    "null": lambda: torus_teams.null(torch.tensor([18, 20, 20]), 21, 19.3, "a"),
    "coverage": lambda: torus_teams.coverage({"a": ([0.6, 0.7], [0.5, 0.6])}, "b"),
    "triangles": lambda: torus_teams.triangles([(NET, FACTS, 1)] * 4, "a", n=12),
    "courses": lambda: torus_teams.courses({"a": LEARNED}, "b"),
    "knowledge": lambda: torus_teams.knowledge(
        {"a": (ANSWERS[0], 0.1, 0.2, 0.3)}, FACTS, "b", ("c", 0.0, 0.1, 0.2)
    ),
    "lost_alone": lambda: torus_teams.lost_alone({"a": [0.2, 0.3, 0.5]}, "b"),
    "rows_and_lines": lambda: torus_sweep.rows_and_lines(HEAD, THETA, "a"),
    "ruled": lambda: torus_sweep.ruled(torus_sweep.lines(HEAD, THETA), THETA, "a"),
    "sweeping": lambda: torus_sweep.sweeping(HEAD, THETA, [0.0, 1.0, 2.0], "a"),
    "factored": lambda: torus_sweep.factored(PRODUCT, THETA, "a"),
    "sum_of_waves": lambda: torus_waves.sum_of_waves(HEAD, THETA, "a"),
    "film": lambda: torus_waves.film([PRODUCT] * 3, THETA, ["a", "b", "c"], "d"),
    "moved_and_muted": lambda: torus_strips.moved_and_muted(NET, FACTS, 3, [0, 9], 1, [1, 0], "a"),
    "carried": lambda: torus_bending.carried(NET, 0, THETA, "a", n=40),
    "hard_and_soft": lambda: torus_bending.hard_and_soft(NET, FACTS, "a"),
    "unfolding": lambda: torus_bending.unfolding(NET, FACTS, [0, 1], "a", n=24),
    "onto_globe": lambda: torus_bending.onto_globe(NET, FACTS, [1, 0.5, 0], "a", n=24),
    "bent_in_space": lambda: torus_bending.bent_in_space(NET, FACTS, "a", n=24),
    "class_map": lambda: torus_figures.class_map(ASK, THETA, FACTS, "a", (1, 1), ["AB"]),
    "growing": lambda: torus_figures.growing({0: NET, 1: NET}, np.eye(2), FACTS, "a"),
    "attention": lambda: torus_figures.attention(NET, ASK, lambda theta2, Q, K: 2 * theta2),
    "held_maps": lambda: torus_figures.held_maps([CLASSES] * 3, (0, 1), THETA),
    "who_winds": lambda: torus_figures.who_winds({"a": [1.0, 2.0], "b": [0.5]}, "a"),
    "capacity": lambda: torus_figures.capacity({1: [0.5]}, {5: [1, 0.9]}, [0.4]),
    "drawn_whole": lambda: torus_diagrams.drawn_whole(NET),
    "onto_circle": lambda: torus_diagrams.onto_circle(NET.W_E[0], THETA),
    "gluing": lambda: torus_surfaces.gluing(ASK),
    "torus_in_space": lambda: torus_surfaces.torus_in_space(ASK, THETA, FACTS, "a", [(1, 1)]),
    "globe": lambda: torus_surfaces.globe(NET.W_U[0], torus.sphere(25), FACTS, "a"),
    "surfaces": lambda: torus_surfaces.surfaces(
        [CLOSED] * 2, [angle_colors(5)] * 2, ["a", "b"], dots=[([[0, 0, 1]], [0])] * 2, n_classes=2
    ),
}


def test_every_figure_of_the_modules_is_tested():
    functions = [
        (name, function)
        for module in MODULES
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__
    ]
    drawing = [n for n, f in functions if inspect.signature(f).return_annotation is Figure]
    assert set(drawing) == set(DRAWN)


@pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)
def test_a_figure_is_shown_as_a_small_picture_with_labels_of_nine_points(draw):
    figure = draw()
    assert plt.get_fignums() == []
    texts = [text for text in figure.findobj(plt.Text) if text.get_text() and text.get_visible()]
    assert min(text.get_fontsize() for text in texts) >= 9
    with patch("IPython.display.display") as shown:
        figure._ipython_display_()
    picture = base64.b64decode(shown.call_args.args[0]["image/png"])
    assert picture.startswith(PNG) and len(picture) < 200_000


def test_lines_of_another_shape_are_not_ruled():
    with pytest.raises(ValueError, match=r"g0, g1, h of 5 words, got the shape \(5, 2\)"):
        torus_sweep.ruled(torch.ones(5, 2), THETA, "a")


def test_the_painted_map_has_the_winners_colors_and_is_pale_where_unsure():
    def ask(theta1, theta2):
        east = torch.broadcast_to(
            theta1 < torch.pi, torch.broadcast_shapes(theta1.shape, theta2.shape)
        )
        sure, unsure = torch.tensor([0.0, 1, 0]), torch.full((3,), 1 / 3)
        return torch.where(east[..., None], sure, unsure)

    colors = torus_colors.painted(ask, cells=4)
    assert np.allclose(colors[:, :2], torus_colors.CLASS_COLORS[1], atol=1e-6)
    assert np.allclose(colors[:, 2:], 1)


def test_the_ring_is_a_torus_and_angle_colors_have_no_seam():
    x, y, z = np.moveaxis(CLOSED, -1, 0)
    assert np.allclose((np.hypot(x, y) - torus_surfaces.RING) ** 2 + z**2, torus_surfaces.TUBE**2)
    colors = angle_colors(60)
    assert colors.min() >= 0 and colors.max() <= 1
    for axis in (0, 1):
        steps = np.abs(np.diff(colors, axis=axis, append=colors.take([0], axis=axis)))
        assert steps.max() < 0.06


def test_the_renderer_sees_the_nearest_sheet_and_where_on_it():
    view = torus_render.camera(90, -90)  # from above: x to the right, y up
    across, up = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 3))
    sheet = np.stack([across, up, 0 * up], -1)
    seen = torus_render.look(sheet, view, 10, (40, 40))
    assert np.allclose(view, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert np.isfinite(seen.depth).sum() == 20 * 20
    assert np.allclose(seen.place[0], [0.975, 0.025])  # the picture's upper left: last row
    assert np.allclose(seen.normal, [0, 0, 1])
    both = np.concatenate([sheet, sheet[::-1] + [0, 0, 0.5]])  # folded over: the upper part is near
    assert np.allclose(torus_render.look(both, view, 10, (40, 40)).depth[20, 20], 0.5)


def test_a_globe_has_borders_and_is_pale_where_no_surface_lies():
    theta1, theta2 = turns(41, 41)
    cap = np.stack([np.cos(theta1) * np.sin(theta2 / 8), np.sin(theta1) * np.sin(theta2 / 8),
                    np.cos(theta2 / 8)], -1)[:-1, :-1]  # fmt: skip
    W_U = np.array([[1, -1], [0, 0], [0, 0]])  # two halves, left and right from above
    pearls = [[0, 0, -1.0]], [0]  # behind
    image = torus_bending.on_globe(cap, pearls[0], W_U, pearls[1], (90, -90), 80)
    assert image.shape == (80, 80, 3) and np.allclose(image[0, 0], 1)
    assert image[38:42, 39:41].max() < 0.5  # the border
    near, far = image[40, 60], image[40, 74]  # on the cap and beside it
    assert np.ptp(near) > 2 * np.ptp(far) > 0
    assert near.argmax() == far.argmax() == torus_colors.CLASS_COLORS[0].argmax()


def test_a_pearl_hides_behind_the_surface():
    view, points = torus_render.camera(90, -90), ring(*turns(17, 33))
    for height, n_seen in ((1, 1), (-1, 0)):
        dots = [[torus_surfaces.RING, 0, height]], [0]
        labels = torus_render.rendered(points, angle_colors(8), view, 80, 60, 2, dots)[1]
        assert len(labels) == n_seen


@pytest.mark.parametrize("stretch", [False, True])
def test_a_surface_is_sent_inside_a_ball_with_its_picture(stretch):
    view = SurfaceView(CLOSED + [5, 0, 0], angle_colors(12), "a torus", stretch=stretch)
    packed = np.frombuffer(base64.b64decode(view.data["points"]), dtype="<i2") / 32767
    sent = packed.reshape(8, 8, 3)
    assert np.linalg.norm(sent, axis=-1).max() == pytest.approx(1, abs=1e-3)
    extents = np.ptp(sent, axis=(0, 1)) / np.ptp(CLOSED, axis=(0, 1))
    assert np.allclose(extents, extents[0], atol=1e-3) is not stretch
    assert view.picture().startswith(PNG)
    assert repr(view) == "SurfaceView: a torus"


def test_a_surface_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"got \(8, 7, 3\)"):
        SurfaceView(CLOSED[:, :7], angle_colors(8), "no square")
    with pytest.raises(ValueError, match="colors in 0 … 1: scale them"):
        SurfaceView(CLOSED, 2 * angle_colors(8), "too bright")
    with pytest.raises(ValueError, match="points must be finite"):
        SurfaceView(CLOSED * np.nan, angle_colors(8), "nowhere")


def test_a_page_holds_its_script_its_data_and_a_picture_and_loads_nothing():
    still = torus_figures.class_map(ASK, THETA, FACTS, "a")
    view = TorusView(NET, FACTS, still)
    bundle = view._repr_mimebundle_()
    page = bundle["text/html"]
    assert base64.b64decode(bundle["image/png"]) == view.picture()
    assert bundle["image/png"] in page and json.dumps(view.data) in page
    for name in ("torus.js", "surface.js", "sweep.js"):
        script = (STATIC / name).read_text(encoding="utf-8").lower()
        assert not [
            word for word in ("http", "//cdn", "import ", "fetch(", "url(") if word in script
        ]


def test_pearls_are_sent_where_the_surface_is():
    moved = CLOSED + [5, 0, 0]
    data = SurfaceView(moved, angle_colors(12), "a", dots=(moved[:2, 0], [3, 0])).data
    sent = np.frombuffer(base64.b64decode(data["points"]), dtype="<i2").reshape(8, 8, 3) / 32767
    dots = np.array(data["dots"])
    assert np.allclose(dots[:, :3], sent[:2, 0], atol=1e-3)
    assert np.allclose(dots[:, 3:], 255 * torus_colors.CLASS_COLORS[[3, 0]], atol=1e-3)


@pytest.mark.parametrize("head", [HEAD, PRODUCT], ids=["coefficients", "product"])
def test_a_swept_head_is_sent_with_its_free_numbers(head):
    still = torus_waves.film([PRODUCT], THETA, ["a"], "b")
    data = SweepView(head, THETA, 1.0, still).data
    json.dumps(data)
    assert ("product" in data) is ("coefficients" not in data)
    if "product" in data:
        assert [key for key, *_ in data["sliders"]] == ["phi", "s", "psi", "t"]
        assert data["product"]["s"] == pytest.approx(0.5 / 3, abs=1e-4)


@pytest.mark.parametrize("turns", [2, -3, 0])
def test_the_favorite_words_are_one_line_from_edge_to_edge(turns):
    drawn = torus_figures.attention(NET, ASK, lambda theta2, Q, K: turns * theta2 + 1)
    copies = [line.get_xdata() for line in drawn.axes[0].lines]
    inside = sum((each >= 0) & (each < torus_colors.TURN) for each in copies)
    assert (inside == 1).all()  # every second word has one favorite in the picture
