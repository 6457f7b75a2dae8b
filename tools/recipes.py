"""The recipes of data/recipes.toml, and what a run trains with: windows, model, texts, steps."""

from dataclasses import dataclass
from functools import partial

import torch

import here  # noqa: F401
from aot_helpers.base import files
from aot_helpers.models.transformer import ModelConfig
from aot_helpers.text.batches import (
    MaskedWindows,
    Windows,
    repeat_segments,
    repeated_tokens,
    token_stream,
)
from aot_helpers.text.tokenization import read_tokenizer, train_bpe, words
from chapters.torus.runs import TorusRun


@dataclass(frozen=True)
class Run:
    """One training run. gpt2_init: every weight starts as a normal number of sd 0.02.

    repeat_fraction of the windows (a number, or a schedule of (from step, fraction)) are segments
    of repeat_lengths tokens written twice, random_fraction of them random. copying_start: weights
    by init_copying, two_sided_start: by init_two_sided. masked: the model sees both sides and
    guesses the 15 % of tokens that it cannot see.
    shipped: the last weights, and those of the steps that are kept; else it is only measured.
    fine: measured every 50 steps until step 4,000, else until step 1,000.
    """

    corpus: str = "stories"
    n_layers: int = 2
    steps: int = 4000
    seed: int = 0
    shipped: bool = True
    kept: tuple[int, ...] = ()
    d_vocab: int = 1024
    d_model: int = 128
    n_heads: int = 4
    d_head: int = 32
    n_ctx: int = 128
    batch_size: int = 16
    learning_rate: float = 4e-3
    repeat_fraction: float | tuple[tuple[int, float], ...] = 0.3
    repeat_lengths: tuple[int, int] = (8, 64)
    smeared_keys: bool = False
    gpt2_init: bool = False
    copying_start: bool = False
    two_sided_start: bool = False
    optimizer: str = "adamw"
    final_fraction: float = 0.1
    random_fraction: float = 0.5
    masked: bool = False
    positions: str = "relative"
    d_mlp: int = 0
    fine: bool = False


def read_recipes(text: str, part: str, kind: type = Run) -> dict:
    """The runs of one part of data/recipes.toml by name: instances of `kind`, in their order."""
    recipes, found = files.tomllib.loads(text), {}

    def spelled_out(recipe: dict) -> dict:
        template = recipe.get("like")
        return (spelled_out(recipes["templates"][template]) if template else {}) | recipe

    for name, recipe in recipes[part].items():
        settings = {key: _tuples(value) for key, value in spelled_out(recipe).items()}
        settings.pop("like", None)
        seeds = settings.pop("seeds", None)
        for seed in seeds or ():
            found[name.format(seed)] = kind(seed=seed, **settings)
        if not seeds:
            found[name] = kind(**settings)
    return found


def _tuples(value):
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


_read = partial(read_recipes, (files.DATA / "recipes.toml").read_text(encoding="utf-8"))
RUNS: dict[str, Run] = _read("runs")
GPT2: dict[str, Run] = _read("gpt2")
TORUS: dict[str, TorusRun] = _read("torus", TorusRun)


def training_windows(stream: torch.Tensor, bos: int, run: Run) -> Windows:
    """What a run is trained on: running text, and segments of it or of random tokens, twice."""
    return Windows(
        stream,
        run.n_ctx,
        run.batch_size,
        bos,
        run.d_vocab,
        run.repeat_fraction,
        run.repeat_lengths,
        random_fraction=run.random_fraction,
        seed=run.seed,
    )


def model_config(run: Run) -> ModelConfig:
    """A run's model. No layer norm, so that sums over paths are exact.

    One that is trained on masked tokens has one token more, the last, which stands for them.
    """
    return ModelConfig(
        run.d_vocab + run.masked,
        run.n_layers,
        run.d_model,
        run.n_heads,
        run.d_head,
        run.n_ctx,
        run.positions,
        layer_norm=False,
        causal=not run.masked,
        d_mlp=run.d_mlp,
        smeared_keys=run.smeared_keys,
    )


def tokenizer_of(run: Run, texts: list[str]):
    """The tokenizer that every run on this corpus shares; trained anew where none is shipped."""
    shipped = sorted((files.DATA / "checkpoints").glob(f"{run.corpus}-*/tokenizer.json"))
    if shipped:
        return read_tokenizer(shipped[0])
    make_tokenizer = words if run.corpus == "planted" else train_bpe
    return make_tokenizer(texts, run.d_vocab)


def held_out(texts: list[str], tokenizer, run: Run) -> dict[str, torch.Tensor]:
    """Texts nobody trained on: windows of text, beginnings of texts twice, random tokens twice."""
    stream = token_stream(tokenizer.encode_many(texts), tokenizer.bos)
    half = (run.n_ctx - 1) // 2
    starts = (stream[: -half - 1] == tokenizer.bos).nonzero()[:100, 0] + 1
    segments = stream[starts[:, None] + torch.arange(half)]
    windows = Windows(stream, run.n_ctx, 200, tokenizer.bos, run.d_vocab, seed=1)
    masked = {"masked text": MaskedWindows(windows, run.d_vocab)[0]} if run.masked else {}
    return masked | {
        "text": windows[0][:, : run.n_ctx],
        "repeated text": repeat_segments(segments, tokenizer.bos),
        "repeated random tokens": repeated_tokens(run.d_vocab, half, 50, tokenizer.bos, seed=1),
    }


def measured_at(run: Run) -> list[int]:
    """Steps at which a run is measured: often while the phase change is due, then rarely."""
    if run.masked:
        return sorted({*range(0, run.steps + 1, 250), run.steps})
    until = 4000 if run.fine else 1000
    steps = {0, *range(50, min(run.steps, until) + 1, 50)}
    steps |= set(range(until + 250, run.steps + 1, 250))
    return sorted({*steps, run.steps})
