"""Every vector of an attention block read as words, and how many words two of them share.

VISIT, section 3 and appendix D, with what it lacks beside each number: pairs of different prompts,
and sums of random vectors that have the same norms and nothing else in common. The lens reads
vectors of the stream. What heads hand on before W_O, and their queries and keys, live elsewhere:
`READINGS` says how each is brought back.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.logit_lens import lens, probability, rank, top_tokens
from chapters.nb20_logit_lens.measure import Prompts, at_last

K = 50  # VISIT's k
RANKS = 3  # so many keys as in VISIT, those with the highest attention but for the first token
LAYER = ("residual", "attention output", "block output")
HEAD = ("head", "head without W_O")
WHOSE = ("own", "another's", "a third's")  # whose token is looked for in a value
LOTS = (" by lot", " by lot again")  # draws of random queries


def written_by(
    model: Model, layer: int, z: Float[Tensor, "*places head d_head"]
) -> Float[Tensor, "*places head d_model"]:
    """What heads with these z add to the stream."""
    return torch.einsum("...hd,hdm->...hm", z, model.layer_weights(layer).W_O)


def padded(
    model: Model, vectors: Float[Tensor, "*places head d_head"]
) -> Float[Tensor, "*places head d_model"]:
    """Each head's own small vector at its place in a vector of zeros (VISIT, footnote 6).

    Raises ValueError where the heads are wider than the stream.
    """
    wide = torch.eye(vectors.shape[-2])[..., None] * vectors[..., None, :]
    room = model.config.d_model - wide.shape[-1] * wide.shape[-2]
    if room < 0:
        raise ValueError(
            f"heads that are {-room} wider than the stream cannot be padded: read their vectors "
            "through their matrices"
        )
    return F.pad(wide.flatten(-2), (0, room))


def _padded(model: Model, cache: dict, head: Head, name: str) -> Tensor:
    return padded(model, cache[f"L{head.layer}.{name}"])[:, :, head.head]


def _through_W_O(model: Model, cache: dict, head: Head, name: str) -> Tensor:
    return cache[f"L{head.layer}.{name}"][:, :, head.head] @ model.head_weights(head).W_O


def _unturned(model: Model, cache: dict, head: Head, name: str) -> Tensor:
    """Queries or keys before any rotation: with rotary positions, as seen from distance 0."""
    if model.config.positions != "rotary":
        return cache[f"L{head.layer}.{name}"][:, :, head.head]
    W = getattr(model.head_weights(head), f"W_{name.upper()}")
    return cache[f"L{head.layer}.ln1_out"] @ W


def _block_output(model: Model, cache: dict, layer: int) -> Tensor:
    last = layer + 1 == model.config.n_layers
    return cache["final_resid" if last else f"L{layer + 1}.resid_pre"]


# How the cache of a run gives each kind of vector in the stream's width [batch, pos, d_model]:
# functions of (model, cache, head); those of a layer look at the layer of the head alone.
READINGS: dict[str, Callable[[Model, dict, Head], Tensor]] = {
    "residual": lambda m, cache, at: cache[f"L{at.layer}.resid_pre"],
    "attention output": lambda m, cache, at: cache[f"L{at.layer}.attn_out"],
    "block output": lambda m, cache, at: _block_output(m, cache, at.layer),
    "head": lambda m, cache, at: _through_W_O(m, cache, at, "z"),
    "head without W_O": lambda m, cache, at: _padded(m, cache, at, "z"),
    "value": lambda m, cache, at: _through_W_O(m, cache, at, "v"),
    # q W_Kᵀ, the key that a query asks for
    "query": lambda m, cache, at: _unturned(m, cache, at, "q") @ m.head_weights(at).W_K.T,
    # among zeros, times W_K of all heads side by side, which must be square to take it
    "query, the source's way": lambda m, cache, at: (
        _padded(m, cache, at, "q") @ torch.cat([*m.layer_weights(at.layer).W_K], dim=1)
    ),
    "query without W_K": lambda m, cache, at: _padded(m, cache, at, "q"),
    # k W_Qᵀ, the query that a key answers
    "key": lambda m, cache, at: _unturned(m, cache, at, "k") @ m.head_weights(at).W_Q.T,
    "key without W_Q": lambda m, cache, at: _padded(m, cache, at, "k"),
}


@torch.no_grad()
def read(
    model: Model, cache: dict[str, Tensor], reading: str, at: Head
) -> Float[Tensor, "batch pos d_model"]:
    """The vectors of one reading, a key of READINGS, at every position of a run.

    at: the head; for readings of a layer only its layer counts.
    """
    return READINGS[reading](model, cache, at)


class Readings(NamedTuple):
    """What was read at the last position of some prompts, in some layers.

    ids: {reading: [prompt, layer, …, k]}; of heads [prompt, layer, head, k]; "value" has an axis
    of ranks by attention after the heads. "final" is what the model says in the end, "one before"
    the attention output of the layer before. numbers: {name: [prompt, layer, …]}. The axis of
    layers holds those in `layers`.
    """

    ids: dict[str, Int[Tensor, "prompt layer *more k"]]
    numbers: dict[str, Float[Tensor, "prompt layer *more"]]
    layers: list[int]


class Layer(NamedTuple):
    """A layer in a run on some prompts."""

    model: Model
    cache: dict[str, Tensor]
    prompts: Prompts
    layer: int

    def heads(self, reading: str) -> Float[Tensor, "prompt pos head d_model"]:
        """A reading of each head (see READINGS)."""
        heads = [Head(self.layer, head) for head in range(self.model.config.n_heads)]
        return torch.stack([read(self.model, self.cache, reading, at) for at in heads], dim=2)

    def last(self, name: str) -> Float[Tensor, "prompt ..."]:
        """An activation of this layer, such as "q", at the last positions."""
        return at_last(self.cache[f"L{self.layer}.{name}"], self.prompts)

    def attention(self) -> Float[Tensor, "prompt head key"]:
        """The attention of the last positions."""
        return at_last(self.cache[f"L{self.layer}.pattern"].transpose(1, 2), self.prompts)


def overlap(a: Int[Tensor, "*#places k"], b: Int[Tensor, "*#places k"]) -> Float[Tensor, "*places"]:
    """I_k, the fraction of ids that two lists of k have in common (VISIT, equation 3).

    Two readings that have nothing to do with each other, and prefer no words, share k / d_vocab of
    them; real readings prefer frequent words, so compare with readings of other prompts as well.
    """
    return (a[..., :, None] == b[..., None, :]).any(dim=-1).float().mean(dim=-1)


def strongest_value(
    model: Model, cache: dict[str, Tensor], layer: int
) -> Float[Tensor, "batch pos d_model"]:
    """At each position, what the neuron wrote that writes most: its value times its activation."""
    values, active = model.mlp_values(layer), cache[f"L{layer}.mlp_hidden"]
    chosen = (active.abs() * values.norm(dim=-1)).argmax(dim=-1)
    return active.gather(-1, chosen[..., None]) * values[chosen]


@torch.no_grad()
def read_prompts(
    model: Model, prompts: Prompts, layers: list[int], k: int = K, full: bool = True, seed: int = 0
) -> Readings:
    """The words of every vector of some layers, and of random ones beside them.

    full: also queries, keys, MLP values and random vectors. Raises ValueError for a k that the
    vocabulary does not have and prompts that are too long.
    """
    draw, pieces = torch.Generator().manual_seed(seed), []
    for _, piece in prompts.pieces(model):
        logits, cache = model.run_with_cache(piece.tokens)
        final, rows = at_last(logits, piece), []
        for at in (Layer(model, cache, piece, layer) for layer in layers):
            vectors = _vectors(at) | (_more_vectors(at, draw) if full else {})
            ids = {name: top_tokens(lens(model, x), k) for name, x in vectors.items()}
            rows.append(ids | {"final": top_tokens(final, k)} | _numbers(at, vectors, final))
        pieces.append({name: torch.stack([row[name] for row in rows], dim=1) for name in rows[0]})
    joined = {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}
    ids = {name: each for name, each in joined.items() if not each.is_floating_point()}
    numbers = {name: each for name, each in joined.items() if name not in ids}
    return Readings(ids, numbers, layers)


def favorites(
    attention: Float[Tensor, "*places key"],
) -> tuple[Float[Tensor, "*places rank"], Int[Tensor, "*places rank"]]:
    """(attention, position) of the RANKS keys with the highest attention.

    Without the first token: it is an attention sink, and in facts it is the same in many prompts.
    """
    found = attention[..., 1:].topk(RANKS, dim=-1)
    return found.values, found.indices + 1


def at_keys(
    vectors: Float[Tensor, "prompt pos head d"], keys: Int[Tensor, "prompt head rank"]
) -> Float[Tensor, "prompt head rank d"]:
    """The vectors of each head at some keys."""
    at = keys[..., None].expand(*keys.shape, vectors.shape[-1])
    return vectors.transpose(1, 2).gather(2, at)


def _vectors(at: Layer) -> dict[str, Tensor]:
    """Vectors of one layer: its stream, its heads, the values with the highest attention."""
    stream = {name: read(at.model, at.cache, name, Head(at.layer, 0)) for name in LAYER}
    stream |= {name: at.heads(name) for name in HEAD}
    found = {name: at_last(each, at.prompts) for name, each in stream.items()}
    found["one before"] = at._replace(layer=max(at.layer - 1, 0)).last("attn_out")
    return found | {"value": at_keys(at.heads("value"), favorites(at.attention())[1])}


def _numbers(at: Layer, vectors: dict[str, Tensor], final: Tensor) -> dict[str, Tensor]:
    """Norms, attention, and how high some tokens stand in the readings of these vectors."""
    attention, read_values = at.attention(), lens(at.model, vectors["value"])
    weights, keys = favorites(attention)
    own = at.prompts.tokens.gather(1, keys.flatten(1)).view_as(keys)
    ranks = {
        f"rank of {whose} token": rank(read_values, own.roll(moved, dims=0)).float()
        for moved, whose in enumerate(WHOSE)
    }
    p = probability(lens(at.model, vectors["block output"]), final.argmax(dim=-1))
    return ranks | {
        "p of the prediction": p,
        "norm": vectors["head"].norm(dim=-1),
        "attention": weights,
        "attention to the first token": attention[..., 0],
    }


def _more_vectors(at: Layer, draw: torch.Generator) -> dict[str, Tensor]:
    """Queries and keys, the strongest MLP value, and random vectors in place of all of these."""
    found, keys = {}, favorites(at.attention())[1]
    for name in ("query", "query without W_K"):
        found[name] = at_last(at.heads(name), at.prompts)
    for name in ("key", "key without W_Q"):
        found[name] = at_keys(at.heads(name), keys[..., :1])[:, :, 0]
    heads = at_last(at.heads("head"), at.prompts)
    rest = at.last("attn_out") - heads.sum(dim=1)  # b_O
    alike = heads * (heads.norm(dim=-1).mean(dim=1)[:, None] / heads.norm(dim=-1))[..., None]
    for kind, real in {"by lot": heads, "by lot, of equal norm": alike}.items():
        z = torch.randn(*heads.shape[:2], at.model.config.d_head, generator=draw)
        made = norm_matched(written_by(at.model, at.layer, z), real)
        found[f"heads {kind}"] = made
        found[f"sum of heads {kind}"] = made.sum(dim=1) + rest
    found |= _random_values(at, keys, draw)
    for suffix in LOTS:
        found |= _random_query(at, draw, suffix)
    if at.model.config.d_mlp:
        written = at_last(strongest_value(at.model, at.cache, at.layer), at.prompts)
        values = at.model.mlp_values(at.layer)
        made = values[torch.randint(len(values), (len(written),), generator=draw)]
        for suffix, value in {"": written, " by lot": norm_matched(made, written)}.items():
            found[f"MLP value{suffix}"] = value
            found[f"MLP output{suffix}"] = at.last("mlp_out") - written + value
    return found


def norm_matched(
    made: Float[Tensor, "*places d"], real: Float[Tensor, "*places d"]
) -> Float[Tensor, "*places d"]:
    """Random vectors with the norms of the real ones."""
    return made * (real.norm(dim=-1) / made.norm(dim=-1).clamp_min(1e-9))[..., None]


def _random_values(at: Layer, keys: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
    """Each value replaced by a random one through the same W_O, and the heads that they make up.

    Norms and attention stay.
    """
    values = at.heads("value")
    z = torch.randn(*values.shape[:-1], at.model.config.d_head, generator=draw)
    made = norm_matched(written_by(at.model, at.layer, z), values)
    head = torch.einsum("phk,pkhd->phd", at.attention(), made)
    return {"values by lot": at_keys(made, keys), "head of values by lot": head}


def _random_query(at: Layer, draw: torch.Generator, suffix: str) -> dict[str, Tensor]:
    """A random query of each head, as long as its own, and the key that it scores highest.

    Both among zeros, the first token left out, as for the model's own queries.
    """
    own, keys = at.last("q"), at.cache[f"L{at.layer}.k"]
    query = norm_matched(torch.randn(own.shape, generator=draw), own)
    scores = torch.einsum("phd,pkhd->phk", query, keys)
    places = torch.arange(keys.shape[1])
    there = (places > 0) & (places <= at.prompts.last[:, None])
    best = scores.masked_fill(~there[:, None], -torch.inf).argmax(dim=-1)
    key = at_keys(keys, best[..., None])[:, :, 0]
    return {
        f"query{suffix}": padded(at.model, query),
        f"key of query{suffix}": padded(at.model, key),
    }


def shared(
    ids: dict[str, Tensor], a: str, b: str, other_prompt: bool = False
) -> Float[Tensor, "prompt layer *more"]:
    """I_k of two readings at every place; the one with fewer axes (a layer's) stands beside each.

    other_prompt: b is that of the next prompt.
    """
    first, second = ids[a], ids[b]
    while second.ndim < first.ndim:
        second = second[..., None, :]
    if other_prompt:
        second = second.roll(1, dims=0)
    pairs = zip(*torch.broadcast_tensors(first, second), strict=True)
    return torch.stack([overlap(x, y) for x, y in pairs])  # a prompt at a time: k * k per place


def by_norm(
    norm: Float[Tensor, "prompt layer head"], values: Float[Tensor, "prompt layer head"]
) -> Float[Tensor, "prompt layer rank"]:
    """The values of the heads of each layer, ordered by norm, the largest first."""
    return values.gather(-1, norm.argsort(dim=-1, descending=True))
