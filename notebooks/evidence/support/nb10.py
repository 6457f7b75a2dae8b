"""Evidence of notebook 10: texts in which a token stood at two places, and what heads prefer."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model


def two_places(
    d_vocab: int, n: int, bos: int = 0
) -> tuple[Int[Tensor, "text pos"], Bool[Tensor, "text pos"], Bool[Tensor, "text pos"]]:
    """Texts "… x A b … y A c … x A" of different random tokens, and where b and c stand.

    Half of the texts have the two places in the other order.
    """
    draws = torch.stack([torch.randperm(d_vocab - 1)[:23] for _ in range(n)])
    draws = (1 + bos + draws) % d_vocab  # any token but BOS
    x, y, A, b, c = draws[:, :5].split(1, dim=1)
    gaps = draws[:, 5:].split(6, dim=1)
    both, one = torch.cat([x, A, b], dim=1), torch.cat([y, A, c], dim=1)
    swap = (torch.arange(n) % 2 == 1)[:, None]
    first, second = torch.where(swap, one, both), torch.where(swap, both, one)
    start = torch.full((n, 1), bos)
    tokens = torch.cat([start, gaps[0], first, gaps[1], second, gaps[2], x, A], dim=1)
    return tokens, tokens == b, tokens == c


def attention_to_places(
    model: Model, heads: list[int], text: tuple, edits: Edits | None = None
) -> Float[Tensor, "head 3"]:
    """Attention of the last query of layer 1 to b, to c (see `two_places`) and to BOS."""
    tokens, *places = text
    with torch.no_grad():
        last = model.run_with_cache(tokens, edits=edits)[1]["L1.pattern"][:, heads, -1]
    at = [(last * place[:, None]).sum(dim=-1).mean(dim=0) for place in places]
    return torch.stack([*at, last[..., 0].mean(dim=0)], dim=1)
