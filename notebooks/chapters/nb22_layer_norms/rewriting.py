"""Notebook 22: a GPT-2 written down otherwise: what reads its norms, what writes to its stream."""

import copy
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aot_helpers.models.protocol import Model
from chapters.nb22_layer_norms.norms import readers


def untied(model: Model) -> Model:
    """A copy whose unembedding is a matrix of its own, with a bias of zeros: nothing changes."""
    model, W_U = copy.deepcopy(model), model.W_U.detach().T.clone()
    head = nn.Linear(*W_U.mT.shape)
    head.weight, head.bias = nn.Parameter(W_U), nn.Parameter(torch.zeros(len(W_U)))
    model.hf.set_output_embeddings(head.requires_grad_(False))
    return model


def reads(model: Model) -> list[tuple[nn.Module, Tensor, Tensor]]:
    """Every norm of a GPT-2, with the W [d_model, m] and the b [m] that read it.

    They may be changed in place. ValueError for an unembedding that is the embedding as well.
    """
    head = model.hf.lm_head
    if head.bias is None:
        raise ValueError("the unembedding has no matrix and bias of its own: take untied(model)")
    pairs = [pair for layer in range(model.config.n_layers) for pair in readers(model, layer)]
    found = [(norm, module.weight, module.bias) for norm, (module,) in pairs]
    return [*found, (model.final_norm(), head.weight.T, head.bias)]


def writes(model: Model) -> list[Float[Tensor, "_ d_model"]]:
    """Every matrix of a GPT-2 whose rows are added to the stream, and the biases, as one row each.

    They may be changed in place.
    """
    parts = model.hf.transformer
    outputs = [each for block in parts.h for each in (block.attn.c_proj, block.mlp.c_proj)]
    rows = [row for each in outputs for row in (each.weight, each.bias[None])]
    return [parts.wte.weight, parts.wpe.weight, *rows]


def writers(model: Model) -> dict[str, Tensor]:
    """What `writes` returns, by names that a person would use."""
    names = ["token embeddings", "positions"]
    for layer in range(model.config.n_layers):
        for part in ("heads", "MLP"):
            names += [f"layer {layer} {part}, matrix", f"layer {layer} {part}, bias"]
    return dict(zip(names, writes(model), strict=True))


def layer_norms(model: Model) -> dict[str, nn.Module]:
    """The norms of a GPT-2 in the order in which they read the stream, by name."""
    found = {}
    for layer, block in enumerate(model.hf.transformer.h):
        found |= {f"layer {layer} heads": block.ln_1, f"layer {layer} MLP": block.ln_2}
    return found | {"final": model.final_norm()}


def replace_norms(model: Model, make: Callable[[nn.Module], nn.Module]) -> dict[str, nn.Module]:
    """Put make(norm) in the place of every norm; the new ones by name."""
    parts = model.hf.transformer
    for block in parts.h:
        block.ln_1, block.ln_2 = make(block.ln_1), make(block.ln_2)
    parts.ln_f = make(parts.ln_f)
    return layer_norms(model)


def forgetful(model: Model, which: int) -> Model:
    """A copy whose writers are centered, all but one."""
    model = copy.deepcopy(model)
    for i, W in enumerate(writes(model)):
        if i != which:
            W -= W.mean(dim=-1, keepdim=True)
    return model


def n_learned(model: Model) -> int:
    """How many numbers a GPT-2 has learned in its norms: gains and biases."""
    norms = (each for each in model.modules() if isinstance(each, nn.LayerNorm | nn.RMSNorm))
    return sum(parameter.numel() for norm in norms for parameter in norm.parameters())
