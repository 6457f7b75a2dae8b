"""Runs to sums over paths: stream, scores, logits and losses, term by term."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_ids, check_shape, check_token_ids
from aot_helpers.models.protocol import Head, Model, check_tokens
from aot_helpers.reading.circuits import check_unembedding
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.norms import check_pre_norm, frozen_norm, has_norm


def check_additive(model: Model, frozen_sigma: bool = False, mlps: bool = False) -> None:
    """Raise ValueError unless the model is a sum over paths, or one once the norms' σ is frozen.

    frozen_sigma: norms before what reads the stream are allowed. mlps: MLPs are allowed, as writers
    that no path leads through.
    """
    normed, d_mlp = has_norm(model), model.config.d_mlp
    if frozen_sigma:
        check_pre_norm(model)
    if (normed and not frozen_sigma) or (d_mlp and not mlps):
        raise ValueError(
            f"this model is no sum over paths: layer_norm = {normed}, d_mlp = {d_mlp}; take one "
            f"with {'' if frozen_sigma else 'layer_norm=False and '}d_mlp=0, as the shipped ones"
        )


def path_terms(
    model: Model, tokens: Int[Tensor, "batch pos"]
) -> dict[tuple, Float[Tensor, "batch pos d_model"]]:
    """The final residual stream as a sum over paths, each with the patterns of this very run.

    () is the embedding (with W_pos where the stream holds it), (Head(0, 1), Head(1, 2)) what L0H1
    read there and L1H2 moved on: (1 + n_heads) ** n_layers terms. They add up to
    cache["final_resid"], and times W_U to the logits. Framework paper, "Path Expansion of Logits".

    With layer norm, each norm's σ is frozen at that of this run, ("bias",) is the sum of all paths
    that begin at a bias, and a term t adds
    frozen_norm(model.final_norm(), cache["final_resid"])(t) @ W_U to the logits. Raises ValueError
    for models with MLPs and those that normalize after each layer.
    """
    check_additive(model, frozen_sigma=True)
    n_layers = model.config.n_layers
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        terms = {(): cache["L0.resid_pre" if n_layers else "final_resid"]}
        bias = torch.zeros_like(terms[()])
        for i in range(n_layers):
            before, bias_before = list(terms.items()), bias  # heads of a layer read no other there
            resid, left = cache[f"L{i}.resid_pre"], cache[f"L{i}.attn_out"]
            normed = frozen_norm(model.attention_norm(i), resid)
            for h in range(model.config.n_heads):
                head, pattern = Head(i, h), cache[f"L{i}.pattern"][:, h]
                W = model.head_weights(head)
                for path, term in before:
                    terms[(*path, head)] = pattern @ (normed(term) @ W.W_V @ W.W_O)
                b_V = cache[f"L{i}.v"][:, :, h] - normed(resid) @ W.W_V  # and the norm's bias
                bias = bias + pattern @ ((normed(bias_before) @ W.W_V + b_V) @ W.W_O)
                left = left - head_output(model, cache, head)
            bias = bias + left  # b_O
    if has_norm(model):
        terms[("bias",)] = bias
    return terms


def check_next_token(tokens: Int[Tensor, "batch pos"]) -> None:
    """Raise ValueError for tokens that are not texts of at least 2 tokens."""
    check_tokens(tokens)
    if tokens.shape[1] < 2:
        raise ValueError(
            f"tokens of shape {tuple(tokens.shape)} have no next token: give at least 2 positions"
        )


def direct_logit_attribution(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    targets: Int[Tensor, "batch scored"] | None = None,
    center: bool = True,
) -> dict[str, Float[Tensor, "batch scored"]]:
    """What "embed", "L0H0", "L0H1", … each add to the logit of one token per position.

    targets: the token whose logit is taken apart, for each position; None takes the next token,
    and the result then has one position less. center: measure each logit from the mean logit over
    the vocabulary; only that matters to the softmax.

    The parts sum to the logit (less the mean logit, if centered). Models with positions="standard"
    have a part "pos_embed" too, those with MLPs "L0 mlp" …. Each part is its direct path only, not
    what later heads and MLPs make of it (framework paper, "Path Expansion of Logits"). With layer
    norm, the final σ is frozen at that of the run, and "bias" holds the final norm's bias and what
    biases of the heads' output add. Raises ValueError for targets that do not fit, models without
    logits and those that normalize after each layer.
    """
    check_additive(model, frozen_sigma=True, mlps=True)
    check_unembedding(model)
    targets = _targets(tokens, targets, model.config.d_vocab)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        resid, final = cache["final_resid"], model.final_norm()
        toward = model.W_U.T[targets]  # [batch, scored, d_model]
        if center:
            toward = toward - model.W_U.mean(dim=1)
        normed = frozen_norm(final, resid)

        def to_logit(part):
            return (part[:, : targets.shape[1]] * toward).sum(dim=-1)

        parts = {"embed": to_logit(normed(cache["embed"]))}
        if "pos_embed" in cache:
            parts["pos_embed"] = to_logit(normed(cache["pos_embed"].expand_as(resid)))
        bias = to_logit(final(resid) - normed(resid))
        for i in range(model.config.n_layers):
            left = cache[f"L{i}.attn_out"]
            for head in (Head(i, h) for h in range(model.config.n_heads)):
                written = head_output(model, cache, head)
                parts[str(head)], left = to_logit(normed(written)), left - written
            bias = bias + to_logit(normed(left))  # b_O
            if model.config.d_mlp:
                parts[f"L{i} mlp"] = to_logit(normed(cache[f"L{i}.mlp_out"]))
    if has_norm(model):
        parts["bias"] = bias
    return parts


def _targets(tokens: Tensor, targets: Tensor | None, d_vocab: int) -> Int[Tensor, "batch scored"]:
    """The targets, or for None the next tokens. Raises ValueError where they do not fit."""
    if targets is None:
        check_next_token(tokens)
        targets = tokens[:, 1:]
    else:
        check_shape("targets", targets.shape, tokens.shape, "give one token per position")
    check_ids("targets", targets, 2)
    check_token_ids(targets, d_vocab)
    return targets
