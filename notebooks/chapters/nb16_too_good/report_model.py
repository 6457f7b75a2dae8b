"""The training report S0 taken apart: its model, its losses and its data, and models A and B."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from aot_helpers.models.losses import count_losses
from aot_helpers.models.transformer import AttentionOnlyTransformer, Block, ModelConfig
from aot_helpers.text.batches import pad_batch
from aot_helpers.text.tokenization import Tokenizer

LONGER = Path(__file__).with_name("longer.json")  # the evidence's support writes it


class ReportBlock(Block):
    """A block whose two additions and whose nonlinearity can be taken away."""

    adds, bends = True, True

    def forward(self, resid, positions, mask, hooks):
        """The stream after this layer; without additions, only what its last part writes."""
        x = self.ln1(hooks("resid_pre", resid))
        attn_out = hooks("attn_out", self.attn(x, positions, mask, hooks))
        resid = resid * self.adds + attn_out
        if not hasattr(self, "mlp_in"):
            return resid
        hidden = self.mlp_in(self.ln2(resid))
        hidden = F.gelu(hidden, approximate="tanh") if self.bends else hidden
        return resid * self.adds + self.mlp_out(hidden)


class ReportModel(nn.Module):
    """A transformer with trained positions in the stream and a bias on its logits, as in S0."""

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        self.transformer = AttentionOnlyTransformer(config)
        self.transformer.blocks = nn.ModuleList(ReportBlock(config) for _ in range(config.n_layers))
        self.b_U = nn.Parameter(torch.zeros(config.d_vocab))

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos d_vocab"]:
        """Logits at every position."""
        return self.transformer(tokens) + self.b_U


def next_token_loss(logits, targets, real) -> Float[Tensor, ""]:
    """Mean of −ln p(next token) in nats, over the targets that are real tokens."""
    kept = targets.masked_fill(~real, -100)  # PyTorch's mark of what is left out
    return F.cross_entropy(logits.flatten(0, -2), kept.flatten())


def loss_over_time(logits, targets, real=None) -> Float[Tensor, ""]:
    """S0's loss: cross-entropy of [batch, time, vocabulary] against one-hot targets.

    PyTorch takes dimension 1 for the classes, so the softmax runs over time, for each entry of the
    vocabulary apart. `real` plays no part.
    """
    # As F.one_hot gives them, without its whole numbers of 64 bits.
    one_hot = torch.zeros_like(logits).scatter_(2, targets[..., None], 1)
    return F.cross_entropy(logits, one_hot)


def chance_over_time(n_pos: int, d_vocab: int) -> float:
    """What `loss_over_time` is for constant logits: T ln T / V."""
    return n_pos * math.log(n_pos) / d_vocab


def floor_over_time(targets: Int[Tensor, "batch pos"], d_vocab: int) -> float:
    """The least that `loss_over_time` can be: the mean over texts of the sum of n ln n / V.

    n is how often a token comes in a text: a softmax over time shares itself out among them.
    """
    return sum(
        (n * n.log()).sum().item() / d_vocab
        for text in targets
        for n in [text.unique(return_counts=True)[1].double()]
    ) / len(targets)


@dataclass(frozen=True)
class Rows:
    """Texts as the report feeds them: cut to one length, short ones filled with id 0.

    tokens [text, max_length]; real is True at tokens of the text.
    """

    tokens: Int[Tensor, "text max_length"]
    real: Bool[Tensor, "text max_length"]
    tokenizer: Tokenizer = field(repr=False)

    def __getitem__(self, some: slice) -> "Rows":
        """Some of the texts."""
        return Rows(self.tokens[some], self.real[some], self.tokenizer)

    def batch(self, at: Int[Tensor, " batch"]) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs and targets [batch, max_length − 1] of some texts, and which targets are real."""
        tokens, real = self.tokens[at], self.real[at]
        return tokens[:, :-1], tokens[:, 1:], real[:, 1:]


def report_rows(texts: list[str], tokenizer: Tokenizer, max_length: int) -> Rows:
    """S0's preparation: the first max_length tokens of each text, filled up with id 0.

    Raises ValueError for fewer than two tokens a row, of which nothing could be predicted.
    """
    if max_length < 2:
        raise ValueError(f"max_length must be 2 tokens or more, got {max_length}")
    # Words need fewer than 40 characters a token, so the end of a long text need not be read.
    encoded = tokenizer.encode_many([text[: 40 * max_length] for text in texts if text.strip()])
    tokens, real = pad_batch([ids[:max_length] for ids in encoded], pad=0)
    missing = (0, max_length - tokens.shape[1])  # where no text is that long
    return Rows(F.pad(tokens, missing), F.pad(real, missing), tokenizer)


def small_model(rows: Rows, seed: int = 0) -> ReportModel:
    """A new model of two layers, 64 wide, with an MLP and layer norm: none of the faults."""
    torch.manual_seed(seed)
    shape = rows.tokenizer.d_vocab, 2, 64, 4, 16, rows.tokens.shape[1]
    return ReportModel(ModelConfig(*shape, "standard", d_mlp=64))


def black_boxes(rows: Rows) -> tuple[Callable, Callable]:
    """The losses of models A and B, of logits and targets; no row has filling."""
    if not rows.real.all():
        raise ValueError("some rows are filled up, which B's loss would have to leave out")
    return loss_over_time, lambda x, y: next_token_loss(x, y, torch.ones_like(y, dtype=torch.bool))


@torch.no_grad()
def write_on(
    model: ReportModel,
    prompt: Int[Tensor, " pos"],
    n: int = 7,
    top_k: int = 10,
    seed: int = 0,
    first_kept: bool = False,
) -> Int[Tensor, " longer"]:
    """The prompt and n tokens more, each drawn from the top_k.

    first_kept: once the text is longer than the context, show the model its beginning, as S0 does.
    """
    generator = torch.Generator().manual_seed(seed)
    n_ctx, tokens = model.config.n_ctx, prompt
    for _ in range(n):
        logits = model((tokens[:n_ctx] if first_kept else tokens[-n_ctx:])[None])[0, -1]
        top = logits.topk(top_k)
        drawn = torch.multinomial(top.values.softmax(-1), 1, generator=generator)
        tokens = torch.cat([tokens, top.indices[drawn]])
    return tokens


def baselines(train: Rows, test: Rows) -> dict[str, float]:
    """Held-out losses (nats) of knowing nothing, counting tokens, counting pairs; full rows."""
    d_vocab = train.tokenizer.d_vocab
    full = [rows.tokens[rows.real.all(1)] for rows in (train, test)]
    return {"chance": math.log(d_vocab)} | count_losses(*full, d_vocab)


def longer() -> pd.DataFrame:
    """Costs (nats) of A, of A with constants and of B, after 150 and 1,500 steps: a row for each.

    Of two seeds and two kinds of texts. "leave out" and "choose" are the parts of "together".
    """
    texts = {"stories": "stories", "imdb": "reviews"}
    return pd.DataFrame(
        {"texts": texts[run["corpus"]], "steps": run["steps"], "model": model}
        | {"leave out": leave_out, "choose": choose, "together": leave_out + choose}
        for run in json.loads(LONGER.read_text("utf-8"))
        for model, (leave_out, choose) in run["parts"].items()
    )
