"""Notebook 18: what it measures, its results files, its drawings and its exercises."""

import json
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.text import Text

from aot_helpers.base import results
from aot_helpers.models.protocol import Head
from aot_helpers.teaching.exercises import grade
from chapters.nb18_queries_meet_keys import figures as drawings
from chapters.nb18_queries_meet_keys import measure as study
from chapters.nb18_queries_meet_keys.geometry import (
    QueriesKeys,
    close_correlation,
    close_threshold,
    distances,
    placed,
    queries_and_keys,
    scale_curve,
)
from chapters.nb18_queries_meet_keys.texts import TEXTS, TYPES, token_type

MINILM = results.read("geometry/minilm")


def points(n_texts=3, n=10, d_head=6, seed=0):
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, n_texts * n, d_head, generator=draw, dtype=torch.float64)
    text, pos = torch.arange(n_texts).repeat_interleave(n), torch.arange(n).repeat(n_texts)
    return QueriesKeys(2 * q, k, text, pos)


# ---- measures ----


def test_random_directions_keep_lengths_and_nothing_else():
    x = points().q
    drawn = study.random_directions(x, torch.Generator().manual_seed(1))
    assert torch.allclose(drawn.norm(dim=1), x.norm(dim=1))
    assert torch.cosine_similarity(drawn, x).abs().mean() < 0.6


def test_an_order_within_texts_exchanges_points_of_one_text_only():
    v = points()
    order = study._within_texts(v.text, torch.Generator().manual_seed(0))
    assert sorted(order.tolist()) == list(range(30)) != order.tolist()
    assert torch.equal(v.text[order], v.text)


def test_correlations_have_a_value_for_each_scale_and_nulls_of_their_own():
    v = points(n=20)
    found = study.correlations(v, causal=False)
    assert {len(each) for each in found.values()} == {7}
    assert found["shuffled"] != found["all pairs"] != found["directions"]
    assert str(found) == str(study.correlations(v, causal=False))  # as text, NaN equals NaN
    turned = v._replace(q=-v.q, k=-v.k)  # the same dot products and distances
    other = study.correlations(turned, causal=False)
    assert np.allclose(other["all pairs"], found["all pairs"])


def test_the_shift_costs_nothing_where_the_queries_have_no_mean():
    v = points()
    centered = v._replace(q=v.q - v.q.mean(dim=0))
    found = study.liked(centered, False, (1.0, 1e4))
    assert found["plain"] == found["centered"] and found["shifted"] == found["centered, shifted"]
    assert found["plain"][1] == found["shifted"][1] == 1 > found["shuffled"][1]
    assert study.liked(v._replace(q=v.q + 3), False, (1e4,))["shifted"][0] < 1


def test_cosine_distance_counts_directions_alone():
    v = points()
    longer = v._replace(k=v.k * torch.linspace(1, 9, len(v.k), dtype=torch.float64)[:, None])
    alike = v._replace(k=torch.nn.functional.normalize(v.k, dim=-1))
    assert study.liked(alike, False, (1.0,), metric="cosine")["plain"] == [1]
    found = study.liked(longer, False, (0.2, 1.0, 5.0), metric="cosine")["plain"]
    assert len(set(found)) == 1 and found[0] < 1
    assert len(set(study.liked(longer, False, (0.2, 1.0, 5.0))["plain"])) > 1


def test_attention_from_queries_and_keys_is_the_models(make_model):
    model = make_model(positions="relative").requires_grad_(False)
    tokens = torch.arange(1, 8)
    pattern = model.run_with_cache(tokens[None])[1]["L1.pattern"][0]
    for head, v in queries_and_keys(model, [tokens], [Head(1, 0), Head(1, 1)]).items():
        assert torch.allclose(
            study.attention(model, head, v.q, v.k), pattern[head.head].double(), atol=1e-5
        )


def small_result(best, causal=False):
    """Two texts of three tokens; queries on a line, and each key beside the query before it."""
    at = torch.tensor([[0.0, 0], [100, 0], [250, 0]]).repeat(2, 1)
    keys = at.roll(1, 0) + torch.tensor([0.0, 5])
    head = {"head": "L0H0", "tsne": study.packed_map(at, keys)}
    head["top"] = study._packed(torch.tensor(best).repeat(2)[:, None].expand(-1, 3))
    tokens = [["a", "b", "c"]] * 2
    sizes = {"n_layers": 1, "n_heads": 1, "causal": causal}
    return {"model": "small", "tokens": tokens, "heads": [head], **sizes}


def test_what_is_found_on_a_map_is_counted_within_texts():
    head = Head(0, 0)
    assert study.found_on_map(small_result([1, 2, 0]), head) == 1
    assert math.isclose(study.found_on_map(small_result([1, 2, 2]), head), 2 / 3)
    assert math.isclose(study.found_on_map(small_result([0, 2, 2]), head, but_first=True), 1 / 2)
    assert math.isnan(study.found_on_map(small_result([0, 0, 0]), head, but_first=True))
    # Causal: the first query has no choice, and none may look at a later key.
    assert study.found_on_map(small_result([0, 1, 0], causal=True), head) == 1
    assert study.found_on_map(small_result([0, 0, 0], causal=True), head) == 0.5
    text, pos = study.places(small_result([0, 0, 0]))
    assert text.tolist() == [0, 0, 0, 1, 1, 1] and pos.tolist() == [0, 1, 2, 0, 1, 2]


def test_the_norms_left_are_twice_the_ratio_and_none():
    as_said, turned = study.norms_left(points())
    assert math.isclose(as_said, 2) and abs(turned) < 1e-9


def test_a_key_above_average_is_the_nearest_after_the_shift():
    v = points()
    v = v._replace(q=v.q + 3)
    dots = v.q @ v.k.T
    assert torch.allclose(study.above(v).q @ v.k.T, dots - dots.mean(dim=0))
    found = study.liked(v, False, (1e4,))
    assert found["above, shifted"] == [1.0] and found["above"][0] < 1


def test_points_along_the_text_have_neighbors_of_near_positions():
    v = points(n_texts=4, n=40)
    line = torch.stack([v.pos * 1.0, 0.01 * v.text], dim=1)
    by_lot = (40 + 1) / 3  # the mean distance of two different numbers below 40
    assert math.isclose(study.along_the_text(line, v.pos), 1 / by_lot)
    assert 0.6 < study.along_the_text(line, v.pos, seed=0) < 1.4


def test_pearls_at_random_places_are_not_along_the_text():
    v = points(n_texts=4, n=40)
    pearls = 9 * torch.rand(40, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    at = pearls[v.pos] + 1e-3 * v.q[:, :2]  # each position of all texts on one spot
    assert 0.6 < study.along_the_text(at, v.pos) < 1.4


def test_keys_moved_by_lot_go_as_far_as_the_shift_and_elsewhere():
    v = points()._replace(k=points().k + 3)
    q, k = study.moved_by_lot(v, 2.0)
    (_, plain), (_, there) = placed(v.q, v.k, 2.0), placed(v.q, v.k, 2.0, shift=True)
    moved, shift = (k - plain), (there - plain)
    assert torch.equal(q, 2 * v.q) and torch.allclose(moved, moved[:1])
    assert torch.isclose(moved[0].norm(), shift[0].norm()) and (moved - shift).norm() > 1


def test_neighbors_of_keys_are_keys_where_the_clouds_lie_apart():
    v = points(n=40)
    assert study.keys_near_keys(v.q, v.k + 100) == 1
    assert 0.4 < study.keys_near_keys(v.q, 2 * v.k) < 0.6
    assert study.keys_near_keys(v.k + 1e-6, v.k, n_neighbors=1) == 0


def test_close_pairs_are_those_of_the_curve_and_share_few_vectors():
    v = points(n=20)
    short = v._replace(k=torch.cat([0.01 * v.k[:2], v.k[2:]]))
    distance, dots, shared = study.close_pairs(short.q, short.k, 0.2)
    correlation, count = scale_curve(short.q, short.k)
    limit = close_threshold(distances(*placed(short.q, short.k, 0.2)))
    assert len(distance) == len(dots) == len(shared) == count[0]
    assert math.isclose(close_correlation(dots, distance, limit)[0], correlation[0], rel_tol=1e-5)
    assert len(shared.unique()) <= 2


def test_the_queries_that_like_another_key_are_counted_alone():
    v = points()
    first = v.pos == 0
    v = v._replace(k=torch.where(first[:, None], 0 * v.k, v.k))  # nobody likes it much
    found = study.liked(v, False, (1e4,))
    assert found["others"] == [1.0]
    every = v._replace(q=v.q.abs(), k=torch.where(first[:, None], v.k.abs() + 9, -v.k.abs()))
    assert math.isnan(study.liked(every, False, (1.0,))["others"][0])


def test_the_norm_metric_of_half_the_texts():
    v = points(n_texts=4)
    even = v.text % 2 == 0
    alone = study.norm_scale(v.q[even], v.k[even])
    assert study.of_halves(v)[0] == alone != study.of_halves(v)[1]


def test_the_previous_key_is_found_where_it_is_the_nearest():
    v = points()
    ahead = torch.eye(10, dtype=torch.float64).repeat(3, 1)
    v = v._replace(q=ahead.roll(1, 0), k=ahead)  # each query is the key before it, but the first
    assert study.previous_nearest(v, c=1.0) == 1
    assert study.previous_nearest(v._replace(q=ahead), c=1.0) == 0


def test_a_models_result_fits_in_json_and_comes_back(make_model, tmp_path, monkeypatch):
    model = make_model(positions="none").requires_grad_(False)
    tokens = [
        torch.randint(11, (10,), generator=torch.Generator().manual_seed(i)) for i in range(12)
    ]
    monkeypatch.setattr(study, "texts_for", lambda model, name: tokens)
    model.tokenizer = type(
        "Some", (), {"token_strings": lambda self, ids: [str(int(i)) for i in ids]}
    )()
    result = study.examine(model, "tiny")
    results.write("geometry/tiny", result, tmp_path, rows="heads")
    again = results.read("geometry/tiny", tmp_path)
    assert again["heads"] == result["heads"] and again["tokens"][0] == [
        str(int(i)) for i in tokens[0]
    ]
    q, k = study.map_of(again, Head(1, 1), "tsne")
    assert q.shape == k.shape == (120, 2) and 0 <= torch.cat([q, k]).min() <= 255
    with pytest.raises(ValueError, match="no head L2H0: tiny has 2 layers of 2 heads"):
        study.head_of(again, Head(2, 0))
    with pytest.raises(ValueError, match="tiny has no map by 'umap'"):
        study.map_of(again, Head(0, 0), "umap")


def test_a_packed_map_keeps_its_shape():
    v = points()
    packed = study.packed_map(v.q[:, :2], v.k[:, :2])
    found = study.unpacked(packed, 2).double()
    whole = torch.cat([v.q, v.k])[:, :2]
    scale = (whole.amax(dim=0) - whole.amin(dim=0)).max() / 255
    assert (distances(found, found) * scale - distances(whole, whole)).abs().max() < 2 * scale


# ---- what is shipped ----


def test_what_is_shipped_of_minilm_is_whole_and_small():
    assert len(MINILM["heads"]) == 72 and len(MINILM["tokens"]) == len(TEXTS)
    n = sum(map(len, MINILM["tokens"]))
    for each in MINILM["heads"]:
        maps = [study.unpacked(each[kind], 2) for kind in ("tsne", "tsne, no shift", "umap")]
        assert {each.shape for each in maps} == {(2 * n, 2)}
        assert study.unpacked(each["top"], 3).shape == (n, 3)
    longest = max(map(len, MINILM["tokens"]))
    assert all(study.unpacked(each["top above"], 1).shape == (n, 1) for each in MINILM["heads"])
    assert max(study.unpacked(each["top"], 3).max() for each in MINILM["heads"]) < longest
    paths = (results.RESULTS / "geometry").glob("*.json")
    assert all(path.stat().st_size < 1_000_000 for path in paths)


def test_kinds_of_tokens():
    names = [TYPES[token_type(token)] for token in ["ferry", " the", ".", "##sc", "[CLS]", "1911"]]
    assert names == [TYPES[i] for i in (0, 1, 2, 3, 4, 0)]


# ---- drawings ----


def panels():
    v = points()
    return {"one": (v.q[:, :2], v.k[:, :2]), "two": placed(v.q[:, :2], v.k[:, :2], 2.0, True)}


FIGURES = {
    "toy": lambda: drawings.toy({"a": (torch.rand(2, 2), torch.rand(2, 2))}, ["x", "y"], "title"),
    "nearest": lambda: drawings.toy(
        {"a": (torch.rand(2, 2), torch.rand(2, 2))}, ["x", "y"], "title", links="nearest"
    ),
    "clouds": lambda: drawings.clouds(panels(), "title", points().pos, links=[(0, 1)]),
    "zoom": lambda: drawings.clouds(panels(), "title", zoom={"two": (3, 1)}, links=[(3, 1)]),
    "close": lambda: drawings.close_pairs(
        {"one": (torch.rand(9), torch.rand(9), torch.arange(9) % 3)}, "title"
    ),
    "glance": lambda: drawings.at_a_glance(MINILM, "title", notes={Head(0, 2): "before"}),
    "liked": lambda: drawings.liked_by_scale([0.2, 1, 5], {"all": torch.rand(3, 3)}, "title"),
    "centers": lambda: drawings.toy(
        {"a": (torch.rand(2, 2), torch.rand(2, 2))}, ["x", "y"], "title", center=True
    ),
    "exchange": lambda: drawings.exchange(
        {"one": {"liked": (0.9, 0.1)}, "two": {"liked": (0.5, 0.4)}}, "title", ("before", "after")
    ),
    "scales": lambda: drawings.chosen_scales({"a": torch.rand(2, 3) + 0.3}, "title"),
}


def test_no_name_covers_another_or_leaves_its_axes():
    at = torch.tensor([[0.0, 0.0], [0.2, 0.1], [0.4, 0.0], [1.0, 1.0], [0.5, 0.9]])
    figure = drawings.toy({"a": (at, at.flip(1))}, ["the", "cat", "chased", "mice", "so"], "title")
    figure.canvas.draw()
    (axis,) = figure.axes
    boxes = [text.get_window_extent() for text in axis.texts]
    assert len(boxes) == 10 and all(axis.bbox.contains(*box.min) for box in boxes)
    shared = [drawings._overlap(a.extents, b.extents) for a in boxes for b in boxes if a is not b]
    assert max(shared) < 0.25 * min(box.width * box.height for box in boxes)


def test_keys_that_lie_together_and_a_chosen_query_are_shown_larger():
    q, k = torch.tensor([[-4.0, 6.0], [10.0, -2.0]]), torch.tensor([[0.1, 0.0], [0.2, 0.1]])
    (inset,) = drawings.toy({"a": (q, k)}, ["cat", "mice"], "title").axes[0].child_axes
    assert [text.get_text() for text in inset.texts] == ["cat", "mice"]
    one = drawings.clouds({"a": (q, k)}, "title", zoom={"a": (1, 0)}).axes[0].child_axes[0]
    assert [text.get_text() for text in one.texts] == ["query", "key"]
    assert one.get_xlim()[0] < 10 < one.get_xlim()[1] < 12


def test_panels_that_are_alike_have_the_same_axes():
    q, k = torch.rand(2, 3, 2, generator=torch.Generator().manual_seed(0))
    pairs = {"as it is": (q, k), "moved": (q, k + 0.5)}
    for alike in (False, True):
        one, two = drawings.toy(pairs, ["x", "y", "z"], "title", alike=alike).axes
        assert (one.get_xlim() == two.get_xlim() and one.get_ylim() == two.get_ylim()) == alike


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_has_its_title_and_labels_that_can_be_read(name):
    figure = FIGURES[name]()
    figure.canvas.draw()
    shown = [t for t in figure.findobj(Text) if t.get_text() and t.get_visible()]
    assert any("title" in t.get_text() for t in shown)
    assert min(t.get_fontsize() for t in shown) >= 9
    assert not plt.get_fignums()


def test_one_query_is_joined_to_its_favorites_and_to_the_nearest_key():
    axis = drawings.one_query(MINILM, Head(0, 2), 20).axes[0]
    dashed = [line for line in axis.lines if line.get_linestyle() not in ("-", "None")]
    assert len(dashed) == 1 and {t.get_text() for t in axis.texts} == {"piano", "a", "and", "the"}
    (q, k), (text, _) = study.map_of(MINILM, Head(0, 2)), study.places(MINILM)
    nearest = distances(q[20:21], k[text == 0])[0].argmin()
    assert np.allclose(np.transpose(dashed[0].get_data()), torch.stack([q[20], k[nearest]]))


def test_the_live_view_carries_its_heads_and_a_picture():
    still = FIGURES["clouds"]()
    view = drawings.MapView(MINILM, [Head(0, 2), Head(5, 11)], still, point=3)
    assert list(view.data["heads"]) == ["L0H2", "L5H11"] and view.data["head"] == "L0H2"
    bundle = view._repr_mimebundle_()
    assert json.dumps(view.data) in bundle["text/html"] and bundle["image/png"]
    with pytest.raises(ValueError, match="no head L6H0"):
        drawings.MapView(MINILM, [Head(6, 0)], still)


# ---- exercises ----

TOY = {
    "queries": [[1.6, 0.9], [-0.8, 1.2], [2.0, -0.4], [-0.4, 0.3]],
    "keys": [[0.6, 0.8], [1.2, -0.4], [0.1, 1.8], [1.8, -1.6]],
}


def lift(q, k):
    squares = (k**2).sum(dim=1, keepdim=True)
    zeros = torch.zeros(len(q), 1, dtype=q.dtype)
    return torch.cat([q, zeros], dim=1), torch.cat([k, (squares.max() - squares).sqrt()], dim=1)


def heavier(q, k):
    return q + torch.eye(4)[3], k


def flat(q, k):
    return tuple(torch.nn.functional.pad(each, (0, 1)) for each in (q, k))


def lengthened(q, k):
    nearest = distances(q, k, "cosine").argmin(dim=1)
    unwanted = torch.bincount(nearest, minlength=len(k)) == 0
    return torch.where(unwanted[:, None], 100 * k, k)


def one_longer(k):
    return torch.cat([100 * k[:1], k[1:]])


ANSWERS = [
    ("18.1", ([4.0, 0.0], False), "solved (all four like mice most; on the map with shifted"),
    ("18.1", (torch.tensor([0.0, -2.0]), False), "solved (all four like mice most; on the map wit"),
    ("18.1", ([4.0, 0.0], True), "not yet. The move is right, but not the guess"),
    ("18.1", ([4.0, 0.0], "yes"), "not yet. The move is right. As map_changes give True or False"),
    (
        "18.1",
        ([0.0, 0.0], True),
        "not yet. It adds 0.00, 0.00, 0.00, 0.00 to the scores of the four",
    ),
    (
        "18.1",
        ([1.0, 0.0], True),
        "not yet. It adds 0.60, 1.20, 0.10, 1.80 to the scores of the four",
    ),
    ("18.1", ([1.0], True), "not yet. Give two finite numbers"),
    ("18.1", ("right", True), "not yet. Give two numbers"),
    ("18.1", ([math.nan, 1.0], True), "not yet. Give two finite numbers"),
    ("18.1", (..., True), "not attempted"),
    ("18.2", lift, "solved (all 36 queries"),
    ("18.2", lambda q, k: flat(q, k), "not yet. Of 12 queries, "),
    ("18.2", lambda q, k: lift(q, 2 * k), "not yet. The first three columns of the keys must"),
    ("18.2", lambda q, k: flat(1000 * q, k / 1000), "not yet. The first three columns of the quer"),
    ("18.2", lambda q, k: heavier(*lift(q, k)), "not yet. The dot products have changed"),
    ("18.2", lambda q, k: (q, k), "not yet. Of 12 queries and 9 keys, shapes (12, 4) and (9, 4)"),
    ("18.2", lambda q, k: q, "not yet. Return two tensors"),
    ("18.2", lambda q, k: [1, 2], "not yet. Return two tensors"),
    ("18.2", lambda q, k: lift(q * math.nan, k), "not yet. Yours has NaN"),
    ("18.2", lambda q, k: None, "not attempted"),
    ("18.3", lengthened, "solved (in three sets of 12 queries, the map is right for 0, 1, 2)"),
    ("18.3", lambda q, k: 10 * k, "not yet. In three sets of 12 queries, the map is still right"),
    ("18.3", lambda q, k: one_longer(k), "not yet. In three sets of 12 queries, the map is still"),
    ("18.3", lambda q, k: -k, "not yet. A cosine distance has changed by"),
    ("18.3", lambda q, k: (q, k), "not yet. Return the new keys alone"),
    ("18.3", lambda q, k: k[:5], "not yet. Return the new keys alone, a tensor of shape (9, 3)"),
    ("18.3", lambda q, k: k * math.nan, "not yet. Yours has NaN"),
    ("18.3", lambda q, k: None, "not attempted"),
]


def test_what_keeps_a_map_right_is_said(capsys):
    grade("18.3", lambda q, k: one_longer(k))
    said = capsys.readouterr().out
    assert " have a negative score with the key that has grown most, and " in said


@pytest.mark.parametrize(("name", "answer", "said"), ANSWERS)
def test_an_answer_is_tried_out(name, answer, said, capsys):
    parts, given = (answer, TOY) if name == "18.1" else ((answer,), {})
    grade(name, *parts, **given)
    assert capsys.readouterr().out.startswith(f"exercise {name}: {said}")
