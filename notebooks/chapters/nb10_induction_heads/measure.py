"""Notebook 10: texts with names, what a reader loses without a part, the terms of a score."""

import random

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.losses import copy_accuracy
from aot_helpers.models.protocol import Edits, Head, Model, all_heads
from aot_helpers.reading.circuits import qk_circuit
from aot_helpers.reading.heads import head_output
from aot_helpers.reading.paths import check_additive
from aot_helpers.text.batches import repeat_segments, repeated_tokens
from aot_helpers.text.corpora import load_corpus

BIAS = ("position", "position")  # the relative bias, as a term of the scores


def edited_score(model: Model, tokens: Int[Tensor, "batch pos"], head: Head, edits: Edits) -> float:
    """A head's induction score while activations are edited."""
    with torch.no_grad():
        pattern = model.run_with_cache(tokens, edits=edits)[1][f"L{head.layer}.pattern"]
    return _score(pattern[:, head.head])


def score_with_keys(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    head: Head,
    keys: Float[Tensor, "batch pos head d_head"],
) -> float:
    """A head's induction score when all heads of its layer have these keys."""
    return edited_score(model, tokens, head, {f"L{head.layer}.k": lambda _: keys})


def _score(pattern: Float[Tensor, "batch query key"]) -> float:
    length = (pattern.shape[-1] - 1) // 2
    query = torch.arange(length + 1, 2 * length + 1)
    return pattern[:, query, query - length + 1].mean().item()


def encoded(tokenizer, text: str) -> Int[Tensor, "1 pos"]:
    """BOS and the tokens of a text."""
    return torch.cat([torch.tensor([tokenizer.bos]), tokenizer.encode(text)])[None]


def name_sentences(tokenizer, n_pairs: int, seed: int) -> list[tuple[Tensor, int, int]]:
    """Sentences about two people whose surnames begin with the same token, up to that token.

    "Fiza Peril met Riso Polar near the river. In the evening Riso P", and the same with Fiza: the
    tokens, and the positions where the own and the other's surname go on. The names are made up
    as those of the stories are, and none of the surnames stands in the training texts.
    """
    read = "\n".join(load_corpus("stories", quiet=True).texts)
    rng = random.Random(seed)
    sentences = []
    hard, vowels = "bdfgklmnprstvz", "aeiou"

    def drawn(*letters: str) -> str:
        return "".join(map(rng.choice, letters)).title()

    while len(sentences) < 2 * n_pairs:
        given = [drawn(hard, vowels, hard, "ao") for _ in range(2)]
        initial = rng.choice(hard)
        family = [drawn(initial, vowels, hard, vowels, "lnrsv") for _ in range(2)]
        (A, *rest), (A_too, *rest_too) = (tokenizer.encode(f" {n}").tolist() for n in family)
        x, y = (tokenizer.encode(f" {name}").tolist()[-1] for name in given)
        if A_too != A or not rest or not rest_too or rest[0] == rest_too[0] or x == y:
            continue  # there is no choice, or nothing to choose by
        if any(name in read for name in family):
            continue
        told = f"{given[0]} {family[0]} met {given[1]} {family[1]} near the river. In the evening"
        for own, other, name in ((rest, rest_too, given[0]), (rest_too, rest, given[1])):
            start = encoded(tokenizer, f"{told} {name}")
            row = [*start[0].tolist(), A]
            pairs = list(zip(row, row[1:], strict=False))
            at_own, at_other = (pairs.index((A, each[0])) + 1 for each in (own, other))
            sentences.append((torch.tensor([row]), at_own, at_other))
    return sentences


def docstrings_twice(model: Model, n: int = 20, length: int = 40) -> Int[Tensor, "text pos"]:
    """Segments of docstrings that a model has not read, each written twice after BOS."""
    texts = model.tokenizer.encode_many(load_corpus("docstrings", "test", quiet=True).texts)
    segments = torch.stack([each[:length] for each in texts if len(each) >= length][:n])
    return repeat_segments(segments, model.tokenizer.bos)


def lost_by_part(
    model: Model,
    tokens: Int[Tensor, "batch pos"],
    reader: Head,
    cache: dict[str, Tensor],
    part: Float[Tensor, "batch pos d_model"],
) -> float:
    """The fraction of a reader's induction score that is lost when its keys do not read a part.

    part: a summand of the residual stream before the reader's layer, in the run that filled the
    cache. What varies in it is taken off before the layer norm, if there is one; its mean over
    texts and positions stays. For models with layer norm and MLPs, too.
    """
    layer, number = reader
    norm, b_K = model.attention_norm(layer), model.biases(layer).b_K[number]
    with torch.no_grad():
        left = cache[f"L{layer}.resid_pre"] - (part - part.mean(dim=(0, 1)))
        keys = cache[f"L{layer}.k"].clone()
        keys[:, :, number] = norm(left) @ model.head_weights(reader).W_K + b_K
    left = score_with_keys(model, tokens, reader, keys)
    return 1 - left / _score(cache[f"L{layer}.pattern"][:, number])


def lost_by_parts(
    model: Model, tokens: Int[Tensor, "batch pos"], reader: Head, cache: dict[str, Tensor]
) -> Float[Tensor, "layer part"]:
    """`lost_by_part` of every head and MLP before the reader: a row a layer, the MLP last."""
    parts = [
        [
            *(head_output(model, cache, Head(layer, h)) for h in range(model.config.n_heads)),
            cache[f"L{layer}.mlp_out"],
        ]
        for layer in range(reader.layer)
    ]
    return torch.tensor(
        [[lost_by_part(model, tokens, reader, cache, part) for part in row] for row in parts]
    )


def score_terms(
    model: Model, tokens: Int[Tensor, "batch pos"], head: Head
) -> dict[tuple[str, str], Float[Tensor, "batch query key"]]:
    """A head's scores as a sum over (what the query came from, what the key came from).

    The components are "embed", "position" (W_pos, if any) and the heads of earlier layers, "L0H0"
    …; b_rel is ("position", "position"). The terms add up to the scores before the mask. Framework
    paper, "Path Expansion of Attention Scores". Raises ValueError for models with layer norm, MLPs
    or smeared keys and for a head that does not exist.
    """
    check_additive(model)
    if model.config.smeared_keys:
        raise ValueError(
            "smeared_keys = True: keys come from two positions each, so that no terms add up to "
            "the scores of this model: take one with smeared_keys=False"
        )
    qk = qk_circuit(model, head)
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
        n_batch, n_pos = tokens.shape
        parts = {"embed": cache["embed"]}
        if hasattr(model, "W_pos"):
            parts["position"] = model.W_pos[:n_pos].expand(n_batch, -1, -1)
        for writer in all_heads(model)[: head.layer * model.config.n_heads]:
            parts[str(writer)] = head_output(model, cache, writer)
        terms = {
            (query, key): (x @ qk.A) @ (y @ qk.B.T).transpose(1, 2)
            for query, x in parts.items()
            for key, y in parts.items()
        }
        if model.config.positions == "relative":
            bias = model.blocks[head.layer].attn.relative_bias(n_pos)[head.head]
            terms["position", "position"] = bias.expand(n_batch, -1, -1)
    return terms


def two_matches(
    model: Model, sentences: list[tuple[Tensor, int, int]]
) -> tuple[dict[str, str], dict[str, tuple[float, float]]]:
    """The two matches of the tour in another model of two layers: in its weights, and alone.

    Also {kept terms: (probability of the own surname, of the other's)}, over the sentences.

    The writer is the head of layer 0 that attends most to one token back, the other the one that
    attends most two back; the induction heads are those of layer 1 with a score from 0.4 on.
    sentences: as `name_sentences` gives them, in the model's own tokens.
    """
    tokens = repeated_tokens(1024, 22, 40, model.tokenizer.bos, seed=1)
    _, cache = model.run_with_cache(tokens)
    one, two = (
        int(cache["L0.pattern"].diagonal(-back, dim1=2, dim2=3).mean(dim=(0, 2)).argmax())
        for back in (1, 2)
    )
    readers = [h for h in range(4) if _score(cache["L1.pattern"][:, h]) >= 0.4]
    first, second = ("embed", f"L0H{one}"), (f"L0H{one}", f"L0H{two}")
    weights = [
        [_on_diagonal(model, Head(1, h), match, one, two) for h in readers]
        for match in (first, second)
    ]
    row = {"heads that look one and two back": f"L0H{one} L0H{two}"}
    row["induction heads"] = " ".join(f"L1H{h}" for h in readers)
    for name, each in zip(("first", "second"), weights, strict=True):
        row[f"{name} match: rows on the diagonal"] = " ".join(f"{share:.0%}" for share in each)
    edits = _keep(model, tokens, cache, readers, [first, second])
    row["random tokens copied with the two matches"] = f"{copy_accuracy(model, tokens, edits):.1%}"
    tests = {"all 25 terms": None, "both matches": [first, second]}
    tests |= {"the first alone": [first], "the second alone": [second]}
    said = {}
    for name, kept in tests.items():
        chances = torch.zeros(2)
        for tokens, own, other in sentences:
            _, cache = model.run_with_cache(tokens)
            edits = {} if kept is None else _keep(model, tokens, cache, readers, kept)
            p = model(tokens, edits=edits)[0, -1].softmax(dim=-1)
            chances += p[tokens[0, [own, other]]] / len(sentences)
        said[name] = chances[0].item(), chances[1].item()
    return row, said


def _on_diagonal(model: Model, reader: Head, match: tuple[str, str], one: int, two: int) -> float:
    """In what fraction of the rows of a match's table the diagonal is largest."""
    written = {"embed": model.W_E}
    for h in (one, two):
        weights = model.head_weights(Head(0, h))
        written[f"L0H{h}"] = model.W_E @ weights.W_V @ weights.W_O
    reads = model.head_weights(reader)
    table = (written[match[0]] @ reads.W_Q) @ (written[match[1]] @ reads.W_K).T
    return (table.argmax(dim=1) == torch.arange(len(table))).float().mean().item()


def _keep(model: Model, tokens: Tensor, cache: dict, readers: list[int], kept: list) -> Edits:
    """Edits that leave, of the 25 terms of the readers' scores, those that are kept."""
    gone = torch.zeros_like(cache["L1.scores"])
    for h in readers:
        terms = score_terms(model, tokens, Head(1, h))
        gone[:, h] = sum(term for name, term in terms.items() if name not in [*kept, BIAS])
    return {"L1.scores": lambda scores: scores - gone}
