import inspect

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from chapters.torus import class_maps as torus_plots
from chapters.torus import palette as torus_colors

TURN = np.arange(12) * 2 * np.pi / 12
WAVE = np.cos(TURN)[None, :] + np.sin(TURN)[:, None]
DOTS = ([0.1, 3.0], [2.0, 6.2], [0, 1])
CLASSES = np.stack([(WAVE > 0).astype(int)] * 2)
ANGLES = torus_plots.tinted((WAVE > 0).astype(int), np.abs(WAVE) / 2)
SHARES = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]])
DRAWN = {
    "class_maps": lambda: torus_plots.class_maps(
        CLASSES, np.full((2, 12, 12), 0.5), ["a", "b"], DOTS, 0.8, 2
    ),
    "torus_maps": lambda: torus_plots.torus_maps(
        [WAVE, 2 * WAVE], ["a", "b"], "score", zeros=[[WAVE], [WAVE, WAVE - 1]], dots=DOTS
    ),
    "color_maps": lambda: torus_plots.color_maps([ANGLES] * 3, ["a", "b", "c"], columns=2),
    "triangles": lambda: torus_plots.triangles([[0, 0.5, 1, 1]] * 2, SHARES, ["a", "b"]),
}
every_plot = pytest.mark.parametrize("draw", DRAWN.values(), ids=DRAWN)


def test_every_figure_of_the_module_is_tested():
    functions = inspect.getmembers(torus_plots, inspect.isfunction)
    figures = {n for n, f in functions if inspect.signature(f).return_annotation is Figure}
    assert figures - {"_class_legend"} == set(DRAWN)


@every_plot
def test_a_plot_returns_a_figure_that_is_not_left_open_and_can_be_saved(draw, tmp_path):
    figure = draw()
    assert isinstance(figure, Figure)
    assert plt.get_fignums() == []
    figure.savefig(tmp_path / "figure.png")


@pytest.mark.parametrize("name", ["class_maps", "torus_maps", "triangles"])
def test_panels_have_their_titles_and_lie_inside_the_figure(name):
    figure = DRAWN[name]()
    assert [axis.get_title() for axis in figure.axes[:2]] == ["a", "b"]
    for axis in figure.axes:
        box = axis.get_position()
        assert 0 <= box.x0 < box.x1 <= 1 and 0 <= box.y0 < box.y1 <= 1


def test_panels_do_not_overlap():
    figure, axes = torus_plots._panels(7, columns=3)
    boxes = [axis.get_position() for axis in axes]
    assert len(boxes) == 7
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a.x1 < b.x0 or b.x1 < a.x0 or a.y1 < b.y0 or b.y1 < a.y0


def test_a_map_is_drawn_with_the_first_angle_across_and_the_second_up():
    across = np.broadcast_to(np.arange(12.0), (12, 12))
    image = torus_plots.torus_maps([across], ["a"], "x").axes[0].images[0]
    assert image.origin == "lower"
    assert np.array_equal(image.get_array()[:12, :12], across)
    # The middle of the first pixel is at angle 0; it comes back at 2π, where the last one has it.
    assert np.array_equal(image.get_array()[:, 12], np.zeros(13))
    left, right, low, high = image.get_extent()
    assert left == low == pytest.approx(-np.pi / 12)
    assert right == high == pytest.approx(2 * np.pi + np.pi / 12)


def test_the_margin_repeats_the_other_side():
    figure = torus_plots.class_maps(CLASSES[:1], np.ones((1, 12, 12)), ["a"], margin=2 * np.pi / 6)
    drawn = figure.axes[0].images[0].get_array()
    assert drawn.shape == (17, 17, 3)
    assert np.array_equal(drawn[:, :2], drawn[:, 12:14]) and np.array_equal(drawn[:2], drawn[12:14])


def test_zeros_are_drawn_for_each_map_and_classes_named():
    zeros = [[WAVE, WAVE - 0.5], [WAVE]]
    figure = torus_plots.torus_maps([WAVE, WAVE], ["a", "b"], "x", zeros=zeros)
    assert [len(axis.collections) for axis in figure.axes[:2]] == [2, 1]
    drawn = torus_plots.color_maps([ANGLES], ["a"], n_classes=3)
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["0", "1", "2"]


def test_words_are_named_above_every_map_and_beside_the_last():
    figure = torus_plots.class_maps(
        CLASSES, np.ones((2, 12, 12)), ["a", "b"], words=np.array([3.0, 1.0, 3.2])
    )
    names = [[text.get_text() for text in axis.texts] for axis in figure.axes]
    assert names == [["w1", "w0", "w2"], ["w1", "w1", "w0", "w0", "w2", "w2"]]
    assert [axis.get_title() for axis in figure.axes] == ["a", "b"]


def test_dots_near_an_edge_come_back_in_the_margin():
    def n_dots(margin):
        dots = ([0.1], [3.0], [0])
        figure = torus_plots.class_maps(CLASSES[:1], np.ones((1, 12, 12)), ["a"], dots, margin)
        return len(figure.axes[0].collections[0].get_offsets())

    assert (n_dots(0), n_dots(2 * np.pi / 6)) == (1, 2)


def test_a_tint_is_white_at_zero_and_the_color_at_one():
    tints = torus_plots.tinted([1, 1, 1], [0.0, 0.5, 1.0])
    assert np.allclose(tints[0], 1)
    assert np.allclose(tints[2], torus_colors.CLASS_COLORS[1])
    assert np.allclose(tints[1], (1 + torus_colors.CLASS_COLORS[1]) / 2)
    assert len(np.unique(torus_colors.CLASS_COLORS, axis=0)) == 12


def test_offset_colors_put_zero_at_grey_and_clip_nothing():
    vectors = np.array([[0.0, 2.0, -2.0]])
    assert np.allclose(torus_plots.offset_colors(vectors, 2.0), [[0.5, 1, 0]])
    with pytest.raises(ValueError, match="an entry is 2: make reach at least as large"):
        torus_plots.offset_colors(vectors, 1.9)


def test_colors_out_of_range_are_refused():
    with pytest.raises(ValueError, match="colors must lie in 0 … 1, got .* scale them"):
        torus_plots.color_maps([ANGLES * 1.5], ["a"])


def test_the_moving_frontier_is_a_file_of_that_many_pictures(tmp_path):
    from PIL import Image

    frames = [WAVE, WAVE + 0.5, WAVE - 0.5]
    torus_plots.save_frontier(frames, ["a", "b", "c"], tmp_path / "frontier.gif")
    with Image.open(tmp_path / "frontier.gif") as picture:
        assert picture.format == "GIF" and picture.n_frames == 3
    assert plt.get_fignums() == []
