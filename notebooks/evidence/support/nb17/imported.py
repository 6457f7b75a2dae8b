"""Evidence of notebook 17: what an imported GPT-2 and its first layer alone predict."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from aot_helpers.models.protocol import Model
from aot_helpers.reading.logit_lens import lens
from aot_helpers.text.tokenization import Tokenizer
from chapters.nb17_attention_maps.measure import Maps
from evidence.support.nb17.heads import KINDS, fits

# Words of one piece each in the vocabulary of docstrings-gpt2, and in GPT-2's.
NOUNS = [
    *("matrix", "function", "graph", "polynomial", "equation", "expression", "node", "edge"),
    *("method", "class", "value", "list", "set", "number", "string", "variable"),
    *("path", "vector", "group", "symbol", "object", "term", "sequence", "point"),
]
FOUR = ("This", "{}", "is", "also")  # the noun is the second word
AFTER = ("one", "of", "the", "most", "general", "forms")


def rows_of(texts: list[str], tokenizer: Tokenizer, n: int, length: int = 64) -> Int[Tensor, "n p"]:
    """BOS and the first tokens of n texts that are long enough. Raises ValueError for too few."""
    rows = []
    for text in texts:
        tokens = tokenizer.encode(text, bos=True)[:length]
        rows += [tokens] * (len(tokens) == length)
        if len(rows) == n:
            return torch.stack(rows)
    raise ValueError(f"{len(rows)} of {len(texts)} texts have {length} tokens: ask for fewer rows")


def streams_after(
    model: Model, rows: Int[Tensor, "row pos"], layers: list[int]
) -> dict[int, Float[Tensor, "row pos d_model"]]:
    """The stream after so many layers, for each number, at every position but the last."""
    last = model.config.n_layers
    names = {n: f"L{n}.resid_pre" if n < last else "final_resid" for n in layers}
    found = {n: torch.empty(len(rows), rows.shape[1] - 1, model.config.d_model) for n in layers}
    for i in range(0, len(rows), 10):
        with torch.no_grad():
            _, cache = model.run_with_cache(rows[i : i + 10])
        for n, name in names.items():
            found[n][i : i + 10] = cache[name][:, :-1]
    return found


def loss_of(
    model: Model,
    stream: Float[Tensor, "row pos d_model"],
    rows: Int[Tensor, "row pos"],
    scale: float | Tensor = 1.0,
    constants: float | Tensor = 0.0,
) -> float:
    """Next-token loss (nats) of a stream that is unembedded: scale × lens + constants."""
    losses = []
    for some, tokens in zip(stream.split(10), rows.split(10), strict=True):
        logits = scale * lens(model, some) + constants
        loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="sum")
        losses.append(loss.item())
    return sum(losses) / rows[:, 1:].numel()


def fit_constants(
    model: Model,
    stream: Float[Tensor, "row pos d_model"],
    rows: Int[Tensor, "row pos"],
    steps: int = 200,
    batch_size: int = 10,
    seed: int = 0,
) -> tuple[Tensor, Tensor]:
    """One scale of all logits and one constant for each token, by the usual loss on the rows."""
    generator = torch.Generator().manual_seed(seed)
    scale, constants = torch.ones(()), torch.zeros(model.config.d_vocab)
    optimizer = torch.optim.Adam([scale, constants], 0.1)
    for _ in range(steps):
        at = torch.randint(len(rows), (batch_size,), generator=generator)
        logits, came = lens(model, stream[at]).flatten(0, 1), rows[at, 1:].flatten()
        # The gradient of cross-entropy by the logits: what was expected less what came.
        surplus = (scale * logits + constants).softmax(dim=-1)
        surplus[torch.arange(len(came)), came] -= 1
        scale.grad, constants.grad = surplus.mul_(1 / len(came)).mul(logits).sum(), surplus.sum(0)
        optimizer.step()
    return scale, constants


def named_fits(maps: list[Maps]) -> Float[Tensor, " head"]:
    """How well each head fits the best of KINDS, chosen on one half of the texts, on the other.

    The mean of both ways.
    """
    first, second = (
        torch.stack([fits(half, kind) for kind in KINDS]) for half in (maps[::2], maps[1::2])
    )
    ways = [b.gather(0, a.argmax(dim=0)[None])[0] for a, b in ((first, second), (second, first))]
    return sum(ways) / 2
