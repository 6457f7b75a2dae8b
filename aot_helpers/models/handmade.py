"""Models whose weights are set by hand: ground truth for every score.

Every weight is zero but those assigned below, so what each head does is known before it is
measured. The residual stream is cut into three blocks of d_vocab numbers: W_E writes the token as a
one-hot vector into "token", heads carry one-hot vectors between blocks, and W_U reads "output".
Texts begin with token 0, the BOS: it is the attention sink of heads that find nothing, and no head
copies it.
STRENGTH is how far the score of what a head looks for lies above every other score: 30 leaves next
to nothing for the rest. Weights grow with d_vocab², so these are for small vocabularies.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from aot_helpers.base.errors import check_one_of, check_whole
from aot_helpers.models.transformer import Attention, AttentionOnlyTransformer, ModelConfig

BLOCKS = ("token", "previous token", "output")
BOS = 0
STRENGTH = 30.0


def stream_block(d_vocab: int, name: str) -> slice:
    """Where a block, one of BLOCKS, lies among the 3 · d_vocab numbers of the stream.

    For instance `resid[..., stream_block(d_vocab, "output")]` is [batch, pos, d_vocab]. Raises
    ValueError for a name that is not in BLOCKS.
    """
    check_one_of("block of the stream", name, BLOCKS)
    start = BLOCKS.index(name) * d_vocab
    return slice(start, start + d_vocab)


def blank_model(
    d_vocab: int, n_layers: int, n_heads: int, n_ctx: int = 64
) -> AttentionOnlyTransformer:
    """A model whose heads do nothing yet: W_E writes "token", W_U reads "output"."""
    check_whole("d_vocab", d_vocab, 2, unit=" (BOS and one token more)")
    sizes = dict(d_model=len(BLOCKS) * d_vocab, n_heads=n_heads, d_head=d_vocab, n_ctx=n_ctx)
    config = ModelConfig(d_vocab, n_layers, **sizes, positions="relative", layer_norm=False)
    with torch.random.fork_rng(devices=[]):  # what the constructor draws is thrown away
        model = AttentionOnlyTransformer(config).eval()
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    model.W_E[:, stream_block(d_vocab, "token")] = torch.eye(d_vocab)
    model.W_U[stream_block(d_vocab, "output")] = STRENGTH * torch.eye(d_vocab)
    return model


def _attend_back(attn: Attention, back: int):
    """Attend `back` positions back, or to the first token where there is none so far back."""
    # Each step back is better than the one before, as far as `back`; nothing lies beyond it.
    attn.b_rel[0, : back + 1] = STRENGTH * torch.arange(1, back + 2)


def score_tokens(
    attn: Attention,
    wanted: Float[Tensor, "*head d_vocab d_vocab"],
    keys: str = "token",
):
    """Scores: 2 · STRENGTH where wanted[query token, key token] is 1, STRENGTH for BOS, else 0.

    W_Q holds this table; W_K reads from the block `keys` which token a key stands for.
    """
    d_vocab = attn.config.d_vocab
    token, table = stream_block(d_vocab, "token"), 2 * STRENGTH * wanted
    table[..., BOS] = STRENGTH
    # Scores are divided by the root of d_head = d_vocab.
    attn.W_Q[:, token] = table * math.sqrt(d_vocab)
    attn.W_K[:, stream_block(d_vocab, keys)] = torch.eye(d_vocab)
    attn.W_K[:, token][:, BOS, BOS] = 1.0  # the attention sink


def _copy_tokens(attn: Attention, to: str):
    """The token that the head looks at is written into a block; BOS writes nothing."""
    d_vocab = attn.config.d_vocab
    attn.W_V[0, stream_block(d_vocab, "token")] = torch.eye(d_vocab)
    attn.W_V[0, :, BOS] = 0.0
    attn.W_O[0, :, stream_block(d_vocab, to)] = torch.eye(d_vocab)


def _two_layers(
    d_vocab: int, n_ctx: int, back: int
) -> tuple[AttentionOnlyTransformer, Attention, Attention]:
    """A model of two heads, and its layers: L0H0 attends back, L1H0 does nothing yet."""
    model = blank_model(d_vocab, 2, 1, n_ctx)
    first, second = (layer.attn for layer in model.blocks)
    _attend_back(first, back)
    return model, first, second


@torch.no_grad()
def induction_model(d_vocab: int, n_ctx: int = 64) -> AttentionOnlyTransformer:
    """Two layers of one head that continue a text as it went on before (K-composition).

    L0H0 attends one back and writes the token it sees into the block "previous token". L1H0 attends
    to positions whose previous token is the present one and copies the token there to the output
    (framework paper, "Two-Layer Attention-Only Transformers"); several matches share the attention.
    Raises ValueError for n_ctx < 2, d_vocab < 2.
    """
    check_whole("n_ctx", n_ctx, 2, unit=" (to look one back)")
    model, first, second = _two_layers(d_vocab, n_ctx, back=1)
    _copy_tokens(first, "previous token")

    score_tokens(second, torch.eye(d_vocab), keys="previous token")
    _copy_tokens(second, "output")
    return model


@torch.no_grad()
def attend_back_model(d_vocab: int, back: int, n_ctx: int = 64) -> AttentionOnlyTransformer:
    """A control: L1H0 copies the token `back` positions earlier, whatever the tokens.

    With back = length - 1 it looks like an induction head on segments of exactly that length,
    written twice, and fails at all others. Queries without a key so far back attend to the
    first token, as L0H0 always does, which writes nothing.
    Raises ValueError for back outside 0 … n_ctx - 1, d_vocab < 2.
    """
    check_whole("back", back, 0, n_ctx - 1, unit=" (below n_ctx)")
    model, _, second = _two_layers(d_vocab, n_ctx, back=n_ctx - 1)
    _attend_back(second, back)
    _copy_tokens(second, "output")
    return model


def previous_token_model(d_vocab: int, n_ctx: int = 64) -> AttentionOnlyTransformer:
    """A control: L1H0 attends to the token before and copies it to the output.

    It fools scores on segments of two tokens, where one back is the right place.
    Raises ValueError for n_ctx < 2, d_vocab < 2.
    """
    return attend_back_model(d_vocab, 1, n_ctx)


@torch.no_grad()
def duplicate_token_model(d_vocab: int, n_ctx: int = 64) -> AttentionOnlyTransformer:
    """A control: L1H0 attends to earlier copies of its own token and copies them.

    It fools scores that only ask whether a head finds the repeat, or whether it copies: it looks
    one position short of what comes next. Without an earlier copy it attends to BOS.
    Raises ValueError for d_vocab < 2.
    """
    model, _, second = _two_layers(d_vocab, n_ctx, back=n_ctx - 1)
    score_tokens(second, torch.eye(d_vocab))
    second.b_rel[0, 0] = -2 * STRENGTH  # an earlier copy, not the token itself
    _copy_tokens(second, "output")
    return model


@torch.no_grad()
def first_token_model(d_vocab: int, n_ctx: int = 64) -> AttentionOnlyTransformer:
    """A control: both heads attend to position 0, whatever the tokens, and write nothing.

    It earns points from scores that count a row whose right place is the first token, such as the
    whole diagonal `length - 1` back on BOS + a segment twice.
    Raises ValueError for d_vocab < 2.
    """
    model, _, second = _two_layers(d_vocab, n_ctx, back=n_ctx - 1)
    _attend_back(second, n_ctx - 1)
    return model
