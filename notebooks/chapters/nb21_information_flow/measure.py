"""Notebook 21's prompts, the edges into their last positions, and runs with some edges alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Edits, Model
from chapters.nb21_information_flow.flow import Run, run_of
from chapters.nb21_information_flow.flow_graph import MEASURES, logit_directions


class Prompt(NamedTuple):
    """A text's tokens, the token that comes next, and a rival for its logit (None: the mean)."""

    tokens: Int[Tensor, " pos"]
    target: int
    rival: int | None = None


def copy_prompts(
    model: Model, texts: list[str], n: int = 40, least: int = 12, most: int = 40
) -> list[Prompt]:
    """Beginnings of texts after which the model rightly says a pair's second token again.

    One of each text, `least` to `most` tokens long: the last token stood before, followed by the
    target, which has a letter, and the target is the model's first guess. No pair comes twice.
    Raises ValueError where there are too few.
    """
    found, known = [], set()
    for text in texts:
        tokens = model.tokenizer.encode(text, bos=True)[: most + 1]
        if len(tokens) <= least:
            continue
        with torch.no_grad():
            guesses = model(tokens[None])[0].argmax(dim=-1).tolist()
        row = tokens.tolist()
        pairs = list(zip(row, row[1:], strict=False))
        for p in range(least - 1, len(pairs)):
            said = model.tokenizer.decode(row[p + 1 : p + 2])
            again = pairs[p] in pairs[:p] and pairs[p] not in known
            if again and guesses[p] == row[p + 1] and any(map(str.isalpha, said)):
                known.add(pairs[p])
                found.append(Prompt(tokens[: p + 1], row[p + 1]))
                break
        if len(found) == n:
            return found
    raise ValueError(f"{len(found)} of the texts repeat a pair rightly, {n} are wanted: give more")


@dataclass(frozen=True)
class LastEdges:
    """The edges into a run's last position, each weighed by MEASURES, shares signed.

    values: [measure, layer, head, key]. neurons: [measure, layer, neuron], the last axis empty
    without MLPs. aim: the logit of the target less the mean or its rival, in the whole run. drawn:
    graphs of this run that `graphs.pruned` has drawn.
    """

    run: Run
    prompt: Prompt
    values: Float[Tensor, "measure layer head key"]
    neurons: Float[Tensor, "measure layer neuron"]
    aim: float
    drawn: dict = field(default_factory=dict, repr=False, compare=False)

    @property
    def n_edges(self) -> int:
        """How many values and neurons there are."""
        return self.values[0].numel() + self.neurons[0].numel()


def aim_of(logits: Float[Tensor, "*batch d_vocab"], prompt: Prompt) -> Float[Tensor, "*batch"]:
    """The target's logit, less its rival's or else the mean one."""
    rival = logits.mean(dim=-1) if prompt.rival is None else logits[..., prompt.rival]
    return logits[..., prompt.target] - rival


def last_edges(model: Model, prompt: Prompt) -> LastEdges:
    """Weigh every edge into the last position of a prompt."""
    run, c = run_of(model, prompt.tokens), model.config
    toward = logit_directions(run, [prompt.target], prompt.rival)[:, 0]
    values, neurons = [], []
    with torch.no_grad():
        for layer in range(c.n_layers):
            a, v = run.cache[f"L{layer}.pattern"][0, :, -1], run.cache[f"L{layer}.v"][0]
            W_O = model.layer_weights(layer).W_O
            parts = a[..., None] * torch.einsum("khe,hed->hkd", v, W_O)
            values.append(torch.stack([a, parts.norm(dim=-1), parts @ toward]))
            if c.d_mlp:
                active, writes = run.cache[f"L{layer}.mlp_hidden"][0, -1], model.mlp_values(layer)
                norms, shares = active.abs() * writes.norm(dim=-1), active * (writes @ toward)
                neurons.append(torch.stack([active.abs(), norms, shares]))
        aim = aim_of(run.cache["logits"][0, -1], prompt).item()
    none = torch.zeros(len(MEASURES), c.n_layers, 0)
    neurons = torch.stack(neurons, dim=1) if neurons else none
    return LastEdges(run, prompt, torch.stack(values, dim=1), neurons, aim)


class Means(NamedTuple):
    """Mean values and activations: at the first position (0), and at all others (1)."""

    values: Float[Tensor, "layer place head d_head"]
    neurons: Float[Tensor, "layer place neuron"]  # the last axis is empty without MLPs


def means_of(runs: Sequence[Run]) -> Means:
    """The means over some runs, the first position apart: it is an attention sink."""
    c = runs[0].model.config
    values = [_by_place([run.cache[f"L{i}.v"][0] for run in runs]) for i in range(c.n_layers)]
    if not c.d_mlp:
        return Means(torch.stack(values), torch.zeros(c.n_layers, 2, 0))
    hidden = ([run.cache[f"L{i}.mlp_hidden"][0] for run in runs] for i in range(c.n_layers))
    return Means(torch.stack(values), torch.stack([_by_place(rows) for rows in hidden]))


def _by_place(rows: Sequence[Float[Tensor, "pos ..."]]) -> Float[Tensor, "two ..."]:
    first = torch.stack([row[0] for row in rows]).mean(dim=0)
    return torch.stack([first, torch.cat([row[1:] for row in rows]).mean(dim=0)])


def attend_edits(
    attend: Callable[..., Tensor],
    kept: Bool[Tensor, "layer head query key"],
    rest: Float[Tensor, "layer place head d_head"],
) -> Edits:
    """Edits of one run by which attend(pattern, v, kept, rest) makes the z of each layer.

    rest: what dropped edges carry, from the first position and from all others; patterns and v are
    those of this run.
    """
    edits, now = {}, {}

    def remember(old, name):
        now[name] = old[0]
        return old

    def put(old, layer):
        v = now[f"L{layer}.v"]
        by_key = rest[layer, torch.arange(len(v)).clamp(max=1)]
        return attend(now[f"L{layer}.pattern"], v, kept[layer], by_key)[None]

    for i in range(len(kept)):
        for name in (f"L{i}.pattern", f"L{i}.v"):
            edits[name] = partial(remember, name=name)
        edits[f"L{i}.z"] = partial(put, layer=i)
    return edits
