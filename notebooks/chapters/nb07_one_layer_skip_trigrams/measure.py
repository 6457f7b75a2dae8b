"""Notebook 07: what one layer looks up in a planted corpus, and what its mistakes cost."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Model
from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.text.planted import BUG, BUG_OBJECTS, FILLERS, P_VERB, PlantedTruth
from aot_helpers.text.tokenization import word_ids

Planted = dict[tuple[str, str], str]  # {(source, destination): out}


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


def raises(
    logits: Float[Tensor, "frame out"], n_destinations: int
) -> Float[Tensor, "source destination out"]:
    """How far each source lifts the probability of each out, above the mean over all sources.

    logits: after the last word of `frames`, with every word of the vocabulary as a source.
    """
    n_pairs = sum(map(len, FILLERS.values()))
    p = logits.softmax(dim=-1).view(-1, n_destinations, n_pairs, logits.shape[-1]).mean(dim=2)
    return p - p.mean(dim=0)


def gap_frames(
    tokenizer, sources: list[str], destinations: list[str], gap: str = "so then"
) -> Int[Tensor, "destination source 5"]:
    """The texts BOS, source, gap, destination, as tokens: one for each destination and source."""
    texts = [f"{source} {gap} {destination}" for destination in destinations for source in sources]
    rows = torch.stack([tokenizer.encode(text, bos=True) for text in texts])
    return rows.view(len(destinations), len(sources), -1)


def skip_trigram_table(
    model: AttentionOnlyTransformer, h: int, frames: Int[Tensor, "*frame pos"]
) -> Float[Tensor, "*frame out"]:
    """What head h of layer 0 adds to each logit after the last token of a frame for its source.

    From weights alone: attention from the last token to the source (position 1), times the
    source's row of the OV circuit, less the row's mean. For relative positions, no layer norm.
    """
    attn, X = model.blocks[0].attn, model.W_E[frames]
    queries, keys = X[..., -1:, :] @ attn.W_Q[h], X @ attn.W_K[h]
    scores = (queries @ keys.mT).squeeze(-2) / math.sqrt(model.config.d_head)
    distance = torch.arange(frames.shape[-1] - 1, -1, -1)
    attention = (scores + attn.b_rel[h, distance]).softmax(dim=-1)[..., 1]
    boost = X[..., 1, :] @ attn.W_V[h] @ attn.W_O[h] @ model.W_U
    return attention[..., None] * (boost - boost.mean(dim=-1, keepdim=True))


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


def attention_to(
    model: AttentionOnlyTransformer, head: int, source: str, destinations: list[str], place: int = 1
) -> dict[str, float]:
    """{destination: a head's attention weight on the source}, in `gap_frames`; place 0: on BOS."""
    rows = gap_frames(model.tokenizer, [source], destinations)[:, 0]
    _, cache = model.run_with_cache(rows)
    return dict(zip(destinations, cache["L0.pattern"][:, head, -1, place].tolist(), strict=True))


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
