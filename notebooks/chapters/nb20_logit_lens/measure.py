"""Notebook 20: what heads write, beside their sum and in the logits, and once they are patched."""

import json

import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor

from aot_helpers.base.results import RESULTS
from aot_helpers.base.results import read as read_results
from aot_helpers.models.protocol import Edits, Head, Model
from chapters.nb20_logit_lens.templates import Prompts, at_last


def written_by(
    model: Model, layer: int, z: Float[Tensor, "*places head d_head"]
) -> Float[Tensor, "*places head d_model"]:
    """What heads with these z add to the stream."""
    return torch.einsum("...hd,hdm->...hm", z, model.layer_weights(layer).W_O)


def centered(logits: Float[Tensor, "*places d_vocab"]) -> Float[Tensor, "*places d_vocab"]:
    """Logits from their mean over the vocabulary: all that a softmax sees of them."""
    return logits - logits.mean(dim=-1, keepdim=True)


@torch.no_grad()
def head_outputs(model: Model, prompts: Prompts) -> Float[Tensor, "prompt layer head d_model"]:
    """What each head writes at the last position of each prompt."""
    layers, found = range(model.config.n_layers), []
    for _, piece in prompts.pieces(model):
        _, cache = model.run_with_cache(piece.tokens)
        found.append(torch.stack([at_last(cache[f"L{i}.z"], piece) for i in layers], dim=1))
    z = torch.cat(found)  # [prompt, layer, head, d_head]
    return torch.stack([written_by(model, i, z[:, i]) for i in layers], dim=1)


def top_of_sum(
    model: Model, parts: dict[str, Float[Tensor, " d_model"]], n: int = 5
) -> dict[str, tuple[list[str], list[float]]]:
    """Of some vectors and of their sum: the n top tokens, and their logits above the mean."""
    found = {}
    for name, x in (parts | {"sum": sum(parts.values())}).items():
        top = centered(x @ model.W_U).topk(n)
        found[name] = model.tokenizer.token_strings(top.indices), top.values.tolist()
    return found


@torch.no_grad()
def last_logits(
    model: Model, prompts: Prompts, edits: Edits | None = None
) -> Float[Tensor, "prompt d_vocab"]:
    """The logits at the last position of each prompt, in a run with edits."""
    pieces = prompts.pieces(model)
    return torch.cat([at_last(model(p.tokens, edits=edits), p) for _, p in pieces])


@torch.no_grad()
def patched_logits(
    model: Model, tokens: Int[Tensor, " pos"], other: Int[Tensor, " pos_there"], head: Head
) -> Float[Tensor, " d_vocab"]:
    """The last logits of a text in which a head ends with the z that it had in another."""
    name = f"L{head.layer}.z"
    z, theirs = (model.run_with_cache(each[None])[1][name] for each in (tokens, other))
    z = z.clone()
    z[:, -1, head.head] = theirs[:, -1, head.head]
    return model(tokens[None], edits={name: z})[0, -1]


def read_oslo(name: str = "smollm2") -> tuple[dict, list[str], dict[str, Tensor]]:
    """What `make data WHAT=pretrained` kept of one prompt and of 24 capitals.

    The results, the names of the parts of the model, and what each part wrote, as floats.
    """
    path = RESULTS / f"pretrained/20-{name}-oslo.safetensors"
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        parts = json.loads(file.metadata()["aot"])["parts"].split(",")
    return read_results(f"pretrained/20-heads-{name}"), parts, tensors
