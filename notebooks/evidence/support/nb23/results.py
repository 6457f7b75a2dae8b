"""Evidence of notebook 23: what is measured of one model's always-on neurons; its files."""

import torch
from torch import Tensor

from aot_helpers.base.results import rounded
from aot_helpers.models.protocol import Model
from chapters.passages.texts import (
    Cost,
    Ends,
    cost,
    function_words,
    passages,
    read_ends,
    windows,
)
from evidence.support.nb23 import always_on
from evidence.support.nb23.neurons import Neuron, ablate_neurons, mean_activations

DRAWS = 5  # of other neurons
LEAST_OTHERS = 14  # to begin with, where as many others are sought as cost the same


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 23 of `make data WHAT=pretrained` of any model, as JSON has it: see `neurons`."""
    texts = passages(seed=seed)
    ends, held_out = read_ends(model, texts), windows(model)
    found = neurons(model, ends, held_out, windows(model, split="train"), seed)
    windows_of = list(held_out.shape)
    return rounded({"passages": len(texts), "windows": windows_of, "neurons": found})


def ablated(
    model: Model, tokens: Tensor, which: list, mean: Tensor, whole: Cost | None = None
) -> dict[str, dict[str, float]]:
    """What setting neurons to "zero", and to their "mean", changes of the "loss" and "entropy".

    whole: the cost of the tokens without any change, where it is known already.
    """
    whole = whole or cost(model, tokens)
    ways = {"zero": None, "mean": mean}
    return {way: _change(model, tokens, which, to, whole) for way, to in ways.items()}


def _change(
    model: Model, tokens: Tensor, which: list, to: Tensor | None, whole: Cost
) -> dict[str, float]:
    now = cost(model, tokens, ablate_neurons(model, which, to))
    return {"loss": now.loss - whole.loss, "entropy": now.entropy - whole.entropy}


def restored(ablation: dict[str, dict[str, float]]) -> float:
    """The fraction of the loss that zero costs which the mean restores."""
    return 1 - ablation["mean"]["loss"] / ablation["zero"]["loss"]


def neurons(model: Model, ends: Ends, tokens: Tensor, reference: Tensor, seed: int = 0) -> dict:
    """Neurons that are always on, what they write, and what they are for.

    "share": of a layer's neurons, which count as the most active. "most": of each layer, the
    fraction of passages in which the busiest neuron is among them. "always_on", and as many others,
    "random" and "as_long": rows of `always_on.written`. "ablated": what `ablated` finds of the
    always on together, "alone" of each, "others_ablated" of others as large, "as_costly" of so many
    others that zero costs as much. "size": the mean contribution of a neuron that is always on.
    "relative": their activations in the passages.
    """
    often, d_mlp = always_on.how_often(ends.hidden), model.config.d_mlp
    shuffled = always_on.how_often(always_on.shuffled(ends.hidden, seed))
    found, words = always_on.always_on(often), function_words(model.tokenizer)
    left_out = [*found, *always_on.busiest(often)]
    mean, whole = mean_activations(model, reference), cost(model, tokens)
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
    together = ablated(model, tokens, found, mean, whole) if found else None
    order = always_on.largest(found, size, left_out)
    costly, costs = as_costly(model, tokens, order, together, mean, whole)
    relative = always_on.relative(ends.hidden)

    def rows(which):
        return always_on.written(model, which, words, mean, often).to_dict("records")

    def mean_size(which):
        return sum(size[neuron].item() for neuron in which) / max(len(found), 1)

    def activations(which):
        return {str(one): relative[one.layer, :, one.neuron].tolist() for one in which}

    return {
        "share": max(1, round(always_on.FRACTION * d_mlp)) / d_mlp,
        "most": often.amax(dim=-1).tolist(),
        "most_shuffled": shuffled.amax(dim=-1).tolist(),
        "always_on": rows(found),
        "random": rows(random),
        "as_long": rows(as_long),
        "ablated": together,
        "others_ablated": [ablated(model, tokens, x, mean, whole) for x in size_matched if x],
        "size": mean_size(found),
        "sizes_of_others": [mean_size(which) for which in size_matched],
        "alone": [ablated(model, tokens, [neuron], mean, whole) for neuron in found],
        "as_costly": costs,
        "n_as_costly": len(costly),
        "relative": activations(found),
        "relative_of_others": activations(size_matched[0]),
    }


def as_costly(
    model: Model,
    tokens: Tensor,
    order: list,
    together: dict | None,
    mean: Tensor,
    whole: Cost,
) -> tuple[list[Neuron], dict | None]:
    """The first neurons of an order, so many that setting them to zero costs what `together` does.

    Half as many again are tried each time. None, if there are not enough, or nothing is asked.
    """
    n = LEAST_OTHERS
    while together and n <= len(order):
        zero = _change(model, tokens, order[:n], None, whole)
        if zero["loss"] >= together["zero"]["loss"]:
            to_mean = _change(model, tokens, order[:n], mean, whole)
            return order[:n], {"zero": zero, "mean": to_mean}
        n += n // 2
    return [], None


def first_late(n_layers: int) -> int:
    """The first layer of the last quarter: 18 of 24, as in VISIT, section 5.3."""
    return n_layers - max(1, round(n_layers / 4))
