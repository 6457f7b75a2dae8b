"""Notebook 07: what one layer looks up in a planted corpus, and what its mistakes cost."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model
from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.text.planted import BUG, BUG_OBJECTS, PlantedTruth
from aot_helpers.text.tokenization import word_ids

Planted = dict[tuple[str, str], str]  # {(source, destination): out}


def gap_frames(
    tokenizer, sources: list[str], destinations: list[str]
) -> Int[Tensor, "destination source 5"]:
    """The texts BOS, source, "so then", destination: one for each destination and source."""
    texts = [
        f"{source} so then {destination}" for destination in destinations for source in sources
    ]
    rows = torch.stack([tokenizer.encode(text, bos=True) for text in texts])
    return rows.view(len(destinations), len(sources), -1)


def skip_trigram_table(
    attention: Float[Tensor, "destination source"], OV: Float[Tensor, "source out"]
) -> Float[Tensor, "destination source out"]:
    """What a head adds to each logit because of a source: attention weight times row of the OV.

    Each row of the OV circuit less its mean, which the softmax over outs ignores.
    """
    boost = OV - OV.mean(dim=-1, keepdim=True)
    return attention[:, :, None] * boost


def strongest(
    table: Float[Tensor, "destination source out"],
    destinations: list[str],
    sources: list[str],
    outs: list[str],
    k: int,
) -> dict[tuple[str, str, str], float]:
    """{(source, destination, out): value} of the k largest entries, from the largest on."""
    values, places = table.flatten().topk(k)
    places = torch.stack(torch.unravel_index(places, table.shape), dim=1).tolist()
    names = [(sources[s], destinations[d], outs[o]) for d, s, o in places]
    return dict(zip(names, values.tolist(), strict=True))


def patched(
    model: AttentionOnlyTransformer,
    texts: Int[Tensor, "text pos"],
    donors: Int[Tensor, "text pos"],
    h: int,
) -> Float[Tensor, "text out"]:
    """Logits after each text, if head h brings to the last position what it brings there in donors.

    Activation patching of "L0.z"; all else in the model reads `texts`.
    """
    _, cache = model.run_with_cache(donors)

    def patch(z):
        z = z.clone()
        z[:, -1, h] = cache["L0.z"][:, -1, h]
        return z

    return model(texts, edits={"L0.z": patch})[:, -1]


def crossed_chances(model: Model) -> dict[tuple[str, str], dict[str, float]]:
    """{(verb, preposition): {noun: probability}} of the four crossed pairs, in `gap_frames`."""
    number, found = word_ids(model.tokenizer), {}
    for verb, preposition in BUG:
        p = model(gap_frames(model.tokenizer, [verb], [preposition])[0])[0, -1].softmax(dim=-1)
        found[verb, preposition] = {noun: p[number[noun]].item() for noun in BUG_OBJECTS}
    return found


def floors(truth: PlantedTruth, shape: tuple[int, int]) -> Float[Tensor, "text word"]:
    """Minus the log-probability of each word, given all words before it; 0 after the end."""
    floor = torch.zeros(*shape)
    for row, log_probs in enumerate(truth.log_probs):
        floor[row, : len(log_probs)] = -torch.tensor(log_probs)
    return floor


def of_kind(truth: PlantedTruth, kind: str, shape: tuple[int, int]) -> Bool[Tensor, "text word"]:
    """True at the words of one kind."""
    mask = torch.zeros(*shape, dtype=torch.bool)
    for row, kinds in enumerate(truth.kinds):
        mask[row, : len(kinds)] = torch.tensor([each == kind for each in kinds])
    return mask


def attending_as_in(
    model: AttentionOnlyTransformer, others: Int[Tensor, "text pos"], head: int
) -> Edits:
    """Edits by which a head of layer 0 attends from the last position as it does in other texts."""
    _, cache = model.run_with_cache(others)
    row = cache["L0.pattern"][:, head, -1]

    def look(pattern):
        pattern = pattern.clone()
        pattern[:, head, -1] = row
        return pattern

    return {"L0.pattern": look}
