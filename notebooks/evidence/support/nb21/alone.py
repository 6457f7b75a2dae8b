"""Evidence of notebook 21: graphs that are smaller, or drawn for another word, run alone."""

from collections.abc import Iterator, Sequence
from statistics import fmean, median

import pandas as pd
import torch
from torch import Tensor

from aot_helpers.reading.interventions import freeze_patterns, merge
from chapters.nb21_information_flow.flow_graph import prune
from evidence.support.nb21.checks import SHARE
from evidence.support.nb21.edges import LastEdges
from evidence.support.nb21.masks import (
    RANDOM,
    Masks,
    Means,
    alone,
    graph_masks,
    mask_edits,
    mean_edits,
    means_of,
    n_kept,
    random_masks,
)

RESTS = ("zero", "mean")


def _with_others(measured: Sequence[LastEdges]) -> Iterator[tuple[LastEdges, list[LastEdges]]]:
    """Each prompt, and all others."""
    for edges in measured:
        yield edges, [each for each in measured if each is not edges]


def _guesses(edges: LastEdges, kept: Masks, others: Sequence[LastEdges]) -> dict[str, int]:
    """The first guess with some masks alone, by what the rest is set to."""
    rests = zip(RESTS, (None, others), strict=True)
    return {rest: int(alone(edges, [kept], mean_of)[1]) for rest, mean_of in rests}


def _fractions(rows: list[tuple]) -> dict[str, dict[str, float]]:
    """Of rows (one name, another, true or false): the fraction that is true by both names."""
    fractions = pd.DataFrame(rows).groupby([0, 1], sort=False)[2].mean()
    return {name: fractions.xs(name).to_dict() for name in dict.fromkeys(row[0] for row in rows)}


def few_edges(measured: Sequence[LastEdges], least: float = 0.5) -> dict:
    """In how many prompts graphs say the right token, pruned to `least` of the strongest part.

    {"with keys": {rest: of the prompts}, "without keys": …, "edges": how many, with keys (median)}.
    """
    rows, sizes = [], []
    for edges, others in _with_others(measured):
        graphs = {"with keys": edges.graph, "without keys": edges.graph_without_keys}
        for name, graph in graphs.items():
            kept = graph_masks(prune(graph, least=least))
            sizes.append((name, n_kept(kept)))
            for rest, guess in _guesses(edges, kept, others).items():
                rows.append((name, rest, guess == edges.prompt.target))
    n_edges = pd.DataFrame(sizes).groupby(0)[1].median()
    return _fractions(rows) | {"edges": float(n_edges["with keys"])}


def for_another_word(measured: Sequence[LastEdges], n: int = 101) -> dict:
    """What graphs say that were drawn for the model's nth guess: {rest: {which word: fraction}}."""
    rows = []
    for edges, others in _with_others(measured):
        nth = _nth_guess(edges.run.cache["logits"][0, -1], n)
        kept = graph_masks(edges.graph_for(nth))
        for rest, guess in _guesses(edges, kept, others).items():
            rows.append((rest, "its guess", guess == nth))
            rows.append((rest, "the right token", guess == edges.prompt.target))
    return _fractions(rows)


def with_attention_kept(
    measured: Sequence[LastEdges], seed: int = 0
) -> dict[str, dict[str, float]]:
    """In how many prompts graphs without keys say the right token if all attention stays as it was.

    {"graph": {rest: of the prompts}, "random": the same of as many random edges}.
    """
    rows = []
    for i, (edges, others) in enumerate(_with_others(measured)):
        model, tokens = edges.run.model, edges.run.tokens[None]
        own, means = graph_masks(edges.graph_without_keys), means_of([e.run for e in others])
        for name, kept in (("graph", own), (RANDOM, random_masks(*own, seed=seed + i))):
            batch = [each[None] for each in kept]
            for rest, edits in (("zero", mask_edits(*batch)), ("mean", mean_edits(*batch, means))):
                as_it_was = merge(freeze_patterns(model, tokens), edits)
                guess = model(tokens, edits=as_it_was)[0, -1].argmax()
                rows.append((name, rest, bool(guess == edges.prompt.target)))
    return _fractions(rows)


def missing_edge(
    measured: Sequence[LastEdges], n: int = 8, longest: int = 24, least: float = 0.5
) -> dict[str, float]:
    """Which edge of layer 0 helps a graph without keys most that is wrong alone, the rest at means.

    {"best", "second": in how many of n prompts, of at most `longest` tokens, it leads from the
    token before into the place where the strongest value stands, "p": the median probability of the
    right token with it, "p before"}. Raises ValueError where fewer than n prompts are wrong.
    """
    hits, p_of = [], []
    for edges, others in _with_others(measured):
        tokens = edges.run.tokens
        kept, neurons = graph_masks(prune(edges.graph_without_keys, least=least))
        others = means_of([each.run for each in others])
        before, right = _p_target(edges, kept[None], neurons[None], others)
        if len(tokens) > longest or right[0]:
            continue
        free = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril() & ~kept[0]
        places = free.nonzero()  # [edge, (head, query, key)]
        tried = kept.repeat(len(places), 1, 1, 1, 1)
        head, query, key = places.T
        tried[range(len(places)), 0, head, query, key] = True
        p, _ = _p_target(edges, tried, neurons[None], others)
        reads = int(edges.values[SHARE].flatten().argmax()) % len(tokens)
        best = places[p.argsort(descending=True)[:2], 1:].tolist()
        hits.append([place == [reads, reads - 1] for place in best])
        p_of.append([before.item(), p.max().item()])
        if len(hits) == n:
            break
    else:
        raise ValueError(f"only {len(hits)} of the graphs are wrong alone, {n} are asked for")
    first, second = (fmean(x) for x in zip(*hits, strict=True))
    before, after = (median(x) for x in zip(*p_of, strict=True))
    return {"best": first, "second": second, "p before": before, "p": after}


def _p_target(
    edges: LastEdges, kept: Tensor, neurons: Tensor, means: Means
) -> tuple[Tensor, Tensor]:
    """[run] The target's probability, and does it lead by more than rounding; the rest at means."""
    target, logits = edges.prompt.target, []
    for some in kept.split(200):
        tokens = edges.run.tokens.expand(len(some), -1)
        blank = neurons.expand(len(some), *neurons.shape[1:])
        logits.append(edges.run.model(tokens, edits=mean_edits(some, blank, means))[:, -1])
    logits = torch.cat(logits)
    others = logits.clone()
    others[:, target] = -torch.inf
    return logits.softmax(dim=-1)[:, target], logits[:, target] - others.amax(dim=-1) > 1e-4


def _nth_guess(logits: Tensor, n: int) -> int:
    """The token in the nth place, from 1."""
    return int(torch.topk(logits, n).indices[-1])
