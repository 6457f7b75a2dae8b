"""Notebook 22: what a norm changes in words, and whose doing it is.

VISIT, section 5.2 and appendix E, reads the stream before and after each norm through the logit
lens. With a final norm in the lens, a norm's centering and its σ change nothing: only its gain and
bias can, and those may be moved into the matrices that read it.
"""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import lens


@contextlib.contextmanager
def restored(parameters: list[Tensor]) -> Iterator[None]:
    """Parameters that may be changed in place until the block ends; then they are as before."""
    before = [each.detach().clone() for each in parameters]
    try:
        with torch.no_grad():
            yield
    finally:
        with torch.no_grad():
            for each, old in zip(parameters, before, strict=True):
                each.copy_(old)


@contextlib.contextmanager
def changed(
    norm: nn.Module, gain: Float[Tensor, " d_model"], bias: Float[Tensor, " d_model"] | None = None
) -> Iterator[nn.Module]:
    """The norm with another gain (and bias), in place, until the block ends."""
    with restored(list(norm.parameters())):
        norm.weight.copy_(gain)
        if bias is not None and getattr(norm, "bias", None) is not None:
            norm.bias.copy_(bias)
        yield norm


class Change(NamedTuple):
    """Mean probabilities of every token before and after a norm."""

    before: Float[Tensor, " d_vocab"]
    after: Float[Tensor, " d_vocab"]
    largest: float  # change of any probability of any vector

    @property
    def difference(self) -> Float[Tensor, " d_vocab"]:
        """What each token gains, on average."""
        return self.after - self.before

    def kept(self, words: Bool[Tensor, " d_vocab"]) -> float:
        """The probability of these words after the norm, divided by that before."""
        return (self.after[words].sum() / self.before[words].sum()).item()

    def falls(self, n: int) -> Int[Tensor, " n"]:
        """The ids of the n tokens whose mean probability falls most."""
        return self.difference.topk(n, largest=False).indices

    def rises(self, n: int) -> Int[Tensor, " n"]:
        """The ids of the n tokens whose mean probability rises most."""
        return self.difference.topk(n).indices


def change(model: Model, norm: nn.Module, x: Float[Tensor, "n d_model"]) -> Change:
    """Read vectors before and after a norm through the lens."""
    with torch.no_grad():
        before, after = (lens(model, each).softmax(dim=-1) for each in (x, norm(x)))
        largest = (after - before).abs().max().item()
        return Change(before.mean(dim=0), after.mean(dim=0), largest)


def isotropic(x: Float[Tensor, "n d_model"], seed: int = 0) -> Float[Tensor, "n d_model"]:
    """Random vectors as long as these, the same in all directions."""
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
    return noise * (x.norm(dim=-1) / noise.norm(dim=-1))[:, None]


def readers(model: Model, layer: int) -> list[tuple[nn.Module, list[nn.Module]]]:
    """The two norms of a layer, each with the matrices that read it."""
    block = model.submodule("", layer)
    if model.config.family == "gpt2":
        return [(block.ln_1, [block.attn.c_attn]), (block.ln_2, [block.mlp.c_fc])]
    attention, mlp = block.self_attn, block.mlp
    return [
        (block.input_layernorm, [attention.q_proj, attention.k_proj, attention.v_proj]),
        (block.post_attention_layernorm, [mlp.gate_proj, mlp.up_proj]),
    ]
