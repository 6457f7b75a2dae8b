"""Evidence of notebook 23: what is measured of one model's always-on neurons; its files."""

from typing import NamedTuple

import torch
from torch import Tensor

from aot_helpers.base.results import plain, read, rounded
from aot_helpers.models.protocol import Model
from chapters.nb23_always_on_neurons.constant import Neuron, ablate_neurons
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
from evidence.support.nb23.always_on import mean_activations

DRAWS = 5  # of other neurons
LEAST_OTHERS = 14  # to begin with, where as many others are sought as cost the same


class Ablation(NamedTuple):
    """What setting neurons to zero, or to their mean, changes of the loss and the entropy."""

    zero: Cost
    mean: Cost

    @property
    def given_back(self) -> float:
        """The share of what zero costs that the mean gives back."""
        return 1 - self.mean.loss / self.zero.loss


class Neurons(NamedTuple):
    """Lists of rates have an item for each layer, others one for each neuron."""

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
    alone: list[Ablation]  # those that are always on, one by one
    as_costly: Ablation | None  # so many others that zero costs as much, the largest first
    n_as_costly: int
    relative: dict[str, list[float]]  # activations in the passages, of the always on
    relative_of_others: dict[str, list[float]]  # and of the first set of others


class Results(NamedTuple):
    """All that is measured of one model."""

    passages: int
    windows: list[int]
    neurons: Neurons


def pretrained(model: Model, name: str = "", seed: int = 0) -> dict:
    """Entry 23 of `make data WHAT=pretrained`, of any model alike, as JSON has it."""
    texts = passages(seed=seed)
    ends, held_out = read_ends(model, texts), windows(model)
    found = neurons(model, ends, held_out, windows(model, split="train"), seed)
    return rounded(plain(Results(len(texts), list(held_out.shape), found)))


def parsed(found: dict) -> Results:
    """The results that `pretrained` has made a dict of."""
    m = found["neurons"]
    kinds = ("always_on", "random", "as_long")
    written = {kind: [always_on.Written(**row) for row in m[kind]] for kind in kinds}
    ablations = {what: _ablation(m[what]) for what in ("ablated", "as_costly")}
    for what in ("others_ablated", "alone"):
        ablations[what] = [_ablation(each) for each in m[what]]
    return Results(found["passages"], found["windows"], Neurons(**m | written | ablations))


def _ablation(found: dict | None) -> Ablation | None:
    return found and Ablation(Cost(**found["zero"]), Cost(**found["mean"]))


def read_results(name: str = "smollm2") -> Results:
    """What `make data WHAT=pretrained` measured of one model."""
    return parsed(read(f"pretrained/23-{name}"))


def ablated(
    model: Model, tokens: Tensor, which: list, mean: Tensor, whole: Cost | None = None
) -> Ablation:
    """What setting neurons to zero, and to their mean, changes of the loss and the entropy.

    whole: the cost of the tokens without any change, where it is known already.
    """
    whole = whole or cost(model, tokens)
    return Ablation(*(_change(model, tokens, which, to, whole) for to in (None, mean)))


def _change(model: Model, tokens: Tensor, which: list, to: Tensor | None, whole: Cost) -> Cost:
    """What setting neurons to zero, or to their numbers in `to`, changes."""
    now = cost(model, tokens, ablate_neurons(model, which, to))
    return Cost(now.loss - whole.loss, now.entropy - whole.entropy)


def neurons(model: Model, ends: Ends, tokens: Tensor, reference: Tensor, seed: int = 0) -> Neurons:
    """Neurons that are always on, what they write, and what they are for."""
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
    kinds = [always_on.written(model, x, words, mean, often) for x in (found, random, as_long)]
    n, together = max(len(found), 1), ablated(model, tokens, found, mean, whole) if found else None
    relative = always_on.relative(ends.hidden)
    order = always_on.largest(found, size, left_out)
    costly, costs = as_costly(model, tokens, order, together, mean, whole)
    return Neurons(
        max(1, round(always_on.SHARE * d_mlp)) / d_mlp,
        often.max(dim=-1).values.tolist(),
        shuffled.max(dim=-1).values.tolist(),
        *kinds,
        together,
        [ablated(model, tokens, which, mean, whole) for which in size_matched if which],
        sum(size[neuron].item() for neuron in found) / n,
        [sum(size[neuron].item() for neuron in which) / n for which in size_matched],
        [ablated(model, tokens, [neuron], mean, whole) for neuron in found],
        costs,
        len(costly),
        *(
            {str(one): relative[one.layer, :, one.neuron].tolist() for one in which}
            for which in (found, size_matched[0])
        ),
    )


def as_costly(
    model: Model,
    tokens: Tensor,
    order: list,
    together: Ablation | None,
    mean: Tensor,
    whole: Cost,
) -> tuple[list[Neuron], Ablation | None]:
    """The first neurons of an order, so many that setting them to zero costs what `together` does.

    Half as many again are tried each time. None, if there are not enough, or nothing is asked.
    """
    n = LEAST_OTHERS
    while together and n <= len(order):
        zero = _change(model, tokens, order[:n], None, whole)
        if zero.loss >= together.zero.loss:
            return order[:n], Ablation(zero, _change(model, tokens, order[:n], mean, whole))
        n += n // 2
    return [], None


def first_late(n_layers: int) -> int:
    """The first layer of the last quarter: 18 of 24, as in VISIT, section 5.3."""
    return n_layers - max(1, round(n_layers / 4))
