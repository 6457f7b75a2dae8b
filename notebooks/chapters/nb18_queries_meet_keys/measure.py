"""What notebook 18 reads of its results files."""

import base64
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head


class QueriesKeys(NamedTuple):
    """A head's queries and keys at all positions of some texts, and where each of them stands."""

    q: Float[Tensor, "point d_head"]
    k: Float[Tensor, "point d_head"]
    text: Int[Tensor, " point"]
    pos: Int[Tensor, " point"]

    def allowed(self, causal: bool) -> Bool[Tensor, "point point"]:
        """True where a query (row) may look at a key: in its text, and not later if causal."""
        same = self.text[:, None] == self.text
        return same & (self.pos[:, None] >= self.pos) if causal else same


def unpacked(text: str, width: int) -> Int[Tensor, "point width"]:
    """What was packed: whole numbers from 0 to 255 in rows of `width`."""
    numbers = np.frombuffer(base64.b64decode(text), dtype=np.uint8)
    return torch.from_numpy(numbers.astype(np.int64)).view(-1, width)


def map_of(result: dict, head: Head, method: str = "tsne") -> tuple[Tensor, Tensor]:
    """A head's map from the results file: queries and keys, [point, 2] in 0 … 255."""
    one = head_of(result, head)
    if method not in one:
        raise ValueError(
            f"{result['model']} has no map by {method!r}: take 'tsne' or 'tsne, no shift'"
        )
    at = unpacked(one[method], 2).double()
    return at[: len(at) // 2], at[len(at) // 2 :]


def top_keys(result: dict, head: Head, part: str = "top") -> Int[Tensor, " point"]:
    """The position of a key for each query of a results file.

    part: "top", the key of its top score, or "top above", the one most above average: q · k less
    the mean of that over all queries.
    """
    width = {"top": 3, "top above": 1}[part]
    return unpacked(head_of(result, head)[part], width)[:, 0]


def places(result: dict) -> tuple[Int[Tensor, " point"], Int[Tensor, " point"]]:
    """The text and the position of every point of a results file."""
    lengths = torch.tensor([len(tokens) for tokens in result["tokens"]])
    pos = torch.cat([torch.arange(n) for n in lengths])
    return torch.arange(len(lengths)).repeat_interleave(lengths), pos


def head_of(result: dict, head: Head) -> dict:
    """A head's entry in a results file. ValueError for a head that the model does not have."""
    for each in result["heads"]:
        if each["head"] == str(head):
            return each
    size = f"{result['n_layers']} layers of {result['n_heads']} heads"
    raise ValueError(f"there is no head {head}: {result['model']} has {size}, counted from 0")
