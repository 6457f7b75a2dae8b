"""The information flow of one prompt: what each vector of a run is the sum of.

The last stream is the embedding plus what every head and MLP wrote; a head is its values, each
times its attention; a value is what its token's stream holds there, read through W_V and W_O; an
MLP is its neurons. Norms count with the σ of the run. Why a head looks where it looks is no sum but
a score: a key and a query, whose parts add up to that score. VISIT, appendix A; `flow_graph` puts
the sums together.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_token_ids
from aot_helpers.models.protocol import Head, Model, all_heads, check_tokens
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.logit_lens import target_token
from aot_helpers.reading.norms import check_pre_norm, frozen_norm, norm_bias

STEPS = {"value": 0, "key": 0, "query": 0, "head": 1, "neuron": 2, "mlp": 3, "stream": 4}


class Node(NamedTuple):
    """A vector of the run: its kind, layer and place in the text.

    kind: of STEPS, or a leaf: token, position, residual, bias. number: the head or neuron. other:
    of a key the query's place, of a query the key's.
    """

    kind: str
    layer: int
    number: int
    pos: int
    other: int = -1

    @property
    def stage(self) -> tuple[int, int]:
        """When in the run it is there; what it is the sum of is there earlier."""
        return (self.layer, STEPS[self.kind]) if self.kind in STEPS else (-1, 0)


@dataclass(frozen=True)
class Run:
    """One text's activations, what each head wrote (z W_O), and which layers to unfold."""

    model: Model
    tokens: Int[Tensor, " pos"]
    cache: dict[str, Tensor]
    heads: Float[Tensor, "layer head pos d_model"]
    layers: range

    @property
    def root(self) -> Node:
        """The stream that the last of the layers leaves at the last position."""
        return Node("stream", self.layers.stop, 0, len(self.tokens) - 1)

    def stream(self, layer: int) -> Float[Tensor, "pos d_model"]:
        """What a layer reads; n_layers is the final stream."""
        last = layer == self.model.config.n_layers
        return self.cache["final_resid" if last else f"L{layer}.resid_pre"][0]


class Sum(NamedTuple):
    """What a node is the sum of: a part from each of the sources.

    coefficients: the attention of a head's values, the activation of neurons, else 1. scores: of a
    key or query, what each part is worth for the attention score; else zeros.
    """

    sources: list[Node]
    parts: Float[Tensor, "part d_model"]
    coefficients: Float[Tensor, " part"]
    scores: Float[Tensor, " part"]


def target_id(model: Model, target: str | int) -> int:
    """A token's id. Raises ValueError for unknown ids and for texts of several tokens."""
    if isinstance(target, str):
        return target_token(model, target)
    check_token_ids(torch.tensor([target]), model.config.d_vocab)
    return int(target)


def head_outputs(model: Model, cache: dict[str, Tensor]) -> Float[Tensor, "layer head pos d_model"]:
    """What each head wrote in the run that filled the cache."""
    outs = [head_output(model, cache, head)[0] for head in all_heads(model)]
    return torch.stack(outs).unflatten(0, (model.config.n_layers, model.config.n_heads))


def run_of(model: Model, tokens: Int[Tensor, " pos"], layers: range | None = None) -> Run:
    """Run the model on one text, to unfold what stands at its last position.

    layers: a run of layers, such as range(2, 4): from the stream that layer 2 reads to the one that
    layer 3 leaves; None takes all. Raises ValueError for an empty run, layers that are not there, a
    text too long, a model without W_U, with norms after each layer, or whose keys hold more than
    the stream of their token.
    """
    check_pre_norm(model)
    if model.W_U is None:
        raise ValueError("this model has no W_U: without logits there is no target to trace")
    if model.config.smeared_keys or model.config.positions == "shortformer":
        raise ValueError(
            "keys of smeared_keys = True or positions = 'shortformer' are no sum of what stands in "
            "the stream of their token: take positions = 'relative', and no smeared keys"
        )
    n_layers = model.config.n_layers
    layers = range(n_layers) if layers is None else layers
    if not layers or layers.step != 1 or layers.start < 0 or layers.stop > n_layers:
        raise ValueError(
            f"{layers} is no run of layers: give range(first, last + 1) of layers 0 … "
            f"{n_layers - 1}, one at least"
        )
    check_tokens(tokens[None])
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens[None])
        return Run(model, tokens, cache, head_outputs(model, cache), layers)


def vector_of(run: Run, node: Node) -> Float[Tensor, " d_model"]:
    """A node's vector, not summed up but as the run has it; a bias has none but its part.

    Keys are read as k W_Qᵀ and queries as q W_Kᵀ, before any rotation.
    """
    kind, layer, number, pos, _ = node
    cache = run.cache
    with torch.no_grad():
        if kind in ("stream", "residual"):
            return run.stream(layer)[pos]
        if kind == "token":
            return cache["embed"][0, pos]
        if kind == "position" and "pos_embed" in cache:
            return cache["pos_embed"].reshape(-1, run.model.config.d_model)[pos]
        if kind == "position":  # of a relative position: a score, and no part of any vector
            return torch.zeros_like(cache["embed"][0, pos])
        if kind == "head":
            return run.heads[layer, number, pos]
        if kind == "mlp":
            return cache[f"L{layer}.mlp_out"][0, pos]
        if kind == "neuron":
            active = cache[f"L{layer}.mlp_hidden"][0, pos, number]
            return active * run.model.mlp_values(layer)[number]
        return _small(run, node) @ _matrices(run, node)[1]


def sum_of(run: Run, node: Node) -> Sum | None:
    """What a node is the sum of, or None for a leaf (a neuron is one). Parts add up to the node."""
    kind, layer, number, pos, _ = node
    if kind not in STEPS or kind == "neuron":
        return None
    with torch.no_grad():
        if kind == "stream":
            nodes, parts = _components(run, layer, pos)
            return _with_bias(run, node, nodes, parts)
        if kind == "head":
            a = run.cache[f"L{layer}.pattern"][0, number, pos]
            keys = a.nonzero().flatten().tolist()
            v = run.cache[f"L{layer}.v"][0, keys, number] @ _weights(run, node).W_O
            nodes = [Node("value", layer, number, k) for k in keys]
            return Sum(nodes, a[keys, None] * v, a[keys], torch.zeros(len(keys)))
        if kind == "mlp":
            hidden = run.cache[f"L{layer}.mlp_hidden"][0, pos]
            parts = hidden[:, None] * run.model.mlp_values(layer)
            nodes = [Node("neuron", layer, i, pos) for i in range(len(hidden))]
            return _with_bias(run, node, nodes, parts, hidden)
        return _read_from_stream(run, node)


def toward(
    run: Run, node: Node, directions: Float[Tensor, "d_model n"]
) -> Float[Tensor, "d_model n"]:
    """Directions at a stream, head, MLP or value as directions at its sources.

    What a source's vector is worth along the result, times its coefficient, is what its part is
    worth along the directions.
    """
    if node.kind != "value":
        return directions
    with torch.no_grad():
        into, out = _matrices(run, node)
        return _normed(run, node)(torch.eye(len(directions))) @ (into @ (out @ directions))


def toward_score(run: Run, node: Node) -> Float[Tensor, " d_model"]:
    """The direction, at the sources of a key or query, of the attention score of the two."""
    with torch.no_grad():
        into, _ = _matrices(run, node)
        return _scores(run, node, _normed(run, node)(torch.eye(len(into))) @ into)


def _weights(run: Run, node: Node):
    return run.model.head_weights(Head(node.layer, node.number))


def _matrices(run: Run, node: Node) -> tuple[Tensor, Tensor]:
    """Out of the stream and back into it: of a value, key or query."""
    W = _weights(run, node)
    return {"value": (W.W_V, W.W_O), "key": (W.W_K, W.W_Q.T), "query": (W.W_Q, W.W_K.T)}[node.kind]


def _normed(run: Run, node: Node):
    norm = run.model.attention_norm(node.layer)
    linear = frozen_norm(norm, run.stream(node.layer)[node.pos][None, None])
    return lambda parts: linear(parts[None])[0]


def _components(run: Run, layer: int, pos: int) -> tuple[list[Node], Tensor]:
    """Who wrote into the stream that a layer reads, and what [node, d_model]; not the biases."""
    cache, first, config = run.cache, run.layers.start, run.model.config
    if first:
        nodes, parts = [Node("residual", first, 0, pos)], [run.stream(first)[pos][None]]
    else:
        nodes, parts = [Node("token", 0, 0, pos)], [cache["embed"][0, pos][None]]
        if "pos_embed" in cache:
            nodes.append(Node("position", 0, 0, pos))
            parts.append(cache["pos_embed"].reshape(-1, config.d_model)[pos][None])
    for i in range(first, layer):
        nodes += [Node("head", i, h, pos) for h in range(config.n_heads)]
        parts.append(run.heads[i, :, pos])
        if config.d_mlp:
            nodes.append(Node("mlp", i, 0, pos))
            parts.append(cache[f"L{i}.mlp_out"][0, pos][None])
    return nodes, torch.cat(parts)


def _with_bias(run, node, nodes, parts, coefficients=None, small=None) -> Sum:
    """The sum with the biases' part, if the model has any; all of it from the weights.

    small: of a value, key or query, what the parts are in d_head.
    """
    if coefficients is None:
        coefficients = torch.ones(len(nodes))
    bias, small_bias = _bias(run, node)
    if bias.any():
        own = list(STEPS).index(node.kind)  # each sum has a bias of its own
        nodes = [*nodes, Node("bias", node.layer, node.number, node.pos, own)]
        parts = torch.cat([parts, bias[None]])
        coefficients = torch.cat([coefficients, torch.ones(1)])
        small = None if small is None else torch.cat([small, small_bias[None]])
    why = node.kind in ("key", "query")
    scores = _scores(run, node, small) if why else torch.zeros(len(nodes))
    return Sum(nodes, parts, coefficients, scores)


def _bias(run: Run, node: Node) -> tuple[Float[Tensor, " d_model"], Float[Tensor, " d_head"]]:
    """The biases in a stream, MLP, value, key or query; of the last three also in d_head.

    What the stream has of the attention's biases is read by a value, key or query as well.
    """
    model, layer, d_model = run.model, node.layer, run.model.config.d_model
    none = torch.zeros(model.config.d_head)
    if node.kind == "mlp":
        return model.biases(layer).b_out, none
    below = [model.biases(i).b_O for i in range(run.layers.start, layer)]
    stream = torch.stack([torch.zeros(d_model), *below]).sum(dim=0)
    if node.kind == "stream":
        return stream, none
    into, out = _matrices(run, node)
    read = _normed(run, node)(stream[None])[0] + norm_bias(model.attention_norm(layer), d_model)
    small = read @ into + _head_bias(run, node)
    return small @ out, small


def _head_bias(run: Run, node: Node) -> Float[Tensor, " d_head"]:
    biases = run.model.biases(node.layer)
    return {"value": biases.b_V, "key": biases.b_K, "query": biases.b_Q}[node.kind][node.number]


def _small(run: Run, node: Node) -> Float[Tensor, " d_head"]:
    """A value, key or query as the head has it; with rotary positions before they turn it."""
    if node.kind != "value" and run.model.config.positions == "rotary":
        read = run.cache[f"L{node.layer}.ln1_out"][0, node.pos]
        return read @ _matrices(run, node)[0] + _head_bias(run, node)
    return run.cache[f"L{node.layer}.{node.kind[0]}"][0, node.pos, node.number]


def _read_from_stream(run: Run, node: Node) -> Sum:
    """Of a value, key or query: what each component of the stream is to it."""
    config = run.model.config
    nodes, parts = _components(run, node.layer, node.pos)
    parts = _normed(run, node)(parts)
    into, out = _matrices(run, node)
    small = parts @ into
    parts = small @ out
    found = _with_bias(run, node, nodes, parts, small=small)
    if node.kind != "key" or config.positions != "relative":
        return found
    # The score that the distance has by itself: a part of no vector.
    bias = run.model.blocks[node.layer].attn.relative_bias(len(run.tokens))
    bias, none = bias[node.number, node.other, node.pos][None], torch.zeros_like(parts[:1])
    return Sum(
        [*found.sources, Node("position", node.layer, node.number, node.pos, node.other)],
        torch.cat([found.parts, none]),
        torch.cat([found.coefficients, torch.ones(1)]),
        torch.cat([found.scores, bias]),
    )


def _scores(run: Run, node: Node, small: Float[Tensor, "part d_head"]) -> Float[Tensor, " part"]:
    """What parts of a key (query) are worth for the score with its query (key)."""
    theirs = "q" if node.kind == "key" else "k"
    other = run.cache[f"L{node.layer}.{theirs}"][0, node.other, node.number]
    if run.model.config.positions == "rotary":  # the other is turned already
        at = torch.tensor([[node.pos]])
        cos, sin = (each[0, 0] for each in run.model.hf.model.rotary_emb(small, at))
        one, two = small.chunk(2, dim=-1)
        small = small * cos + torch.cat([-two, one], dim=-1) * sin
    return small @ other / run.model.config.d_head**0.5
