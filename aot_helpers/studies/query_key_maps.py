"""What notebook 18 measures of every head's queries and keys, and the results file it reads.

The source is S1, Exploring Transformer Interpretability, part 1; the numbers of a head are those
of its section 1.2, beside their nulls, and whether a map's nearest key is the one attended to.
"""

import base64
import json

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.files import DATA, read_json, write_atomically
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.geometry import (
    SCALES,
    QueriesKeys,
    distances,
    joint_map,
    mixing,
    nearest_is_liked,
    norm_scale,
    placed,
    queries_and_keys,
    scale_curve,
)
from aot_helpers.text.corpora import load_corpus

FOLDER = DATA / "results" / "geometry"
_LITTLE = """\
a an the and or but if then than as at by for from in into of off on out over to under with i you he
she it we they me him her us them my your his its our their this that these those is was were are be
been had has have do did does will would can could not no nobody so"""
FUNCTION_WORDS = frozenset(_LITTLE.split())
TYPES = ("name or other word", "function word", "punctuation", "part of a word", "special")

# Ten short texts of our own, so that every token may be shipped and shown.
_TEXTS = """\
The old ferry leaves the harbor at six. On board are nine farmers, two goats and a piano. The \
captain counts the goats, the goats watch the captain, and nobody watches the piano.
My sister bought a telescope in March. She looks at Saturn, I look at the neighbors, and our dog \
looks at the sky as if it owed her a bone. By April all three of us had a cold.
To bake the bread, mix the flour, the salt and the water. Let the dough rest for one hour. If it \
has not grown, let it rest for another hour. Bake it until the crust is dark.
"Where is the key?" asked the doctor. "Under the red chair," said the girl. "There is no red \
chair," said the doctor. "Then there is no key," said the girl, and closed the door.
In 1911 the town had 340 houses and one bank. In 1951 it had 900 houses and four banks. Today it \
has three houses, a museum, and a bank that opens on Mondays.
The river rose in the night. First it took the garden, then the fence, then the road. In the \
morning we saw a boat tied to the church tower, and in the boat sat our teacher.
Prices fell again last week. Wheat lost two percent, copper lost five, and sugar, which had \
gained for a year, lost more than both. Traders blamed the rain; farmers blamed the traders.
He plays the violin badly and the cello well. She plays the cello badly and the violin well. When \
they play together, each of them takes the wrong instrument, because it is more fun.
The train to the north was late, so we walked along the tracks and talked about the war, the \
weather and the price of onions. When the train came at last, it was going south.
A cell copies its code before it divides. Small errors slip in. Most of them do nothing, some of \
them kill, and a few of them, over a very long time, turn a fish into a bird."""
TEXTS = _TEXTS.split("\n")


def texts_for(model: Model, name: str, n_texts: int = 10, n_tokens: int = 48) -> list[Tensor]:
    """Tokens [pos] of the first texts, each begun by the model's token for that and cut.

    Models of stories read unread stories; all others read TEXTS.
    """
    read_stories = name.startswith("stories")
    texts = load_corpus("stories", "test", quiet=True).texts if read_stories else TEXTS
    bos = model.tokenizer.bos is not None
    return [model.tokenizer.encode(text, bos=bos)[:n_tokens] for text in texts[:n_texts]]


def token_type(token: str) -> int:
    """The place in TYPES of a token as the tokenizer shows it."""
    bare = token.strip().lower()
    if token.startswith("[") or token.startswith("<"):
        return 4
    if not any(letter.isalnum() for letter in bare):
        return 2
    if token.startswith("##"):
        return 3
    return 1 if bare in FUNCTION_WORDS else 0


def random_directions(
    x: Float[Tensor, "point d_head"], generator: torch.Generator
) -> Float[Tensor, "point d_head"]:
    """Vectors of the same lengths in random directions."""
    drawn = torch.randn(x.shape, generator=generator, dtype=x.dtype)
    return drawn * (x.norm(dim=-1) / drawn.norm(dim=-1))[:, None]


def correlations(v: QueriesKeys, causal: bool, seed: int = 0) -> dict[str, list[float]]:
    """S1's weighted correlation of a head at each of its seven scales, read in several ways.

    "all pairs", "pairs of one text"; "one threshold" and its "count"; the nulls "shuffled" (dot
    products dealt out to the pairs by lot), "directions" and "other directions" (vectors of the
    same lengths in random directions).
    """
    draw, shape = torch.Generator().manual_seed(seed), (len(v.q), len(v.k))
    dots = (v.q @ v.k.T).flatten()
    dealt = dots[torch.randperm(len(dots), generator=draw)].view(shape)
    one, count = scale_curve(v.q, v.k, one_threshold=True)
    found = {
        "all pairs": scale_curve(v.q, v.k)[0],
        "pairs of one text": scale_curve(v.q, v.k, pairs=v.allowed(causal))[0],
        "one threshold": one,
        "count": count,
        "shuffled": scale_curve(v.q, v.k, dots=dealt)[0],
    }
    for name in ("directions", "other directions"):
        drawn = [random_directions(x, draw) for x in (v.q, v.k)]
        found[name] = scale_curve(*drawn)[0]
    return {name: each.tolist() for name, each in found.items()}


def liked(v: QueriesKeys, causal: bool, scales: tuple, seed: int = 0) -> dict[str, list[float]]:
    """Share of queries whose nearest key of their text is the one they like most, at each scale.

    "plain", "shifted" (keys to the queries' centroid); "shuffled" (the keys of a text in random
    order); "centered" and "centered, shifted": of queries whose mean was taken off first.
    """
    draw, allowed = torch.Generator().manual_seed(seed), v.allowed(causal)
    order = _within_texts(v.text, draw)
    centered = v.q - v.q.mean(dim=0)
    clouds = {"plain": (v.q, False), "shifted": (v.q, True)}
    clouds |= {"centered": (centered, False), "centered, shifted": (centered, True)}
    found = {name: [] for name in (*clouds, "shuffled")}
    for c in scales:
        for name, (q, shift) in clouds.items():
            apart = distances(*placed(q, v.k, c, shift))
            found[name].append(nearest_is_liked(q, v.k, apart, allowed))
        apart = distances(*placed(v.q, v.k[order], c))
        found["shuffled"].append(nearest_is_liked(v.q, v.k, apart, allowed))
    return found


def _within_texts(text: Int[Tensor, " point"], draw: torch.Generator) -> Int[Tensor, " point"]:
    """An order of the points that only exchanges points of one text."""
    noise = torch.rand(len(text), generator=draw, dtype=torch.float64)
    return (text + noise).argsort()


def mixings(v: QueriesKeys, metric: str, scales: tuple) -> dict[str, list[float]]:
    """Share of the other kind among the 15 nearest, at each scale: "plain" and "shifted"."""
    kinds = {"plain": False, "shifted": True}
    return {
        name: [mixing(*placed(v.q, v.k, c, shift), metric) for c in scales]
        for name, shift in kinds.items()
    }


def along_the_text(
    at: Float[Tensor, "point 2"], pos: Int[Tensor, " point"], seed: int | None = None
) -> float:
    """Distance in the text to the nearest on the map, of that of two points by lot.

    0 where neighbors on the map stand at equal positions, 1 where positions do not matter. seed:
    deals the positions out by lot first.
    """
    if seed is not None:
        pos = pos[torch.randperm(len(pos), generator=torch.Generator().manual_seed(seed))]
    nearest = distances(at, at).fill_diagonal_(torch.inf).argmin(dim=-1)
    by_lot = (pos[:, None] - pos).abs().double().mean()
    return ((pos[nearest] - pos).abs().double().mean() / by_lot).item()


def examine(model: Model, name: str, seed: int = 0, maps: tuple = ("tsne",)) -> dict:
    """All that the results file holds of a model; lists are in the order of its heads.

    maps: "tsne" (Euclidean, c = 1, keys shifted) and "umap" (cosine, the same), see `joint_map`.
    """
    texts, c = texts_for(model, name), model.config
    heads = []
    for head, v in queries_and_keys(model, texts).items():
        each = {"head": str(head), "norm scale": norm_scale(v.q, v.k)}
        each |= {"correlations": correlations(v, c.causal, seed)}
        each |= {"liked": liked(v, c.causal, (1.0, 5.0), seed), "top": _packed(_top(v, c.causal))}
        each["previous nearest"] = previous_nearest(v)
        q, k = placed(v.q, v.k, 1.0, shift=True)
        for method in maps:
            metric = "cosine" if method == "umap" else "euclidean"
            at = joint_map(q, k, method, metric, seed=seed)
            each[method] = packed_map(*at)
            each[f"liked on {method}"] = nearest_is_liked(
                v.q, v.k, distances(*at), v.allowed(c.causal)
            )
            each[f"along the text on {method}"] = {
                kind: [along_the_text(x, v.pos), along_the_text(x, v.pos, seed)]
                for kind, x in zip(("queries", "keys"), at, strict=True)
            }
        heads.append(_rounded(each))
        print(name, head, flush=True)
    tokens = [model.tokenizer.token_strings(each) for each in texts]
    sizes = {"n_layers": c.n_layers, "n_heads": c.n_heads, "causal": c.causal}
    return {"model": name, **sizes, "scales": SCALES, "tokens": tokens, "heads": heads}


def previous_nearest(v: QueriesKeys, c: float = 5.0) -> float:
    """Share of queries whose nearest key, up to their own, is that of the token before them."""
    apart = distances(*placed(v.q, v.k, c)).masked_fill(~v.allowed(causal=True), torch.inf)
    counted = v.pos >= 1
    at = torch.arange(len(v.pos))
    return (apart.argmin(dim=-1) == at - 1)[counted].double().mean().item()


def _top(v: QueriesKeys, causal: bool, n: int = 3) -> Int[Tensor, "point n"]:
    """Positions of the n keys that each query likes most; a query with fewer repeats its own."""
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


def unpacked(text: str, width: int) -> Int[Tensor, "point width"]:
    """What was packed: whole numbers from 0 to 255 in rows of `width`."""
    numbers = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
    return torch.from_numpy(numbers.astype(np.int64)).view(-1, width)


def map_of(result: dict, head: Head, method: str) -> tuple[Tensor, Tensor]:
    """A head's map from the results file: queries and keys, [point, 2] in 0 … 255."""
    one = head_of(result, head)
    if method not in one:
        raise ValueError(f"{result['model']} has no map by {method!r}: there are tsne and umap")
    at = unpacked(one[method], 2).double()
    return at[: len(at) // 2], at[len(at) // 2 :]


def head_of(result: dict, head: Head) -> dict:
    """A head's entry in a results file. ValueError for a head that the model does not have."""
    for each in result["heads"]:
        if each["head"] == str(head):
            return each
    size = f"{result['n_layers']} layers of {result['n_heads']} heads"
    raise ValueError(f"there is no head {head}: {result['model']} has {size}, counted from 0")


def _rounded(value):
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def write_results(result: dict) -> None:
    """Keep what `examine` gave, one line a head, in data/results/geometry/."""
    heads = ",\n".join(json.dumps(each, allow_nan=False) for each in result["heads"])
    rest = json.dumps({name: each for name, each in result.items() if name != "heads"})
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = f'{rest[:-1]}, "heads": [\n{heads}\n]}}\n'
    write_atomically(FOLDER / f"{result['model']}.json", content.encode())


def read_results(name: str) -> dict:
    """What `make geometry` measured of a model. ValueError names the models there are."""
    path = FOLDER / f"{name}.json"
    if not path.is_file():
        there = ", ".join(sorted(each.stem for each in FOLDER.glob("*.json"))) or "none"
        raise ValueError(f"there are no results of {name!r}, but of: {there}; run make geometry")
    return read_json(path)
