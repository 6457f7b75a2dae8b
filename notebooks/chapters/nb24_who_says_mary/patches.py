"""A head's output at the end, patched with that of another prompt.

Here a head gets what it wrote after a text with other names, with the roles swapped, or with the
same names in another sentence.
"""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.pretrained import load_pretrained
from aot_helpers.models.protocol import Edits, Head, Model
from chapters.nb24_who_says_mary.measure import NAMES, SETS

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


def try_prompt(prompt: str, load=load_pretrained) -> None:
    """Load SmolLM2, and print by how much its heads lower each name of a prompt.

    Each name is replaced at its last mention: one that came twice by one that then does, if the
    prompt has such a name, and else by one that the prompt has not.
    """
    model = load("smollm2")
    encode, absent = model.tokenizer.encode, next(name for name in NAMES if name not in prompt)
    for name in sorted((each for each in NAMES if each in prompt), key=prompt.find):
        once = [each for each in NAMES if prompt.count(each) == 1 and prompt.count(name) > 1]
        instead = min(once, key=prompt.find, default=absent)
        begin, _, end = prompt.rpartition(name)
        tokens, donor = (encode(begin + x + end, bos=True)[None] for x in (name, instead))
        ids, outputs = [int(encode(" " + x)) for x in (name, instead)], end_outputs(model, donor)
        before = model(tokens)[0, -1, ids]
        for who, (_, heads) in SETS.items():
            logits = model(tokens, edits=give(list(map(Head.parse, heads)), outputs))[0, -1]
            by = (logits[ids] - before) @ torch.tensor([1.0, -1.0])
            said = model.tokenizer.decode(logits.argmax()[None])
            print(f"{who}: {name} is lowered by {by:.2f}; with {instead} patched in: {said!r}")
