"""All that notebook 20 measures of one model, as plain numbers, and the files that keep them."""

from collections import Counter

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.base.results import rounded
from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import lens, probability, rank
from aot_helpers.text.corpora import load_corpus
from chapters.nb20_logit_lens.measure import Prompts, predictions, subset, windows
from evidence.support.nb20 import interventions
from evidence.support.nb20.prompts import Fact, apart, by_kind, counterfact, facts, our_facts
from evidence.support.nb20.readings import (
    HEAD,
    LOTS,
    WHOSE,
    K,
    Readings,
    by_norm,
    read_prompts,
    shared,
)

EXAMPLE = "The capital of Norway is"
TARGETS = ("attention output", "block output", "final")
OTHER = ", another prompt"
RESAMPLES = 400
SMOL = "SmolLM2-135M-Instruct (4 bits)"  # the shipped results are of this model


def summary(values: Float[Tensor, "prompt layer *more"]) -> dict:
    """Means over prompts, and the middle 95 % of those of resampled prompts.

    "mean" and "interval" over all layers; "layers", "low" and "high" by layer; "more" by layer and
    head or rank. NaN is left out; layers without a number are None.
    """
    values = values.double()
    each = values.flatten(2).nanmean(dim=2) if values.ndim > 2 else values
    whole = each.nanmean(dim=1, keepdim=True)
    draw = torch.Generator().manual_seed(0)
    at = torch.randint(len(each), (RESAMPLES, len(each)), generator=draw)
    both = torch.cat([whole, each], dim=1)
    means = torch.stack([both[rows].nanmean(dim=0) for rows in at])
    ends = means.nanquantile(torch.tensor([0.025, 0.975], dtype=torch.double), dim=0)
    found = {"mean": both.nanmean(dim=0)[0], "interval": ends[:, 0]}
    found |= {"layers": each.nanmean(dim=0), "low": ends[0, 1:], "high": ends[1, 1:]}
    if values.ndim > 2:
        found["more"] = values.nanmean(dim=0)
    return {name: rounded(part.tolist()) for name, part in found.items()}


def overlaps(r: Readings) -> dict[str, Tensor]:
    """Of any prompts: the words that a layer's parts share, and what becomes of the prediction."""
    found = {}
    for a in HEAD:
        for b in TARGETS:
            found |= _pair(r, a, b)
    found |= {name: each.mean(dim=2) for name, each in _pair(r, "value", "head").items()}
    found |= _pair(r, "attention output", "residual")
    first = torch.tensor(r.layers) == 0  # it has none before it
    for name, each in _pair(r, "attention output", "one before").items():
        found[name] = each.masked_fill(first, torch.nan)
    k = r.ids["final"].shape[-1]
    for whose in WHOSE:
        ranks = r.numbers[f"rank of {whose} token"]
        found[f"{whose} token in the top k"] = (ranks < k).float().mean(dim=2)
    return found | {"p of the prediction": r.numbers["p of the prediction"]}


def _pair(r: Readings, a: str, b: str) -> dict[str, Tensor]:
    return {f"{a} | {b}": shared(r.ids, a, b), f"{a} | {b}{OTHER}": shared(r.ids, a, b, True)}


def more_overlaps(r: Readings) -> dict[str, Tensor]:
    """Of full readings: heads ordered by norm, random sums, queries and keys, MLP values."""
    norm, found = r.numbers["norm"], {}
    for b in TARGETS:
        for name, each in _pair(r, "head", b).items():
            found[f"by norm: {name}"] = by_norm(norm, each)
    for made in ("heads by lot", "heads by lot, of equal norm"):
        found[f"by norm: {made}"] = by_norm(norm, shared(r.ids, made, f"sum of {made}"))
    found["values by lot"] = shared(r.ids, "values by lot", "head of values by lot").mean(dim=2)
    found |= _pair(r, "query", "key") | _pair(r, "query without W_K", "key without W_Q")
    for suffix in LOTS:
        found |= _pair(r, f"query{suffix}", f"key of query{suffix}")
    top = r._replace(ids=r.ids | {"top value": r.ids["value"][..., 0, :]})
    found |= _pair(top, "key", "top value")
    for name in ("attention", "attention to the first token"):
        found[name] = r.numbers[name].mean(dim=2)
    if "MLP value" in r.ids:
        found |= _pair(r, "MLP value", "MLP output")
        found["MLP value by lot"] = shared(r.ids, "MLP value by lot", "MLP output by lot")
    return found


def tests(
    model: Model, prompts: Prompts, layers: list[int], seed: int = 0
) -> dict[str, Float[Tensor, "prompt layer"]]:
    """Every causal test in the chosen layers."""
    clean, found = interventions.clean_run(model, prompts), {}
    for layer in layers:
        at = model, clean, layer
        one = {
            "heads": interventions.heads_off(*at, K, seed),
            "head": interventions.head_off(*at, K, seed),
            "token": interventions.value_off(*at, seed),
            "swap": interventions.changed_tokens(*at, seed),
            "made-up heads": interventions.heads_off(*at, K, seed, random=True),
            "made-up head": interventions.head_off(*at, K, seed, random=True),
            "patch": interventions.patched(*at, seed),
        }
        for test, values in one.items():
            for name, each in values.items():
                found.setdefault(f"{test}: {name}", []).append(each)
    found = {name: torch.stack(each, dim=1) for name, each in found.items()}
    first = torch.tensor(layers) == 0
    swaps = {name: each for name, each in found.items() if name.startswith("swap: ")}
    behind = {f"{name}, behind L0": x.masked_fill(first, torch.nan) for name, x in swaps.items()}
    return found | behind


def subjects(model: Model, prompts: Prompts, known: list[Fact]) -> int:
    """How many different things some facts are about: Norway once, in however many templates."""
    pairs = zip(prompts.tokens, prompts.last, strict=True)
    asked = {tuple(tokens[: last + 1].tolist()) for tokens, last in pairs}
    encode = model.tokenizer.encode
    return len({fact.subject for fact in known if tuple(encode(fact.prompt).tolist()) in asked})


def measure(
    model: Model,
    texts: list[str] | None = None,
    counts: tuple[int, int, int] = (60, 40, 40),
    seed: int = 0,
    known: list[Fact] | None = None,
) -> dict:
    """Everything of one model: {"shares": {kind: {name: summary}}, "tests": {name: summary}, …}.

    "said": what it says most of each kind, and how often a name (" Oslo"); "subjects": of facts,
    how many there are among the right ones, and among those tested.

    texts: windows of these; None: facts, for a model that knows some: those known, or ours; prompts
    that begin alike are set `apart`. counts: how many prompts answered rightly, how many of each
    other kind, on how many the causal tests are made. Of more than 8 layers every third is read,
    and the tests are made in every sixth, the last among them.
    """
    n, n_others, n_tests = counts
    n_layers, d_vocab = model.config.n_layers, model.config.d_vocab
    many = n_layers > 8
    layers = [i for i in range(n_layers) if not many or (n_layers - 1 - i) % 3 == 0]
    tested = layers[::-1][:: 2 if many else 1][::-1]
    if texts is None:
        known = known or our_facts()
        kinds = by_kind(model, facts(model, known, seed), n, n_others, seed)
        kinds = {kind: apart(each) for kind, each in kinds.items()}
    else:
        kinds = by_kind(model, windows(model, texts, len(texts), seed), n, n_others, seed)
    right, compared = kinds["right"], "p of the prediction"
    found = {"k": K, "d_vocab": d_vocab, "n_layers": n_layers, "n_heads": model.config.n_heads}
    found |= {"layers": layers, "tested": tested, "seed": seed, "shares": {}, "said": {}}
    found["prompts"] = {kind: len(prompts.last) for kind, prompts in kinds.items()}
    found["n_tests"] = min(n_tests, len(right.last))
    if texts is None:
        some = (subset(right, slice(most)) for most in (n, n_tests))
        found["subjects"] = [subjects(model, each, known) for each in some]
    for kind, prompts in kinds.items():
        r = read_prompts(model, prompts, layers, full=kind == "right", seed=seed)
        numbers = overlaps(r) | (more_overlaps(r) if kind == "right" else {})
        found["shares"][kind] = {name: summary(each) for name, each in numbers.items()}
        parts = {}
        if kind == "right":
            out = tests(model, subset(right, slice(n_tests)), tested, seed)
            found["tests"] = {name: summary(each) for name, each in out.items()}
            parts = {"one half": slice(0, None, 2), "other half": slice(1, None, 2)}
        said = model.tokenizer.token_strings(predictions(model, prompts))
        found["said"][kind] = Counter(said).most_common(3)
        names = torch.tensor([each[:1] == " " and each[1:2].isupper() for each in said])
        if names.any():
            parts[f"{kind}, names"] = names
            found["said"][f"{kind}, names"] = int(names.sum())
        for part, rows in parts.items():
            found["shares"][part] = {compared: summary(numbers[compared][rows])}
    return found


def mean(result: dict, name: str, kind: str = "right") -> float:
    """What two readings share, or another number of a reading: mean over prompts and layers."""
    return result["shares"][kind][name]["mean"]


def above(result: dict, name: str, kind: str = "right") -> float:
    """I_k of a pair of readings minus that with another prompt's."""
    return mean(result, name, kind) - mean(result, name + OTHER, kind)


def first_minus_rest(result: dict, name: str, last: bool = False) -> float:
    """Of a ranking: the first minus the mean of the rest, or minus the last one."""
    rows = torch.tensor(result["shares"]["right"][name]["more"])
    return (rows[:, 0] - (rows[:, -1] if last else rows[:, 1:].mean(dim=1))).mean().item()


def tested(result: dict, name: str) -> float:
    """One number of a causal test: the mean over prompts and layers."""
    return result["tests"][name]["mean"]


def specific(result: dict, gone: str, words: str = "words") -> float:
    """By how much more some words fall than another prompt's words when something goes."""
    return tested(result, f"{gone}, {words}") - tested(result, f"{gone}, other words")


@torch.no_grad()
def example(model: Model) -> dict:
    """EXAMPLE, layer by layer: {"top": the top token after each layer, "p" and "rank": of what the
    model says in the end at that place}, each [layer, pos], the embedding first.
    """
    tokens, strings = model.tokenizer.encode(EXAMPLE), model.tokenizer.token_strings
    logits, cache = model.run_with_cache(tokens[None])
    streams = [cache[f"L{i}.resid_pre"][0] for i in range(model.config.n_layers)]
    said = logits[0].argmax(dim=-1)
    layers = [lens(model, stream) for stream in (*streams, cache["final_resid"][0])]
    return rounded(
        {
            "tokens": strings(tokens),
            "said": strings(said),
            "top": [strings(each.argmax(dim=-1)) for each in layers],
            "p": [probability(each, said).tolist() for each in layers],
            "rank": [rank(each, said).tolist() for each in layers],
        }
    )


def pretrained(model: Model, name: str) -> dict:
    """What `make data WHAT=pretrained` keeps of a model for notebook 20.

    A model of docstrings reads windows of docstrings; all others are asked for facts: a GPT-2 for
    those of CounterFact, as in the source, where the hub gives it; the others for ours.
    """
    if name.startswith("docstrings"):
        texts = load_corpus("docstrings", "test", quiet=True).texts
        return measure(model, texts, counts=(70, 40, 40))
    known, source = None, "ours"
    if model.config.family == "gpt2":
        try:
            known, source = counterfact(), "CounterFact"
        except OSError as error:
            print(f"{name} is asked for facts of ours: {error}")
    return measure(model, known=known) | {"facts": source, "example": example(model)}
