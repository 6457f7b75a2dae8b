"""Notebook 22, section 3: a head's output at the end exchanged for that of another prompt.

VISIT, section 5.1, has no causal test. Here a head keeps its place, and gets what it wrote after a
text with other names, with the roles swapped, or with the same names in another sentence. As a
control of equal size, its output moves as far in directions at random.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Head, Model
from chapters.names.name_movers import Table, difference
from chapters.names.templates import Group

WAYS = ("other names", "roles swapped", "same names", "as far at random")


class Patched(NamedTuple):
    """Logit differences [prompt] as they are, and for each way with the heads' output replaced."""

    whole: Float[Tensor, " prompt"]
    after: dict[str, Float[Tensor, " prompt"]]


def swapped_roles(group: Group) -> Int[Tensor, "prompt pos"]:
    """The same prompts, but the other one gives. ValueError where names are several tokens."""
    at = torch.arange(group.tokens.shape[1]).tolist()
    places = [i for i in at if (group.tokens[:, i] == group.s).all()]
    if places != [group.s1_at, group.s2_at] or group.s2_at - group.s1_at < 2:
        raise ValueError(f"the name that gives stands at {places}: it has to be there twice")
    tokens = group.tokens.clone()
    tokens[:, group.s2_at] = group.io
    return tokens


def end_outputs(model: Model, tokens: Int[Tensor, "prompt pos"]) -> list[Tensor]:
    """What every head has at the end, before W_O: z [prompt, head, d_head] of each layer."""
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
    return [cache[f"L{i}.z"][:, -1].clone() for i in range(model.config.n_layers)]


def give(heads: list[Head], outputs: list[Tensor]) -> Edits:
    """Edits that give heads, at the last position, these outputs."""
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head)

    def edit(layer: int, which: list[int]):
        def given(z: Tensor) -> Tensor:
            z = z.clone()
            z[:, -1, which] = outputs[layer][:, which]
            return z

        return given

    return {f"L{layer}.z": edit(layer, which) for layer, which in by_layer.items()}


def as_far(own: list[Tensor], other: list[Tensor], seed: int) -> list[Tensor]:
    """Outputs that differ from own by as much as other does, in directions at random."""
    generator, found = torch.Generator().manual_seed(seed), []
    for here, there in zip(own, other, strict=True):
        noise = torch.randn(here.shape, generator=generator)
        length = (there - here).norm(dim=-1, keepdim=True)
        found.append(here + noise * length / noise.norm(dim=-1, keepdim=True))
    return found


def patched(
    model: Model,
    groups: list[Group],
    elsewhere: list[Group],
    sets: Mapping[str, list[Head]],
    ways: tuple[str, ...] = WAYS,
    seed: int = 0,
) -> dict[str, Patched]:
    """Logit differences with each set of heads given outputs of other runs at the end.

    elsewhere: the same names and roles, prompt by prompt, in other sentences. A set named in
    `sets` is tried in every way.
    """
    rows = {name: {way: [] for way in ways} for name in sets}
    whole = []
    for at, (group, other) in enumerate(zip(groups, elsewhere, strict=True)):
        if not (torch.equal(group.io, other.io) and torch.equal(group.s, other.s)):
            raise ValueError("elsewhere has other names than groups: give both the same seed")
        own = end_outputs(model, group.tokens)
        outputs = {"other names": end_outputs(model, group.other)}
        if "roles swapped" in ways:
            outputs["roles swapped"] = end_outputs(model, swapped_roles(group))
        if "same names" in ways:
            outputs["same names"] = end_outputs(model, other.tokens)
        outputs["as far at random"] = as_far(own, outputs["other names"], seed + at)
        with torch.no_grad():
            whole.append(difference(model(group.tokens), group))
            for name, heads in sets.items():
                for way in ways:
                    logits = model(group.tokens, edits=give(heads, outputs[way]))
                    rows[name][way].append(difference(logits, group))
    together = torch.cat(whole)
    return {
        name: Patched(together, {way: torch.cat(each) for way, each in by_way.items()})
        for name, by_way in rows.items()
    }


def held(
    model: Model, groups: list[Group], swapped: list[Head], kept: Mapping[str, list[Head]]
) -> dict[str, Float[Tensor, " prompt"]]:
    """Logit differences with heads given their outputs of swapped roles, while others stay.

    kept: {name: heads that keep, at the end, the output of the run as it is}. What the swapped
    heads do through those is then gone.
    """
    rows = {name: [] for name in kept}
    for group in groups:
        own = end_outputs(model, group.tokens)
        other = end_outputs(model, swapped_roles(group))
        mixed = [z.clone() for z in own]
        for layer, head in swapped:
            mixed[layer][:, head] = other[layer][:, head]
        with torch.no_grad():
            for name, heads in kept.items():
                edits = give([*swapped, *(head for head in heads if head not in swapped)], mixed)
                rows[name].append(difference(model(group.tokens, edits=edits), group))
    return {name: torch.cat(each) for name, each in rows.items()}


def sizes(model: Model, groups: list[Group]) -> Float[Tensor, "layer head"]:
    """How far what a head writes at the end is from what it writes on other names; mean length."""
    c = model.config
    total, n = torch.zeros(c.n_layers, c.n_heads), 0
    for group in groups:
        pair = (end_outputs(model, tokens) for tokens in (group.tokens, group.other))
        for i, (own, other) in enumerate(zip(*pair, strict=True)):
            for h in range(c.n_heads):
                step = (other[:, h] - own[:, h]) @ model.head_weights(Head(i, h)).W_O
                total[i, h] += step.norm(dim=-1).sum()
        n += len(group.tokens)
    return total / n


def as_large(
    heads: list[Head],
    size: Float[Tensor, "layer head"],
    leave_out: list[Head],
    draw: int = 0,
    first: int = 0,
) -> list[Head]:
    """As many other heads, from layer `first` on, whose size is nearest; draw 0, 1 … goes further.

    size: a number of each head, such as `sizes` gives. Raises ValueError where none is left.
    """
    taken, found = {*heads, *leave_out}, []
    n_layers, n_heads = size.shape
    pool = [Head(i, h) for i in range(first, n_layers) for h in range(n_heads)]
    for head in heads:
        order = sorted(pool, key=lambda one: abs(size[one] - size[head]).item())
        left = [one for one in order if one not in taken]
        if len(left) <= draw:
            raise ValueError(f"only {len(left)} other heads are left beside {head}: lower draw")
        found.append(left[draw])
        taken.add(left[draw])
    return found


def growth(before: Table, after: Table, heads: list[Head]) -> float:
    """What heads add more once others are gone."""
    return sum((after.direct - before.direct)[head].item() for head in heads)


def growing(before: Table, after: Table, gone: list[Head], leave_out: list[Head]) -> list[Head]:
    """The three heads that grow most once others are gone, of later layers than the first gone."""
    change = (after.direct - before.direct).clone()
    change[: min(head.layer for head in gone) + 1] = -torch.inf
    for head in {*gone, *leave_out}:
        change[head] = -torch.inf
    return [Head(*divmod(int(i), change.shape[1])) for i in change.flatten().topk(3).indices]
