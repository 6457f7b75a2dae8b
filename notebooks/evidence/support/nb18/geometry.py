"""Queries and keys of a head as points in one space: scales, distances, maps of two dimensions.

After AttentionViz (Yeh et al. 2023) and S1, Exploring Transformer Interpretability, sections 1.1
to 1.3. Attention stays as it is when one constant is added to all keys, and when queries are
multiplied by c and keys divided by it; distances do not. All numbers are float64.
"""

import math
import warnings
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model, all_heads
from chapters.nb18_queries_meet_keys.measure import QueriesKeys

SCALES = (0.2, 0.4, 0.8, 1.0, 1.25, 2.5, 5.0)  # the values of c in S1, section 1.2
CLOSE = 0.005  # S1's close pairs: below the 0.5th percentile of the distances
N_NEIGHBORS = 30  # the perplexity of t-SNE, and UMAP's n_neighbors


@torch.no_grad()
def queries_and_keys(model: Model, texts: Iterable[Int[Tensor, " _"]]) -> dict[Head, QueriesKeys]:
    """The queries and keys of all heads at every position of the texts, run one by one.

    What a model adds to the scores besides q · k, such as a relative bias, is not in them.
    """
    texts, points = list(texts), {head: ([], []) for head in all_heads(model)}
    for tokens in texts:
        _, cache = model.run_with_cache(tokens[None])
        for (layer, head), parts in points.items():
            for part, name in zip(parts, "qk", strict=True):
                part.append(cache[f"L{layer}.{name}"][0, :, head].double().cpu())
    text = torch.cat([torch.full((len(tokens),), n) for n, tokens in enumerate(texts)])
    pos = torch.cat([torch.arange(len(tokens)) for tokens in texts])
    return {h: QueriesKeys(torch.cat(q), torch.cat(k), text, pos) for h, (q, k) in points.items()}


def placed(
    q: Float[Tensor, "query d_head"],
    k: Float[Tensor, "key d_head"],
    c: float = 1.0,
    shift: bool = False,
) -> tuple[Float[Tensor, "query d_head"], Float[Tensor, "key d_head"]]:
    """Queries and keys as S1 draws them: scaled by c.

    shift: then all keys are moved so that their centroid is that of the queries (S1, section 1.3).
    """
    q, k = c * q, k / c
    return q, k + q.mean(dim=0) - k.mean(dim=0) if shift else k


def distances(
    q: Float[Tensor, "query d_head"], k: Float[Tensor, "key d_head"], metric: str = "euclidean"
) -> Float[Tensor, "query key"]:
    """Euclidean distance of each query to each key, or cosine distance, 1 - cosine."""
    if metric == "euclidean":
        return torch.cdist(q, k, compute_mode="donot_use_mm_for_euclid_dist")
    return 1 - F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).T


def weighted_correlation(
    x: Float[Tensor, " pair"], y: Float[Tensor, " pair"], w: Float[Tensor, " pair"]
) -> float:
    """cov(x, y; w) / sqrt(cov(x, x; w) cov(y, y; w)) with weighted means (S1, section 1.2).

    NaN where x or y does not vary.
    """
    w = w / w.sum()
    x, y = x - (w * x).sum(), y - (w * y).sum()
    spread = ((w * x * x).sum() * (w * y * y).sum()).sqrt()
    return ((w * x * y).sum() / spread).item() if spread > 0 else math.nan


def close_threshold(distance: Float[Tensor, "*pairs"]) -> float:
    """The distance below which CLOSE of the pairs lie."""
    n_close = int(CLOSE * distance.numel())
    return distance.flatten().kthvalue(n_close + 1).values.item()


def close_correlation(
    dots: Float[Tensor, "*pairs"],
    distance: Float[Tensor, "*pairs"],
    threshold: float,
) -> tuple[float, int]:
    """S1's first metric, and its count: pairs below the threshold d, weights (d - distance)².

    NaN where fewer than three pairs are that close.
    """
    close = distance < threshold
    n_close = int(close.sum())
    if n_close < 3:
        return math.nan, n_close
    near = distance[close]
    return weighted_correlation(dots[close], near, (threshold - near) ** 2), n_close


def at_each_scale(
    q: Float[Tensor, "query d_head"], k: Float[Tensor, "key d_head"]
) -> Float[Tensor, "scale query key"]:
    """The distance of each query to each key at each c of SCALES."""
    return torch.stack([distances(*placed(q, k, c)) for c in SCALES])


def scale_curve(
    q: Float[Tensor, "query d_head"],
    k: Float[Tensor, "key d_head"],
    one_threshold: bool = False,
    dots: Float[Tensor, "query key"] | None = None,
    pairs: Bool[Tensor, "query key"] | None = None,
    apart: Float[Tensor, "scale query key"] | None = None,
) -> tuple[Float[Tensor, " scale"], Float[Tensor, " scale"]]:
    """(correlation, count) of the close pairs at each c of SCALES.

    one_threshold: for all scales that of their pooled distances; otherwise each has its own.
    dots: what distances are compared with; None: q · k, which no scale changes. pairs: True where
    a pair counts; None: all pairs of the head, as S1 says. apart: what `at_each_scale` gives, where
    it is known already.
    """
    dots = q @ k.T if dots is None else dots
    at = at_each_scale(q, k) if apart is None else apart
    if pairs is not None:
        dots, at = dots[pairs], at[:, pairs]
    limits = [close_threshold(at if one_threshold else each) for each in at]
    found = [close_correlation(dots, each, limit) for each, limit in zip(at, limits, strict=True)]
    correlation, count = zip(*found, strict=True)
    return torch.tensor(correlation), torch.tensor(count, dtype=torch.float)


def chosen_scales(values: Float[Tensor, "*head scale"]) -> Float[Tensor, "*head"]:
    """The c of SCALES with the lowest value, for each head; NaN is never the lowest."""
    return torch.tensor(SCALES)[values.nan_to_num(math.inf).argmin(dim=-1)]


def norm_scale(q: Float[Tensor, "query d_head"], k: Float[Tensor, "key d_head"]) -> float:
    """S1's third metric: c = sqrt(median ‖q‖ / median ‖k‖)."""
    return math.sqrt((q.norm(dim=-1).median() / k.norm(dim=-1).median()).item())


def joint_map(
    q: Float[Tensor, "query d_head"],
    k: Float[Tensor, "key d_head"],
    method: str = "tsne",
    metric: str = "euclidean",
    seed: int = 0,
) -> tuple[Float[Tensor, "query 2"], Float[Tensor, "key 2"]]:
    """One map of queries and keys together, in two dimensions, the same for the same seed.

    method: "tsne", or "umap", which is compiled at its first call, half a minute.
    """
    points = torch.cat([q, k]).double().cpu()
    if metric == "cosine":  # so that what a map begins with sees no lengths either
        points = F.normalize(points, dim=-1)
    threads = torch.get_num_threads()
    try:  # UMAP's numba lets torch have more
        at = _fit(points.numpy(), method, metric, seed)
    finally:
        torch.set_num_threads(threads)
    return at[: len(q)], at[len(q) :]


def _fit(points, method: str, metric: str, seed: int) -> Float[Tensor, "point 2"]:
    if method == "tsne":
        from sklearn.manifold import TSNE

        fit = TSNE(2, perplexity=N_NEIGHBORS, metric=metric, init="pca", random_state=seed)
    else:
        with warnings.catch_warnings():  # of a part of it that needs TensorFlow
            warnings.simplefilter("ignore", ImportWarning)
            from umap import UMAP

        fit = UMAP(
            n_neighbors=N_NEIGHBORS, metric=metric, min_dist=0.1, random_state=seed, n_jobs=1
        )
    return torch.from_numpy(fit.fit_transform(points)).double()
