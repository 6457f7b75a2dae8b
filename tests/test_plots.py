import inspect

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

from aot_helpers.showing import plots
from aot_helpers.training.train import History
from chapters.nb01_tokens_and_corpora import figures as text_pieces
from chapters.nb05_training_and_sampling import measure as loss_ladder

TOKENS = ["<|bos|>", " the", "$x$", "\n"]
SQUARE = np.tri(4) / np.arange(1, 5)[:, None]
DRAWN = {
    "attention_map": lambda: plots.attention_map(SQUARE, TOKENS, "L0H1"),
    "attention_maps": lambda: plots.attention_maps(
        np.stack([SQUARE, SQUARE]), TOKENS, ["L0H0", "L0H1"]
    ),
    "matrix": lambda: plots.matrix(SQUARE, TOKENS, TOKENS, "scores", "score", signed=True),
    "maps": lambda: plots.maps(
        [SQUARE, -SQUARE], ["a", "b"], "score", "key", "query", TOKENS, True
    ),
    "loss_curves": lambda: plots.loss_curves(
        {"a": [3, 2, 1], "b": ([5, 9], [2, 1])}, {"uniform": 4}, "loss"
    ),
    "token_losses": lambda: plots.token_losses(
        [1, 2, 3, 4], TOKENS, "loss", [2, 2, 2, 2], ("first", "second")
    ),
    "bars": lambda: plots.bars(
        {"L0H0": 0.25, "L0H1": 0.5}, "score", "attention", 0.1, "chance", {"L0H0": (0.2, 0.4)}
    ),
    "seed_curves": lambda: plots.seed_curves(
        {"loss": {"a": ([1, 2], [[3, 2], [4, 2]])}, "score": {"b": ([1, 2], [[0, 1]])}},
        "step",
        "nats or share",
    ),
    "scatter": lambda: plots.scatter(
        {"a": ([1, 2], [0, 1]), "b": ([1], [-1])}, "eigenvalues", "real", "imaginary", True, True
    ),
}
OF_ONE_NOTEBOOK = {
    "pieces": lambda: text_pieces.pieces({"BPE": TOKENS, "words": ["the", "x"]}, "one text")
}
ALL = DRAWN | OF_ONE_NOTEBOOK
every_plot = pytest.mark.parametrize("draw", ALL.values(), ids=ALL)


def texts(labels):
    return [label.get_text() for label in labels]


def test_every_figure_of_the_module_is_tested():
    functions = inspect.getmembers(plots, inspect.isfunction)
    figures = {n for n, f in functions if inspect.signature(f).return_annotation is Figure}
    assert figures == set(DRAWN)


@every_plot
def test_a_plot_returns_a_figure_that_is_not_left_open(draw):
    assert isinstance(draw(), Figure)
    assert plt.get_fignums() == []


@every_plot
def test_every_axis_says_what_it_shows_and_the_figure_draws(draw):
    figure = draw()
    figure.canvas.draw()  # warnings, e.g. about layout or glyphs, are errors
    axes = [axis for axis in figure.axes if axis.get_label() != "<colorbar>"]
    assert axes
    for axis in axes:
        assert axis.get_title()
        shown = [which for which in (axis.xaxis, axis.yaxis) if len(which.get_ticklocs())]
        assert shown
        for which in shown:  # a label, or names at the ticks
            names = [t for t in texts(which.get_ticklabels()) if not t.replace(".", "").isdigit()]
            assert which.get_label_text() or names
    for bar in set(figure.axes) - set(axes):
        assert bar.get_ylabel()


def test_attention_is_drawn_on_a_scale_from_0_to_1_as_it_is():
    figure = plots.attention_map(SQUARE / 2, TOKENS, "L0H1")
    image = figure.axes[0].images[0]
    assert np.array_equal(image.get_array(), SQUARE / 2) and image.get_clim() == (0, 1)
    assert texts(figure.axes[0].get_xticklabels()) == ["<|bos|>", "·the", r"\$x\$", "⏎"]
    assert figure.axes[0].get_xlabel().startswith("key")
    assert figure.axes[0].get_ylabel().startswith("query")


def test_attention_map_may_show_some_queries_only():
    figure = plots.attention_map(SQUARE[2:], TOKENS, queries=TOKENS[2:])
    assert texts(figure.axes[0].get_yticklabels()) == [r"\$x\$", "⏎"]
    assert figure.axes[0].images[0].get_array().shape == (2, 4)


def test_attention_maps_need_a_title_for_each_head():
    with pytest.raises(ValueError, match="zip"):
        plots.attention_maps(np.stack([SQUARE, SQUARE]), TOKENS, ["L0H0"])


@pytest.mark.parametrize("signed", [True, False])
def test_a_signed_matrix_is_centered_on_zero(signed):
    values = np.array([[1.0, -3.0], [0.0, 2.0]])
    low, high = (
        plots.matrix(values, ["a", "b"], ["c", "d"], "t", "l", signed=signed)
        .axes[0]
        .images[0]
        .get_clim()
    )
    assert (low, high) == ((-3, 3) if signed else (-3, 2))


def test_maps_share_one_color_scale():
    figure = plots.maps([SQUARE, 3 * SQUARE - 5], ["a", "b"], "score")
    limits = {axis.images[0].get_clim() for axis in figure.axes if axis.images}
    assert limits == {(-5.0, 1.0)}


def test_maps_can_have_scales_of_their_own():
    figure = plots.maps([SQUARE, 3 * SQUARE - 5], ["a", "b"], "score", own_scales=True)
    low, high = SQUARE.min(), SQUARE.max()
    limits = [axis.images[0].get_clim() for axis in figure.axes if axis.images]
    assert limits == [(low, high), (3 * low - 5, 3 * high - 5)] and len(figure.axes) == 4


def test_loss_curves_draw_their_values_and_baselines():
    axis = DRAWN["loss_curves"]().axes[0]
    first, second, baseline = axis.get_lines()
    assert first.get_xydata().tolist() == [[1, 3], [2, 2], [3, 1]]
    assert second.get_xydata().tolist() == [[5, 2], [9, 1]]
    assert set(baseline.get_ydata()) == {4} and baseline.get_label() == "uniform: 4.00"
    assert first.get_color() != second.get_color()


def test_bars_have_the_height_of_their_values():
    axis = DRAWN["token_losses"]().axes[0]
    assert [bar.get_height() for bar in axis.patches] == [1, 2, 3, 4, 2, 2, 2, 2]
    assert [bar.get_width() for bar in DRAWN["bars"]().axes[0].patches] == [0.25, 0.5]


def test_shown_makes_spaces_and_line_breaks_visible_and_dollars_harmless():
    assert plots.shown(" a\n$b") == r"·a⏎\$b"


def test_loss_watch_shows_one_picture_and_then_updates_it(monkeypatch):
    shown, updated = [], []

    class Handle:
        update = updated.append

    def display(figure, display_id):
        shown.append(figure)
        return Handle()

    monkeypatch.setattr(loss_ladder, "display", display)
    watch = loss_ladder.LossWatch({"uniform": 2.4}, "my run")
    for n in (1, 2, 3):
        watch(History(losses=[3.0, 2.0, 1.0][:n]))
    assert len(shown) == 1 and len(updated) == 2 and plt.get_fignums() == []
    axis = updated[-1].axes[0]
    assert axis.get_lines()[0].get_ydata().tolist() == [3.0, 2.5, 2.0]
    assert axis.get_title() == "my run"
