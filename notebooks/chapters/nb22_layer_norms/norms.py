"""Notebook 22: what a norm changes in words, and whose doing it is.

VISIT, section 5.2 and appendix E, reads the stream before and after each norm through the logit
lens. With a final norm in the lens, a norm's centering and its σ change nothing: only its gain and
bias can, and those may be moved into the matrices that read it.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from aot_helpers.base.statistics import correlation
from aot_helpers.models.protocol import Edits, Model
from aot_helpers.reading.logit_lens import lens
from aot_helpers.reading.norms import check_norm, norm_bias

SITES = ("ln1", "ln2")


def norm_at(model: Model, layer: int, site: str) -> nn.Module:
    """The norm before a layer's heads ("ln1") or its MLP ("ln2"). ValueError for neither."""
    if site not in SITES:
        raise ValueError(f"site must be one of {', '.join(SITES)}, got {site!r}")
    norm = model.attention_norm(layer) if site == "ln1" else model.mlp_norm(layer)
    check_norm(norm)
    if isinstance(norm, nn.Identity):
        raise ValueError("this model has no norms: load one with them, such as docstrings-gpt2")
    return norm


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


def plain(norm: nn.Module):
    """The norm with gain 1 and bias 0 until the block ends: centering and σ alone."""
    return changed(norm, torch.ones_like(norm.weight), torch.zeros_like(norm.weight))


def even(norm: nn.Module):
    """The norm with its gain's mean everywhere and no bias until the block ends."""
    gain = norm.weight.detach()
    return changed(norm, gain.mean().expand_as(gain), torch.zeros_like(gain))


def gain_only(norm: nn.Module):
    """The norm with its gain and bias 0 until the block ends."""
    return changed(norm, norm.weight.detach().clone(), torch.zeros_like(norm.weight))


def bias_only(norm: nn.Module):
    """The norm with its bias and gain 1 until the block ends."""
    return changed(norm, torch.ones_like(norm.weight))


def in_another_order(norm: nn.Module, seed: int):
    """The norm with the entries of its gain and bias in one random order until the block ends."""
    order = torch.randperm(len(norm.weight), generator=torch.Generator().manual_seed(seed))
    bias = getattr(norm, "bias", None)
    weights = (None if each is None else each.detach()[order] for each in (norm.weight, bias))
    return changed(norm, *weights)


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


def one_by_one(
    model: Model, norm: nn.Module, x: Float[Tensor, "n d_model"], words: Bool[Tensor, " d_vocab"]
) -> tuple[Tensor, Tensor]:
    """Vector by vector, [n] each: what the norm does to it beside what it does to the others.

    The correlation of its change of probabilities with the mean change of the others; the
    probability of these words after, divided by that before.
    """
    with torch.no_grad():
        before, after = (lens(model, each).softmax(dim=-1) for each in (x, norm(x)))
    left = after[:, words].sum(dim=-1) / before[:, words].sum(dim=-1)
    change = after - before
    total = change.sum(dim=0)
    alike = [correlation(each, (total - each) / (len(x) - 1)) for each in change]
    return torch.tensor(alike), left


def as_probable(
    change: Change, words: Bool[Tensor, " d_vocab"], n: int = 40
) -> tuple[float, float]:
    """What is left of the n likeliest of these words, and of other tokens as likely before.

    Each word is paired with the unused other token whose mean probability is nearest.
    """
    likely = change.before.masked_fill(~words, 0).topk(min(n, int(words.sum()))).indices
    free, partners = (~words).clone(), []
    for word in likely:
        gap = (change.before - change.before[word]).abs().masked_fill(~free, torch.inf)
        partners.append(int(gap.argmin()))
        free[partners[-1]] = False
    kept = (change.after[ids].sum() / change.before[ids].sum() for ids in (likely, partners))
    return tuple(share.item() for share in kept)


def isotropic(x: Float[Tensor, "n d_model"], seed: int = 0) -> Float[Tensor, "n d_model"]:
    """Random vectors as long as these, the same in all directions."""
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(seed))
    return noise * (x.norm(dim=-1) / noise.norm(dim=-1))[:, None]


def alike(x: Float[Tensor, "n d_model"], seed: int = 0) -> Float[Tensor, "n d_model"]:
    """Gaussian vectors with the mean and the covariance of these."""
    center = x.mean(dim=0)
    noise = torch.randn(len(x), len(x), generator=torch.Generator().manual_seed(seed))
    return center + noise @ (x - center) / (len(x) - 1) ** 0.5


def moved(
    model: Model,
    before: Float[Tensor, " d_vocab"],
    after: Float[Tensor, " d_vocab"],
    words: Bool[Tensor, " d_vocab"],
    n: int = 8,
    ranked_by: Float[Tensor, " d_vocab"] | None = None,
) -> dict[str, list[tuple[str, float, float, bool]]]:
    """The n tokens that fall and rise most: (token, before, after, whether a function word).

    ranked_by: each token's gain by which they are chosen, if it is not after - before.
    """
    difference = after - before if ranked_by is None else ranked_by
    strings = model.tokenizer.token_strings
    found = {}
    for said, largest in (("fall most", False), ("rise most", True)):
        ids = difference.topk(n, largest=largest).indices
        numbers = (each[ids].tolist() for each in (before, after, words))
        found[said] = list(zip(strings(ids), *numbers, strict=True))
    return found


@contextlib.contextmanager
def folded(model: Model, layers: list[int]) -> Iterator[Model]:
    """The model with the gains and biases of these layers' norms in the matrices after them.

    In place, until the block ends; the logits stay what they were. The norms then only center and
    divide. GPT-2's and Llama's families of transformers; others are a ValueError.
    """
    family = getattr(model.config, "family", "ours")
    if family not in ("gpt2", "llama"):
        raise ValueError(f"no way to fold the norms of the family {family!r}: take gpt2 or llama")
    pairs = [pair for layer in layers for pair in readers(model, layer)]
    modules = [module for norm, reads in pairs for module in (norm, *reads)]
    with restored([each for module in modules for each in module.parameters()]):
        for norm, reads in pairs:
            for module in reads:
                if family == "gpt2":  # Conv1D keeps [in, out]
                    module.bias += norm.bias @ module.weight
                    module.weight *= norm.weight[:, None]
                else:
                    module.weight *= norm.weight
            norm.weight.fill_(1)
            if family == "gpt2":
                norm.bias.fill_(0)
        yield model


def readers(model: Model, layer: int) -> list[tuple[nn.Module, list[nn.Module]]]:
    """The two norms of a layer, each with the matrices that read it."""
    block = model._part("", layer)
    if model.config.family == "gpt2":
        return [(block.ln_1, [block.attn.c_attn]), (block.ln_2, [block.mlp.c_fc])]
    attention, mlp = block.self_attn, block.mlp
    return [
        (block.input_layernorm, [attention.q_proj, attention.k_proj, attention.v_proj]),
        (block.post_attention_layernorm, [mlp.gate_proj, mlp.up_proj]),
    ]


def words_direction(model: Model, words: Bool[Tensor, " d_vocab"]) -> Float[Tensor, " d_model"]:
    """The direction, of length 1, that the lens reads as these words rather than others."""
    gain = getattr(model.final_norm(), "weight", torch.ones(model.config.d_model)).detach()
    W_U = model.W_U.detach()
    toward = (W_U[:, words].mean(dim=1) - W_U.mean(dim=1)) * gain
    return toward / toward.norm()


def _edits_of_uneven(model: Model, layer: int, change: Callable[[Tensor, Tensor], Tensor]) -> Edits:
    """Edits of what a layer's heads read: change(out, what the uneven gain and bias do there).

    What an uneven gain does is measured against its mean.
    """
    norm, seen = norm_at(model, layer, "ln1"), {}
    gain, bias = norm.weight.detach(), norm_bias(norm, model.config.d_model)

    def keep(resid: Tensor) -> Tensor:
        seen["resid"] = resid
        return resid

    def edit(out: Tensor) -> Tensor:
        return change(out, normalized(norm, seen["resid"]) * (gain - gain.mean()) + bias)

    return {f"L{layer}.resid_pre": keep, f"L{layer}.ln1_out": edit}


def words_put_back(
    model: Model, layer: int, toward: Float[Tensor, " d_model"], along: Float[Tensor, " d_model"]
) -> Edits:
    """Edits that undo, in what a layer's heads read, what the uneven gain did along `toward`.

    along: the direction in which the amounts are taken off; `toward` itself, or a random one as a
    control. Both of length 1.
    """
    return _edits_of_uneven(
        model, layer, lambda out, uneven: out - (uneven @ toward)[..., None] * along
    )


def evened_as_far(model: Model, layer: int, seed: int = 0) -> Edits:
    """Edits that move what a layer's heads read as far as an even gain would, but at random.

    At every position the length of the change is that of setting the gain to its mean, the bias
    to 0.
    """
    generator = torch.Generator().manual_seed(seed)

    def move(out: Tensor, uneven: Tensor) -> Tensor:
        noise = torch.randn(out.shape, generator=generator)
        return out + noise * uneven.norm(dim=-1, keepdim=True) / noise.norm(dim=-1, keepdim=True)

    return _edits_of_uneven(model, layer, move)


def normalized(norm: nn.Module, x: Float[Tensor, "*places d_model"]) -> Tensor:
    """What a LayerNorm or RMSNorm makes of vectors before its gain and bias."""
    if isinstance(norm, nn.LayerNorm):
        return nn.functional.layer_norm(x, norm.weight.shape, eps=norm.eps)
    return nn.functional.rms_norm(x, norm.weight.shape, eps=norm.eps)
