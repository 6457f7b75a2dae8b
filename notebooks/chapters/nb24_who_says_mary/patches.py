"""A head's output at the end, patched with that of another prompt.

Here a head gets what it wrote after a text with other names, with the roles swapped, or with the
same names in another sentence.
"""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Head, Model

Outputs = Float[Tensor, "layer prompt head d_head"]


def end_outputs(model: Model, tokens: Int[Tensor, "prompt pos"]) -> Outputs:
    """What every head has at the end, before W_O."""
    with torch.no_grad():
        _, cache = model.run_with_cache(tokens)
    return torch.stack([cache[f"L{i}.z"][:, -1] for i in range(model.config.n_layers)])


def give(heads: list[Head], outputs: Outputs) -> Edits:
    """Edits that give heads, at the last position, these outputs."""
    return {
        f"L{layer}.z": partial(
            _given, new=outputs[layer], which=[h for i, h in heads if i == layer]
        )
        for layer in {layer for layer, _ in heads}
    }


def _given(z: Tensor, new: Tensor, which: list[int]) -> Tensor:
    z = z.clone()
    z[:, -1, which] = new[:, which]
    return z
