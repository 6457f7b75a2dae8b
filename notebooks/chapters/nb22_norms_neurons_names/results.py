"""What notebook 22 measures of one model: norms, neurons, names; and its results in files."""

from typing import NamedTuple

import torch
from torch import Tensor

from aot_helpers.base.results import read, rounded
from aot_helpers.base.statistics import correlation
from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import lens, rank
from chapters.names import results as names
from chapters.nb22_norms_neurons_names import always_on, norms
from chapters.nb22_norms_neurons_names.texts import (
    Cost,
    Ends,
    cost,
    function_words,
    mean_activations,
    passages,
    read_ends,
    windows,
)

ORDERS, DIRECTIONS, DRAWS = 5, 3, 5  # of gains, of the stream, of other neurons


class NormRow(NamedTuple):
    """What the lens reads before and after one norm."""

    kept: float  # the function words' probability after it, divided by that before
    kept_of_random: float  # the same of random vectors
    kept_shuffled: list[float]  # the same with gain and bias in other orders
    before: float  # the function words' probability before it
    fallers: float  # the share of function words among the ten tokens that fall most
    fallers_of_random: float
    risers: float
    falls: list[str]
    rises: list[str]
    as_probable: list[float]  # kept by likely function words, and by other tokens as likely
    alike: float  # correlation of the change with that of Gaussian vectors of the same covariance
    random: float  # and with that of random vectors
    bare: float  # largest change of a probability by the norm without gain and bias


class PartsRow(NamedTuple):
    """One ln1 taken apart, and read vector by vector."""

    kept: dict[str, dict[str, float]]  # {part of the norm: {stream, random: share}}
    alike_shuffled: float  # as NormRow.alike, with gain and bias in another order
    one_by_one: float  # median correlation of a vector's change with that of the others
    rise: float  # share of the passages in which the function words rise


class NormCosts(NamedTuple):
    """What it costs (nats per token) to change one ln1; each third layer of more than 12."""

    whole: float  # the loss without any change
    even: list[float]  # with an even gain
    even_folded: list[float]  # with an even gain, and the old one in the matrices that read it
    as_far_at_random: list[float]
    words_back: list[float]
    random_back: list[list[float]]
    words_back_everywhere: float
    random_back_everywhere: list[float]


class Norms(NamedTuple):
    """Section 1; lists have an item for each layer."""

    ln1: list[NormRow]
    ln2: list[NormRow]
    parts: list[PartsRow]
    ln_final: list[dict[str, float]]
    cost: NormCosts


class Ablation(NamedTuple):
    """What setting neurons to zero, or to their mean, changes of the loss and the entropy."""

    zero: Cost
    mean: Cost

    @property
    def given_back(self) -> float:
        """The share of what zero costs that the mean gives back."""
        return 1 - self.mean.loss / self.zero.loss


class Neurons(NamedTuple):
    """Section 2; lists of rates have an item for each layer, others one for each neuron."""

    share: float  # of a layer's neurons, which count as the most active
    most: list[float]  # the share of passages in which the busiest neuron is among them
    most_shuffled: list[float]
    always_on: list[always_on.Written]
    random: list[always_on.Written]  # as many others
    as_long: list[always_on.Written]
    ablated: Ablation | None  # those that are always on, all at once; None: there are none
    others_ablated: list[Ablation]  # others, as large
    size: float  # mean contribution of a neuron that is always on
    sizes_of_others: list[float]


class Results(NamedTuple):
    """All that is measured of one model."""

    passages: int
    windows: list[int]
    norms: Norms
    neurons: Neurons
    names: names.NameResults


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 22 of `make data WHAT=pretrained`, of any model alike, as JSON has it."""
    texts = passages(seed=seed)
    ends, held_out = read_ends(model, texts), windows(model)
    found = Results(
        passages=len(texts),
        windows=list(held_out.shape),
        norms=measured_norms(model, ends, held_out[:8], seed),
        neurons=neurons(model, ends, held_out, windows(model, split="train"), seed),
        names=names.measured(model, seed),
    )
    return rounded(names.plain(found))


def parsed(found: dict) -> Results:
    """The results that `pretrained` has made a dict of."""
    n, m = found["norms"], found["neurons"]
    rows = {site: [NormRow(**row) for row in n[site]] for site in norms.SITES}
    parts, costs = [PartsRow(**row) for row in n["parts"]], NormCosts(**n["cost"])
    ablated = [
        each and Ablation(Cost(**each["zero"]), Cost(**each["mean"]))
        for each in (m["ablated"], *m["others_ablated"])
    ]
    kinds = ("always_on", "random", "as_long")
    written = {kind: [always_on.Written(**row) for row in m[kind]] for kind in kinds}
    ablations = {"ablated": ablated[0], "others_ablated": ablated[1:]}
    return Results(
        found["passages"],
        found["windows"],
        Norms(**n | rows | {"parts": parts, "cost": costs}),
        Neurons(**m | written | ablations),
        names.parsed(found["names"]),
    )


def read_results(name: str = "smollm2") -> Results:
    """What `make data WHAT=pretrained` measured of one model."""
    found = read(f"pretrained/22-{name}")
    return parsed({field: found[field] for field in Results._fields})


def measured_norms(model: Model, ends: Ends, tokens: Tensor, seed: int = 0) -> Norms:
    """Per site and layer, what the lens reads before and after a norm, and what changes cost."""
    return Norms(
        *(norm_rows(model, ends, site, seed) for site in norms.SITES),
        norm_parts(model, ends, seed),
        final_norm(model, ends, seed),
        norm_costs(model, tokens, seed),
    )


def norm_rows(model: Model, ends: Ends, site: str, seed: int = 0) -> list[NormRow]:
    """What the lens reads before and after the norms of one site, layer by layer."""
    words, rows = function_words(model.tokenizer), []
    for layer, x in enumerate(getattr(ends, site)):
        norm = norms.norm_at(model, layer, site)
        made = (x, norms.isotropic(x, seed), norms.alike(x, seed))
        real, random, alike = (norms.change(model, norm, each) for each in made)
        with norms.plain(norm):
            bare = norms.change(model, norm, x).largest
        shuffled = []
        for order in range(ORDERS + 1):
            with norms.in_another_order(norm, seed + order):
                shuffled.append(norms.change(model, norm, x).kept(words))
        falls, rises = real.falls(10), real.rises(10)
        shares = (words[at].float().mean().item() for at in (falls, random.falls(10), rises))
        rows.append(
            NormRow(
                real.kept(words),
                random.kept(words),
                shuffled,
                real.before[words].sum().item(),
                *shares,
                falls=model.tokenizer.token_strings(falls),
                rises=model.tokenizer.token_strings(rises),
                as_probable=list(norms.as_probable(real, words)),
                alike=correlation(real.difference, alike.difference),
                random=correlation(real.difference, random.difference),
                bare=bare,
            )
        )
    return rows


def norm_parts(model: Model, ends: Ends, seed: int = 0) -> list[PartsRow]:
    """Per ln1: its gain alone, its bias alone; passages one by one; entries in another order."""
    words, rows = function_words(model.tokenizer), []
    for layer, x in enumerate(ends.ln1):
        norm = norms.norm_at(model, layer, "ln1")
        vectors, kept = {"stream": x, "random": norms.isotropic(x, seed)}, {}
        for part in (norms.gain_only, norms.bias_only, norms.even):
            with part(norm):
                kept[part.__name__] = {
                    who: norms.change(model, norm, each).kept(words)
                    for who, each in vectors.items()
                }
        one, each_kept = norms.one_by_one(model, norm, x, words)
        with norms.in_another_order(norm, seed):
            real, alike = (
                norms.change(model, norm, v).difference for v in (x, norms.alike(x, seed))
            )
        rise = (each_kept > 1).float().mean().item()
        rows.append(PartsRow(kept, correlation(real, alike), one.median().item(), rise))
    return rows


def final_norm(model: Model, ends: Ends, seed: int = 0) -> list[dict[str, float]]:
    """Per layer, how much higher (log10) ranks are without the final norm in the lens.

    Of the model's own prediction, of that of another passage, of a random token.
    """
    generator, n = torch.Generator().manual_seed(seed), len(ends.guesses)
    tokens = {"own": ends.guesses, "another": ends.guesses.roll(1)}
    tokens["random"] = torch.randint(model.config.d_vocab, (n,), generator=generator)
    rows = []
    for x in ends.ln1:
        logits = [lens(model, x, norm=norm) for norm in (True, False)]
        ranks = {kind: [rank(each, ids) + 1 for each in logits] for kind, ids in tokens.items()}
        rows.append({k: (b.log10() - a.log10()).mean().item() for k, (a, b) in ranks.items()})
    return rows


def norm_costs(model: Model, tokens: Tensor, seed: int = 0) -> NormCosts:
    """What it costs to make one ln1 even, and to put the function words back in."""
    whole, n_layers = cost(model, tokens).loss, model.config.n_layers
    toward = norms.words_direction(model, function_words(model.tokenizer))
    generator = torch.Generator().manual_seed(seed)
    random = torch.randn(DIRECTIONS, len(toward), generator=generator)
    directions = [toward, *(random / random.norm(dim=-1, keepdim=True))]
    even, folded, far, back = [], [], [], []
    for layer in range(0, n_layers, 1 if n_layers <= 12 else 3):
        norm = norms.norm_at(model, layer, "ln1")
        with norms.even(norm):
            even.append(cost(model, tokens).loss - whole)
        with norms.folded(model, [layer]):
            folded.append(cost(model, tokens).loss - whole)
        far.append(cost(model, tokens, norms.evened_as_far(model, layer, seed)).loss - whole)
        edits = [norms.words_put_back(model, layer, toward, along) for along in directions]
        back.append([cost(model, tokens, edit).loss - whole for edit in edits])
    everywhere = []
    for along in directions:
        edits = {}
        for layer in range(n_layers):
            edits |= norms.words_put_back(model, layer, toward, along)
        everywhere.append(cost(model, tokens, edits).loss - whole)
    words_back, random_back = [row[0] for row in back], [row[1:] for row in back]
    in_all = everywhere[0], everywhere[1:]
    return NormCosts(whole, even, folded, far, words_back, random_back, *in_all)


def ablated(model: Model, tokens: Tensor, which: list, mean: Tensor) -> Ablation:
    """What setting neurons to zero, and to their mean, changes of the loss and the entropy."""
    whole, found = cost(model, tokens), []
    for to in (None, mean):
        now = cost(model, tokens, always_on.ablate_neurons(model, which, to))
        found.append(Cost(now.loss - whole.loss, now.entropy - whole.entropy))
    return Ablation(*found)


def neurons(model: Model, ends: Ends, tokens: Tensor, reference: Tensor, seed: int = 0) -> Neurons:
    """Neurons that are always on, what they write, and what they are for."""
    often, d_mlp = always_on.how_often(ends.hidden), model.config.d_mlp
    shuffled = always_on.how_often(always_on.shuffled(ends.hidden, seed))
    found, words = always_on.always_on(often), function_words(model.tokenizer)
    left_out = [*found, *always_on.busiest(often)]
    mean = mean_activations(model, reference)
    size = always_on.contributions(model, mean_activations(model, reference, power=2))
    generators = [torch.Generator().manual_seed(seed) for _ in range(2)]
    random = always_on.others(
        found, lambda _: torch.randperm(d_mlp, generator=generators[0]), left_out
    )
    as_long = always_on.others(
        found,
        always_on.nearest(always_on.lengths(model)),
        left_out,
        lambda free: free[int(torch.randint(5, (1,), generator=generators[1]))],
    )
    size_matched = [always_on.size_matched(found, size, left_out, draw) for draw in range(DRAWS)]
    kinds = [always_on.written(model, x, words, mean, often) for x in (found, random, as_long)]
    n = max(len(found), 1)
    return Neurons(
        max(1, round(always_on.SHARE * d_mlp)) / d_mlp,
        often.max(dim=-1).values.tolist(),
        shuffled.max(dim=-1).values.tolist(),
        *kinds,
        ablated(model, tokens, found, mean) if found else None,
        [ablated(model, tokens, which, mean) for which in size_matched if which],
        sum(size[neuron].item() for neuron in found) / n,
        [sum(size[neuron].item() for neuron in which) / n for which in size_matched],
    )


def first_late(n_layers: int) -> int:
    """The first layer of the last quarter: 18 of 24, as in VISIT, section 5.3."""
    return n_layers - max(1, round(n_layers / 4))
