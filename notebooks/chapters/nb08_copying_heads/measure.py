"""Notebook 08: texts with copies, heads that are given other values, codes that are due again."""

import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits
from aot_helpers.models.transformer import AttentionOnlyTransformer
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


def best_words(logits: Float[Tensor, "1 pos d_vocab"], tokenizer) -> dict[str, float]:
    """{word: probability, to two digits} of the two likeliest words after the last place."""
    best = logits[0, -1].softmax(dim=-1).topk(2)
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


def due_codes(
    logits: Float[Tensor, "text pos d_vocab"],
    texts: Int[Tensor, "text pos"],
    copies: Bool[Tensor, "text word"],
    codes: Int[Tensor, " n"],
    mark: int,
) -> pd.DataFrame:
    """A row for each code that is due again right after another, by what the model says there.

    copies: True where a code is due again, as of `planted_copies`. codes: how many the list has.
    nth: which of them is due. repeated: whether the first choice is one said since the last mark.
    one_back: whether it is the word before the present one.
    """
    is_code, n_marks = torch.isin(texts, codes), (texts == mark).cumsum(dim=1)
    since = (n_marks[:, :, None] == n_marks[:, None]) & is_code[:, None]  # [text, query, key]
    choice = logits.argmax(dim=-1)
    repeated = (since & (texts[:, None] == choice[..., None])).tril().any(dim=-1)
    text, pos = (is_code[:, :-1] & copies).nonzero(as_tuple=True)
    columns = {"text": text, "list": n_marks[text, pos], "repeated": repeated[text, pos]}
    columns["one_back"] = choice[text, pos] == texts[text, pos - 1]
    due = pd.DataFrame({name: column.numpy() for name, column in columns.items()})
    lists = due.groupby(["text", "list"])
    return due.assign(codes=lists["list"].transform("size") + 1, nth=lists.cumcount() + 2)
