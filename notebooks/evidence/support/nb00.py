"""Evidence of notebook 00: names that no story has, and its questions to a pretrained model."""

import torch

from aot_helpers.base.results import rounded
from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.heads import head_scores, induction_scores, others_like
from aot_helpers.reading.interventions import ablate
from aot_helpers.text.batches import repeated_tokens
from aot_helpers.text.corpora import load_corpus
from chapters.nb00_start_here.measure import made_up_names, mention_losses

FRIEND = "Grace Hopper"  # whom the made-up names meet
SPLITS = ("train", "test")
REMOVED = (1, 2, 4, 8, 16)  # so many heads of a pretrained model are ablated


def unread_names(n: int) -> list[str]:
    """The first n names of the stories held out, made by the same grammar, that no other has."""
    names = {split: load_corpus("stories", split, quiet=True).truth.names for split in SPLITS}
    known = {name for pair in names["train"] for name in pair}
    return [name for name in dict.fromkeys(sum(names["test"], ())) if name not in known][:n]


def cost_again(model: Model, names: list[str], friend: str) -> float:
    """What a second mention costs, as a share of the first: the median over the names."""
    first, second = mention_losses(model, names, friend)
    return (second / first).median().item()


def copying_lost(model: Model, heads: list[Head], names: list[str], friend: str) -> float:
    """The share of the saving at second mentions that is lost without these heads, over the names.

    0: nothing is lost; 1: a second mention costs what the first does.
    """
    first, second = mention_losses(model, names, friend)
    _, without = mention_losses(model, names, friend, edits=ablate(model, heads))
    return ((without - second) / (first - second)).mean().item()


def pretrained(model: Model, name: str = "", n_names: int = 30) -> dict:
    """Entry 00 of `make data WHAT=pretrained`: the questions of notebook 00 to this model.

    first, second, other: mean loss (nats) of made-up names at their first and second mention, and
    where another name was mentioned first. induction, previous: scores [layer][head] on random
    tokens written twice (notebook 19 reads them). removed: {k: {...}}, the share of the copying
    lost without the k heads with the highest induction scores (lost), and without two draws of as
    many others of the same layers (others).
    """
    doubled = repeated_tokens(model.config.d_vocab, 50, 4, model.tokenizer.bos, seed=1)
    induction = induction_scores(model, doubled)
    previous = head_scores(model, doubled, "previous", first_query=2).scores
    n_heads = model.config.n_heads
    ranks = induction.flatten().argsort(descending=True).tolist()
    heads = [Head(*divmod(i, n_heads)) for i in ranks]
    names = made_up_names(n_names, seed=0)
    once, again = mention_losses(model, names, FRIEND)
    _, other = mention_losses(model, names, FRIEND, earlier=names[1:] + names[:1])
    generator, removed = torch.Generator().manual_seed(0), {}
    for k in REMOVED:
        groups = [heads[:k], *(others_like(model, heads[:k], generator) for _ in range(2))]
        edits = [ablate(model, group) for group in groups]
        losses = [mention_losses(model, names, FRIEND, edits=each)[1] for each in edits]
        lost, *others = [((each - again) / (once - again)).mean().item() for each in losses]
        removed[k] = {"lost": lost, "others": others}
    found = {"names": n_names, "induction": induction.tolist(), "previous": previous.tolist()}
    found |= {"first": once.mean().item()}
    found |= {"second": again.mean().item(), "other": other.mean().item(), "removed": removed}
    return rounded(found, ".4f")
