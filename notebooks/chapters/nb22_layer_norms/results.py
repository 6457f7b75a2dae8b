"""What notebook 22 measures of one model's layer norms; and its results in files."""

from typing import NamedTuple

import torch
from torch import Tensor

from aot_helpers.base.results import plain, read, rounded
from aot_helpers.base.statistics import correlation
from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import lens, rank
from chapters.nb22_layer_norms import norms
from chapters.passages.texts import Ends, cost, function_words, passages, read_ends, windows

ORDERS, DIRECTIONS = 5, 3  # of gains, of the stream


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
    """Lists have an item for each layer."""

    ln1: list[NormRow]
    ln2: list[NormRow]
    parts: list[PartsRow]
    ln_final: list[dict[str, float]]
    cost: NormCosts


class Results(NamedTuple):
    """All that is measured of one model."""

    passages: int
    windows: list[int]
    norms: Norms


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 22 of `make data WHAT=pretrained`, of any model alike, as JSON has it."""
    texts = passages(seed=seed)
    ends, held_out = read_ends(model, texts), windows(model)
    found = measured_norms(model, ends, held_out[:8], seed)
    return rounded(plain(Results(len(texts), list(held_out.shape), found)))


def parsed(found: dict) -> Results:
    """The results that `pretrained` has made a dict of."""
    n = found["norms"]
    rows = {site: [NormRow(**row) for row in n[site]] for site in norms.SITES}
    rows |= {"parts": [PartsRow(**row) for row in n["parts"]], "cost": NormCosts(**n["cost"])}
    return Results(found["passages"], found["windows"], Norms(**n | rows))


def read_results(name: str = "smollm2") -> Results:
    """What `make data WHAT=pretrained` measured of one model."""
    return parsed(read(f"pretrained/22-{name}"))


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
