"""All that notebook 20 measures of one model, as plain numbers, and the files that keep them."""

from collections import Counter

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.base.results import rounded
from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import lens, probability, rank
from aot_helpers.text.corpora import load_corpus
from chapters.nb20_logit_lens.templates import (
    Fact,
    Prompts,
    by_kind,
    counterfact,
    our_facts,
    predictions,
    some,
)
from evidence.support.nb20 import patching, readings, removals
from evidence.support.nb20.readings import HEAD, LOTS, WHOSE, K, Readings, by_norm, shared

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


def shares(r: Readings) -> dict[str, Tensor]:
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


def more_shares(r: Readings) -> dict[str, Tensor]:
    """Of full readings: heads ordered by norm, random sums, queries and keys, MLP values."""
    norm, found = r.numbers["norm"], {}
    for b in TARGETS:
        for name, each in _pair(r, "head", b).items():
            found[f"by norm: {name}"] = by_norm(norm, each)
    for made in ("heads by lot", "heads by lot, of equal norm"):
        found[f"by norm: {made}"] = by_norm(norm, shared(r.ids, made, f"sum of {made}"))
    found["values by lot"] = shared(r.ids, "values by lot", "head of values by lot").mean(dim=2)
    found |= _pair(r, "query", "key") | _pair(r, "query without W_K", "key without W_Q")
    for said in LOTS:
        found |= _pair(r, f"query{said}", f"key of query{said}")
    top = r._replace(ids=r.ids | {"top value": r.ids["value"][..., 0, :]})
    found |= _pair(top, "key", "top value")
    for name in ("attention", "attention to the first token"):
        found[name] = r.numbers[name].mean(dim=2)
    if "MLP value" in r.ids:
        found |= _pair(r, "MLP value", "MLP output")
        found["MLP value by lot"] = shared(r.ids, "MLP value by lot", "MLP output by lot")
    return found


def tests(
    model: Model, prompts: Prompts, r: Readings, layers: list[int], seed: int = 0
) -> dict[str, Float[Tensor, "prompt layer"]]:
    """Every causal test in the chosen layers, which must have been read."""
    clean, found, k = removals.clean_run(model, prompts), {}, r.ids["final"].shape[-1]
    for layer in layers:
        one = {
            "heads": removals.heads_off(model, clean, r, layer, seed),
            "head": removals.head_off(model, clean, r, layer, seed),
            "token": removals.value_off(model, clean, layer, seed),
            "swap": removals.changed_tokens(model, clean, layer, seed),
            "made-up heads": removals.random_heads_off(model, clean, layer, k, seed),
            "made-up head": removals.random_head_off(model, clean, layer, k, seed),
            "patch": patching.patched(model, clean, layer, seed),
        }
        for test, values in one.items():
            for name, each in values.items():
                found.setdefault(f"{test}: {name}", []).append(each)
    found = {name: torch.stack(each, dim=1) for name, each in found.items()}
    first = torch.tensor(layers) == 0
    swaps = {name: each for name, each in found.items() if name.startswith("swap: ")}
    behind = {f"{name}, behind L0": x.masked_fill(first, torch.nan) for name, x in swaps.items()}
    return found | behind


def subjects(model: Model, prompts: Prompts, known: list[Fact] | None = None) -> int:
    """How many different things some facts are about: Norway once, in however many templates."""
    asked = {
        tuple(tokens[: last + 1].tolist())
        for tokens, last in zip(prompts.tokens, prompts.last, strict=True)
    }
    known = our_facts() if known is None else known
    return len(
        {f.subject for f in known if tuple(model.tokenizer.encode(f.prompt).tolist()) in asked}
    )


def measure(
    model: Model,
    texts: list[str] | None = None,
    counts: tuple[int, int, int] = (70, 40, 40),
    k: int = K,
    seed: int = 0,
    known: list[Fact] | None = None,
) -> dict:
    """Everything of one model: {"shares": {kind: {name: summary}}, "tests": {name: summary}, …}.

    "said": what it says most of each kind, and how often a name (" Oslo"); "subjects": of facts,
    how many there are among the right ones, and among those tested.

    texts: windows of these; None: facts, for a model that knows some: those known, or ours. counts:
    how many prompts answered rightly, how many of each other kind, on how many the causal tests are
    made. Of more than 8 layers every third is read, and the tests are made in every sixth, the last
    among them.
    Raises ValueError for a k beyond the vocabulary.
    """
    n, n_others, n_tests = counts
    n_layers, d_vocab = model.config.n_layers, model.config.d_vocab
    many = n_layers > 8
    layers = [i for i in range(n_layers) if not many or (n_layers - 1 - i) % 3 == 0]
    tested = layers[::-1][:: 2 if many else 1][::-1]
    kinds, found = by_kind(model, texts, n, n_others, seed, known), {"shares": {}, "said": {}}
    right, few, compared = kinds["right"], slice(n_tests), "p of the prediction"
    for kind, prompts in kinds.items():
        r = readings.read_prompts(model, prompts, k, layers, full=kind == "right", seed=seed)
        numbers = shares(r) | (more_shares(r) if kind == "right" else {})
        found["shares"][kind] = {name: summary(each) for name, each in numbers.items()}
        parts = {}
        if kind == "right":
            out = tests(model, some(right, few), r.some(few), tested, seed)
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
    facts = {"k": k, "d_vocab": d_vocab, "n_layers": n_layers, "n_heads": model.config.n_heads}
    how_many = {kind: len(prompts.last) for kind, prompts in kinds.items()}
    facts |= {"layers": layers, "tested": tested, "prompts": how_many, "seed": seed}
    if texts is None:
        facts["subjects"] = [subjects(model, some(right, rows), known) for rows in (slice(n), few)]
    return facts | {"n_tests": min(n_tests, how_many["right"])} | found


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


def as_steep(result: dict, made: str) -> float:
    """How much more the first of random vectors by norm shares with their sum than the others do,
    over the same of real heads. made: "by lot", with the heads' norms; "by lot, of equal norm".
    """
    real = first_minus_rest(result, "by norm: head | attention output")
    return first_minus_rest(result, f"by norm: heads {made}") / real


def specific(result: dict, gone: str, words: str = "words") -> float:
    """By how much more some words fall than another prompt's words when something goes."""
    return tested(result, f"{gone}, {words}") - tested(result, f"{gone}, other words")


def lost_more(result: dict, heads: str, which: str = "sharing", than: str = "others") -> float:
    """By how much more a sum's words fall when some of its heads go than when as many others do.

    heads: "heads", or "made-up heads", random vectors; which, than: as `chosen_heads` names them.
    """
    return specific(result, f"{heads}: {which}") - specific(result, f"{heads}: {than}")


def tested(result: dict, name: str) -> float:
    """One number of a causal test: the mean over prompts and layers."""
    return result["tests"][name]["mean"]


def by_rank(result: dict, equal: bool = False) -> dict[str, Float[Tensor, " rank"]]:
    """I_k of heads, by norm, with their layer's sum and another prompt's; and of random vectors.

    equal: of random vectors of equal norm as well.
    """
    names = {
        "real heads": "head | attention output",
        "real heads, another sum": f"head | attention output{OTHER}",
        "random, same norms": "heads by lot",
    } | ({"random, equal norms": "heads by lot, of equal norm"} if equal else {})
    rows = result["shares"]["right"]
    return {said: torch.tensor(rows[f"by norm: {n}"]["more"]).mean(0) for said, n in names.items()}


@torch.no_grad()
def example(model: Model, text: str = EXAMPLE) -> dict:
    """One text, layer by layer: {"top": the top token after each layer, "p" and "rank": of what the
    model says in the end at that place}, each [layer, pos], the embedding first.
    """
    tokens, strings = model.tokenizer.encode(text), model.tokenizer.token_strings
    logits, cache = model.run_with_cache(tokens[None])
    streams = [cache[f"L{i}.resid_pre"][0] for i in range(model.config.n_layers)]
    said, found = logits[0].argmax(dim=-1), {"top": [], "p": [], "rank": []}
    for stream in (*streams, cache["final_resid"][0]):
        now = lens(model, stream)
        found["top"].append(strings(now.argmax(dim=-1)))
        found["p"].append(probability(now, said).tolist())
        found["rank"].append(rank(now, said).tolist())
    tokens = {"tokens": strings(tokens), "said": strings(said)}
    return rounded(tokens | found)


def pretrained(model: Model, name: str) -> dict:
    """What `make data WHAT=pretrained` keeps of a model for notebook 20.

    A model of docstrings reads windows of docstrings; all others are asked for facts: a GPT-2 for
    those of CounterFact, as in the source, where the hub gives it; the others for ours.
    """
    if name.startswith("docstrings"):
        return measure(model, load_corpus("docstrings", "test", quiet=True).texts)
    known, told = None, "ours"
    if model.config.family == "gpt2":
        try:
            known, told = counterfact(), "CounterFact"
        except OSError as error:
            print(f"{name} is asked for facts of ours: {error}")
    found = measure(model, counts=(60, 40, 40), known=known)
    return found | {"facts": told, "example": example(model)}
