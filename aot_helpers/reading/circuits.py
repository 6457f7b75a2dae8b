"""Weights to circuits and scores: what a head can look for and what it can write.

The names are those of the framework paper, "One-Layer Attention-Only Transformers".
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aot_helpers.base.errors import check_whole
from aot_helpers.models.protocol import Head, HeadWeights, Model, check_head
from aot_helpers.reading.factored import FactoredMatrix, solvable
from aot_helpers.reading.norms import check_norm


def folded_weights(model: Model, head: Head) -> HeadWeights:
    """The weights of one head with its norm, detached. Raises ValueError if there is no such head.

    A norm's centering and gain are folded into W_Q, W_K and W_V; its σ, which depends on the text,
    and its bias are left out, and so are the biases of heads (GPT-2, BERT) and rotary positions
    (Llama): there W_Q W_Kᵀ scores a key at the query's own position.
    """
    W, norm = model.head_weights(head), model.attention_norm(head.layer)
    return HeadWeights(*(folded(norm, each) for each in W[:3]), W.W_O)


def folded(norm: nn.Module, W: Float[Tensor, "d_model n"]) -> Float[Tensor, "d_model n"]:
    """W after a norm's centering and gain, C diag(g) W; W itself where there is no norm.

    RMSNorm has a gain only. Raises ValueError for a module that is no such norm.
    """
    check_norm(norm)
    if isinstance(norm, nn.Identity):
        return W
    W = norm.weight.detach()[:, None] * W
    return W - W.mean(dim=0) if isinstance(norm, nn.LayerNorm) else W


def check_unembedding(model: Model) -> None:
    """Raise ValueError for a model without logits."""
    if model.W_U is None:
        raise ValueError("this model has no W_U, so no logits: load one with a language head")


def folded_W_U(model: Model) -> Float[Tensor, "d_model d_vocab"]:
    """W_U, detached, with the centering and gain of the final norm if there is one.

    Raises ValueError for a model without an unembedding or with a head that is no norm (BERT).
    """
    check_unembedding(model)
    return folded(model.final_norm(), model.W_U.detach())


def qk_circuit(model: Model, head: Head) -> FactoredMatrix:
    """W_Q W_Kᵀ / √d_head, [d_model of the query, d_model of the key]: scores, before b_rel.

    Models that divide by something else say so (`score_divisor`).
    """
    W = folded_weights(model, head)
    return FactoredMatrix(W.W_Q / model.score_divisor(head[0]), W.W_K.T)


def ov_circuit(model: Model, head: Head) -> FactoredMatrix:
    """W_V W_O, [d_model read, d_model written]: what attending moves (the paper's W_O W_V)."""
    W = folded_weights(model, head)
    return FactoredMatrix(W.W_V, W.W_O)


def full_qk(model: Model, head: Head) -> FactoredMatrix:
    """W_E QK W_Eᵀ, [query token, key token]: the score between two bare embeddings."""
    W_E = model.W_E.detach()
    return _between(W_E, qk_circuit(model, head), W_E.T)


def full_ov(model: Model, head: Head) -> FactoredMatrix:
    """W_E OV W_U, [source token, output token]: logits that full attention to a token adds."""
    return _between(model.W_E.detach(), ov_circuit(model, head), folded_W_U(model))


def direct_path(model: Model) -> FactoredMatrix:
    """W_E W_U, [token, next token]: the logits without any head (framework paper, zero layers)."""
    return FactoredMatrix(model.W_E.detach(), folded_W_U(model))


def _between(before: Tensor, circuit: FactoredMatrix, after: Tensor) -> FactoredMatrix:
    return FactoredMatrix(before @ circuit.A, circuit.B @ after)


def copying_score(circuit: FactoredMatrix) -> float:
    """Σ Re λ / Σ |λ| of a square circuit, from -1 to 1; 0 if all eigenvalues are 0.

    1 means that every eigenvector raises itself: the sign of copying for a full OV circuit, of
    attending to the same token for a full QK one (framework paper, "Summarizing OV/QK Matrices").
    """
    values = circuit.eigenvalues()
    size = values.abs().sum().item()
    return values.real.sum().item() / size if size else 0.0


def top1_diagonal(circuit: FactoredMatrix) -> float:
    """The share of rows whose largest entry is on the diagonal of a square circuit."""
    circuit._check_square("top1_diagonal()")
    _, columns = circuit.row_maxima()
    return (columns == torch.arange(len(columns), device=columns.device)).float().mean().item()


def random_heads(n: int, d_model: int, d_head: int, draw: torch.Generator) -> list[FactoredMatrix]:
    """OV circuits of n heads whose W_V and W_O are independent and Gaussian."""
    sizes = (d_model, d_head), (d_head, d_model)
    return [FactoredMatrix(*(torch.randn(s, generator=draw) for s in sizes)) for _ in range(n)]


def random_copying_scores(d_model: int, d_head: int, n: int, seed: int) -> Float[Tensor, " n"]:
    """Copying scores of n `random_heads`: the null."""
    draw = torch.Generator().manual_seed(seed)
    return torch.tensor(list(map(copying_score, random_heads(n, d_model, d_head, draw))))


def composition_scores(
    model: Model, reader_layer: int = 1, writer_layer: int = 0
) -> dict[str, Float[Tensor, "writer reader"]]:
    """How much each head of one layer reads what each head of an earlier layer writes.

    ‖A B‖ / (‖A‖ ‖B‖) in the Frobenius norm, with A the writer's OV and B the reader's QK ("Q"), its
    transpose ("K") or its OV ("V"); 0 where a head is 0. The null, one side turned at random, has
    the root mean square 1 / √d_model. Framework paper, "Three Kinds of Composition". Raises
    ValueError unless the writer is earlier.
    """
    check_whole("n_layers of this model", model.config.n_layers, 2)
    check_whole("reader_layer", reader_layer, 1, model.config.n_layers - 1)
    check_whole("writer_layer", writer_layer, 0, reader_layer - 1)
    writes, reads = unit_writes(model, writer_layer), unit_reads(model, reader_layer)
    return {route: compose(writes, factors) for route, factors in reads.items()}


def unit_writes(model: Model, layer: int) -> Float[Tensor, "head rank d_model"]:
    """What each head of a layer writes: its OV up to a rotation of what it read, of norm 1."""
    return unit_factors([ov_circuit(model, Head(layer, h)) for h in range(model.config.n_heads)])


def unit_reads(model: Model, layer: int) -> dict[str, Float[Tensor, "head rank d_model"]]:
    """What the queries, keys and values of each head of a layer read, in the same form."""
    heads = [Head(layer, head) for head in range(model.config.n_heads)]
    qk, ov = ([make(model, head) for head in heads] for make in (qk_circuit, ov_circuit))
    routes = {"Q": [c.T for c in qk], "K": qk, "V": [c.T for c in ov]}
    return {route: unit_factors(circuits) for route, circuits in routes.items()}


def unit_factors(circuits: list[FactoredMatrix]) -> Float[Tensor, "head rank d_model"]:
    """R B / ‖A B‖ for A = Q R: products on the right have the norms that A B has there."""
    A, B = (torch.stack([getattr(each, side) for each in circuits]) for side in "AB")
    factors = torch.linalg.qr(solvable("the circuits", A)).R @ solvable("the circuits", B)
    size = factors.norm(dim=(1, 2), keepdim=True)
    return factors / size.clamp(min=torch.finfo(size.dtype).tiny)  # a head of zeros stays zero


def compose(
    writes: Float[Tensor, "writer rank d_model"], reads: Float[Tensor, "reader rank d_model"]
) -> Float[Tensor, "writer reader"]:
    """‖A B‖ of every writer with every reader, as `unit_writes` and `unit_reads` give them."""
    (n, rank, _), (m, other, _) = writes.shape, reads.shape
    products = (writes.flatten(0, 1) @ reads.flatten(0, 1).T).view(n, rank, m, other)
    return products.square_().sum(dim=3).sum(dim=1).sqrt()


def check_earlier(writer: Head, reader: Head) -> None:
    """Raise ValueError unless the writer is in an earlier layer than the reader."""
    if writer.layer >= reader.layer:
        raise ValueError(
            f"{writer} writes nothing that {reader} reads: the writer's layer must come before"
        )


def k_composition_circuit(model: Model, writer: Head, reader: Head) -> FactoredMatrix:
    """W_E QK (W_E OV)ᵀ, [query token, token that the writer moved to the key's position].

    The part of the reader's score that comes through the writer. A previous-token head and an
    induction head have a large diagonal (framework paper, "Induction Heads"). Raises ValueError
    unless the writer is in an earlier layer.
    """
    writer, reader = (check_head(model.config, head) for head in (writer, reader))
    check_earlier(writer, reader)
    W_E = model.W_E.detach()
    return _between(W_E, qk_circuit(model, reader) @ ov_circuit(model, writer).T, W_E.T)
