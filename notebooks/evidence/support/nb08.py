"""Evidence of notebook 08: what guesses follow, and copying scores that chance gives."""

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.reading.circuits import copying_score
from aot_helpers.reading.factored import FactoredMatrix


def logit_difference(
    logits: Float[Tensor, "text pos d_vocab"],
    texts: Int[Tensor, "text pos"],
    donors: Int[Tensor, "text pos"],
) -> Float[Tensor, "text word"]:
    """Of each next word: the logit of the donor's minus that of the text's."""
    theirs, own = (logits[:, :-1].gather(2, some[:, 1:, None]) for some in (donors, texts))
    return (theirs - own)[..., 0]


def read_alone(model: Model, layer: int, block: int = 128) -> Float[Tensor, "d_vocab d_model"]:
    """What the heads of a layer read of each token when it stands alone, right after BOS."""
    name, rows = f"L{layer}.ln1_out", []
    for ids in torch.arange(model.config.d_vocab).split(block):
        alone = torch.stack([torch.full_like(ids, model.tokenizer.bos), ids], dim=1)
        rows.append(model.run_with_cache(alone)[1][name][:, 1].clone())
    return torch.cat(rows)


def guesses(
    logits: Float[Tensor, "text pos d_vocab"],
    text: Int[Tensor, "text pos"],
    other: Int[Tensor, " d_vocab"],
    is_copy: Bool[Tensor, "text word"],
    group: Int[Tensor, " n"],
) -> tuple[float, float]:
    """Share of copies where the group's best token is (the true one, what that is read as)."""
    best = group[logits[:, :-1][is_copy][:, group].argmax(dim=-1)]
    true = text[:, 1:][is_copy]
    return tuple((best == each).float().mean().item() for each in (true, other[true]))


def part_of(circuit: FactoredMatrix, group: Int[Tensor, " n"]) -> FactoredMatrix:
    """The rows and columns of a square table that belong to a group, centered."""
    return FactoredMatrix(circuit.A[group], circuit.B[:, group]).centered_columns()


def permuted_scores(circuit: FactoredMatrix, n: int) -> Float[Tensor, " n"]:
    """Copying scores of a circuit whose columns are in random order, n times."""
    orders = [torch.randperm(circuit.shape[1]) for _ in range(n)]
    return torch.tensor([copying_score(FactoredMatrix(circuit.A, circuit.B[:, o])) for o in orders])


def beyond_chance(
    score: float, random: Float[Tensor, " heads"], permuted: Float[Tensor, " n"]
) -> bool:
    """True if a copying score exceeds both nulls.

    It must be above 99.9 % of the scores of random heads, and more than 3.1 standard deviations
    above those of the same table with its columns in random order.
    """
    return bool(score > max(random.quantile(0.999), permuted.mean() + 3.1 * permuted.std()))


def shuffled_within_models(
    values: Shaped[Tensor, " n"], of_model: Int[Tensor, " n"], n_times: int
) -> Shaped[Tensor, "time n"]:
    """The heads' values in random order within each model, several times."""
    shuffled = values.repeat(n_times, 1)
    for model in of_model.unique():
        mine = (of_model == model).nonzero()[:, 0]
        for row in shuffled:
            row[mine] = row[mine[torch.randperm(len(mine))]]
    return shuffled
