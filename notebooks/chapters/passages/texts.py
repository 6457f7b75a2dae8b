"""What 22 and 23 read: streams and neurons at the end of passages, losses, function words."""

import random
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from aot_helpers.models.losses import next_token_losses
from aot_helpers.models.protocol import Edits, Model
from aot_helpers.text.batches import pad_batch
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.tokenization import Tokenizer

# The closed classes: articles, pronouns, prepositions, conjunctions, auxiliaries, "not" and so on.
_CLOSED = """
the a an this that these those it its he she they we you i his her their our my your him them us me
which who whose whom what of to in on at by for with from into as about over under between through
during before after without within above below up down out off and or but nor so yet if then else
than because while when where whether although though until since is are was were be been being am
do does did has have had having will would can could may might shall should must not no each any
some all both every either neither such there here only also too very just more most other another
same
"""
LENGTH = 64  # tokens of a window
FUNCTION_WORDS = frozenset(_CLOSED.split())


def function_words(tokenizer: Tokenizer) -> Bool[Tensor, " d_vocab"]:
    """True at the tokens that are function words, with or without a space or a capital."""
    strings = tokenizer.token_strings(list(range(tokenizer.d_vocab)))
    return torch.tensor([string.strip().lower() in FUNCTION_WORDS for string in strings])


def passages(n: int = 100, seed: int = 0) -> list[str]:
    """Beginnings of n docstrings nobody trained on, cut after a random number of words, 8 to 40."""
    rng = random.Random(seed)
    texts = [t for t in load_corpus("docstrings", "test", quiet=True).texts if t.count(" ") > 41]
    return [" ".join(text.split(" ")[: rng.randint(8, 40)]) for text in rng.sample(texts, n)]


def windows(
    model: Model, n: int = 16, split: str = "test", corpus: str = "docstrings"
) -> Int[Tensor, "n 64"]:
    """Token ids of a corpus, each BOS and the beginning of a text. ValueError for too few."""
    texts = load_corpus(corpus, split, quiet=True).texts
    random.Random(0).shuffle(texts)
    encoded = (model.tokenizer.encode(text, bos=True) for text in texts)
    found = list(islice((each[:LENGTH] for each in encoded if len(each) >= LENGTH), n))
    if len(found) < n:
        raise ValueError(f"only {len(found)} texts have {LENGTH} tokens: lower n")
    return torch.stack(found)


def pieces(tokens: Tensor, d_vocab: int, room: int = 6_000_000) -> Iterator[slice]:
    """Slices of the batch whose logits hold at most `room` numbers (24 MB), or one text."""
    size = max(1, room // (tokens.shape[1] * d_vocab))
    return (slice(at, at + size) for at in range(0, len(tokens), size))


class Ends(NamedTuple):
    """What the model holds at the last position of each passage, layer by layer."""

    ln1: Float[Tensor, "layer passage d_model"]  # what stands before the norm of the heads
    ln2: Float[Tensor, "layer passage d_model"]  # before the norm of the MLP; empty without MLPs
    final: Float[Tensor, "passage d_model"]
    hidden: Float[Tensor, "layer passage d_mlp"]  # activations of the neurons
    guesses: Int[Tensor, " passage"]  # the token with the highest logit


def read_ends(model: Model, texts: list[str]) -> Ends:
    """Run the model on texts, each after BOS. ValueError for a text longer than n_ctx."""
    encoded = [model.tokenizer.encode(text, bos=True) for text in texts]
    c, (tokens, mask) = model.config, pad_batch(encoded, 0)
    n_layers, n, last = c.n_layers, len(texts), mask.sum(dim=1) - 1
    # Filled in place: small tensors kept from every run would leave holes in the memory.
    ln1, final = torch.empty(n_layers, n, c.d_model), torch.empty(n, c.d_model)
    ln2 = torch.empty(n_layers if c.d_mlp else 0, n, c.d_model)
    hidden = torch.empty(len(ln2), n, c.d_mlp)
    guesses = torch.empty(n, dtype=torch.long)
    with torch.no_grad():
        for piece in pieces(tokens, c.d_vocab):
            at = torch.arange(len(last[piece])), last[piece]
            logits, cache = model.run_with_cache(tokens[piece])
            guesses[piece], final[piece] = logits[at].argmax(dim=-1), cache["final_resid"][at]
            for i in range(n_layers):
                ln1[i, piece] = cache[f"L{i}.resid_pre"][at]
                if c.d_mlp:
                    ln2[i, piece] = ln1[i, piece] + cache[f"L{i}.attn_out"][at]
                    hidden[i, piece] = cache[f"L{i}.mlp_hidden"][at]
    return Ends(ln1, ln2, final, hidden, guesses)


class Cost(NamedTuple):
    """Means over all next tokens, in nats."""

    loss: float
    entropy: float


def cost(model: Model, tokens: Int[Tensor, "batch pos"], edits: Edits | None = None) -> Cost:
    """The loss of the next tokens, and the entropy of what the model expects there."""
    losses, entropies = [], []
    with torch.no_grad():
        for piece in pieces(tokens, model.config.d_vocab):
            logits = model(tokens[piece], edits=edits)
            losses.append(next_token_losses(logits, tokens[piece]))
            log_p = logits[:, :-1].log_softmax(dim=-1)
            entropies.append(-(log_p.exp() * log_p).sum(dim=-1))
    return Cost(torch.cat(losses).mean().item(), torch.cat(entropies).mean().item())
