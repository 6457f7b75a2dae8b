"""Measure training, the phase change, a busy neighbor and skip-trigram tables: `make bench`.

About 15 minutes on a quiet machine; `tools/bench.py phase_change` (or another part) runs a part, on
as many threads as BENCH_THREADS says (default 2). Results go to data/results/bench.json.
"""

import itertools
import json
import multiprocessing
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

import here  # noqa: F401
from aot_helpers import setup
from aot_helpers.base import files
from aot_helpers.base.files import read_json, write_atomically
from aot_helpers.models.losses import copy_accuracy, copy_losses
from aot_helpers.models.transformer import POSITIONS, AttentionOnlyTransformer, ModelConfig
from aot_helpers.reading.factored import FactoredMatrix
from aot_helpers.text.batches import repeat_segments, repeated_tokens, token_stream
from aot_helpers.text.corpora import load_corpus
from aot_helpers.text.tokenization import train_bpe
from aot_helpers.training.config import TrainConfig
from aot_helpers.training.copying import copying_recipe
from aot_helpers.training.optimizers import make_optimizer
from aot_helpers.training.train import train
from evidence.support.nb07 import top_triples
from publish import describe_machine

THREADS = int(os.environ.get("BENCH_THREADS", "2"))
SHAPES = {  # d_model, heads, n_ctx, batch, d_vocab
    "small": (128, 4, 128, 16, 1024),
    "large": (256, 8, 256, 16, 4096),
}
ROUNDS, SECONDS_PER_TURN = 7, 2.0
# Phase change: loss of the second copy <= RATIO x the first, share of random tokens >= COPIED.
RATIO, COPIED, SEEDS = 0.6, 0.9, (0, 1, 2)
# Skip-trigram tables at the size of GPT-2's vocabulary and of its heads.
TABLE = {"d_vocab": 50_257, "d_head": 64, "n_heads": 12, "k": 1000}


class PlainGPT(nn.Module):
    """Two attention layers as nanoGPT writes them: one product for q, k, v; biases; no MLP.

    Its unembedding is not tied to its embedding, as ours is not.
    """

    def __init__(self, d_model, n_heads, n_ctx, d_vocab):
        super().__init__()
        self.n_heads = n_heads
        self.token, self.position = nn.Embedding(d_vocab, d_model), nn.Embedding(n_ctx, d_model)
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3))
        self.read = nn.ModuleList(nn.Linear(d_model, 3 * d_model) for _ in range(2))
        self.write = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(2))
        self.unembed = nn.Linear(d_model, d_vocab, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        for norm, read, write in zip(self.norms, self.read, self.write, strict=False):
            parts = read(norm(x)).chunk(3, dim=-1)
            q, k, v = (part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for part in parts)
            z = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + write(z.transpose(1, 2).flatten(2))
        return self.unembed(self.norms[-1](x))


def contestants(d_model, n_heads, n_ctx, d_vocab) -> dict[str, nn.Module]:
    """nanoGPT's layers, and ours with each kind of positions."""
    found = {"as nanoGPT, without MLPs": PlainGPT(d_model, n_heads, n_ctx, d_vocab)}
    for positions in POSITIONS:
        config = ModelConfig(d_vocab, 2, d_model, n_heads, d_model // n_heads, n_ctx, positions)
        found[f"ours, {positions}"] = AttentionOnlyTransformer(config)
    return found


def training_step(model, tokens, compiled: bool):
    """A function that does one optimization step; the same loss and optimizer for everyone."""
    if isinstance(model, AttentionOnlyTransformer):
        optimizer = make_optimizer(model, TrainConfig())
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), fused=True)

    def loss_of(tokens):
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    loss_of = torch.compile(loss_of, dynamic=False) if compiled else loss_of

    def step():
        loss_of(tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def seconds_each(function, seconds: float) -> float:
    """Mean seconds of a call, over calls that take about `seconds` together."""
    calls, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        function()
        calls += 1
    return (time.perf_counter() - start) / calls


def speed(shape) -> dict:
    """Tokens per second of every contestant at one shape, measured in turns."""
    d_model, n_heads, n_ctx, batch, d_vocab = shape
    torch.manual_seed(0)
    tokens = torch.randint(d_vocab, (batch, n_ctx + 1))
    models, turns, warm_up = contestants(d_model, n_heads, n_ctx, d_vocab), {}, {}
    for compiled, (name, model) in itertools.product((False, True), models.items()):
        name += ", compiled" if compiled else ""
        turns[name] = training_step(model, tokens, compiled)
        start = time.perf_counter()
        turns[name]()
        warm_up[name] = time.perf_counter() - start
    seconds = {name: [] for name in turns}
    for _, (name, step) in itertools.product(range(ROUNDS), turns.items()):
        seconds[name].append(seconds_each(step, SECONDS_PER_TURN))
    rows = {}
    for name, times in seconds.items():
        # The median of the ratios within a round: the machine's speed drifts.
        ratios = [a / b for a, b in zip(seconds["as nanoGPT, without MLPs"], times, strict=True)]
        rows[name] = {
            "tokens_per_second": round(batch * n_ctx / statistics.median(times)),
            "times_nanogpt": round(statistics.median(ratios), 2),
            "seconds_of_first_step": round(warm_up[name], 1),
        }
        print(f"  {name:32s} {rows[name]}", flush=True)
    return {"shape": shape, "contestants": rows}


def invented_text(letters: str, n_characters: int = 1_000_000, seed: int = 0) -> str:
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
    config = replace(config, log_every=25, bf16=False, threads=threads)
    randoms = repeated_tokens(tokenizer.d_vocab, twice.shape[1] // 2, 100, tokenizer.bos, seed=5)
    found = {"seed": seed, "second copy": None, "random tokens": None}
    looked, started = 0.0, time.perf_counter()

    def look(history):
        nonlocal looked
        now = time.perf_counter()
        first, second = copy_losses(model, twice)
        copied, at = (
            copy_accuracy(model, randoms),
            [history.steps, round(now - started - looked, 1)],
        )
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
    texts["invented language in Greek letters"] = invented_text(
        "αβγδεζηθικλμνξοπρστυφχψω", 1_100_000
    )
    for name, text in texts.items():
        tokenizer = train_bpe([text[:1_000_000]])
        stream, held_out = (
            token_stream(tokenizer.encode_many([part]), tokenizer.bos)
            for part in (text[:1_000_000], text[1_000_000:1_100_000])
        )
        starts = torch.arange(100)[:, None] * ((len(held_out) - 31) // 100)
        twice = repeat_segments(held_out[starts + torch.arange(31)], tokenizer.bos)
        rows[f"{name}, 1 MB"] = found = {}
        for optimizer, threads, seed in [*plan, ("adamw", THREADS, SEEDS[0])]:
            run = until_it_copies(stream, tokenizer, twice, seed, optimizer, threads)
            found.setdefault(f"{optimizer}, {threads} threads", []).append(run)
            print(f"  {name}, {optimizer}, {threads} threads: {run}", flush=True)
    return rows


def in_a_process(function, *arguments):
    """What a function returns that a new process runs."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def copying_seconds(threads: int, steps: int) -> float:
    """Seconds of steps as `learn_to_copy` takes them, on a small text."""
    setup(threads=threads)
    text = [invented_text("abcdefghijklm", 50_000)]
    tokenizer = train_bpe(text)
    stream = token_stream(tokenizer.encode_many(text), tokenizer.bos)
    model, windows, config = copying_recipe(stream, tokenizer, steps=steps)
    start = time.perf_counter()
    train(model, windows, replace(config, bf16=False, threads=threads), quiet=True)
    return round(time.perf_counter() - start, 1)


def busy_neighbor(steps: int = 30) -> dict:
    """How long training takes beside a process that keeps a core busy."""
    rows = {"what": f"seconds of {steps} steps of learn_to_copy while a core is busy otherwise"}
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as neighbor:
        for policy, threads in itertools.product(("ACTIVE", "PASSIVE"), (1, 2)):
            os.environ["OMP_WAIT_POLICY"] = policy  # a new process reads it as it imports torch
            name = f"{threads} threads, {policy.lower()}"
            rows[name] = in_a_process(copying_seconds, threads, steps)
            print(f"  {name}: {rows[name]} s", flush=True)
        neighbor.kill()
    return rows


def table_of_a_head(seed: int, naive: bool) -> dict:
    """Seconds and peak memory (GB above the weights) of a random head's table: the hardest case.

    naive: the first step of a table without blocks of rows, the largest of each row of the QK.
    """
    setup(threads=THREADS)
    generator, scale = torch.Generator().manual_seed(seed), TABLE["d_head"] ** 0.5
    shape = (TABLE["d_vocab"], TABLE["d_head"])
    a, b, c, d = (torch.randn(shape, generator=generator) for _ in range(4))
    qk, ov = FactoredMatrix(a / scale, b.T), FactoredMatrix(c / scale, d.T)
    qk.rows(torch.arange(8))  # torch's own memory is there before
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    rows = (qk.A @ qk.B).amax(dim=1) if naive else top_triples(qk, ov, TABLE["k"], torch.arange(50))
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    n = len(rows if naive else rows.value)
    return {"seconds": round(seconds, 1), "peak_gb": round(peak / 2**20, 2), "n": n}


def skip_trigrams() -> dict:
    """Tables of every head of a layer with random weights, and the naive product for one head."""
    plan = {f"streaming, head {seed}": (seed, False) for seed in range(TABLE["n_heads"])}
    plan["naive product, one head's QK alone"] = (0, True)
    rows = {"what": {**TABLE, "weights": "random"}}
    for name, (seed, naive) in plan.items():
        rows[name] = in_a_process(table_of_a_head, seed, naive)
        print(f"  {name}: {rows[name]}", flush=True)
    return rows


PARTS = {
    "small": lambda: speed(SHAPES["small"]),
    "large": lambda: speed(SHAPES["large"]),
    "phase_change": phase_change,
    "busy_neighbor": busy_neighbor,
    "skip_trigrams": skip_trigrams,
}


def main(names: list[str]) -> None:
    """Measure the parts that are named, or all, and write them beside the others' last results."""
    if unknown := set(names) - set(PARTS):
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    setup(threads=THREADS)
    path = files.DATA / "results" / "bench.json"
    results = read_json(path) if names and path.is_file() else {}
    for name in names or PARTS:
        print(f"{name}, {THREADS} threads")
        results[name] = {"machine": {**describe_machine(), "threads": THREADS}, **PARTS[name]()}
        write_atomically(path, (json.dumps(results, indent=1) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1:])
