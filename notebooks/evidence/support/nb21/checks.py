"""Causal tests of graphs for another guess, and of single edges."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from aot_helpers.models.protocol import Head
from chapters.nb21_information_flow.flow import Run, head_outputs
from chapters.nb21_information_flow.flow_graph import MEASURES, logit_directions
from chapters.nb21_information_flow.measure import Prompt
from evidence.support.nb21.edges import LastEdges, aim_of, last_edges
from evidence.support.nb21.masks import RANDOM, aims, alone, graph_masks, keep, n_kept

SHARE, NORM = MEASURES.index("share"), MEASURES.index("norm")


def injected(edges: LastEdges) -> dict[str, float]:
    """Does a graph find the answer, or write it: 1 where a run of a part says a token first.

    Of the second guess's graph, alone: whether it says "the second guess", or "the target" still.
    With MLPs, and no attention at all: "its neurons", of the target's graph; "all neurons"; and at
    the end as many neurons as the target's graph has edges, those that add most to the target ("by
    share"), or to the second guess ("by share, the second guess").
    """
    second, target = edges.second_guess, edges.prompt.target
    own, others = graph_masks(edges.graph), graph_masks(edges.graph_for_second_guess)
    tries = {"the second guess": (second, others), "the target": (target, others)}
    if edges.run.model.config.d_mlp:
        none, n = torch.zeros_like(own[0]), n_kept(own)
        tries["its neurons"] = target, (none, own[1])
        tries["all neurons"] = target, (none, torch.ones_like(own[1]))
        tries["by share"] = target, (none, _most_of(edges, own[1], n))
        toward = last_edges(edges.run.model, Prompt(edges.prompt.tokens, second))
        tries["by share, the second guess"] = second, (none, _most_of(toward, own[1], n))
    _, guesses = alone(edges, [kept for _, kept in tries.values()])
    rows = zip(tries.items(), guesses.tolist(), strict=True)
    return {name: float(guess == word) for (name, (word, _)), guess in rows}


def _most_of(edges: LastEdges, like: Tensor, n: int) -> Bool[Tensor, "layer pos neuron"]:
    """The n neurons at the last position that add or take most."""
    kept, sizes = torch.zeros_like(like), edges.neurons[SHARE].abs()
    places = sizes.flatten().argsort(descending=True).argsort()
    kept[:, -1] = (places < n).view_as(sizes)
    return kept


ONE_EDGE = ("strongest", "second", "longest other", "most attended other")


class OneEdge(NamedTuple):
    """Runs without one value each, by name: where it stands, and what the run says."""

    names: list[str]
    on_target: Bool[Tensor, " run"]
    aim: Float[Tensor, " run"]
    first: Float[Tensor, " run"]  # is the target the first guess


def one_edge(edges: LastEdges, draws: int, seed: int) -> OneEdge:
    """Each of some values cut.

    The strongest value is the one that adds most to the aim; ONE_EDGE names the others to compare
    it with, and the rest, "random", are drawn among all but the strongest.
    """
    share, draw = edges.values[SHARE], torch.Generator().manual_seed(seed)
    best = int(share.argmax())
    chosen = [best]
    for measure in (SHARE, NORM, 0):
        size = edges.values[measure].flatten().clone()
        size[best] = -torch.inf
        chosen.append(int(size.argmax()))
    others = torch.randperm(share.numel(), generator=draw).tolist()
    chosen += [i for i in others if i != best][:draws]
    names = [*ONE_EDGE, *[RANDOM] * (len(chosen) - len(ONE_EDGE))]
    on_target = edges.run.tokens[torch.tensor(chosen) % share.shape[-1]] == edges.prompt.target
    aim, guess = aims(edges, partial(keep, neurons=None), _without(edges, chosen))
    return OneEdge(names, on_target, aim, (guess == edges.prompt.target).float())


def _without(edges: LastEdges, chosen: list[int]) -> Bool[Tensor, "run layer head key"]:
    share = edges.values[SHARE]
    masks = torch.ones(len(chosen), share.numel(), dtype=torch.bool)
    masks[range(len(chosen)), chosen] = False
    return masks.view(-1, *share.shape)


@torch.no_grad()
def after_cut(edges: LastEdges) -> dict:
    """What cutting the strongest value changes, part by part: the changes add up to cut - aim.

    "head", "pos": where the value is; "direct": its share, which is lost at once, and what it adds
    "to target" and, if there is one, "to rival", each from the mean logit; "later heads" and "later
    MLPs": how much more the layers behind it add; "norm": what another σ of the last norm does.
    "largest": the later parts that change most, with what each added before and adds now.
    """
    run, prompt, share = edges.run, edges.prompt, edges.values[SHARE]
    model = run.model
    best = int(share.argmax())
    layer, number, pos = (int(i) for i in torch.unravel_index(torch.tensor(best), share.shape))
    W_O = model.head_weights(Head(layer, number)).W_O
    arrives = run.cache[f"L{layer}.v"][0, pos, number] @ W_O
    arrives = arrives * run.cache[f"L{layer}.pattern"][0, number, -1, pos]
    tokens = {"to target": prompt.target} | (
        {} if prompt.rival is None else {"to rival": prompt.rival}
    )
    to = (arrives @ logit_directions(run, list(tokens.values()))).tolist()
    edits = keep(_without(edges, [best]), None)
    logits, cache = model.run_with_cache(run.tokens[None], edits=edits)
    toward = logit_directions(run, [prompt.target], prompt.rival)[:, 0]
    now = replace(run, cache=cache, heads=head_outputs(model, cache))
    before, after = (_adds(each, toward) for each in (run, now))
    head = str(Head(layer, number))
    names = [name for name in before if name != head and after[name] != before[name]]
    later = [[name, before[name], after[name]] for name in names]
    later.sort(key=lambda row: -abs(row[2] - row[1]))
    more = {"head": 0.0, "MLP": 0.0}
    for name, was, is_now in later:
        more["MLP" if name.endswith("MLP") else "head"] += is_now - was
    cut = aim_of(logits[0, -1], prompt).item()
    moved = ((now.stream(run.layers.stop) - run.stream(run.layers.stop))[-1] @ toward).item()
    found = {"head": head, "pos": pos, "aim": edges.aim, "cut": cut}
    found |= {"direct": share.flatten()[best].item()} | dict(zip(tokens, to, strict=True))
    found |= {"later heads": more["head"], "later MLPs": more["MLP"]}
    return found | {"norm": cut - edges.aim - moved, "largest": later[:6]}


def _adds(run: Run, toward: Float[Tensor, " d_model"]) -> dict[str, float]:
    """What each head and MLP at the end adds along a direction, by name."""
    c, found = run.model.config, {}
    for layer in range(c.n_layers):
        for h, part in enumerate((run.heads[layer, :, -1] @ toward).tolist()):
            found[str(Head(layer, h))] = part
        if c.d_mlp:
            wrote = run.cache[f"L{layer}.mlp_out"][0, -1]
            found[f"L{layer} MLP"] = (wrote @ toward).item()
    return found
