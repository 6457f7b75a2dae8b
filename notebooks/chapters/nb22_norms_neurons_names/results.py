"""All that notebook 22 measures of one model, as plain numbers, and the files that keep them."""

import torch
from torch import Tensor

from aot_helpers.base.results import rounded
from aot_helpers.base.statistics import correlation
from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import lens, rank
from chapters.names.pieces import (
    Ends,
    cost,
    function_words,
    mean_activations,
    passages,
    read_ends,
    windows,
)
from chapters.nb22_norms_neurons_names import always_on
from chapters.nb22_norms_neurons_names import norms as norm_words
from chapters.nb22_norms_neurons_names.name_results import names

ORDERS, DIRECTIONS, DRAWS = 5, 3, 5  # of gains, of the stream, of other neurons and heads
ALONE = 8  # so many of the neurons are silenced one by one


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 22 of `make data WHAT=pretrained`, of any model alike: norms, neurons, names."""
    texts = passages(seed=seed)
    ends, held_out = read_ends(model, texts), windows(model)
    found = {
        "passages": len(texts),
        "windows": list(held_out.shape),
        "norms": norms(model, ends, seed) | {"cost": norm_costs(model, held_out[:8], seed)},
        "neurons": neurons(model, ends, held_out, windows(model, split="train"), seed),
        "names": names(model, seed),
    }
    return rounded(found)


def norms(model: Model, ends: Ends, seed: int = 0) -> dict:
    """Section 1: per site and layer, what the lens reads before and after a norm."""
    words, strings = function_words(model.tokenizer), model.tokenizer.token_strings
    found = {"ln_final": final_norm(model, ends, seed), "apart": norms_apart(model, ends, seed)}
    for site in norm_words.SITES:
        rows = []
        for layer, x in enumerate(getattr(ends, site)):
            norm = norm_words.norm_at(model, layer, site)
            real = norm_words.change(model, norm, x)
            random, alike = (
                norm_words.change(model, norm, made(x, seed))
                for made in (norm_words.isotropic, norm_words.alike)
            )
            with norm_words.plain(norm):
                bare = norm_words.change(model, norm, x).largest
            orders = []
            for order in range(ORDERS + 1):
                with norm_words.in_another_order(norm, seed + order):
                    orders.append(norm_words.change(model, norm, x).left(words))
            falls, rises = norm_words.falling(real), norm_words.rising(real)
            rows.append(
                {
                    "left": real.left(words),
                    "left of random": random.left(words),
                    "left in other orders": orders,
                    "before": real.before[words].sum().item(),
                    "words among fallers": words[falls].float().mean().item(),
                    "words among fallers of random": words[norm_words.falling(random)]
                    .float()
                    .mean()
                    .item(),
                    "words among risers": words[rises].float().mean().item(),
                    "falls": strings(falls),
                    "rises": strings(rises),
                    "as probable": list(norm_words.as_probable(real, words)),
                    "alike": correlation(real.difference, alike.difference),
                    "random": correlation(real.difference, random.difference),
                    "bare": bare,
                }
            )
        found[site] = rows
    return found


def norms_apart(model: Model, ends: Ends, seed: int = 0) -> list[dict]:
    """Per ln1: its gain alone, its bias alone; passages one by one; entries in another order."""
    words, rows = function_words(model.tokenizer), []
    for layer, x in enumerate(ends.ln1):
        norm = norm_words.norm_at(model, layer, "ln1")
        made = {"stream": x, "random": norm_words.isotropic(x, seed)}
        row = {}
        for part in (norm_words.gain_only, norm_words.bias_only, norm_words.even):
            with part(norm):
                for who, each in made.items():
                    left = norm_words.change(model, norm, each).left(words)
                    row[f"{part.__name__}, {who}"] = left
        one, left = norm_words.one_by_one(model, norm, x, words)
        with norm_words.in_another_order(norm, seed):
            pair = (norm_words.change(model, norm, v) for v in (x, norm_words.alike(x, seed)))
            real, alike = (each.difference for each in pair)
        row["alike in another order"] = correlation(real, alike)
        row |= {"one by one": one.median().item(), "rise": (left > 1).float().mean().item()}
        rows.append(row)
    return rows


def final_norm(model: Model, ends: Ends, seed: int = 0) -> list[dict]:
    """Per layer, how much higher (log10) ranks are without the final norm in the lens.

    Of the model's own prediction, of that of another passage, of a random token.
    """
    generator, n = torch.Generator().manual_seed(seed), len(ends.guesses)
    tokens = {"own": ends.guesses, "another's": ends.guesses.roll(1)}
    tokens["random"] = torch.randint(model.config.d_vocab, (n,), generator=generator)
    rows = []
    for x in ends.ln1:
        logits = [lens(model, x, norm=norm) for norm in (True, False)]
        ranks = {kind: [rank(each, ids) + 1 for each in logits] for kind, ids in tokens.items()}
        rows.append({k: (b.log10() - a.log10()).mean().item() for k, (a, b) in ranks.items()})
    return rows


def norm_costs(model: Model, tokens: Tensor, seed: int = 0) -> dict:
    """What it costs (nats per token) to change one ln1; each third layer of more than 12."""
    whole, toward = cost(model, tokens).loss, norm_words.words_direction(
        model, function_words(model.tokenizer)
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    random = torch.randn(DIRECTIONS, len(toward), generator=generator)
    random = random / random.norm(dim=-1, keepdim=True)
    found = {"even": [], "even, read by others": [], "as far at random": []}
    found |= {"words back": [], "random back": []}
    layers = range(0, model.config.n_layers, 1 if model.config.n_layers <= 12 else 3)
    for layer in layers:
        norm = norm_words.norm_at(model, layer, "ln1")
        with norm_words.even(norm):
            found["even"].append(cost(model, tokens).loss - whole)
        with norm_words.folded(model, [layer]):
            found["even, read by others"].append(cost(model, tokens).loss - whole)
        far = norm_words.evened_as_far(model, layer, seed)
        found["as far at random"].append(cost(model, tokens, far).loss - whole)
        for name, each in {"words back": [toward], "random back": random}.items():
            edits = [norm_words.words_put_back(model, layer, toward, along) for along in each]
            found[name].append([cost(model, tokens, edit).loss - whole for edit in edits])
    found |= back_everywhere(model, tokens, toward, random)
    return found | {"whole": whole, "layers": list(layers)}


def back_everywhere(model: Model, tokens: Tensor, toward: Tensor, random: Tensor) -> dict:
    """What it costs to put the words back in all layers at once, and as much along others."""
    whole, costs = cost(model, tokens).loss, []
    for along in (toward, *random):
        edits = {}
        for layer in range(model.config.n_layers):
            edits |= norm_words.words_put_back(model, layer, toward, along)
        costs.append(cost(model, tokens, edits).loss - whole)
    return {"words back everywhere": costs[0], "random back everywhere": costs[1:]}


def neurons(model: Model, ends: Ends, tokens: Tensor, reference: Tensor, seed: int = 0) -> dict:
    """Section 2: neurons that are always on, or busiest, what they write, and what they are for."""
    often = always_on.how_often(ends.hidden)
    dealt = always_on.how_often(always_on.dealt_at_random(ends.hidden, seed))
    found, busiest = always_on.always_on(often), always_on.busiest(often)
    mean, words = mean_activations(model, reference), function_words(model.tokenizer)
    late = [neuron for neuron in busiest if neuron.layer >= first_late(model.config.n_layers)]
    whole = cost(model, tokens)

    def costs(which: list) -> dict:
        ways = {"zero": always_on.silence(model, which)}
        ways["mean"] = always_on.silence(model, which, mean)
        after = {way: cost(model, tokens, edits) for way, edits in ways.items()}
        return {
            way: {"loss": now.loss - whole.loss, "entropy": now.entropy - whole.entropy}
            for way, now in after.items()
        }

    def as_long(which: list, draw: int) -> list:
        return always_on.others_as_long(model, which, [*found, *busiest], seed + draw)

    size = always_on.contributions(model, mean_activations(model, reference, power=2))

    def as_large(which: list, draw: int) -> list:
        return always_on.others_as_large(which, size, [*found, *busiest], draw)

    def size_of(which: list) -> float:
        return sum(size[neuron].item() for neuron in which) / len(which)

    kinds = {"always on": found, "busiest": busiest}
    kinds |= {f"{kind}, as long": as_long(which, 0) for kind, which in [*kinds.items()]}
    for kind, which in (("always on", found), ("busiest", busiest)):
        kinds[f"{kind}, random"] = always_on.others_at_random(
            which, model.config.d_mlp, seed, [*found, *busiest]
        )
    read = always_on.written(model, sorted({n for x in kinds.values() for n in x}), words, mean)

    def told(which: list) -> list[dict]:
        return [
            {**read[at]._asdict(), "top": model.tokenizer.token_strings(read[at].top)}
            | {"name": str(at), "layer": at.layer, "often": often[at].item()}
            | {"mean": mean[at].item()}
            for at in which
        ]

    return {
        "share": max(1, round(always_on.SHARE * model.config.d_mlp)) / model.config.d_mlp,
        "most": often.max(dim=-1).values.tolist(),
        "most, dealt": dealt.max(dim=-1).values.tolist(),
        "whole": whole._asdict(),
        **{kind: told(which) for kind, which in kinds.items()},
        **{
            f"cost of {kind}": costs(which)
            | {"as large": [costs(as_large(which, draw)) for draw in range(DRAWS)]}
            | {"size": size_of(which)}
            | {"size of others": [size_of(as_large(which, draw)) for draw in range(DRAWS)]}
            for kind, which in (("always on", found), ("busiest late", late))
            if which
        },
        "cost of one": {str(each): costs([each]) for each in (found or late)[:ALONE]},
    }


def first_late(n_layers: int) -> int:
    """The first layer of the last quarter: 18 of 24, as in VISIT, section 5.3."""
    return n_layers - max(1, round(n_layers / 4))
