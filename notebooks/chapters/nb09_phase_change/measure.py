"""Notebook 09: what was measured of many runs, texts for the tour, a model with edits."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.checkpoints import load_measurements
from aot_helpers.models.protocol import Edits, Head
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text.batches import repeat_segments
from aot_helpers.text.corpora import load_corpus

Texts = Int[Tensor, "batch pos"]
LOGGED = ("text", "repeated random tokens, first copy", "repeated random tokens, second copy")


class Edited(AttentionOnlyTransformer):
    """A model whose edits are always on, also while it is trained."""

    def __init__(self, config: ModelConfig, edits: Edits):
        super().__init__(config)
        self.edits = edits

    def forward(self, tokens, attention_mask=None, edits=None, cache=None):
        """As of any model; edits that are given come on top of its own, and win."""
        return super().forward(tokens, attention_mask, self.edits | (edits or {}), cache)


@torch.no_grad()
def patterns_of(
    models: list[AttentionOnlyTransformer], head: Head, text: Texts
) -> list[Float[Tensor, "query key"]]:
    """Attention of a head in each of some models, averaged over the texts."""
    found = []
    for model in models:
        _, cache = model.run_with_cache(text)
        found.append(cache[f"L{head.layer}.pattern"][:, head.head].mean(dim=0))
    return found


def stories_and_names(
    tokenizer, n_stories: int, length: int = 32
) -> tuple[Texts, Bool[Tensor, "text place"]]:
    """Beginnings of unread stories, written twice, and which tokens are pieces of names.

    The places are those of a segment without its first token. A token is a piece of a name if the
    tokenizer uses it to write any name, with or without a space before.
    """
    unread = load_corpus("stories", "test", quiet=True)
    names = {name for pair in unread.truth.names for name in pair}
    written = [before + name for name in sorted(names) for before in ("", " ")]
    pieces = torch.cat(tokenizer.encode_many(written)).unique()
    stories = [each[:length] for each in tokenizer.encode_many(unread.texts) if len(each) >= length]
    segments = torch.stack(stories[:n_stories])
    return repeat_segments(segments, tokenizer.bos), torch.isin(segments[:, 1:], pieces)


def logs(
    names: list[str],
) -> tuple[Int[Tensor, " step"], Float[Tensor, "run step"], Float[Tensor, "run step"]]:
    """Steps 100 to 1,500 of runs in training: the steps, the loss on unread stories, the gap.

    The loss is that of windows of 128 tokens, the gap that of random segments of 63.
    """
    runs = [load_measurements(name) for name in names]
    kept = [i for i, step in enumerate(runs[0]["steps"]) if 100 <= step <= 1500]
    loss, once, again = (
        torch.tensor([[run["measured"][i][quantity] for i in kept] for run in runs])
        for quantity in LOGGED
    )
    return torch.tensor([runs[0]["steps"][i] for i in kept]), loss, once - again
