"""Queries and keys as points: invariances, the metrics by other ways, maps, and bad input."""

import math

import numpy as np
import pytest
import torch

from aot_helpers.models.protocol import Head
from chapters.nb18_queries_meet_keys import geometry
from chapters.nb18_queries_meet_keys.geometry import SCALES

LENGTHS = (10, 10, 10)


def points(n=30, d_head=8, seed=0, apart=0.0):
    """Random queries and keys [n, d_head], their centroids some way apart."""
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, n, d_head, generator=draw, dtype=torch.float64)
    return 2 * q, k + apart


def texts(n_tokens=LENGTHS, d_vocab=11):
    draw = torch.Generator().manual_seed(3)
    return [torch.randint(d_vocab, (n,), generator=draw) for n in n_tokens]


def rotation(d_head, seed=1):
    draw = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(d_head, d_head, generator=draw, dtype=torch.float64))[0]


@pytest.fixture(scope="module")
def bert():
    from transformers import BertConfig, BertForMaskedLM

    from aot_helpers.models.pretrained import PretrainedTransformer

    torch.manual_seed(0)
    sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32)
    config = BertConfig(vocab_size=11, max_position_embeddings=12, **sizes)
    return PretrainedTransformer(BertForMaskedLM(config).eval().requires_grad_(False), None)


# ---- what is read from a model ----


@pytest.mark.parametrize("positions", ["none", "standard", "shortformer"])
def test_dot_products_of_what_is_read_are_the_models_scores(make_model, positions):
    model = make_model(positions=positions).requires_grad_(False)
    found = geometry.queries_and_keys(model, texts())
    assert sorted(found) == [Head(i, h) for i in range(2) for h in range(2)]
    _, cache = model.run_with_cache(texts()[1][None])
    for head, (q, k, text, pos) in found.items():
        scores = (q @ k.T / math.sqrt(model.config.d_head))[10:20, 10:20]
        theirs = cache[f"L{head.layer}.scores"][0, head.head].double()
        assert torch.allclose(scores.tril(), theirs.tril(), atol=1e-5)
        assert text.tolist() == [0] * 10 + [1] * 10 + [2] * 10
        assert pos.tolist() == 3 * list(range(10))


def test_a_pretrained_encoder_is_read_in_the_same_way(bert):
    wanted = [Head(1, 3)]
    ((head, (q, k, _, _)),) = geometry.queries_and_keys(bert, texts(), wanted).items()
    _, cache = bert.run_with_cache(texts()[2][None])
    theirs = cache["L1.scores"][0, 3].double()
    assert head == wanted[0] and torch.allclose((q @ k.T / 2)[20:, 20:], theirs, atol=1e-5)


def test_a_query_may_look_at_its_text_and_not_ahead(make_model):
    found = geometry.queries_and_keys(make_model(), texts((2, 3)), [Head(0, 1)])[Head(0, 1)]
    both, causal = found.allowed(causal=False), found.allowed(causal=True)
    assert both.int().tolist() == torch.block_diag(torch.ones(2, 2), torch.ones(3, 3)).tolist()
    assert torch.equal(causal, both.tril())


@pytest.mark.parametrize(
    ("given", "heads", "said"),
    [
        (LENGTHS, [Head(0, 2)], "no head L0H2: this model has 2 layers of 2 heads"),
        (LENGTHS, [Head(-1, 0)], "no head L-1H0"),
        ((10, 1), None, r"text 1 has tokens of shape \(1,\): give two tokens or more"),
        ((), None, "got 0 texts and 4 heads: give one of each or more"),
        (LENGTHS, [], "got 3 texts and 0 heads"),
    ],
)
def test_what_cannot_be_read_is_named(make_model, given, heads, said):
    with pytest.raises(ValueError, match=said):
        geometry.queries_and_keys(make_model(), texts(given), heads)


def test_a_batch_of_texts_is_no_text(make_model, unchecked):
    with pytest.raises(ValueError, match=r"must have shape \[batch, pos\]"):
        geometry.queries_and_keys(make_model(), [texts()[0][None]])
    with pytest.raises(ValueError, match="must be a tensor of whole numbers"):
        geometry.queries_and_keys(make_model(), ["a text"])


# ---- what is free for attention, and what is not ----


def test_attention_sees_neither_the_scale_nor_a_shift_of_the_keys():
    q, k = points(apart=1.0)
    pattern = (q @ k.T).softmax(dim=-1)
    for c in SCALES:
        for shift in (False, True):
            large, small = geometry.placed(q, k, c, shift)
            assert ((large @ small.T).softmax(dim=-1) - pattern).abs().max() < 1e-12
    moved = geometry.shifted(k, q)  # the queries to the keys
    assert ((moved @ k.T).softmax(dim=-1) - pattern).abs().max() > 0.1


def test_a_shift_makes_the_centroids_one_after_scaling():
    q, k = geometry.placed(*points(apart=3.0), c=2.5, shift=True)
    assert torch.allclose(q.mean(dim=0), k.mean(dim=0), atol=1e-12)


@pytest.mark.parametrize("c", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_none_is_named(c):
    with pytest.raises(ValueError, match=f"c must be a finite number > 0.*got {c}"):
        geometry.scaled(*points(), c)


def test_the_norm_metrics_c_squares_the_ratio_and_its_inverse_mends_it():
    q, k = points()

    def ratio(q, k):
        return (q.norm(dim=-1).median() / k.norm(dim=-1).median()).item()

    c = geometry.norm_scale(q, k)
    assert math.isclose(c**2, ratio(q, k)) and c > 1.2
    assert math.isclose(ratio(*geometry.scaled(q, k, c)), ratio(q, k) ** 2)
    assert math.isclose(ratio(*geometry.scaled(q, k, 1 / c)), 1)


# ---- distances and metrics, by other ways ----


def test_distances_by_their_definitions():
    q, k = points(6)
    euclidean, cosine = (geometry.distances(q, k, each) for each in geometry.METRICS)
    for i in range(6):
        for j in range(6):
            assert math.isclose(euclidean[i, j], np.linalg.norm(q[i] - k[j]), rel_tol=1e-12)
            cos = torch.cosine_similarity(q[i], k[j], dim=0)
            assert math.isclose(cosine[i, j], 1 - cos, rel_tol=1e-9)
    with pytest.raises(ValueError, match="no metric is called 'manhattan'"):
        geometry.distances(q, k, "manhattan")


def test_distance_is_dot_product_and_norms():
    q, k = points()
    squares = (q**2).sum(-1)[:, None] + (k**2).sum(-1) - 2 * q @ k.T
    assert torch.allclose(geometry.distances(q, k) ** 2, squares, atol=1e-10)


def test_the_weighted_correlation_is_that_of_numpys_weighted_covariance():
    x, y, w = torch.rand(3, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    y = y - x
    cov = np.cov(np.stack([x, y]), aweights=w.numpy())
    wanted = cov[0, 1] / math.sqrt(cov[0, 0] * cov[1, 1])
    assert math.isclose(geometry.weighted_correlation(x, y, w), wanted, rel_tol=1e-12)
    assert math.isclose(geometry.weighted_correlation(x, 1 - 3 * x, w), -1)
    assert math.isnan(geometry.weighted_correlation(x, torch.ones_like(x), w))
    with pytest.raises(ValueError, match="weights must be >= 0"):
        geometry.weighted_correlation(x, y, -w)


def test_the_close_pairs_are_those_below_the_percentile():
    distance = torch.rand(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    threshold = geometry.close_threshold(distance, 0.05)
    assert int((distance < threshold).sum()) == 50
    assert math.isclose(threshold, np.percentile(distance, 5, method="higher"))
    by_hand = distance[distance < threshold]
    correlation, count = geometry.close_correlation(-(distance**2), distance, threshold)
    weights = (threshold - by_hand) ** 2
    assert count == 50 and math.isclose(
        correlation, geometry.weighted_correlation(-(by_hand**2), by_hand, weights)
    )
    assert math.isnan(geometry.close_correlation(distance, distance, 0.0)[0])


def test_too_few_pairs_for_the_percentile_are_named():
    with pytest.raises(ValueError, match="of 400 pairs 0.5 % are 2, .* give texts with 25 tokens"):
        geometry.scale_curve(*points(20))


@pytest.mark.parametrize("metric", geometry.METRICS)
@pytest.mark.parametrize("shift", [False, True])
def test_metrics_do_not_see_a_common_rotation(metric, shift):
    q, k = points(60, apart=1.0)
    R = rotation(8)
    before, after = (
        geometry.scale_curve(*each, metric, shift) for each in [(q, k), (q @ R, k @ R)]
    )
    assert torch.allclose(before[0], after[0], atol=1e-6) and torch.equal(before[1], after[1])
    assert math.isclose(geometry.norm_scale(q, k), geometry.norm_scale(q @ R, k @ R))
    assert math.isclose(geometry.mixing(q, k, metric), geometry.mixing(q @ R, k @ R, metric))


def test_cosine_distance_sees_the_scale_only_after_a_shift():
    q, k = points(60, apart=1.0)
    plain, _ = geometry.scale_curve(q, k, "cosine")
    moved, _ = geometry.scale_curve(q, k, "cosine", shift=True)
    assert plain.max() - plain.min() < 1e-6 < 0.01 < moved.max() - moved.min()


def test_one_threshold_counts_differently_at_each_scale():
    q, k = points(60)
    _, own = geometry.scale_curve(q, k)
    _, one = geometry.scale_curve(q, k, one_threshold=True)
    assert own.tolist() == [18.0] * 7
    assert one.sum() == int(0.005 * 7 * 3600) and len(set(one.tolist())) > 3


def test_maps_of_scales_hold_each_heads_own_curve(make_model):
    vectors = geometry.queries_and_keys(make_model(positions="none"), texts((10,) * 6))
    maps = geometry.scale_maps(vectors, one_threshold=True)
    pair = vectors[Head(1, 0)]
    correlation, count = geometry.scale_curve(pair.q, pair.k, one_threshold=True)
    assert torch.equal(maps.correlation[1, 0].nan_to_num(9), correlation.nan_to_num(9))
    assert torch.equal(maps.count[1, 0], count)
    assert math.isclose(maps.norm[1, 0], geometry.norm_scale(pair.q, pair.k), rel_tol=1e-6)
    best = [np.nanargmin(row) for row in maps.correlation.flatten(0, 1).numpy()]
    assert maps.chosen().flatten().tolist() == torch.tensor(SCALES)[best].tolist()
    divided = maps.correlation / maps.count.sum(dim=(0, 1))
    best = [np.nanargmin(row) for row in divided.flatten(0, 1).numpy()]
    assert maps.chosen(True).flatten().tolist() == torch.tensor(SCALES)[best].tolist()
    del vectors[Head(0, 1)]
    with pytest.raises(ValueError, match="got 3 heads of 2 × 2: give all of a model"):
        geometry.scale_maps(vectors)


def test_the_nearest_key_is_liked_where_lengths_are_alike_and_for_a_large_scale():
    q, k = points()
    one_text = torch.ones(30, 30, dtype=torch.bool).tril()

    def share(q, k, metric="euclidean"):
        return geometry.nearest_is_liked(q, k, geometry.distances(q, k, metric), one_text)

    found = share(q, k)
    by_hand = [
        (q[i] @ k[: i + 1].T).argmax() == (q[i] - k[: i + 1]).norm(dim=-1).argmin()
        for i in range(1, 30)
    ]
    assert 0 < found < 1 and math.isclose(found, np.mean(by_hand))
    assert share(*geometry.scaled(q, k, 1e4)) == 1
    assert share(q, torch.nn.functional.normalize(k, dim=-1)) == 1


def test_clouds_that_lie_apart_do_not_mix_and_equal_ones_do():
    q, k = points(100, 2, apart=100.0)
    assert geometry.mixing(q, k) == 0
    assert abs(geometry.mixing(q, 2 * geometry.shifted(q, k)) - 0.5) < 0.1
    with pytest.raises(ValueError, match="n_neighbors.*200"):
        geometry.mixing(q, k, n_neighbors=200)


# ---- maps ----


@pytest.mark.parametrize("method", geometry.METHODS)
def test_a_map_comes_again_from_its_seed_and_keeps_clouds_apart(method):
    q, k = points(apart=20.0)
    at_q, at_k = geometry.joint_map(q, k, method, neighbors=10, seed=1)
    again, _ = geometry.joint_map(q, k, method, neighbors=10, seed=1)
    other, _ = geometry.joint_map(q, k, method, neighbors=10, seed=2)
    assert at_q.shape == at_k.shape == (30, 2)
    assert torch.equal(at_q, again)
    assert method == "tsne" or not torch.equal(at_q, other)  # t-SNE begins with the axes of PCA
    assert geometry.mixing(at_q, at_k, n_neighbors=5) == 0


def test_a_map_of_cosine_distance_does_not_see_the_scale():
    q, k = points()
    plain, twice = (  # a power of two leaves every digit
        geometry.joint_map(*geometry.scaled(q, k, c), metric="cosine", neighbors=10)
        for c in (1.0, 2.0)
    )
    assert torch.equal(plain[0], twice[0]) and torch.equal(plain[1], twice[1])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"neighbors": 60}, "neighbors = 60 needs more than 60 points .* got 60 .* 2 <= neighbors"),
        ({"neighbors": 1}, "neighbors = 1"),
        ({"method": "pca"}, "no method is called 'pca'; there are: tsne, umap"),
        ({"metric": "dot"}, "no metric is called 'dot'"),
    ],
)
def test_a_map_that_cannot_be_made_says_why(given, said):
    with pytest.raises(ValueError, match=said):
        geometry.joint_map(*points(), **given)


def test_a_map_of_nan_is_refused():
    q, k = points()
    q[3, 2] = math.nan
    with pytest.raises(ValueError, match="must be finite"):
        geometry.joint_map(q, k)
