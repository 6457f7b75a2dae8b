"""Evidence of notebook 22: norms taken apart, what the lens reads at each, and what changes cost.

VISIT, section 5.2 and appendix E, reads the stream before and after each norm through the logit
lens. With a final norm in the lens, a norm's centering and its σ change nothing: only its gain and
bias can, and those may be moved into the matrices that read it.
"""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from aot_helpers.base.results import rounded
from aot_helpers.base.statistics import correlation
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Model
from aot_helpers.reading.logit_lens import lens, rank
from aot_helpers.reading.norms import check_norm, norm_bias
from chapters.nb22_layer_norms.norms import Change, change, changed, isotropic, readers, restored
from chapters.passages.outputs import changed_outputs
from chapters.passages.texts import (
    Ends,
    cost,
    function_words,
    passages,
    pieces,
    read_ends,
    windows,
)

SITES = ("ln1", "ln2")
ORDERS, DIRECTIONS = 5, 3  # of gains, of the stream


def norm_at(model: Model, layer: int, site: str) -> nn.Module:
    """The norm before a layer's heads ("ln1") or its MLP ("ln2"). ValueError for neither."""
    if site not in SITES:
        raise ValueError(f"site must be one of {', '.join(SITES)}, got {site!r}")
    norm = model.attention_norm(layer) if site == "ln1" else model.mlp_norm(layer)
    check_norm(norm)
    if isinstance(norm, nn.Identity):
        raise ValueError("this model has no norms: load one with them, such as docstrings-gpt2")
    return norm


def plain(norm: nn.Module):
    """The norm with gain 1 and bias 0 until the block ends: centering and σ alone."""
    return changed(norm, torch.ones_like(norm.weight), torch.zeros_like(norm.weight))


def even(norm: nn.Module):
    """The norm with its gain's mean everywhere and no bias until the block ends."""
    gain = norm.weight.detach()
    return changed(norm, gain.mean().expand_as(gain), torch.zeros_like(gain))


def gain_only(norm: nn.Module):
    """The norm with its gain and bias 0 until the block ends."""
    return changed(norm, norm.weight.detach().clone(), torch.zeros_like(norm.weight))


def bias_only(norm: nn.Module):
    """The norm with its bias and gain 1 until the block ends."""
    return changed(norm, torch.ones_like(norm.weight))


def in_another_order(norm: nn.Module, seed: int):
    """The norm with the entries of its gain and bias in one random order until the block ends."""
    order = torch.randperm(len(norm.weight), generator=torch.Generator().manual_seed(seed))
    bias = getattr(norm, "bias", None)
    weights = (None if each is None else each.detach()[order] for each in (norm.weight, bias))
    return changed(norm, *weights)


def one_by_one(
    model: Model, norm: nn.Module, x: Float[Tensor, "n d_model"], words: Bool[Tensor, " d_vocab"]
) -> tuple[Tensor, Tensor]:
    """Vector by vector, [n] each: what the norm does to it beside what it does to the others.

    The correlation of its change of probabilities with the mean change of the others; the
    probability of these words after, divided by that before.
    """
    with torch.no_grad():
        before, after = (lens(model, each).softmax(dim=-1) for each in (x, norm(x)))
    left = after[:, words].sum(dim=-1) / before[:, words].sum(dim=-1)
    change = after - before
    total = change.sum(dim=0)
    alike = [correlation(each, (total - each) / (len(x) - 1)) for each in change]
    return torch.tensor(alike), left


def as_probable(
    change: Change, words: Bool[Tensor, " d_vocab"], n: int = 40
) -> tuple[float, float]:
    """What is left of the n likeliest of these words, and of other tokens as likely before.

    Each word is paired with the unused other token whose mean probability is nearest.
    """
    likely = change.before.masked_fill(~words, 0).topk(min(n, int(words.sum()))).indices
    free, partners = (~words).clone(), []
    for word in likely:
        gap = (change.before - change.before[word]).abs().masked_fill(~free, torch.inf)
        partners.append(int(gap.argmin()))
        free[partners[-1]] = False
    kept = (change.after[ids].sum() / change.before[ids].sum() for ids in (likely, partners))
    return tuple(share.item() for share in kept)


def alike(x: Float[Tensor, "n d_model"], seed: int = 0) -> Float[Tensor, "n d_model"]:
    """Gaussian vectors with the mean and the covariance of these."""
    center = x.mean(dim=0)
    noise = torch.randn(len(x), len(x), generator=torch.Generator().manual_seed(seed))
    return center + noise @ (x - center) / (len(x) - 1) ** 0.5


@contextlib.contextmanager
def folded(model: Model, layers: list[int]) -> Iterator[Model]:
    """The model with the gains and biases of these layers' norms in the matrices after them.

    In place, until the block ends; the logits stay what they were. The norms then only center and
    divide. GPT-2's and Llama's families of transformers; others are a ValueError.
    """
    family = getattr(model.config, "family", "ours")
    if family not in ("gpt2", "llama"):
        raise ValueError(f"no way to fold the norms of the family {family!r}: take gpt2 or llama")
    pairs = [pair for layer in layers for pair in readers(model, layer)]
    modules = [module for norm, reads in pairs for module in (norm, *reads)]
    with restored([each for module in modules for each in module.parameters()]):
        for norm, reads in pairs:
            for module in reads:
                if family == "gpt2":  # Conv1D keeps [in, out]
                    module.bias += norm.bias @ module.weight
                    module.weight *= norm.weight[:, None]
                else:
                    module.weight *= norm.weight
            norm.weight.fill_(1)
            if family == "gpt2":
                norm.bias.fill_(0)
        yield model


def words_direction(model: Model, words: Bool[Tensor, " d_vocab"]) -> Float[Tensor, " d_model"]:
    """The direction, of length 1, that the lens reads as these words rather than others."""
    gain = getattr(model.final_norm(), "weight", torch.ones(model.config.d_model)).detach()
    W_U = model.W_U.detach()
    toward = (W_U[:, words].mean(dim=1) - W_U.mean(dim=1)) * gain
    return toward / toward.norm()


def _edits_of_uneven(model: Model, layer: int, change: Callable[[Tensor, Tensor], Tensor]) -> Edits:
    """Edits of what a layer's heads read: change(out, what the uneven gain and bias do there).

    What an uneven gain does is measured against its mean.
    """
    norm, seen = norm_at(model, layer, "ln1"), {}
    gain, bias = norm.weight.detach(), norm_bias(norm, model.config.d_model)

    def keep(resid: Tensor) -> Tensor:
        seen["resid"] = resid
        return resid

    def edit(out: Tensor) -> Tensor:
        return change(out, normalized(norm, seen["resid"]) * (gain - gain.mean()) + bias)

    return {f"L{layer}.resid_pre": keep, f"L{layer}.ln1_out": edit}


def words_put_back(
    model: Model, layer: int, toward: Float[Tensor, " d_model"], along: Float[Tensor, " d_model"]
) -> Edits:
    """Edits that undo, in what a layer's heads read, what the uneven gain did along `toward`.

    along: the direction in which the amounts are taken off; `toward` itself, or a random one as a
    control. Both of length 1.
    """
    return _edits_of_uneven(
        model, layer, lambda out, uneven: out - (uneven @ toward)[..., None] * along
    )


def evened_as_far(model: Model, layer: int, seed: int = 0) -> Edits:
    """Edits that move what a layer's heads read as far as an even gain would, but at random.

    At every position the length of the change is that of setting the gain to its mean, the bias
    to 0.
    """
    generator = torch.Generator().manual_seed(seed)

    def move(out: Tensor, uneven: Tensor) -> Tensor:
        noise = torch.randn(out.shape, generator=generator)
        return out + noise * uneven.norm(dim=-1, keepdim=True) / noise.norm(dim=-1, keepdim=True)

    return _edits_of_uneven(model, layer, move)


def normalized(norm: nn.Module, x: Float[Tensor, "*places d_model"]) -> Tensor:
    """What a LayerNorm or RMSNorm makes of vectors before its gain and bias."""
    if isinstance(norm, nn.LayerNorm):
        return nn.functional.layer_norm(x, norm.weight.shape, eps=norm.eps)
    return nn.functional.rms_norm(x, norm.weight.shape, eps=norm.eps)


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 22 of `make data WHAT=pretrained`, of any model alike, as JSON has it.

    "norms": lists with an item for each layer: `norm_rows` of "ln1" and of "ln2", `norm_parts`,
    `final_norm`; and "cost": `norm_costs`.
    """
    texts = passages(seed=seed)
    ends, held_out = read_ends(model, texts), windows(model)
    norms = {site: norm_rows(model, ends, site, seed) for site in SITES}
    norms["parts"] = norm_parts(model, ends, seed)
    norms["ln_final"] = final_norm(model, ends, seed)
    norms["cost"] = norm_costs(model, held_out[:8], seed)
    windows_of = list(held_out.shape)
    return rounded({"passages": len(texts), "windows": windows_of, "norms": norms})


def norm_rows(model: Model, ends: Ends, site: str, seed: int = 0) -> list[dict]:
    """What the lens reads before and after the norms of one site, layer by layer.

    "kept": the function words' probability after it, divided by that "before"; "kept_of_random" of
    random vectors, "kept_shuffled" with gain and bias in other orders. "fallers", "risers": the
    fraction of function words among the ten tokens that fall and rise most ("falls", "rises"),
    "fallers_of_random" of random vectors. "as_probable": kept by likely function words, and by
    other tokens as likely. "alike", "random": the correlation of the change with that of Gaussian
    vectors of the same covariance, and of random ones. "bare": the largest change of a probability
    by the norm without gain and bias.
    """
    words, rows = function_words(model.tokenizer), []
    for layer, x in enumerate(getattr(ends, site)):
        norm = norm_at(model, layer, site)
        vectors = (x, isotropic(x, seed), alike(x, seed))
        real, random, gaussian = (change(model, norm, each) for each in vectors)
        with plain(norm):
            bare = change(model, norm, x).largest
        shuffled = []
        for order in range(ORDERS + 1):
            with in_another_order(norm, seed + order):
                shuffled.append(change(model, norm, x).kept(words))
        falls, rises = real.falls(10), real.rises(10)
        fallers, of_random, risers = (
            words[at].float().mean().item() for at in (falls, random.falls(10), rises)
        )
        row = {
            "kept": real.kept(words),
            "kept_of_random": random.kept(words),
            "kept_shuffled": shuffled,
            "before": real.before[words].sum().item(),
            "fallers": fallers,
            "fallers_of_random": of_random,
            "risers": risers,
            "falls": model.tokenizer.token_strings(falls),
            "rises": model.tokenizer.token_strings(rises),
            "as_probable": list(as_probable(real, words)),
            "alike": correlation(real.difference, gaussian.difference),
            "random": correlation(real.difference, random.difference),
            "bare": bare,
        }
        rows.append(row)
    return rows


def norm_parts(model: Model, ends: Ends, seed: int = 0) -> list[dict]:
    """Each ln1 taken apart, and read vector by vector.

    "kept": of function words, {part of the norm: {stream, random: fraction}}. "alike_shuffled": as
    "alike" of `norm_rows`, with gain and bias in another order. "one_by_one": the median
    correlation of a vector's change with that of the others. "rise": the fraction of passages in
    which function words rise.
    """
    words, rows = function_words(model.tokenizer), []
    for layer, x in enumerate(ends.ln1):
        norm = norm_at(model, layer, "ln1")
        vectors, kept = {"stream": x, "random": isotropic(x, seed)}, {}
        for part in (gain_only, bias_only, even):
            with part(norm):
                kept[part.__name__] = {
                    who: change(model, norm, each).kept(words) for who, each in vectors.items()
                }
        one, each_kept = one_by_one(model, norm, x, words)
        with in_another_order(norm, seed):
            real, gaussian = (change(model, norm, v).difference for v in (x, alike(x, seed)))
        row = {"kept": kept, "alike_shuffled": correlation(real, gaussian)}
        row |= {"one_by_one": one.median().item(), "rise": (each_kept > 1).float().mean().item()}
        rows.append(row)
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


def norm_costs(model: Model, tokens: Tensor, seed: int = 0) -> dict:
    """What it costs (nats per token) to change one ln1; each third layer of more than 12.

    "whole": the loss without any change. "even": with an even gain; "even_folded": with the old one
    in the matrices that read it; "as_far_at_random": a change as long. "words_back": function words
    put back in, "random_back" along random directions; "…_everywhere": in all layers at once.
    """
    whole, n_layers = cost(model, tokens).loss, model.config.n_layers
    toward = words_direction(model, function_words(model.tokenizer))
    generator = torch.Generator().manual_seed(seed)
    random = torch.randn(DIRECTIONS, len(toward), generator=generator)
    directions = [toward, *(random / random.norm(dim=-1, keepdim=True))]
    evened, old_behind, far, back = [], [], [], []
    for layer in range(0, n_layers, 1 if n_layers <= 12 else 3):
        norm = norm_at(model, layer, "ln1")
        with even(norm):
            evened.append(cost(model, tokens).loss - whole)
        with folded(model, [layer]):
            old_behind.append(cost(model, tokens).loss - whole)
        far.append(cost(model, tokens, evened_as_far(model, layer, seed)).loss - whole)
        edits = [words_put_back(model, layer, toward, along) for along in directions]
        back.append([cost(model, tokens, edit).loss - whole for edit in edits])
    everywhere = []
    for along in directions:
        edits = {}
        for layer in range(n_layers):
            edits |= words_put_back(model, layer, toward, along)
        everywhere.append(cost(model, tokens, edits).loss - whole)
    return {
        "whole": whole,
        "even": evened,
        "even_folded": old_behind,
        "as_far_at_random": far,
        "words_back": [row[0] for row in back],
        "random_back": [row[1:] for row in back],
        "words_back_everywhere": everywhere[0],
        "random_back_everywhere": everywhere[1:],
    }


def every_norm(model: Model) -> dict[str, tuple[nn.Module, nn.Module]]:
    """{name: (the module, PyTorch's own class with its weights)} of all norms, in their order."""
    found = {}
    for i in range(model.config.n_layers):
        found[f"L{i} ln1"] = model.submodule("ln1", i), model.attention_norm(i)
        found[f"L{i} ln2"] = model.submodule("ln2", i), model.mlp_norm(i)
    return found | {"final": (model.submodule("ln_final"), model.final_norm())}


def sigma(norm: nn.Module, x: Float[Tensor, "*places d_model"]) -> Float[Tensor, "*places 1"]:
    """What a LayerNorm or RMSNorm divides by."""
    if isinstance(norm, nn.LayerNorm):
        x = x - x.mean(dim=-1, keepdim=True)
    return (x.square().mean(dim=-1, keepdim=True) + norm.eps).sqrt()


def dividing_by(model: Model, fixed: dict[str, Float[Tensor, "pos 1"]]) -> dict:
    """`changed_outputs` of norms that divide each position by a fixed number; nan: by its own σ."""
    changes = {}
    for name, (module, norm) in every_norm(model).items():
        if name in fixed:

            def change(_, args, out, norm=norm, numbers=fixed[name]):
                own, bias = sigma(norm, args[0]), norm_bias(norm, out.shape[-1])
                numbers = torch.where(numbers.isnan(), own, numbers)
                return (out - bias) * own / numbers + bias

            changes[module] = change
    return changes


def losses_and_sigmas(
    model: Model, tokens: Tensor, fixed: dict[str, Float[Tensor, "pos 1"]] | None = None
) -> tuple[Float[Tensor, "text pos-1"], dict[str, Float[Tensor, "text pos"]]]:
    """Losses of next tokens while norms divide by fixed numbers, and each norm's σ of its input."""
    losses, found = [], {name: [] for name in every_norm(model)}

    def see(_, args, norm, name):
        found[name].append(sigma(norm, args[0])[..., 0])

    with contextlib.ExitStack() as stack, torch.no_grad():
        for name, (module, norm) in every_norm(model).items():
            handle = module.register_forward_pre_hook(partial(see, norm=norm, name=name))
            stack.callback(handle.remove)
        stack.enter_context(changed_outputs(dividing_by(model, fixed or {})))
        for piece in pieces(tokens, model.config.d_vocab):
            losses.append(next_token_losses(model(tokens[piece]), tokens[piece]))
    return torch.cat(losses), {name: torch.cat(each) for name, each in found.items()}


def constants(model: Model, tokens: Tensor, reference: Tensor, seed: int = 0) -> dict:
    """What it costs (nats per token) if norms divide by constants; None: the numbers overflow.

    Constants are the mean σ in `reference`, of all tokens but BOS. "one": norm by norm, not
    measured where all at once ("all") overflow; "…_but_bos": BOS keeps its own σ. "bos_apart",
    "second_apart": all norms at once, with a constant of its own for BOS, or the second token.
    "unusual", "random": of the cost with BOS apart, what the most unusual tenth of the tokens pays,
    and a random tenth. "finite": of the norms, those that read finite numbers at BOS, all at
    constants. "of_bos": σ of BOS and of the others, norm by norm, undisturbed.
    """
    _, usual = losses_and_sigmas(model, reference)
    losses, own = losses_and_sigmas(model, tokens)
    n_pos = tokens.shape[1]

    def fixed(apart: int | None = None, keep_bos: bool = False) -> dict[str, Tensor]:
        found = {}
        for name, each in usual.items():
            found[name] = each[:, 1:].mean().repeat(n_pos, 1)
            if apart is not None:
                found[name][apart] = each[:, apart].mean()
            if keep_bos:
                found[name][0] = torch.nan
        return found

    def added(numbers: dict[str, Tensor]) -> tuple[Float[Tensor, "text pos-1"], float]:
        now, lengths = losses_and_sigmas(model, tokens, numbers)
        finite = torch.stack([each[:, 0].isfinite().all() for each in lengths.values()])
        return now - losses, finite.double().mean().item()

    def one_by_one(numbers: dict[str, Tensor]) -> dict[str, float]:
        return {name: added({name: each})[0].mean().item() for name, each in numbers.items()}

    (whole, finite), (but_bos, finite_but_bos) = added(fixed()), added(fixed(keep_bos=True))
    apart, second = added(fixed(apart=0))[0], added(fixed(apart=1))[0]
    paid, length = apart[:, 1:].flatten(), own["final"][:, 1:-1].flatten()
    unusual = (length / length.median()).log().abs()
    random = torch.rand(len(paid), generator=torch.Generator().manual_seed(seed))
    tenths = [paid[size.topk(len(paid) // 10).indices] for size in (unusual, random)]
    adds_up = bool(whole.isfinite().all())
    costs = {
        "all": whole.mean(),
        "all_but_bos": but_bos.mean(),
        "bos_apart": apart.mean(),
        "second_apart": second.mean(),
        "unusual": tenths[0].sum() / paid.sum(),
        "random": tenths[1].sum() / paid.sum(),
    }
    return {
        "one": one_by_one(fixed()) if adds_up else {},
        "one_but_bos": one_by_one(fixed(keep_bos=True)) if adds_up else {},
        **{name: each.item() if each.isfinite() else None for name, each in costs.items()},
        "finite": finite,
        "finite_but_bos": finite_but_bos,
        "of_bos": {n: [x[:, 0].mean().item(), x[:, 1:].mean().item()] for n, x in own.items()},
    }


def of_constants(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 22-constants of `make data WHAT=pretrained`."""
    n, n_pos = (32, 64) if model.config.family == "gpt2" else (8, 32)
    tokens, reference = windows(model, n)[:, :n_pos], windows(model, n, "train")[:, :n_pos]
    return rounded(constants(model, tokens, reference, seed))
