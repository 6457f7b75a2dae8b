import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.text import Text

from aot_helpers.showing import diagrams, forms, plots, texts
from aot_helpers.showing.diagrams import PALE, QUERY, VALUE
from aot_helpers.showing.forms import Interval
from chapters.nb01_tokens_and_corpora import figures as text_pieces

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
    "random": {
        "runs": ([1, 2, 3], RUNS),
        "close": ([1, 2, 3], Interval(*RUNS)),
    },
}
POINTS = {"": {"others": (RUNS[0], RUNS[1]), "few": ([0.5, 0.52], [0.6, 0.6])}}
GRIDS = {"on stories": {"small": SQUARE[:2, :2], "large": SQUARE}, "on random": {"small": SQUARE}}
FORMS = {
    "dots": lambda: forms.dots(DOTS, LONG, "share", number=".2f", levels={0: "none", 1: "all"}),
    "dots, apart": lambda: forms.dots(DOTS, LONG, "share", apart=True, stems=True, note=LONG),
    "lines": lambda: forms.lines(LINES, LONG, "step", "share", levels={0.5: "half"}, note=LONG),
    "lines of runs": lambda: forms.lines(
        LINES, "title", "step", "share", runs=True, x_log=True, x_ticks={1: "one", 3: "three"}
    ),
    "points": lambda: forms.points(
        POINTS, LONG, "score", "share", diagonal=True, names={"": {"L0H3": (0.5, 0.6)}}
    ),
    "grids": lambda: forms.grids(
        GRIDS, LONG, number=".2f", least=0.3, row_names="L{}", column_names="H{}", label="score"
    ),
    "small maps": lambda: forms.grids(GRIDS, LONG, cell=0.2, limits=None, note=LONG),
    "token_rows": lambda: texts.token_rows(
        {"all": ([], []), "one": (TOKENS, [0, 0.2, 0.6, 2]), "two": (TOKENS[:2], ["", QUERY])},
        LONG, gap_at=2,
    ),
    "token_rows, numbers": lambda: texts.token_rows(
        {"one": (TOKENS, [0, 0.2, 0.6, 1])}, LONG, number=".2f", aligned=False, note=LONG
    ),
    "arcs": lambda: texts.arcs(TOKENS, SQUARE, LONG),
    "two_heads": lambda: diagrams.two_heads(title="title"),
    "two_heads, filled": lambda: diagrams.two_heads(RUNS[0], RUNS[1], 0.5, title="title"),
}  # fmt: skip
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
ALL = DRAWN | OF_ONE_NOTEBOOK | FORMS
every_figure = pytest.mark.parametrize("draw", ALL.values(), ids=ALL)


def words(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text().strip()]


@every_figure
def test_a_figure_is_closed_readable_and_keeps_to_its_canvas(draw):
    figure = draw()
    assert isinstance(figure, Figure) and plt.get_fignums() == []
    figure.draw_without_rendering()  # warnings, e.g. about layout or glyphs, are errors
    assert all(text.get_fontsize() >= 9 for text in figure.findobj(Text) if text.get_text())
    drawn, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) >= -0.02
    assert drawn.x1 <= width + 0.02 and drawn.y1 <= height + 0.02


def test_importing_the_figures_leaves_the_style_of_matplotlib_alone():
    with plt.rc_context():
        plt.rcdefaults()
        standard = dict(plt.rcParams)
        for draw in FORMS.values():
            draw()
        assert dict(plt.rcParams) == standard


def test_dots_stand_at_their_values_and_intervals_reach_from_end_to_end():
    left, right = forms.dots(DOTS, "title", "share").axes

    def drawn(axis):
        return sorted(x for each in axis.collections for x, _ in each.get_offsets() if x > 0)

    assert drawn(left) == pytest.approx([0.1, 0.2, 0.8, 0.9])
    assert drawn(right) == pytest.approx(sorted([*np.linspace(0.5, 0.7, 20), 0.3]))
    ends = [line.get_xdata() for line in right.lines]
    assert [0.2, 0.5] in [list(each) for each in ends]
    assert any(np.allclose(each, 0.6) for each in ends)  # the median of many


def test_lines_show_medians_or_every_run_and_say_each_name_once():
    figure = forms.lines(LINES, "title", "step", "share", levels={0.5: "half"})
    line = figure.axes[0].lines[0]
    assert line.get_ydata().tolist() == [0.2, 0.6, 0.9]
    assert all(words(figure).count(name) == 1 for name in ("runs", "gone", "close", "half"))
    assert "runs" in [text.get_text() for text in figure.axes[1].texts]
    figure = forms.lines(LINES, "title", "step", "share", runs=True)
    drawn = [line.get_ydata().tolist() for line in figure.axes[0].lines]
    assert drawn[:3] == RUNS.tolist()


def test_names_at_the_ends_of_lines_keep_their_distance():
    curves = {name: ([0, 1], [0, 0.5 + i / 1000]) for i, name in enumerate("abcd")}
    figure = forms.lines({"": curves}, "title", "x", "y")
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    boxes.sort(key=lambda box: box.y0)
    assert all(low.y1 <= high.y0 + 3 for low, high in zip(boxes, boxes[1:], strict=False))


def test_points_are_named_in_the_color_of_their_group():
    colors = {"others": PALE, "few": VALUE}
    names = {"": {"L0H3": (0.5, 0.6), "nobody": (9, 9)}}
    (axis,) = forms.points(POINTS, "title", "x", "y", names=names, colors=colors).axes
    said = {text.get_text(): text.get_color() for text in axis.texts}
    assert said == {"L0H3": VALUE, "nobody": diagrams.INK}
    others, few = (each.get_offsets().tolist() for each in axis.collections)
    assert others == RUNS[:2].T.tolist() and few == [[0.5, 0.6], [0.52, 0.6]]


def test_grids_have_one_scale_or_one_for_each_row_and_write_what_counts():
    figure = FORMS["grids"]()
    shown = [axis for axis in figure.axes if axis.get_visible() and axis.collections][:3]
    assert [axis.collections[0].get_array().shape for axis in shown] == [(2, 2), (4, 4), (4, 4)]
    numbers = [text.get_text() for text in shown[0].texts]
    assert numbers == ["1.00", "", "0.50", "0.50"]
    own = {"on stories": (0, 2), "on random": (-1, 1)}
    found = forms.grids(GRIDS, "title", limits=own).axes
    limits = [axis.collections[0].get_clim() for axis in found if axis.get_visible()]
    assert limits == [(0, 2), (0, 2), (-1, 1)]


def test_tokens_are_filled_by_their_share():
    (axis,) = texts.token_rows({"a": (TOKENS, [0, 0.5, 1, 9])}, "title", shade=QUERY).axes
    fills = [patch.get_facecolor()[:3] for patch in axis.patches]
    assert fills[0] == (1, 1, 1) and fills[2] == fills[3]
    assert np.allclose(fills[2], texts.tint(QUERY, 1))


def test_arcs_leave_out_small_shares_and_those_of_a_token_itself():
    (axis,) = texts.arcs(TOKENS, SQUARE, "title", least=0.3).axes
    n_pairs = (np.tril(SQUARE, -1) >= 0.3).sum()
    assert len(axis.lines) == 2 * n_pairs  # a curve and its head


def test_two_heads_names_the_best_of_each_layer():
    said = words(FORMS["two_heads, filled"]())
    assert "L0H2: 0.90 of its attention" in said and "L1H2: 1.00 of its attention" in said
    assert "0.50 of random tokens copied" in said


def test_attention_is_drawn_on_a_scale_from_0_to_1_as_it_is():
    figure = plots.attention_map(SQUARE / 2, TOKENS, "L0H1")
    image = figure.axes[0].images[0]
    assert np.array_equal(image.get_array(), SQUARE / 2) and image.get_clim() == (0, 1)
    assert figure.axes[0].get_xlabel() == "attended to (key)"
    assert figure.axes[0].get_ylabel() == "attends (query)"


@pytest.mark.parametrize("signed", [True, False])
def test_a_signed_matrix_is_centered_on_zero(signed):
    values = np.array([[1.0, -3.0], [0.0, 2.0]])
    figure = plots.matrix(values, ["a", "b"], ["c", "d"], "t", "l", signed=signed)
    limits = figure.axes[0].collections[0].get_clim()
    assert limits == ((-3, 3) if signed else (-3, 2))


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
    assert set(baseline.get_ydata()) == {4}
    assert {"a", "b", "uniform: 4.00"} == {text.get_text() for text in axis.texts}
    assert first.get_color() != second.get_color()


def test_bars_have_the_height_of_their_values():
    axis = DRAWN["token_losses"]().axes[0]
    assert [bar.get_height() for bar in axis.patches] == [1, 2, 3, 4, 2, 2, 2, 2]
    assert [bar.get_width() for bar in DRAWN["bars"]().axes[0].patches] == [0.25, 0.5]


ODD = ["$$", "$x_{$", "$a b$"]


@pytest.mark.parametrize("odd", ODD)
def test_dollars_of_names_and_titles_are_drawn_as_typed(odd):
    for draw in (
        lambda: texts.shaded_texts({odd: ([odd, "b"], [1, 2])}, odd, key=odd),
        lambda: texts.token_rows({odd: ([odd], [1])}, odd, note=odd),
        lambda: texts.arcs([odd, "b"], np.eye(2), odd),
        lambda: plots.attention_map(np.eye(2), [odd, "b"], odd),
        lambda: plots.matrix(np.eye(2), [odd, "b"], [odd, "d"], odd, odd, odd, odd),
        lambda: plots.maps([np.eye(2)], [odd], odd, odd, odd, [odd, ""]),
        lambda: plots.bars({odd: 1, "b": 2}, odd, odd, 1, odd, {odd: (0, 2)}),
        lambda: plots.scatter({odd: ([1, 2], [3, 4])}, odd, odd, odd),
        lambda: plots.loss_curves({odd: [1, 2]}, {odd: 1}, odd, odd, odd),
        lambda: plots.seed_curves({odd: {odd: ([1, 2], RUNS[:, :2])}}, odd, odd),
        lambda: plots.token_losses([1, 2], [odd, "b"], odd, [1, 2], (odd, odd)),
        lambda: forms.dots({odd: {odd: {odd: [1, 2]}}}, odd, odd, levels={1: odd}, note=odd),
        lambda: forms.points(
            {odd: {odd: ([1], [1])}}, odd, odd, odd, names={odd: {odd: (1, 1)}}, levels={1: odd}
        ),
        lambda: forms.grids({odd: {odd: np.eye(1)}}, odd, row_names=[odd], label=odd),
        lambda: diagrams.two_heads(title=odd, tokens=(odd,) * 4),
    ):
        figure = draw()
        figure.draw_without_rendering()
        labels = [text for text in figure.findobj(Text) if "$" in text.get_text()]
        drawn = [text._preprocess_math(text.get_text()) for text in labels]
        assert labels and not any(is_mathematics for _, is_mathematics in drawn)
        assert any(text.replace("·", " ").startswith(odd) for text, _ in drawn)


def test_mathematics_of_a_chapter_stays_mathematics():
    _, axis = diagrams.canvas(1, 1)
    diagrams.say(axis, 0, 0, "$W_Q$")
    assert axis.texts[0]._preprocess_math(axis.texts[0].get_text())[1]


def test_control_characters_and_scripts_without_a_font_are_said():
    assert diagrams.typed("a\tb\0c\nd") == "a�b�c\nd"
    plots.attention_map(np.eye(2), ["שלום", "кот"]).draw_without_rendering()
    texts.token_rows({"שלום": (["שלום", "😀"], [0, 1])}, "title").draw_without_rendering()
    with pytest.warns(UserWarning, match="install Noto Sans"):
        diagrams.typed("\U00012000")  # cuneiform


def test_colors_reach_to_values_outside_zero_and_one():
    for values, ends in ([0, 2], (0, 2)), ([-0.5, 1], (-0.5, 1)), ([0.2, 0.4], (0, 1)):
        axis = forms.grids({"": {"": np.array([values])}}, "title").axes[0]
        assert axis.collections[0].get_clim() == ends
    with pytest.raises(ValueError, match="from 0 to 1, got 5"):
        plots.attention_map(5 * np.eye(2), ["a", "b"])


def test_shown_makes_spaces_and_line_breaks_visible_and_dollars_harmless():
    assert plots.shown(" a\n$b") == r"·a⏎\$b"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_tensors_are_drawn_as_they_come(dtype):
    pattern = torch.eye(3, dtype=dtype, requires_grad=True)
    names = ["a", "b", "c"]
    drawn = plots.attention_map(pattern, names).axes[0].images[0].get_array()
    assert np.array_equal(drawn, np.eye(3))
    for draw in (
        lambda: plots.matrix(pattern, names, names, "title", "label"),
        lambda: plots.token_losses(pattern[0], names, "title"),
        lambda: forms.lines({"": {"a": (range(3), pattern)}}, "title", "x", "y"),
        lambda: texts.arcs(names, pattern, "title"),
    ):
        draw()


@pytest.mark.parametrize("names", ["ab", "abcd"])
def test_a_pattern_of_another_length_than_its_tokens_is_refused(names):
    for draw in (
        lambda: plots.attention_map(np.eye(3), list(names)),
        lambda: plots.matrix(np.eye(3), list(names), list("abc"), "title", "label"),
        lambda: texts.arcs(list(names), np.eye(3), "title"),
        lambda: plots.maps([np.ones((6, 6, 3))], ["title"], "label"),
    ):
        with pytest.raises(ValueError, match="must have shape"):
            draw()
