"""Notebook 18: what its cells read and compute, its drawings and its exercises."""

import math

import numpy as np
import pytest
import torch

from aot_helpers.base import results
from aot_helpers.models.protocol import Head
from chapters.nb18_queries_meet_keys import figures as drawings
from chapters.nb18_queries_meet_keys import geometry, shifting
from chapters.nb18_queries_meet_keys.exercises import PAGES
from chapters.nb18_queries_meet_keys.geometry import QueriesKeys, distances
from figure_checks import check_figures
from tiny_models import tiny

MINILM = results.read("geometry/minilm")


def points(n_texts=3, n=10, d_head=6, seed=0):
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, n_texts * n, d_head, generator=draw, dtype=torch.float64)
    text, pos = torch.arange(n_texts).repeat_interleave(n), torch.arange(n).repeat(n_texts)
    return QueriesKeys(2 * q, k, text, pos)


# ---- figures ----


def test_figures_can_be_read():
    v, words = points(), ["x", "y"]
    q, k = v.q[:, :2], v.k[:, :2]
    near, far = (q[:2], 0.01 * k[:2]), (q[:2], 5 * k[:2])
    scales = [0.2, 1, 5]
    found = {"in all 32 numbers": [0.1, 0.5, 0.9], "on the map": [0.1, 0.8, 0.1]}
    check_figures(
        drawings.toy({"near": near, "far": far}, words, "title"),
        drawings.toy({"near": near}, words, "title", links="nearest", center=True),
        drawings.at_a_glance(MINILM, "title", notes={Head(0, 2): "before"}),
        drawings.at_scales({"c = 1": (q, k), "c = 5": (q, k)}, torch.arange(len(q)), v, "title"),
        drawings.choosing(scales, found, [-0.9, 0.5, -1], 1.1, "title"),
        shifting.frames(shifting.Shifted(MINILM), shifting.DRAWN, (0, 4, 8), "title"),
    )


# ---- exercises ----

TOY = {
    "queries": [[1.6, 1.6], [-1.2, 1.6], [2.2, 0.2], [-0.6, 1.0]],
    "keys": [[0.4, 0.6], [1.2, -0.8], [0.1, 2.2], [2.0, -1.2]],
}


def lengthened(q, k):
    nearest = distances(q, k, "cosine").argmin(dim=1)
    unwanted = torch.bincount(nearest, minlength=len(k)) == 0
    return torch.where(unwanted[:, None], 100 * k, k)


def random_pair(of_q, of_k):
    draw = torch.Generator().manual_seed(0)
    return lambda: tuple(c * torch.randn(100, 8, generator=draw) for c in (of_q, of_k))


GIVEN = {"18.2": lambda: TOY}
ANSWERS = [
    ("18.1", lambda scores: PAGES["18.1"](scores) + scores.amax(dim=1, keepdim=True), "solved"),
    ("18.1", lambda scores: scores, "nearest one before the shift"),
    ("18.1", lambda scores: scores - scores.mean(dim=1, keepdim=True), "before the shift"),
    ("18.1", lambda scores: -PAGES["18.1"](scores), "the wrong way round"),
    ("18.1", lambda scores: scores + scores.mean(dim=0), "takes it away"),
    ("18.1", lambda scores: scores.mean(dim=0).expand(scores.shape), "averages alone"),
    ("18.1", lambda scores: scores.mean(dim=0), "A tensor of shape (12, 9) is wanted, got (9,)"),
    ("18.2", ([6.0, 0.0], False), "solved"),
    ("18.2", ([6.0, 0.0], True), "not the guess"),
    ("18.2", ([0.0, 0.0], True), "for 1 of 4 queries"),
    ("18.2", ([1.0], True), "Give two"),
    ("18.3", lengthened, "solved"),
    ("18.3", lambda q, k: 10 * k, "still right for 12, 12, 12"),
    ("18.3", lambda q, k: torch.cat([100 * k[:1], k[1:]]), "still right"),
    ("18.3", lambda q, k: k.flip(0), "A cosine distance has changed"),
    ("18.3", lambda q, k: None, "not attempted"),
    ("18.4", random_pair(0.2, 5), "solved"),
    ("18.4", random_pair(1, 1), "-0.9 or less"),
    ("18.4", random_pair(8, 0.125), "What if keys are long?"),
    ("18.4", lambda: (torch.ones(100, 8), torch.ones(100, 8)), "no two vectors alike"),
    ("18.4", lambda: None, "not attempted"),
]


# ---- the geometry of queries and keys ----


def clouds(n=30, d_head=8, seed=0, apart=0.0):
    """Random queries and keys [n, d_head], their centroids some way apart."""
    draw = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, n, d_head, generator=draw, dtype=torch.float64)
    return 2 * q, k + apart


def texts(n_tokens=(10, 10, 10), d_vocab=11):
    draw = torch.Generator().manual_seed(3)
    return [torch.randint(d_vocab, (n,), generator=draw) for n in n_tokens]


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
    ((head, (q, k, _, _)),) = geometry.queries_and_keys(bert, texts(), [Head(1, 3)]).items()
    theirs = bert.run_with_cache(texts()[2][None])[1]["L1.scores"][0, 3].double()
    assert head == Head(1, 3) and torch.allclose((q @ k.T / 2)[20:, 20:], theirs, atol=1e-5)


def test_a_query_may_look_at_its_text_and_not_ahead(make_model):
    found = geometry.queries_and_keys(make_model(), texts((2, 3)), [Head(0, 1)])[Head(0, 1)]
    both, causal = found.allowed(causal=False), found.allowed(causal=True)
    assert both.int().tolist() == torch.block_diag(torch.ones(2, 2), torch.ones(3, 3)).tolist()
    assert torch.equal(causal, both.tril())


@pytest.mark.parametrize(
    ("given", "heads", "said"),
    [
        ((10, 10), [Head(0, 2)], "no head L0H2: this model has 2 layers of 2 heads"),
        ((10, 1), None, r"text 1 has tokens of shape \(1,\): give two tokens or more"),
        ((), None, "got 0 texts and 4 heads: give one of each or more"),
    ],
)
def test_what_cannot_be_read_is_named(make_model, given, heads, said):
    with pytest.raises(ValueError, match=said):
        geometry.queries_and_keys(make_model(), texts(given), heads)


# ---- what is free for attention, and what is not ----


def test_a_scale_that_is_none_is_named():
    for c in (0.0, math.nan):
        with pytest.raises(ValueError, match=f"c must be a finite number > 0.*got {c}"):
            geometry.scaled(*clouds(), c)


# ---- distances and metrics, by other ways ----


def test_distances_by_their_definitions():
    q, k = clouds(6)
    euclidean, cosine = (geometry.distances(q, k, each) for each in geometry.METRICS)
    by_hand = [[(a - b).norm() for b in k] for a in q]
    assert torch.allclose(euclidean, torch.tensor(by_hand, dtype=torch.float64))
    cosines = torch.cosine_similarity(q[:, None], k, dim=-1)
    assert torch.allclose(cosine, 1 - cosines)
    with pytest.raises(ValueError, match="no metric is called 'manhattan'"):
        geometry.distances(q, k, "manhattan")


def test_the_weighted_correlation_is_that_of_numpys_weighted_covariance():
    x, y, w = torch.rand(3, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    cov = np.cov(np.stack([x, y - x]), aweights=w.numpy())
    wanted = cov[0, 1] / math.sqrt(cov[0, 0] * cov[1, 1])
    assert math.isclose(geometry.weighted_correlation(x, y - x, w), wanted, rel_tol=1e-12)
    assert math.isnan(geometry.weighted_correlation(x, torch.ones_like(x), w))


def test_the_close_pairs_are_those_below_the_percentile():
    distance = torch.rand(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    threshold = geometry.close_threshold(distance, 0.05)
    near = distance[distance < threshold]
    assert len(near) == 50
    found = geometry.close_correlation(-(distance**2), distance, threshold)
    by_hand = geometry.weighted_correlation(-(near**2), near, (threshold - near) ** 2)
    assert found == (by_hand, 50)
    assert math.isnan(geometry.close_correlation(distance, distance, 0.0)[0])
    with pytest.raises(ValueError, match="of 400 pairs 0.5 % are 2, .* give texts with 25 tokens"):
        geometry.scale_curve(*clouds(20))


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


@pytest.mark.parametrize("method", geometry.METHODS)
def test_a_map_comes_again_from_its_seed_and_keeps_clouds_apart(method):
    q, k = clouds(apart=20.0)
    at_q, at_k = geometry.joint_map(q, k, method, neighbors=10, seed=1)
    again, _ = geometry.joint_map(q, k, method, neighbors=10, seed=1)
    other, _ = geometry.joint_map(q, k, method, neighbors=10, seed=2)
    assert at_q.shape == at_k.shape == (30, 2)
    assert torch.equal(at_q, again)
    assert method == "tsne" or not torch.equal(at_q, other)  # t-SNE begins with the axes of PCA
    nearest = torch.cdist(torch.cat([at_q, at_k]), torch.cat([at_q, at_k])).fill_diagonal_(
        torch.inf
    )
    assert torch.equal(nearest.argmin(dim=1) < 30, torch.arange(60) < 30)
    assert torch.get_num_threads() == 1  # given back


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"neighbors": 60}, "neighbors = 60 needs more than 60 points .* got 60 .* 2 <= neighbors"),
        ({"method": "pca"}, "no method is called 'pca'; there are: tsne, umap"),
        ({"metric": "dot"}, "no metric is called 'dot'"),
    ],
)
def test_a_map_that_cannot_be_made_says_why(given, said):
    with pytest.raises(ValueError, match=said):
        geometry.joint_map(*clouds(), **given)


# ---- keys that are moved step by step ----


def test_the_view_of_moved_keys_carries_the_published_film():
    shown = shifting.Shifted(results.read("geometry/minilm"))
    view = shifting.view(shown, shifting.DRAWN, "a title")
    assert len(view.html()) < 80_000 and view.data["liked"][0] > 0.7 > 0.3 > view.data["liked"][-1]
