"""Notebook 02: models without positions, heads that count back, its pages and drawings."""

import json
import re
from pathlib import Path

import pytest
import torch
from matplotlib.patches import Rectangle

from aot_helpers.models import transformer
from aot_helpers.models.checkpoints import load_checkpoint
from aot_helpers.reading.heads import head_scores
from aot_helpers.teaching.exercises import grade, write
from chapters.nb02_embeddings_and_positions import exercises as nb02
from chapters.nb02_embeddings_and_positions import figures as embeddings_drawings
from chapters.nb02_embeddings_and_positions import measure as embeddings

NOTEBOOK = Path(__file__).parent.parent / "notebooks" / "02_embeddings_and_positions.ipynb"


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_the_kinds_are_words_of_one_token_each():
    tokenizer = load_checkpoint("stories-2l").tokenizer
    words = [word for group in embeddings.kinds().values() for word in group]
    assert len(words) == len(set(words)) >= 40
    assert all(len(tokenizer.encode(" " + word)) == 1 for word in words)


def test_principal_components_are_the_plane_of_rows_in_a_plane():
    rows = torch.randn(30, 2) @ torch.randn(2, 9) + 5  # a plane in nine dimensions
    directions, shares = embeddings.principal_components(rows)
    flat = rows @ directions.T
    assert torch.allclose(torch.cdist(flat, flat), torch.cdist(rows, rows), atol=1e-2)
    assert shares.sum() == pytest.approx(1) and shares[0] >= shares[1]


def test_cosines_are_pytorchs():
    rows, others = torch.randn(5, 7), torch.randn(3, 7)
    expected = torch.cosine_similarity(rows[:, None], others[None], dim=-1)
    assert torch.allclose(embeddings.cosines(rows, others), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("positions", "n_layers", "notices"),
    [("none", 1, False), ("none", 2, True), ("relative", 1, True), ("standard", 1, True)],
)
def test_who_notices_a_shuffled_past(positions, n_layers, notices):
    change = embeddings.change_of_last_logits(embeddings.random_model(positions, n_layers))
    assert (change > 1e-3) == notices


def test_the_bias_of_a_head_looks_one_back_more_than_its_tokens():
    model = load_checkpoint("stories-2l")
    batch = torch.randint(1, model.config.d_vocab, (4, 30))
    by_bias, by_tokens = embeddings.one_back_by_part("stories-2l", batch)
    bias = model.blocks[0].attn.b_rel[3].detach()  # L0H3: one number per distance
    rows = [torch.stack([bias[q - k] for k in range(q + 1)]).softmax(dim=0) for q in range(30)]
    expected = torch.stack([row[-2] for row in rows[1:]]).mean()
    assert int(head_scores(model, batch, "previous").scores.argmax()) == 3
    assert by_bias == pytest.approx(float(expected), abs=1e-4)
    assert by_tokens < 0.3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({1: [0, 1], 2: [0, 1, 2, 3]}, "solved"),
        ({1: {1, 0}, 2: range(4)}, "solved"),
        ({1: [0, 1, 2], 2: [0, 1, 2, 3]}, "not yet. In one layer, the logits at position 2 do not"),
        ({1: [0, 1], 2: [0, 1]}, "not yet. In two layers, the logits at position 2 change."),
        ({1: [0, 1], 2: 4}, "not yet. 2: a list of positions"),
        ({1: [0, 4], 2: [0]}, "not yet. 1: a list of positions from 0 to 3"),
        ([0, 1], "not yet. A dict with the keys 1 and 2"),
        ({1: ..., 2: ...}, "not attempted"),
    ],
)
def test_positions_that_notice_a_swap(capsys, answer, said):
    grade("02.3", answer)
    assert capsys.readouterr().out.startswith(f"exercise 02.3: {said}")


def folded_solutions() -> dict:
    """{name: function} of the notebook's folded solutions that define one."""
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    prose = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    names = {"torch": torch}
    for block in re.findall(r"```python\n(def .*?)```", prose, re.S):
        exec(block, names)
    return names


def blank(*arguments):
    """A page nobody has written on."""
    ...


@pytest.mark.parametrize("number", nb02.PAGES)
def test_a_page_is_the_packages_until_it_is_right_and_then_the_readers(capsys, number):
    assert write(number, blank) is nb02.PAGES[number]
    assert capsys.readouterr().out.startswith(f"exercise {number}: not attempted\n")
    assert write(number, lambda *arguments: "three") is nb02.PAGES[number]
    assert f"exercise {number}: not yet. " in capsys.readouterr().out
    own = folded_solutions()[nb02.PAGES[number].__name__]
    assert write(number, own) is own
    assert capsys.readouterr().out.startswith(f"exercise {number}: solved (")


def lengths(rows, dim=1, power=1):
    return rows.norm(dim=dim, keepdim=True) ** power


COSINES = {
    "dot products": lambda a, b: a @ b.T,
    "the others have not": lambda a, b: a / lengths(a) @ b.T,
    "the rows have not": lambda a, b: a @ (b / lengths(b)).T,
    "squared lengths": lambda a, b: a / lengths(a, power=2) @ (b / lengths(b, power=2)).T,
    "lengths of the columns": lambda a, b: a / lengths(a, 0) @ (b / lengths(b, 0)).T,
    "one length for the whole": lambda a, b: a / a.norm() @ (b / b.norm()).T,
    "distances": torch.cdist,
    "of shape (4, 6) is wanted, got (6, 4)": lambda a, b: nb02.cosines(b, a),
    "should be": lambda a, b: nb02.cosines(a, b).abs(),
}
GAPS = {
    "in their old places": lambda f, t, o: (f(t[:, o]) - f(t)).abs().max().item(),
    "inverse permutation": lambda f, t, o: (f(t[:, o])[:, o] - f(t)).abs().max().item(),
    "the last dimension": lambda f, t, o: (f(t[:, o]) - f(t)[..., o]).abs().max().item(),
    "absolute value first": lambda f, t, o: (f(t[:, o]) - f(t)[:, o]).max().item(),
    "not the mean": lambda f, t, o: (f(t[:, o]) - f(t)[:, o]).abs().mean().item(),
    "last position only": lambda f, t, o: (f(t[:, o]) - f(t)[:, o])[:, -1].abs().max().item(),
    "one number, please": lambda f, t, o: (f(t[:, o]) - f(t)[:, o]).abs(),
}


def table(n, d, base, halves=False, power=2, swap=False, first=0):
    angles = torch.arange(first, n + first)[:, None] / base ** (torch.arange(d // 2) * power / d)
    pair = [angles.cos(), angles.sin()] if swap else [angles.sin(), angles.cos()]
    return torch.cat(pair, dim=1) if halves else torch.stack(pair, dim=-1).flatten(1)


TABLES = {
    "two halves": lambda n, d, base: table(n, d, base, halves=True),
    "changed places": lambda n, d, base: table(n, d, base, swap=True),
    "yours is half of it": lambda n, d, base: table(n, d, base, power=1),
    "The rate grows": lambda n, d, base: table(n, d, 1 / base),
    "take the argument": lambda n, d, base: table(n, d, 10_000.0),
    "count from 0": lambda n, d, base: table(n, d, base, first=1),
    "is wanted, got (8, 6)": lambda n, d, base: table(n, d, base).T,
}
MISTAKES = [("02.1", *each) for each in COSINES.items()]
MISTAKES += [("02.2", *each) for each in GAPS.items()]
MISTAKES += [("02.4", *each) for each in TABLES.items()]


@pytest.mark.parametrize(("number", "said", "mistake"), MISTAKES)
def test_a_common_mistake_is_named(capsys, number, said, mistake):
    grade(number, mistake)
    out = capsys.readouterr().out
    assert out.startswith(f"exercise {number}: not yet. ") and said in out


def test_the_packages_own_sinusoids_are_the_page_with_another_base():
    expected = transformer.sinusoids(7, 6, 200.0)
    assert torch.allclose(nb02.sinusoids(7, 6, 200.0), expected, atol=1e-6)


def test_the_name_of_a_kind_covers_none_of_its_neighbors():
    groups = {"thing": ["map", "lamp"], "place": ["sea", "mill"]}
    points = torch.tensor([[0.0, 0.0], [0.0, 0.1], [0.0, 0.18], [1.0, 1.0]])  # sea above things
    panels = {"before": points, "after": points}
    figure = embeddings_drawings.word_map(panels, groups, ["map"], "title", ["x", "y"])
    said = {text.get_text(): text for text in figure.axes[-1].texts}
    axis, box = figure.axes[-1], said["things"].get_window_extent()
    assert not any(box.contains(*at) for at in axis.transData.transform(points))


def test_a_word_is_followed_through_panels_of_one_scale():
    groups, points = {"place": ["sea", "mill"], "food": ["soup"]}, torch.randn(3, 2)
    panels = {"before": points, "after": 3 * points}
    figure = embeddings_drawings.word_map(panels, groups, ["soup"], "title", ["PC 1", "PC 2"])
    first, last = figure.axes
    assert first.get_xlim() == last.get_xlim() and first.get_ylim() == last.get_ylim()
    assert [text.get_text() for text in first.texts] == ["soup"]
    (line,) = last.lines
    ends = torch.as_tensor(line.get_xydata()).float()
    assert torch.allclose(ends, torch.stack([points[2], 3 * points[2]]))


def test_marked_pairs_get_a_dot_on_both_sides_of_the_diagonal():
    words, values = ["a", "b", "c"], torch.eye(3)
    panels = {"rows": values, "columns": values}
    figure = embeddings_drawings.cosine_maps(panels, "title", "dot", words, [("c", "a")])
    (dots,) = figure.axes[0].lines
    assert sorted(map(tuple, dots.get_xydata().tolist())) == [(0, 2), (2, 0)]
    assert embeddings_drawings.cosine_maps(panels, "title", "position").axes[0].get_ylabel()


def test_pairs_are_named_where_they_lie():
    x, y = torch.rand(5, 5), torch.rand(5, 5)
    panels = {"rows": ("next", x, y), "columns": ("previous", y, x)}
    named = {"a, b": (0, 3), "a, c": (1, 4)}
    figure = embeddings_drawings.pairs_of_tokens(panels, named, "title")
    assert len(figure.axes[0].collections[0].get_offsets()) == 10
    for axis in figure.axes:
        assert [text.get_text() for text in axis.texts] == ["a, b", "a, c"]
    at = figure.axes[1].lines[1].get_xydata()[0]
    assert at.tolist() == pytest.approx([y[0, 3].item(), x[0, 3].item()])


def test_a_line_joins_what_a_reordering_leaves_equal():
    words, order = ["a", "b", "c"], [2, 1, 0]
    logits = torch.randn(3, 12)
    panels = {"same": (logits, logits[order]), "not": (logits, logits[order] + 1)}
    figure = embeddings_drawings.reordered(panels, words, order, "title")
    assert [line.get_linestyle() for line in figure.axes[0].lines] == 3 * ["-"] + 3 * [":"]


def test_the_curves_of_positions_have_one_point_for_each_distance():
    W_pos = nb02.sinusoids(30, 16)
    alike = nb02.cosines(W_pos, W_pos)
    curves = {"from 0": alike[0, :11], "from 9": alike[9, 9:20], "untrained": torch.randn(11)}
    figure = embeddings_drawings.by_distance(curves, "title")
    first, second = (line.get_ydata() for line in figure.axes[0].lines[:2])
    assert first == pytest.approx(second, abs=1e-5) and len(first) == 11


def test_drawings_say_what_they_show():
    figure = embeddings_drawings.dials({"pair 0": 1.0, "pair 8": 0.1}, range(3), "title")
    said = [text.get_text() for text in figure.axes[0].texts]
    assert {"a turn in 6 steps", "a turn in 63 steps", "pair 8"} <= set(said)
    figure = embeddings_drawings.entrances([0.4, 5.6, -1.0], "title")
    bars = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert [bar.get_height() > 0 for bar in bars] == [True, True, False]
