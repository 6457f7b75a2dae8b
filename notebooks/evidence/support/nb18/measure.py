"""What the evidence of notebook 18 measures of every head's queries and keys.

The source is S1, Exploring Transformer Interpretability, part 1; the numbers of a head are those
of its section 1.2, beside their nulls, and whether a map's nearest key is the one attended to.
"""

import math
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head
from aot_helpers.models.transformer import AttentionOnlyTransformer
from chapters.nb18_queries_meet_keys.measure import head_map, positions, top_keys
from evidence.support.nb18.geometry import (
    QueriesKeys,
    at_each_scale,
    close_threshold,
    distances,
    norm_scale,
    placed,
    scale_curve,
)
from evidence.support.nb18.texts import NOUNS, PRONOUNS, words_of

IN_FULL = (1.0, 5.0)  # the values of c at which all d_head numbers are asked for nearest keys


def attention(
    model: AttentionOnlyTransformer,
    head: Head,
    q: Float[Tensor, "pos d_head"],
    k: Float[Tensor, "pos d_head"],
) -> Float[Tensor, "query_pos key_pos"]:
    """A head's causal attention in one text, from given queries and keys and its relative bias."""
    scores = q @ k.T / math.sqrt(q.shape[1])
    if model.config.positions == "relative":
        scores = scores + model.blocks[head.layer].attn.relative_bias(len(q))[head.head]
    hidden = torch.ones(scores.shape, dtype=torch.bool).triu(1)
    return scores.double().masked_fill(hidden, -torch.inf).softmax(dim=-1)


def random_directions(
    x: Float[Tensor, "point d_head"], generator: torch.Generator
) -> Float[Tensor, "point d_head"]:
    """Vectors of the same lengths in random directions."""
    drawn = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    return drawn * (x.norm(dim=-1) / drawn.norm(dim=-1))[:, None]


def correlations(v: QueriesKeys, causal: bool, seed: int = 0) -> dict[str, list[float]]:
    """S1's weighted correlation of a head at each of its seven scales, read in several ways.

    "all pairs", "pairs of one text"; "one threshold" and its "count"; the nulls "shuffled" (the
    same dot products in random order), "directions" and "other directions" (vectors of the
    same lengths in random directions).
    """
    draw, shape = torch.Generator().manual_seed(seed), (len(v.q), len(v.k))
    dots = (v.q @ v.k.T).flatten()
    shuffled = dots[torch.randperm(len(dots), generator=draw)].view(shape)
    curve = partial(scale_curve, v.q, v.k, apart=at_each_scale(v.q, v.k))
    one, count = curve(one_threshold=True)
    found = {
        "all pairs": curve()[0],
        "pairs of one text": curve(pairs=v.allowed(causal))[0],
        "one threshold": one,
        "count": count,
        "shuffled": curve(dots=shuffled)[0],
    }
    for name in ("directions", "other directions"):
        drawn = [random_directions(x, draw) for x in (v.q, v.k)]
        found[name] = scale_curve(*drawn)[0]
    return {name: each.tolist() for name, each in found.items()}


def nearest_key_rates(
    v: QueriesKeys, causal: bool, scales: tuple, seed: int = 0, metric: str = "euclidean"
) -> dict[str, list[float]]:
    """Share of queries whose nearest key of their text has their top score, at each scale.

    "plain", "shifted" (keys to the queries' centroid); "shuffled" (the keys of a text in random
    order); "centered" and "centered, shifted": of queries whose mean was taken off first; "others"
    and "others, shifted": of the queries whose top key is not the first of their text. "above" and
    "above, shifted": whose nearest key is the one most above average, see `above`.
    """
    allowed, centered = v.allowed(causal), above(v).q
    best = (v.q @ v.k.T).masked_fill(~allowed, -torch.inf).argmax(dim=-1)
    others = allowed & (v.pos[best] > 0)[:, None]  # a query without keys does not count

    kinds = {  # name: (the queries that score keys, those that are placed, shifted, what counts)
        "plain": (v.q, v.q, False, allowed),
        "shifted": (v.q, v.q, True, allowed),
        "centered": (centered, centered, False, allowed),
        "centered, shifted": (centered, centered, True, allowed),
        "others": (v.q, v.q, False, others),
        "others, shifted": (v.q, v.q, True, others),
        "above": (centered, v.q, False, allowed),
        "above, shifted": (centered, v.q, True, allowed),
    }
    found, apart = {}, {}
    for name, (scoring, q, shift, counted) in kinds.items():
        placing = q is centered, shift
        if placing not in apart:
            apart[placing] = [distances(*placed(q, v.k, c, shift), metric) for c in scales]
        found[name] = [nearest_is_top(scoring, v.k, each, counted) for each in apart[placing]]
    shuffled = v.k[_within_texts(v.text, torch.Generator().manual_seed(seed))]
    by_lot = [distances(*placed(v.q, shuffled, c), metric) for c in scales]
    found["shuffled"] = [nearest_is_top(v.q, v.k, each, allowed) for each in by_lot]
    return found


def above(v: QueriesKeys) -> QueriesKeys:
    """The same with the mean query taken off: (q - q̄) · k is a score above its key's average."""
    return v._replace(q=v.q - v.q.mean(dim=0))


def _within_texts(text: Int[Tensor, " point"], draw: torch.Generator) -> Int[Tensor, " point"]:
    """An order of the points that only exchanges points of one text."""
    noise = torch.rand(len(text), generator=draw, dtype=torch.float64)
    return (text + noise).argsort()


def moved_at_random(v: QueriesKeys, c: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Queries and keys at a scale, the keys moved as far as the shift would, in a random direction.

    What a shift of this length does that does not lead to the queries.
    """
    q, k = placed(v.q, v.k, c)
    way = (q.mean(dim=0) - k.mean(dim=0))[None]
    return q, k + random_directions(way, torch.Generator().manual_seed(seed))


def keys_near_keys(
    q: Float[Tensor, "query d_head"], k: Float[Tensor, "key d_head"], n_neighbors: int = 15
) -> float:
    """Share of keys among the nearest neighbors of a key: 1 where no query is near."""
    apart = distances(k, torch.cat([k, q]))
    apart[:, : len(k)].fill_diagonal_(torch.inf)
    near = apart.topk(n_neighbors, largest=False).indices
    return (near < len(k)).double().mean().item()


def close_pairs(
    q: Float[Tensor, "query d_head"], k: Float[Tensor, "key d_head"], c: float
) -> tuple[Float[Tensor, " pair"], Float[Tensor, " pair"], Int[Tensor, " pair"]]:
    """Distances and dot products of the close pairs at a scale, and the vector each shares.

    The last counts the queries of these pairs, or their keys if these are fewer.
    """
    distance = distances(*placed(q, k, c))
    close = distance < close_threshold(distance)
    shared = min(close.nonzero().T, key=lambda side: len(side.unique()))
    return distance[close], (q @ k.T)[close], shared


def along_the_text(
    at: Float[Tensor, "point 2"], pos: Int[Tensor, " point"], seed: int | None = None
) -> float:
    """Distance in the text to the nearest point of another position, relative to random points.

    1 where positions do not matter; near 0 where they lie along a line, in their order. The same
    position of another text does not count: its point is often the same, wherever it lies. seed:
    permutes the positions first, all points of a position together.
    """
    if seed is not None:
        pos = torch.randperm(int(pos.max()) + 1, generator=torch.Generator().manual_seed(seed))[pos]
    same = pos[:, None] == pos
    nearest = distances(at, at).masked_fill(same, torch.inf).argmin(dim=-1)
    at_random = (pos[:, None] - pos).abs()[~same].double().mean()
    return ((pos[nearest] - pos).abs().double().mean() / at_random).item()


def nearest_is_right(result: dict, kind: str, c: float = 5.0) -> list[float]:
    """The fraction of each head's queries whose nearest key in all d_head numbers is right.

    kind: as in `nearest_key_rates`, which the results file calls "liked". c: one of IN_FULL.
    """
    return [each["liked"][kind][IN_FULL.index(c)] for each in result["heads"]]


def norms_left(v: QueriesKeys) -> list[float]:
    """What scaling by S1's third metric leaves of the log ratio of the median norms.

    First as S1 says, queries times c and keys divided by c; then the other way round.
    """

    def ratio(q, k):
        return (q.norm(dim=-1).median() / k.norm(dim=-1).median()).log().item()

    c, before = norm_scale(v.q, v.k), ratio(v.q, v.k)
    return [ratio(*placed(v.q, v.k, each)) / before for each in (c, 1 / c)]


def norm_scales_of_halves(v: QueriesKeys) -> list[float]:
    """S1's third metric of the even texts, and of the odd ones."""
    return [norm_scale(v.q[v.text % 2 == i], v.k[v.text % 2 == i]) for i in (0, 1)]


def previous_nearest(v: QueriesKeys, c: float = 5.0) -> float:
    """Share of queries whose nearest key, up to their own, is that of the token before them."""
    apart = distances(*placed(v.q, v.k, c)).masked_fill(~v.allowed(causal=True), torch.inf)
    counted = v.pos >= 1
    at = torch.arange(len(v.pos))
    return (apart.argmin(dim=-1) == at - 1)[counted].double().mean().item()


def nearest_on_map(
    result: dict,
    head: Head,
    method: str = "tsne",
    but_first: bool = False,
    part: str = "top",
) -> float:
    """Share of queries whose nearest key of their text, on a map of the file, has the top score.

    part: as in `top_keys`. but_first: of the queries for which that is not the text's first.
    """
    best, points = top_keys(result, head, part), head_map(result, head, method)
    v = QueriesKeys(*points, *positions(result))
    later = ~v.allowed(result["causal"])
    nearest = v.pos[distances(v.q, v.k).masked_fill(later, torch.inf).argmin(dim=-1)]
    counted = (best > 0) if but_first else (v.pos >= (1 if result["causal"] else 0))
    return (nearest == best)[counted].double().mean().item()


class WordKinds(NamedTuple):
    """Which tokens of some texts are of nouns, of pronouns and of other words, and whose text."""

    nouns: Bool[Tensor, " point"]
    pronouns: Bool[Tensor, " point"]
    others: Bool[Tensor, " point"]
    text: Int[Tensor, " point"]


def word_kinds(tokens: list[list[str]]) -> WordKinds:
    """Of the tokens of our texts, as the tokenizer shows them; the first of each is special."""
    words = [word for strings in tokens for word in ["", *words_of(strings[1:])]]
    nouns, pronouns = (torch.tensor([word in kind for word in words]) for kind in (NOUNS, PRONOUNS))
    some = torch.tensor([bool(word) for word in words])
    text = torch.arange(len(tokens)).repeat_interleave(torch.tensor(list(map(len, tokens))))
    return WordKinds(nouns, pronouns, some & ~nouns & ~pronouns, text)


def pronoun_preference(
    at_pronoun: Bool[Tensor, "head point"], kinds: WordKinds, dealt: int | None = None
) -> list[tuple[int, float]]:
    """By how much more often nouns' queries than others' like a pronoun's key, of a chosen head.

    at_pronoun: whether the key of a query's top score is a pronoun's. The head is the one with the
    largest difference on the even texts, measured on the odd ones, and the other way round: its
    place and the difference. dealt: seed by which the nouns of each text exchange places with its
    other words.
    """
    nouns, others = kinds.nouns, kinds.others
    if dealt is not None:
        asking, drawn = nouns | others, torch.zeros_like(nouns)
        draw = torch.Generator().manual_seed(dealt)
        for each in kinds.text.unique():
            here = (asking & (kinds.text == each)).nonzero()[:, 0]
            order = torch.randperm(len(here), generator=draw)
            drawn[here[order[: int(nouns[here].sum())]]] = True
        nouns, others = drawn, asking & ~drawn

    def rate(some):
        return at_pronoun[:, some].double().mean(dim=1)

    halves = [kinds.text % 2 == i for i in (0, 1)]
    more = [rate(nouns & half) - rate(others & half) for half in halves]
    return [(int(at := more[i].argmax()), more[1 - i][at].item()) for i in (0, 1)]


def top_is_pronoun(v: QueriesKeys, causal: bool, kinds: WordKinds) -> Bool[Tensor, " point"]:
    """Whether the key of each query's top score, of its text and not later if causal, is one's."""
    best = (v.q @ v.k.T).masked_fill(~v.allowed(causal), -torch.inf).argmax(dim=-1)
    return kinds.pronouns[best]


def nearest_is_top(
    q: Float[Tensor, "query d_head"],
    k: Float[Tensor, "key d_head"],
    distance: Float[Tensor, "query key"],
    allowed: Bool[Tensor, "query key"],
) -> float:
    """Share of queries whose nearest allowed key has their largest dot product, or equals its.

    Queries with fewer than two keys have no choice and do not count.
    """
    dots = (q @ k.T).masked_fill(~allowed, -math.inf)
    nearest = distance.masked_fill(~allowed, math.inf).argmin(dim=-1)
    is_top = dots.gather(-1, nearest[:, None])[:, 0] >= dots.amax(dim=-1) - 1e-9
    return is_top[allowed.sum(dim=-1) >= 2].double().mean().item()


def mixing(
    q: Float[Tensor, "query d_head"],
    k: Float[Tensor, "key d_head"],
    metric: str = "euclidean",
    n_neighbors: int = 15,
) -> float:
    """Share of the other kind among the nearest neighbors of queries and keys: 0 if apart."""
    points = torch.cat([q, k])
    is_key = torch.arange(len(points)) >= len(q)
    apart = distances(points, points, metric).fill_diagonal_(math.inf)
    near = apart.topk(n_neighbors, largest=False).indices
    return (is_key[near] != is_key[:, None]).double().mean().item()
