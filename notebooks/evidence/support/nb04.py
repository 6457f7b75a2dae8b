"""Evidence of notebook 04: what each head adds to a logit, and what is lost without it."""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Head, Model
from aot_helpers.reading.interventions import ablate
from chapters.nb04_many_heads_one_stream.measure import pieces


class AddedAndLost(NamedTuple):
    """Of the token that comes at each place of some texts; logits are above their mean.

    adds: what each head adds to its logit. falls: how far the logit falls with the head ablated.
    needed: how far its log-probability falls. chance: its probability, with all heads.
    """

    adds: Float[Tensor, "head text pos-1"]
    falls: Float[Tensor, "head text pos-1"]
    needed: Float[Tensor, "head text pos-1"]
    chance: Float[Tensor, "text pos-1"]

    def at(self, places) -> "AddedAndLost":
        """The same at some places, a mask [text, pos-1]: [head, place]."""
        return AddedAndLost(*(each[..., places] for each in self))

    def other_head(self, ranked_by: str) -> float:
        """In what fraction of the places another head is first in this ranking than in `needed`."""
        first = getattr(self, ranked_by).flatten(1).argmax(dim=0)
        return (first != self.needed.flatten(1).argmax(dim=0)).float().mean().item()


@torch.no_grad()
def added_and_lost(model: Model, texts: Int[Tensor, "text pos"], at_once: int = 25) -> AddedAndLost:
    """What each head adds and what is lost without it, for a model without norms."""
    shape = range(model.config.n_layers), range(model.config.n_heads)
    heads = [Head(layer, head) for layer in shape[0] for head in shape[1]]
    columns = (model.W_U - model.W_U.mean(dim=1, keepdim=True)).T  # [token, d_model]
    found = []
    for some in texts.split(at_once):
        following = some[:, 1:, None]

        def told(edits=None, some=some, following=following):
            logits, cache = model.run_with_cache(some, edits=edits)
            logits = logits[:, :-1]
            log_p = logits.gather(2, following)[..., 0] - logits.logsumexp(dim=-1)
            return log_p, cache["final_resid"][:, :-1], cache

        log_p, resid, cache = told()
        each, written = columns[some[:, 1:]], pieces(model, cache)
        adds = [(written[str(head)][:, :-1] * each).sum(dim=-1) for head in heads]
        without = [told(ablate(model, [head]))[:2] for head in heads]
        falls = [((resid - less) * each).sum(dim=-1) for _, less in without]
        rows = (*map(torch.stack, (adds, falls, [log_p - less for less, _ in without])),)
        found.append((*rows, log_p.exp()))
    adds, falls, needed, chance = zip(*found, strict=True)
    return AddedAndLost(
        *(torch.cat(each, dim=1) for each in (adds, falls, needed)), torch.cat(chance)
    )
