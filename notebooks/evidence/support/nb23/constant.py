"""Evidence of notebook 23: the constant of one neuron of SmolLM2, measured for the tour's files."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS, rounded
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Model
from aot_helpers.reading.norms import frozen_norm, norm_bias
from chapters.passages.outputs import changed_outputs
from chapters.passages.texts import passages, pieces, read_ends, windows
from evidence.support.nb23 import always_on
from evidence.support.nb23.neurons import Neuron, ablate_neurons, mean_activations
from evidence.support.nb23.results import DRAWS

WHO = Neuron(28, 1095)  # of SmolLM2, the last layer but one
N_OTHERS = 37  # so many of the largest others cost at zero what the 14 cost
FACTORS = {"intact": (0.7, 0.8, 0.9, 1.1, 1.2, 1.3), "deaf": (0.5, 0.6, 0.7, 0.8, 0.9)}
N_FREQUENT, N_COUNTED = 200, 500  # tokens; windows in which they are counted
WAYS = ("all of it", "its direction", "its length")  # what of a constant a norm does not get


def after_first(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """An edit that leaves the first token of each text as it is."""
    return lambda x: torch.cat([x[:, :1], change(x[:, 1:])], dim=1)


def without(constant: Float[Tensor, " d_model"], layer: int) -> dict[str, Edits]:
    """Edits that take a constant of the last layer but one, `layer`, from those that read it."""
    reads, last = f"L{layer + 1}.resid_pre", "final_resid"
    less, more = (after_first(lambda x, c=c: x + c) for c in (-constant, constant))
    return {
        "nobody gets the constant": {reads: less},
        "the unembedding does not get it": {last: less},
        f"layer {layer + 1} does not get it": {reads: less, last: more},
    }


def norm_without(
    norm: nn.Module,
    constant: Float[Tensor, " d_model"],
    way: str,
    x: Float[Tensor, "b pos d_model"],
) -> Tensor:
    """What a norm makes of a stream x without a constant, but for first tokens.

    way, of WAYS: without its direction the stream loses the constant, and is divided by its old
    length; without its length it keeps the constant, and is divided by the length without it.
    """
    less = after_first(lambda rows: rows - constant)(x)
    divided, length = {WAYS[0]: (less, less), WAYS[1]: (less, x), WAYS[2]: (x, less)}[way]
    return frozen_norm(norm, length)(divided) + norm_bias(norm, len(constant))


def deaf_parts(model: Model, layer: int, constant: Float[Tensor, " d_model"]) -> dict[str, dict]:
    """{what of a layer, or of the last norm, does not get the constant: `changed_outputs`}."""

    def through(module, norm, way):
        return {module: lambda _, args, __: norm_without(norm, constant, way, args[0])}

    def read_by(module, norm):  # one of several matrices behind a norm reads without it
        def change(module, args, _):
            return nn.functional.linear(without_all(seen[norm]), module.weight)

        def see(_, args, out):
            seen[norm] = args[0]

        seen, without_all = {}, partial(norm_without, norm, constant, WAYS[0])
        return {model.submodule("ln2", layer): see, module: change}

    heads, mlp = model.submodule("ln1", layer), model.submodule("ln2", layer)
    last, mlp_norm = model.submodule("ln_final"), model.mlp_norm(layer)
    matrices = model.hf.model.layers[layer].mlp
    found = {}
    for way in WAYS:
        found[f"layer {layer} without {way}"] = through(
            heads, model.attention_norm(layer), way
        ) | through(mlp, mlp_norm, way)
        found[f"the last norm without {way}"] = through(last, model.final_norm(), way)
    found[f"the heads of layer {layer} do not get it"] = through(
        heads, model.attention_norm(layer), WAYS[0]
    )
    found[f"the MLP of layer {layer} does not get it"] = through(mlp, mlp_norm, WAYS[0])
    found[f"the gates of layer {layer} do not get it"] = read_by(matrices.gate_proj, mlp_norm)
    found[f"what they multiply in layer {layer} does not get it"] = read_by(
        matrices.up_proj, mlp_norm
    )
    return found


def gate_biases(
    model: Model, layer: int, constants: Float[Tensor, "constant d_model"], tokens: Tensor
) -> Float[Tensor, "constant d_mlp"]:
    """What the gates of a layer get of constants, on average over texts without first tokens."""
    norm, total = model.mlp_norm(layer), 0

    def see(_, args, __):  # a frozen norm is linear: what it makes of ones are its gain / sigma
        nonlocal total
        total = total + frozen_norm(norm, args[0])(torch.ones_like(args[0]))[:, 1:].sum(dim=(0, 1))

    with torch.no_grad(), changed_outputs({model.submodule("ln2", layer): see}):
        for piece in pieces(tokens, model.config.d_vocab):
            model(tokens[piece])
        scale = total / tokens[:, 1:].numel()
        return (constants * scale) @ model.hf.model.layers[layer].mlp.gate_proj.weight.T


def last_norm_divides(model: Model, tokens: Tensor, edits: Edits | None) -> dict:
    """`changed_outputs` by which the next run on tokens divides at its end by another's lengths.

    edits: of the run whose lengths they are.
    """
    norm, lengths = model.final_norm(), []
    with torch.no_grad():
        for piece in pieces(tokens, model.config.d_vocab):
            lengths.append(model.run_with_cache(tokens[piece], edits=edits)[1]["final_resid"])
    given, last = iter(lengths), model.submodule("ln_final")
    bias = norm_bias(norm, model.config.d_model)
    return {last: lambda _, args, __: frozen_norm(norm, next(given))(args[0]) + bias}


def outcome(
    model: Model, tokens: Tensor, frequent: Tensor, edits: Edits | None = None
) -> tuple[dict[str, float], Float[Tensor, " d_vocab"]]:
    """What the model expects, and the mean of its centered logits.

    Means over all next tokens but the first of each text: "loss", "entropy", and "frequent", the
    probability that the frequent tokens have together.
    """
    losses, entropies, p_frequent, logits = [], [], [], 0
    with torch.no_grad():
        for piece in pieces(tokens, model.config.d_vocab):
            z = model(tokens[piece], edits=edits)
            losses.append(next_token_losses(z, tokens[piece]))
            log_p = z[:, :-1].log_softmax(dim=-1)
            p = log_p.exp()
            entropies.append(-(p * log_p).sum(dim=-1))
            p_frequent.append(p[..., frequent].sum(dim=-1))
            logits += (z - z.mean(dim=-1, keepdim=True))[:, :-1].sum(dim=(0, 1))
    each = {"loss": losses, "entropy": entropies, "frequent": p_frequent}
    means = {name: torch.cat(values).mean().item() for name, values in each.items()}
    return means, logits / tokens[:, 1:].numel()


def pretrained(model: Model, name: str, seed: int = 0) -> dict:
    """Entry 23-constant of `make data WHAT=pretrained`: of SmolLM2, which has the neuron WHO.

    Writes the activations of its layer at the ends of the passages into a file of their own.
    """
    layer, last = WHO.layer, model.config.n_layers - 1
    ends = read_ends(model, passages(seed=seed)).hidden
    fourteen = always_on.always_on(always_on.how_often(ends))
    write_safetensors(
        RESULTS / f"pretrained/23-{Path(name).name}-activations.safetensors",
        {"activations": ends[layer].half().contiguous()},
        {"layer": layer},
    )
    tokens, reference = windows(model), windows(model, split="train")
    mean, squares = (mean_activations(model, reference, power, start=1) for power in (1, 2))
    size = always_on.contributions(model, squares)
    value = model.mlp_values(layer)[WHO.neuron]
    constant = mean[WHO] * value
    counts = windows(model, N_COUNTED, "train")[:, 1:].flatten().bincount()
    top = counts.argsort(descending=True, stable=True)[:N_FREQUENT]
    found, logits = {}, {}

    def see(what, edits=None, texts=tokens):
        found[what], logits[what] = outcome(model, texts, top[:100], edits)

    def both(who, which, texts=tokens):
        see(f"{who}: zero", ablate_neurons(model, which, start=1), texts)
        see(f"{who}: mean", ablate_neurons(model, which, mean, start=1), texts)

    see("unchanged")
    sets = {f"{len(fourteen)} always-on neurons": fourteen, str(WHO): [WHO]}
    sets[f"the {N_OTHERS} largest others"] = always_on.largest(fourteen, size)[:N_OTHERS]
    for draw in range(DRAWS):
        which = always_on.size_matched(fourteen, size, fourteen, draw)
        sets[f"{len(fourteen)} others, {draw + 1}"] = which
    for who, which in sets.items():
        both(who, which)
    cuts = without(constant, layer)
    for what, edits in cuts.items():
        see(what, edits)
    for what, changes in deaf_parts(model, last, constant).items():
        with changed_outputs(changes):
            see(what)
    generator = torch.Generator().manual_seed(seed)
    randoms = [torch.randn(constant.shape, generator=generator) for _ in range(DRAWS)]
    randoms = [random * constant.norm() / random.norm() for random in randoms]
    for draw, random in enumerate(randoms):
        see(f"random {draw + 1}", without(random, layer)["nobody gets the constant"])
    deaf = cuts[f"layer {last} does not get it"]
    gates = model.hf.model.layers[last].mlp.gate_proj
    biases = gate_biases(model, last, torch.stack([constant, *randoms]), reference)
    orders = [torch.randperm(len(biases[0]), generator=generator) for _ in range(DRAWS)]
    dealt = {f", dealt at random {i + 1}": biases[0][order] for i, order in enumerate(orders)}
    for how, bias in {"": biases[0], ", the mean of it": biases[0].mean(), **dealt}.items():
        more = {gates: lambda _, __, out, bias=bias: after_first(lambda x: x + bias)(out)}
        with changed_outputs(more):
            see(f"a bias in the gates instead{how}", deaf)
    for what, edits, lengths in (
        (f"layer {last} does not get it, the last norm divides as before", deaf, None),
        (f"the last norm divides as if layer {last} did not get it", None, deaf),
    ):
        with changed_outputs(last_norm_divides(model, tokens, lengths)):
            see(what, edits)
    for which, edits in (("intact", {}), ("deaf", deaf)):
        for factor in FACTORS[which]:
            turned = {f"L{last}.mlp_out": after_first(lambda x, f=factor: f * x)}
            see(f"{which} × {factor}", edits | turned)
    stories = windows(model, corpus="stories")
    see("stories: unchanged", None, stories)
    both(f"stories: {len(fourteen)} always-on neurons", fourteen, stories)
    both(f"stories: {WHO}", [WHO], stories)
    heard = [_of_layer(model, tokens, last, edits) for edits in (None, deaf)]
    scale, norm = heard[0][2], model.final_norm()
    reading = (constant / scale * norm.weight) @ model.W_U
    effect, direct = (
        logits["unchanged"] - logits[cut]
        for cut in ("nobody gets the constant", "the unembedding does not get it")
    )
    reading, effect, direct = (x - x.mean() for x in (reading, effect, direct))
    the = top[model.tokenizer.token_strings(top).index(" the")]
    relative = always_on.relative(ends)
    others = sets[f"{len(fourteen)} others, 1"]
    active = {
        who: {str(one): relative[one.layer, :, one.neuron].tolist() for one in which}
        for who, which in (("always on", fourteen), ("others", others))
    }
    sizes, lengths, _ = zip(*heard, strict=True)

    def mean_size(which):  # how long what a neuron adds is
        return sum(size[neuron].item() for neuron in which) / len(which)

    result = {
        "outcome": found,  # {what is done to the model: what comes of it}
        "sizes": {who: mean_size(which) for who, which in sets.items()},
        "tokens": model.tokenizer.token_strings(top),  # of training texts, the most frequent first
        "reading": reading[top].tolist(),  # what the constant adds to their logits directly
        "effect": effect[top].tolist(),  # how much higher their logits are with it
        "top": model.tokenizer.token_strings(reading.topk(10).indices),
        "rank_of_the": int((reading > reading[the]).sum()) + 1,
        "mean": mean[WHO].item(),
        "quiet": sizes[0].tolist(),  # mean sizes of the next layer's activations
        "loud": sizes[1].tolist(),  # the same where it does not get the constant
        "length": list(lengths),  # of what its MLP writes, with the constant and without it
        "active": active,  # {group: {neuron: relative activations}}
        "direct": direct[top].tolist(),
        "closed": [(each < 0).double().mean().item() for each in biases],
    }
    return rounded(result)


def _of_layer(
    model: Model, tokens: Tensor, layer: int, edits: Edits | None
) -> tuple[Tensor, float, float]:
    """Mean sizes of a layer's neurons, mean length of its MLP's output, mean rms at the end."""
    sizes, lengths, scales = 0, 0, 0
    with torch.no_grad():
        for piece in pieces(tokens, model.config.d_vocab):
            _, cache = model.run_with_cache(tokens[piece], edits=edits)
            hidden, out, stream = (
                cache[each][:, 1:]
                for each in (f"L{layer}.mlp_hidden", f"L{layer}.mlp_out", "final_resid")
            )
            sizes += hidden.abs().sum(dim=(0, 1))
            lengths += out.norm(dim=-1).sum()
            scales += stream.square().mean(dim=-1).sqrt().sum()
    n = tokens[:, 1:].numel()
    return sizes / n, (lengths / n).item(), (scales / n).item()
