"""Text to a small model that copies what it has read once."""

import torch
from jaxtyping import Int
from torch import Tensor

from aot_helpers.models.losses import copy_accuracy
from aot_helpers.models.transformer import AttentionOnlyTransformer, ModelConfig
from aot_helpers.text.batches import Windows, repeated_tokens, token_stream
from aot_helpers.text.corpora import Corpus
from aot_helpers.text.tokenization import Tokenizer, train_bpe
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.train import train


def init_copying(model: AttentionOnlyTransformer) -> None:
    """Give a new model with relative positions a start at copying, in place.

    That of `init_tied`. And head h of layer 0 starts out looking h tokens back, so that a
    previous-token head need not be found first.
    """
    init_tied(model)
    with torch.no_grad():
        model.blocks[0].attn.b_rel.diagonal().add_(3.0)


def init_tied(model: AttentionOnlyTransformer) -> None:
    """Let W_U start as W_E's transpose, scaled, in place.

    What a head copies is then nearly the logit of the same token; where heads look is left open.
    """
    with torch.no_grad():
        model.W_U.copy_(model.W_E.T * (model.W_U.std() / model.W_E.std()))


def init_two_sided(model: AttentionOnlyTransformer) -> None:
    """Give a new model that sees both sides a start at finding hidden tokens, in place.

    That of `init_tied`. And the heads of layer 0 start out looking one token back, one ahead, two
    back, two ahead, and so on: the same on both sides.
    """
    init_tied(model)
    b_rel = model.blocks[0].attn.b_rel  # one number per head and distance query - key
    with torch.no_grad():
        for head in range(len(b_rel)):
            back = 1 + head // 2
            b_rel[head, back if head % 2 == 0 else -back] += 3.0


def copying_recipe(
    stream: Int[Tensor, " n_tokens"],
    tokenizer: Tokenizer,
    steps: int = 600,
    seed: int = 0,
    optimizer: str = "muon",
) -> tuple[AttentionOnlyTransformer, Windows, TrainConfig]:
    """A new model, its windows and its settings, for an induction head on any text in few steps.

    For about 350 of 600 steps 90 % of the windows are segments written twice, half of them random
    tokens; then 20 %, and the model learns the text. Without `init_copying` some seeds learn
    nothing in these steps.
    """
    torch.manual_seed(seed)
    config = ModelConfig(tokenizer.d_vocab, n_ctx=64, positions="relative", layer_norm=False)
    model = AttentionOnlyTransformer(config)
    model.tokenizer = tokenizer
    init_copying(model)
    windows = Windows(
        stream,
        config.n_ctx,
        32,
        tokenizer.bos,
        config.d_vocab,
        repeat_fraction=((0, 0.9), (max(1, steps * 7 // 12), 0.2)),
        repeat_lengths=(4, 31),
        random_fraction=0.5,
        seed=seed,
    )
    rate = 6e-3 if optimizer == "adamw" else 0.02
    training = TrainConfig(steps, rate, weight_decay=0.0, log_every=50, optimizer=optimizer)
    return model, windows, training


def learn_to_copy(
    corpus: Corpus, steps: int = 600, d_vocab: int = 1024, seed: int = 0, quiet: bool = False
) -> AttentionOnlyTransformer:
    """A two-layer model of the corpus with an induction head, trained by `copying_recipe`.

    corpus: about a million characters, in any language with an alphabet; elsewhere, as in Chinese,
        a letter is up to three tokens, its bytes. Printed are what the text gives, the loss on it
        beside that of token frequencies alone, and how much of random tokens the model copies;
        where that is little, try another seed or more steps (`make bench` measures how many it
        takes). Raises ValueError for a text shorter than one window.
    """
    if not isinstance(corpus, Corpus):
        raise ValueError(f"corpus must be a Corpus, got {corpus!r:.40}: load_corpus(…) makes it")
    tokenizer = train_bpe(corpus.texts, d_vocab)
    stream = token_stream(tokenizer.encode_many(corpus.texts), tokenizer.bos)
    n, n_tokens = corpus.n_characters, len(stream)
    if n_tokens <= 64:  # a window of the recipe
        raise ValueError(f"a text of {n} characters, {n_tokens} tokens, is too short: give more")
    if not quiet:
        counts = stream.bincount()
        p = counts[counts > 0] / n_tokens
        print(
            f"{n:,} characters are {n_tokens:,} tokens, {len(p):,} different ones, which their "
            f"frequencies alone predict with {-(p * p.log()).sum():.2f} nats"
        )
        if n < 100_000:
            print("that is little text: below 100,000 characters it is learned by heart")
        if n < n_tokens:
            print("a letter is often several tokens here, its bytes")
    model, windows, training = copying_recipe(stream, tokenizer, steps, seed)
    train(model, windows, training, quiet=quiet)
    if not quiet:
        repeated = repeated_tokens(tokenizer.d_vocab, 31, 50, tokenizer.bos, seed=seed + 1)
        print(f"of random tokens written twice it copies {copy_accuracy(model, repeated):.0%}")
    return model
