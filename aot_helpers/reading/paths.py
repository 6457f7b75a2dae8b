"""Runs to sums over paths: stream, scores, logits and losses, term by term."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Head, Model, check_tokens
from aot_helpers.reading.circuits import check_unembedding, qk_circuit
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.norms import Parts, check_pre_norm, frozen_norm, has_norm


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


def path_label(path: tuple) -> str:
    """A path as a label: "direct" for (), "L0H1 → L1H2" for (Head(0, 1), Head(1, 2))."""
    return " → ".join(map(str, path)) or "direct"


def path_terms(
    model: Model, tokens: Int[Tensor, "batch pos"]
) -> dict[tuple, Float[Tensor, "batch pos d_model"]]:
    """The final residual stream as a sum over paths, each with the patterns of this very run.

    () is the embedding (with W_pos where the stream holds it), (Head(0, 1), Head(1, 2)) what L0H1
    read there and L1H2 moved on: (1 + n_heads) ** n_layers terms. They add up to
    cache["final_resid"], and times W_U to the logits. Framework paper, "Path Expansion of Logits".

    With layer norm, each norm's σ is frozen at that of this run; the result's `frozen_sigma` is
    then True, ("bias",) is the sum of all paths that begin at a bias, and a term t adds
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
    return Parts(terms, has_norm(model))


def score_terms(
    model: Model, tokens: Int[Tensor, "batch pos"], head: Head
) -> dict[tuple[str, str], Float[Tensor, "batch query key"]]:
    """A head's scores as a sum over (what the query came from, what the key came from).

    The components are "embed", "position" (W_pos, if any) and the heads of earlier layers, "L0H0"
    …; b_rel is ("position", "position"). The terms add up to the scores before the mask. Framework
    paper, "Path Expansion of Attention Scores". Raises ValueError for models with layer norm, MLPs
    or smeared keys and for a head that does not exist.
    """
    check_additive(model)
    if model.config.smeared_keys:
        raise ValueError(
            "smeared_keys = True: keys come from two positions each, so that no terms add up to "
            "the scores of this model: take one with smeared_keys=False"
        )
    qk = qk_circuit(model, head)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        n_batch, n_pos = tokens.shape
        parts = {"embed": cache["embed"]}
        if hasattr(model, "W_pos"):
            parts["position"] = model.W_pos[:n_pos].expand(n_batch, -1, -1)
        for writer in (Head(i, h) for i in range(head.layer) for h in range(model.config.n_heads)):
            parts[str(writer)] = head_output(model, cache, writer)
        terms = {
            (query, key): (x @ qk.A) @ (y @ qk.B.T).transpose(1, 2)
            for query, x in parts.items()
            for key, y in parts.items()
        }
        if model.config.positions == "relative":
            bias = model.blocks[head.layer].attn.relative_bias(n_pos)[head.head]
            terms["position", "position"] = bias.expand(n_batch, -1, -1)
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
    norm, the final σ is frozen at that of the run, the result's `frozen_sigma` is True, and "bias"
    holds the final norm's bias and what biases of the heads' output add. Raises ValueError for
    targets that do not fit, models without logits and those that normalize after each layer.
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
    return Parts(parts, not isinstance(final, nn.Identity))


def _targets(tokens: Tensor, targets: Tensor | None, d_vocab: int) -> Int[Tensor, "batch scored"]:
    """The targets, or for None the next tokens. Raises ValueError where they do not fit."""
    if targets is None:
        check_next_token(tokens)
        targets = tokens[:, 1:]
    elif targets.shape != tokens.shape:
        shape, got = tuple(tokens.shape), tuple(targets.shape)
        raise ValueError(f"targets must be one token per position, shape {shape}, got {got}")
    if bad := targets[(targets < 0) | (targets >= d_vocab)].tolist():
        raise ValueError(f"target {bad[0]} is not a token id: they are 0 … {d_vocab - 1}")
    return targets


def term_importance(model: Model, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, " order"]:
    """Mean next-token loss (nats) with only the paths through at most 0, 1, … n_layers heads.

    The last entry is the loss of the model, and the drop from entry n - 1 to entry n what the terms
    of order n are worth once the shorter ones are there (framework paper, "Term Importance
    Analysis"). The patterns, and the σ of norms, stay those of the true run, so that the logits are
    a sum over paths; with norms, the result's `frozen_sigma` is True. Biases count with the head or
    norm that adds them. Raises ValueError for models with MLPs and those that normalize after each
    layer.
    """
    check_additive(model, frozen_sigma=True)
    check_next_token(tokens)
    losses, n_layers = [], model.config.n_layers
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        streams = [f"L{i}.resid_pre" for i in range(n_layers)] + ["final_resid"]
        norms = [model.attention_norm(i) for i in range(n_layers)] + [model.final_norm()]
        reads = [f"L{i}.ln1_out" for i in range(n_layers)] + ["ln_final_out"]
        normed = [frozen_norm(*each) for each in zip(norms, map(cache.get, streams), strict=True)]
        biases = [cache[r] - f(cache[s]) for r, f, s in zip(reads, normed, streams, strict=True)]
        frozen = {f"L{i}.pattern": cache[f"L{i}.pattern"] for i in range(n_layers)}
        start = cache[streams[0]]
        written = [torch.zeros_like(start) for _ in range(n_layers)]
        # Each round lets every layer read what the layers before it wrote in the round before,
        # nothing in the first: a path gets one head longer per round.
        for _ in range(n_layers + 1):
            resid, edits = start, dict(frozen)
            for name, norm, bias, wrote in zip(reads, normed, biases, [*written, 0], strict=True):
                edits[name] = norm(resid) + bias
                resid = resid + wrote
            logits, cache = model.run_with_cache(tokens, edits=edits)
            losses.append(next_token_losses(logits, tokens).mean())
            written = [cache[f"L{i}.attn_out"] for i in range(n_layers)]
    result = torch.stack(losses)
    result.frozen_sigma = has_norm(model)
    return result
