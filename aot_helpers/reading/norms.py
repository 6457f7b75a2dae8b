"""Norms as linear maps: the σ of one run is frozen, and what is read is a sum of parts."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aot_helpers.models.protocol import Model


def frozen_norm(
    norm: nn.Module, resid: Float[Tensor, "batch pos d_model"]
) -> Callable[[Tensor], Tensor]:
    """The norm without its bias as a linear map, with the σ that it has on `resid`.

    Of parts that add up to resid, the results add up to norm(resid) less the bias. Raises
    ValueError as `check_norm` does.
    """
    check_norm(norm)
    if isinstance(norm, nn.Identity):
        return lambda part: part
    gain = norm.weight.detach()
    if isinstance(norm, nn.LayerNorm):
        sigma = (resid.var(dim=-1, keepdim=True, unbiased=False) + norm.eps).sqrt()
        return lambda part: (part - part.mean(dim=-1, keepdim=True)) / sigma * gain
    eps = torch.finfo(resid.dtype).eps if norm.eps is None else norm.eps
    sigma = (resid.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return lambda part: part / sigma * gain


def norm_bias(norm: nn.Module, d_model: int) -> Float[Tensor, " d_model"]:
    """What a norm adds to what it gives: zeros where it has no bias."""
    bias = getattr(norm, "bias", None)
    return torch.zeros(d_model) if bias is None else bias.detach()


def has_norm(model: Model) -> bool:
    """True unless every norm of the model is nn.Identity."""
    norms = [model.attention_norm(i) for i in range(model.config.n_layers)]
    return not all(isinstance(norm, nn.Identity) for norm in [*norms, model.final_norm()])


def check_norm(norm: nn.Module) -> None:
    """Raise ValueError for a module that is no linear map up to σ and bias."""
    if not isinstance(norm, nn.LayerNorm | nn.RMSNorm | nn.Identity):
        raise ValueError(
            f"a {type(norm).__name__} is no linear map, even with σ frozen: take a model with "
            "LayerNorm or RMSNorm, such as GPT-2 or Llama"
        )


def check_pre_norm(model: Model) -> None:
    """Raise ValueError where a norm follows each layer: the stream is then no sum of parts."""
    if getattr(model.config, "post_norm", False):
        raise ValueError(
            "post_norm = True: the stream of BERT's family is normalized after every layer, so it "
            "is no sum of what heads wrote: take one of GPT-2's or Llama's family, or ablate"
        )
