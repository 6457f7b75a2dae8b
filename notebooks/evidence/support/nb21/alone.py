"""Evidence of notebook 21: graphs that are smaller, or drawn for another word, run alone."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median

import torch
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.reading.interventions import freeze_patterns, merge
from chapters.nb21_information_flow.flow_graph import prune
from chapters.nb21_information_flow.graphs import graph_masks, n_kept, pruned, random_masks
from chapters.nb21_information_flow.measure import Prompt
from evidence.support.nb21.checks import SHARE, alone, alone_at_means, mask_edits, mean_edits
from evidence.support.nb21.edges import LastEdges, Means, means_of

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


def with_attention_kept(
    model: Model, measured: Sequence[LastEdges], seed: int = 0
) -> dict[str, dict[str, float]]:
    """In how many prompts graphs without keys say the right token if all attention stays as it was.

    {"graph": {rest: of the prompts}, "random": the same of as many random edges}.
    """
    found = {name: {rest: [] for rest in RESTS} for name in ("graph", "random")}
    for i, edges in enumerate(measured):
        tokens = edges.run.tokens[None]
        others = [each.run for each in measured if each is not edges]
        own, means = graph_masks(pruned(edges, keys=False)), means_of(others)
        for name, kept in (("graph", own), ("random", random_masks(*own, seed=seed + i))):
            batch = [each[None] for each in kept]
            for rest, edits in (("zero", mask_edits(*batch)), ("mean", mean_edits(*batch, means))):
                as_it_was = merge(freeze_patterns(model, tokens), edits)
                said = model(tokens, edits=as_it_was)[0, -1].argmax()
                found[name][rest].append(float(said == edges.prompt.target))
    return {name: {rest: fmean(x) for rest, x in rows.items()} for name, rows in found.items()}


def missing_edge(
    model: Model, measured: Sequence[LastEdges], n: int = 8, longest: int = 24, least: float = 0.5
) -> dict[str, float]:
    """Which edge of layer 0 helps a graph without keys most that is wrong alone, the rest at means.

    {"best", "second": in how many of n prompts, of at most `longest` tokens, it leads from the
    token before into the place where the strongest value stands, "p": the median probability of the
    right token with it, "p before"}. Raises ValueError where fewer than n prompts are wrong.
    """
    hits, p_of = [], []
    for edges in measured:
        tokens = edges.run.tokens
        kept, neurons = graph_masks(prune(pruned(edges, keys=False), least=least))
        others = means_of([each.run for each in measured if each is not edges])
        start = _p_target(model, edges, kept[None], neurons[None], others)[0]
        if len(tokens) > longest or start[1]:
            continue
        free = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril() & ~kept[0]
        places = free.nonzero()  # [edge, (head, query, key)]
        tried = kept.repeat(len(places), 1, 1, 1, 1)
        head, query, key = places.T
        tried[range(len(places)), 0, head, query, key] = True
        p = torch.tensor(
            [each[0] for each in _p_target(model, edges, tried, neurons[None], others)]
        )
        reads = int(edges.values[SHARE].flatten().argmax()) % len(tokens)
        best = places[p.argsort(descending=True)[:2], 1:].tolist()
        hits.append([place == [reads, reads - 1] for place in best])
        p_of.append([start[0], p.max().item()])
        if len(hits) == n:
            break
    else:
        raise ValueError(f"only {len(hits)} of the graphs are wrong alone, {n} are asked for")
    first, second = (fmean(x) for x in zip(*hits, strict=True))
    before, after = (median(x) for x in zip(*p_of, strict=True))
    return {"best": first, "second": second, "p before": before, "p": after}


def _p_target(
    model: Model, edges: LastEdges, kept: Tensor, neurons: Tensor, means: Means
) -> list[tuple[float, bool]]:
    """The target's probability, and does it lead by more than rounding; the rest at means."""
    found = []
    for some in kept.split(200):
        tokens = edges.run.tokens.expand(len(some), -1)
        blank = neurons[:1].expand(len(some), *neurons.shape[1:])
        logits = model(tokens, edits=mean_edits(some, blank, means))[:, -1]
        p = logits.softmax(dim=-1)[:, edges.prompt.target].tolist()
        rivals = logits.clone()
        rivals[:, edges.prompt.target] = -torch.inf
        lead = logits[:, edges.prompt.target] - rivals.amax(dim=-1)
        found += zip(p, (lead > 1e-4).tolist(), strict=True)
    return found


def _guess(logits: Tensor, n: int) -> int:
    """The token in the nth place, from 1."""
    return int(torch.topk(logits, n).indices[-1])
