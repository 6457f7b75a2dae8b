"""Notebook 20, the tour: heads beside their sum, what a head adds and what it is worth, patches."""

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.protocol import Head, Model, all_heads
from chapters.nb20_logit_lens.controls import patched
from chapters.nb20_logit_lens.readings import written_by
from chapters.nb20_logit_lens.removals import centered, clean_run
from chapters.nb20_logit_lens.results import OTHER, first_minus_rest
from chapters.nb20_logit_lens.templates import Prompts, at_last, by_kind

PICKS = ("says it", "as large")  # the head that the lens picks, and another of its size


def heads_at_the_end(
    model: Model, texts: list[str], n: int = 70, seed: int = 0
) -> Float[Tensor, "prompt layer head d_model"]:
    """What each head writes at the last position of windows that the model continues rightly."""
    return outputs(model, by_kind(model, texts, n, seed=seed)["right"])


def outputs(model: Model, prompts: Prompts) -> Float[Tensor, "prompt layer head d_model"]:
    """What each head writes at the last position of each prompt."""
    z = clean_run(model, prompts).z
    layers = range(model.config.n_layers)
    return torch.stack([written_by(model, layer, z[:, layer]) for layer in layers], dim=1)


def top_of_sum(
    model: Model, parts: dict[str, Float[Tensor, " d_model"]], n: int = 5
) -> dict[str, list[tuple[str, float]]]:
    """Of some vectors and of their sum: the n top tokens, with their logits above the mean."""
    found = {}
    for name, x in (parts | {"sum": sum(parts.values())}).items():
        logits = centered(x @ model.W_U)
        ids = logits.topk(n).indices
        found[name] = list(
            zip(model.tokenizer.token_strings(ids), logits[ids].tolist(), strict=True)
        )
    return found


def direct_and_total(
    model: Model, prompts: Prompts
) -> dict[Head, tuple[Float[Tensor, " prompt"], Float[Tensor, " prompt"]]]:
    """Of each head: its direct effect on the answer's logit, and the fall once it is ablated.

    Both at the last position, above the mean over the vocabulary. The head is zero-ablated at all
    positions, so that what it wrote for later heads is gone as well.
    """
    written, found = outputs(model, prompts), {}
    answers, n_heads = prompts.answers[:, None], model.config.n_heads
    clean = _logits(model, prompts)
    for at in all_heads(model):
        on = torch.ones(n_heads, 1)
        on[at.head] = 0
        fall = clean - _logits(model, prompts, {f"L{at.layer}.z": lambda z, on=on: z * on})
        direct = centered(written[:, at.layer, at.head] @ model.W_U)
        found[at] = tuple(each.gather(1, answers)[:, 0] for each in (direct, fall))
    return found


def _logits(model: Model, prompts: Prompts, edits: dict | None = None) -> Tensor:
    runs = [at_last(model(p.tokens, edits=edits), p) for _, p in prompts.pieces(model)]
    return centered(torch.cat(runs))


def carried_by_pick(model: Model, prompts: Prompts, layer: int, seed: int = 0) -> dict[str, float]:
    """The test of 20.31 in one layer: by how many logits the other prompt's answer rises."""
    found = patched(model, clean_run(model, prompts), layer, seed)
    keys = {"picked by the lens": "says it, brought", "of its size": "as large, brought"}
    return {said: found[key].nanmean().item() for said, key in keys.items()}


def steepness(found: dict[str, dict], same_norms: bool) -> dict[str, float]:
    """How much more the first vector by norm shares with its sum than the others do: random
    vectors over real heads, of each model. same_norms: with the norms of the heads, or equal ones.
    """
    kind = "by norm: heads by lot" + ("" if same_norms else ", of equal norm")
    real = "by norm: head | attention output"
    return {n: first_minus_rest(r, kind) / first_minus_rest(r, real) for n, r in found.items()}


def print_shared(result: dict, layers: tuple[int, ...]) -> None:
    """Of k top tokens, how many a head shares with three vectors, and with another prompt's."""
    table, k = result["shares"]["right"], result["k"]
    targets = {
        "its layer's output": "attention output",
        "the stream after the layer": "block output",
    }
    for said, target in (targets | {"the final output": "final"}).items():
        own, other = (table[f"head | {target}{which}"]["layers"] for which in ("", OTHER))
        at = [result["layers"].index(layer) for layer in layers]
        told = [
            f"L{x} {k * own[i]:.1f} ({k * other[i]:.1f})" for x, i in zip(layers, at, strict=True)
        ]
        print(f"shared with {said} (with another prompt's): {', '.join(told)}")


def print_ranges(found: dict[int, dict[str, list]]) -> None:
    """The ranges of {k: {kind: [(with, without)]}}, whose pairs are of layers 0 and 1 in turn."""
    for k, kinds in found.items():
        for kind, pairs in kinds.items():
            ends = []
            for i, said in enumerate(("with the head in the sum", "without it")):
                both = [pair[i] for pair in pairs]
                ends.append(f"{min(both):.2f} to {max(both):.2f} {said}")
            late = [pair[1] for pair in pairs[1::2]]
            ends.append(f"in layer 1 alone {min(late):.2f} to {max(late):.2f}")
            print(f"k = {k}, {kind}: {', '.join(ends)}")
