"""Evidence of notebook 18: what it measures, its results files, its texts and its drawings."""

import math

import numpy as np
import pytest
import torch

from aot_helpers.base import results
from aot_helpers.models.protocol import Head
from chapters.nb18_queries_meet_keys import measure as reading
from chapters.nb18_queries_meet_keys.measure import N_TEXTS, SNAKE, QueriesKeys
from evidence.support.nb18 import examine, figures, geometry, measure
from evidence.support.nb18.geometry import (
    close_correlation,
    close_threshold,
    distances,
    placed,
    queries_and_keys,
    scale_curve,
)
from evidence.support.nb18.texts import NOUNS, PRONOUNS, TEXTS, words_of
from figure_checks import check_figures
from tiny_models import tiny

MINILM = results.read("geometry/minilm")


def points(n_texts=3, n=10, d_head=6, seed=0):
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, n_texts * n, d_head, generator=draw, dtype=torch.float64)
    text, pos = torch.arange(n_texts).repeat_interleave(n), torch.arange(n).repeat(n_texts)
    return QueriesKeys(2 * q, k, text, pos)


def clouds(n=30, d_head=8, seed=0, apart=0.0):
    """Random queries and keys [n, d_head], their centroids some way apart."""
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, n, d_head, generator=draw, dtype=torch.float64)
    return 2 * q, k + apart


def texts(n_tokens=(10, 10, 10), d_vocab=11):
    draw = torch.Generator().manual_seed(3)
    return [torch.randint(d_vocab, (n,), generator=draw) for n in n_tokens]


def test_random_directions_keep_lengths_and_nothing_else():
    x = points().q
    drawn = measure.random_directions(x, torch.Generator().manual_seed(1))
    assert torch.allclose(drawn.norm(dim=1), x.norm(dim=1))
    assert torch.cosine_similarity(drawn, x).abs().mean() < 0.6


def test_correlations_have_a_value_for_each_scale_and_nulls_of_their_own():
    v = points(n=20)
    found = measure.correlations(v, causal=False)
    assert {len(each) for each in found.values()} == {7}
    assert found["shuffled"] != found["all pairs"] != found["directions"]
    rotated = measure.correlations(v._replace(q=-v.q, k=-v.k), causal=False)
    assert np.allclose(rotated["all pairs"], found["all pairs"])


def test_the_shift_costs_nothing_where_the_queries_have_no_mean():
    v = points()
    centered = v._replace(q=v.q - v.q.mean(dim=0))
    found = measure.nearest_key_rates(centered, False, (1.0, 1e4))
    assert found["plain"] == found["centered"] and found["shifted"] == found["centered, shifted"]
    assert found["plain"][1] == found["shifted"][1] == 1 > found["shuffled"][1]
    assert measure.nearest_key_rates(v._replace(q=v.q + 3), False, (1e4,))["shifted"][0] < 1


def test_attention_from_queries_and_keys_is_the_models(make_model):
    model = make_model(positions="relative").requires_grad_(False)
    tokens = torch.arange(1, 8)
    pattern = model.run_with_cache(tokens[None])[1]["L1.pattern"][0]
    for head, v in queries_and_keys(model, [tokens]).items():
        if head.layer == 0:
            continue
        assert torch.allclose(
            measure.attention(model, head, v.q, v.k), pattern[head.head].double(), atol=1e-5
        )


def small_result(best, causal=False):
    """Two texts of three tokens; queries on a line, and each key beside the query before it."""
    at = torch.tensor([[0.0, 0], [100, 0], [250, 0]]).repeat(2, 1)
    keys = at.roll(1, 0) + torch.tensor([0.0, 5])
    head = {"head": "L0H0", "tsne": examine.packed_map(at, keys)}
    head["top"] = examine._packed(torch.tensor(best).repeat(2)[:, None].expand(-1, 3))
    tokens = [["a", "b", "c"]] * 2
    sizes = {"n_layers": 1, "n_heads": 1, "causal": causal}
    return {"model": "small", "tokens": tokens, "heads": [head], **sizes}


def test_what_is_found_on_a_map_is_counted_within_texts():
    head = Head(0, 0)
    assert measure.nearest_on_map(small_result([1, 2, 0]), head) == 1
    assert math.isclose(measure.nearest_on_map(small_result([1, 2, 2]), head), 2 / 3)
    assert math.isclose(
        measure.nearest_on_map(small_result([0, 2, 2]), head, but_first=True), 1 / 2
    )
    assert math.isnan(measure.nearest_on_map(small_result([0, 0, 0]), head, but_first=True))
    # Causal: the first query has no choice, and none may look at a later key.
    assert measure.nearest_on_map(small_result([0, 1, 0], causal=True), head) == 1
    assert measure.nearest_on_map(small_result([0, 0, 0], causal=True), head) == 0.5
    text, pos = reading.positions(small_result([0, 0, 0]))
    assert text.tolist() == [0, 0, 0, 1, 1, 1] and pos.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_key_above_average_is_the_nearest_after_the_shift():
    v = points()
    v = v._replace(q=v.q + 3)
    dots = v.q @ v.k.T
    assert torch.allclose(measure.above(v).q @ v.k.T, dots - dots.mean(dim=0))
    found = measure.nearest_key_rates(v, False, (1e4,))
    assert found["above, shifted"] == [1.0] and found["above"][0] < 1


def test_points_along_the_text_have_neighbors_of_near_positions():
    v = points(n_texts=4, n=40)
    line = torch.stack([v.pos * 1.0, 0.01 * v.text], dim=1)
    at_random = (40 + 1) / 3  # the mean distance of two different numbers below 40
    assert math.isclose(measure.along_the_text(line, v.pos), 1 / at_random)
    assert 0.6 < measure.along_the_text(line, v.pos, seed=0) < 1.4
    places = 9 * torch.rand(40, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    at = places[v.pos] + 1e-3 * v.q[:, :2]  # each position of all texts on one random spot
    assert 0.6 < measure.along_the_text(at, v.pos) < 1.4


def test_keys_moved_at_random_go_as_far_as_the_shift_and_elsewhere():
    v = points()._replace(k=points().k + 3)
    q, k = measure.moved_at_random(v, 2.0)
    (_, plain), (_, there) = placed(v.q, v.k, 2.0), placed(v.q, v.k, 2.0, shift=True)
    moved, shift = (k - plain), (there - plain)
    assert torch.equal(q, 2 * v.q) and torch.allclose(moved, moved[:1])
    assert torch.isclose(moved[0].norm(), shift[0].norm()) and (moved - shift).norm() > 1


def test_neighbors_of_keys_are_keys_where_the_clouds_lie_apart():
    v = points(n=40)
    assert measure.keys_near_keys(v.q, v.k + 100) == 1
    assert 0.4 < measure.keys_near_keys(v.q, 2 * v.k) < 0.6
    assert measure.keys_near_keys(v.k + 1e-6, v.k, n_neighbors=1) == 0


def test_close_pairs_are_those_of_the_curve_and_share_few_vectors():
    v = points(n=20)
    short = v._replace(k=torch.cat([0.01 * v.k[:2], v.k[2:]]))
    distance, dots, shared = measure.close_pairs(short.q, short.k, 0.2)
    correlation, count = scale_curve(short.q, short.k)
    limit = close_threshold(distances(*placed(short.q, short.k, 0.2)))
    assert len(distance) == len(dots) == len(shared) == count[0]
    assert math.isclose(close_correlation(dots, distance, limit)[0], correlation[0], rel_tol=1e-5)
    assert len(shared.unique()) <= 2


def test_the_queries_with_another_top_key_are_counted_alone():
    v = points()
    first = v.pos == 0
    v = v._replace(k=torch.where(first[:, None], 0 * v.k, v.k))  # nobody's top key
    found = measure.nearest_key_rates(v, False, (1e4,))
    assert found["others"] == [1.0]
    every = v._replace(q=v.q.abs(), k=torch.where(first[:, None], v.k.abs() + 9, -v.k.abs()))
    assert math.isnan(measure.nearest_key_rates(every, False, (1.0,))["others"][0])


def test_the_previous_key_is_found_where_it_is_the_nearest():
    ahead = torch.eye(10, dtype=torch.float64).repeat(3, 1)
    v = points()._replace(q=ahead.roll(1, 0), k=ahead)  # each query is the key before it
    assert measure.previous_nearest(v, c=1.0) == 1
    assert measure.previous_nearest(v._replace(q=ahead), c=1.0) == 0


class Numbers:
    """A tokenizer whose tokens are written as their numbers."""

    def token_strings(self, tokens):
        return [str(int(token)) for token in tokens]


def test_a_models_result_fits_in_json_and_comes_back(make_model, tmp_path, monkeypatch):
    model = make_model(positions="none").requires_grad_(False)
    monkeypatch.setattr(examine, "texts_for", lambda model, name: texts((10,) * 12))
    model.tokenizer = Numbers()
    result = examine.examine(model, "tiny")
    results.write("tiny", result, tmp_path, rows="heads")
    again = results.read("tiny", tmp_path)
    assert again["heads"] == result["heads"]
    assert again["tokens"][0] == Numbers().token_strings(texts()[0])
    q, k = reading.head_map(again, Head(1, 1))
    assert q.shape == k.shape == (120, 2) and 0 <= torch.cat([q, k]).min() <= 255
    with pytest.raises(ValueError, match="no head L2H0: tiny has 2 layers of 2 heads"):
        reading.head_of(again, Head(2, 0))


def test_a_results_file_has_the_nearest_keys_of_two_scales():
    at_1, at_5 = (measure.nearest_is_right(MINILM, "plain", c) for c in measure.IN_FULL)
    assert at_5 == measure.nearest_is_right(MINILM, "plain") and np.median(at_1) < np.median(at_5)


def test_the_shift_exchanges_the_two_kinds_of_keys():
    v = reading.snake_vectors(MINILM)
    film, allowed = reading.head_of(MINILM, SNAKE)["shift film"], v.allowed(causal=False)
    for part in (0, -1):
        k = v.k + (film["shares"][part] * (v.q.mean(dim=0) - v.k.mean(dim=0)))
        apart = distances(v.q, k)
        found = [
            measure.nearest_is_top(each, v.k, apart, allowed) for each in (v.q, measure.above(v).q)
        ]
        assert np.allclose(found, [film["liked"][part], film["above"][part]], atol=0.02)
    assert film["liked"][0] > film["liked"][-1] and film["above"][0] < film["above"][-1]


def test_a_packed_map_keeps_its_shape():
    v = points()
    found = reading.unpacked(examine.packed_map(v.q[:, :2], v.k[:, :2]), 2).double()
    whole = torch.cat([v.q, v.k])[:, :2]
    scale = (whole.amax(dim=0) - whole.amin(dim=0)).max() / 255
    assert (distances(found, found) * scale - distances(whole, whole)).abs().max() < 2 * scale


def test_what_is_shipped_of_minilm_is_whole():
    assert len(MINILM["heads"]) == 72 and len(MINILM["tokens"]) == len(TEXTS)
    n, longest = sum(map(len, MINILM["tokens"])), max(map(len, MINILM["tokens"]))
    for each in MINILM["heads"]:
        maps = [reading.unpacked(each[kind], 2) for kind in ("tsne", "tsne, no shift", "umap")]
        assert {each.shape for each in maps} == {(2 * n, 2)}
        top = reading.unpacked(each["top"], 3)
        assert top.shape == (n, 3) and top.max() < longest
        assert reading.unpacked(each["top above"], 1).shape == (n, 1)


def test_the_norm_metrics_c_squares_the_ratio_and_its_inverse_mends_it():
    v = points(n_texts=4)
    c = geometry.norm_scale(v.q, v.k)
    assert math.isclose(c**2, v.q.norm(dim=-1).median() / v.k.norm(dim=-1).median())
    as_said, inverse = measure.norms_left(v)
    assert math.isclose(as_said, 2) and abs(inverse) < 1e-9
    even = v.text % 2 == 0
    assert measure.norm_scales_of_halves(v)[0] == geometry.norm_scale(v.q[even], v.k[even])


def test_the_nearest_key_is_the_top_one_where_lengths_are_alike_and_for_a_large_scale():
    q, k = clouds()
    one_text = torch.ones(30, 30, dtype=torch.bool).tril()

    def share(q, k, metric="euclidean"):
        return measure.nearest_is_top(q, k, geometry.distances(q, k, metric), one_text)

    found = share(q, k)
    by_hand = [
        (q[i] @ k[: i + 1].T).argmax() == (q[i] - k[: i + 1]).norm(dim=-1).argmin()
        for i in range(1, 30)
    ]
    assert 0 < found < 1 and math.isclose(found, np.mean(by_hand))
    assert share(*geometry.placed(q, k, 1e4)) == 1
    assert share(q, torch.nn.functional.normalize(k, dim=-1)) == 1


def test_clouds_that_lie_apart_do_not_mix_and_equal_ones_do():
    q, k = clouds(60)
    R = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64))[0]
    for metric in ("euclidean", "cosine"):
        assert math.isclose(measure.mixing(q, k, metric), measure.mixing(q @ R, k @ R, metric))
    q, k = clouds(100, 2, apart=100.0)
    assert measure.mixing(q, k) == 0
    assert abs(measure.mixing(*geometry.placed(q, 2 * k, shift=True)) - 0.5) < 0.1


def test_the_film_of_moved_keys_is_what_its_vectors_say():
    draw = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 48, 6, generator=draw, dtype=torch.float64)
    k = 0.2 * k + 4
    text = torch.arange(6).repeat_interleave(8)
    v = QueriesKeys(q, k, text, torch.arange(8).repeat(6))
    film = examine.shift_film(v)
    kept = QueriesKeys(*(each[text < N_TEXTS] for each in v))
    moved = kept.k + kept.q.mean(dim=0) - kept.k.mean(dim=0)
    for at, keys in ((0, kept.k), (-1, moved)):
        apart = torch.cdist(kept.q, keys).masked_fill(~kept.allowed(False), torch.inf)
        best = (kept.q @ kept.k.T).masked_fill(~kept.allowed(False), -torch.inf).argmax(dim=-1)
        liked = (apart.argmin(dim=-1) == best).double().mean().item()
        assert film["liked"][at] == pytest.approx(liked)
    maps = [reading.unpacked(each, 2) for each in film["maps"]]
    assert {each.shape for each in maps} == {(2 * 4 * 8, 2)} and len(maps) == len(examine.SHARES)
    pattern = (q[:8] @ (k[:8] + 3).T / 6**0.5).softmax(dim=-1)  # the same for keys moved alike
    assert (reading.unpacked(film["attention"], 8) / 255 - pattern).abs().max() <= 1 / 255


def test_pieces_are_put_together_to_words():
    assert words_of(["to", "ba", "##ke", ".", "we"]) == ["to", "bake", "bake", "", "we"]
    assert words_of(["She", " lo", "oks", ",", " we", "!"]) == [
        "she",
        "looks",
        "looks",
        "",
        "we",
        "",
    ]


def test_nouns_and_pronouns_are_words_of_our_texts_and_apart():
    words = set("".join(c if c.isalnum() else " " for c in " ".join(TEXTS).lower()).split())
    assert not NOUNS & PRONOUNS and words >= NOUNS
    kinds = measure.word_kinds(MINILM["tokens"])
    assert not (kinds.nouns & kinds.others).any() and kinds.pronouns.sum() >= 20
    assert kinds.nouns[: len(MINILM["tokens"][0])].sum() == 11  # ferry to piano, each time it comes


def test_a_head_whose_nouns_like_pronouns_is_found_and_not_by_dealt_nouns():
    n_texts, n = 8, 12
    nouns = (torch.arange(n_texts * n) % n) < 3
    kinds = measure.WordKinds(
        nouns, torch.zeros_like(nouns), ~nouns, torch.arange(n_texts).repeat_interleave(n)
    )
    liked = torch.stack([torch.zeros_like(nouns), nouns])
    assert measure.pronoun_preference(liked, kinds) == [(1, 1.0), (1, 1.0)]
    dealt = torch.tensor(
        [[x for _, x in measure.pronoun_preference(liked, kinds, i)] for i in range(20)]
    )
    assert dealt.mean().abs() < 0.2


def test_figures_can_be_read():
    v = points()
    q, k = v.q[:, :2], v.k[:, :2]
    check_figures(figures.clouds({"one": (q, k), "two": (k, q)}, "title", v.pos))


# ---- what is read from a model ----


def test_dot_products_of_what_is_read_are_the_models_scores(make_model):
    for positions in ("none", "standard", "shortformer"):
        model = make_model(positions=positions).requires_grad_(False)
        _, cache = model.run_with_cache(texts()[1][None])
        for head, (q, k, text, pos) in geometry.queries_and_keys(model, texts()).items():
            scores = (q @ k.T / math.sqrt(model.config.d_head))[10:20, 10:20]
            theirs = cache[f"L{head.layer}.scores"][0, head.head].double()
            assert torch.allclose(scores.tril(), theirs.tril(), atol=1e-5)
            assert text.tolist() == [0] * 10 + [1] * 10 + [2] * 10
            assert pos.tolist() == 3 * list(range(10))


def test_a_pretrained_encoder_is_read_in_the_same_way():
    bert = tiny("bert", num_attention_heads=4)
    *_, (head, (q, k, _, _)) = geometry.queries_and_keys(bert, texts()).items()
    theirs = bert.run_with_cache(texts()[2][None])[1]["L1.scores"][0, 3].double()
    assert head == Head(1, 3) and torch.allclose((q @ k.T / 2)[20:, 20:], theirs, atol=1e-5)


def test_a_query_may_look_at_its_text_and_not_ahead(make_model):
    found = geometry.queries_and_keys(make_model(), texts((2, 3)))[Head(0, 1)]
    both, causal = found.allowed(causal=False), found.allowed(causal=True)
    assert both.int().tolist() == torch.block_diag(torch.ones(2, 2), torch.ones(3, 3)).tolist()
    assert torch.equal(causal, both.tril())


# ---- distances and metrics, by other ways ----


def test_distances_by_their_definitions():
    q, k = clouds(6)
    euclidean, cosine = (geometry.distances(q, k, each) for each in ("euclidean", "cosine"))
    by_hand = [[(a - b).norm() for b in k] for a in q]
    assert torch.allclose(euclidean, torch.tensor(by_hand, dtype=torch.float64))
    cosines = torch.cosine_similarity(q[:, None], k, dim=-1)
    assert torch.allclose(cosine, 1 - cosines)


def test_the_weighted_correlation_is_that_of_numpys_weighted_covariance():
    x, y, w = torch.rand(3, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    cov = np.cov(np.stack([x, y - x]), aweights=w.numpy())
    wanted = cov[0, 1] / math.sqrt(cov[0, 0] * cov[1, 1])
    assert math.isclose(geometry.weighted_correlation(x, y - x, w), wanted, rel_tol=1e-12)
    assert math.isnan(geometry.weighted_correlation(x, torch.ones_like(x), w))


def test_the_close_pairs_are_those_below_the_percentile():
    distance = torch.rand(10000, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    threshold = geometry.close_threshold(distance)
    near = distance[distance < threshold]
    assert len(near) == 50
    found = geometry.close_correlation(-(distance**2), distance, threshold)
    by_hand = geometry.weighted_correlation(-(near**2), near, (threshold - near) ** 2)
    assert found == (by_hand, 50)
    assert math.isnan(geometry.close_correlation(distance, distance, 0.0)[0])


def test_metrics_do_not_see_a_common_rotation():
    q, k = clouds(60, apart=1.0)
    R = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64))[0]
    curves = geometry.scale_curve(q, k), geometry.scale_curve(q @ R, k @ R)
    for found, rotated in zip(*curves, strict=True):
        assert torch.allclose(found, rotated, atol=1e-6)
    assert math.isclose(geometry.norm_scale(q, k), geometry.norm_scale(q @ R, k @ R))


def test_one_threshold_counts_differently_at_each_scale():
    q, k = clouds(60)
    _, own = geometry.scale_curve(q, k)
    _, one = geometry.scale_curve(q, k, one_threshold=True)
    assert own.tolist() == [18.0] * 7
    assert one.sum() == int(0.005 * 7 * 3600) and len(set(one.tolist())) > 3


def test_the_chosen_scale_is_that_of_the_lowest_value():
    values = torch.zeros(2, 7)
    values[0, 2], values[1, 0], values[1, 6] = -1, math.nan, -0.5
    assert geometry.chosen_scales(values).tolist() == torch.tensor([0.8, 5.0]).tolist()


# ---- maps ----


@pytest.mark.parametrize("method", ["tsne", "umap"])
def test_a_map_comes_again_from_its_seed_and_keeps_clouds_apart(method):
    q, k = clouds(apart=20.0)
    at_q, at_k = geometry.joint_map(q, k, method, seed=1)
    again, _ = geometry.joint_map(q, k, method, seed=1)
    other, _ = geometry.joint_map(q, k, method, seed=2)
    assert at_q.shape == at_k.shape == (30, 2)
    assert torch.equal(at_q, again)
    assert method == "tsne" or not torch.equal(at_q, other)  # t-SNE begins with the axes of PCA
    nearest = torch.cdist(torch.cat([at_q, at_k]), torch.cat([at_q, at_k])).fill_diagonal_(
        torch.inf
    )
    assert torch.equal(nearest.argmin(dim=1) < 30, torch.arange(60) < 30)
    assert torch.get_num_threads() == 1  # given back
