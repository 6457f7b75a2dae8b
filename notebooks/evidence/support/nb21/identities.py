"""What of notebook 21's graphs must hold: sums, the hand-set circuit, orders and signs."""

from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.models.protocol import Model
from chapters.nb21_information_flow.flow import Node, Run, run_of, sum_of, vector_of
from chapters.nb21_information_flow.flow_graph import Graph
from chapters.nb21_information_flow.measure import Prompt


def largest_gap(graph: Graph) -> float:
    """The largest difference of a node and the sum of all edges into it, beside its length.

    All edges of the run, not only those that the graph keeps; keys and queries also for the score.
    """
    gaps = []
    for node in graph.nodes:
        if (found := sum_of(graph.run, node)) is None:
            continue
        vector = vector_of(graph.run, node)
        gaps.append((found.parts.sum(dim=0) - vector).norm() / vector.norm().clamp(min=1e-9))
        if node.kind in ("key", "query"):
            at = (node.other, node.pos) if node.kind == "key" else (node.pos, node.other)
            score = graph.run.cache[f"L{node.layer}.scores"][(0, node.number, *at)]
            if node.kind == "query" and graph.run.model.config.positions == "relative":
                bias = graph.run.model.blocks[node.layer].attn.relative_bias(len(graph.run.tokens))
                score = score - bias[(node.number, *at)]
            gaps.append((found.scores.sum() - score).abs() / score.abs().clamp(min=1.0))
    return max(gap.item() for gap in gaps)


def induction_text(d_vocab: int, length: int, seed: int) -> tuple[Int[Tensor, " pos"], int, int]:
    """BOS, different tokens, and one of them again: (tokens, what followed it, where it stood)."""
    draw = torch.Generator().manual_seed(seed)
    row = 1 + torch.randperm(d_vocab - 1, generator=draw)[: length - 1]
    at = int(torch.randint(1, length - 2, (1,), generator=draw))
    tokens = torch.cat([torch.tensor([0]), row, row[at - 1 : at]])
    return tokens, int(tokens[at + 1]), at


def circuit_errors(graph: Graph, at: int) -> int:
    """Edges too many or missing, beside the circuit of `handmade.induction_model`.

    at: where the text's last token stood before. Of the sums: the last stream is L1H0, that the
    token after `at`; of why: its key there is L0H0, that the token at `at`, chosen by its distance;
    its query is the last token itself.
    """
    last, after = len(graph.run.tokens) - 1, at + 1
    head, before = Node("head", 1, 0, last), Node("head", 0, 0, after)
    value, early = Node("value", 1, 0, after), Node("value", 0, 0, at)
    key, query = Node("key", 1, 0, after, last), Node("query", 1, 0, last, after)
    near = Node("key", 0, 0, at, after)
    known = {(head, graph.run.root), (value, head), (Node("token", 0, 0, after), value)}
    known |= {(key, head), (before, key), (early, before), (Node("token", 0, 0, at), early)}
    known |= {(near, before), (Node("position", 0, 0, at, after), near)}
    known |= {(query, head), (Node("token", 0, 0, last), query)}
    drawn = {(graph.nodes[e.source], graph.nodes[e.into]) for e in graph.edges}
    return len(known ^ drawn)


def swapped(run: Run) -> int:
    """Neighbors in the order of the scores whose attention is the other way round."""
    n = 0
    for layer in range(run.model.config.n_layers):
        scores, a = (run.cache[f"L{layer}.{x}"][0, :, -1] for x in ("scores", "pattern"))
        in_order = a.gather(1, scores.argsort(dim=1))
        n += int((in_order.diff(dim=1) < 0).sum())
    return n


def _mlps(model, blocks, prompts):
    """Of each MLP at the last position of each prompt: (it, what it reads, its coefficients)."""
    for prompt in prompts:
        run = run_of(model, prompt.tokens)
        for layer, block in enumerate(blocks):
            before = run.stream(layer)[-1] + run.cache[f"L{layer}.attn_out"][0, -1]
            hidden = run.cache[f"L{layer}.mlp_hidden"][0, -1]
            yield block.mlp, model.mlp_norm(layer)(before), hidden


@torch.no_grad()
def gate_signs(model: Model, prompts: Sequence[Prompt]) -> tuple[float, float]:
    """(share of a gated MLP's neurons whose coefficient has its gate's sign, the same of the gate
    beside), at the last positions of the prompts.
    """
    own, beside = [], []
    for mlp, read, hidden in _mlps(model, model.hf.model.layers, prompts):
        gate = mlp.gate_proj(read)
        own.append((gate.sign() == hidden.sign()).float().mean().item())
        beside.append((gate.roll(1).sign() == hidden.sign()).float().mean().item())
    return sum(own) / len(own), sum(beside) / len(beside)


@torch.no_grad()
def gelu_signs(model: Model, prompts: Sequence[Prompt]) -> int:
    """Neurons of a GPT-2 at the last positions whose sign its activation changes."""
    blocks = model.hf.transformer.h
    return sum(
        int((mlp.c_fc(read).sign() * hidden.sign() < 0).sum())
        for mlp, read, hidden in _mlps(model, blocks, prompts)
    )
