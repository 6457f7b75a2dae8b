"""Train the shipped checkpoints again: `make checkpoints`, or this file with names of checkpoints.

Writes data/checkpoints/<name>/ with weights, tokenizer, hashes and provenance. One thread each.
"""

import argparse
import platform
from importlib.metadata import version

import torch

from aot_helpers import setup
from aot_helpers.checkpoints import save_checkpoint
from aot_helpers.corpora import Windows, load_corpus, repeated_tokens, token_stream
from aot_helpers.heads import copy_losses, induction_scores
from aot_helpers.model import AttentionOnlyTransformer, ModelConfig
from aot_helpers.tokenization import train_bpe
from aot_helpers.train import TrainConfig, next_token_losses, train

D_VOCAB, N_CTX, SEED = 1024, 128, 0
# name -> layers, steps, and steps whose weights are kept beside the last
MODELS = {
    "stories-0l": (0, 1500, []),
    "stories-1l": (1, 3000, []),
    "stories-2l": (
        2,
        4000,
        [0, 100, 200, 300, *range(400, 801, 50), 900, 1000, 1200, 1500, 2000, 2500, 3000],
    ),
}


def training_windows(stream: torch.Tensor, bos: int, seed: int) -> Windows:
    """What every shipped model is trained on: stories, and segments of them or random, twice."""
    return Windows(stream, N_CTX, 16, bos, D_VOCAB, 0.3, (8, 64), random_share=0.5, seed=seed)


def model_config(n_layers: int) -> ModelConfig:
    """The shape of every shipped model, but for its layers."""
    return ModelConfig(D_VOCAB, n_layers, n_ctx=N_CTX, positions="relative", layer_norm=False)


def held_out(corpus, tokenizer) -> dict[str, torch.Tensor]:
    """Texts nobody trained on: windows of stories, beginnings twice, random tokens twice."""
    texts = tokenizer.encode_many(corpus.texts)
    half = (N_CTX - 1) // 2
    starts = torch.stack([tokens[:half] for tokens in texts if len(tokens) >= half][:100])
    bos = torch.full((len(starts), 1), tokenizer.bos)
    return {
        "stories": Windows(token_stream(texts, tokenizer.bos), N_CTX, 200, seed=1)[0][:, :N_CTX],
        "repeated stories": torch.cat([bos, starts, starts], dim=1),
        "repeated random tokens": repeated_tokens(D_VOCAB, half, 100, tokenizer.bos, seed=1),
    }


def measure(model: AttentionOnlyTransformer, texts: dict[str, torch.Tensor]) -> dict:
    """Losses (nats per token) and the best induction score, on held-out texts."""
    with torch.no_grad():
        losses = {
            "stories": next_token_losses(model(texts["stories"]), texts["stories"]).mean().item()
        }
    for name in ("repeated stories", "repeated random tokens"):
        losses[f"{name}, first copy"], losses[f"{name}, second copy"] = copy_losses(
            model, texts[name]
        )
    if model.config.n_layers:
        scores = induction_scores(model, texts["repeated random tokens"])
        losses["best induction score"] = scores.max().item()
    return {name: round(value, 4) for name, value in losses.items()}


def make(name: str) -> None:
    """Train one checkpoint and write it."""
    n_layers, steps, kept = MODELS[name]
    setup(seed=SEED)
    corpus, test = load_corpus("stories"), load_corpus("stories", "test")
    tokenizer = train_bpe(corpus.texts, D_VOCAB)
    stream = token_stream(tokenizer.encode_many(corpus.texts), tokenizer.bos)
    windows, config = training_windows(stream, tokenizer.bos, SEED), model_config(n_layers)
    model = AttentionOnlyTransformer(config)
    weights = {0: _copy(model)} if 0 in kept else {}

    def keep(history):
        if history.steps in (*kept, steps):
            weights[history.steps] = _copy(model)

    training = TrainConfig(steps=steps, log_every=50)
    history = train(model, windows, training, watch=keep)
    losses = measure(model, held_out(test, tokenizer))
    provenance = {
        "command": f"python tools/train_checkpoints.py {name}",
        "corpus": f"stories, {len(stream):,} tokens; {windows.repeat_share:.0%} of the windows are "
        f"segments of {windows.repeat_lengths[0]} to {windows.repeat_lengths[1]} tokens written "
        "twice, half of them random",
        "corpus_sha256": corpus.sha256,
        "seed": SEED,
        "training": {
            "steps": steps,
            "learning_rate": training.learning_rate,
            "batch_size": windows.batch_size,
        },
        "versions": {"python": platform.python_version(), "torch": version("torch")},
        "seconds": round(history.seconds),
        "losses": losses,
        "made_up": "the stories are synthetic text of aot_helpers.stories",
    }
    print(losses, save_checkpoint(name, weights, config, tokenizer, provenance))


def _copy(model) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join(MODELS)}; none: all"
    )
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(MODELS)
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(MODELS)}")
    for each in arguments.names or MODELS:
        make(each)
