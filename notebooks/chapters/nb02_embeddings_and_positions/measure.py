"""Notebook 02: words of a kind, how tokens are used, and random models."""

from jaxtyping import Float
from torch import Tensor

from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text import stories


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
