"""Notebook 02: words of a kind, how tokens are used, and random models."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.base import statistics
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text import stories
from aot_helpers.text.batches import pair_counts
from aot_helpers.text.corpora import load_corpus


def kinds() -> dict[str, list[str]]:
    """{kind: words} of the stories' grammar: five kinds of words that are used alike."""
    things = sorted({noun for nouns in stories.THINGS.values() for noun in nouns})
    words = {"place": list(stories.ROADS), "thing": things}
    return words | {kind: stories.WORDS[kind] for kind in ("feeling", "food", "number")}


def cosines(
    rows: Float[Tensor, "row d"], others: Float[Tensor, "other d"]
) -> Float[Tensor, "row other"]:
    """The cosine of each row with each of the others."""
    rows = rows / rows.norm(dim=1, keepdim=True)
    others = others / others.norm(dim=1, keepdim=True)
    return rows @ others.T


def principal_components(
    rows: Float[Tensor, "row d"], n: int = 2
) -> tuple[Float[Tensor, "n d"], Float[Tensor, " n"]]:
    """The n directions in which the rows vary most, and the share of the variance along each."""
    _, singular, directions = torch.linalg.svd(rows - rows.mean(dim=0), full_matrices=False)
    return directions[:n], (singular**2 / (singular**2).sum())[:n]


def frequent_tokens(
    tokenizer, n_texts: int, least: int
) -> tuple[Float[Tensor, "token next"], Int[Tensor, " frequent"]]:
    """Pairs of tokens counted in so many stories; the tokens with `least` of them on both sides."""
    texts = tokenizer.encode_many(load_corpus("stories", "train", quiet=True).texts[:n_texts])
    counts = pair_counts(texts, tokenizer.d_vocab).float()
    enough = (counts.sum(dim=0) >= least) & (counts.sum(dim=1) >= least)
    return counts, enough.nonzero().flatten()


def correlation(a: Float[Tensor, "row row"], b: Float[Tensor, "row row"]) -> float:
    """Pearson's, over all pairs of different rows, each pair once."""
    i, j = torch.triu_indices(len(a), len(a), 1)
    return statistics.correlation(a[i, j], b[i, j])


def random_model(positions: str, n_layers: int = 1, causal: bool = True):
    """A random model of 50 tokens; relative biases, which start at 0, are made random too."""
    config = ModelConfig(
        50, n_layers, 32, n_heads=4, d_head=8, n_ctx=12, positions=positions, causal=causal
    )
    model = AttentionOnlyTransformer(config).requires_grad_(False)
    if positions == "relative":
        for layer in model.blocks:
            layer.attn.b_rel.normal_()
    return model
