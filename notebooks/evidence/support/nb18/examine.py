"""The results files of notebook 18: all that `make data WHAT=geometry` measures of a model."""

import base64

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.results import rounded
from aot_helpers.models.protocol import Head, Model
from chapters.nb18_queries_meet_keys.measure import N_TEXTS, SNAKE
from evidence.support.nb18.geometry import (
    SCALES,
    QueriesKeys,
    distances,
    joint_map,
    norm_scale,
    placed,
    queries_and_keys,
)
from evidence.support.nb18.measure import (
    IN_FULL,
    above,
    correlations,
    nearest_is_top,
    nearest_key_rates,
    norm_scales_of_halves,
    norms_left,
    previous_nearest,
)
from evidence.support.nb18.texts import texts_for

FILMED = (Head(1, 2), Head(3, 3))  # S1's figures 3 and 4 show the heads of these names, of GPT
SHARES = (0.0, 0.2, 0.4, 0.55, 0.7, 0.8, 0.9, 0.95, 1.0)  # of the shift that makes centers one


def examine(model: Model, name: str, seed: int = 0, maps: tuple = ("tsne",)) -> dict:
    """All that the results file holds of a model; lists are in the order of its heads.

    maps: "tsne" (Euclidean, c = 1, keys shifted) and "umap" (cosine, the same), see `joint_map`.
    """
    texts, c = texts_for(model, name), model.config
    heads = []
    for head, v in queries_and_keys(model, texts).items():
        each = {
            "head": str(head),
            "norm scale": norm_scale(v.q, v.k),
            "of halves": norm_scales_of_halves(v),
            "correlations": correlations(v, c.causal, seed),
            "liked": nearest_key_rates(v, c.causal, IN_FULL, seed),
            "top": _packed(_top(v, c.causal)),
            "top above": _packed(_top(above(v), c.causal, 1)),
            "previous nearest": previous_nearest(v),
            "norms left": norms_left(v),
        }
        for method in maps:
            each |= map_numbers(v, c.causal, method, seed)
        each["tsne, no shift"] = packed_map(*joint_map(v.q, v.k, seed=seed))
        if head in FILMED and "umap" in maps:
            each["film"] = film(v, seed)
        if head == SNAKE and "umap" in maps:
            each["shift film"] = shift_film(v, seed)
            each["vectors"] = packed_vectors(v)
        heads.append(rounded(each, ".5g"))
        print(name, head, flush=True)
    tokens = [model.tokenizer.token_strings(each) for each in texts]
    sizes = {"n_layers": c.n_layers, "n_heads": c.n_heads, "causal": c.causal}
    return {"model": name, **sizes, "scales": SCALES, "tokens": tokens, "heads": heads}


def map_numbers(v: QueriesKeys, causal: bool, method: str, seed: int = 0) -> dict:
    """A head's map at c = 1 with the keys shifted, packed, and what can be read off it."""
    metric = "cosine" if method == "umap" else "euclidean"
    at = joint_map(*placed(v.q, v.k, 1.0, shift=True), method, metric, seed=seed)
    return {
        method: packed_map(*at),
        f"liked on {method}": nearest_is_top(v.q, v.k, distances(*at), v.allowed(causal)),
    }


def film(v: QueriesKeys, seed: int = 0) -> dict[str, list[str]]:
    """Packed maps by UMAP of cosine distance at each scale (S1, figures 3 and 4): two lists."""
    return {
        name: [
            packed_map(*joint_map(*placed(v.q, v.k, c, shift), "umap", "cosine", seed=seed))
            for c in SCALES
        ]
        for name, shift in (("plain", False), ("shifted", True))
    }


def _top(v: QueriesKeys, causal: bool, n: int = 3) -> Int[Tensor, "point n"]:
    """Positions of the n keys of each query's top scores; a query with fewer repeats its own."""
    allowed = v.allowed(causal)
    best = (v.q @ v.k.T).masked_fill(~allowed, -torch.inf).topk(n, dim=-1)
    own = v.pos[:, None].expand(-1, n)
    return torch.where(best.values.isfinite(), v.pos[best.indices], own)


def packed_map(q: Float[Tensor, "query 2"], k: Float[Tensor, "key 2"]) -> str:
    """A map as text, queries first: whole numbers from 0 to 255, one scale for both directions."""
    at = torch.cat([q, k])
    low, high = at.amin(dim=0), at.amax(dim=0)
    return _packed(255 * (0.5 + (at - (low + high) / 2) / (high - low).max()))


def _packed(numbers: Tensor) -> str:
    return base64.b64encode(numbers.round().numpy().astype(np.uint8).tobytes()).decode()


def shift_film(v: QueriesKeys, seed: int = 0) -> dict:
    """Maps by t-SNE of the first texts with more and more of the shift; each begins at the last.

    "maps": packed, queries first, one scale for all. "liked", "above": the share of queries whose
    nearest key, by the vectors themselves, has the top score, or the score most above average.
    "attention": of the first text, in 255ths.
    """
    from sklearn.manifold import TSNE

    kept = v.text < N_TEXTS
    v = QueriesKeys(*(each[kept] for each in v))
    way, at, maps, liked, above = v.q.mean(dim=0) - v.k.mean(dim=0), None, [], [], []
    for share in SHARES:
        k, allowed = v.k + share * way, v.allowed(causal=False)
        begin = "pca" if at is None else 1e-4 * at / at.std(axis=0)
        both = torch.cat([v.q, k]).cpu().numpy()
        new = TSNE(2, perplexity=30, init=begin, random_state=seed).fit_transform(both)
        at = new - new.mean(axis=0) if at is None else _turned_to(at, new)
        maps.append(at)
        apart = distances(v.q, k)
        liked.append(nearest_is_top(v.q, v.k, apart, allowed))
        above.append(nearest_is_top(v.q - v.q.mean(dim=0), v.k, apart, allowed))
    whole = np.stack(maps)
    packed = (127.5 + 127.5 * whole / np.abs(whole).max()).round().astype(np.uint8)
    first = v.text == 0
    scores = v.q[first] @ v.k[first].T / v.q.shape[1] ** 0.5
    weights = (255 * scores.softmax(dim=-1)).round().numpy().astype(np.uint8)
    return {
        "shares": list(SHARES),
        "texts": N_TEXTS,
        "liked": liked,
        "above": above,
        "maps": [base64.b64encode(each.tobytes()).decode() for each in packed],
        "attention": base64.b64encode(weights.tobytes()).decode(),
    }


def _turned_to(before, new):
    """A map turned or mirrored, around its middle, so that it lies as the one before it did."""
    new = new - new.mean(axis=0)
    left, _, right = np.linalg.svd(new.T @ before)
    return new @ left @ right


def packed_vectors(v: QueriesKeys) -> dict:
    """The queries and keys of the first texts, as half-precision numbers in text."""
    kept = v.text < N_TEXTS
    packed = {x: getattr(v, x)[kept].cpu().numpy().astype("<f2").tobytes() for x in "qk"}
    return {x: base64.b64encode(each).decode() for x, each in packed.items()}
