"""Edits that change what heads do: ablation, patching, cut paths, frozen patterns.

Each function returns Edits for `model(tokens, edits=…)`; `merge` puts several together. Those made
from a run on tokens raise ValueError when they meet tokens of another batch size or length.
"""

from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.base.errors import check_one_of, check_shape, check_whole
from aot_helpers.models.protocol import Edits, Head, Model, check_head, check_tokens
from aot_helpers.reading.circuits import check_earlier
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.norms import check_pre_norm, frozen_norm

ABLATIONS = ("zero", "mean", "resample")
REPLACEMENTS = ("zero", "mean")
ROUTES = ("Q", "K", "V")
SAME_TOKENS = "make the edit for this model, from tokens of the same batch size and length"
STREAM_NAMES = ("embed", "resid_pre", "attn_out", "mlp_out", "final_resid")


def merge(*edits: Edits) -> Edits:
    """All edits in one dict. Edits of the same name are applied one after the other, as given.

    What a tensor replaces is lost: nothing before it on the same name matters.
    """
    steps = {}
    for name, edit in (item for each in edits for item in each.items()):
        steps.setdefault(name, []).append(edit)
    return {name: partial(_in_turn, steps=each) for name, each in steps.items()}


def ablate(
    model: Model,
    heads: list[Head],
    by: str = "zero",
    reference: Int[Tensor, "batch pos"] | dict[str, Tensor] | None = None,
) -> Edits:
    """Edits that replace the output z of the heads by what says nothing.

    by: "zero"; or "mean", the head's mean z over all positions and texts of a run on `reference`
    (padding counts: leave it out);
    or "resample", in row b the z of row b of that run: other texts of the same shape. Zero is
    something a head may never say; the other two keep what it says of every text. The reference may
    also be the cache of such a run, which then serves many ablations. Raises ValueError for a head
    that does not exist, an unknown `by` and a missing reference.
    """
    heads = [check_head(model.config, head) for head in heads]
    check_one_of("ablation", by, ABLATIONS)
    names = [f"L{layer}.z" for layer, _ in heads]
    if by == "zero":
        zeros = torch.zeros(model.config.n_heads, model.config.d_head)
        return _new_z(model, heads, dict.fromkeys(names, zeros))
    if reference is None:
        raise ValueError(f"ablation by {by!r} takes the values from other texts: give reference")
    new = reference if isinstance(reference, dict) else _clean(model, reference)
    inside = (model.config.n_heads, model.config.d_head)
    for name in names:
        found = new[name].shape[-2:] if name in new else ()
        check_shape(f"{name} of the reference", found, inside, "give a whole run of this model")
    if by == "mean":
        new = {name: new[name].mean(dim=(0, 1)) for name in names}
    return _new_z(model, heads, new)


def patch_heads(
    model: Model,
    source_tokens: Int[Tensor, "batch pos"],
    heads: list[Head],
    positions: list[int] | None = None,
) -> Edits:
    """Edits that give the heads the output z of a run on source_tokens.

    positions: where to patch; None is everywhere. Raises ValueError for heads and positions that
    do not exist.
    """
    heads = [check_head(model.config, head) for head in heads]
    at = _chosen_positions(source_tokens, positions)
    return _new_z(model, heads, _clean(model, source_tokens), at[:, None, None])


def patch_stream(
    model: Model,
    source_tokens: Int[Tensor, "batch pos"],
    name: str,
    positions: list[int] | None = None,
) -> Edits:
    """Edits that give the stream, for instance "L1.resid_pre", its value on source_tokens.

    name: "embed", "final_resid", or a layer's "resid_pre", "attn_out" or "mlp_out". positions:
    where to patch; None is everywhere. Raises ValueError for names and positions not there.
    """
    known = [each for each in model.activation_names() if each.split(".")[-1] in STREAM_NAMES]
    check_one_of("value in the stream", name, known)
    at = _chosen_positions(source_tokens, positions)
    return {name: partial(_put, new=_clean(model, source_tokens)[name], where=at[:, None])}


def cut_path(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    writer: Head,
    reader: Head,
    route: str,
    replace: str = "zero",
) -> Edits:
    """Edits that take what the writer wrote on `tokens` out of what the reader reads by one route.

    route: "Q", "K" or "V", what the reader's query, key or value is made of (framework paper,
    "Three Kinds of Composition"). replace: "zero" takes the writer's part out, "mean" puts its mean
    over positions and texts there instead. Everything else still reads the writer, also heads and
    MLPs in between. Where a norm stands before the reader, its σ is frozen at that of the run.
    Raises ValueError for a writer not in an earlier layer than the reader, unknown heads, routes
    and replacements, models that normalize after each layer.
    """
    return cut_paths(model, tokens, [(writer, reader, route)], replace)


def cut_paths(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    paths: list[tuple[Head, Head, str]],
    replace: str = "zero",
) -> Edits:
    """Edits that cut several paths (writer, reader, route) at once, each as `cut_path` does."""
    check_one_of("replacement", replace, REPLACEMENTS)
    clean, cuts = None, []
    for writer, reader, route in dict.fromkeys(paths):
        check_one_of("route", route, ROUTES)
        writer, reader = (check_head(model.config, head) for head in (writer, reader))
        check_earlier(writer, reader)
        check_pre_norm(model)
        layer, head = reader
        clean, norm = clean or _clean(model, tokens), model.attention_norm(layer)
        written = head_output(model, clean, writer)
        if replace == "mean":
            written = written - written.mean(dim=(0, 1))
        less = clean[f"L{layer}.ln1_out"] - frozen_norm(norm, clean[f"L{layer}.resid_pre"])(written)
        # The model itself turns what is read into q, k and v, whatever its positions.
        without = _clean(model, tokens, {f"L{layer}.ln1_out": less})
        name = f"L{layer}.{route.lower()}"
        part = (clean[name] - without[name])[:, :, head]
        cuts.append({name: partial(_take_off, head=head, part=part)})
    return merge(*cuts)


def freeze_patterns(model: Model, tokens: Int[Tensor, "batch pos"]) -> Edits:
    """Edits that fix all attention patterns to those of a run on these tokens.

    Without layer norm and MLPs the logits are then linear in the stream: a sum over paths
    (framework paper, "Path Expansion of Logits").
    """
    cache, names = _clean(model, tokens), [f"L{i}.pattern" for i in range(model.config.n_layers)]
    return {name: partial(_put, new=cache[name], where=torch.tensor(True)) for name in names}


def _in_turn(value: Tensor, steps: list) -> Tensor:
    """The value after each step: a function of the value, or a tensor in its place."""
    for step in steps:
        value = step(value) if callable(step) else step
    return value


def _put(old: Tensor, new: Tensor, where: Bool[Tensor, "*places"]) -> Tensor:
    """The new value where `where` is True. A new value with fewer axes is the same everywhere."""
    check_shape("what this edit changes", old.shape[-new.ndim :], new.shape, SAME_TOKENS)
    return torch.where(where.to(old.device), new.to(old), old)


def _take_off(
    old: Float[Tensor, "batch pos head d_head"], head: int, part: Float[Tensor, "texts at d_head"]
) -> Float[Tensor, "batch pos head d_head"]:
    """The old value with a part of one head subtracted."""
    check_shape("what this edit changes", old[:, :, head].shape, part.shape, SAME_TOKENS)
    new = old.clone()
    new[:, :, head] -= part
    return new


def _clean(model: Model, tokens: Int[Tensor, "batch pos"], edits: Edits | None = None) -> dict:
    """The activations of a run, without gradients."""
    with torch.no_grad():
        return model.run_with_cache(tokens, edits=edits)[1]


def _new_z(model: Model, heads: list[Head], new: dict[str, Tensor], at=True) -> Edits:
    """Edits that put the new values of z in place of the heads', where `at` [pos, 1, 1] is True."""
    edits = {}
    for layer in dict.fromkeys(layer for layer, _ in heads):
        chosen = torch.zeros(model.config.n_heads, 1, dtype=torch.bool)
        chosen[[head for where, head in heads if where == layer]] = True
        edits[f"L{layer}.z"] = partial(_put, new=new[f"L{layer}.z"], where=chosen & at)
    return edits


def _chosen_positions(
    tokens: Int[Tensor, "batch pos"], positions: list[int] | None
) -> Bool[Tensor, " pos"]:
    """True at the positions in the list; None chooses all. Raises ValueError for others."""
    check_tokens(tokens)
    n_pos = tokens.shape[1]
    chosen = torch.full((n_pos,), positions is None)
    for position in positions or []:
        check_whole("a position of this text", position, 0, n_pos - 1)
        chosen[position] = True
    return chosen
