"""Evidence of notebook 24: what heads add and attend to on prompts with two names, and roles."""

import re
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from aot_helpers.base.results import read
from aot_helpers.models.protocol import Head


class HeadTable(NamedTuple):
    """Of every head, at the end of the prompts: what it attends to and adds; means of prompts."""

    on_io: Float[Tensor, "layer head"]  # what it adds to the logit of IO, measured from the mean
    on_s: Float[Tensor, "layer head"]  # and to that of S; σ frozen
    attention: dict[str, Float[Tensor, "layer head"]]  # from and to places of the names
    reads_io: Float[Tensor, "layer head"]  # share of prompts with IO among its 5 highest tokens
    reads_s: Float[Tensor, "layer head"]
    rank_io: Float[Tensor, "layer head"]  # median rank of IO, 0 the highest
    low_io: Float[Tensor, "layer head"]  # share of prompts with IO among its 10 lowest tokens
    low_s: Float[Tensor, "layer head"]
    parts: dict[str, float]  # what embeddings, biases and MLPs add
    difference: Float[Tensor, " prompt"]
    sum_error: float  # how far the parts' sum is from the logit difference, at most

    @property
    def direct(self) -> Float[Tensor, "layer head"]:
        """What every head adds to the logit difference."""
        return self.on_io - self.on_s

    def adds(self, heads: list[Head]) -> float:
        """What some heads add together."""
        return sum(self.direct[head].item() for head in heads)


class Roles(NamedTuple):
    """Heads by what they do, by rules that ask for attention and effect; the strongest first."""

    movers: list[Head]
    negative: list[Head]
    suppress: list[Head]
    s_inhibition: list[Head]
    duplicate: list[Head]
    induction: list[Head]
    previous: list[Head]


def revived(value):
    """What JSON has, with lists of numbers as tensors and names of heads as heads."""
    if isinstance(value, dict):
        return {name: revived(each) for name, each in value.items()}
    if isinstance(value, list):
        inner = [revived(each) for each in value]
        numbers = inner and all(isinstance(each, float | int | Tensor) for each in inner)
        return torch.tensor(value) if numbers else inner
    is_head = isinstance(value, str) and re.fullmatch(r"L\d+H\d+", value)
    return Head.parse(value) if is_head else value


def read_names(name: str = "smollm2") -> dict:
    """What `make data WHAT=pretrained` measured of one model's heads on prompts with two names.

    Keys as in `two_names.measured`, of which the file has what JSON has.
    """
    return parsed(read(f"pretrained/24-names-{name}"))


def parsed(found: dict) -> dict:
    """The results with tensors and heads again."""
    found = revived(found)
    records = {"table": HeadTable(**found["table"]), "roles": Roles(**found["roles"])}
    return found | records
