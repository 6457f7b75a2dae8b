"""The recipes of the shipped checkpoints and of their controls: corpus, model, windows, steps."""

from dataclasses import dataclass, replace

import torch

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

TRAJECTORY = (0, 100, 200, 300, *range(400, 801, 50), 900, 1000, 1200, 1500, 2000, 2500, 3000)


@dataclass(frozen=True)
class Run:
    """One training run. gpt2_init: every weight starts as a normal number of sd 0.02.

    repeat_share of the windows (a number, or a schedule of (from step, share)) are segments of
    repeat_lengths tokens written twice, random_share of them random. copying_start and
    two_sided_start: see these functions. masked: the model sees both sides and guesses the 15 % of
    tokens that it cannot see.
    kept: steps whose weights are shipped beside the last; None: nothing is shipped.
    fine: measured every 50 steps until step 4,000.
    """

    corpus: str = "stories"
    n_layers: int = 2
    steps: int = 4000
    seed: int = 0
    kept: tuple[int, ...] | None = ()
    d_vocab: int = 1024
    d_model: int = 128
    n_heads: int = 4
    d_head: int = 32
    n_ctx: int = 128
    batch_size: int = 16
    learning_rate: float = 4e-3
    repeat_share: float | tuple[tuple[int, float], ...] = 0.3
    repeat_lengths: tuple[int, int] = (8, 64)
    smeared_keys: bool = False
    gpt2_init: bool = False
    copying_start: bool = False
    two_sided_start: bool = False
    optimizer: str = "adamw"
    final_share: float = 0.1
    random_share: float = 0.5
    masked: bool = False
    positions: str = "relative"
    d_mlp: int = 0
    fine: bool = False


PLANTED = Run(
    "planted", 1, 3000, d_vocab=98, d_model=64, d_head=16, n_ctx=64, batch_size=32,
    learning_rate=6e-3, repeat_share=0.0,
)  # fmt: skip


DOCSTRINGS = Run("docstrings", 1, 5000, learning_rate=6e-3, repeat_share=0.5)


# Repeats first, text later: without that, and without the start, reviews give no induction head.
# With text from step 600 on, when heads have just formed, one of two seeds lost them again.
REVIEWS = Run(
    "imdb", steps=4000, d_vocab=2048, learning_rate=0.02, repeat_share=((0, 0.9), (1000, 0.15)),
    repeat_lengths=(4, 63), copying_start=True, optimizer="muon",
)  # fmt: skip


# A corpus of 600,000 tokens, which is read five times.
ARTICLES = Run(
    "wikitext", 1, 1500, d_vocab=2048, learning_rate=0.02, repeat_share=0.0, optimizer="muon"
)


# Where half of the repeats are text, or the heads learn by Muon, nothing copies in 2,000 steps; nor
# in 3,000 where the segments are 8 to 64 tokens long. Without the start some seeds copy after 1,250
# steps and others not after 2,000.
MASKED = Run(
    steps=1000, n_heads=2, d_head=64, repeat_share=0.8, repeat_lengths=(4, 42), random_share=1.0,
    masked=True, two_sided_start=True,
)  # fmt: skip


MASKED_WIDE = replace(MASKED, steps=1400, n_layers=4, n_heads=8, d_head=16)


CONTROL = Run(steps=1500, kept=None)


# The framework paper's own positions: sinusoids that only queries and keys read.
SHORTFORMER = Run(positions="shortformer")


RUNS = {
    "stories-0l": Run(n_layers=0),
    "stories-1l": Run(n_layers=1),
    "stories-2l": Run(kept=TRAJECTORY),
    **{f"stories-2l-seed{seed}": Run(seed=seed) for seed in (1, 2, 3, 4)},
    **{f"planted-1l{s}": replace(PLANTED, seed=i) for i, s in enumerate(("", "-seed1", "-seed2"))},
    **{
        f"planted-1l-2heads{s}": replace(PLANTED, n_heads=2, seed=i)
        for i, s in enumerate(("", "-seed1", "-seed2"))
    },
    "planted-2l": replace(PLANTED, n_layers=2, repeat_share=0.3, repeat_lengths=(4, 31)),
    "docstrings-1l": DOCSTRINGS,
    "docstrings-2l": replace(DOCSTRINGS, n_layers=2),
    **{
        f"docstrings-2l-seed{s}": replace(DOCSTRINGS, n_layers=2, seed=s, fine=True) for s in (1, 2)
    },
    "imdb-1l": replace(REVIEWS, n_layers=1),
    "imdb-2l": replace(REVIEWS, kept=(0,)),
    **{f"imdb-2l-seed{seed}": replace(REVIEWS, seed=seed) for seed in (1, 2)},
    "wikitext-1l": ARTICLES,
    "wikitext-1l-wide": replace(ARTICLES, d_model=256, n_heads=8),
    **{f"masked-2x2{s}": replace(MASKED, seed=i) for i, s in enumerate(("", "-seed1", "-seed2"))},
    **{
        f"masked-4x8{s}": replace(MASKED_WIDE, seed=i)
        for i, s in enumerate(("", "-seed1", "-seed2"))
    },
    "masked-2x2-no-repeats": replace(MASKED, repeat_share=0.0),
    "masked-4x8-no-repeats": replace(MASKED_WIDE, repeat_share=0.0),
    # Eight layers have not learned to copy after 2,000 steps: measured and not shipped.
    "masked-8x8": replace(MASKED_WIDE, steps=2000, n_layers=8, kept=None),
    **{
        f"masked-2x2-no-start-seed{s}": replace(
            MASKED, steps=2000, seed=s, two_sided_start=False, kept=None
        )
        for s in (0, 1, 2)
    },
    "stories-1l-smeared": Run(n_layers=1, smeared_keys=True),
    "stories-2l-fixed-length": replace(CONTROL, repeat_lengths=(32, 32), kept=()),
    # The run of notebook 09's tour in five seeds, and controls: measured and not shipped.
    **{
        f"stories-2l-muon-seed{s}": Run(
            steps=450,
            seed=s,
            kept=None,
            n_ctx=65,
            learning_rate=0.02,
            repeat_lengths=(8, 32),
            optimizer="muon",
            final_share=0.4,
        )
        for s in (0, 1, 2, 3, 4)
    },
    **{
        f"stories-2l-no-repeats{s}": replace(
            CONTROL, repeat_share=0.0, seed=i, kept=None if i else ()
        )
        for i, s in enumerate(("", "-seed1", "-seed2"))
    },
    **{
        f"stories-2l-smeared{s}": replace(CONTROL, smeared_keys=True, seed=i)
        for i, s in enumerate(("", "-seed1", "-seed2"))
    },
    **{
        f"stories-2l-shortformer{s}": replace(SHORTFORMER, seed=i, kept=None if i else ())
        for i, s in enumerate(("", "-seed1", "-seed2"))
    },
    # Positions that stay in the stream, where heads can read them out: the control of shortformer.
    "stories-2l-standard": replace(SHORTFORMER, positions="standard", kept=()),
    **{f"2-layer-1500-steps-seed{s}": replace(CONTROL, seed=s) for s in (0, 1, 2, 3, 4)},
    **{f"3-layer-seed{s}": replace(CONTROL, n_layers=3, seed=s) for s in (0, 1, 2)},
    **{f"2-layer-mlp-seed{s}": replace(CONTROL, d_mlp=512, seed=s) for s in (0, 1, 2)},
    **{f"gpt2-init-seed{s}": replace(CONTROL, gpt2_init=True, seed=s) for s in (0, 1, 2)},
    **{f"0-layer-seed{s}": Run(n_layers=0, seed=s, kept=None) for s in (1, 2)},
    **{f"1-layer-seed{s}": Run(n_layers=1, seed=s, kept=None) for s in (1, 2)},
    **{
        f"1-layer-smeared-seed{s}": Run(n_layers=1, smeared_keys=True, seed=s, kept=None)
        for s in (1, 2)
    },
    **{f"fixed-length-seed{s}": replace(CONTROL, repeat_lengths=(32, 32), seed=s) for s in (1, 2)},
}


def training_windows(stream: torch.Tensor, bos: int, run: Run) -> Windows:
    """What a run is trained on: running text, and segments of it or of random tokens, twice."""
    return Windows(
        stream, run.n_ctx, run.batch_size, bos, run.d_vocab, run.repeat_share, run.repeat_lengths,
        random_share=run.random_share, seed=run.seed,
    )  # fmt: skip


def model_config(run: Run) -> ModelConfig:
    """A run's model. No layer norm, so that sums over paths are exact.

    One that is trained on masked tokens has one token more, the last, which stands for them.
    """
    return ModelConfig(
        run.d_vocab + run.masked, run.n_layers, run.d_model, run.n_heads, run.d_head, run.n_ctx,
        run.positions, layer_norm=False, causal=not run.masked, d_mlp=run.d_mlp,
        smeared_keys=run.smeared_keys,
    )  # fmt: skip


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
