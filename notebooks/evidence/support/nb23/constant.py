"""Evidence of notebook 23: the constant of one neuron of SmolLM2, measured for the tour's files."""

from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.base.files import write_safetensors
from aot_helpers.base.results import RESULTS, plain, rounded
from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Model
from chapters.nb23_always_on_neurons.constant import (
    Constant,
    Neuron,
    Outcome,
    after_first,
    neuron_means,
    set_neurons,
)
from chapters.passages.texts import passages, pieces, read_ends, windows
from evidence.support.nb23 import always_on
from evidence.support.nb23.results import DRAWS

WHO = Neuron(28, 1095)  # of SmolLM2, the last layer but one
N_OTHERS = 37  # so many of the largest others cost at zero what the 14 cost
FACTORS = {"intact": (0.7, 0.8, 0.9, 1.1, 1.2, 1.3), "deaf": (0.5, 0.6, 0.7, 0.8, 0.9)}
N_FREQUENT, N_COUNTED = 200, 500  # tokens; windows in which they are counted


def without(constant: Float[Tensor, " d_model"], layer: int) -> dict[str, Edits]:
    """Edits that take a constant of the last layer but one, `layer`, from those that read it."""
    reads, last = f"L{layer + 1}.resid_pre", "final_resid"
    less, more = (after_first(lambda x, c=c: x + c) for c in (-constant, constant))
    return {
        "nobody gets the constant": {reads: less},
        "the unembedding does not get it": {last: less},
        f"layer {layer + 1} does not get it": {reads: less, last: more},
    }


def outcome(
    model: Model, tokens: Tensor, frequent: Tensor, edits: Edits | None = None
) -> tuple[Outcome, Float[Tensor, " d_vocab"]]:
    """What the model expects, and the mean of its centered logits."""
    losses, entropies, shares, logits = [], [], [], 0
    with torch.no_grad():
        for piece in pieces(tokens, model.config.d_vocab):
            z = model(tokens[piece], edits=edits)
            losses.append(next_token_losses(z, tokens[piece]))
            log_p = z[:, :-1].log_softmax(dim=-1)
            p = log_p.exp()
            entropies.append(-(p * log_p).sum(dim=-1))
            shares.append(p[..., frequent].sum(dim=-1))
            logits += (z - z.mean(dim=-1, keepdim=True))[:, :-1].sum(dim=(0, 1))
    means = (torch.cat(each).mean().item() for each in (losses, entropies, shares))
    return Outcome(*means), logits / tokens[:, 1:].numel()


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
    mean = neuron_means(model, reference)
    size = always_on.contributions(model, neuron_means(model, reference, 2))
    value = model.mlp_values(layer)[WHO.neuron]
    constant = mean[WHO] * value
    counts = windows(model, N_COUNTED, "train")[:, 1:].flatten().bincount()
    top = counts.argsort(descending=True, stable=True)[:N_FREQUENT]
    found, logits = {}, {}

    def see(what, edits=None, texts=tokens):
        found[what], logits[what] = outcome(model, texts, top[:100], edits)

    def both(who, which, texts=tokens):
        see(f"{who}: zero", set_neurons(model, which), texts)
        see(f"{who}: mean", set_neurons(model, which, mean), texts)

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
    generator = torch.Generator().manual_seed(seed)
    for draw in range(DRAWS):
        random = torch.randn(constant.shape, generator=generator)
        random *= constant.norm() / random.norm()
        see(f"random {draw + 1}", without(random, layer)["nobody gets the constant"])
    deaf = cuts[f"layer {last} does not get it"]
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
    effect = logits["unchanged"] - logits["nobody gets the constant"]
    reading, effect = (x - x.mean() for x in (reading, effect))
    the = top[model.tokenizer.token_strings(top).index(" the")]
    relative = always_on.relative(ends)
    others = sets[f"{len(fourteen)} others, 1"]
    active = {
        who: {str(one): relative[one.layer, :, one.neuron].tolist() for one in which}
        for who, which in (("always on", fourteen), ("others", others))
    }
    result = Constant(
        found,
        {who: sum(size[one].item() for one in which) / len(which) for who, which in sets.items()},
        model.tokenizer.token_strings(top),
        reading[top].tolist(),
        effect[top].tolist(),
        model.tokenizer.token_strings(reading.topk(10).indices),
        int((reading > reading[the]).sum()) + 1,
        mean[WHO].item(),
        *(each[0].tolist() for each in heard),
        [each[1] for each in heard],
        active,
    )
    return rounded(plain(result))


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
