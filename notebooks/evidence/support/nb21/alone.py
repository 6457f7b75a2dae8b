"""Evidence of notebook 21: graphs that are smaller, or drawn for another word, run alone."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

import torch
from torch import Tensor

from aot_helpers.models.protocol import Model
from chapters.nb21_information_flow.flow_graph import prune
from chapters.nb21_information_flow.graphs import graph_masks, n_kept, pruned
from chapters.nb21_information_flow.measure import Prompt
from evidence.support.nb21.checks import alone, alone_at_means
from evidence.support.nb21.edges import LastEdges

RESTS = ("zero", "mean")


def _says(
    model: Model, edges: LastEdges, words: Sequence[int], kept: tuple, others: Sequence[LastEdges]
) -> dict[str, list[float]]:
    """1 for each word that a graph alone says first: {what the rest is set to: [word]}."""
    aims = [replace(edges, prompt=Prompt(edges.prompt.tokens, word)) for word in words]
    return {
        "zero": [alone(model, aim, [kept])[1].item() for aim in aims],
        "mean": [alone_at_means(model, aim, [kept], others)[1].item() for aim in aims],
    }


def few_edges(model: Model, measured: Sequence[LastEdges], least: float = 0.5) -> dict:
    """In how many prompts graphs say the right token, pruned to `least` of the strongest part.

    {"with keys": {rest: of the prompts}, "without keys": …, "edges": how many, with keys (median)}.
    """
    found = {name: {rest: [] for rest in RESTS} for name in ("with keys", "without keys")}
    sizes = []
    for edges in measured:
        others = [each for each in measured if each is not edges]
        for keys, name in ((True, "with keys"), (False, "without keys")):
            graph = prune(pruned(edges, keys), least=least)
            if keys:
                sizes.append(n_kept(graph))
            said = _says(model, edges, [edges.prompt.target], graph_masks(graph), others)
            for rest, (right,) in said.items():
                found[name][rest].append(right)
    means = {name: {rest: fmean(x) for rest, x in rows.items()} for name, rows in found.items()}
    return means | {"edges": median(sizes)}


def for_another_word(model: Model, measured: Sequence[LastEdges], n: int = 101) -> dict:
    """What graphs say that were drawn for the model's nth guess: {rest: {which word: share}}."""
    found: dict[str, list[list[float]]] = {rest: [] for rest in RESTS}
    for edges in measured:
        others = [each for each in measured if each is not edges]
        guess = _guess(edges.run.cache["logits"][0, -1], n)
        kept = graph_masks(pruned(edges, target=guess))
        said = _says(model, edges, [guess, edges.prompt.target], kept, others)
        for rest, both in said.items():
            found[rest].append(both)
    words = ("its guess", "the right token")
    return {
        rest: dict(zip(words, map(fmean, zip(*rows, strict=True)), strict=True))
        for rest, rows in found.items()
    }


def _guess(logits: Tensor, n: int) -> int:
    """The token in the nth place, from 1."""
    return int(torch.topk(logits, n).indices[-1])
