"""Evidence of notebook 17: kinds of heads, how well they fit, and what each head is worth."""

import math
from collections.abc import Callable, Collection

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.losses import copy_losses
from aot_helpers.models.protocol import Head, Model, all_heads
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.heads import keys_back
from aot_helpers.reading.interventions import ablate
from aot_helpers.text.tokenization import Tokenizer
from chapters.nb17_attention_maps.measure import Maps, Text, by_words

PROMPT = "This movie is"  # S0, section VIII A
SEEDS = ("imdb-2l", "imdb-2l-seed1", "imdb-2l-seed2")
# Words of one piece each in the vocabulary of the imdb models.
OTHERS = [
    *("not", "also", "just", "now", "still", "never", "here", "about"),
    *("going", "really", "very", "so", "only", "even", "all", "there"),
    *("always", "made", "back", "out", "in", "like", "from", "because"),
]
JUDGING = [
    *("good", "bad", "great", "terrible", "awful", "boring"),
    *("funny", "excellent", "horrible", "stupid", "wonderful", "poor"),
]


def _words_back(n: int, *back: int) -> Bool[Tensor, "query key"]:
    words = torch.arange(n)[None]
    return sum(keys_back(words, each)[0] for each in back).bool()


def _columns(n: int, *words: int) -> Bool[Tensor, "query key"]:
    return torch.isin(torch.arange(n), torch.tensor(words)).expand(n, n)


TOPIC = 1  # the second word of every prompt
# What S0 named, in its order: number of words -> the words looked at.
KINDS: dict[str, Callable[[int], Bool[Tensor, "query key"]]] = {
    "topic": lambda n: _columns(n, TOPIC),
    "previous": lambda n: _words_back(n, 1),
    "first and third": lambda n: _columns(n, 0, 2),
    "first two": lambda n: _columns(n, 0, 1),
    "first": lambda n: _columns(n, 0),
    "two back": lambda n: _words_back(n, 2),
    "topic and present": lambda n: _columns(n, TOPIC) | _words_back(n, 0),
    "present and previous": lambda n: _words_back(n, 0, 1),
}
FIRST_QUERY = 3  # the first word that the model wrote; here two back is the topic, later all differ


def targets_of(kind: str, n_words: int) -> Bool[Tensor, "query key"]:
    """True at the words that a head of this kind looks at; only at queries that count."""
    targets = KINDS[kind](n_words).tril().clone()
    targets[:FIRST_QUERY] = False
    return targets


def hits(
    pattern: Float[Tensor, "*text head query key"], targets: Bool[Tensor, "query key"]
) -> tuple[Float[Tensor, "*text head counted"], Float[Tensor, " counted"]]:
    """Where the k words most looked at are the k targets, and how often by chance.

    Only for the counted queries, which have targets; chance is 1 in all choices of k of the words
    up to the query.
    """
    at = targets.any(dim=-1).nonzero()[:, 0]
    wanted = targets[at].sum(dim=-1)
    rank = pattern[..., at, :].argsort(dim=-1, descending=True).argsort(dim=-1)
    found = (rank < wanted[:, None]) == targets[at]
    ways = [math.comb(q + 1, k) for q, k in zip(at.tolist(), wanted.tolist(), strict=True)]
    return found.all(dim=-1).to(pattern), 1 / torch.tensor(ways).to(pattern)


def fits(maps: list[Maps], kind: str) -> Float[Tensor, " head"]:
    """How well each head fits a kind: hits above chance, as a fraction of those that chance leaves.

    0 is chance, 1 is always; over all counted words of all texts, which have equally many words.
    """
    words = torch.stack([each.words for each in maps])  # [text, head, query, key]
    found, chance = hits(words, targets_of(kind, words.shape[-1]))
    return (found.mean(dim=(0, 2)) - chance.mean()) / (1 - chance.mean())


def best_fit(maps: list[Maps], leave_out: Collection[int] = ()) -> float:
    """The best fit of any head to any of KINDS. leave_out: numbers of heads that do not count."""
    found = torch.stack([fits(maps, kind) for kind in KINDS])
    found[:, list(leave_out)] = -1.0
    return found.max().item()


def put_there(name: str) -> list[int]:
    """The heads of a checkpoint that began as previous-word heads: head 1 of models of reviews."""
    return [1] if name.startswith("imdb") else []


def planted(texts: list[Text], kind: str, share: float = 0.6) -> list[Maps]:
    """Maps of one head made to look so: `share` on the kind's pieces, the rest on all alike."""
    maps = []
    for text in texts:
        n, numbers = len(text.tokens), torch.tensor(text.word_of)
        even = torch.ones(n, n, dtype=torch.double).tril()
        even /= even.sum(dim=-1, keepdim=True)
        wanted = targets_of(kind, len(text.words))
        on = torch.zeros(n, n, dtype=torch.double)
        on[1:, 1:] = wanted[numbers[1:]][:, numbers[1:]].double()
        on = (on * (even > 0)) / on.sum(dim=-1, keepdim=True).clamp(min=1)
        pattern = torch.where(on.any(dim=-1, keepdim=True), share * on + (1 - share) * even, even)
        maps.append(Maps(text, by_words(pattern[None], text.word_of), pattern[None, 1:, 0].mean(1)))
    return maps


def untrained(seed: int, tokenizer: Tokenizer) -> AttentionOnlyTransformer:
    """A new model of S0's best size: one layer, 8 heads, d_model 256, no start at copying."""
    torch.manual_seed(seed)
    shape = {"d_vocab": tokenizer.d_vocab, "n_layers": 1, "d_model": 256, "n_heads": 8}
    model = AttentionOnlyTransformer(ModelConfig(**shape, positions="standard", layer_norm=False))
    model.tokenizer = tokenizer
    return model.eval()


def on_bos(maps: list[Maps]) -> Float[Tensor, " head"]:
    """What each head gives to BOS: mean over texts."""
    return torch.stack([each.on_bos for each in maps]).mean(dim=0)


def head_of(model: Model, number: int) -> Head:
    """The head of this number in `read`."""
    return Head(*divmod(int(number), model.config.n_heads))


def labels(model: Model) -> list[str]:
    """L0H0, L0H1 …, in the order of `read`."""
    return [str(head) for head in all_heads(model)]


def divergence(
    whole: Float[Tensor, "text pos d_vocab"], edited: Float[Tensor, "text pos d_vocab"]
) -> float:
    """Mean KL (nats per token) from the predictions of the first logits to those of the others.

    On text that the model itself writes, this is how much the loss is expected to rise.
    """
    whole, edited = whole.log_softmax(dim=-1), edited.log_softmax(dim=-1)
    return (whole.exp() * (whole - edited)).sum(dim=-1).mean().item()


@torch.no_grad()
def prompt_costs(
    model: Model, tokens: Int[Tensor, "text pos"], reference: Int[Tensor, "other at"], by: str
) -> Float[Tensor, " head"]:
    """`divergence` for each head taken away: by "zero", or by its "mean" over the reference."""
    whole = model(tokens)
    edits = (ablate(model, [head], by, reference) for head in all_heads(model))
    return torch.tensor([divergence(whole, model(tokens, edits=each)) for each in edits])


def copy_costs(
    model: Model, tokens: Int[Tensor, "text pos"], reference: Int[Tensor, "other at"]
) -> Float[Tensor, "head copy"]:
    """What each head's mean in its place costs (nats per token), on the first and second copy."""
    whole = torch.tensor(copy_losses(model, tokens))
    edits = (ablate(model, [head], "mean", reference) for head in all_heads(model))
    return torch.stack([torch.tensor(copy_losses(model, tokens, each)) for each in edits]) - whole
