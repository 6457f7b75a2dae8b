"""What notebook 18 reads of its results files: queries, keys, maps and keys of top scores."""

from base64 import b64decode
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head

SNAKE = Head(1, 9)  # of MiniLM, whose queries and keys lie along the text once its keys are shifted
N_TEXTS = 4  # the first texts, of which the file holds this head's vectors and moved keys


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


def head_of(result: dict, head: Head) -> dict:
    """A head's entry in a results file. ValueError for a head that the model does not have."""
    for each in result["heads"]:
        if each["head"] == str(head):
            return each
    size = f"{result['n_layers']} layers of {result['n_heads']} heads"
    raise ValueError(f"there is no head {head}: {result['model']} has {size}, counted from 0")


def unpacked(text: str, width: int) -> Int[Tensor, "point width"]:
    """What was packed: whole numbers from 0 to 255 in rows of `width`."""
    numbers = np.frombuffer(b64decode(text), dtype=np.uint8)
    return torch.from_numpy(numbers.astype(np.int64)).view(-1, width)


def positions(result: dict) -> tuple[Int[Tensor, " point"], Int[Tensor, " point"]]:
    """The text and the position of every point of a results file."""
    lengths = torch.tensor([len(tokens) for tokens in result["tokens"]])
    pos = torch.cat([torch.arange(n) for n in lengths])
    return torch.arange(len(lengths)).repeat_interleave(lengths), pos


def head_map(
    result: dict, head: Head, method: str = "tsne"
) -> tuple[Float[Tensor, "point 2"], Float[Tensor, "point 2"]]:
    """A head's map in the results file: queries and keys, in 0 … 255."""
    at = unpacked(head_of(result, head)[method], 2).double()
    return at[: len(at) // 2], at[len(at) // 2 :]


def top_keys(result: dict, head: Head, part: str = "top") -> Int[Tensor, " point"]:
    """The position of a key for each query of a results file.

    part: "top", the key of its top score, or "top above", the one most above average: q · k less
    the mean of that over all queries.
    """
    width = {"top": 3, "top above": 1}[part]
    return unpacked(head_of(result, head)[part], width)[:, 0]


def snake_vectors(result: dict) -> QueriesKeys:
    """The queries and keys of SNAKE, [point, d_head], in the first texts of a results file."""
    text, pos = positions(result)
    some = text < N_TEXTS
    packed = head_of(result, SNAKE)["vectors"]
    numbers = (np.frombuffer(b64decode(packed[x]), "<f2").astype(float) for x in "qk")
    q, k = (torch.from_numpy(each).view(int(some.sum()), -1) for each in numbers)
    return QueriesKeys(q, k, text[some], pos[some])
