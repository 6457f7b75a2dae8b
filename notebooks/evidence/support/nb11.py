"""Evidence of notebook 11: heads taken out, facts moved from prompt to prompt, paths cut."""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.losses import copy_losses, in_context_score, next_token_losses
from aot_helpers.models.protocol import Edits, Head, Model, all_heads
from aot_helpers.reading.interventions import ablate, freeze_patterns, merge, patch_heads
from aot_helpers.reading.paths import check_additive, check_next_token
from aot_helpers.text.tokenization import Tokenizer
from chapters.nb11_causal_tests.measure import as_long_as

Texts = Int[Tensor, "text pos"]
OtherTexts = Int[Tensor, "other_text other_pos"]
EARLY, LATE = (4, 12), (96, 127)  # losses of an in-context score, as in notebook 09


def constant_fractions(model: Model, tokens: Texts, layer: int) -> Float[Tensor, " head"]:
    """For each head of a layer: the squared length of its mean output, by its mean squared length.

    1: it says the same at every place of every text. 0: its mean is nothing.
    """
    with torch.no_grad():
        z = model.run_with_cache(tokens)[1][f"L{layer}.z"].flatten(0, 1)  # [place, head, d_head]
    return z.mean(dim=0).square().sum(dim=-1) / z.square().sum(dim=-1).mean(dim=0)


def random_constants(reference: dict, heads: list[Head], generator: torch.Generator) -> Edits:
    """Edits that put, for each head, a vector at random in place of what it says.

    It is the same at every place, and as long as the head's mean in the cache `reference`.
    """
    edits = {}
    for layer, number in heads:
        mean = reference[f"L{layer}.z"][:, :, number].mean(dim=(0, 1))
        say = partial(_say, new=as_long_as(mean, generator), head=number)
        edits = merge(edits, {f"L{layer}.z": say})
    return edits


def loss_rise_with_random_constants(
    model: Model, tokens: Texts, others: OtherTexts, head: Head, n_draws: int, seed: int
) -> float:
    """By how much the first copy's loss rises with a constant in place of what a head says.

    Mean over n_draws constants; see `random_constants`.
    """
    with torch.no_grad():
        reference = model.run_with_cache(others)[1]
    generator = torch.Generator().manual_seed(seed)
    whole, rises = copy_losses(model, tokens)[0], []
    for _ in range(n_draws):
        edits = random_constants(reference, [head], generator)
        rises.append(copy_losses(model, tokens, edits)[0] - whole)
    return sum(rises) / n_draws


def leaves_first(
    model: Model, tokens: Texts, readers: list[Head], edits: Edits
) -> tuple[list[float], list[float]]:
    """How often each reader, of layer 1, leaves BOS: for an accident, and for a true match.

    The shares of queries of the first copy at which any other key has more attention than BOS, and
    of those of the second copy at which the right key has. tokens: BOS, then a segment without
    repeats twice; the first token asks nothing.
    """
    with torch.no_grad():
        patterns = model.run_with_cache(tokens, edits=edits)[1]["L1.pattern"]
    n = (tokens.shape[1] - 1) // 2
    first, second = torch.arange(2, n + 1), torch.arange(n + 1, 2 * n)
    accidents, matches = [], []
    for _, head in readers:
        pattern, on_bos = patterns[:, head], patterns[:, head, :, 0]
        accidents.append(pattern[:, first, 1:].amax(dim=-1) > on_bos[:, first])
        matches.append(pattern[:, second, second - n + 1] > on_bos[:, second])
    return tuple([each.float().mean().item() for each in found] for found in (accidents, matches))


def predicts_others(model: Model, tokens: Texts, others: Texts, heads: list[Head]) -> float:
    """The share of the second copy whose best guess is the token of `others` at that place.

    The heads say what they say of `others`: each text BOS, then a segment twice.
    """
    with torch.no_grad():
        logits = model(tokens, edits=ablate(model, heads, "resample", others))
    start = (tokens.shape[1] - 1) // 2 + 1
    return (logits[:, start:-1].argmax(dim=-1) == others[:, start + 1 :]).float().mean().item()


def log_odds(
    model: Model, tokens: Texts, edits: Edits
) -> tuple[Float[Tensor, "text place"], Float[Tensor, "text place"], Float[Tensor, "text place"]]:
    """Of each next token in the second copy: its logit above the average logit, its lead over all
    others together (log-odds), and its loss, log(1 + exp(-lead)).
    """
    start = (tokens.shape[1] - 1) // 2 + 1
    with torch.no_grad():
        logits = model(tokens, edits=edits)[:, start:-1]
    at = tokens[:, start + 1 :, None]
    right = logits.gather(-1, at)[..., 0]
    others = logits.scatter(-1, at, -torch.inf).logsumexp(dim=-1)
    lead = right - others
    return right - logits.mean(dim=-1), lead, torch.nn.functional.softplus(-lead)


def meetings(
    tokenizer: Tokenizer, couples: list[tuple[str, str]]
) -> tuple[dict[str, Texts], tuple[Int[Tensor, "pair 1"], Int[Tensor, "pair 1"]]]:
    """Prompts about two people, with one fact changed, and the first tokens of both answers.

    "clean": "Then Mira Soken met Pelo Balis near the river. Then Mira"; "what": the family names
    exchanged; "where": the first names exchanged. In both, the answer changes from Soken to Balis.
    Raises ValueError for names that are not cut into as many tokens, or that begin alike.
    """
    prompts, answers = {"clean": [], "what": [], "where": []}, []
    for one, two in couples:
        (a, family_a), (b, family_b) = one.split(), two.split()
        people = {"clean": (one, two), "what": (f"{a} {family_b}", f"{b} {family_a}")}
        people["where"] = (f"{b} {family_a}", f"{a} {family_b}")
        for kind, (left, right) in people.items():
            text = f"Then {left} met {right} near the river. Then {a}"
            prompts[kind].append(tokenizer.encode(text, bos=True))
        (given_1, first), (given_2, second) = (_pieces(tokenizer, name) for name in (one, two))
        alike = len(given_1) == len(given_2) and len(first) == len(second)
        alike &= len(prompts["clean"][-1]) == len(prompts["clean"][0])
        if not alike or first[0] == second[0]:
            raise ValueError(
                f"{one!r} and {two!r} do not fit: names must have as many tokens as each other and "
                "as in the first pair, and the family names another first token"
            )
        answers.append((first[0], second[0]))
    right, wrong = torch.tensor(answers).T[..., None]
    return {kind: torch.stack(each) for kind, each in prompts.items()}, (right, wrong)


def fitting_names(tokenizer: Tokenizer, couples: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The couples for `meetings`: names of 2 + 3 tokens, family names that begin differently."""
    chosen = []
    for couple in couples:
        (a, family_a), (b, family_b) = (_pieces(tokenizer, name) for name in couple)
        sizes = [len(part) for part in (a, family_a, b, family_b)]
        if sizes == [2, 3, 2, 3] and family_a[0] != family_b[0]:
            chosen.append(couple)
    return chosen


def _pieces(tokenizer, name) -> list[list[int]]:
    """The tokens of each part of a name inside a sentence."""
    return [tokenizer.encode(" " + part).tolist() for part in name.split()]


def logit_difference(
    model: Model, tokens: Texts, answers: tuple, edits: Edits | None = None
) -> Float[Tensor, " pair"]:
    """The last token's logit of the clean answer minus that of the other; see `meetings`."""
    with torch.no_grad():
        logits = model(tokens, edits=edits)[:, -1]
    right, wrong = (each[: len(logits)] for each in answers)
    return (logits.gather(1, right) - logits.gather(1, wrong))[:, 0]


def patching_effect(
    model: Model,
    prompts: dict[str, Texts],
    answers: tuple,
    fact: str,
    heads: list[Head],
    way: str = "noising",
) -> float:
    """The share of the answer that moves when heads say what they say of the other prompt.

    fact: "what" or "where". way: "noising" patches from the changed prompt into the clean one,
    "denoising" from the clean one into the changed one. 0: nothing; 1: as if the text had changed.
    """
    run, source = ("clean", fact) if way == "noising" else (fact, "clean")
    before, after = (
        logit_difference(model, prompts[each], answers).mean() for each in (run, source)
    )
    edits = patch_heads(model, prompts[source], heads)
    now = logit_difference(model, prompts[run], answers, edits).mean()
    return ((now - before) / (after - before)).item()


def trajectory(
    load: Callable[[int], Model],
    steps: list[int],
    repeats: Texts,
    running: OtherTexts,
    others: dict,
) -> dict[tuple[str, bool], Float[Tensor, "step head 2"]]:
    """What each head is worth at each step, {(by, keep_patterns): …}, in nats; see `without`.

    Of the last axis, the first is the rise of the second copy's loss on `repeats` without the
    head, the second that of the in-context score on `running` (less is learned from context).
    others: {"repeats": texts, "running": texts}, other texts of these kinds, for the mean.
    """
    rises = {(by, keep): [] for by in ("zero", "mean") for keep in (False, True)}
    texts = {"repeats": repeats, "running": running}
    for step in steps:
        model = load(step)
        with torch.no_grad():
            caches = {kind: model.run_with_cache(others[kind])[1] for kind in texts}
        patterns = {kind: freeze_patterns(model, each) for kind, each in texts.items()}
        before = torch.tensor([_skill(model, kind, each, {}) for kind, each in texts.items()])
        for (by, keep), found in rises.items():
            rows = []
            for layer, head in all_heads(model):
                if keep and layer == model.config.n_layers - 1:  # no later head attends
                    rows.append(rises[by, False][-1][len(rows)] + before)
                    continue
                name, row = f"L{layer}.z", []
                for kind, each in texts.items():
                    mean = caches[kind][name][:, :, head].mean(dim=(0, 1)) * (by == "mean")
                    edits = {name: partial(_say, new=mean, head=head)}
                    edits = merge(patterns[kind], edits) if keep else edits
                    row.append(_skill(model, kind, each, edits))
                rows.append(torch.tensor(row))
            found.append(torch.stack(rows) - before)
    return {way: torch.stack(found) for way, found in rises.items()}


def _say(z, new, head):
    """The outputs z [text, pos, head, d_head] of a layer with something new for one head."""
    z = z.clone()
    z[:, :, head] = new
    return z


def _skill(model, kind, tokens, edits) -> float:
    """Loss of the second copy of "repeats", or the in-context score on "running" text."""
    if kind == "repeats":
        return copy_losses(model, tokens, edits)[1]
    with torch.no_grad():
        losses = next_token_losses(model(tokens, edits=edits), tokens)
    return in_context_score(losses, EARLY, LATE).mean().item()


def term_importance(model: Model, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, " order"]:
    """Mean next-token loss (nats) with only the paths through at most 0, 1, … n_layers heads.

    The last entry is the loss of the model, and the drop from entry n - 1 to entry n what the terms
    of order n are worth once the shorter ones are there (framework paper, "Term Importance
    Analysis"). The patterns stay those of the true run, so that the logits are a sum over paths.
    Raises ValueError for models with MLPs or norms.
    """
    check_additive(model)
    check_next_token(tokens)
    losses, layers = [], range(model.config.n_layers)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        frozen = {f"L{i}.pattern": cache[f"L{i}.pattern"] for i in layers}
        start = cache["L0.resid_pre"]
        written = [torch.zeros_like(start) for _ in layers]
        # Each round lets every layer read what the layers before it wrote in the round before,
        # nothing in the first: a path gets one head longer per round.
        for _ in range(len(layers) + 1):
            resid, edits = start, dict(frozen)
            for i in layers:
                edits[f"L{i}.ln1_out"] = resid
                resid = resid + written[i]
            logits, cache = model.run_with_cache(tokens, edits=edits | {"ln_final_out": resid})
            losses.append(next_token_losses(logits, tokens).mean())
            written = [cache[f"L{i}.attn_out"] for i in layers]
    return torch.stack(losses)
