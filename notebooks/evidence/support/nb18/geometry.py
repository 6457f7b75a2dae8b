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

from aot_helpers.base.errors import unknown_name
from aot_helpers.models.protocol import Head, Model, all_heads, check_head, check_tokens
from chapters.nb18_queries_meet_keys.measure import QueriesKeys

SCALES = (0.2, 0.4, 0.8, 1.0, 1.25, 2.5, 5.0)  # the values of c in S1, section 1.2
CLOSE = 0.005  # S1's close pairs: below the 0.5th percentile of the distances
METRICS = ("euclidean", "cosine")
METHODS = ("tsne", "umap")


def queries_and_keys(
    model: Model, texts: Iterable[Int[Tensor, " _"]], heads: Iterable[Head] | None = None
) -> dict[Head, QueriesKeys]:
    """The queries and keys of heads (None: all) at every position of the texts, run one by one.

    What a model adds to the scores besides q · k, such as a relative bias, is not in them. Raises
    ValueError for a head that does not exist, no texts and a text shorter than two tokens.
    """
    c, texts = model.config, list(texts)
    heads = [check_head(c, head) for head in (all_heads(model) if heads is None else heads)]
    if not texts or not heads:
        raise ValueError(f"got {len(texts)} texts and {len(heads)} heads: give one of each or more")
    for n, tokens in enumerate(texts):
        check_tokens(tokens[None] if isinstance(tokens, Tensor) else tokens)
        if tokens.ndim != 1 or len(tokens) < 2:
            raise ValueError(
                f"text {n} has tokens of shape {tuple(tokens.shape)}: give two tokens or more, "
                "[pos], so that a query has a choice; leave shorter texts out"
            )
    found = {head: ([], []) for head in heads}
    for tokens in texts:
        with torch.no_grad():
            _, cache = model.run_with_cache(tokens[None])
        for head, parts in found.items():
            for part, name in zip(parts, "qk", strict=True):
                part.append(cache[f"L{head.layer}.{name}"][0, :, head.head].double().cpu())
    text = torch.cat([torch.full((len(tokens),), n) for n, tokens in enumerate(texts)])
    pos = torch.cat([torch.arange(len(tokens)) for tokens in texts])
    return {h: QueriesKeys(torch.cat(q), torch.cat(k), text, pos) for h, (q, k) in found.items()}


def scaled(
    q: Float[Tensor, "*query d_head"], k: Float[Tensor, "*key d_head"], c: float
) -> tuple[Float[Tensor, "*query d_head"], Float[Tensor, "*key d_head"]]:
    """Queries times c and keys divided by c, which leaves every dot product as it is."""
    if not (c > 0 and math.isfinite(c)):
        raise ValueError(f"the scale c must be a finite number > 0, such as 1.25, got {c!r}")
    return c * q, k / c


def placed(
    q: Float[Tensor, "query d_head"],
    k: Float[Tensor, "key d_head"],
    c: float = 1.0,
    shift: bool = False,
) -> tuple[Float[Tensor, "query d_head"], Float[Tensor, "key d_head"]]:
    """Queries and keys as S1 draws them: scaled by c.

    shift: then all keys are moved so that their centroid is that of the queries (S1, section 1.3).
    """
    q, k = scaled(q, k, c)
    return q, k + q.mean(dim=0) - k.mean(dim=0) if shift else k


def distances(
    q: Float[Tensor, "query d_head"], k: Float[Tensor, "key d_head"], metric: str = "euclidean"
) -> Float[Tensor, "query key"]:
    """Euclidean distance of each query to each key, or cosine distance, 1 - cosine."""
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    if metric == "euclidean":
        return torch.cdist(q, k, compute_mode="donot_use_mm_for_euclid_dist")
    return 1 - F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).T


def weighted_correlation(
    x: Float[Tensor, " pair"], y: Float[Tensor, " pair"], w: Float[Tensor, " pair"]
) -> float:
    """cov(x, y; w) / sqrt(cov(x, x; w) cov(y, y; w)) with weighted means (S1, section 1.2).

    NaN where x or y does not vary. Raises ValueError for weights that are negative or all zero.
    """
    if not w.numel() or w.min() < 0 or w.sum() <= 0:
        raise ValueError(f"weights must be >= 0, one above 0, got {w.numel()} of sum {w.sum():g}")
    share = w / w.sum()
    x, y = x - (share * x).sum(), y - (share * y).sum()
    spread = ((share * x * x).sum() * (share * y * y).sum()).sqrt()
    return ((share * x * y).sum() / spread).item() if spread > 0 else math.nan


def close_threshold(distance: Float[Tensor, "*pairs"], share: float = CLOSE) -> float:
    """The distance below which `share` of the pairs lie. ValueError where that is no pair."""
    n_close = int(share * distance.numel())
    if n_close < 3:
        raise ValueError(
            f"of {distance.numel()} pairs {100 * share:g} % are {n_close}, too few for a "
            f"correlation: give texts with {math.ceil(math.sqrt(3 / share))} tokens or more in all"
        )
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
    return torch.stack([distances(*scaled(q, k, c)) for c in SCALES])


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
    neighbors: int = 30,
    seed: int = 0,
) -> tuple[Float[Tensor, "query 2"], Float[Tensor, "key 2"]]:
    """One map of queries and keys together, in two dimensions, the same for the same seed.

    method: "tsne" (neighbors is its perplexity) or "umap" (its n_neighbors), which is compiled at
    its first call, half a minute. Raises ValueError for too few points, and for NaN and infinity.
    """
    for what, given, known in (("method", method, METHODS), ("metric", metric, METRICS)):
        if given not in known:
            raise unknown_name(what, given, known)
    points = torch.cat([q, k]).double().cpu()
    if not 2 <= neighbors < len(points):
        raise ValueError(
            f"neighbors = {neighbors} needs more than {neighbors} points and at least 2, got "
            f"{len(points)} queries and keys: give more texts, or 2 <= neighbors < {len(points)}"
        )
    if not points.isfinite().all():
        raise ValueError("queries and keys must be finite: look for NaN in what they are from")
    if metric == "cosine":  # so that what a map begins with sees no lengths either
        points = F.normalize(points, dim=-1)
    threads = torch.get_num_threads()
    try:  # UMAP's numba lets torch have more
        at = _fit(points.numpy(), method, metric, neighbors, seed)
    finally:
        torch.set_num_threads(threads)
    return at[: len(q)], at[len(q) :]


def _fit(points, method: str, metric: str, neighbors: int, seed: int) -> Float[Tensor, "point 2"]:
    if method == "tsne":
        from sklearn.manifold import TSNE

        fit = TSNE(2, perplexity=neighbors, metric=metric, init="pca", random_state=seed)
    else:
        with warnings.catch_warnings():  # of a part of it that needs TensorFlow
            warnings.simplefilter("ignore", ImportWarning)
            from umap import UMAP

        fit = UMAP(n_neighbors=neighbors, metric=metric, min_dist=0.1, random_state=seed, n_jobs=1)
    return torch.from_numpy(fit.fit_transform(points)).double()
