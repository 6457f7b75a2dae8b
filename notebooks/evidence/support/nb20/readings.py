"""Every vector of an attention block read as words, and how many words two of them share.

VISIT, section 3 and appendix D, with what it lacks beside each number: pairs of different prompts,
and sums of random vectors that have the same norms and nothing else in common.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.logit_lens import top_tokens
from chapters.nb20_logit_lens.measure import written_by
from chapters.nb20_logit_lens.templates import Prompts, at_last
from evidence.support.nb20.stream_vectors import read, words

K = 50  # VISIT's k
RANKS = 3  # so many keys as in VISIT, those with the highest attention but for the first token
LAYER = ("residual", "attention output", "block output")
HEAD = ("head", "head without W_O")
WHOSE = ("own", "another's", "a third's")  # whose token is looked for in a value
LOTS = (" by lot", " by lot again")  # draws of random queries


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

    def some(self, rows) -> "Readings":
        """Those of some prompts."""
        ids, numbers = ({n: each[rows] for n, each in part.items()} for part in self[:2])
        return Readings(ids, numbers, self.layers)


class Layer(NamedTuple):
    """A layer in a run on some prompts, and the number of words to read from each vector."""

    model: Model
    cache: dict[str, Tensor]
    prompts: Prompts
    layer: int
    k: int

    def heads(self, reading: str) -> Float[Tensor, "prompt pos head d_model"]:
        """A reading of each head (see `stream_vectors.READINGS`)."""
        return each_head(self.model, self.cache, reading, self.layer)

    def last(self, name: str) -> Float[Tensor, "prompt ..."]:
        """An activation of this layer, such as "q", at the last positions."""
        return at_last(self.cache[f"L{self.layer}.{name}"], self.prompts)

    def attention(self) -> Float[Tensor, "prompt head key"]:
        """The attention of the last positions."""
        return at_last(self.cache[f"L{self.layer}.pattern"].transpose(1, 2), self.prompts)

    def ids(self, vectors: Float[Tensor, "*places d_model"]) -> Int[Tensor, "*places k"]:
        """The words of vectors."""
        return words(self.model, vectors, self.k).ids


def overlap(a: Int[Tensor, "*#places k"], b: Int[Tensor, "*#places k"]) -> Float[Tensor, "*places"]:
    """I_k, the share of ids that two lists of k have in common (VISIT, equation 3).

    Two readings that have nothing to do with each other, and prefer no words, share k / d_vocab of
    them; real readings prefer frequent words, so compare with readings of other prompts as well.
    """
    return (a[..., :, None] == b[..., None, :]).any(dim=-1).float().mean(dim=-1)


def strongest_value(
    model: Model, cache: dict[str, Tensor], layer: int
) -> Float[Tensor, "batch pos d_model"]:
    """At each position, what the neuron wrote that writes most: its value times its activation.

    Raises ValueError for a model without MLPs.
    """
    values, active = model.mlp_values(layer), cache[f"L{layer}.mlp_hidden"]
    chosen = (active.abs() * values.norm(dim=-1)).argmax(dim=-1)
    return active.gather(-1, chosen[..., None]) * values[chosen]


@torch.no_grad()
def read_prompts(
    model: Model,
    prompts: Prompts,
    k: int = K,
    layers: list[int] | None = None,
    full: bool = True,
    seed: int = 0,
) -> Readings:
    """Read every vector of some layers (None: all), and random ones beside them.

    full: also queries, keys, MLP values and random vectors. Raises ValueError for a k that the
    vocabulary does not have and prompts that are too long.
    """
    draw, pieces = torch.Generator().manual_seed(seed), []
    layers = list(range(model.config.n_layers)) if layers is None else layers
    for _, piece in prompts.pieces(model):
        logits, cache = model.run_with_cache(piece.tokens)
        final, rows = at_last(logits, piece), []
        for layer in (Layer(model, cache, piece, i, k) for i in layers):
            found = _read_layer(layer, final.argmax(dim=-1)) | {"final": top_tokens(final, k)}
            rows.append(found | (_read_more(layer, draw) if full else {}))
        pieces.append({name: torch.stack([row[name] for row in rows], dim=1) for name in rows[0]})
    joined = {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}
    ids = {name: each for name, each in joined.items() if not each.is_floating_point()}
    numbers = {name: each for name, each in joined.items() if name not in ids}
    return Readings(ids, numbers, layers)


def each_head(
    model: Model, cache: dict[str, Tensor], reading: str, layer: int
) -> Float[Tensor, "prompt pos head d_model"]:
    """A reading of each head of a layer."""
    heads = [Head(layer, head) for head in range(model.config.n_heads)]
    return torch.stack([read(model, cache, reading, head) for head in heads], dim=2)


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


def _read_layer(at: Layer, said: Int[Tensor, " prompt"]) -> dict[str, Tensor]:
    """Readings of one layer: its stream, its heads, the values with the highest attention."""
    found, k = {}, at.k
    for name in LAYER:
        vector = at_last(read(at.model, at.cache, name, Head(at.layer, 0)), at.prompts)
        found[name], p, _ = words(at.model, vector, k, said[:, None])
        if name == "block output":
            found["p of the prediction"] = p[:, 0]
    found["one before"] = at.ids(at._replace(layer=max(at.layer - 1, 0)).last("attn_out"))
    for name in HEAD:
        vectors = at_last(at.heads(name), at.prompts)
        found[name] = at.ids(vectors)
        if name == "head":
            found["norm"] = vectors.norm(dim=-1)
    attention = at.attention()
    found["attention"], keys = favorites(attention)
    own = at.prompts.tokens.gather(1, keys.flatten(1)).view_as(keys)
    asked = torch.stack([own.roll(moved, dims=0) for moved in range(len(WHOSE))], dim=-1)
    found["value"], _, r = words(at.model, at_keys(at.heads("value"), keys), k, asked)
    found |= {f"rank of {whose} token": r[..., i].float() for i, whose in enumerate(WHOSE)}
    return found | {"attention to the first token": attention[..., 0]}


def _read_more(at: Layer, draw: torch.Generator) -> dict[str, Tensor]:
    """Queries and keys, the strongest MLP value, and random vectors in place of all of these."""
    found, keys = {}, favorites(at.attention())[1]
    for name in ("query", "query without W_K"):
        found[name] = at.ids(at_last(at.heads(name), at.prompts))
    for name in ("key", "key without W_Q"):
        found[name] = at.ids(at_keys(at.heads(name), keys[..., :1])[:, :, 0])
    heads = at_last(at.heads("head"), at.prompts)
    rest = at.last("attn_out") - heads.sum(dim=1)  # b_O
    alike = heads * (heads.norm(dim=-1).mean(dim=1)[:, None] / heads.norm(dim=-1))[..., None]
    for said, real in {"by lot": heads, "by lot, of equal norm": alike}.items():
        z = torch.randn(*heads.shape[:2], at.model.config.d_head, generator=draw)
        made = lengths_of(real, written_by(at.model, at.layer, z))
        found[f"heads {said}"] = at.ids(made)
        found[f"sum of heads {said}"] = at.ids(made.sum(dim=1) + rest)
    found |= _random_values(at, keys, draw)
    for said in LOTS:
        found |= _random_query(at, draw, said)
    if at.model.config.d_mlp:
        written = at_last(strongest_value(at.model, at.cache, at.layer), at.prompts)
        values = at.model.mlp_values(at.layer)
        made = values[torch.randint(len(values), (len(written),), generator=draw)]
        for said, value in {"": written, " by lot": lengths_of(written, made)}.items():
            found[f"MLP value{said}"] = at.ids(value)
            found[f"MLP output{said}"] = at.ids(at.last("mlp_out") - written + value)
    return found


def lengths_of(
    vectors: Float[Tensor, "*places d"], made: Float[Tensor, "*places d"]
) -> Float[Tensor, "*places d"]:
    """Random vectors with the norms of the real ones."""
    return made * (vectors.norm(dim=-1) / made.norm(dim=-1).clamp_min(1e-9))[..., None]


def _random_values(at: Layer, keys: Tensor, draw: torch.Generator) -> dict[str, Tensor]:
    """Each value replaced by a random one through the same W_O, and the heads that they make up.

    Norms and attention stay.
    """
    values = at.heads("value")
    z = torch.randn(*values.shape[:-1], at.model.config.d_head, generator=draw)
    made = lengths_of(values, written_by(at.model, at.layer, z))
    head = torch.einsum("phk,pkhd->phd", at.attention(), made)
    return {"values by lot": at.ids(at_keys(made, keys)), "head of values by lot": at.ids(head)}


def _random_query(at: Layer, draw: torch.Generator, said: str) -> dict[str, Tensor]:
    """A random query of each head, as long as its own, and the key that it scores highest.

    Both among zeros, the first token left out, as for the model's own queries.
    """
    own, keys = at.last("q"), at.cache[f"L{at.layer}.k"]
    query = lengths_of(own, torch.randn(own.shape, generator=draw))
    scores = torch.einsum("phd,pkhd->phk", query, keys)
    places = torch.arange(keys.shape[1])
    there = (places > 0) & (places <= at.prompts.last[:, None])
    best = scores.masked_fill(~there[:, None], -torch.inf).argmax(dim=-1)
    key = at_keys(keys, best[..., None])[:, :, 0]
    room, found = at.model.config.d_model - own.shape[1] * own.shape[2], {}
    for name, each in {f"query{said}": query, f"key of query{said}": key}.items():
        padded = torch.stack([torch.block_diag(*row) for row in each])
        found[name] = at.ids(torch.nn.functional.pad(padded, (0, room)))
    return found


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
