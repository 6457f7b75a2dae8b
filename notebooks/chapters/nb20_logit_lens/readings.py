"""Every vector of an attention block read as words, and how many words two of them share.

VISIT, section 3 and appendix D, with what it lacks beside each number: pairs of different prompts,
and sums of vectors that have the same norms and nothing else in common.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.logit_lens import read, top_tokens, words
from chapters.nb20_logit_lens.templates import Prompts, at_last

K = 50  # VISIT's k
RANKS = 3  # so many keys as in VISIT, those with the highest attention but for the first token
LAYER = ("residual", "attention output", "block output")
HEAD = ("head", "head without W_O")
WHOSE = ("own", "another's", "a third's")  # whose token is looked for in a value
QUERY = ("query", "query without W_K")
OF_KEY = ("key", "key without W_Q")
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


def read_prompts(
    model: Model,
    prompts: Prompts,
    k: int = K,
    layers: list[int] | None = None,
    full: bool = True,
    seed: int = 0,
) -> Readings:
    """Read every vector of some layers (None: all), and made-up ones beside them.

    full: also queries, keys, MLP values and made-up vectors. Raises ValueError for a k that the
    vocabulary does not have and prompts that are too long.
    """
    draw, pieces = torch.Generator().manual_seed(seed), []
    layers = list(range(model.config.n_layers)) if layers is None else layers
    with torch.no_grad():
        for _, piece in prompts.pieces(model):
            logits, cache = model.run_with_cache(piece.tokens)
            last, rows = at_last(logits, piece), []
            final, said = top_tokens(last, k), last.argmax(dim=-1)
            for layer in layers:
                found = _layer(model, cache, piece, layer, said, k) | {"final": final}
                if full:
                    found |= _more(model, cache, piece, layer, k, draw)
                rows.append(found)
            pieces.append({n: torch.stack([f[n] for f in rows], dim=1) for n in rows[0]})
    joined = {name: torch.cat([piece[name] for piece in pieces]) for name in pieces[0]}
    ids = {name: each for name, each in joined.items() if not each.is_floating_point()}
    numbers = {name: each for name, each in joined.items() if name not in ids}
    return Readings(ids, numbers, layers)


def _each_head(model: Model, cache: dict, reading: str, layer: int) -> Tensor:
    """[prompt, pos, head, d_model]"""
    heads = [Head(layer, head) for head in range(model.config.n_heads)]
    return torch.stack([read(model, cache, reading, head) for head in heads], dim=2)


def favorites(shares: Float[Tensor, "*places key"]) -> tuple[Tensor, Tensor]:
    """(attention, position) of the RANKS keys with the highest attention: [*places, rank].

    Without the first token: heads rest on it, and in facts it is the same in many prompts.
    """
    found = shares[..., 1:].topk(RANKS, dim=-1)
    return found.values, found.indices + 1


def _at_keys(vectors: Tensor, keys: Tensor) -> Tensor:
    """Vectors [prompt, pos, head, d_model] at keys [prompt, head, rank]."""
    by_head = vectors.transpose(1, 2)
    at = keys[..., None].expand(*keys.shape, vectors.shape[-1])
    return by_head.gather(2, at)


def _layer(
    model: Model, cache: dict, prompts: Prompts, layer: int, said: Tensor, k: int
) -> dict[str, Tensor]:
    """Readings of one layer: its stream, its heads, the values they favor."""
    found, at = {}, Head(layer, 0)
    for name in LAYER:
        vector = at_last(read(model, cache, name, at), prompts)
        found[name], p, r = words(model, vector, k, said[:, None])
        if name == "block output":
            found |= {"p of the prediction": p[:, 0], "rank of the prediction": r[:, 0].float()}
    before = at_last(read(model, cache, "attention output", Head(max(layer - 1, 0), 0)), prompts)
    found["one before"] = words(model, before, k).ids
    for name in HEAD:
        vectors = at_last(_each_head(model, cache, name, layer), prompts)
        found[name] = words(model, vectors, k).ids
        if name == "head":
            found["norm"] = vectors.norm(dim=-1)
    pattern = at_last(cache[f"L{layer}.pattern"].transpose(1, 2), prompts)  # [prompt, head, key]
    shares, keys = favorites(pattern)
    own = prompts.tokens.gather(1, keys.flatten(1)).view_as(keys)
    values = _at_keys(_each_head(model, cache, "value", layer), keys)
    asked = torch.stack([own.roll(moved, dims=0) for moved in range(len(WHOSE))], dim=-1)
    found["value"], _, r = words(model, values, k, asked)
    found |= {f"rank of {whose} token": r[..., i].float() for i, whose in enumerate(WHOSE)}
    return found | {"attention": shares, "attention to the first token": pattern[..., 0]}


def _more(
    model: Model, cache: dict, prompts: Prompts, layer: int, k: int, draw: torch.Generator
) -> dict[str, Tensor]:
    """Queries and keys, the strongest MLP value, and all of these by lot."""
    found = {}
    keys = favorites(at_last(cache[f"L{layer}.pattern"].transpose(1, 2), prompts))[1]
    for name in QUERY:
        vectors = at_last(_each_head(model, cache, name, layer), prompts)
        found[name] = words(model, vectors, k).ids
    for name in OF_KEY:
        vectors = _at_keys(_each_head(model, cache, name, layer), keys[..., :1])[:, :, 0]
        found[name] = words(model, vectors, k).ids
    heads = at_last(_each_head(model, cache, "head", layer), prompts)
    rest = at_last(cache[f"L{layer}.attn_out"], prompts) - heads.sum(dim=1)  # b_O
    alike = heads * (heads.norm(dim=-1).mean(dim=1)[:, None] / heads.norm(dim=-1))[..., None]
    shape = *heads.shape[:2], model.config.d_head
    for said, real in {"by lot": heads, "by lot, of equal norm": alike}.items():
        made = written_by(model, layer, torch.randn(shape, generator=draw))
        made = lengths_of(real, made)
        found[f"heads {said}"] = words(model, made, k).ids
        found[f"sum of heads {said}"] = words(model, made.sum(dim=1) + rest, k).ids
    found |= _values_by_lot(model, cache, prompts, layer, k, draw)
    for said in LOTS:
        found |= _query_by_lot(model, cache, prompts, layer, k, draw, said)
    if model.config.d_mlp:
        written = at_last(strongest_value(model, cache, layer), prompts)
        whole = at_last(cache[f"L{layer}.mlp_out"], prompts)
        values = model.mlp_values(layer)
        made = values[torch.randint(len(values), (len(written),), generator=draw)]
        made = lengths_of(written, made)
        for said, value in {"": written, " by lot": made}.items():
            found[f"MLP value{said}"] = words(model, value, k).ids
            found[f"MLP output{said}"] = words(model, whole - written + value, k).ids
    return found


def written_by(
    model: Model, layer: int, z: Float[Tensor, "*places head d_head"]
) -> Float[Tensor, "*places head d_model"]:
    """What heads with these z add to the stream."""
    return torch.einsum("...hd,hdm->...hm", z, model.layer_weights(layer).W_O)


def lengths_of(vectors: Float[Tensor, "*places d"], made: Float[Tensor, "*places d"]) -> Tensor:
    """The made-up vectors with the norms of the real ones."""
    return made * (vectors.norm(dim=-1) / made.norm(dim=-1).clamp_min(1e-9))[..., None]


def _values_by_lot(model, cache, prompts, layer, k, draw) -> dict[str, Tensor]:
    """Each value replaced by a random one through the same W_O, and the heads that they make up.

    Norms and attention stay.
    """
    values = _each_head(model, cache, "value", layer)  # [prompt, pos, head, d_model]
    shares = at_last(cache[f"L{layer}.pattern"].transpose(1, 2), prompts)
    z = torch.randn(*values.shape[:-1], model.config.d_head, generator=draw)
    made = lengths_of(values, written_by(model, layer, z))
    head = torch.einsum("phk,pkhd->phd", shares, made)
    keys = favorites(shares)[1]
    return {
        "values by lot": words(model, _at_keys(made, keys), k).ids,
        "head of values by lot": words(model, head, k).ids,
    }


def _query_by_lot(model, cache, prompts, layer, k, draw, said) -> dict[str, Tensor]:
    """A random query of each head, as long as its own, and the key that it scores highest.

    Both among zeros, the first token left out, as for the model's own queries.
    """
    own, keys = at_last(cache[f"L{layer}.q"], prompts), cache[f"L{layer}.k"]
    query = lengths_of(own, torch.randn(own.shape, generator=draw))
    scores = torch.einsum("phd,pkhd->phk", query, keys)
    at = torch.arange(keys.shape[1])
    there = (at > 0) & (at <= prompts.last[:, None])
    best = scores.masked_fill(~there[:, None], -torch.inf).argmax(dim=-1)
    key = _at_keys(keys, best[..., None])[:, :, 0]
    room, found = model.config.d_model - own.shape[1] * own.shape[2], {}
    for name, each in {f"query{said}": query, f"key of query{said}": key}.items():
        padded = torch.stack([torch.block_diag(*row) for row in each])
        found[name] = words(model, torch.nn.functional.pad(padded, (0, room)), k).ids
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
