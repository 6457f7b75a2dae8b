"""Every drawing function draws whatever a reader gives it, and draws it where it belongs."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.text import Text

from aot_helpers.showing import diagrams, plots, texts
from aot_helpers.showing.diagrams import QUERY, VALUE
from aot_helpers.showing.plots import Interval
from figure_checks import check_figures

TOKENS = ["<|bos|>", " the", "$x$", "\n"]
SQUARE = np.tri(4) / np.arange(1, 5)[:, None]
LONG = "A title that is longer than the figure is wide, so that it has to be broken, perhaps twice"
RUNS = np.array([[0.1, 0.5, 0.9], [0.2, 0.6, 1.0], [0.3, 0.7, 0.8]])
DOTS = {
    "stories": {"no layers": {"seeds": [0.1, 0.2]}, "two layers": {"seeds": [0.8], "one": 0.9}},
    "random": {"two layers": {"seeds": np.linspace(0.5, 0.7, 20), "one": Interval(0.2, 0.3, 0.5)}},
}
LINES = {
    "stories": {"runs": ([1, 2, 3], RUNS), "gone": ([1, 2, 3], [0, 0.1, 0.1])},
    "random": {"runs": ([1, 2, 3], RUNS), "close": ([1, 2, 3], Interval(*RUNS))},
}
POINTS = {"others": (RUNS[0], RUNS[1]), "few": ([0.5, 0.52], [0.6, 0.6])}
GRIDS = {"on stories": {"small": SQUARE[:2, :2], "large": SQUARE}, "on random": {"small": SQUARE}}


def every_figure(value, text="a title", token=" the"):
    """A figure of each drawing function: of an array [3], with a text and a token everywhere."""
    square, tokens, names = value[:, None] * value, [token] * 3, ["a", token, "c"]
    yield plots.dots({text: {text: {text: value}}}, text, text, levels={1: text}, note=text)
    yield plots.dots({token: value, "one": 0.5}, text, text, number=".2f", stems=True)
    yield plots.lines({text: {text: (range(3), value)}}, text, text, text, levels={0.5: text})
    yield plots.lines({token: square}, text, text, text, runs=True, x_log=True, x_ticks={2: text})
    yield plots.points({text: (value, value)}, text, text, text, names={text: (1, 1)}, equal=True)
    yield plots.points({text: {token: (value, value)}}, text, text, text, levels={1: text})
    yield plots.grids(square, text, number=".2f", row_names=names, column_names=names, label=text)
    yield plots.grids({text: {text: square}}, text, row_names="L{}", signed=True, note=text)
    yield plots.attention_maps(square, tokens, text)
    yield plots.attention_maps({text: square, token: square}, tokens, text, note=text)
    yield texts.shaded_texts({text: (tokens, value)}, text, key=text)
    yield texts.token_rows({text: ([], []), token: (tokens, value)}, text, number=".2f", note=text)
    yield texts.token_rows({text: (tokens, ["", QUERY, QUERY])}, text, gap_at=2)
    yield texts.arcs(tokens, square, text)


def words(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text().strip()]


def test_every_figure_is_closed_readable_and_keeps_to_its_canvas():
    with plt.rc_context():
        plt.rcdefaults()
        standard = dict(plt.rcParams)
        check_figures(*every_figure(np.array([0.2, 0.6, 1.0])))
        check_figures(plots.dots(DOTS, LONG, "share", number=".2f"))
        check_figures(plots.dots(DOTS, LONG, "share", apart=True, stems=True, note=LONG))
        check_figures(plots.lines(LINES, LONG, "step", "share"))
        check_figures(plots.grids(GRIDS, LONG, cell=0.2, limits=None, note=LONG))
        assert dict(plt.rcParams) == standard


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_tensors_are_drawn_as_they_come(dtype):
    value = torch.tensor([0.25, 0.5, 1.0], dtype=dtype, requires_grad=True)
    figures = list(every_figure(value))
    grids = figures[6].axes[0].collections[0].get_array()
    assert np.allclose(grids, np.outer([0.25, 0.5, 1], [0.25, 0.5, 1]))


@pytest.mark.parametrize("odd", ["$$", "$x_{$", "$a b$"])
def test_dollars_of_names_and_titles_are_drawn_as_typed(odd):
    for figure in every_figure(np.array([0.2, 0.6, 1.0]), odd, odd):
        figure.draw_without_rendering()
        labels = [text for text in figure.findobj(Text) if "$" in text.get_text()]
        drawn = [text._preprocess_math(text.get_text()) for text in labels]
        assert labels and not any(is_mathematics for _, is_mathematics in drawn)
        assert any(text.replace("·", " ").startswith(odd) for text, _ in drawn)


def test_control_characters_and_scripts_without_a_font_are_drawn():
    assert diagrams.typed("a\tb\0c\nd") == "a�b�c\nd"
    assert plots.shown(" a\n$b") == r"·a⏎\$b"
    for figure in every_figure(np.array([0.2, 0.6, 1.0]), "שלום\0 кот", "\t"):
        figure.draw_without_rendering()
    with pytest.warns(UserWarning, match="install Noto Sans"):
        diagrams.typed("\U00012000")  # cuneiform


def test_mathematics_of_a_chapter_stays_mathematics():
    _, axis = diagrams.canvas(1, 1)
    diagrams.say(axis, 0, 0, "$W_Q$")
    assert axis.texts[0]._preprocess_math(axis.texts[0].get_text())[1]


def test_dots_stand_at_their_values_and_intervals_reach_from_end_to_end():
    left, right = plots.dots(DOTS, "title", "share").axes

    def drawn(axis):
        return sorted(x for each in axis.collections for x, _ in each.get_offsets() if x > 0)

    assert drawn(left) == pytest.approx([0.1, 0.2, 0.8, 0.9])
    assert drawn(right) == pytest.approx(sorted([*np.linspace(0.5, 0.7, 20), 0.3]))
    ends = [line.get_xdata() for line in right.lines]
    assert [0.2, 0.5] in [list(each) for each in ends]
    assert any(np.allclose(each, 0.6) for each in ends)  # the median of many


def test_lines_show_medians_or_every_run_and_say_each_name_once():
    figure = plots.lines(LINES, "title", "step", "share", levels={0.5: "half"})
    assert figure.axes[0].lines[0].get_ydata().tolist() == [0.2, 0.6, 0.9]
    assert all(words(figure).count(name) == 1 for name in ("runs", "gone", "close", "half"))
    figure = plots.lines(LINES, "title", "step", "share", runs=True)
    assert [line.get_ydata().tolist() for line in figure.axes[0].lines][:3] == RUNS.tolist()
    (line,) = plots.lines({"a": [3, 2]}, "title", "step", "loss").axes[0].lines
    assert line.get_xydata().tolist() == [[1, 3], [2, 2]]


def test_names_at_the_ends_of_lines_keep_their_distance():
    curves = {name: ([0, 1], [0, 0.5 + i / 1000]) for i, name in enumerate("abcd")}
    figure = plots.lines(curves, "title", "x", "y")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    boxes.sort(key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 3 for low, high in zip(boxes, boxes[1:], strict=False))


def test_points_are_named_in_the_color_of_their_group():
    names = {"L0H3": (0.5, 0.6), "nobody": (9, 9)}
    (axis,) = plots.points(POINTS, "t", "x", "y", names=names, colors={"few": VALUE}).axes
    said = {text.get_text(): text.get_color() for text in axis.texts}
    assert said == {"L0H3": VALUE, "nobody": diagrams.INK}
    others, few = (each.get_offsets().tolist() for each in axis.collections)
    assert others == RUNS[:2].T.tolist() and few == [[0.5, 0.6], [0.52, 0.6]]


def test_grids_have_one_scale_or_one_for_each_row_and_write_what_counts():
    figure = plots.grids(GRIDS, "title", number=".2f", least=0.3)
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert [axis.collections[0].get_array().shape for axis in shown] == [(2, 2), (4, 4), (4, 4)]
    assert [text.get_text() for text in shown[0].texts] == ["1.00", "", "0.50", "0.50"]
    found = plots.grids(GRIDS, "title", limits={"on stories": (0, 2), "on random": (-1, 1)}).axes
    limits = [axis.collections[0].get_clim() for axis in found if axis.get_visible()]
    assert limits == [(0, 2), (0, 2), (-1, 1)]


def test_colors_reach_to_values_outside_zero_and_one():
    for values, ends in ([0, 2], (0, 2)), ([-0.5, 1], (-0.5, 1)), ([0.2, 0.4], (0, 1)):
        axis = plots.grids(np.array([values]), "title").axes[0]
        assert axis.collections[0].get_clim() == ends
        axis = plots.grids(np.array([values]), "title", signed=True).axes[0]
        assert axis.collections[0].get_clim() == (-max(values), max(values))
    with pytest.raises(ValueError, match="from 0 to 1, got 5"):
        plots.attention_maps(5 * np.eye(2), ["a", "b"], "title")


def test_tokens_are_filled_by_their_share():
    (axis,) = texts.token_rows({"a": (TOKENS, [0, 0.5, 1, 9])}, "title", shade=QUERY).axes
    fills = [patch.get_facecolor()[:3] for patch in axis.patches]
    assert fills[0] == (1, 1, 1) and fills[2] == fills[3]
    assert np.allclose(fills[2], texts.tint(QUERY, 1))


def test_arcs_leave_out_small_shares_and_those_of_a_token_itself():
    (axis,) = texts.arcs(TOKENS, SQUARE, "title", least=0.3).axes
    n_pairs = (np.tril(SQUARE, -1) >= 0.3).sum()
    assert len(axis.lines) == 2 * n_pairs  # a curve and its head


@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_a_pattern_of_another_length_than_its_tokens_is_refused(names):
    for draw in (
        lambda: plots.attention_maps(np.eye(3), list(names), "title"),
        lambda: plots.grids(np.eye(3), "title", row_names=list(names), column_names=list("abc")),
        lambda: plots.grids(np.ones((6, 6, 3)), "title"),
        lambda: texts.arcs(list(names), np.eye(3), "title"),
    ):
        with pytest.raises(ValueError, match="must have shape"):
            draw()
