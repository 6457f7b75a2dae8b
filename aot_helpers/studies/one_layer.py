"""Notebook 07: what one layer looks up in a planted corpus, and what its mistakes cost."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model
from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.text.planted import BUG, BUG_OBJECTS, FILLERS, P_VERB, PlantedTruth
from aot_helpers.training.losses import next_token_losses

Planted = dict[tuple[str, str], str]  # {(source, destination): out}


def word_ids(tokenizer) -> dict[str, int]:
    """{word: its token}, of a tokenizer of whole words."""
    return {
        word: i for i, word in enumerate(tokenizer.token_strings(list(range(tokenizer.d_vocab))))
    }


def frames(tokenizer, sources: list[str], destinations: list[str]) -> Int[Tensor, "frame 5"]:
    """Short texts BOS, source, filler, filler, destination: all pairs of fillers that may follow.

    Ordered by source, then destination, then fillers.
    """
    number = word_ids(tokenizer)
    return torch.tensor(
        [
            [tokenizer.bos, number[source], number[a], number[b], number[destination]]
            for source in sources
            for destination in destinations
            for a in FILLERS
            for b in FILLERS[a]
        ]
    )


def mean_over_fillers(
    values: Float[Tensor, "frame out"], n_destinations: int
) -> Float[Tensor, "source destination out"]:
    """Values of `frames`, averaged over the fillers."""
    n_pairs = sum(map(len, FILLERS.values()))
    return values.view(-1, n_destinations, n_pairs, values.shape[-1]).mean(dim=2)


def raises(
    logits: Float[Tensor, "frame out"], n_destinations: int
) -> Float[Tensor, "source destination out"]:
    """How far each source lifts the probability of each out, above the mean over all sources.

    logits: after the last word of `frames`, with every word of the vocabulary as a source.
    """
    p = mean_over_fillers(logits.softmax(dim=-1), n_destinations)
    return p - p.mean(dim=0)


def as_ids(
    planted: Planted, word_id: dict[str, int], destinations: list[str]
) -> set[tuple[int, int, int]]:
    """{(source, destination, out)} as token ids, the destination as its place in the list."""
    return {(word_id[s], destinations.index(d), word_id[o]) for (s, d), o in planted.items()}


def recall(
    raised: Float[Tensor, "source destination out"], planted: set[tuple[int, int, int]]
) -> float:
    """Share of planted sources and destinations whose planted out has the largest raise."""
    return sum(int(raised[s, d].argmax()) == o for s, d, o in planted) / len(planted)


def crossed_chances(model: Model) -> dict[tuple[str, str], dict[str, float]]:
    """{(verb, preposition): {noun: probability}} of the four crossed pairs, mean over `frames`."""
    number, found = word_ids(model.tokenizer), {}
    for verb, preposition in BUG:
        logits = model(frames(model.tokenizer, [verb], [preposition]))[:, -1]
        mean = logits.softmax(dim=-1).mean(dim=0)
        found[verb, preposition] = {noun: mean[number[noun]].item() for noun in BUG_OBJECTS}
    return found


def last_terms(
    model: AttentionOnlyTransformer, words: list[str]
) -> dict[str, Float[Tensor, " out"]]:
    """What the direct path and each head add to the logits after the last word, means taken off.

    {name: [out]}; for one layer without layer norm. BOS is put before the words.
    """
    number, attn = word_ids(model.tokenizer), model.blocks[0].attn
    tokens = torch.tensor([model.tokenizer.bos, *(number[word] for word in words)])
    _, cache = model.run_with_cache(tokens[None])
    W_U = model.W_U - model.W_U.mean(dim=1, keepdim=True)
    X, terms = model.W_E[tokens], {"direct": model.W_E[tokens[-1]] @ W_U}
    for h in range(model.config.n_heads):
        offered = X @ attn.W_V[h] @ attn.W_O[h] @ W_U
        terms[f"L0H{h}"] = cache["L0.pattern"][0, h, -1] @ offered
    return terms


def looks(
    model: AttentionOnlyTransformer, head: int, source: str, destinations: list[str]
) -> dict[str, float]:
    """{destination: a head's attention from it to the source}, mean over gaps of two fillers."""
    _, cache = model.run_with_cache(frames(model.tokenizer, [source], destinations))
    to_source = cache["L0.pattern"][:, head, -1, 1:2]
    means = mean_over_fillers(to_source, len(destinations))[0, :, 0]
    return dict(zip(destinations, means.tolist(), strict=True))


def head_tables(
    model: AttentionOnlyTransformer,
    head: int,
    every: Int[Tensor, "frame 5"],
    n_destinations: int,
) -> tuple[Float[Tensor, "destination source"], Float[Tensor, "source out"]]:
    """A head's attention to every source, mean over fillers, and what it then adds to each score.

    every: `frames` with every word of the vocabulary as a source. Of the scores the mean is taken
    off.
    """
    attn, (_, cache) = model.blocks[0].attn, model.run_with_cache(every)
    looks = mean_over_fillers(cache["L0.pattern"][:, head, -1, 1:2], n_destinations)
    OV = model.W_E @ attn.W_V[head] @ attn.W_O[head] @ model.W_U
    return looks[:, :, 0].T, OV - OV.mean(dim=1, keepdim=True)


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


def fillers_before(tokenizer, texts: Int[Tensor, "text pos"]) -> Int[Tensor, "text pos"]:
    """How many fillers stand directly before each word."""
    number = word_ids(tokenizer)
    filler = torch.isin(texts, torch.tensor([number[word] for word in FILLERS]))
    n_before = torch.zeros_like(texts)
    for at in range(1, texts.shape[1]):
        n_before[:, at] = (n_before[:, at - 1] + 1) * filler[:, at - 1]
    return n_before


def looks_at_verbs(
    model: AttentionOnlyTransformer,
    head: int,
    texts: Int[Tensor, "text pos"],
    here: Bool[Tensor, "text word"],
) -> tuple[float, float]:
    """A head's mean attention to the word before the fillers, and to all other verbs.

    here: True at the places that it looks from, each with a verb before its fillers.
    """
    number = word_ids(model.tokenizer)
    row, place = here.nonzero(as_tuple=True)
    _, cache = model.run_with_cache(texts)
    shares = cache["L0.pattern"][row, head, place]  # [place, pos]
    before = place - fillers_before(model.tokenizer, texts)[row, place] - 1
    own = shares.gather(1, before[:, None])[:, 0]
    verbs = torch.isin(texts[row], torch.tensor([number[verb] for verb in P_VERB]))
    return own.mean().item(), ((shares * verbs).sum(dim=1) - own).mean().item()


def above_floor(
    model: Model,
    words: Bool[Tensor, "text word"],
    texts: Int[Tensor, "text pos"],
    floor: Float[Tensor, "text word"],
    edits: Edits | None = None,
    on: Int[Tensor, "text pos"] | None = None,
) -> float:
    """Mean loss above the floor (nats per word) where `words` is True.

    on: other texts for the model to read, while it is asked for the words of `texts`.
    """
    losses = next_token_losses(model(texts if on is None else on, edits=edits), texts)
    return (losses - floor)[words].mean().item()


def looking_as_from(
    model: AttentionOnlyTransformer, others: Int[Tensor, "text pos"], head: int
) -> Edits:
    """Edits that let a head of layer 0 look from the last place as it does in other texts."""
    _, cache = model.run_with_cache(others)
    row = cache["L0.pattern"][:, head, -1]

    def look(pattern):
        pattern = pattern.clone()
        pattern[:, head, -1] = row
        return pattern

    return {"L0.pattern": look}
