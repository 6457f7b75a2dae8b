"""Evidence of notebook 24: a head's output at the end, patched with that of another prompt.

Here a head gets what it wrote after a text with other names, with the roles swapped, or with the
same names in another sentence. As a control of equal size, its output moves as far in directions at
random.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Head, Model
from evidence.support.nb24.prompts import Group

Outputs = Float[Tensor, "layer prompt head d_head"]
DONORS = ("other names", "roles swapped", "same names", "as far at random")


def end_outputs(model: Model, tokens: Int[Tensor, "prompt pos"]) -> Outputs:
    """What every head has at the end, before W_O."""
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
    return torch.stack([cache[f"L{i}.z"][:, -1] for i in range(model.config.n_layers)])


def give(heads: Sequence[Head], outputs: Outputs) -> Edits:
    """Edits that give heads, at the last position, these outputs."""
    return {
        f"L{layer}.z": partial(
            _given, new=outputs[layer], which=[h for i, h in heads if i == layer]
        )
        for layer in {layer for layer, _ in heads}
    }


def _given(z: Tensor, new: Tensor, which: list[int]) -> Tensor:
    z = z.clone()
    z[:, -1, which] = new[:, which]
    return z


def end_logits(
    model: Model,
    tokens: Int[Tensor, "prompt pos"],
    heads: Sequence[Head] = (),
    outputs: Outputs | None = None,
) -> Float[Tensor, "prompt d_vocab"]:
    """The logits at the end, once these heads have these outputs there."""
    with torch.no_grad():
        return model(tokens, edits=give(heads, outputs))[:, -1]


def gap(
    logits: Float[Tensor, "prompt d_vocab"], one: Int[Tensor, " prompt"], other: Tensor
) -> Float[Tensor, " prompt"]:
    """The logit of one token less that of another."""
    return (logits.gather(-1, one[:, None]) - logits.gather(-1, other[:, None]))[:, 0]


def swapped_roles(group: Group) -> Int[Tensor, "prompt pos"]:
    """The same prompts, but the other one gives. ValueError where names are several tokens."""
    at = (group.tokens == group.s[:, None]).all(dim=0).nonzero()[:, 0].tolist()
    if at != [group.s1_at, group.s2_at] or group.s2_at - group.s1_at < 2:
        raise ValueError(f"the name that gives stands at {at}: it has to be there twice")
    tokens = group.tokens.clone()
    tokens[:, group.s2_at] = group.io
    return tokens


def as_far(own: Outputs, other: Outputs, seed: int) -> Outputs:
    """Outputs that differ from own by as much as other does, in directions at random."""
    noise = torch.randn(own.shape, generator=torch.Generator().manual_seed(seed))
    length = (other - own).norm(dim=-1, keepdim=True)
    return own + noise * length / noise.norm(dim=-1, keepdim=True)


def donors(model: Model, group: Group, elsewhere: Group, seed: int) -> dict[str, Outputs]:
    """What the heads have at the end of other runs, by DONORS.

    elsewhere: the same names and roles, prompt by prompt, in another sentence.
    """
    if not (torch.equal(group.io, elsewhere.io) and torch.equal(group.s, elsewhere.s)):
        raise ValueError("elsewhere has other names than groups: give both the same seed")
    texts = group.tokens, group.other, swapped_roles(group), elsewhere.tokens
    own, other, swapped, same = (end_outputs(model, tokens) for tokens in texts)
    return dict(zip(DONORS, (other, swapped, same, as_far(own, other, seed)), strict=True))


def patched(
    model: Model,
    groups: list[Group],
    elsewhere: list[Group],
    sets: Mapping[object, list[Head]],
    ways: tuple[str, ...] = DONORS,
    seed: int = 0,
) -> dict[object, dict[str, Float[Tensor, " prompt"]]]:
    """Logit differences with each set of heads patched from each of the donors: {set: {way: …}}."""
    rows = {name: {way: [] for way in ways} for name in sets}
    for at, (g, other) in enumerate(zip(groups, elsewhere, strict=True)):
        outputs = donors(model, g, other, seed + at)
        for name, heads in sets.items():
            for way in ways:
                logits = end_logits(model, g.tokens, heads, outputs[way])
                rows[name][way].append(gap(logits, g.io, g.s))
    return {name: {w: torch.cat(each) for w, each in row.items()} for name, row in rows.items()}


def outputs_with_swapped(model: Model, group: Group, heads: Sequence[Head]) -> Outputs:
    """The heads' outputs at the end, those of some heads from swapped roles."""
    mixed, other = (end_outputs(model, x) for x in (group.tokens, swapped_roles(group)))
    for layer, head in heads:
        mixed[layer, :, head] = other[layer, :, head]
    return mixed


def held(
    model: Model, groups: list[Group], swapped: list[Head], kept: Mapping[str, list[Head]]
) -> dict[str, Float[Tensor, " prompt"]]:
    """Logit differences with heads patched from swapped roles, while others stay (path patching).

    kept: {name: heads that keep, at the end, the output of the run as it is}. What the swapped
    heads do through those is then gone.
    """
    rows = {name: [] for name in kept}
    for g in groups:
        mixed = outputs_with_swapped(model, g, swapped)
        for name, heads in kept.items():
            logits = end_logits(model, g.tokens, [*swapped, *heads], mixed)
            rows[name].append(gap(logits, g.io, g.s))
    return {name: torch.cat(each) for name, each in rows.items()}


def sizes(model: Model, groups: list[Group]) -> Float[Tensor, "layer head"]:
    """How far what a head writes at the end is from what it writes on other names; mean length."""
    found = []
    for group in groups:
        own, other = (end_outputs(model, tokens) for tokens in (group.tokens, group.other))
        step = torch.einsum("lphd,lhdm->lhpm", other - own, model.W_O)
        found.append(step.norm(dim=-1))
    return torch.cat(found, dim=-1).mean(dim=-1)


def size_matched(
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


def backup_heads(change: Float[Tensor, "layer head"], gone: list[Head], leave_out: list[Head]):
    """The three heads that grow most once others are gone, of later layers than the first gone."""
    change = change.clone()
    change[: min(head.layer for head in gone) + 1] = -torch.inf
    for head in {*gone, *leave_out}:
        change[head] = -torch.inf
    return [Head(*divmod(int(i), change.shape[1])) for i in change.flatten().topk(3).indices]
