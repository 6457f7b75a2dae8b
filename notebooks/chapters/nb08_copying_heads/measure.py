"""Notebook 08: heads that are given other values; what their scores would be by chance."""

from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model
from aot_helpers.models.transformer import AttentionOnlyTransformer
from aot_helpers.reading.circuits import copying_score
from aot_helpers.reading.factored import FactoredMatrix
from aot_helpers.text.batches import pad_batch
from aot_helpers.text.corpora import Corpus
from aot_helpers.text.planted import CODES, NAMES

COPIED = {"names": (NAMES, "copy"), "codes": (CODES, "repeat")}  # words, and a kind of their truth


def planted_copies(
    corpus: Corpus, tokenizer
) -> tuple[Int[Tensor, "text pos"], dict[str, Tensor], dict[str, Tensor]]:
    """Planted texts (BOS first), {"names" and "codes": tokens, [n]}, {the same: True at copies}.

    The last are [text, word]: word i is the token at place i + 1, as for losses of next tokens.
    """
    texts, _ = pad_batch([tokenizer.encode(text, bos=True) for text in corpus.texts], tokenizer.pad)
    tokens, copies = {}, {}
    for group, (words, rule) in COPIED.items():
        tokens[group] = tokenizer.encode(" ".join(words))
        ruled = [[int(kind == rule) for kind in kinds] for kinds in corpus.truth.kinds]
        copies[group] = pad_batch([*map(torch.tensor, ruled)], 0)[0].bool() & torch.isin(
            texts[:, 1:], tokens[group]
        )
    return texts, tokens, copies


def best_words(logits: Float[Tensor, "1 pos d_vocab"], tokenizer, n: int = 2) -> dict[str, float]:
    """{word: probability, to two digits} of the n likeliest words after the last place."""
    best = logits[0, -1].softmax(dim=-1).topk(n)
    shares = [round(share, 2) for share in best.values.tolist()]
    return dict(zip(tokenizer.token_strings(best.indices), shares, strict=True))


def each_as_the_next(d_vocab: int, groups: list[Tensor]) -> Int[Tensor, " d_vocab"]:
    """What each token is read as: another one of its group, itself if it is in none.

    Raises ValueError for a group of one token, or tokens in two groups.
    """
    together = torch.cat(groups)
    if min(map(len, groups)) < 2 or len(together.unique()) < len(together):
        raise ValueError(
            f"each token of a group needs another one, and each a group of its own; got groups of "
            f"{[len(group) for group in groups]} with {len(together.unique())} tokens in all"
        )
    other = torch.arange(d_vocab)
    for group in groups:
        other[group] = group.roll(1)
    return other


def other_values(
    model: AttentionOnlyTransformer,
    text: Int[Tensor, "text pos"],
    other: Int[Tensor, " d_vocab"],
    layer: int,
    heads: list[int],
) -> Edits:
    """An edit: the values of these heads, as if each token t were the token other[t].

    Only what they read of the token's own embedding changes; what earlier layers wrote stays.
    """
    change = model.W_E[other[text]] - model.W_E[text]

    def exchange(v):
        v = v.clone()
        for h in heads:
            v[:, :, h] += change @ model.blocks[layer].attn.W_V[h]
        return v

    return {f"L{layer}.v": exchange}


def logit_difference(
    logits: Float[Tensor, "text pos d_vocab"],
    texts: Int[Tensor, "text pos"],
    donors: Int[Tensor, "text pos"],
) -> Float[Tensor, "text word"]:
    """Of each next word: the logit of the donor's minus that of the text's."""
    theirs, own = (logits[:, :-1].gather(2, some[:, 1:, None]) for some in (donors, texts))
    return (theirs - own)[..., 0]


def repeated(
    logits: Float[Tensor, "text pos d_vocab"],
    texts: Int[Tensor, "text pos"],
    copies: Bool[Tensor, "text word"],
    codes: Int[Tensor, " n"],
    mark: int,
) -> tuple[Bool[Tensor, "text word"], Bool[Tensor, "text word"]]:
    """True where the first choice is a code that was said since the mark; True where it counts.

    copies: True where a code is due again, as of `planted_copies`; counted where one was just said.
    """
    is_code, after = torch.isin(texts, codes), (texts == mark).cumsum(dim=1)
    since = (after[:, :, None] == after[:, None]) & is_code[:, None]  # [text, query, key]
    first = logits.argmax(dim=-1)
    said = (since & (texts[:, None] == first[..., None])).tril().any(dim=-1)
    return said[:, :-1], is_code[:, :-1] & copies


def repeats(logits, texts, copies, codes, mark) -> float:
    """How often the first choice after a code said again is a code that was said since the mark.

    The arguments are those of `repeated`.
    """
    said, counted = repeated(logits, texts, copies, codes, mark)
    return said[counted].float().mean().item()


def repeats_by_list(logits, texts, copies, codes, mark) -> dict[int, list[float]]:
    """{codes in a list: the share of repeats where its second, third, … code is due again}."""
    said, counted = repeated(logits, texts, copies, codes, mark)
    found = {}
    for row, its, here in zip(texts.tolist(), said.tolist(), counted.tolist(), strict=True):
        marks = [i for i, token in enumerate(row) if token == mark]
        for start, end in pairwise([*marks, len(here)]):
            due = [i for i in range(start, end) if here[i]]
            for k, i in enumerate(due):
                found.setdefault(len(due) + 1, {}).setdefault(k, []).append(its[i])
    return {n: [sum(x) / len(x) for x in found[n].values()] for n in sorted(found)}


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


def second_mentions(
    model: Model, corpus: Corpus, n: int, length: int = 64
) -> tuple[Int[Tensor, "n length"], Int[Tensor, "n length"], Bool[Tensor, "n word"]]:
    """Texts in which a word returns after the same token, their donors, and True where it returns.

    One place a text: the first token of two letters or more that has stood in it exactly once, more
    than three places earlier, after the same token. In the donor both mentions are exchanged
    for the token that the model finds likeliest at the first, of those that are not in the text.
    Masks are [text, word], word i being the token at place i + 1. Raises ValueError for fewer
    than n such texts.
    """
    rows, places = [], []
    for ids in model.tokenizer.encode_many(corpus.texts):
        ids = torch.as_tensor(ids)[:length]
        found = _returning(ids, model.tokenizer) if len(ids) == length else None
        if found and len(rows) < n:
            rows.append(ids)
            places.append(found)
    if len(rows) < n:
        raise ValueError(f"only {len(rows)} texts have a word that returns, not {n}: take fewer")
    texts, each = torch.stack(rows), torch.arange(n)
    first, second = torch.tensor(places).T
    own, expected = texts[each, second], model(texts)[each, first - 1].clone()
    other = expected.scatter(1, texts, -torch.inf).argmax(dim=1)
    donors = torch.where(texts == own[:, None], other[:, None], texts)
    return texts, donors, torch.arange(1, length) == second[:, None]


def _returning(ids: Int[Tensor, " pos"], tokenizer) -> tuple[int, int] | None:
    """Where the first word that returns after the same token stands, twice; None without one."""
    for j in range(20, len(ids)):
        earlier = (ids[:j] == ids[j]).nonzero()[:, 0].tolist()
        word = tokenizer.token_strings(ids[j : j + 1])[0].strip()
        fits = len(earlier) == 1 and 0 < earlier[0] < j - 3 and len(word) > 1 and word.isalpha()
        if fits and ids[earlier[0] - 1] == ids[j - 1]:
            return earlier[0], j
    return None


def read_alone(model: Model, layer: int, block: int = 512) -> Float[Tensor, "d_vocab d_model"]:
    """What the heads of a layer read of each token when it stands alone, right after BOS."""
    name, rows = f"L{layer}.ln1_out", []
    for ids in torch.arange(model.config.d_vocab).split(block):
        alone = torch.stack([torch.full_like(ids, model.tokenizer.bos), ids], dim=1)
        rows.append(model.run_with_cache(alone)[1][name][:, 1].clone())
    return torch.cat(rows)


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


def agreement(
    flags: Bool[Tensor, " heads"],
    copies: Bool[Tensor, " heads"],
    of_model: Int[Tensor, " heads"],
    n_times: int,
) -> tuple[Float[Tensor, " model"], Float[Tensor, " model"]]:
    """Share of each model's heads where flag and copying agree, and the same by chance.

    By chance: the mean over n_times, each with the same flags in random order over the heads of all
    models. Models in the order of their numbers.
    """
    shuffled = shuffled_within_models(flags, torch.zeros_like(of_model), n_times)
    right = (torch.cat([flags[None], shuffled]) == copies).float()
    shares = torch.stack([right[:, of_model == m].mean(dim=1) for m in of_model.unique()], dim=1)
    return shares[0], shares[1:].mean(dim=0)
