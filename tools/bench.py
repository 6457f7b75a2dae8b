"""Measure how soon a two-layer model learns to copy: `make bench`, about ten minutes.

On three texts, from random weights, by Muon and by AdamW. Results: data/results/bench.json.
"""

import json
import random
import time
from dataclasses import replace

import torch

import here  # noqa: F401
from aot_helpers import setup
from aot_helpers.base import files
from aot_helpers.base.files import write_atomically
from aot_helpers.models.losses import copy_accuracy, copy_losses
from aot_helpers.text.batches import repeat_segments, repeated_tokens, token_stream
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.tokenization import train_bpe
from aot_helpers.training.copying import copying_recipe
from aot_helpers.training.train import train
from publish import describe_machine

# Thresholds: the second copy's loss over the first's, and the fraction of random tokens copied.
RATIO, COPIED, SEEDS = 0.6, 0.9, (0, 1, 2)


def invented_text(letters: str, n_characters: int, seed: int = 0) -> str:
    """A language that nobody speaks: 3,000 words of random syllables, each with 30 followers."""
    draw, n_words = random.Random(seed), 3000
    syllables = ["".join(draw.sample(letters, draw.choice((1, 2, 2, 3)))) for _ in range(200)]
    words = ["".join(draw.choices(syllables, k=draw.choice((1, 2, 2, 3)))) for _ in range(n_words)]
    frequency = [1 / (rank + 3) for rank in range(n_words)]
    followers = [draw.choices(range(n_words), frequency, k=30) for _ in range(n_words)]
    sentences, length, word = [], 0, 0
    while length < n_characters:
        sentence = []
        for _ in range(draw.randint(4, 15)):
            word = draw.choice(followers[word])
            sentence.append(words[word])
        sentences.append(" ".join(sentence).capitalize() + draw.choice((".", ".", "?", ";\n")))
        length += len(sentences[-1]) + 1
    return " ".join(sentences)


def until_it_copies(stream, tokenizer, twice, seed: int, optimizer: str, threads: int) -> dict:
    """One training run until both thresholds are met: step and seconds of each, or None."""
    model, windows, config = copying_recipe(stream, tokenizer, seed=seed, optimizer=optimizer)
    config = replace(config, log_every=25)
    torch.set_num_threads(threads)
    randoms = repeated_tokens(tokenizer.d_vocab, twice.shape[1] // 2, 100, tokenizer.bos, seed=5)
    found = {"seed": seed, "second copy": None, "random tokens": None}
    looked, started = 0.0, time.perf_counter()

    def look(history):
        nonlocal looked
        now = time.perf_counter()
        first, second = copy_losses(model, twice)
        copied = copy_accuracy(model, randoms)
        at = [history.steps, round(now - started - looked, 1)]
        reached = {"second copy": second <= RATIO * first, "random tokens": copied >= COPIED}
        found.update({name: found[name] or (at if met else None) for name, met in reached.items()})
        found["last"] = {"step": at[0], "ratio": second / first, "copied": copied}
        looked += time.perf_counter() - now
        if found["second copy"] and found["random tokens"]:
            raise KeyboardInterrupt  # what the stop button does

    train(model, windows, config, watch=look, quiet=True)
    return found


def phase_change() -> dict:
    """Steps and seconds, from random weights, until a model copies what it has read once."""
    rows = {
        "what": f"[step, seconds] at which the loss of a held-out text's second copy is <= {RATIO} "
        f"x the first, and at which >= {COPIED} of random tokens written twice are copied; looked "
        "at every 25 steps; seconds with the making of batches, without the looking"
    }
    plan = [("muon", threads, seed) for threads in (1, 2) for seed in SEEDS]
    texts = {name: "\n".join(load_corpus(name).texts) for name in ("stories", "docstrings")}
    greek = "αβγδεζηθικλμνξοπρστυφχψω"
    texts["invented language in Greek letters"] = invented_text(greek, 1_100_000)
    for name, text in texts.items():
        tokenizer = train_bpe([text[:1_000_000]])
        stream, held_out = (
            token_stream(tokenizer.encode_many([part]), tokenizer.bos)
            for part in (text[:1_000_000], text[1_000_000:1_100_000])
        )
        starts = torch.arange(100)[:, None] * ((len(held_out) - 31) // 100)
        twice = repeat_segments(held_out[starts + torch.arange(31)], tokenizer.bos)
        rows[f"{name}, 1 MB"] = found = {}
        for optimizer, threads, seed in [*plan, ("adamw", 2, SEEDS[0])]:
            run = until_it_copies(stream, tokenizer, twice, seed, optimizer, threads)
            found.setdefault(f"{optimizer}, {threads} threads", []).append(run)
            print(f"  {name}, {optimizer}, {threads} threads: {run}", flush=True)
    return rows


def main() -> None:
    setup()
    measured = {"machine": describe_machine(), **phase_change()}
    text = json.dumps({"phase_change": measured}, indent=1) + "\n"
    write_atomically(files.DATA / "results" / "bench.json", text.encode())


if __name__ == "__main__":
    main()
